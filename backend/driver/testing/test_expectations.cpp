// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expectations of tests, and the promises (`ensures`) of the kernels that they launch.
//
// `a ~= b` without tolerances: |a - b| <= atol + rtol * |b|, with those of the narrower element
// type. A promise compares with the largest magnitude of b in place of each |b|: sums whose terms
// cancel are no more exact than their terms.
#include "backend/driver/testing/test_evaluator.h"

#include "frontend/ast/mesh.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::driver {

namespace {

// A number stands for an array of it.
Array likeShape(const Array &expected, const Array &actual) {
  if (expected.rank() != 0 || actual.rank() == 0)
    return expected;
  return llvm::cantFail(ndarray::broadcastTo(expected, actual.shape()));
}

llvm::StringRef relationText(ast::BinaryOp op) {
  switch (op) {
  case ast::BinaryOp::Ne:
    return "they are equal";
  case ast::BinaryOp::Lt:
    return "the left side is not below the right";
  case ast::BinaryOp::Le:
    return "the left side is above the right";
  case ast::BinaryOp::Gt:
    return "the left side is not above the right";
  case ast::BinaryOp::Ge:
    return "the left side is below the right";
  default:
    return "";
  }
}

bool isOp(const ast::Expr *e, ast::BinaryOp op) {
  const auto *binary = llvm::dyn_cast<ast::BinaryExpr>(e);
  return binary && binary->op == op;
}

bool isEquality(ast::BinaryOp op) { return op == ast::BinaryOp::Approx || op == ast::BinaryOp::Eq; }

} // namespace

bool TestEvaluator::runExpect(const ast::ExpectStmt &stmt) {
  const bool isApproximate = isOp(stmt.condition, ast::BinaryOp::Approx);
  if (const ast::Expr *tolerance = stmt.rtol ? stmt.rtol : stmt.atol; tolerance && !isApproximate) {
    fail(tolerance->range, "a tolerance stands behind `a ~= b`: any other condition is exact");
    return false;
  }
  if (isApproximate) {
    // `a == b && c ~= d` is `(a == b && c) ~= d`, which nobody means.
    const auto &relation = llvm::cast<ast::BinaryExpr>(*stmt.condition);
    for (const ast::Expr *side : {relation.lhs, relation.rhs})
      if (isOp(side, ast::BinaryOp::LogAnd) || isOp(side, ast::BinaryOp::LogOr)) {
        fail(relation.range, "`~=` compares all that stands on its sides: each comparison has an "
                             "`expect` of its own");
        return false;
      }
  }
  if (const auto *call = llvm::dyn_cast<ast::CallExpr>(stmt.condition))
    if (const auto *name = llvm::dyn_cast<ast::NameExpr>(call->callee);
        name && name->name == "fails")
      return expectFails(*call);
  // `a && b`: each for itself, so that the message is about the one that fails.
  if (const auto *both = llvm::dyn_cast<ast::BinaryExpr>(stmt.condition);
      both && both->op == ast::BinaryOp::LogAnd) {
    for (ast::Expr *side : {both->lhs, both->rhs}) {
      ast::ExpectStmt one = stmt;
      one.condition = side;
      if (!runExpect(one))
        return false;
    }
    return true;
  }
  if (const auto *relation = llvm::dyn_cast<ast::BinaryExpr>(stmt.condition);
      relation && isEquality(relation->op))
    return expectRelation(stmt, *relation);
  return expectTrue(stmt);
}

// `expect fails("text", kernel(…));`, `expect fails(kernel(…));`
bool TestEvaluator::expectFails(const ast::CallExpr &call) {
  const auto *text =
      call.args.size() == 2 ? llvm::dyn_cast<ast::StringLit>(call.args.front().value) : nullptr;
  const auto *launch = call.args.size() == (text ? 2 : 1)
                           ? llvm::dyn_cast<ast::CallExpr>(call.args.back().value)
                           : nullptr;
  if (!launch) {
    fail(call.range, "`fails` takes a launch, and before it a part of the report, if you like: "
                     "`fails(k(x))`, `fails(\"text\", k(x))`");
    return false;
  }
  std::optional<std::string> report;
  std::optional<std::string> *outer = std::exchange(capture_, &report);
  const Result value = evaluate(*launch);
  capture_ = outer;
  // Whatever else stopped it was reported.
  if (!report && !value)
    return false;
  if (report && (!text || llvm::StringRef(*report).contains(text->value)))
    return true;
  failed_ = true;
  session_.diagnostics.report(call.range, diag::test_should_fail,
                              report ? "its report does not hold \"" + text->value.str() +
                                           "\": " + *report
                                     : std::string("it succeeded"));
  return true;
}

// Any other condition: every element is true, or the comparison holds for every element.
bool TestEvaluator::expectTrue(const ast::ExpectStmt &stmt) {
  Result value = evaluate(*stmt.condition);
  if (!value)
    return false;
  if (value->isTuple() || isFloat(value->arrays[leader()]->dtype())) {
    fail(stmt.condition->range, "a condition is needed here");
    return false;
  }
  const auto *relation = llvm::dyn_cast<ast::BinaryExpr>(stmt.condition);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!isActive(rank))
      continue;
    const Array &array = *value->arrays[rank];
    int64_t wrong = 0;
    for (int64_t i = 0; i < array.elements(); ++i)
      wrong += array.getDouble(i) == 0;
    if (wrong == 0)
      continue;
    failed_ = true;
    std::string why = relation ? relationText(relation->op).str() : "";
    if (why.empty())
      why = "it is false";
    if (array.rank() != 0)
      why +=
          " at " + std::to_string(wrong) + " of " + std::to_string(array.elements()) + " elements";
    session_.diagnostics.report(stmt.condition->range, diag::test_expectation_failed, rank, ranks_,
                                why);
    return true;
  }
  return true;
}

bool TestEvaluator::expectRelation(const ast::ExpectStmt &stmt, const ast::BinaryExpr &relation) {
  Result lhs = evaluate(*relation.lhs);
  Result rhs = evaluate(*relation.rhs);
  if (!lhs || !rhs)
    return false;
  if (lhs->isTuple() || rhs->isTuple()) {
    fail((lhs->isTuple() ? relation.lhs : relation.rhs)->range, "an array is needed here");
    return false;
  }
  std::optional<double> rtol, atol;
  for (auto [expr, value] : {std::pair(stmt.rtol, &rtol), std::pair(stmt.atol, &atol)}) {
    if (!expr)
      continue;
    Result tolerance = evaluate(*expr);
    if (!tolerance)
      return false;
    if (tolerance->isTuple() || tolerance->arrays[leader()]->rank() != 0) {
      fail(expr->range, "a tolerance is a single number");
      return false;
    }
    *value = tolerance->arrays[leader()]->getDouble(0);
  }
  std::optional<ndarray::Comparison> first;
  int firstRank = 0, others = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!isActive(rank))
      continue;
    const Array &actual = *lhs->arrays[rank];
    const Array expected = likeShape(*rhs->arrays[rank], actual);
    Tolerance tolerance;
    if (relation.op == ast::BinaryOp::Approx && !rtol && !atol) {
      tolerance = defaultTolerance(actual, expected);
    } else if (relation.op == ast::BinaryOp::Approx) {
      tolerance = {rtol.value_or(0), atol.value_or(0)};
    }
    const bool isLoose = stmt.isEnsures && relation.op == ast::BinaryOp::Approx && !rtol && !atol;
    ndarray::Comparison comparison =
        isLoose ? compareLoosely(actual, expected)
                : ndarray::approxEqual(actual, expected, tolerance.rtol, tolerance.atol);
    if (comparison.equal())
      continue;
    if (first) {
      ++others;
    } else {
      first = std::move(comparison);
      firstRank = rank;
    }
  }
  if (!first)
    return true;
  failed_ = true;
  DiagBuilder message =
      stmt.isEnsures
          ? session_.diagnostics.report(clause_->callRange, diag::test_ensures_failed,
                                        clause_->kernel, firstRank, ranks_, first->text())
          : session_.diagnostics.report(relation.range, diag::test_expectation_failed, firstRank,
                                        ranks_, first->text());
  if (stmt.isEnsures)
    message.note(relation.range, diag::note_promise);
  if (others != 0)
    message.note({}, diag::note_other_ranks, others + 1, ranks_);
  return true;
}

void TestEvaluator::checkEnsures(const sema::KernelInstance &kernel, const ast::CallExpr &call,
                                 Scope names, std::map<std::string, DType> types) {
  if (kernel.decl->ensures.empty())
    return;
  const Clause clause{std::move(types), ast::meshOf(*kernel.decl), kernel.decl->name.name.str(),
                      call.range, kernel.decl};
  const Clause *outer = std::exchange(clause_, &clause);
  // Names of the test are not those of the kernel.
  std::vector<Scope> scopes = std::exchange(scopes_, {});
  scopes_.push_back(std::move(names));
  for (const ast::ExpectStmt *promise : kernel.decl->ensures)
    runExpect(*promise);
  scopes_ = std::move(scopes);
  clause_ = outer;
}

} // namespace dtile::driver
