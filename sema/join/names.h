// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The names of a kernel or plan, names that nothing else has, and expressions that say the same.
#pragma once

#include "frontend/ast/ast.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace dtile::join {

/// Whether the file of a declaration gives a name a meaning.
using IsOfModule = llvm::function_ref<bool(llvm::StringRef)>;

struct Names {
  /// Compile-time parameters, parameters, sizes, and what is named before the roles.
  llvm::StringSet<> top;
  /// Names of positions, of sizes only: `M` of `T[M, K]`.
  llvm::StringSet<> sizes;
  /// What bodies name.
  llvm::StringSet<> local;
  /// All of these, names of roles, and whatever is mentioned.
  llvm::StringSet<> all;

  [[nodiscard]] bool declares(llvm::StringRef name) const {
    return top.contains(name) || local.contains(name);
  }
};
[[nodiscard]] Names namesOf(const ast::KernelDecl &kernel, IsOfModule isOfModule);
[[nodiscard]] Names namesOf(const ast::PlanDecl &plan, IsOfModule isOfModule);

/// Every name that a role, or an expression, mentions.
[[nodiscard]] llvm::StringSet<> namesIn(const ast::Role &role);
[[nodiscard]] llvm::StringSet<> namesIn(const ast::Expr &e);

/// The values that an expression names, in the order of its text: no functions and no axes.
[[nodiscard]] llvm::SmallVector<ast::Ident, 2> valueNamesIn(const ast::Expr &e);

/// Gives names that were not taken before.
class Fresh {
public:
  explicit Fresh(ast::Arena &arena) : arena_(&arena) {}
  void take(const llvm::StringSet<> &names) {
    for (const auto &name : names)
      taken_.insert(name.first());
  }
  void take(llvm::StringRef name) { taken_.insert(name); }
  [[nodiscard]] bool isTaken(llvm::StringRef name) const { return taken_.contains(name); }
  /// `wanted`, or `wanted_2` and so on.
  llvm::StringRef make(llvm::StringRef wanted);

private:
  ast::Arena *arena_;
  llvm::StringSet<> taken_;
};

/// What names stand for: of sizes what they equal, of `let`s their values.
using Values = llvm::StringMap<const ast::Expr *>;

/// Whether two expressions are the same text once names are replaced by their values.
[[nodiscard]] bool isSame(const ast::Expr *a, const ast::Expr *b, const Values &values);

} // namespace dtile::join
