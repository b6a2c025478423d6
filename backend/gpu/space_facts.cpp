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

/// Rounds of a loop whose length is not known.
constexpr double kRounds = 32;
/// Arithmetic that takes as long as moving a byte: products of a server GPU's matrix units, and
/// elementwise operations.
constexpr double kProductsPerByte = 128;
constexpr double kElementsPerByte = 8;
/// A body that does next to nothing takes as long as moving this.
constexpr double kLeastBytes = 512;
/// A dimension of a view whose size is not known.
constexpr double kExtent = 1024;

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

namespace {

bool hasOp(const Op &space, llvm::function_ref<bool(const Op &)> is) {
  bool found = false;
  ir::walk(const_cast<Op &>(space), [&](Op &op) { found |= is(op); });
  return found;
}

bool moves(const Op &space) {
  return hasOp(space, [](const Op &op) {
    return op.is(OpKind::Put) || op.is(OpKind::PutSignal) || op.is(OpKind::Get) ||
           op.is(OpKind::Notify) || op.is(OpKind::ReduceAdd);
  });
}

/// What a view may have, as far as it is known.
double bytesOfView(const ir::Value &view) {
  llvm::ArrayRef<int64_t> lengths;
  llvm::StringRef dims;
  if (const Op *op = view.definingOp(); op && op->is(OpKind::ViewTile)) {
    lengths = op->intsAttr("lens");
    dims = op->strAttr("dims");
  }
  double bytes = dtypeBytes(view.type().dtype());
  unsigned named = 0;
  for (char letter : dims) {
    if (letter == 'i')
      continue;
    ++named;
    bytes *= letter == 'r' ? double(lengths.consume_front()) : kExtent;
  }
  for (; named < view.type().rank(); ++named)
    bytes *= kExtent;
  return bytes;
}

/// Whether all that a space sends or gets is large copies of memory, notifies and scalars.
bool copiesInBulk(const Op &space, const TargetFacts &machine) {
  return machine.copyBytes > 0 && !hasOp(space, [&](const Op &op) {
    if (op.is(OpKind::ReduceAdd))
      return true;
    if (!op.is(OpKind::Put) && !op.is(OpKind::PutSignal) && !op.is(OpKind::Get))
      return false;
    const ir::Value &source = *op.operand(0);
    if (source.type().isTile())
      return true;
    return source.type().isView() && source.type().rank() > 0 &&
           bytesOfView(source) < machine.copyBytes / 2;
  });
}

bool multiplies(const Op &space) {
  return hasOp(space, [](const Op &op) { return op.is(OpKind::Dot); });
}

/// The spaces of the kernel before this one.
llvm::SmallVector<const Op *, 4> spacesBefore(const Op &space) {
  llvm::SmallVector<const Op *, 4> before;
  for (const Op &op : space.parentBlock()->ops()) {
    if (&op == &space)
      break;
    if (op.is(OpKind::Space))
      before.push_back(&op);
  }
  return before;
}

/// Whether its bodies can come behind those of earlier spaces, on their programs, which have the
/// longer work. It sends nothing that those could wait for; what multiplies there waits for nobody,
/// or its programs would stand still while there is something to do here.
bool follows(const Op &space) {
  if (!sharesBodies(space) || moves(space))
    return false;
  const llvm::SmallVector<const Op *, 4> before = spacesBefore(space);
  const auto waits = [](const Op &op) { return op.hasEffect(ir::Wait); };
  return llvm::any_of(before, [](const Op *other) { return multiplies(*other); }) &&
         llvm::none_of(before, [&](const Op *other) {
           return other->hasAttr("after_all") || (multiplies(*other) && hasOp(*other, waits));
         });
}

} // namespace

bool sharesBodies(const Op &space) {
  const llvm::SmallVector<const Op *, 4> before = spacesBefore(space);
  bool isAwaited = false;
  for (const Op &other : space.parentBlock()->ops())
    isAwaited |= other.is(OpKind::Space) && other.hasAttr("after_all") &&
                 other.strAttr("after_all") == space.strAttr("name");
  return !before.empty() && !isAwaited && !space.hasAttr("after_all") &&
         !space.hasAttr("programs") && !space.boolAttrOr("ordered", false) &&
         const_cast<Op &>(space).body().terminator()->numOperands() == 0 &&
         (multiplies(space) || !moves(space));
}

dtile_device_space spaceFacts(Op &space, const TargetFacts &machine) {
  Estimate estimate;
  estimate.visit(space.body(), 1);
  const int32_t movers =
      copiesInBulk(space, machine) ? machine.movers : TargetFacts::kPlainMovers;
  return {.pinned = int32_t(space.intAttrOr("programs", 0)),
          .ordered = space.boolAttrOr("ordered", false),
          .most = moves(space) && !estimate.computes ? movers : 0,
          .follows = follows(space),
          .weight = int64_t(std::clamp(estimate.bytes, kLeastBytes, 1e12))};
}

} // namespace dtile::backend::gpu
