// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names and what they stand for: block scopes over one flat table, so that lookup costs the same at
// any depth.
#pragma once

#include "sema/tree/typed_ast.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Allocator.h"

namespace dtile::sema {

struct ModuleInfo;

/// What a name stands for.
struct Symbol {
  enum class Kind : uint8_t {
    Local,
    Param,
    Size,
    Generic,
    Const,
    Fn,
    Kernel,
    Plan,
    /// One that is not joined; else it is a Kernel.
    Overlap,
    Module
  };
  Kind kind = Kind::Local;
  llvm::StringRef name;
  SourceRange range;
  /// Local.
  Variable *var = nullptr;
  /// Local: the value of a `let` that is known at compile time, or null.
  TExpr *constant = nullptr;
  /// Param, Size: its number.
  unsigned index = 0;
  /// Generic.
  GenericValue value;
  /// Const, Fn, Kernel, Plan, Overlap.
  const ast::Decl *decl = nullptr;
  /// Module: the imported one. Others: the one that holds the declaration.
  ModuleInfo *module = nullptr;
  bool used = false;
  /// Local: the `let` that makes it unassignable; invalid for other things.
  SourceRange introducer;
  /// How many blocks are around it; the scope's own.
  unsigned depth = 0;
};

/// The local names of one body.
class Scope {
public:
  void push() { frames_.emplace_back(); }
  /// Leaves the innermost block; `leave` sees its names in order.
  void pop(llvm::function_ref<void(Symbol &)> leave);

  /// The innermost meaning of a name, or null.
  [[nodiscard]] Symbol *lookup(llvm::StringRef name) const;
  [[nodiscard]] bool isInnermost(const Symbol &symbol) const {
    return symbol.depth == frames_.size();
  }
  /// Hides an outer meaning until the block ends.
  Symbol &declare(Symbol symbol);

  /// Every name that is visible.
  void forEachName(llvm::function_ref<void(llvm::StringRef)> visit) const;

private:
  struct Entry {
    Symbol *symbol;
    Symbol *hidden;
  };
  std::vector<std::vector<Entry>> frames_;
  llvm::StringMap<Symbol *> names_;
  llvm::SpecificBumpPtrAllocator<Symbol> symbols_;
};

/// Finds the likeliest meant name among candidates: the nearest by edit distance, if near enough.
class SpellingSuggestion {
public:
  explicit SpellingSuggestion(llvm::StringRef written) : written_(written) {}
  void consider(llvm::StringRef candidate);
  /// Empty when nothing is near.
  [[nodiscard]] const std::string &best() const { return best_; }

private:
  llvm::StringRef written_;
  std::string best_;
  unsigned distance_ = ~0u;
};

} // namespace dtile::sema
