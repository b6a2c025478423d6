// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warp-specialized spaces. Shared memory holds a ring of slots, each with the operands of one
// iteration, a barrier `full` (the loads have arrived) and a barrier `empty` (all consumer warps
// have multiplied them). The load warp and the consumer warpgroups run the same bodies and loops,
// each with its own position in the ring:
//
//   load warp:    wait empty[slot] · announce the bytes · TMA loads · scalars · next slot
//   warpgroups:   wait full[slot] · issue the products · await those of the iteration before ·
//                 arrive at empty[its slot] · next slot
//
// A product that is used in its iteration is awaited at its first use, and the slot is released at
// the iteration's end.
//
// Where programs claim bodies as they go, the load warp claims them, and passes the numbers to the
// other roles through a second, smaller ring of the same kind.
//
// How often a loop runs may follow from a number that a message brings (`agreed`). The load warp
// reads it, and passes it to the other roles through one more ring of that kind: when a role that
// lags behind would read it, another may have told the sender that it can be overwritten.
//
// Where the body ends with a store that nothing in the body depends on (pass specialize-stores),
// the warpgroups leave the tile in shared memory. The epilogue warp stores it and notifies, while
// they multiply for the next body:
//
//   warpgroups:   wait drained · write the tile · arrive at stored
//   epilogue:     wait stored · store rows to memory · arrive at drained · await them · notify
//
// Where the space has `epilogue_parts` (pass split-epilogue), shared memory holds a part of the
// tile's rows. If a part has the rows of one warpgroup, each writes its rows once those of the
// warpgroup before it have been read; the first waits for the last one's of the tile before. Else
// all warpgroups write each part, once the part before has been read.
//
// The epilogue warp also prefetches tiles that the body loads after its products (pass prefetch-
// epilogue), to where the output tile will be:
//
//   epilogue:     wait taken · wait for signals · load rows, which arrive at arrived
//   warpgroups:   wait arrived · read the tile · arrive at taken
//
// Where TMA cannot describe a tensor, two copy warps load its tiles, and arrive at full[slot] as
// TMA does.
//
// Gathered rows (pass gather-rows) are no boxes. Two gather warps copy them by cp.async, as the
// load warp would: they wait at empty[slot], and their copies arrive at full[slot].
//
// A loop that the programs of a cluster may share (pass split-sums): each runs its part of the
// iterations, and their warpgroups add up the sums in the ring (exchange_sums.cpp). The first
// program goes on with them. The helper warps fill the ring for the next body when all programs are
// done with what stands there.
//
// A loop whose iterations programs may share in the last round of bodies (split_rounds): roles walk
// over bodies and parts of bodies (forEachItem). Warpgroups without the first part leave their sums
// in memory; those with it add them (partial_sums.cpp, divided_bodies.h).
//
// Where bodies that follow each other load the same tile (pass multicast-operands), a launch may
// have clusters of two programs with such bodies. Each load warp loads half of the tile to the
// slots of both, whose barriers `full` expect all of it, and waits until the warpgroups of both
// have released the slot: they arrive at `empty` of both programs.
//
// Failures. When a wait for a signal or a check fails in a helper warp, it reports, and goes on to
// complete its barriers without loading or storing: an exit would leave the warpgroups waiting.
// They finish over whatever is in shared memory; nothing of it is stored or notified by the
// epilogue warp. Warpgroups whose own wait fails go on in the same way if the epilogue warp does
// all that the bodies do to memory, and exit otherwise.
#include "backend/gpu/staged/lower_staged.h"

#include "backend/gpu/cluster_ops.h"
#include "backend/gpu/space_facts.h"
#include "backend/gpu/staged/copy_warps.h"
#include "backend/gpu/staged/epilogue_warp.h"
#include "backend/gpu/staged/gather_warps.h"
#include "backend/gpu/staged/load_warp.h"
#include "backend/gpu/staged/mma_warpgroups.h"

#include "frontend/base/check.h"
#include "ir/analysis/communication.h"
#include "ir/model/op_cost.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

namespace {

/// Bodies that leave the warps that copy alone.
class BodiesOnly : public BodyLowering {
public:
  BodiesOnly(GpuModule &module, const KernelScaffold &kernel) : BodyLowering(module, kernel) {
    threads_ = bodyThreads(*kernel.kernel);
    barrier_ = kBodyBarrier;
  }
  void lowerBodies(Op &space, const BodyRange &range) override {
    when(b.CreateICmpULT(kernel_.thread, b.getInt32(threads_)), "bodies",
         [&] { BodyLowering::lowerBodies(space, range); });
  }
};

const Op *firstSpace(Op &kernel) {
  const auto found =
      llvm::find_if(kernel.body().ops(), [](const Op &op) { return op.is(OpKind::Space); });
  return found != kernel.body().ops().end() ? &*found : nullptr;
}

/// A staged space: who does what.
class StagedSpace : public BodyLowering {
public:
  StagedSpace(GpuModule &module, const KernelScaffold &kernel) : BodyLowering(module, kernel) {
    threads_ = bodyThreads(*kernel.kernel);
  }
  void lowerBodies(Op &space, const BodyRange &range) override;

private:
  /// Each space has barriers of its own: those of the space before may still be looked at.
  void makeBarriers(Ring &ring);
  /// Slots and output tile: spaces have theirs in the same place.
  void makeSlots(Ring &ring);
  /// By which path tiles come in this launch, and what follows from that.
  void findPaths(Op &space, Ring &ring);
  void beginBarriers(const Op &space, const Ring &ring, const BodyRange &range);
  /// A row of barriers, and how many arrivals complete each (i32); in which launches they are used
  /// (i1; null: in all).
  struct Barriers {
    Value *first;
    int64_t count;
    Value *arrivals;
    Value *isUsed = nullptr;
  };
  /// By the load warp: the barriers of the ring that it needs to begin.
  void initRing(const Ring &ring, llvm::ArrayRef<Barriers> rows);
  /// By the first threads of the other warps; `warp`: which of them (i32).
  void initBarriers(Value *warp, llvm::ArrayRef<Barriers> all);
  /// i1: in this launch the load warp needs nothing of what other warps do before bodies begin;
  /// null where that is so in none.
  [[nodiscard]] Value *loadsAtOnce(const Op &space, const Ring &ring, const BodyRange &range);
  /// Gives the warpgroups that multiply registers of the one that copies, where their sums need
  /// more than all have. (Only there: ptxas refuses some kernels whose warpgroups would need none
  /// of them.)
  void moveRegisters(const Ring &ring, bool copies);
  [[nodiscard]] bool movesRegisters(const Ring &ring) const;
  /// i64: what a tensor map is good for in this launch (launch::Frame::Use).
  [[nodiscard]] Value *useOf(const launch::Frame::TensorMap &map) {
    constexpr auto kWhole = int64_t(launch::Frame::kWholeMap);
    return launchFact(loadFrame(map.usable, b.getInt64Ty()),
                      {.plain = kWhole, .split = kWhole, .shared = kWhole});
  }
  /// i1
  [[nodiscard]] Value *areMapsUsable();
  /// i1: TMA cannot read all boxes, or tiles have to be transposed.
  [[nodiscard]] Value *needsCopyWarps(const Ring &ring) {
    return ring.transposes ? b.getTrue() : b.CreateNot(areMapsUsable());
  }
  /// i1: TMA can read all boxes, and rows that are picked begin at whole words.
  [[nodiscard]] Value *canCopy(const Ring &ring);
  /// The copy warps load what TMA cannot, and transpose; else a space has a second, unstaged body
  /// for the former case.
  bool hasCopyWarps_ = false;
  /// Emits the bodies as another lowering does, here.
  void lowerAs(BodyLowering &other, Op &space, const BodyRange &range) {
    other.builder().SetInsertPoint(b.GetInsertBlock());
    other.builder().SetCurrentDebugLocation(b.getCurrentDebugLocation());
    other.lowerCaptured(space);
    other.lowerBodies(space, range);
    b.SetInsertPoint(other.builder().GetInsertBlock());
  }
};

void StagedSpace::makeBarriers(Ring &ring) {
  ir::CopiedTiles copied;
  for (const auto &[gather, table] : ring.picked)
    copied.gathered.push_back(ring.tiles.find(gather)->second.rows);
  copied.areTransposed = ring.transposes;
  copied.passesNumbers = !ring.passed.empty();
  const int64_t parts = ring.output ? ring.output->parts : 0;
  const ir::StagedControl control(gpu_.sharedMark(), ring.stages, parts, copied);
  Value *begin = gpu_.shared(b, control.end - control.begin, 1);
  const auto address = [&](int64_t offset) {
    return b.CreatePtrToInt(
        b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), begin, uint64_t(offset - control.begin)),
        b.getInt32Ty());
  };
  ring.full = address(control.full);
  ring.empty = address(control.empty);
  ring.loaded = address(control.loaded);
  ring.unitFull = address(control.unitFull);
  ring.unitEmpty = address(control.unitEmpty);
  ring.failed = address(control.failed);
  ring.ready = address(control.ready);
  ring.received = address(control.received);
  ring.added = address(control.added);
  ring.reusable = address(control.reusable);
  ring.bodies = address(control.bodies);
  ring.bodiesFull = address(control.bodiesFull);
  ring.bodiesEmpty = address(control.bodiesEmpty);
  ring.numbers = address(control.numbers);
  ring.numbersFull = address(control.numbersFull);
  ring.numbersEmpty = address(control.numbersEmpty);
  for (auto [gather, table] : llvm::zip_equal(ring.picked, control.tables))
    gather.second = address(table);
  if (ring.output) {
    ring.output->stored = address(control.stored);
    ring.output->drained = address(control.drained);
    ring.output->ended = address(control.ended);
    ring.output->arrived = address(control.arrived);
    ring.output->taken = address(control.taken);
  }
}

void StagedSpace::makeSlots(Ring &ring) {
  ring.slots = b.CreatePtrToInt(gpu_.shared(b, ring.bytes(), ir::kBoxAlignBytes), b.getInt32Ty());
  for (auto &[value, tile] : ring.kept)
    tile.shared.base = gpu_.shared(b, tile.bytes(), ir::kBoxAlignBytes);
  if (!ring.output)
    return;
  OutputTile &output = *ring.output;
  const Op &store = *output.deferred.front();
  const TileInfo &stored = info(store.operand(0)->type());
  output.tile = sharedTile(store.operand(0)->type().dtype(), {&stored}, 1, /*padded=*/true);
  output.tile.bytes /= output.parts;
  // The last bit of a warp's number is its group's.
  const auto warps = stored.layout.bits(ir::LayoutBits::Warp);
  output.isInTurns = output.parts > 1 && !warps.empty() && warps.back()[0] == output.partRows;
  output.tile.base = gpu_.shared(b, output.tile.bytes, ir::kSharedWordBytes);
}

// The load warp initializes what it needs to begin, a lane each barrier of a row; it needs the maps
// first.
void StagedSpace::initRing(const Ring &ring, llvm::ArrayRef<Barriers> rows) {
  const BulkCopies &ops = *gpu_.device.bulkCopies();
  Value *lane = b.CreateAnd(kernel_.thread, b.getInt32(WarpOps::kWarpThreads - 1));
  when(b.CreateIsNull(lane), "first", [&] {
    when(areMapsUsable(), "prefetch", [&] {
      for (const auto &map : kernel_.layout->tensorMaps())
        ops.prefetchTensorMap(b, b.CreatePtrToInt(frameAddress(map->offset), b.getInt64Ty()));
    });
    b.CreateStore(b.getInt32(0), b.CreateIntToPtr(ring.failed, b.getPtrTy(Device::kShared)));
  });
  Value *own = b.CreateMul(lane, b.getInt32(uint32_t(ir::kMbarrierBytes)));
  for (const Barriers &row : rows) {
    DTILE_CHECK(row.count <= int64_t(WarpOps::kWarpThreads), "a warp has a lane for each stage");
    when(b.CreateICmpULT(lane, b.getInt32(uint32_t(row.count))), "row",
         [&] { ops.initBarrier(b, b.CreateAdd(row.first, own), row.arrivals); });
  }
  ops.publishBarriers(b);
  gpu_.device.warpOps()->syncWarp(b);
}

// Each barrier takes a thread some ten cycles: the other warps share them.
void StagedSpace::initBarriers(Value *warp, llvm::ArrayRef<Barriers> all) {
  const BulkCopies &ops = *gpu_.device.bulkCopies();
  const unsigned groupWarps = threads_ / WarpOps::kWarpThreads;
  const unsigned warps = groupWarps + TargetFacts::kHelperThreads / WarpOps::kWarpThreads;
  // In turn, without the load warp.
  const auto warpOf = [&](unsigned turn) {
    turn %= warps - 1;
    return turn < groupWarps ? turn : turn + 1;
  };
  llvm::MapVector<unsigned, llvm::SmallVector<std::pair<const Barriers *, int64_t>, 4>> shares;
  unsigned turn = 0;
  for (const Barriers &row : all)
    for (int64_t i = 0; i < row.count; ++i)
      shares[warpOf(turn++)].emplace_back(&row, i);
  for (const auto &[number, share] : shares)
    when(b.CreateICmpEQ(warp, b.getInt32(number)), "share", [&] {
      for (const auto &[row, i] : share) {
        Value *barrier = b.CreateAdd(row->first, b.getInt32(uint32_t(ir::kMbarrierBytes * i)));
        const auto init = [&] { ops.initBarrier(b, barrier, row->arrivals); };
        row->isUsed ? when(row->isUsed, "used", init) : init();
      }
    });
  ops.publishBarriers(b);
}

Value *StagedSpace::loadsAtOnce(const Op &space, const Ring &ring, const BodyRange &range) {
  // An earlier space has used the shared memory, or the warp takes part in rings of its own making.
  if (&space != firstSpace(*kernel_.kernel) || range.taken || !ring.passed.empty())
    return nullptr;
  Value *isAlone = areMapsUsable();
  if (range.parts)
    isAlone = b.CreateAnd(isAlone, b.CreateICmpEQ(range.parts, b.getInt32(1)));
  if (range.paired)
    isAlone = b.CreateAnd(isAlone, b.CreateNot(range.paired));
  return isAlone;
}

void StagedSpace::beginBarriers(const Op &space, const Ring &ring, const BodyRange &range) {
  const BulkCopies &ops = *gpu_.device.bulkCopies();
  const unsigned rowThreads = ring.picked.empty() ? 0 : GatherWarps::kThreads;
  const auto whereCopied = [&](unsigned count) -> Value * {
    return hasCopyWarps_ ? b.CreateSelect(needsCopyWarps(ring), b.getInt32(count), b.getInt32(0))
                         : b.getInt32(0);
  };
  Value *readers =
      b.CreateAdd(b.getInt32(threads_ + (ring.output ? WarpOps::kWarpThreads : 0) + rowThreads),
                  whereCopied(CopyWarps::kThreads));
  // The load warp's; each thread's that fetches elements or rows; and one of each copy warp.
  Value *writers =
      b.CreateAdd(b.CreateZExt(ring.isLoaded, b.getInt32Ty()),
                  b.getInt32((ring.fetched.empty() ? 0 : WarpOps::kWarpThreads) + rowThreads));
  // Where these only transpose, they take turns.
  Value *copiers = whereCopied(CopyWarps::kWarps);
  if (ring.transposes)
    copiers = b.CreateSelect(ring.areWhole, b.getInt32(1), copiers);
  writers = b.CreateAdd(writers, copiers);
  llvm::SmallVector<Barriers, 4> ringRows;
  llvm::SmallVector<Barriers, 16> all;
  const auto add = [&](Value *first, int64_t count, Value *arrivals, Value *isUsed = nullptr) {
    all.push_back({first, count, arrivals, isUsed});
  };
  // One arrival a warp, of all programs that fill the slot's ring together.
  Value *warps = b.getInt32(threads_ / WarpOps::kWarpThreads);
  if (range.paired)
    warps = b.CreateShl(warps, b.CreateZExt(range.paired, b.getInt32Ty()));
  ringRows.push_back({ring.full, ring.stages, writers});
  ringRows.push_back({ring.empty, ring.stages, warps});
  if (ring.transposes)
    ringRows.push_back({ring.loaded, ring.stages, b.getInt32(1)});
  if (range.taken) {
    add(ring.bodiesFull, ir::kBodiesAhead, b.getInt32(1));
    add(ring.bodiesEmpty, ir::kBodiesAhead, readers);
  }
  if (!ring.passed.empty()) {
    add(ring.numbersFull, ir::kNumbersAhead, b.getInt32(1));
    add(ring.numbersEmpty, ir::kNumbersAhead, readers);
  }
  if (ring.folded.units > 0) {
    Value *isCopied = b.CreateNot(ring.areWhole);
    add(ring.unitFull, ring.folded.units, b.getInt32(1), isCopied);
    add(ring.unitEmpty, ring.folded.units, b.getInt32(CopyWarps::kWarps), isCopied);
  }
  if (range.parts) {
    Value *isCluster = b.CreateICmpNE(range.parts, b.getInt32(1));
    for (Value *barrier : {ring.received, ring.added, ring.reusable})
      add(barrier, 1, b.getInt32(1), isCluster);
    add(ring.ready, 1, range.parts, isCluster);
  }
  if (const std::optional<OutputTile> &output = ring.output) {
    const auto parts = unsigned(output->parts);
    add(output->stored, 1, b.getInt32(output->isInTurns ? threads_ / parts : threads_));
    add(output->taken, 1, b.getInt32(threads_));
    add(output->drained, output->parts, b.getInt32(WarpOps::kWarpThreads));
    for (Value *barrier : {output->ended, output->arrived})
      add(barrier, 1, b.getInt32(WarpOps::kWarpThreads));
  }
  const WarpOps &warpOps = *gpu_.device.warpOps();
  Value *warp =
      b.CreateLShr(warpOps.uniform(b, kernel_.thread), llvm::Log2_32(WarpOps::kWarpThreads));
  Value *isLoad = b.CreateICmpEQ(warp, b.getInt32(threads_ / WarpOps::kWarpThreads));
  Value *isFirst =
      b.CreateIsNull(b.CreateAnd(kernel_.thread, b.getInt32(WarpOps::kWarpThreads - 1)));
  when(isLoad, "ring", [&] { initRing(ring, ringRows); });
  when(b.CreateAnd(isFirst, b.CreateNot(isLoad)), "barriers", [&] { initBarriers(warp, all); });
  // Orders what an earlier space of this program read from shared memory, and what it or a meeting
  // of ranks made visible in global memory, before the copies to come. The fence for global memory
  // takes half a microsecond (it is a membar.gl); where the space is the first of a launch that
  // starts without a meeting, nothing in the launch precedes it.
  if (&space == firstSpace(*kernel_.kernel) && !mayMeet(*kernel_.kernel))
    ops.sharedProxyFence(b);
  else
    ops.proxyFence(b);
  // The load warp begins before the others where it can; they wait for it and each other.
  const unsigned threads = threads_ + TargetFacts::kHelperThreads;
  const auto meet = [&] { gpu_.device.barrier(b, kStartBarrier, threads); };
  if (Value *atOnce = loadsAtOnce(space, ring, range)) {
    atOnce = b.CreateAnd(atOnce, isLoad);
    when(atOnce, "load.begins", [&] { warpOps.arriveAtBarrier(b, kStartBarrier, threads); });
    when(b.CreateNot(atOnce), "meet", meet);
  } else {
    meet();
  }
  // The programs of a cluster copy to each other, and arrive at each other's barriers.
  if (range.parts || range.paired) {
    Value *isShared = b.getFalse();
    if (range.parts)
      isShared = b.CreateICmpNE(range.parts, b.getInt32(1));
    if (range.paired)
      isShared = b.CreateOr(isShared, range.paired);
    when(isShared, "cluster", [&] { gpu_.device.clusterOps()->meet(b); });
  }
}

namespace {

/// Registers of a thread, in the unit of their allocation: what each has at first, and what groups
/// of warps may have later.
struct RegisterShares {
  static constexpr unsigned kRegisters = 65536, kUnit = 8, kMost = 240;
  /// What helper warps keep at least, and what consumers need besides sums.
  static constexpr unsigned kForHelpers = 56, kBesides = 40;

  RegisterShares(const Ring &ring, unsigned threads)
      : each(kRegisters / (threads + TargetFacts::kHelperThreads) / kUnit * kUnit),
        wanted(std::min(ring.hasManySums ? kMost
                                         : unsigned(ring.sums + ring.read) / threads + kBesides,
                        kMost)) {
    // Warps that copy tiles of several types have use for more than the least.
    if (ring.read > 0 && each < wanted) {
      const unsigned given = (wanted - each) * threads / TargetFacts::kHelperThreads + kUnit;
      helpers = std::max(helpers, each - std::min(each, given) / kUnit * kUnit);
    }
    more = std::min(each + (each - helpers) * TargetFacts::kHelperThreads / threads / kUnit * kUnit,
                    kMost);
  }
  unsigned each, wanted, helpers = kForHelpers, more = 0;
};

} // namespace

bool StagedSpace::movesRegisters(const Ring &ring) const {
  const RegisterShares shares(ring, threads_);
  return shares.each < shares.wanted;
}

void StagedSpace::moveRegisters(const Ring &ring, bool copies) {
  if (!movesRegisters(ring))
    return;
  const RegisterShares shares(ring, threads_);
  gpu_.device.warpOps()->setRegisters(b, copies ? shares.helpers : shares.more, !copies);
}

Value *StagedSpace::areMapsUsable() {
  Value *usable = b.getInt64(1);
  for (const auto &map : kernel_.layout->tensorMaps())
    usable = b.CreateAnd(usable, useOf(*map));
  return launchFact(b.CreateICmpEQ(usable, b.getInt64(launch::Frame::kWholeMap)),
                    {.plain = 1, .split = 1, .shared = 1, .copied = 0});
}

void StagedSpace::findPaths(Op &space, Ring &ring) {
  Value *hasFolded = b.getFalse();
  Value *areAllFolded = b.getInt1(ring.folded.units > 0 && ring.fetched.empty());
  ir::walk(space, [&](Op &op) {
    if (!isBox(op))
      return;
    const StagedTile &tile = ring.tiles.find(&op)->second;
    Value *areWhole = b.getTrue(), *areFolded = b.getTrue();
    bool mayFold = ring.folded.units > 0;
    for (const ir::TensorBox &box : tile.source.boxes) {
      const auto &map = tensorMapOf(*kernel_.layout, tile, box, tile.rows);
      Value *use = useOf(map);
      areWhole = b.CreateAnd(areWhole, b.CreateICmpEQ(use, b.getInt64(launch::Frame::kWholeMap)));
      areFolded =
          b.CreateAnd(areFolded, b.CreateICmpEQ(use, b.getInt64(launch::Frame::kFoldedMaps)));
      mayFold &= map.folded.rows > 0;
    }
    ring.paths[&op] = {areWhole, mayFold ? areFolded : nullptr};
    if (mayFold)
      hasFolded = b.CreateOr(hasFolded, areFolded);
    areAllFolded = b.CreateAnd(areAllFolded, mayFold ? areFolded : b.getFalse());
  });
  ring.areWhole = areMapsUsable();
  ring.isLoaded = b.CreateNot(areAllFolded);
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  ring.length =
      b.CreateSelect(hasFolded, count(ring.stages - ring.folded.stages), count(ring.stages));
  ring.firstUnit = b.CreateAdd(ring.slots, b.CreateMul(ring.length, count(ring.slot.bytes())));
}

Value *StagedSpace::canCopy(const Ring &ring) {
  Value *can = areMapsUsable();
  for (const auto &[gather, numbers] : ring.picked) {
    const View object = view(ir::objectOf(gather->operand(0))->result());
    const auto size = uint64_t(dtypeBytes(object.type.dtype()));
    const ViewDimension &columns = object.dims.back();
    // Bytes are counted in 32 bits.
    const ViewDimension &rows = object.dims[object.dims.size() - 2];
    Value *reach = b.CreateMul(b.CreateMul(rows.high, rows.stride), b.getInt64(size));
    can = b.CreateAnd(can, b.CreateICmpULT(reach, b.getInt64(kNoRow)));
    Value *edges = b.CreatePtrToInt(object.data, b.getInt64Ty());
    for (const ViewDimension &dim : llvm::ArrayRef(object.dims).drop_back())
      edges = b.CreateOr(edges, b.CreateMul(dim.stride, b.getInt64(size)));
    edges = b.CreateOr(edges, b.CreateMul(columns.high, b.getInt64(size)));
    can =
        b.CreateAnd(can, b.CreateIsNull(b.CreateAnd(edges, b.getInt64(ir::kSharedWordBytes - 1))));
    can = b.CreateAnd(can, b.CreateICmpEQ(columns.stride, b.getInt64(1)));
  }
  return can;
}

void StagedSpace::lowerBodies(Op &space, const BodyRange &range) {
  Ring ring(space);
  hasCopyWarps_ = !model::hasUnstagedBody(space);
  // What an earlier space had where the barriers are is not looked at any more.
  if (&space != firstSpace(*kernel_.kernel))
    gpu_.device.barrier(b, 0, threads_ + TargetFacts::kHelperThreads);
  const ir::StagedPlan plan(space, gpu_.sharedMark(), ring.output ? ring.output->parts : 0);
  gpu_.lowersOp(space);
  makeBarriers(ring);
  const int64_t mark = gpu_.sharedMark();
  makeSlots(ring);
  DTILE_CHECK(gpu_.sharedMark() <= plan.bytes(ring.stages), "passes know what a space has");
  findPaths(space, ring);
  beginBarriers(space, ring, range);
  llvm::BasicBlock *copies = block("copies");
  llvm::BasicBlock *groups = block("groups");
  llvm::BasicBlock *end = block("staged.end");
  llvm::BasicBlock *plain = nullptr;
  if (!hasCopyWarps_) {
    llvm::BasicBlock *staged = block("staged");
    plain = block("plain");
    b.CreateCondBr(canCopy(ring), staged, plain);
    b.SetInsertPoint(staged);
  }
  Value *warp = b.CreateLShr(gpu_.device.warpOps()->uniform(b, kernel_.thread),
                             llvm::Log2_32(WarpOps::kWarpThreads));
  const auto isWarp = [&](unsigned behindGroups) {
    return b.CreateICmpEQ(warp, b.getInt32(threads_ / WarpOps::kWarpThreads + behindGroups));
  };
  b.CreateCondBr(b.CreateICmpUGE(warp, b.getInt32(threads_ / WarpOps::kWarpThreads)), copies,
                 groups);
  b.SetInsertPoint(copies);
  moveRegisters(ring, /*copies=*/true);
  when(isWarp(0), "copier", [&] {
    LoadWarp copier(gpu_, kernel_, ring);
    lowerAs(copier, space, range);
  });
  if (ring.output) {
    when(isWarp(1), "storer", [&] {
      EpilogueWarp storer(gpu_, kernel_, ring);
      lowerAs(storer, space, range);
    });
  }
  const auto isFrom = [&](unsigned behindGroups) {
    return b.CreateICmpUGE(warp, b.getInt32(threads_ / WarpOps::kWarpThreads + behindGroups));
  };
  if (!ring.picked.empty())
    when(isFrom(GatherWarps::kFirstWarp), "rows", [&] {
      GatherWarps rows(gpu_, kernel_, ring);
      lowerAs(rows, space, range);
    });
  if (hasCopyWarps_)
    whenRarely(b.CreateAnd(isFrom(CopyWarps::kFirstWarp), needsCopyWarps(ring)), "copies", [&] {
      CopyWarps copier(gpu_, kernel_, ring, movesRegisters(ring));
      lowerAs(copier, space, range);
    });
  b.CreateBr(end);
  b.SetInsertPoint(groups);
  moveRegisters(ring, /*copies=*/false);
  MmaWarpgroups multiplier(gpu_, kernel_, ring);
  lowerAs(multiplier, space, range);
  b.CreateBr(end);

  // Nothing is staged there: its tiles may stand where the ring is.
  gpu_.releaseShared(mark);
  if (plain) {
    b.SetInsertPoint(plain);
    BodiesOnly bodies(gpu_, kernel_);
    lowerAs(bodies, space, range);
    b.CreateBr(end);
  }
  b.SetInsertPoint(end);
}

} // namespace

void requestTensorMaps(Op &kernel, launch::Frame &frame) {
  ir::walk(kernel, [&](Op &op) {
    if (isBox(op)) {
      const StagedTile tile = stagedTile(op);
      for (const ir::TensorBox &box : tile.source.boxes)
        for (int64_t rows : {tile.rows, tile.rows / 2})
          if (rows == tile.rows || tile.isMulticast())
            frame.addTensorMap(neededTensorMap(tile, box, rows));
    }
  });
}

std::unique_ptr<BodyLowering> makeStagedLowering(GpuModule &module, const KernelScaffold &kernel,
                                                 Op &space) {
  if (space.has(ir::attr::warpgroups))
    return std::make_unique<StagedSpace>(module, kernel);
  return std::make_unique<BodiesOnly>(module, kernel);
}

} // namespace dtile::backend::gpu