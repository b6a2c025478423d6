// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a joined kernel is put together from. Private to sema/join.
#pragma once

#include "sema/join/importer.h"

namespace dtile::join {

struct Assembly {
  explicit Assembly(Joint &joint) : joint(joint), roleNames(joint.arena) {}

  /// The number of the compile-time parameter that an argument is for; nothing after reporting.
  [[nodiscard]] std::optional<size_t> genericOf(const ast::Arg &arg, size_t place,
                                                llvm::ArrayRef<ast::GenericParam> declared,
                                                llvm::StringRef name);
  /// Values that are given become defaults.
  void give(llvm::MutableArrayRef<ast::GenericParam> params, llvm::ArrayRef<ast::Arg> given,
            llvm::ArrayRef<ast::GenericParam> declared, llvm::StringRef name);
  /// Compile-time parameters of a stage that do not follow from others.
  void addGenerics(const Stage &stage, Importer &importer);
  /// What stands before the roles, of a kernel or plan of that name.
  void addHead(llvm::StringRef of, llvm::ArrayRef<ast::Stmt *> clauses,
               llvm::ArrayRef<ast::Stmt *> prologue, Importer &importer);
  /// A role of a stage, in the names of the joined kernel.
  void addRole(const Stage &stage, const ast::Role &written, ast::Role *role);
  void publish(const ast::Param &param, const ast::Param &written, bool isJoined);

  /// Derives signals, and puts the kernel together; null after reporting. The first `kept`
  /// compile-time parameters stay, used or not.
  ast::KernelDecl *finish(const ast::Ident &name, llvm::StringRef doc, SourceRange range,
                          size_t kept);

  Joint &joint;
  Fresh roleNames;
  llvm::SmallVector<ast::GenericParam, 8> generics;
  llvm::SmallVector<ast::Param, 8> params;
  llvm::SmallVector<ast::Stmt *, 4> clauses;
  llvm::SmallVector<ast::Stmt *, 4> prologue;
  llvm::SmallVector<Body, 4> bodies;
  llvm::SmallVector<Published, 4> published;
  llvm::SmallVector<ast::ExpectStmt *, 2> ensures;

private:
  [[nodiscard]] bool isMeshAgain(const ast::Stmt &clause, llvm::StringRef of) const;
  void dropUnused(size_t kept);
  ast::GenericParam elementType(const ast::Ident &name);
};

/// Whether the file of a declaration gives a name a meaning.
[[nodiscard]] std::function<bool(llvm::StringRef)> isOfModule(const Home &home);
/// Whether a plan can be joined: it has no signals. False after reporting.
[[nodiscard]] bool isJoinable(Joint &joint, const PlanSource &source);
/// Whether the axes along which plans go are those of the mesh among these clauses; false after
/// reporting.
[[nodiscard]] bool checkAxes(Joint &joint, llvm::ArrayRef<ast::Stmt *> clauses);
[[nodiscard]] bool isSignal(const ast::Param &param);
/// The plan's name in the joined kernel.
[[nodiscard]] llvm::StringRef nameIn(const Stage &stage, llvm::StringRef name);

} // namespace dtile::join
