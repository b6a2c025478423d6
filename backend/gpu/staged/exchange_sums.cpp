// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The exchange of sums among the programs of a cluster that share a loop (pass split-sums).
//
// A thread holds the same elements of the sums in all programs, so shared memory needs no layout of
// the tile: it holds groups of four elements, the threads' groups side by side. Each program adds
// up some of the groups (a reduce-scatter) and stores the result in the first program's memory. The
// order of additions is that of the programs, so equal launches give equal bits.
#include "backend/gpu/cluster_ops.h"
#include "backend/gpu/staged/mma_warpgroups.h"

namespace dtile::backend::gpu {

using ir::Op;
using llvm::Value;

namespace {

/// Elements of a group, and bytes.
constexpr unsigned kGroup = 4, kGroupBytes = 16;

/// Emits the exchange for one thread.
class SumExchange {
public:
  SumExchange(llvm::IRBuilder<> &b, const ClusterOps &clusters, unsigned mostParts, Value *parts,
              Value *part, Value *memory, Value *thread, unsigned threads, unsigned groups)
      : b(b), clusters_(clusters), mostParts_(mostParts), parts_(parts), part_(part),
        memory_(memory), thread_(thread), threads_(threads), groups_(groups) {}

  /// Writes the thread's elements to this program's shared memory; zeros fill the last group.
  void write(llvm::ArrayRef<Value *> elements) {
    Value *own = place(clusters_.address(b, memory_, part_));
    for (unsigned group = 0; group < groups_; ++group) {
      llvm::SmallVector<Value *, kGroup> four;
      for (unsigned i = 0; i < kGroup; ++i) {
        const unsigned at = group * kGroup + i;
        four.push_back(at < elements.size() ? elements[at]
                                            : llvm::ConstantFP::get(b.getFloatTy(), 0));
      }
      clusters_.store(b, own, group * pitch(), four);
    }
  }

  /// Reads them from there.
  void read(llvm::MutableArrayRef<Value *> elements) {
    Value *own = place(clusters_.address(b, memory_, part_));
    for (unsigned group = 0; group < groups_; ++group) {
      const auto four = clusters_.load(b, own, group * pitch());
      for (unsigned i = 0; i < kGroup && group * kGroup + i < elements.size(); ++i)
        elements[group * kGroup + i] = four[i];
    }
  }

  /// i32: the groups that this program adds up.
  std::pair<Value *, Value *> ownGroups() {
    const auto bound = [&](Value *part) {
      return b.CreateUDiv(b.CreateMul(part, b.getInt32(groups_)), parts_);
    };
    return {bound(part_), bound(b.CreateAdd(part_, b.getInt32(1)))};
  }

  /// Adds up one group (i32) of all programs. All loads are issued before the first addition, to
  /// hide their latency.
  void addUp(Value *group) {
    Value *there = b.CreateAdd(place(memory_), b.CreateMul(group, b.getInt32(pitch())));
    llvm::SmallVector<llvm::SmallVector<Value *, kGroup>, 8> all;
    for (unsigned i = 0; i < mostParts_; ++i) {
      // Beyond the cluster's size, the last one again, which is not added.
      Value *from = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b.getInt32(i),
                                            b.CreateSub(parts_, b.getInt32(1)));
      all.push_back(clusters_.load(b, clusters_.address(b, there, from), 0));
    }
    llvm::SmallVector<Value *, kGroup> sums = all.front();
    for (unsigned i = 1; i < mostParts_; ++i) {
      Value *exists = b.CreateICmpULT(b.getInt32(i), parts_);
      for (unsigned e = 0; e < kGroup; ++e)
        sums[e] = b.CreateSelect(exists, b.CreateFAdd(sums[e], all[i][e]), sums[e]);
    }
    clusters_.store(b, clusters_.address(b, there, b.getInt32(0)), 0, sums);
  }

private:
  /// Bytes from a group to the next one.
  [[nodiscard]] unsigned pitch() const { return threads_ * kGroupBytes; }
  /// The thread's first group.
  Value *place(Value *memory) {
    return b.CreateAdd(memory, b.CreateMul(thread_, b.getInt32(kGroupBytes)));
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
  // The other warpgroups may still multiply what is in the ring.
  sync();
  exchange.write(all);
  gpu_.device.clusterOps()->sync(b);
  const auto [begin, end] = exchange.ownGroups();
  BodyLowering::loop(
      b.CreateZExt(b.CreateSub(end, begin), b.getInt64Ty()), "groups",
      [&](Value *i) { exchange.addUp(b.CreateAdd(begin, b.CreateTrunc(i, b.getInt32Ty()))); });
  gpu_.device.clusterOps()->sync(b);
  b.CreateCondBr(b.CreateIsNull(part_), first, bodyEnd_);
  b.SetInsertPoint(first);
  Registers sums(all);
  exchange.read(sums);
  llvm::BasicBlock *last = b.GetInsertBlock();
  b.CreateBr(merge);
  b.SetInsertPoint(merge);
  size_t at = 0;
  for (ir::Value *sum : loop.results()) {
    Registers merged(registers(sum));
    for (Value *&element : merged) {
      llvm::PHINode *phi = b.CreatePHI(element->getType(), 2);
      phi->addIncoming(all[at], alone);
      phi->addIncoming(sums[at], last);
      element = phi;
      ++at;
    }
    setRegisters(sum, merged);
  }
}

} // namespace dtile::backend::gpu
