// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Clusters and distributed shared memory: PTX ISA 9.0, "mapa", "barrier.cluster", and the state
// space .shared::cluster.
#include "backend/nvptx/hopper.h"
#include "backend/nvptx/inline_ptx.h"

namespace dtile::backend::nvptx {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

class Clusters : public gpu::ClusterOps {
public:
  Value *size(Builder &b) const override { return read(b, "%cluster_nctaid.x"); }
  Value *rank(Builder &b) const override { return read(b, "%cluster_ctarank"); }
  Value *number(Builder &b) const override { return read(b, "%clusterid.x"); }
  Value *count(Builder &b) const override { return read(b, "%nclusterid.x"); }

  void meet(Builder &b) const override {
    emitPtx(b, "barrier.cluster.arrive.relaxed;", "~{memory}", {});
    emitPtx(b, "barrier.cluster.wait;", "~{memory}", {});
  }

  Value *address(Builder &b, Value *shared, Value *rank) const override {
    return emitPtx(b, b.getInt32Ty(), "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r",
                   {shared, rank});
  }

  void arrive(Builder &b, Value *barrier) const override {
    emitPtx(b, "mbarrier.arrive.shared::cluster.b64 _, [$0];", "r,~{memory}", {barrier});
  }

  void arriveWhere(Builder &b, Value *condition, Value *barrier) const override {
    emitPtx(b,
            "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, $1, 0;\n\t"
            "@p mbarrier.arrive.shared::cluster.b64 _, [$0];\n\t}",
            "r,r,~{memory}", {barrier, b.CreateZExt(condition, b.getInt32Ty())});
  }

  void copy(Builder &b, Value *to, Value *from, Value *bytes, Value *barrier) const override {
    emitPtx(b,
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
            "[$0], [$1], $2, [$3];",
            "r,r,r,r,~{memory}", {to, from, bytes, barrier});
  }

  llvm::SmallVector<Value *, 4> loadWhere(Builder &b, Value *condition,
                                          Value *address) const override {
    llvm::Type *f32 = b.getFloatTy();
    // 0f80000000 is -0.
    Value *all = emitPtx(b, llvm::StructType::get(f32, f32, f32, f32),
                         "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, $5, 0;\n\t"
                         "mov.f32 $0, 0f80000000;\n\tmov.f32 $1, 0f80000000;\n\t"
                         "mov.f32 $2, 0f80000000;\n\tmov.f32 $3, 0f80000000;\n\t"
                         "@p ld.shared::cta.v4.f32 {$0, $1, $2, $3}, [$4];\n\t}",
                         "=&f,=&f,=&f,=&f,r,r,~{memory}",
                         {address, b.CreateZExt(condition, b.getInt32Ty())});
    llvm::SmallVector<Value *, 4> values;
    for (unsigned i = 0; i < 4; ++i)
      values.push_back(b.CreateExtractValue(all, i));
    return values;
  }

private:
  static Value *read(Builder &b, llvm::StringRef name) {
    return emitPtx(b, b.getInt32Ty(), llvm::Twine("mov.u32 $0, ") + name + ";", "=r", {});
  }
};

} // namespace

const gpu::ClusterOps &clusters() {
  static const Clusters ops;
  return ops;
}

} // namespace dtile::backend::nvptx
