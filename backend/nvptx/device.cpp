// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's GPUs: registers, barriers, shuffles and warp-wide matrix instructions of PTX.
#include "backend/nvptx/devices.h"

#include "backend/gpu/bodies/narrow_floats.h"
#include "backend/nvptx/async_copies.h"
#include "backend/nvptx/hopper.h"
#include "frontend/base/check.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace dtile::backend::nvptx {

namespace {

using llvm::Intrinsic::ID;

/// One architecture.
class NvptxDevice : public gpu::Device {
public:
  /// `generation`: the compute capability's major number.
  NvptxDevice(llvm::StringLiteral arch, llvm::StringLiteral features,
              llvm::StringLiteral largeFeatures, const TargetFacts &facts, unsigned generation)
      : arch_(arch), features_(features), largeFeatures_(largeFeatures), facts_(facts),
        generation_(generation) {}

  [[nodiscard]] llvm::StringRef vendor() const override { return "nvptx"; }
  [[nodiscard]] llvm::StringRef arch() const override { return arch_; }
  [[nodiscard]] llvm::StringRef triple() const override { return "nvptx64-nvidia-cuda"; }
  [[nodiscard]] llvm::StringRef features(int64_t parameterBytes) const override {
    return parameterBytes <= DTILE_CUDA_FEW_PARAMETER_BYTES ? features_ : largeFeatures_;
  }
  [[nodiscard]] int64_t parameterBytes() const override { return DTILE_CUDA_PARAMETER_BYTES; }
  [[nodiscard]] const TargetFacts &facts() const override { return facts_; }
  [[nodiscard]] const gpu::WarpOps *warpOps() const override {
    return generation_ >= 9 ? &hopperWarpOps() : nullptr;
  }
  [[nodiscard]] const gpu::BulkCopies *bulkCopies() const override {
    return generation_ >= 9 ? &tma() : nullptr;
  }
  [[nodiscard]] const gpu::ClusterOps *clusterOps() const override {
    return generation_ >= 9 ? &clusters() : nullptr;
  }
  [[nodiscard]] const gpu::WarpgroupMma *warpgroupMma() const override {
    return generation_ == 9 ? &wgmma() : nullptr;
  }
  [[nodiscard]] const gpu::AsyncCopies *asyncCopies() const override { return &ampereCopies(); }
  [[nodiscard]] llvm::StringRef rankScope() const override { return "device"; }

  void makeKernel(llvm::Function &function, unsigned threads, unsigned programs) const override;
  // CUDA's guide, table "Technical specifications per compute capability": of an SM.
  [[nodiscard]] int64_t registers() const override { return 65536; }
  [[nodiscard]] llvm::Value *threadIndex(llvm::IRBuilder<> &b) const override;
  [[nodiscard]] llvm::Value *programIndex(llvm::IRBuilder<> &b) const override;
  void barrier(llvm::IRBuilder<> &b) const override;
  void barrier(llvm::IRBuilder<> &b, unsigned which, unsigned threads) const override;
  [[nodiscard]] llvm::Value *shuffleXor(llvm::IRBuilder<> &b, llvm::Value *value,
                                        unsigned mask) const override;
  [[nodiscard]] llvm::Value *shuffleUp(llvm::IRBuilder<> &b, llvm::Value *value) const override {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_up_i32, {},
                             {b.getInt32(~0u), value, b.getInt32(1), b.getInt32(0)});
  }
  [[nodiscard]] bool hasShuffleUp() const override { return true; }
  void multiply(llvm::IRBuilder<> &b, const MatrixProduct &product,
                llvm::ArrayRef<llvm::Value *> aWords, llvm::ArrayRef<llvm::Value *> bWords,
                llvm::MutableArrayRef<llvm::Value *> sums) const override;
  [[nodiscard]] llvm::Value *opaque(llvm::IRBuilder<> &b, llvm::Value *value) const override {
    auto *type = llvm::FunctionType::get(value->getType(), {value->getType()}, false);
    const bool isWide = value->getType()->isIntegerTy(64);
    return b.CreateCall(type,
                        llvm::InlineAsm::get(type, isWide ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;",
                                             isWide ? "=l,l" : "=r,r",
                                             /*hasSideEffects=*/true),
                        {value});
  }
  [[nodiscard]] llvm::Intrinsic::ID exp2() const override {
    return llvm::Intrinsic::nvvm_ex2_approx_ftz;
  }
  // PTX ISA, "min": .NaN is of sm_80.
  [[nodiscard]] bool hasMinimum() const override { return true; }
  // PTX ISA, "cvt": to integers of 32 bits it clamps, and makes 0 of NaN.
  [[nodiscard]] llvm::Intrinsic::ID truncation(bool isSigned) const override {
    return isSigned ? llvm::Intrinsic::nvvm_f2i_rz : llvm::Intrinsic::nvvm_f2ui_rz;
  }
  [[nodiscard]] llvm::Intrinsic::ID divide() const override {
    return llvm::Intrinsic::nvvm_div_full;
  }
  [[nodiscard]] llvm::Value *roundToTf32(llvm::IRBuilder<> &b, llvm::Value *value) const override {
    llvm::Value *bits = b.CreateIntrinsic(llvm::Intrinsic::nvvm_f2tf32_rna, {}, {value});
    return b.CreateBitCast(bits, value->getType());
  }
  [[nodiscard]] bool subtractsPairs() const override { return generation_ >= 9; }
  [[nodiscard]] bool hasLdmatrix() const override { return true; }
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 4> loadMatrices(llvm::IRBuilder<> &b,
                                                                 llvm::Value *address,
                                                                 unsigned count,
                                                                 bool transposed) const override;

private:
  void multiplyHalves(llvm::IRBuilder<> &b, const MatrixProduct &product,
                      llvm::ArrayRef<llvm::Value *> aWords, llvm::ArrayRef<llvm::Value *> bWords,
                      llvm::MutableArrayRef<llvm::Value *> sums) const;

  /// Features of kernels with few parameters, which older drivers run too, and of others.
  llvm::StringLiteral arch_, features_, largeFeatures_;
  const TargetFacts &facts_;
  unsigned generation_;
};

void NvptxDevice::makeKernel(llvm::Function &function, unsigned threads, unsigned programs) const {
  function.setCallingConv(llvm::CallingConv::PTX_Kernel);
  function.addFnAttr("nvvm.maxntid", std::to_string(threads));
  // ptxas takes no more registers than it needs, unless it is told how many programs are to be
  // resident: then it takes all that these may have (42 become 72). So it is told where the tiles
  // of a program would make it take more than their share (docs/measurements/rows.md).
  constexpr unsigned kManyPrograms = 5;
  if (programs < kManyPrograms)
    function.addFnAttr("nvvm.minctasm", std::to_string(programs));
  for (llvm::Argument &argument : function.args())
    if (argument.hasByValAttr())
      argument.addAttr(llvm::Attribute::get(function.getContext(), "nvvm.grid_constant"));
}

llvm::Value *special(llvm::IRBuilder<> &b, ID id) {
  return b.CreateIntrinsic(b.getInt32Ty(), id, {});
}

llvm::Value *NvptxDevice::threadIndex(llvm::IRBuilder<> &b) const {
  return special(b, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
}

llvm::Value *NvptxDevice::programIndex(llvm::IRBuilder<> &b) const {
  return special(b, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
}

void NvptxDevice::barrier(llvm::IRBuilder<> &b) const {
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {}, {b.getInt32(0)});
}

void NvptxDevice::barrier(llvm::IRBuilder<> &b, unsigned which, unsigned threads) const {
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_count, {},
                    {b.getInt32(which), b.getInt32(threads)});
}

llvm::Value *NvptxDevice::shuffleXor(llvm::IRBuilder<> &b, llvm::Value *value,
                                     unsigned mask) const {
  // All lanes, in one segment of 32.
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                           {b.getInt32(~0u), value, b.getInt32(mask), b.getInt32(31)});
}

ID matrixInstruction(const MatrixProduct &product) {
  return llvm::StringSwitch<ID>(product.name)
      .Case("m16n8k16.bf16", llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16)
      .Case("m16n8k16.f16", llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32)
      .Case("m16n8k8.tf32", llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32)
      .Case("m16n8k32.s8", llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_s8)
      .Case("m16n8k32.u8", llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_u8)
      .Case("m16n8k32.e4m3.e4m3", llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_f32_e4m3_e4m3_f32)
      .Case("m16n8k32.e4m3.e5m2", llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_f32_e4m3_e5m2_f32)
      .Case("m16n8k32.e5m2.e4m3", llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_f32_e5m2_e4m3_f32)
      .Case("m16n8k32.e5m2.e5m2", llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_f32_e5m2_e5m2_f32)
      .Default(llvm::Intrinsic::not_intrinsic);
}

/// Words of four one-byte floats as halves: the first two of each are one instruction's, the others
/// the next one's. Both operands have the same order of the summed dimension.
void NvptxDevice::multiplyHalves(llvm::IRBuilder<> &b, const MatrixProduct &product,
                                 llvm::ArrayRef<llvm::Value *> aWords,
                                 llvm::ArrayRef<llvm::Value *> bWords,
                                 llvm::MutableArrayRef<llvm::Value *> sums) const {
  const MatrixProduct *halves = llvm::find_if(
      facts_.products, [](const MatrixProduct &other) { return other.a == DType::F16; });
  llvm::SmallVector<llvm::Value *, 8> a, right;
  for (llvm::Value *word : aWords)
    gpu::appendHalves(b, product.a, word, a);
  for (llvm::Value *word : bWords)
    gpu::appendHalves(b, product.b, word, right);
  for (unsigned which : {0u, 1u}) {
    const auto half = [&](llvm::ArrayRef<llvm::Value *> all) {
      llvm::SmallVector<llvm::Value *, 4> words;
      for (size_t i = which; i < all.size(); i += 2)
        words.push_back(all[i]);
      return words;
    };
    multiply(b, *halves, half(a), half(right), sums);
  }
}

void NvptxDevice::multiply(llvm::IRBuilder<> &b, const MatrixProduct &product,
                           llvm::ArrayRef<llvm::Value *> aWords,
                           llvm::ArrayRef<llvm::Value *> bWords,
                           llvm::MutableArrayRef<llvm::Value *> sums) const {
  if (product.name.ends_with(".halves"))
    return multiplyHalves(b, product, aWords, bWords, sums);
  const ID id = matrixInstruction(product);
  DTILE_CHECK(id != llvm::Intrinsic::not_intrinsic, "a matrix instruction of PTX");
  // Halves are passed in pairs, all others as words.
  llvm::Type *pair = llvm::FixedVectorType::get(b.getHalfTy(), 2);
  llvm::SmallVector<llvm::Value *, 12> arguments;
  for (llvm::ArrayRef<llvm::Value *> words : {aWords, bWords})
    for (llvm::Value *word : words)
      arguments.push_back(product.a == DType::F16 ? b.CreateBitCast(word, pair) : word);
  arguments.append(sums.begin(), sums.end());
  llvm::Value *result = b.CreateIntrinsic(id, {}, arguments);
  for (auto [i, sum] : llvm::enumerate(sums))
    sum = b.CreateExtractValue(result, unsigned(i));
}

llvm::SmallVector<llvm::Value *, 4> NvptxDevice::loadMatrices(llvm::IRBuilder<> &b,
                                                              llvm::Value *address, unsigned count,
                                                              bool transposed) const {
  using namespace llvm::Intrinsic;
  static constexpr ID kLoads[2][3] = {
      {nvvm_ldmatrix_sync_aligned_m8n8_x1_b16, nvvm_ldmatrix_sync_aligned_m8n8_x2_b16,
       nvvm_ldmatrix_sync_aligned_m8n8_x4_b16},
      {nvvm_ldmatrix_sync_aligned_m8n8_x1_trans_b16, nvvm_ldmatrix_sync_aligned_m8n8_x2_trans_b16,
       nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16}};
  DTILE_CHECK(count == 1 || count == 2 || count == 4, "1, 2 or 4 squares");
  llvm::Value *loaded =
      b.CreateIntrinsic(kLoads[transposed][count / 2], {address->getType()}, {address});
  if (count == 1)
    return {loaded};
  llvm::SmallVector<llvm::Value *, 4> words;
  for (unsigned i = 0; i < count; ++i)
    words.push_back(b.CreateExtractValue(loaded, i));
  return words;
}

} // namespace

llvm::ArrayRef<const gpu::Device *> devices() {
  static const NvptxDevice sm80("sm_80", "+ptx80", "+ptx81", *findMachine("a100"), 8);
  static const NvptxDevice sm86("sm_86", "+ptx80", "+ptx81", *findMachine("a10"), 8);
  static const NvptxDevice sm89("sm_89", "+ptx84", "+ptx84", *findMachine("l40s"), 8);
  static const NvptxDevice sm90a("sm_90a", "+ptx84", "+ptx84", *findMachine("h200"), 9);
  static const NvptxDevice sm100a("sm_100a", "+ptx87", "+ptx87", *findMachine("b200"), 10);
  static const gpu::Device *const all[] = {&sm90a, &sm80, &sm86, &sm89, &sm100a};
  return all;
}

} // namespace dtile::backend::nvptx
