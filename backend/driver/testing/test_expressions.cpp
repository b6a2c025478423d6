// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions of tests: numbers, arrays, slices, operators.
#include "backend/driver/testing/test_evaluator.h"

#include "frontend/ast/new_axis.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

namespace dtile::driver {

TestEvaluator::Result
TestEvaluator::mapRanks(SourceRange range, llvm::ArrayRef<const TestValue *> operands,
                        llvm::function_ref<llvm::Expected<Array>(int rank)> fn) {
  TestValue result;
  result.arrays.resize(ranks_);
  // Ranks with the very same operands have the same result: what was gathered is computed with
  // once.
  std::map<std::vector<const Array *>, SharedArray> known;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!isActive(rank))
      continue;
    std::vector<const Array *> key;
    for (const TestValue *operand : operands)
      key.push_back(operand->arrays[rank].get());
    SharedArray &shared = known[key];
    if (!shared) {
      llvm::Expected<Array> made = fn(rank);
      if (!made)
        return fail(range, made.takeError());
      shared = share(std::move(*made));
    }
    result.arrays[rank] = shared;
  }
  return result;
}

TestEvaluator::Result TestEvaluator::evaluate(const ast::Expr &e) {
  switch (e.kind) {
  case ast::NodeKind::IntLit:
    return TestValue::number(ranks_, int64_t(llvm::cast<ast::IntLit>(e).value));
  case ast::NodeKind::FloatLit:
    return TestValue::real(ranks_, llvm::cast<ast::FloatLit>(e).value);
  case ast::NodeKind::BoolLit:
    return TestValue::boolean(ranks_, llvm::cast<ast::BoolLit>(e).value);
  case ast::NodeKind::NameExpr:
    return evaluateName(llvm::cast<ast::NameExpr>(e));
  case ast::NodeKind::UnaryExpr:
    return evaluateUnary(llvm::cast<ast::UnaryExpr>(e));
  case ast::NodeKind::BinaryExpr:
    return evaluateBinary(llvm::cast<ast::BinaryExpr>(e));
  case ast::NodeKind::CallExpr:
    return evaluateCall(llvm::cast<ast::CallExpr>(e));
  case ast::NodeKind::IndexExpr:
    return evaluateIndex(llvm::cast<ast::IndexExpr>(e));
  case ast::NodeKind::MemberExpr:
    return evaluateMember(llvm::cast<ast::MemberExpr>(e));
  case ast::NodeKind::ConditionalExpr:
    return evaluateConditional(llvm::cast<ast::ConditionalExpr>(e));
  default:
    return fail(e.range, "this has no value in a test");
  }
}

TestEvaluator::Result TestEvaluator::evaluateName(const ast::NameExpr &e) {
  if (const Variable *variable = find(e.name))
    return variable->value;
  if (e.name == "W")
    return TestValue::number(ranks_, ranks_);
  if (auto constant = library_.program().findConst(e.name))
    return TestValue::number(ranks_, *constant);
  if (e.name == "inf")
    return TestValue::real(ranks_, std::numeric_limits<double>::infinity());
  if (e.name == "nan")
    return TestValue::real(ranks_, std::numeric_limits<double>::quiet_NaN());
  return fail(e.range, "`" + e.name + "` is neither a variable of this test nor a constant");
}

TestEvaluator::Result TestEvaluator::evaluateUnary(const ast::UnaryExpr &e) {
  Result operand = evaluate(*e.operand);
  if (!operand)
    return std::nullopt;
  if (operand->isTuple())
    return fail(e.operand->range, "an array or a number is needed here");
  Result result = mapRanks(e.range, {&*operand},
                           [&](int rank) { return unaryOperator(e.op, *operand->arrays[rank]); });
  if (result)
    result->isWeak = operand->isWeak;
  return result;
}

TestEvaluator::Result TestEvaluator::evaluateBinary(const ast::BinaryExpr &e) {
  if (e.op == ast::BinaryOp::Approx)
    return fail(e.opRange, "`~=` stands only in `expect` and `ensures`");
  Result lhs = evaluate(*e.lhs);
  Result rhs = evaluate(*e.rhs);
  if (!lhs || !rhs)
    return std::nullopt;
  if (lhs->isTuple() || rhs->isTuple())
    return fail((lhs->isTuple() ? e.lhs : e.rhs)->range, "an array or a number is needed here");
  const bool isMatmul = clause_ && e.op == ast::BinaryOp::Mul;
  Result result = mapRanks(e.range, {&*lhs, &*rhs}, [&](int rank) -> llvm::Expected<Array> {
    const Array &a = *lhs->arrays[rank];
    const Array &b = *rhs->arrays[rank];
    // A kernel promises a matrix product as mathematics writes it.
    if (isMatmul && a.rank() == 2 && b.rank() == 2)
      return ndarray::matmul(a, b);
    return binaryOperator(e.op, a, lhs->isWeak, b, rhs->isWeak);
  });
  if (result)
    result->isWeak = lhs->isWeak && rhs->isWeak;
  return result;
}

TestEvaluator::Result TestEvaluator::evaluateConditional(const ast::ConditionalExpr &e) {
  Result condition = evaluate(*e.condition);
  Result yes = evaluate(*e.whenTrue);
  Result no = evaluate(*e.whenFalse);
  if (!condition || !yes || !no)
    return std::nullopt;
  for (int rank = 0; rank < ranks_; ++rank)
    if (isActive(rank) && (condition->isTuple() || !isWholeNumber(*condition->arrays[rank])))
      return fail(e.condition->range,
                  "`c ? a : b` takes one `bool`; `where(c, a, b)` chooses for each element");
  if (yes->isTuple() || no->isTuple())
    return fail(e.range, "an array or a number is needed here");
  for (int rank = 0; rank < ranks_; ++rank)
    if (isActive(rank) && condition->arrays[rank]->getInt(0) == 0)
      yes->arrays[rank] = no->arrays[rank];
  yes->isWeak &= no->isWeak;
  return yes;
}

TestEvaluator::Result TestEvaluator::evaluateMember(const ast::MemberExpr &e) {
  if (e.member.name != "T")
    return fail(e.member.range, "`." + e.member.name + "` has no meaning in a test; `.T` does");
  Result base = evaluate(*e.base);
  if (!base)
    return std::nullopt;
  if (base->isTuple())
    return fail(e.base->range, "an array is needed here");
  return mapRanks(e.range, {&*base},
                  [&](int rank) { return ndarray::transpose(*base->arrays[rank]); });
}

std::optional<std::vector<std::vector<AxisIndex>>>
TestEvaluator::evaluateIndices(const TestValue &base, llvm::ArrayRef<ast::Expr *> indices) {
  std::vector<std::vector<AxisIndex>> result(ranks_, std::vector<AxisIndex>(indices.size()));
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    const auto *stepped = llvm::dyn_cast<ast::StepExpr>(indices[axis]);
    const auto *range = stepped ? stepped->whole : llvm::dyn_cast<ast::RangeExpr>(indices[axis]);
    const ast::Expr *first = range ? range->lo : indices[axis];
    const ast::Expr *last = range ? range->hi : nullptr;
    std::optional<std::vector<int64_t>> lo, hi, step;
    if (first)
      lo = evaluateInts(*first);
    if (last)
      hi = evaluateInts(*last);
    if (stepped)
      step = evaluateInts(*stepped->step);
    if ((first && !lo) || (last && !hi) || (stepped && !step))
      return std::nullopt;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!isActive(rank))
        continue;
      AxisIndex &index = result[rank][axis];
      index.isRange = range != nullptr;
      if (lo)
        index.lo = (*lo)[rank];
      if (hi)
        index.hi = (*hi)[rank];
      if (step)
        index.step = (*step)[rank];
      if (index.step < 1) {
        fail(stepped->step->range, "a step is 1 at least");
        return std::nullopt;
      }
    }
  }
  return result;
}

TestEvaluator::Result TestEvaluator::evaluateIndex(const ast::IndexExpr &e) {
  // `zeros<f32>[M, N]` and `zeros[M, N]`
  const auto *generics = llvm::dyn_cast<ast::GenericExpr>(e.base);
  const auto *name = llvm::dyn_cast<ast::NameExpr>(generics ? generics->base : e.base);
  if (name && !find(name->name))
    return makeFilled(e, name->name, generics, e.indices, {});
  Result base = evaluate(*e.base);
  if (!base)
    return std::nullopt;
  if (base->isTuple())
    return fail(e.base->range, "an array is needed here");
  llvm::SmallVector<ast::Expr *, 4> chosen;
  llvm::copy_if(e.indices, std::back_inserter(chosen),
                [&](const ast::Expr *index) { return !isNewAxis(index); });
  auto indices = evaluateIndices(*base, chosen);
  if (!indices)
    return std::nullopt;
  // Ranks may cut differently, so each cuts for itself where it must.
  const bool isUniform = llvm::all_of(llvm::seq(0, ranks_), [&](int rank) {
    return !isActive(rank) || (*indices)[rank] == (*indices)[leader()];
  });
  TestValue own = TestValue::number(ranks_, 0);
  for (int rank = 0; rank < ranks_ && !isUniform; ++rank)
    own.arrays[rank] = share(Array(*own.arrays[rank]));
  return mapRanks(e.range, {&*base, &own}, [&](int rank) -> llvm::Expected<Array> {
    auto result = elements(*base->arrays[rank], (*indices)[rank]);
    if (!result || chosen.size() == e.indices.size())
      return result;
    return ndarray::reshape(*result, withNewAxes(e.indices, result->shape()));
  });
}

bool TestEvaluator::isNewAxis(const ast::Expr *index) {
  return ast::isNewAxis(index) && !find("None");
}

/// Sizes of what the indices choose, with a size of 1 for each `None`.
Sizes TestEvaluator::withNewAxes(llvm::ArrayRef<ast::Expr *> indices,
                                 llvm::ArrayRef<int64_t> kept) {
  Sizes sizes;
  for (const ast::Expr *index : indices) {
    if (isNewAxis(index)) {
      sizes.push_back(1);
    } else if (llvm::isa<ast::RangeExpr, ast::StepExpr>(index)) {
      sizes.push_back(kept.front());
      kept = kept.drop_front();
    }
  }
  sizes.insert(sizes.end(), kept.begin(), kept.end());
  return sizes;
}

std::optional<DType> TestEvaluator::elementType(const ast::Expr &e) {
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(&e)) {
    if (clause_)
      if (auto it = clause_->types.find(name->name.str()); it != clause_->types.end())
        return it->second;
    if (auto dtype = dtypeFromName(name->name))
      return dtype;
  }
  return fail(e.range, "an element type such as `f32` is needed here"), std::nullopt;
}

std::optional<std::vector<int64_t>> TestEvaluator::evaluateInts(const ast::Expr &e) {
  Result value = evaluate(e);
  if (!value)
    return std::nullopt;
  std::vector<int64_t> ints(ranks_);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!isActive(rank))
      continue;
    if (value->isTuple() || !isWholeNumber(*value->arrays[rank])) {
      fail(e.range, "a single integer is needed here");
      return std::nullopt;
    }
    ints[rank] = value->arrays[rank]->getInt(0);
  }
  return ints;
}

std::optional<int64_t> TestEvaluator::evaluateUniformInt(const ast::Expr &e, llvm::StringRef what) {
  const auto ints = evaluateInts(e);
  return ints ? requireUniform(e.range, *ints, what) : std::nullopt;
}

std::optional<int64_t> TestEvaluator::requireUniform(SourceRange range,
                                                     llvm::ArrayRef<int64_t> ints,
                                                     llvm::StringRef what) {
  const int first = leader();
  for (int rank = 0; rank < ranks_; ++rank)
    if (isActive(rank) && ints[rank] != ints[first]) {
      failed_ = true;
      session_.diagnostics.report(range, diag::test_not_uniform, what,
                                  "it is " + std::to_string(ints[first]) + " on rank " +
                                      std::to_string(first) + " and " + std::to_string(ints[rank]) +
                                      " on rank " + std::to_string(rank));
      return std::nullopt;
    }
  return ints[first];
}

std::optional<std::vector<Sizes>> TestEvaluator::evaluateSizes(llvm::ArrayRef<ast::Expr *> exprs) {
  std::vector<Sizes> sizes(ranks_);
  for (const ast::Expr *expr : exprs) {
    const auto ints = evaluateInts(*expr);
    if (!ints)
      return std::nullopt;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (isActive(rank) && (*ints)[rank] < 0) {
        fail(expr->range, "a size is " + llvm::Twine((*ints)[rank]) + " on rank " +
                              llvm::Twine(rank) + "; sizes are 0 or more");
        return std::nullopt;
      }
      sizes[rank].push_back((*ints)[rank]);
    }
  }
  return sizes;
}

} // namespace dtile::driver
