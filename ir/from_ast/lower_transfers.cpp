// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Communication, and the run-time checks that a copy's two sides have the same sizes.
#include "frontend/base/check.h"
#include "ir/from_ast/lowering.h"
#include "ir/from_ast/prove_sizes.h"

namespace dtile::ir {

using sema::TExpr;

namespace {

/// Follows slices to the object; gives its name and the rank that it is on (null: this one).
std::pair<std::string, Value *> objectOf(Value *view) {
  Value *peer = nullptr;
  while (const Op *op = view->definingOp()) {
    const bool isStep =
        op->is(OpKind::ViewSlice) || op->is(OpKind::ViewTile) || op->is(OpKind::ViewAt);
    if (op->is(OpKind::ViewAt) && !peer)
      peer = op->operand(1);
    if (!isStep)
      break;
    view = op->operand(0);
  }
  return {view->nameHint().str(), peer};
}

llvm::StringRef atomicText(sema::AtomicKind kind) {
  switch (kind) {
  case sema::AtomicKind::Add:
    return "add";
  case sema::AtomicKind::Min:
    return "min";
  case sema::AtomicKind::Max:
    return "max";
  case sema::AtomicKind::And:
    return "and";
  case sema::AtomicKind::Or:
    return "or";
  case sema::AtomicKind::Exch:
    return "exch";
  case sema::AtomicKind::Cas:
    return "cas";
  }
  DTILE_UNREACHABLE("unknown atomic");
}

/// The same range, perhaps shifted, of dimensions that it does not leave.
bool sameRange(const Extent &a, const Extent &b,
               llvm::function_ref<bool(const Extent &)> isInside) {
  return a.kind == Extent::Kind::Cut && b.kind == Extent::Kind::Cut &&
         sameValue(a.unshiftedFirst, b.unshiftedFirst) &&
         sameValue(a.unshiftedLimit, b.unshiftedLimit) && isInside(a) && isInside(b);
}

/// The same range of dimensions of the same size.
bool sameCut(const Extent &a, const Extent &b) {
  const auto isPlain = [](const Extent &extent) {
    return extent.kind == Extent::Kind::Cut && extent.parent->kind == Extent::Kind::Whole &&
           extent.parent->size;
  };
  return isPlain(a) && isPlain(b) && sameValue(a.first, b.first) && sameValue(a.limit, b.limit) &&
         sameValue(a.parent->size, b.parent->size);
}

} // namespace

void Lowering::assertForCopy(const Copy &copy, Value *condition, const llvm::Twine &message,
                             llvm::ArrayRef<Value *> numbers) {
  Values operands = {condition};
  operands.append(numbers.begin(), numbers.end());
  const auto hole = [&](Value *number) {
    operands.push_back(number);
    return "{" + std::to_string(operands.size() - 2) + "}";
  };
  std::string place = "rank " + hole(builder_.value(OpKind::Rank, {}));
  Value *peer = objectOf(copy.target.value).second;
  if (!peer && copy.source.value->type().isView())
    peer = objectOf(copy.source.value).second;
  if (peer)
    place += ", peer " + hole(peer);
  Op *op = builder_.op(OpKind::Assert, operands);
  op->set(attr::message, (message + " (" + place + ")").str());
}

void Lowering::assertEndsInside(const Copy &copy, unsigned dim) {
  const Extent &extent = *extentOf(copy.target, copy.targetType, dim);
  if (extent.kind != Extent::Kind::Cut)
    return;
  Value *size = countInside(*extent.parent);
  if (endsInside(extent.limit, size))
    return;
  assertForCopy(copy, builder_.cmp("le", extent.limit, size),
                copy.what + " past the end of `" + objectOf(copy.target.value).first +
                    "`: the range ends at {0}, the dimension at {1}",
                {extent.limit, size});
}

void Lowering::assertSameSize(const Copy &copy, unsigned dim) {
  const Extent &target = *extentOf(copy.target, copy.targetType, dim);
  const std::string targetName = objectOf(copy.target.value).first;
  const int64_t length = copy.sourceType.shape[dim];
  // Blocks have a static size, and what is outside of either is left out.
  if (length >= 0 && length == copy.targetType.shape[dim])
    return;
  if (copy.sourceType.kind != sema::TypeKind::Region) {
    Value *size = builder_.constIndex(length);
    Value *inside = countInside(target);
    assertForCopy(copy, builder_.cmp("eq", size, inside),
                  copy.what + ": {0} positions of a tile into {1} of `" + targetName + "`",
                  {size, inside});
    return;
  }
  const Extent &source = *extentOf(copy.source, copy.sourceType, dim);
  const auto isInside = [&](const Extent &extent) {
    return extent.parent->kind == Extent::Kind::Whole && isNonNegative(extent.first) &&
           endsInside(extent.limit, sizeOf(*extent.parent));
  };
  if (&source == &target || sameRange(source, target, isInside) || sameCut(source, target))
    return;
  Block &block = *builder_.insertionBlock();
  const Op *last = block.terminator();
  Value *from = countInside(source);
  // That a range of the target ends inside was asserted before.
  Value *to =
      target.kind == Extent::Kind::Cut ? countUpTo(target, target.limit) : countInside(target);
  if (sameValue(from, to)) {
    // Not asked after all.
    while (!block.empty() && &block.ops().back() != last)
      block.ops().back().erase();
    return;
  }
  assertForCopy(copy, builder_.cmp("eq", from, to),
                copy.what + ": {0} positions of `" + objectOf(copy.source.value).first +
                    "` into {1} of `" + targetName + "`, dimension " + llvm::Twine(dim),
                {from, to});
}

void Lowering::assertSameSizes(const Copy &copy) {
  DTILE_CHECK(copy.sourceType.rank() == copy.targetType.rank(), "a copy keeps the rank");
  for (unsigned d = 0; d < copy.targetType.rank(); ++d) {
    assertEndsInside(copy, d);
    assertSameSize(copy, d);
  }
}

Value *Lowering::put(const TExpr &expr) {
  const Lowered source = lower(*expr.operands[0]);
  const Lowered target = lower(*expr.operands[1]);
  assertSameSizes({"put", *expr.operands[0]->type, source, *expr.operands[1]->type, target});
  Values operands = {source.value, target.value};
  if (expr.signal)
    operands.push_back(value(*expr.signal));
  appendTokens(expr, operands);
  return builder_.value(expr.signal ? OpKind::PutSignal : OpKind::Put, operands);
}

Value *Lowering::get(const TExpr &expr) {
  const Lowered source = lower(*expr.operands[0]);
  const Lowered target = lower(*expr.operands[1]);
  assertSameSizes({"get", *expr.operands[0]->type, source, *expr.operands[1]->type, target});
  Values operands = {source.value, target.value};
  appendTokens(expr, operands);
  return builder_.value(OpKind::Get, operands);
}

Value *Lowering::reduceAdd(const TExpr &expr) {
  if (!expr.indices.empty())
    return reduceAddScatter(expr);
  const Lowered source = lower(*expr.operands[0]);
  const Lowered target = lower(*expr.operands[1]);
  assertSameSizes({"reduce_add", *expr.operands[0]->type, source, *expr.operands[1]->type, target});
  Values operands = {source.value, target.value};
  appendTokens(expr, operands);
  return builder_.value(OpKind::ReduceAdd, operands);
}

Value *Lowering::reduceAddScatter(const TExpr &expr) {
  Value *source = value(*expr.operands[0]);
  Values operands = {source, value(*expr.operands[1])};
  appendPlaces(expr.indices, source->type().shape(), operands);
  const size_t tokens = operands.size();
  appendTokens(expr, operands);
  return builder_.value(OpKind::ReduceAddScatter, operands, {},
                        {{attr::ntok, int64_t(operands.size() - tokens)}});
}

/// An atomic with an order is a relaxed one between fences, as of C++ (atomics.fences).
Value *Lowering::atomic(const TExpr &expr) {
  const sema::AtomicOrder order = expr.atomicOrder;
  const bool releases = order == sema::AtomicOrder::Release || order == sema::AtomicOrder::AcqRel;
  const bool acquires = order == sema::AtomicOrder::Acquire || order == sema::AtomicOrder::AcqRel;
  Values operands;
  appendValues(llvm::ArrayRef(expr.operands).take_front(firstToken(expr)), operands);
  const bool isIndexed = !expr.indices.empty();
  if (isIndexed)
    appendPlaces(expr.indices, expr.type->shape, operands);
  const size_t tokens = operands.size();
  appendTokens(expr, operands);
  // What the atomic is after is released with the rest.
  if (releases && operands.size() > tokens) {
    builder_.op(OpKind::Await, llvm::ArrayRef(operands).drop_front(tokens));
    operands.truncate(tokens);
  }
  const auto fence = [&](const char *kind) {
    builder_.op(OpKind::MemoryFence, operands[0])->set(attr::kind, std::string(kind));
  };
  if (releases)
    fence("release");
  Value *old = builder_.value(isIndexed ? OpKind::AtomicScatter : OpKind::Atomic, operands,
                              typeOf(expr.type),
                              {{attr::kind, atomicText(expr.atomic).str()},
                               {attr::ntok, int64_t(operands.size() - tokens)}});
  if (acquires)
    fence("acquire");
  return old;
}

Value *Lowering::wait(const TExpr &expr) {
  Values operands = {value(*expr.operands[0])};
  if (expr.count)
    operands.push_back(value(*expr.count));
  return builder_.value(OpKind::Wait, operands);
}

} // namespace dtile::ir
