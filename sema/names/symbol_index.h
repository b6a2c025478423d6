// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each name in the text of a program means: definitions, and where they are named. Made from
// the syntax trees alone, so that texts with mistakes have one, too.
#pragma once

#include "sema/sema.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>

namespace dtile::sema {

/// What a definition defines.
enum class NameKind : uint8_t {
  Module,
  Const,
  Fn,
  Kernel,
  Plan,
  Overlap,
  Role,
  Generic,
  Param,
  /// A size that a signature binds: `M` of `x: in T[M]`.
  Size,
  Let,
  Var,
  /// What a space or a loop runs over.
  Index
};

struct Definition {
  NameKind kind = NameKind::Let;
  llvm::StringRef name;
  /// The name where it is declared.
  SourceRange range;
  /// All of its declaration.
  SourceRange whole;
  /// Where it can be named without a module; invalid where that is all of its file, or nowhere.
  SourceRange visible;
  /// The declaration that it is, or the one that it is in.
  const ast::Decl *decl = nullptr;
  /// The comment before a declaration, or at the top of a module.
  llvm::StringRef doc;
  /// Module: the imported file, where it was found.
  std::optional<FileId> file;
};

/// A place where a definition is named; its own among them.
struct Occurrence {
  SourceRange range;
  unsigned definition = 0;
};

class SymbolIndex {
public:
  /// Of all files of a program.
  explicit SymbolIndex(const Program &program);

  [[nodiscard]] llvm::ArrayRef<Definition> definitions() const { return definitions_; }
  /// In the order of their places.
  [[nodiscard]] llvm::ArrayRef<Occurrence> occurrences() const { return occurrences_; }
  /// The one that a position is in, or after whose last character it is; null for none.
  [[nodiscard]] const Occurrence *at(SourceLoc loc) const;
  /// Every definition in the declaration around a position that a name there can mean, inner ones
  /// first; what the file declares is forEachMember's.
  void forEachVisible(SourceLoc loc, llvm::function_ref<void(const Definition &)> visit) const;
  /// What an imported module declares.
  void forEachMember(FileId module, llvm::function_ref<void(const Definition &)> visit) const;
  /// The definition of a declaration of a file; null where it has no name.
  [[nodiscard]] const Definition *of(const ast::Decl *decl) const;

private:
  class Builder;
  std::vector<Definition> definitions_;
  std::vector<Occurrence> occurrences_;
  std::map<const ast::Decl *, unsigned> ofDecl_;
  /// Names that files declare, in order.
  std::map<FileId, std::vector<unsigned>> members_;
};

} // namespace dtile::sema
