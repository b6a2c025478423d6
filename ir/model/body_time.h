// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long a body takes: one walk over its operations, for numbers that are known now (when the
// compiler compares configurations) and for code that finds them at a launch.
//
// A loop whose operands come ahead through shared memory takes, a round,
//
//   max(arithmetic * together, bytes * together / rate, bytes * running / cacheRate,
//       streamed * running / memoryRate, latency / depth) + overhead
//
// with `together` programs on a processor and `running` on all: the arithmetic units, the way into
// shared memory, the L2 cache, memory for what no other body loads, and as many stages as are in
// flight at once. A round of another loop waits for what it loads before it multiplies. The form
// is that of Origami (github.com/ROCm/rocm-libraries, shared/origami); the machine's numbers are
// fitted to measurements (docs/measurements/model.md).
#pragma once

#include "ir/analysis/communication.h"
#include "ir/core/constants.h"
#include "ir/model/body_facts.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace dtile::model {

/// `Domain` has numbers and what is known of sizes:
///   using Number;
///   Number real(double), add(Number, Number), mul(Number, Number), larger(Number, Number);
///   Number select(Value &condition, Number then, Number otherwise)   of a known condition
///   bool isKnown(Value &)              whether a number or view follows from the launch
///   Number rounds(Op &loop, int64_t together)   of a loop whose bounds are known
///   Number bytesOfView(Value &)        of a view that is known
///   Number smaller(Number, Number)
///   Number unlessOwn(Value &peer, Number bytes)   0 where the peer is this rank
///   Number byRowStart(Op &load, const ByRowStart &)
template <typename Domain> class BodyTime {
public:
  using Number = typename Domain::Number;
  /// `together`: programs on one processor; `running`: on all processors. `facts`, where several
  /// share them, are of the kernel. `isPaired`: two programs share loads (pass multicast-operands).
  BodyTime(Domain &domain, const TargetFacts &machine, Number together, Number running,
           BodyFacts *facts = nullptr, bool isPaired = false)
      : d_(domain), machine_(machine), together_(together), running_(running),
        facts_(facts ? *facts : own_), isPaired_(isPaired) {}
  BodyTime(const BodyTime &) = delete;
  BodyTime &operator=(const BodyTime &) = delete;

  [[nodiscard]] Number time(ir::Block &block) {
    return time(block.ops().begin(), block.ops().end());
  }

  /// Of a whole body. Programs that multiply send at the same time, so that each has its share of
  /// the way to other devices.
  [[nodiscard]] Number bodyTime(ir::Block &body) {
    Number own = time(body);
    if (facts_.begins(body))
      own = d_.add(own, d_.mul(d_.real(kBegin), together_));
    const Sends sends = facts_.sendsOfProducts(body);
    if (sends == Sends::No)
      return own;
    Number sent =
        d_.mul(d_.mul(remoteBytes(body), d_.real(1.0 / machine_.timing.linkRate)), running_);
    if (sends == Sends::InTurn)
      return d_.add(own, d_.mul(d_.real(kInTurn), sent));
    return d_.larger(d_.add(own, d_.mul(d_.real(kBeside), sent)), sent);
  }

  /// Of the operations from `first` to before `last`.
  [[nodiscard]] Number time(ir::Block::List::iterator first, ir::Block::List::iterator last) {
    Number inner = d_.real(0), moved = d_.real(0), sent = d_.real(0), shifted = d_.real(0);
    double computed = 0;
    for (ir::Op &op : llvm::make_range(first, last)) {
      // What the epilogue warp sends leaves while the warpgroups multiply for the next body.
      if (ir::isLoopOfEpilogue(op))
        sent = d_.add(sent, loopTime(op));
      else if (op.is(ir::OpKind::For) || op.is(ir::OpKind::While))
        inner = d_.add(inner, loopTime(op));
      else if (op.is(ir::OpKind::If))
        inner = d_.add(inner, branch(op, &BodyTime::time));
      Number &sum = op.is(ir::OpKind::Put) && op.get(ir::attr::epilogue) ? sent : moved;
      sum = d_.add(sum, moveTime(op));
      shifted = d_.add(shifted, shiftTime(op));
      computed += facts_.arithmetic(op, machine_);
    }
    const Number alone = d_.mul(d_.real(computed), together_);
    return d_.larger(d_.add(inner, d_.add(d_.larger(moved, alone), shifted)), sent);
  }

  /// What a body waits beside that, however little it does. Loads of a body are under way together,
  /// as are those of a loop's rounds.
  [[nodiscard]] Number latency(ir::Block &body) {
    return d_.add(latencyOfOps(body),
                  d_.real(facts_.readsMemory(body) ? machine_.timing.memoryLatency : 0));
  }

  /// Of the time, what programs share where a body is theirs together: the loops of pass
  /// split-sums.
  [[nodiscard]] Number sharedTime(ir::Block &block) {
    Number sum = d_.real(0);
    for (ir::Op &op : block.ops())
      if (op.is(ir::OpKind::For) &&
          (op.get(ir::attr::split_sums) || op.get(ir::attr::split_rounds)))
        sum = d_.add(sum, loopTime(op));
    return sum;
  }

  /// Bytes that a body moves between this device and others.
  [[nodiscard]] Number remoteBytes(ir::Block &block) {
    Number sum = d_.real(0);
    for (ir::Op &op : block.ops()) {
      if (op.is(ir::OpKind::For) || op.is(ir::OpKind::While)) {
        Number round = d_.real(0);
        for (unsigned i = 0; i < op.numRegions(); ++i)
          round = d_.add(round, remoteBytes(op.body(i)));
        sum = d_.add(sum, d_.mul(roundsOf(op), d_.mul(round, d_.real(1.0 / double(batchOf(op))))));
        if (goesRound(op))
          sum = d_.add(sum, d_.mul(ownBytes(op), d_.real(-1.0 / double(batchOf(op)))));
      } else if (op.is(ir::OpKind::If)) {
        sum = d_.add(sum, branch(op, &BodyTime::remoteBytes));
      }
      sum = d_.add(sum, remoteBytesOf(op));
    }
    return sum;
  }

  /// Bytes that a copy moves.
  [[nodiscard]] Number bytesOfCopy(ir::Value &from, ir::Value &to) {
    if (!from.type().isView())
      return d_.real(bytesOf(from.type()));
    // What is inside both is copied.
    if (d_.isKnown(from) && d_.isKnown(to))
      return d_.smaller(d_.bytesOfView(from), d_.bytesOfView(to));
    if (d_.isKnown(from) || d_.isKnown(to))
      return d_.bytesOfView(d_.isKnown(from) ? from : to);
    return d_.real(guessBytes(from));
  }

  /// What an operation takes that moves data, at the rate of its program.
  [[nodiscard]] Number moveTime(ir::Op &op) {
    switch (op.kind()) {
    case ir::OpKind::Load:
    case ir::OpKind::Gather:
      // What comes ahead is counted by its loop.
      if (ir::isStagedLoad(op) || ir::comesVia(op, ir::LoadPath::Threads))
        return d_.real(0);
      // Beside memory, what threads read of their own in shared memory takes next to nothing.
      if (takesKept_ && isKept(op))
        return d_.real(0);
      return d_.larger(d_.add(tileTime(op.result()->type(), op.operand(0)->type(),
                                       2 * machine_.timing.localRate),
                              narrowLoads(op)),
                       streamTime(op));
    case ir::OpKind::Store:
    case ir::OpKind::Scatter:
    case ir::OpKind::ReduceAddScatter:
      return d_.mul(
          tileTime(op.operand(0)->type(), op.operand(1)->type(), machine_.timing.storeRate),
          d_.real(facts_.pieceFactor(op, op.operand(0)->type())));
    case ir::OpKind::Put:
    case ir::OpKind::PutSignal:
    case ir::OpKind::Get:
    case ir::OpKind::ReduceAdd: {
      const double rate =
          isBulkCopy(op, machine_) ? machine_.timing.bulkRate : machine_.timing.threadsRate;
      const double rows = op.operand(0)->type().isView() ? copiedRowFactor(*op.operand(0))
                                                         : rowFactor(op.operand(0)->type());
      return d_.mul(bytesOfCopy(*op.operand(0), *op.operand(1)), d_.real(flags(op) * rows / rate));
    }
    default:
      return d_.real(0);
    }
  }

  /// A round of a loop whose other operations take `round`, as rounds follow each other.
  [[nodiscard]] Number roundTime(ir::Op &loop, Number round) {
    return loadsAhead(loop) == Ahead::No ? round : roundAhead(loop, round);
  }

private:
  /// Programs that send in turn with what they compute leave the way idle meanwhile. GEMM-AllReduce
  /// in one shot sends 17 to 21 MB at 100 to 110 bytes a nanosecond on two H200s, which have 350.
  static constexpr double kInTurn = 2;
  /// What products take longer while tiles leave, as a part of the time that these take at the
  /// link's rate. GEMM-ReduceScatter of 4096×8192×4096 on two H200s, tiles of 128×256: 50 µs with a
  /// tile for the other rank, 43 without; all programs' tiles take the link 24.
  static constexpr double kBeside = 0.3;
  /// What a body that computes on tiles it loads takes to begin: its position, which rows exist,
  /// addresses. Beside products it does not show. For x · sigmoid(x) · g of 4096×8192 on an H200,
  /// tiles of 1024 elements took 64 to 66 µs, of 2048 56 to 63, of 4096 54 to 58.
  static constexpr double kBegin = 60;
  /// Of a loop whose length is not known: the positions that it goes over in blocks, as many
  /// whatever the block, and the rounds of one that goes one by one.
  static constexpr double kPositions = 2048, kRounds = 32;

  Number latencyOfOps(ir::Block &block) {
    Number inner = d_.real(0);
    double waited = 0;
    for (ir::Op &op : block.ops()) {
      if (op.is(ir::OpKind::For) && onlyNotifies(op))
        waited += machine_.timing.notifyLatency;
      else if (op.is(ir::OpKind::For) || op.is(ir::OpKind::While))
        inner = d_.add(inner, overRounds(op, [&] { return latencyOfRound(op); }));
      else if (op.is(ir::OpKind::If))
        inner = d_.add(inner, branch(op, &BodyTime::latencyOfOps));
      waited += latencyOf(op, machine_);
    }
    return d_.add(inner, d_.real(waited));
  }

  Number latencyOfRound(ir::Op &loop) {
    Number round = d_.real(latencyOfReads(loop, machine_, takesKept_));
    for (unsigned i = 0; i < loop.numRegions(); ++i)
      round = d_.add(round, latencyOfOps(loop.body(i)));
    return d_.mul(round, d_.real(1.0 / double(batchOf(loop))));
  }

  /// One iteration may do what several of those did that were written; not all of them exist.
  static int64_t batchOf(const ir::Op &loop) { return loop.getOr(ir::attr::batch, 1); }

  Number roundsOf(ir::Op &loop) {
    if (loop.is(ir::OpKind::For) &&
        llvm::all_of(loop.operands().take_front(3), [&](ir::Value *x) { return d_.isKnown(*x); }))
      return d_.rounds(loop, batchOf(loop));
    const std::optional<int64_t> step =
        loop.is(ir::OpKind::For) ? ir::constantOf(loop.operand(2)) : std::nullopt;
    return d_.real(step.value_or(1) > 1 ? std::max(kPositions / double(*step), 1.0) : kRounds);
  }

  /// The sum of what `round` gives over a loop's rounds. The first ones of some loops take their
  /// tiles from shared memory, where an earlier loop has left them (pass keep-rows).
  template <typename Round> Number overRounds(ir::Op &loop, Round round) {
    Number rounds = roundsOf(loop);
    const int64_t tiles = facts_.keptTiles(loop);
    if (tiles == 0)
      return d_.mul(rounds, round());
    Number kept = d_.smaller(rounds, d_.real(double(tiles)));
    Number others = d_.add(rounds, d_.mul(kept, d_.real(-1)));
    Number far = round();
    const bool outer = std::exchange(takesKept_, true);
    Number near = round();
    takesKept_ = outer;
    return d_.add(d_.mul(kept, near), d_.mul(others, far));
  }

  Number loopTime(ir::Op &loop) {
    const auto roundOf = [&] {
      Number round = d_.real(0);
      for (unsigned i = 0; i < loop.numRegions(); ++i)
        round = d_.add(round, time(loop.body(i)));
      if (loadsAhead(loop) == Ahead::No)
        return d_.mul(round, d_.real(1.0 / double(batchOf(loop))));
      return roundAhead(loop, round);
    };
    Number all = overRounds(loop, roundOf);
    return loadsAhead(loop) == Ahead::No ? all : d_.add(all, d_.real(startAhead(loop)));
  }

  Number roundAhead(ir::Op &loop, Number round) {
    const Timing &timing = machine_.timing;
    const bool isTma = loadsAhead(loop) == Ahead::Tma;
    double bytes = 0;
    Number cached = d_.real(0);
    for (ir::Op &op : loop.body().ops()) {
      const double own = bytesAhead(op, machine_);
      if (own == 0)
        continue;
      bytes += isTma ? tmaBytesAhead(op) : own;
      const double share = isPaired_ && op.get(ir::attr::multicast) ? 0.5 : 1;
      cached = d_.add(cached, d_.mul(d_.real(share / timing.cacheRate),
                                     d_.byRowStart(op, cacheBytesAhead(op, machine_))));
    }
    const double rate = isTma ? timing.tmaRate : timing.asyncRate;
    // A stage that is being read is not on its way.
    const double depth = isTma ? double(std::max<int64_t>(loop.get(ir::attr::stages) - 1, 1))
                               : double(loop.get(ir::attr::async_stages));
    const double latency = (isTma ? timing.tmaLatency : timing.asyncLatency) / depth;
    round = d_.larger(round, d_.mul(d_.real(bytes / rate), together_));
    round = d_.larger(round, d_.mul(cached, running_));
    round =
        d_.larger(round, d_.mul(d_.real(facts_.streamedAhead(loop) / timing.memoryRate), running_));
    // Neither TMA nor cp.async takes rows that begin anywhere. TMA brings them folded, one operand
    // after the other, where there is room; threads that copy them instead are no faster than copy
    // warps, which load one operand beside the other.
    Number copied = d_.real(0);
    for (ir::Op &op : loop.body().ops())
      if (ir::comesVia(op, ir::LoadPath::Tma) || ir::comesVia(op, ir::LoadPath::Threads)) {
        const bool isFolded = isTma && facts_.foldedUnits(loop) > 0;
        const double time =
            isFolded ? foldedTime(op) : bytesOf(op.result()->type()) / timing.copyWarpRate;
        const Number one = d_.byRowStart(op, {.anywhere = time});
        copied = isFolded || (isTma && facts_.hasUnstagedBody(loop)) ? d_.add(copied, one)
                                                                     : d_.larger(copied, one);
      }
    round = d_.larger(round, d_.mul(copied, together_));
    round = d_.larger(round, d_.mul(d_.real(transposeTime(loop)), together_));
    return d_.add(d_.larger(round, d_.real(latency)), d_.real(roundOverhead(loop, machine_)));
  }

  /// What a tile of products takes more whose rows begin anywhere, as threads load it element by
  /// element. On an H200 tf32 products of 129×969×10849 and 3019×9590×1598 took 2.1 and 2.2 times
  /// as long as predicted without.
  Number narrowLoads(ir::Op &load) {
    constexpr double kMore = 1.5;
    const ir::Type tile = load.result()->type();
    if (!tile.isTile() || tile.rank() != 2 || !ir::multiplies(*load.enclosing(ir::OpKind::Space)))
      return d_.real(0);
    const double time = kMore * bytesOf(tile) / (2 * machine_.timing.localRate);
    return d_.mul(d_.byRowStart(load, {.anywhere = time}), together_);
  }

  /// What a tile takes more whose rows begin anywhere, in spaces without products: threads make
  /// each word of parts of two others. Programs beside them do not hide that. On an H200, swish of
  /// 333×50257 in bf16 takes 5.4 µs more a body if threads move 3 · 8 words, and 1.2 if 3 · 2.
  Number shiftTime(ir::Op &op) {
    if ((!op.is(ir::OpKind::Load) && !op.is(ir::OpKind::Store)) || (takesKept_ && isKept(op)))
      return d_.real(0);
    const ir::Type tile = op.is(ir::OpKind::Load) ? op.result()->type() : op.operand(0)->type();
    if (!tile.isTile() || tile.rank() != 2 || ir::multiplies(*op.enclosing(ir::OpKind::Space)))
      return d_.real(0);
    constexpr double kOfWord = 200;
    const auto threads = double(op.enclosing(ir::OpKind::Kernel)->getOr(ir::attr::threads, 128));
    return d_.byRowStart(op, {.anywhere = kOfWord * bytesOf(tile) / double(kRowAlign) / threads});
  }

  /// Of an iteration's tiles that copy warps transpose.
  [[nodiscard]] double transposeTime(ir::Op &loop) const {
    double bytes = 0;
    for (const ir::Op &op : loop.body().ops())
      if (op.is(ir::OpKind::Load) && op.get(ir::attr::transposed))
        bytes += bytesOf(op.result()->type());
    const Timing &timing = machine_.timing;
    return bytes == 0 ? 0 : timing.transposeStage + bytes / timing.transposeRate;
  }

  /// Of a tile that comes in units (ir/analysis/boxes/folded_tiles.h).
  [[nodiscard]] double foldedTime(const ir::Op &load) const {
    const Timing &timing = machine_.timing;
    const ir::FoldedTile tile(load.result()->type(), load.get(ir::attr::swizzle));
    return double(tile.units) *
           std::max(double(tile.loadedBytes()) / timing.foldedRate, timing.foldedUnit);
  }

  /// The producer of a ring is already at the next body when the last round of one is computed;
  /// threads that copy begin anew.
  [[nodiscard]] double startAhead(const ir::Op &loop) const {
    return loadsAhead(loop) == Ahead::Threads ? machine_.timing.asyncLoop : machine_.timing.tmaLoop;
  }

  /// Of its arms.
  Number branch(ir::Op &branch, Number (BodyTime::*part)(ir::Block &)) {
    Number then = (this->*part)(branch.body(0));
    Number otherwise = branch.numRegions() > 1 ? (this->*part)(branch.body(1)) : d_.real(0);
    if (d_.isKnown(*branch.operand(0)))
      return d_.select(*branch.operand(0), then, otherwise);
    return d_.larger(then, otherwise);
  }

  /// Within own memory there is one way to read and one to write.
  Number tileTime(ir::Type tile, ir::Type place, double localRate) {
    const double bytes = bytesOf(tile) * rowFactor(tile);
    if (place.isRemote())
      return d_.real(bytes / machine_.timing.threadsRate);
    return d_.mul(d_.real(bytes / localRate), together_);
  }

  /// Bytes that a round of a loop over all ranks moves to one of them, as that one is once this
  /// rank.
  Number ownBytes(ir::Op &loop) {
    Number sum = d_.real(0);
    for (ir::Op &op : loop.body().ops())
      if (const RemoteAccess access = remoteAccess(op);
          access.place && access.peer && !d_.isKnown(*access.peer))
        sum = d_.add(sum, d_.mul(bytesOfCopy(*access.other, *access.place), d_.real(flags(op))));
    return sum;
  }

  /// Words of the LL protocol carry as much besides.
  static double flags(const ir::Op &op) {
    return op.is(ir::OpKind::Put) && op.get(ir::attr::ll) ? 2 : 1;
  }

  Number streamTime(ir::Op &load) {
    if (load.operand(0)->type().isRemote())
      return d_.real(0);
    const Stream stream = facts_.streamOf(load);
    if (stream.share == 0)
      return d_.real(0);
    const ir::Type tile = load.result()->type();
    const double bytes = bytesOf(tile) * stream.share * facts_.pieceFactor(load, tile);
    Number time = d_.mul(d_.real(bytes / machine_.timing.memoryRate), running_);
    return stream.isReread ? d_.mul(time, missedPart(load)) : time;
  }

  /// Of what the bodies that run at once read again, the part that the L2 cache has no more: from
  /// none, where they read half of it, to all.
  Number missedPart(ir::Op &load) {
    Number bytes = d_.real(0);
    for (ir::Op *first : facts_.firstReads(load)) {
      Number read = d_.real(bytesOf(first->result()->type()));
      for (ir::Op *around = first->parentOp(); !around->is(ir::OpKind::Space);
           around = around->parentOp())
        if (around->is(ir::OpKind::For) || around->is(ir::OpKind::While))
          read = d_.mul(read, roundsOf(*around));
      bytes = d_.add(bytes, read);
    }
    Number filled = d_.mul(bytes, d_.mul(running_, d_.real(2.0 / double(machine_.cacheBytes))));
    return d_.smaller(d_.larger(d_.add(filled, d_.real(-1)), d_.real(0)), d_.real(1));
  }

  Number remoteBytesOf(ir::Op &op) {
    const RemoteAccess access = remoteAccess(op);
    if (!access.place)
      return d_.real(0);
    const Number bytes = d_.mul(bytesOfCopy(*access.other, *access.place), d_.real(flags(op)));
    return access.peer && d_.isKnown(*access.peer) ? d_.unlessOwn(*access.peer, bytes) : bytes;
  }

  Domain &d_;
  const TargetFacts &machine_;
  Number together_;
  Number running_;
  /// In rounds whose tiles are in shared memory.
  bool takesKept_ = false;
  BodyFacts own_;
  BodyFacts &facts_;
  bool isPaired_;
};

} // namespace dtile::model
