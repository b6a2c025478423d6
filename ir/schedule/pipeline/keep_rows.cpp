// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// keep-rows: what one loop of a body reads, and a later one reads again, stays in shared memory.
//
// Expects: kernels without products, after prefetch-loads.
// Produces: two loops of one block that go over the same positions, and read the same tiles of an
//   input there, share a buffer: loads of the first one put their tiles into it (attribute
//   `row_buffer`), those of the later ones take them from it (and `from_buffer`). Tiles past the
//   buffer's end are loaded again.
// Why: norms, softmax and quantization go over a row two or three times. The rows of all programs
//   together exceed the L2 cache, so each time would read memory; and a program waits each time.
// Leaves alone: what peers hold or the kernel writes; tiles that come through shared memory anyway;
//   buffers of which not one tile fits into what the programs of a processor have each.
#include "ir/analysis/boxes/tensor_box.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/loop_positions.h"
#include "ir/analysis/occupancy.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/constants.h"
#include "ir/core/op_classes.h"
#include "ir/machine/target_facts.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <array>
#include <optional>

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Shared memory of a program for reductions over its warps, and for copies beside them.
constexpr int64_t kScratchBytes = 8192;

/// Of a loop: the iteration's tile, the next one's if there is one, the first one's ahead of it.
enum class RowPlace : uint8_t { Here, Next, First };

/// A load of a loop: the tile of an object at the loop's position along one dimension.
struct RowLoad {
  Op *load = nullptr;
  TensorBox box;
  /// The object's dimension.
  unsigned dim = 0;
  RowPlace place = RowPlace::Here;
};

/// Whether two loads read the same at the same positions of their loops.
bool readsSame(const RowLoad &a, const RowLoad &b) {
  if (a.box.object != b.box.object || a.dim != b.dim ||
      a.load->result()->type() != b.load->result()->type())
    return false;
  for (unsigned d = 0; d < a.box.dims.size(); ++d) {
    const TensorBox::Dim &x = a.box.dims[d], &y = b.box.dims[d];
    if (x.length != y.length || x.limit != y.limit || x.viewDim != y.viewDim ||
        (d != a.dim && x.firsts != y.firsts))
      return false;
  }
  return true;
}

/// One loop, and its loads: those of an iteration, and those before it that the first one uses.
class RowLoop {
public:
  explicit RowLoop(Op &loop) : loop_(loop) { find(); }

  [[nodiscard]] Op &op() const { return loop_; }
  [[nodiscard]] llvm::ArrayRef<RowLoad> loads() const { return loads_; }

private:
  void find();
  void addInside(Op &op, RowPlace place, const Value *position);
  void addAhead(Op &op);
  [[nodiscard]] bool isNext(const Value *value) const;

  Op &loop_;
  llvm::SmallVector<RowLoad, 4> loads_;
};

/// Whether a value is the position of the next iteration.
bool RowLoop::isNext(const Value *value) const {
  const Op *sum = value->definingOp();
  return sum && sum->is(OpKind::Add) &&
         llvm::is_contained(sum->operands(), loop_.body().argument(0)) &&
         llvm::is_contained(sum->operands(), loop_.operand(2));
}

bool canBeKept(const Op &op) {
  return op.is(OpKind::Load) && isLoadOfInput(op) && op.result()->type().isTile() &&
         op.result()->type().layout() && !op.has(attr::via) && !op.get(attr::ll);
}

void RowLoop::addInside(Op &op, RowPlace place, const Value *position) {
  std::optional<TensorBox> box = canBeKept(op) ? tensorBox(op.operand(0)) : std::nullopt;
  if (!box)
    return;
  RowLoad load{&op, std::move(*box), 0, place};
  unsigned found = 0;
  for (auto [d, dim] : llvm::enumerate(load.box.dims))
    if (llvm::is_contained(dim.firsts, position)) {
      ++found;
      load.dim = unsigned(d);
    }
  const TensorBox::Dim &along = load.box.dims[load.dim];
  if (found == 1 && along.firsts.size() == 1 && along.length == constantOf(loop_.operand(2)))
    loads_.push_back(std::move(load));
}

/// The same of a load ahead of the loop. Where its tile begins at 0 in several dimensions, those of
/// an iteration tell which of them the loop goes along.
void RowLoop::addAhead(Op &op) {
  std::optional<TensorBox> box = canBeKept(op) ? tensorBox(op.operand(0)) : std::nullopt;
  if (!box)
    return;
  RowLoad load{&op, std::move(*box), 0, RowPlace::First};
  for (const RowLoad &inside : loads_) {
    if (inside.box.object != load.box.object)
      continue;
    load.dim = inside.dim;
    if (readsSame(load, inside) &&
        llvm::equal(load.box.dims[load.dim].firsts, loop_.operands().take_front(1)))
      return loads_.push_back(std::move(load));
  }
}

void RowLoop::find() {
  const std::optional<int64_t> step = constantOf(loop_.operand(2));
  if (constantOf(loop_.operand(0)) != 0 || !step || *step <= 0)
    return;
  for (Op &op : loop_.body().ops()) {
    addInside(op, RowPlace::Here, loop_.body().argument(0));
    // Pass prefetch-loads: where there is a next iteration, its tiles are loaded.
    const Op *guard = op.is(OpKind::If) ? op.operand(0)->definingOp() : nullptr;
    if (!guard || !guard->is(OpKind::Cmp) || guard->get(attr::pred) != "lt" ||
        !isNext(guard->operand(0)) || guard->operand(1) != loop_.operand(1))
      continue;
    for (Op &inner : op.body(0).ops())
      addInside(inner, RowPlace::Next, guard->operand(0));
  }
  for (const Value *first : loop_.operands().drop_front(3))
    if (Op *load = first->definingOp(); load && load->parentBlock() == loop_.parentBlock())
      addAhead(*load);
}

/// The loops of one block.
class BlockRows {
public:
  BlockRows(Block &block, PassContext &context) : context_(context) {
    for (Op &op : block.ops())
      if (op.is(OpKind::For))
        loops_.emplace_back(op);
  }
  bool run(int64_t room, int64_t &number);

private:
  /// Loads that have one buffer: those of the first loop, then those of later ones.
  struct Row {
    llvm::SmallVector<const RowLoad *, 4> kept, taken;
  };
  [[nodiscard]] llvm::SmallVector<Row, 2> rows() const;

  PassContext &context_;
  llvm::SmallVector<RowLoop, 4> loops_;
};

llvm::SmallVector<BlockRows::Row, 2> BlockRows::rows() const {
  llvm::SmallVector<Row, 2> rows;
  llvm::SmallPtrSet<const Op *, 8> seen;
  for (auto [i, loop] : llvm::enumerate(loops_))
    for (const RowLoad &load : loop.loads()) {
      if (seen.contains(load.load))
        continue;
      Row row;
      for (size_t j = i; j < loops_.size(); ++j)
        for (const RowLoad &other : loops_[j].loads())
          if (haveSamePositions(loops_[j].op(), loop.op()) && readsSame(load, other) &&
              seen.insert(other.load).second)
            (j == i ? row.kept : row.taken).push_back(&other);
      const auto has = [&](RowPlace place) {
        return llvm::any_of(row.kept, [&](const RowLoad *kept) { return kept->place == place; });
      };
      // The first loop loads all of the row.
      const bool isWhole = has(RowPlace::Here) || (has(RowPlace::First) && has(RowPlace::Next));
      if (!row.taken.empty() && isWhole)
        rows.push_back(std::move(row));
    }
  return rows;
}

bool BlockRows::run(int64_t room, int64_t &number) {
  const llvm::SmallVector<Row, 2> all = rows();
  int64_t bytes = 0;
  for (const Row &row : all) {
    Op &load = *row.kept.front()->load;
    const int64_t threads = load.enclosing(OpKind::Kernel)->getOr(attr::threads, 0);
    bytes += rowBufferBytes(load.result()->type(), threads);
  }
  if (all.empty() || bytes > room) {
    for (const Row &row : all)
      context_.remark(*row.kept.front()->load, "not kept for the next loop: no room for a tile");
    return false;
  }
  for (const Row &row : all) {
    const std::array<int64_t, 3> buffer = {number++, row.kept.front()->dim, room / bytes};
    for (const RowLoad *load : row.kept)
      load->load->set(attr::row_buffer, llvm::ArrayRef<int64_t>(buffer));
    for (const RowLoad *load : row.taken) {
      load->load->set(attr::row_buffer, llvm::ArrayRef<int64_t>(buffer));
      load->load->set(attr::from_buffer, true);
    }
    context_.remark(*row.kept.front()->load, "kept in shared memory for the next loop: " +
                                                 std::to_string(room / bytes) + " tiles");
  }
  return true;
}

/// The blocks of a region that have loops, inner ones after those around them.
void blocksOf(Block &block, llvm::SmallVectorImpl<Block *> &blocks) {
  blocks.push_back(&block);
  for (Op &op : block.ops())
    for (unsigned i = 0; i < op.numRegions(); ++i)
      blocksOf(op.body(i), blocks);
}

bool keepRowsOf(Op &kernel, PassContext &context) {
  if (multiplies(kernel))
    return false;
  const TargetFacts &facts = *context.facts;
  const int64_t threads = kernel.getOr(attr::threads, 0);
  if (threads == 0)
    return false;
  const int64_t programs = residentPrograms(kernel, kProcessorRegisters, threads);
  bool changed = false;
  int64_t number = 0;
  for (Op &space : kernel.body().ops()) {
    if (!space.is(OpKind::Space))
      continue;
    int64_t room = sharedRoom(facts, programs) - kScratchBytes;
    bool copies = false;
    walk(space, [&](const Op &op) { copies |= op.hasEffect(RemoteRead | RemoteWrite); });
    if (copies)
      room -= copyRingBytes(facts, /*besideProducts=*/false);
    llvm::SmallVector<Block *, 8> blocks;
    blocksOf(space.body(), blocks);
    // Buffers of one space are there at the same time; one block's get all.
    for (Block *block : blocks)
      if (BlockRows(*block, context).run(room, number)) {
        changed = true;
        break;
      }
  }
  return changed;
}

} // namespace

bool keepRows(Module &module, PassContext &context) {
  bool changed = false;
  if (!context.facts || context.facts->sharedBytes == 0)
    return false;
  for (Op &op : module.body().ops())
    if (op.is(OpKind::Kernel))
      changed |= keepRowsOf(op, context);
  return changed;
}

} // namespace dtile::passes
