// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions of one warp: PTX ISA 9.0, "Parallel Synchronization and Communication Instructions"
// and "setmaxnreg".
#include "backend/nvptx/hopper.h"
#include "backend/nvptx/inline_ptx.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

namespace dtile::backend::nvptx {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

class HopperWarpOps : public gpu::WarpOps {
public:
  void syncWarp(Builder &b) const override { emitPtx(b, "bar.warp.sync -1;", "~{memory}", {}); }

  void arriveAtBarrier(Builder &b, unsigned which, unsigned threads) const override {
    emitPtx(b, "bar.arrive " + llvm::Twine(which) + ", " + llvm::Twine(threads) + ";", "~{memory}",
            {});
  }

  Value *fromLane(Builder &b, Value *value, Value *lane) const override {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32,
                             {b.getInt32(-1), value, lane, b.getInt32(31)});
  }

  Value *uniform(Builder &b, Value *value) const override {
    if (value->getType()->isIntegerTy(32))
      return fromLane(b, value, b.getInt32(0));
    Value *low = uniform(b, b.CreateTrunc(value, b.getInt32Ty()));
    Value *high = uniform(b, b.CreateTrunc(b.CreateLShr(value, 32), b.getInt32Ty()));
    return b.CreateOr(b.CreateZExt(low, b.getInt64Ty()),
                      b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32));
  }

  Value *anyOfWarp(Builder &b, Value *value) const override {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_vote_any_sync, {b.getInt32(-1), value});
  }

  Value *isElected(Builder &b) const override {
    Value *elected = b.CreateIntrinsic(llvm::Intrinsic::nvvm_elect_sync, {b.getInt32(-1)});
    return b.CreateExtractValue(elected, 1);
  }

  void setRegisters(Builder &b, unsigned count, bool more) const override {
    emitPtx(b,
            llvm::Twine("setmaxnreg.") + (more ? "inc" : "dec") + ".sync.aligned.u32 " +
                llvm::Twine(count) + ";",
            "~{memory}", {});
  }
};

} // namespace

const gpu::WarpOps &hopperWarpOps() {
  static const HopperWarpOps ops;
  return ops;
}

} // namespace dtile::backend::nvptx
