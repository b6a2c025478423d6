// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Estimates how long a body takes, and whether it only moves data.
#include "backend/gpu/space_facts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// Programs that fill a link by plain stores; more only take processors from arithmetic.
constexpr int32_t kMovers = 16;
/// Rounds of a loop whose length is not known.
constexpr double kRounds = 32;
/// Arithmetic that takes as long as moving a byte: products of a server GPU's matrix units, and
/// elementwise operations.
constexpr double kProductsPerByte = 128;
constexpr double kElementsPerByte = 8;
/// A body that does next to nothing takes as long as moving this.
constexpr double kLeastBytes = 512;

double bytesOf(ir::Type type) {
  if (type.isTile() || type.isScalar() || type.isIndex())
    return double(type.elements()) * dtypeBytes(type.elementOrIndex());
  return 0;
}

class Estimate {
public:
  void visit(ir::Block &block, double times) {
    for (Op &op : block.ops())
      visit(op, times);
  }
  double bytes = 0;
  bool computes = false;

private:
  void visit(Op &op, double times);
};

/// The number of rounds, as far as it is known.
double rounds(const Op &loop) {
  auto constant = [&](unsigned operand) -> const int64_t * {
    const Op *op = loop.operand(operand)->definingOp();
    const ir::Attr *value = op && op->is(OpKind::Const) ? op->attr("value") : nullptr;
    return value ? std::get_if<int64_t>(value) : nullptr;
  };
  if (!loop.is(OpKind::For))
    return kRounds;
  const int64_t *first = constant(0), *end = constant(1), *step = constant(2);
  if (!first || !end || !step || *step <= 0)
    return kRounds;
  return std::max(0.0, std::ceil(double(*end - *first) / double(*step)));
}

void Estimate::visit(Op &op, double times) {
  const bool isLoop = op.is(OpKind::For) || op.is(OpKind::While);
  for (unsigned i = 0; i < op.numRegions(); ++i)
    visit(op.body(i), isLoop ? times * rounds(op) : times);
  switch (op.kind()) {
  case OpKind::Load:
  case OpKind::Gather:
    bytes += times * bytesOf(op.result()->type());
    return;
  case OpKind::Store:
  case OpKind::Scatter:
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::ReduceAdd:
    bytes += times * bytesOf(op.operand(0)->type());
    return;
  case OpKind::Dot: {
    computes = true;
    const double depth = double(op.operand(0)->type().shape().back());
    bytes += times * double(op.result()->type().elements()) * depth / kProductsPerByte;
    return;
  }
  case OpKind::Reduce:
  case OpKind::ArgReduce:
  case OpKind::Scan:
    computes = true;
    bytes += times * double(op.operand(0)->type().elements()) / kElementsPerByte;
    return;
  case OpKind::Cast:
  case OpKind::Const:
  case OpKind::Iota:
  case OpKind::Splat:
    return;
  default:
    break;
  }
  if (!op.isPure() || op.numResults() != 1 || !op.result()->type().isTile())
    return;
  computes = true;
  bytes += times * double(op.result()->type().elements()) / kElementsPerByte;
}

} // namespace

dtile_device_space spaceFacts(Op &space) {
  Estimate estimate;
  estimate.visit(space.body(), 1);
  const bool moves = llvm::any_of(space.body().ops(), [](Op &op) {
    bool found = false;
    ir::walk(op, [&](Op &inner) {
      found |= inner.is(OpKind::Put) || inner.is(OpKind::PutSignal) || inner.is(OpKind::Get) ||
               inner.is(OpKind::Notify) || inner.is(OpKind::ReduceAdd);
    });
    return found;
  });
  return {.pinned = int32_t(space.intAttrOr("programs", 0)),
          .ordered = space.boolAttrOr("ordered", false),
          .most = moves && !estimate.computes ? kMovers : 0,
          .reserved = 0,
          .weight = int64_t(std::clamp(estimate.bytes, kLeastBytes, 1e12))};
}

} // namespace dtile::backend::gpu
