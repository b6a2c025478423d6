// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The exchange of sums among the programs of a cluster that share a loop (pass split-sums).
//
// A thread holds the same elements of the sums in all programs, so shared memory needs no layout of
// the tile: it holds groups of four elements, the threads' groups side by side. Each program adds
// up some of the groups, and the first program collects them (a reduce-scatter and a gather). All
// that goes from one program to another are bulk copies, which complete at barriers where they
// arrive: no thread waits for another program's memory, and nothing is fenced for the cluster.
//
//   all:      arrive at ready of all programs · write the sums · wait ready ·
//             copy to each program those of its groups · wait received ·
//             add up the own groups · copy them to the first program
//   first:    wait added · read the sums · arrive at reusable of all programs ·
//             wait until the tile before has left shared memory
//
// They stand in the ring, which nothing needs any more, the sums first, then what other programs
// send: a program is ready for that when its own products are done. Before the helper warps fill it
// for the next body, they wait at reusable: then the first program has everything, so nothing is
// read or written in any of them. A program's warpgroups wait there, too, before they leave: others
// may still copy from and to it.
//
// The order of additions is that of the programs, so equal launches give equal bits.
#include "backend/gpu/cluster_ops.h"
#include "backend/gpu/staged/mma_warpgroups.h"
#include "ir/analysis/shared_memory_plan.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::backend::gpu {

using ir::Op;
using llvm::Value;

namespace {

constexpr unsigned kGroup = ir::kExchangeGroup, kGroupBytes = ir::kExchangeGroupBytes;

/// Emits the exchange for one thread.
class SumExchange {
public:
  SumExchange(llvm::IRBuilder<> &b, const ClusterOps &clusters, unsigned mostParts, Value *parts,
              Value *part, Value *memory, Value *thread, unsigned threads, unsigned groups)
      : b(b), clusters_(clusters), mostParts_(mostParts), parts_(parts), part_(part),
        memory_(memory), thread_(thread), threads_(threads), groups_(groups) {}

  /// Writes the thread's elements to shared memory; zeros fill the last group.
  void write(llvm::ArrayRef<Value *> elements) {
    for (unsigned group = 0; group < groups_; ++group) {
      llvm::SmallVector<Value *, kGroup> four;
      for (unsigned at = group * kGroup; at < (group + 1) * kGroup; ++at)
        four.push_back(at < elements.size() ? elements[at]
                                            : llvm::ConstantFP::get(b.getFloatTy(), 0));
      writeGroup(b.getInt32(group), four);
    }
  }

  /// Reads them from there.
  void read(llvm::MutableArrayRef<Value *> elements) {
    for (unsigned group = 0; group < groups_; ++group) {
      Value *four = b.CreateAlignedLoad(fourFloats(), place(memory_, b.getInt32(group)),
                                        llvm::Align(kGroupBytes));
      for (unsigned i = 0; i < kGroup && group * kGroup + i < elements.size(); ++i)
        elements[group * kGroup + i] = b.CreateExtractElement(four, i);
    }
  }

  /// i32: the first group that a program adds up, and the one after its last.
  Value *begin(Value *part) { return b.CreateUDiv(b.CreateMul(part, b.getInt32(groups_)), parts_); }
  Value *end(Value *part) { return begin(b.CreateAdd(part, b.getInt32(1))); }
  /// i32: bytes of the groups that a program adds up.
  Value *bytes(Value *part) {
    return b.CreateMul(b.CreateSub(end(part), begin(part)), b.getInt32(pitch()));
  }
  [[nodiscard]] Value *allBytes() { return b.getInt32(groups_ * pitch()); }

  /// By one thread: sends another program its groups; they complete at its barrier.
  void send(Value *to, Value *barrier) {
    Value *from = b.CreateAdd(memory_, b.CreateMul(begin(to), b.getInt32(pitch())));
    copy(received(part_, to), from, bytes(to), to, barrier);
  }
  /// By one thread: sends the first program what has been added up.
  void sendSums(Value *barrier) {
    Value *from = b.CreateAdd(memory_, b.CreateMul(begin(part_), b.getInt32(pitch())));
    copy(from, from, bytes(part_), b.getInt32(0), barrier);
  }

  /// Adds up one of the own groups (i32) of all programs. All loads are issued before the first
  /// addition, to hide their latency.
  void addUp(Value *group) {
    Value *within = b.CreateSub(group, begin(part_));
    Value *own = place(memory_, group, /*asAddress=*/true);
    llvm::SmallVector<llvm::SmallVector<Value *, kGroup>, 8> all;
    for (unsigned i = 0; i < mostParts_; ++i) {
      Value *sent = place(received(b.getInt32(i), part_), within, /*asAddress=*/true);
      Value *isOwn = b.CreateICmpEQ(b.getInt32(i), part_);
      all.push_back(clusters_.loadWhere(b, b.CreateICmpULT(b.getInt32(i), parts_),
                                        b.CreateSelect(isOwn, own, sent)));
    }
    llvm::SmallVector<Value *, kGroup> sums = all.front();
    for (const auto &addends : llvm::drop_begin(all))
      for (auto [sum, addend] : llvm::zip_equal(sums, addends))
        sum = b.CreateFAdd(sum, addend);
    writeGroup(group, sums);
  }

private:
  [[nodiscard]] llvm::Type *fourFloats() {
    return llvm::FixedVectorType::get(b.getFloatTy(), kGroup);
  }
  /// Bytes from a group to the next one.
  [[nodiscard]] unsigned pitch() const { return threads_ * kGroupBytes; }
  /// The thread's elements of a group (i32), after an address (i32).
  Value *place(Value *memory, Value *group, bool asAddress = false) {
    Value *offset = b.CreateAdd(b.CreateMul(group, b.getInt32(pitch())),
                                b.CreateMul(thread_, b.getInt32(kGroupBytes)));
    Value *address = b.CreateAdd(memory, offset);
    return asAddress ? address : b.CreateIntToPtr(address, b.getPtrTy(Device::kShared));
  }
  void writeGroup(Value *group, llvm::ArrayRef<Value *> elements) {
    Value *four = llvm::PoisonValue::get(fourFloats());
    for (auto [i, element] : llvm::enumerate(elements))
      four = b.CreateInsertElement(four, element, i);
    b.CreateAlignedStore(four, place(memory_, group), llvm::Align(kGroupBytes));
  }
  /// i32: where in program `to` stands what program `from` sends it.
  Value *received(Value *from, Value *to) {
    // A program sends itself nothing.
    Value *number = b.CreateSub(from, b.CreateZExt(b.CreateICmpUGT(from, to), b.getInt32Ty()));
    Value *most = b.CreateUDiv(b.CreateAdd(b.getInt32(groups_ - 1), parts_), parts_);
    Value *before = b.CreateAdd(b.getInt32(groups_), b.CreateMul(number, most));
    return b.CreateAdd(memory_, b.CreateMul(before, b.getInt32(pitch())));
  }
  void copy(Value *to, Value *from, Value *bytes, Value *program, Value *barrier) {
    clusters_.copy(b, clusters_.address(b, to, program), from, bytes,
                   clusters_.address(b, barrier, program));
  }

  llvm::IRBuilder<> &b;
  const ClusterOps &clusters_;
  unsigned mostParts_;
  Value *parts_, *part_, *memory_, *thread_;
  unsigned threads_, groups_;
};

} // namespace

void MmaWarpgroups::addParts(Op &loop) {
  Registers all;
  for (ir::Value *sum : loop.results())
    llvm::append_range(all, registers(sum));
  const auto groups = unsigned((all.size() + kGroup - 1) / kGroup);
  llvm::BasicBlock *alone = b.GetInsertBlock();
  llvm::BasicBlock *several = block("parts"), *first = block("parts.first"),
                   *merge = block("parts.end");
  b.CreateCondBr(b.CreateICmpEQ(parts_, b.getInt32(1)), merge, several);
  b.SetInsertPoint(several);
  const auto most = unsigned(gpu_.device.facts().clusterPrograms);
  SumExchange exchange(b, *gpu_.device.clusterOps(), most, parts_, part_, ring_.slots,
                       kernel_.thread, threads_, groups);
  const auto isThread = [&](Value *number) { return b.CreateICmpEQ(kernel_.thread, number); };
  const auto isSome = [&](Value *bytes) { return b.CreateICmpNE(bytes, b.getInt32(0)); };
  // The other warpgroups may still multiply what is in the ring.
  sync();
  const auto arriveAtAll = [&](Value *barrier) {
    when(b.CreateICmpULT(kernel_.thread, parts_), "arrive", [&] {
      const ClusterOps &clusters = *gpu_.device.clusterOps();
      clusters.arrive(b, clusters.address(b, barrier, kernel_.thread));
    });
  };
  arriveAtAll(ring_.ready);
  exchange.write(all);
  bulk_.sharedProxyFence(b);
  sync();
  waitPhase(ring_.ready, exchanged_.phase());
  Value *own = exchange.bytes(part_);
  when(b.CreateICmpULT(kernel_.thread, parts_), "exchange", [&] {
    Value *isOwn = isThread(part_);
    when(isOwn, "announce", [&] {
      Value *others = b.CreateSub(parts_, b.getInt32(1));
      bulk_.arriveExpecting(b, ring_.received, b.CreateMul(own, others));
      when(b.CreateIsNull(part_), "first",
           [&] { bulk_.arriveExpecting(b, ring_.added, b.CreateSub(exchange.allBytes(), own)); });
    });
    Value *sends = b.CreateAnd(b.CreateNot(isOwn), isSome(exchange.bytes(kernel_.thread)));
    when(sends, "send", [&] { exchange.send(kernel_.thread, ring_.received); });
  });
  waitPhase(ring_.received, exchanged_.phase());
  Value *begin = exchange.begin(part_);
  Value *count = b.CreateSub(exchange.end(part_), begin);
  BodyLowering::loop(b.CreateZExt(count, b.getInt64Ty()), "groups", [&](Value *i) {
    exchange.addUp(b.CreateAdd(begin, b.CreateTrunc(i, b.getInt32Ty())));
  });
  llvm::BasicBlock *other = block("parts.other");
  b.CreateCondBr(b.CreateIsNull(part_), first, other);
  b.SetInsertPoint(other);
  bulk_.sharedProxyFence(b);
  sync();
  when(b.CreateAnd(isThread(b.getInt32(0)), isSome(own)), "send.sums",
       [&] { exchange.sendSums(ring_.added); });
  exchanged_.next();
  b.CreateBr(bodyEnd_);
  b.SetInsertPoint(first);
  waitPhase(ring_.added, exchanged_.phase());
  exchanged_.next();
  Registers sums(all);
  exchange.read(sums);
  sync();
  arriveAtAll(ring_.reusable);
  if (ring_.output && ring_.lastLoop == &loop)
    awaitOutputRead();
  goOnWith(loop, {all, alone}, {sums, b.GetInsertBlock()}, merge);
}

void MmaWarpgroups::goOnWith(Op &loop, const SumsFrom &own, const SumsFrom &added,
                             llvm::BasicBlock *merge) {
  b.CreateBr(merge);
  b.SetInsertPoint(merge);
  size_t at = 0;
  for (ir::Value *sum : loop.results()) {
    Registers merged(registers(sum));
    for (Value *&element : merged) {
      llvm::PHINode *phi = b.CreatePHI(element->getType(), 2);
      phi->addIncoming(own.elements[at], own.block);
      phi->addIncoming(added.elements[at], added.block);
      element = phi;
      ++at;
    }
    setRegisters(sum, merged);
  }
}

} // namespace dtile::backend::gpu
