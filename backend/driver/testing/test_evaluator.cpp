// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements of tests. Ranks run in lockstep; an `if` may run its branches on some ranks only, but
// whatever involves all ranks (launches, collectives, loop bounds) must be reached by all.
#include "backend/driver/testing/test_evaluator.h"

#include "frontend/ast/mesh.h"
#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

namespace dtile::driver {

TestEvaluator::TestEvaluator(Session &session, KernelLibrary &library, Executor &executor,
                             const std::vector<LaunchRecord> *other, llvm::StringRef otherName)
    : session_(session), library_(library), executor_(executor), other_(other),
      otherName_(otherName), ranks_(executor.ranks()), active_(ranks_, 1) {}

bool TestEvaluator::run(const ast::BlockStmt &body) {
  meshOfTest_ = ast::meshCalledIn(body, [&](const ast::Expr &callee) {
    return library_.program().findKernel(session_.sources.text(callee.range));
  });
  const bool ended = runBlock(body);
  return ended && !failed_;
}

// Shared.

bool TestEvaluator::allActive() const {
  return llvm::all_of(active_, [](char active) { return active != 0; });
}

int TestEvaluator::leader() const {
  for (int rank = 0; rank < ranks_; ++rank)
    if (isActive(rank))
      return rank;
  DTILE_UNREACHABLE("no rank is active");
}

std::nullopt_t TestEvaluator::fail(SourceRange range, const llvm::Twine &message) {
  failed_ = true;
  session_.diagnostics.report(range, diag::test_cannot_evaluate, message.str());
  return std::nullopt;
}

std::nullopt_t TestEvaluator::fail(SourceRange range, llvm::Error error) {
  failed_ = true;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &one) {
    const bool isMemory = one.convertToErrorCode() == std::errc::not_enough_memory;
    session_.diagnostics.report(
        range, isMemory ? diag::array_too_large : diag::test_cannot_evaluate, one.message());
  });
  return std::nullopt;
}

bool TestEvaluator::requireAllRanks(SourceRange range, llvm::StringRef what) {
  if (allActive())
    return true;
  failed_ = true;
  session_.diagnostics.report(range, diag::test_not_uniform, what,
                              "an enclosing `if` leaves out some ranks");
  return false;
}

void TestEvaluator::declare(const ast::Ident &name, TestValue value, bool isMutable) {
  if (name.name == "_")
    return;
  scopes_.back()[name.name.str()] = {std::move(value), isMutable};
}

TestEvaluator::Variable *TestEvaluator::find(llvm::StringRef name) {
  for (Scope &scope : llvm::reverse(scopes_))
    if (auto it = scope.find(name.str()); it != scope.end())
      return &it->second;
  return nullptr;
}

// Statements.

bool TestEvaluator::runBlock(const ast::BlockStmt &block) {
  scopes_.emplace_back();
  const llvm::scope_exit leave([&] { scopes_.pop_back(); });
  for (const ast::Stmt *stmt : block.statements)
    if (!runStatement(*stmt))
      return false;
  return true;
}

bool TestEvaluator::runStatement(const ast::Stmt &stmt) {
  if (watchdog_)
    watchdog_->at(stmt.range);
  switch (stmt.kind) {
  case ast::NodeKind::LetStmt:
    return runLet(llvm::cast<ast::LetStmt>(stmt));
  case ast::NodeKind::VarStmt:
    return runVar(llvm::cast<ast::VarStmt>(stmt));
  case ast::NodeKind::AssignStmt:
    return runAssign(llvm::cast<ast::AssignStmt>(stmt));
  case ast::NodeKind::ExprStmt:
    return evaluate(*llvm::cast<ast::ExprStmt>(stmt).value).has_value();
  case ast::NodeKind::ForStmt:
    return runFor(llvm::cast<ast::ForStmt>(stmt));
  case ast::NodeKind::WhileStmt:
    return runWhile(llvm::cast<ast::WhileStmt>(stmt));
  case ast::NodeKind::IfStmt:
    return runIf(llvm::cast<ast::IfStmt>(stmt));
  case ast::NodeKind::ExpectStmt:
    return runExpect(llvm::cast<ast::ExpectStmt>(stmt));
  case ast::NodeKind::BlockStmt:
    return runBlock(llvm::cast<ast::BlockStmt>(stmt));
  default:
    fail(stmt.range, "this statement has no meaning in a test");
    return false;
  }
}

bool TestEvaluator::runLet(const ast::LetStmt &stmt) {
  Result value = evaluate(*stmt.value);
  if (!value)
    return false;
  if (stmt.names.size() == 1) {
    if (value->isTuple()) {
      fail(stmt.value->range, "this gives " + llvm::Twine(value->tuple.size()) +
                                  " values; name each, as in `let (a, b) = …`");
      return false;
    }
    declare(stmt.names.front(), std::move(*value), /*isMutable=*/false);
    return true;
  }
  if (value->tuple.size() != stmt.names.size()) {
    fail(stmt.value->range, "this gives " +
                                llvm::Twine(value->isTuple() ? value->tuple.size() : 1) +
                                " values, and " + llvm::Twine(stmt.names.size()) + " are named");
    return false;
  }
  for (size_t i = 0; i < stmt.names.size(); ++i)
    declare(stmt.names[i], std::move(value->tuple[i]), /*isMutable=*/false);
  return true;
}

bool TestEvaluator::runVar(const ast::VarStmt &stmt) {
  Result value = evaluate(*stmt.value);
  if (!value)
    return false;
  if (value->isTuple()) {
    fail(stmt.value->range, "a `var` holds one array or number");
    return false;
  }
  declare(stmt.name, std::move(*value), /*isMutable=*/true);
  return true;
}

bool TestEvaluator::runAssign(const ast::AssignStmt &stmt) {
  const auto *element = llvm::dyn_cast<ast::IndexExpr>(stmt.target);
  const auto *name = llvm::dyn_cast<ast::NameExpr>(element ? element->base : stmt.target);
  Variable *variable = name ? find(name->name) : nullptr;
  if (!variable || !variable->isMutable) {
    fail(stmt.target->range, "only a `var` of the test, or elements of one, can be assigned");
    return false;
  }
  Result value;
  if (stmt.isCompound) {
    ast::BinaryExpr combined(stmt.range);
    combined.op = stmt.op;
    combined.opRange = stmt.opRange;
    combined.lhs = stmt.target;
    combined.rhs = stmt.value;
    value = evaluateBinary(combined);
  } else {
    value = evaluate(*stmt.value);
  }
  if (!value)
    return false;
  if (value->isTuple()) {
    fail(stmt.value->range, "a `var` holds one array or number");
    return false;
  }
  if (element)
    return assignElements(*element, *value);
  for (int rank = 0; rank < ranks_; ++rank)
    if (isActive(rank))
      variable->value.arrays[rank] = value->arrays[rank];
  variable->value.isWeak &= value->isWeak;
  return true;
}

bool TestEvaluator::assignElements(const ast::IndexExpr &target, const TestValue &value) {
  // Evaluating an index cannot move variables: no expression declares one.
  Variable &variable = *find(llvm::cast<ast::NameExpr>(target.base)->name);
  auto indices = evaluateIndices(variable.value, target.indices);
  if (!indices)
    return false;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!isActive(rank))
      continue;
    llvm::Expected<Array> changed =
        withElements(*variable.value.arrays[rank], (*indices)[rank], *value.arrays[rank]);
    if (!changed) {
      fail(target.range, changed.takeError());
      return false;
    }
    variable.value.arrays[rank] = share(std::move(*changed));
  }
  return true;
}

bool TestEvaluator::onRanks(const std::vector<char> &active, llvm::function_ref<bool()> body) {
  if (llvm::none_of(active, [](char a) { return a != 0; }))
    return true;
  const std::vector<char> outer = std::exchange(active_, active);
  const bool ended = body();
  active_ = outer;
  return ended;
}

bool TestEvaluator::runIf(const ast::IfStmt &stmt) {
  const auto condition = evaluateInts(*stmt.condition);
  if (!condition)
    return false;
  std::vector<char> yes(ranks_), no(ranks_);
  for (int rank = 0; rank < ranks_; ++rank)
    if (isActive(rank))
      ((*condition)[rank] != 0 ? yes : no)[rank] = 1;
  if (!onRanks(yes, [&] { return runBlock(*stmt.then); }))
    return false;
  return !stmt.otherwise || onRanks(no, [&] { return runStatement(*stmt.otherwise); });
}

bool TestEvaluator::runFor(const ast::ForStmt &stmt) {
  if (stmt.dim.step) {
    fail(stmt.dim.step->range, "loops of tests go over single positions; leave out `by`");
    return false;
  }
  const auto *range = llvm::dyn_cast<ast::RangeExpr>(stmt.dim.domain);
  const ast::Expr *first = range ? range->lo : nullptr;
  const ast::Expr *last = range ? range->hi : stmt.dim.domain;
  const auto lo = first ? evaluateUniformInt(*first, "a loop's bound") : std::optional<int64_t>(0);
  const auto hi = last ? evaluateUniformInt(*last, "a loop's bound") : std::nullopt;
  if (!lo || !hi)
    return false;
  for (int64_t i = *lo; i < *hi; ++i) {
    scopes_.emplace_back();
    const llvm::scope_exit leave([&] { scopes_.pop_back(); });
    declare(stmt.dim.name, TestValue::number(ranks_, i), /*isMutable=*/false);
    if (!runBlock(*stmt.body))
      return false;
  }
  return true;
}

bool TestEvaluator::runWhile(const ast::WhileStmt &stmt) {
  while (true) {
    const auto condition = evaluateUniformInt(*stmt.condition, "a loop's condition");
    if (!condition)
      return false;
    if (*condition == 0)
      return true;
    if (!runBlock(*stmt.body))
      return false;
  }
}

} // namespace dtile::driver
