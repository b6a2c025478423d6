// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// load-first: in straight-line code of a body, tiles are loaded before others are computed with.
//
// Expects: spaces after infer-layouts, and after all that decides how tiles come.
// Produces: the same ops in another order. A load of a tile stands before the first op that
//   computes a tile, with what its address is computed from. It does not pass ops that write,
//   wait, or have regions, and together what is loaded early fits into few registers of a thread.
// Why: a body of x · sigmoid(x) · g loads x, computes sigmoid(x), and loads g. Between the loads a
//   thread waits for x, and so memory latency counts twice. Assemblers do not move loads over as
//   much code as that.
// Leaves alone: spaces with products; loads of which other passes have said how they are done, but
//   for rows that stay in shared memory.
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Of a thread: what is loaded before the first op that computes.
constexpr int64_t kMostLoadedBytes = 128;

bool isPlain(const Op &load) {
  return llvm::all_of(load.attrs(), [](const NamedAttr &attribute) {
    return attribute.name == attr::row_buffer.name || attribute.name == attr::from_buffer.name;
  });
}

bool loadsTile(const Op &op) {
  return op.is(OpKind::Load) && op.result()->type().isTile() && op.result()->type().layout() &&
         isPlain(op);
}

bool computesTile(const Op &op) {
  return op.isPure() &&
         llvm::any_of(op.results(), [](const Value *result) { return result->type().isTile(); });
}

int64_t bytesOfThread(const Op &load) {
  const Type type = load.result()->type();
  return int64_t(type.layout()->registers()) * dtypeBytes(type.dtype());
}

class BlockOrder {
public:
  explicit BlockOrder(Block &block) {
    for (Op &op : block.ops())
      ops_.push_back(&op);
  }
  bool run();

private:
  bool moveUp(size_t load);

  llvm::SmallVector<Op *, 32> ops_;
  llvm::SmallPtrSet<const Op *, 16> moved_;
  /// The first op that computes a tile, since something that loads do not pass; and what may be
  /// loaded before it.
  std::optional<size_t> first_;
  int64_t room_ = 0;
};

/// Moves a load, and ops that it needs, before the first one that computes.
bool BlockOrder::moveUp(size_t load) {
  llvm::SmallPtrSet<const Op *, 8> wanted = {ops_[load]};
  llvm::SmallVector<Op *, 8> chain;
  for (size_t i = load + 1; i-- > *first_;) {
    Op *op = ops_[i];
    if (!wanted.contains(op) || moved_.contains(op))
      continue;
    if (i != load && (!op->isPure() || computesTile(*op)))
      return false;
    chain.push_back(op);
    for (const Value *operand : op->operands())
      if (const Op *source = operand->definingOp())
        wanted.insert(source);
  }
  for (Op *op : llvm::reverse(chain)) {
    op->moveBefore(ops_[*first_]);
    moved_.insert(op);
  }
  return true;
}

bool BlockOrder::run() {
  bool changed = false;
  for (size_t i = 0; i < ops_.size(); ++i) {
    const Op &op = *ops_[i];
    if (op.numRegions() > 0 || (!op.isPure() && !op.is(OpKind::Load))) {
      first_.reset();
    } else if (!first_ && computesTile(op)) {
      first_ = i;
      room_ = kMostLoadedBytes;
    } else if (first_ && loadsTile(op) && bytesOfThread(op) <= room_ && moveUp(i)) {
      room_ -= bytesOfThread(op);
      changed = true;
    }
  }
  return changed;
}

} // namespace

bool loadFirst(Module &module, PassContext &) {
  bool changed = false;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    for (Op &space : kernel.body().ops()) {
      if (!space.is(OpKind::Space))
        continue;
      bool multiplies = false;
      llvm::SmallVector<Block *, 8> blocks;
      walk(space, [&](Op &op) {
        multiplies |= op.is(OpKind::Dot);
        for (unsigned region = 0; region < op.numRegions(); ++region)
          blocks.push_back(&op.body(region));
      });
      if (!multiplies)
        for (Block *block : blocks)
          changed |= BlockOrder(*block).run();
    }
  }
  return changed;
}

} // namespace dtile::passes
