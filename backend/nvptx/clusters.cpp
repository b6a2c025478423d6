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

  void sync(Builder &b) const override {
    emitPtx(b, "barrier.cluster.arrive.release;", "~{memory}", {});
    emitPtx(b, "barrier.cluster.wait.acquire;", "~{memory}", {});
  }

  Value *address(Builder &b, Value *shared, Value *rank) const override {
    return emitPtx(b, b.getInt32Ty(), "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r",
                   {shared, rank});
  }

  llvm::SmallVector<Value *, 4> load(Builder &b, Value *address, unsigned offset) const override {
    llvm::Type *f32 = b.getFloatTy();
    Value *all =
        emitPtx(b, llvm::StructType::get(f32, f32, f32, f32),
                "ld.shared::cluster.v4.f32 {$0, $1, $2, $3}, [$4 + " + llvm::Twine(offset) + "];",
                "=f,=f,=f,=f,r,~{memory}", {address});
    llvm::SmallVector<Value *, 4> values;
    for (unsigned i = 0; i < 4; ++i)
      values.push_back(b.CreateExtractValue(all, i));
    return values;
  }

  void store(Builder &b, Value *address, unsigned offset,
             llvm::ArrayRef<Value *> values) const override {
    llvm::SmallVector<Value *, 5> operands{address};
    operands.append(values.begin(), values.end());
    emitPtx(b, "st.shared::cluster.v4.f32 [$0 + " + llvm::Twine(offset) + "], {$1, $2, $3, $4};",
            "r,f,f,f,f,~{memory}", operands);
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
