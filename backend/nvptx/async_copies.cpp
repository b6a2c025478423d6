// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cp.async: PTX ISA 9.0, section "Data Movement and Conversion Instructions: cp.async".
#include "backend/nvptx/async_copies.h"

#include "frontend/base/check.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

namespace dtile::backend::nvptx {

namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

class AmpereCopies : public gpu::AsyncCopies {
public:
  void copy(Builder &b, Value *shared, Value *global, unsigned bytes, Value *valid) const override {
    using namespace llvm::Intrinsic;
    DTILE_CHECK(bytes == 4 || bytes == 8 || bytes == 16, "a copy of 4, 8 or 16 bytes");
    // Words of 16 bytes pass by the first cache, which tiles have no use for.
    const ID id = bytes == 16  ? nvvm_cp_async_cg_shared_global_16_s
                  : bytes == 8 ? nvvm_cp_async_ca_shared_global_8_s
                               : nvvm_cp_async_ca_shared_global_4_s;
    b.CreateIntrinsic(b.getVoidTy(), id, {shared, global, valid});
  }
  void commit(Builder &b) const override {
    b.CreateIntrinsic(b.getVoidTy(), llvm::Intrinsic::nvvm_cp_async_commit_group, {});
  }
  void await(Builder &b, unsigned pending) const override {
    b.CreateIntrinsic(b.getVoidTy(), llvm::Intrinsic::nvvm_cp_async_wait_group,
                      {b.getInt32(pending)});
  }
};

} // namespace

const gpu::AsyncCopies &ampereCopies() {
  static const AmpereCopies copies;
  return copies;
}

} // namespace dtile::backend::nvptx
