// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TMA and mbarriers: PTX ISA 9.0, "cp.async.bulk", "cp.async.bulk.tensor" and "mbarrier".
#include "backend/nvptx/hopper.h"
#include "backend/nvptx/inline_ptx.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace dtile::backend::nvptx {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

std::string repeated(llvm::StringRef text, size_t times) {
  std::string result;
  while (times-- > 0)
    result += text;
  return result;
}

/// Appends the coordinates to the operands and gives `{$3, $4}`.
std::string placeholders(llvm::SmallVectorImpl<Value *> &operands,
                         llvm::ArrayRef<Value *> coordinates) {
  std::string text = "{";
  for (auto [i, coordinate] : llvm::enumerate(coordinates)) {
    text += llvm::formatv("{0}${1}", i == 0 ? "" : ", ", operands.size()).str();
    operands.push_back(coordinate);
  }
  return text + "}";
}

class Tma : public gpu::BulkCopies {
public:
  void initBarrier(Builder &b, Value *barrier, Value *arrivals) const override {
    emitPtx(b, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", {barrier, arrivals});
  }

  void publishBarriers(Builder &b) const override {
    emitPtx(b, "fence.mbarrier_init.release.cluster;", "~{memory}", {});
    sharedProxyFence(b);
  }

  void arriveExpecting(Builder &b, Value *barrier, Value *bytes) const override {
    emitPtx(b, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}",
            {barrier, bytes});
  }

  void arrive(Builder &b, Value *barrier) const override {
    emitPtx(b, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", {barrier});
  }

  void arriveWhere(Builder &b, Value *condition, Value *barrier) const override {
    emitPtx(b,
            "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, $1, 0;\n\t"
            "@p mbarrier.arrive.shared::cta.b64 _, [$0];\n\t}",
            "r,r,~{memory}", {barrier, b.CreateZExt(condition, b.getInt32Ty())});
  }

  void arriveAfterAsyncCopies(Builder &b, Value *barrier) const override {
    emitPtx(b, "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];", "r,~{memory}", {barrier});
  }

  Value *tryWait(Builder &b, Value *barrier, Value *phase) const override {
    Value *done = emitPtx(b, b.getInt32Ty(),
                          "{\n\t.reg .pred p;\n\t"
                          "mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2;\n\t"
                          "selp.b32 $0, 1, 0, p;\n\t}",
                          "=r,r,r,~{memory}", {barrier, phase});
    return b.CreateICmpNE(done, b.getInt32(0));
  }

  void loadBox(Builder &b, Value *shared, Value *map, llvm::ArrayRef<Value *> coordinates,
               Value *barrier) const override {
    llvm::SmallVector<Value *, 8> operands = {shared, map, barrier};
    emitPtx(b,
            "cp.async.bulk.tensor." + llvm::Twine(coordinates.size()) +
                "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, " +
                placeholders(operands, coordinates) + "], [$2];",
            "r,l,r" + repeated(",r", coordinates.size()) + ",~{memory}", operands);
  }

  void multicastBox(Builder &b, Value *shared, Value *map, llvm::ArrayRef<Value *> coordinates,
                    Value *barrier, uint16_t programs) const override {
    llvm::SmallVector<Value *, 8> operands = {shared, map, barrier, b.getInt16(programs)};
    emitPtx(b,
            "cp.async.bulk.tensor." + llvm::Twine(coordinates.size()) +
                "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                "[$0], [$1, " +
                placeholders(operands, coordinates) + "], [$2], $3;",
            "r,l,r,h" + repeated(",r", coordinates.size()) + ",~{memory}", operands);
  }

  void prefetchTensorMap(Builder &b, Value *map) const override {
    emitPtx(b, "prefetch.tensormap [$0];", "l,~{memory}", {map});
  }

  void loadRow(Builder &b, Value *shared, Value *memory, Value *bytes,
               Value *barrier) const override {
    Value *global = b.CreateAddrSpaceCast(memory, b.getPtrTy(1));
    emitPtx(b,
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[$0], [$1], $2, [$3];",
            "r,l,r,r,~{memory}", {shared, global, bytes, barrier});
  }

  void storeRow(Builder &b, Value *memory, Value *shared, Value *bytes) const override {
    Value *global = b.CreateAddrSpaceCast(memory, b.getPtrTy(1));
    emitPtx(b, "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;", "l,r,r,~{memory}",
            {global, shared, bytes});
  }

  void commitStores(Builder &b) const override {
    emitPtx(b, "cp.async.bulk.commit_group;", "~{memory}", {});
  }

  void awaitStoresRead(Builder &b, unsigned pending) const override {
    emitPtx(b, "cp.async.bulk.wait_group.read " + llvm::Twine(pending) + ";", "~{memory}", {});
  }

  void awaitStores(Builder &b) const override {
    emitPtx(b, "cp.async.bulk.wait_group 0;", "~{memory}", {});
  }

  void proxyFence(Builder &b) const override { emitPtx(b, "fence.proxy.async;", "~{memory}", {}); }

  void sharedProxyFence(Builder &b) const override {
    emitPtx(b, "fence.proxy.async.shared::cta;", "~{memory}", {});
  }
};

} // namespace

const gpu::BulkCopies &tma() {
  static const Tma copies;
  return copies;
}

} // namespace dtile::backend::nvptx
