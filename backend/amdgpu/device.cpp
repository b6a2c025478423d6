// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMD's CDNA GPUs: waves of 64 threads, barriers, lane exchange and matrix instructions (MFMA).
#include "backend/amdgpu/devices.h"

#include "backend/gpu/bodies/narrow_floats.h"
#include "backend/llvm/arith.h"
#include "frontend/base/check.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"

namespace dtile::backend::amdgpu {

namespace {

using llvm::Intrinsic::ID;

/// Which instructions an architecture has.
enum class Generation : uint8_t { Cdna2, Cdna3, Cdna4 };

class AmdgpuDevice : public gpu::Device {
public:
  AmdgpuDevice(llvm::StringLiteral arch, Generation generation, const TargetFacts &facts)
      : arch_(arch), generation_(generation), facts_(facts) {}

  [[nodiscard]] llvm::StringRef vendor() const override { return "amdgpu"; }
  [[nodiscard]] llvm::StringRef arch() const override { return arch_; }
  [[nodiscard]] llvm::StringRef triple() const override { return "amdgcn-amd-amdhsa"; }
  [[nodiscard]] llvm::StringRef features(int64_t) const override { return ""; }
  [[nodiscard]] llvm::StringRef rankScope() const override { return "agent"; }
  [[nodiscard]] const TargetFacts &facts() const override { return facts_; }

  [[nodiscard]] unsigned parameterSpace() const override { return kConstant; }
  [[nodiscard]] int64_t parameterBytes() const override { return DTILE_HIP_PARAMETER_BYTES; }
  // LLVM moves them to LDS (AMDGPUPromoteAlloca), of which tiles have what there is.
  [[nodiscard]] bool hasThreadArrays() const override { return false; }
  [[nodiscard]] llvm::Intrinsic::ID exp2() const override { return llvm::Intrinsic::amdgcn_exp2; }
  void makeKernel(llvm::Function &function, unsigned threads, unsigned programs) const override;
  // One program has them all: for more, LLVM spills in examples where ptxas does not, and what it
  // would bring was never measured.
  [[nodiscard]] int64_t registers() const override { return 0; }
  [[nodiscard]] llvm::Value *threadIndex(llvm::IRBuilder<> &b) const override;
  [[nodiscard]] llvm::Value *programIndex(llvm::IRBuilder<> &b) const override;
  void barrier(llvm::IRBuilder<> &b) const override;
  void barrier(llvm::IRBuilder<> &b, unsigned which, unsigned threads) const override;
  [[nodiscard]] llvm::Value *shuffleXor(llvm::IRBuilder<> &b, llvm::Value *value,
                                        unsigned mask) const override;
  void multiply(llvm::IRBuilder<> &b, const MatrixProduct &product,
                llvm::ArrayRef<llvm::Value *> aWords, llvm::ArrayRef<llvm::Value *> bWords,
                llvm::MutableArrayRef<llvm::Value *> sums) const override;
  [[nodiscard]] bool hasSumVectors() const override { return true; }
  [[nodiscard]] llvm::Value *initialAccumulator(llvm::IRBuilder<> &b,
                                                llvm::Constant *sums) const override;

private:
  /// The address space of kernel arguments.
  static constexpr unsigned kConstant = 4;

  llvm::StringLiteral arch_;
  Generation generation_;
  const TargetFacts &facts_;
};

void AmdgpuDevice::makeKernel(llvm::Function &function, unsigned threads, unsigned programs) const {
  function.setCallingConv(llvm::CallingConv::AMDGPU_KERNEL);
  function.setVisibility(llvm::GlobalValue::ProtectedVisibility);
  const std::string count = std::to_string(threads);
  function.addFnAttr("amdgpu-flat-work-group-size", count + "," + count);
  function.addFnAttr("uniform-work-group-size", "true");
  // The registers of a processor's four units are the programs'.
  const unsigned wavesPerUnit = std::max(1u, programs * threads / (4 * unsigned(facts_.lanes)));
  const std::string waves = std::to_string(wavesPerUnit);
  function.addFnAttr("amdgpu-waves-per-eu", waves + "," + waves);
  llvm::LLVMContext &context = function.getContext();
  auto number = [&](unsigned n) {
    return llvm::ConstantAsMetadata::get(
        llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), n));
  };
  function.setMetadata("reqd_work_group_size",
                       llvm::MDNode::get(context, {number(threads), number(1), number(1)}));
  // Code object version 5: what ROCm 5.5 and all that came after it load.
  llvm::Module &module = *function.getParent();
  constexpr llvm::StringLiteral kVersion = "amdhsa_code_object_version";
  if (!module.getModuleFlag(kVersion))
    module.addModuleFlag(llvm::Module::Error, kVersion, 500);
}

// Threads.

llvm::Value *AmdgpuDevice::threadIndex(llvm::IRBuilder<> &b) const {
  return b.CreateIntrinsic(b.getInt32Ty(), llvm::Intrinsic::amdgcn_workitem_id_x, {});
}

llvm::Value *AmdgpuDevice::programIndex(llvm::IRBuilder<> &b) const {
  return b.CreateIntrinsic(b.getInt32Ty(), llvm::Intrinsic::amdgcn_workgroup_id_x, {});
}

void AmdgpuDevice::barrier(llvm::IRBuilder<> &b) const {
  const llvm::SyncScope::ID program = b.getContext().getOrInsertSyncScopeID("workgroup");
  b.CreateFence(llvm::AtomicOrdering::Release, program);
  b.CreateIntrinsic(b.getVoidTy(), llvm::Intrinsic::amdgcn_s_barrier, {});
  b.CreateFence(llvm::AtomicOrdering::Acquire, program);
}

void AmdgpuDevice::barrier(llvm::IRBuilder<> &b, unsigned which, unsigned threads) const {
  // A work-group has only one; nothing that would need others runs here (warpOps() is null).
  DTILE_CHECK(which == 0, "the barrier of all threads");
  barrier(b);
}

/// A pattern within rows of 16 lanes; every lane reads one that takes part.
llvm::Value *movedInRow(llvm::IRBuilder<> &b, llvm::Value *value, unsigned control) {
  return b.CreateIntrinsic(llvm::Intrinsic::amdgcn_update_dpp, {b.getInt32Ty()},
                           {llvm::PoisonValue::get(b.getInt32Ty()), value, b.getInt32(control),
                            b.getInt32(0xf), b.getInt32(0xf), b.getTrue()});
}

llvm::Value *AmdgpuDevice::shuffleXor(llvm::IRBuilder<> &b, llvm::Value *value,
                                      unsigned mask) const {
  DTILE_CHECK(mask < 64, "a lane of the wave");
  // Controls of DPP: 0x00 to 0xff say for each lane of four whose value it gets, 0x128 turns rows
  // of 16 by 8, 0x140 mirrors rows, 0x141 mirrors halves of rows.
  if (mask < 4) {
    unsigned control = 0;
    for (unsigned lane = 0; lane < 4; ++lane)
      control |= (lane ^ mask) << (2 * lane);
    return movedInRow(b, value, control);
  }
  if (mask == 7)
    return movedInRow(b, value, 0x141);
  if (mask == 8)
    return movedInRow(b, value, 0x128);
  if (mask == 15)
    return movedInRow(b, value, 0x140);
  // LDS's crossbar, within 32 lanes: bits 0 to 4 of the pattern keep the lane's number, 10 to 14
  // are exclusive-ored with it.
  if (mask < 32)
    return b.CreateIntrinsic(llvm::Intrinsic::amdgcn_ds_swizzle, {},
                             {value, b.getInt32(0x1f | mask << 10)});
  llvm::Value *all = b.getInt32(~0u);
  llvm::Value *low = b.CreateIntrinsic(llvm::Intrinsic::amdgcn_mbcnt_lo, {}, {all, b.getInt32(0)});
  llvm::Value *lane = b.CreateIntrinsic(llvm::Intrinsic::amdgcn_mbcnt_hi, {}, {all, low});
  llvm::Value *from = b.CreateShl(b.CreateXor(lane, mask), 2);
  return b.CreateIntrinsic(llvm::Intrinsic::amdgcn_ds_bpermute, {}, {from, value});
}

// Matrices.

/// How an instruction takes an operand.
enum class Form : uint8_t { ShortInts, Halves, Bfloats, Int, Words, Float, Double };

/// One instruction, of several that may be a row of facts().products.
struct Instruction {
  ID id;
  /// Registers of an operand that it takes: words, or doubles.
  unsigned registers;
  Form form;
};

/// Without the shape: `bf16` of `32x32x16.bf16`.
llvm::StringRef typesOf(const MatrixProduct &product) {
  return llvm::StringRef(product.name).split('.').second;
}

Instruction instructionFor(const MatrixProduct &product, Generation generation) {
  using namespace llvm::Intrinsic;
  const bool isLarge = product.rows == 32;
  auto choose = [&](ID large, ID small) { return isLarge ? large : small; };
  llvm::StringRef types = typesOf(product);
  if (types == "bf16" && generation == Generation::Cdna4)
    return {choose(amdgcn_mfma_f32_32x32x16_bf16, amdgcn_mfma_f32_16x16x32_bf16), 4, Form::Bfloats};
  if (types == "bf16")
    return {choose(amdgcn_mfma_f32_32x32x8bf16_1k, amdgcn_mfma_f32_16x16x16bf16_1k), 2,
            Form::ShortInts};
  if (types == "f16" && generation == Generation::Cdna4)
    return {choose(amdgcn_mfma_f32_32x32x16_f16, amdgcn_mfma_f32_16x16x32_f16), 4, Form::Halves};
  if (types == "f16")
    return {choose(amdgcn_mfma_f32_32x32x8f16, amdgcn_mfma_f32_16x16x16f16), 2, Form::Halves};
  if (types == "i8" && generation == Generation::Cdna4)
    return {choose(amdgcn_mfma_i32_32x32x32_i8, amdgcn_mfma_i32_16x16x64_i8), 4, Form::Words};
  if (types == "i8" && generation == Generation::Cdna3)
    return {choose(amdgcn_mfma_i32_32x32x16_i8, amdgcn_mfma_i32_16x16x32_i8), 2, Form::Int};
  if (types == "i8")
    return {choose(amdgcn_mfma_i32_32x32x8i8, amdgcn_mfma_i32_16x16x16i8), 1, Form::Int};
  if (types == "f32")
    return {choose(amdgcn_mfma_f32_32x32x2f32, amdgcn_mfma_f32_16x16x4f32), 1, Form::Float};
  if (types == "xf32")
    return {choose(amdgcn_mfma_f32_32x32x4_xf32, amdgcn_mfma_f32_16x16x8_xf32), 2, Form::Float};
  if (types == "f64")
    return {amdgcn_mfma_f64_16x16x4f64, 1, Form::Double};
  // One-byte floats; see cdna_products.h.
  if (generation != Generation::Cdna4)
    return {choose(amdgcn_mfma_f32_32x32x8f16, amdgcn_mfma_f32_16x16x16f16), 2, Form::Halves};
  constexpr ID kSmallF8[2][2] = {
      {amdgcn_mfma_f32_16x16x32_fp8_fp8, amdgcn_mfma_f32_16x16x32_fp8_bf8},
      {amdgcn_mfma_f32_16x16x32_bf8_fp8, amdgcn_mfma_f32_16x16x32_bf8_bf8}};
  constexpr ID kLargeF8[2][2] = {
      {amdgcn_mfma_f32_32x32x16_fp8_fp8, amdgcn_mfma_f32_32x32x16_fp8_bf8},
      {amdgcn_mfma_f32_32x32x16_bf8_fp8, amdgcn_mfma_f32_32x32x16_bf8_bf8}};
  if (product.depth >= (isLarge ? 64 : 128))
    return {choose(amdgcn_mfma_scale_f32_32x32x64_f8f6f4, amdgcn_mfma_scale_f32_16x16x128_f8f6f4),
            8, Form::Words};
  // The hardware's first operand is our second.
  const bool first = product.b == DType::F8E5M2, second = product.a == DType::F8E5M2;
  return {choose(kLargeF8[first][second], kSmallF8[first][second]), 2, Form::Int};
}

llvm::Value *vectorOf(llvm::IRBuilder<> &b, llvm::ArrayRef<llvm::Value *> values) {
  if (values.size() == 1)
    return values.front();
  llvm::Value *vector = llvm::PoisonValue::get(
      llvm::FixedVectorType::get(values.front()->getType(), unsigned(values.size())));
  for (auto [i, value] : llvm::enumerate(values))
    vector = b.CreateInsertElement(vector, value, uint64_t(i));
  return vector;
}

llvm::Value *operandOf(llvm::IRBuilder<> &b, Form form, llvm::ArrayRef<llvm::Value *> registers) {
  llvm::Value *value = vectorOf(b, registers);
  const auto words = unsigned(registers.size());
  switch (form) {
  case Form::ShortInts:
    return b.CreateBitCast(value, llvm::FixedVectorType::get(b.getInt16Ty(), 2 * words));
  case Form::Halves:
    return b.CreateBitCast(value, llvm::FixedVectorType::get(b.getHalfTy(), 2 * words));
  case Form::Bfloats:
    return b.CreateBitCast(value, llvm::FixedVectorType::get(b.getBFloatTy(), 2 * words));
  case Form::Int:
    return b.CreateBitCast(value, b.getIntNTy(32 * words));
  case Form::Float:
    return b.CreateBitCast(value, laneType(b.getFloatTy(), words));
  case Form::Words:
  case Form::Double:
    return value;
  }
  DTILE_UNREACHABLE("a form of operands");
}

/// LLVM makes single registers of vectors that begin with a constant, and copies all of them to
/// accumulation registers and back in each iteration.
llvm::Value *AmdgpuDevice::initialAccumulator(llvm::IRBuilder<> &b, llvm::Constant *sums) const {
  llvm::Type *type = sums->getType();
  auto *same = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false), "", "=a,0",
                                    /*hasSideEffects=*/false);
  return b.CreateCall(same, {sums});
}

void AmdgpuDevice::multiply(llvm::IRBuilder<> &b, const MatrixProduct &product,
                            llvm::ArrayRef<llvm::Value *> aWords,
                            llvm::ArrayRef<llvm::Value *> bWords,
                            llvm::MutableArrayRef<llvm::Value *> sums) const {
  const Instruction instruction = instructionFor(product, generation_);
  llvm::SmallVector<llvm::Value *, 8> converted[2];
  const bool isOneByteFloat = product.a == DType::F8E4M3 || product.a == DType::F8E5M2;
  if (isOneByteFloat && instruction.form == Form::Halves) {
    for (llvm::Value *word : aWords)
      gpu::appendHalves(b, product.a, word, converted[0]);
    for (llvm::Value *word : bWords)
      gpu::appendHalves(b, product.b, word, converted[1]);
    aWords = converted[0];
    bWords = converted[1];
  }
  llvm::Value *sum = vectorOf(b, sums);
  llvm::Value *none = b.getInt32(0);
  for (unsigned at = 0; at < aWords.size(); at += instruction.registers) {
    auto part = [&](llvm::ArrayRef<llvm::Value *> words) {
      return operandOf(b, instruction.form, words.slice(at, instruction.registers));
    };
    // The other way round: see cdna_products.h.
    llvm::SmallVector<llvm::Value *, 9> arguments{part(bWords), part(aWords), sum};
    llvm::SmallVector<llvm::Type *, 2> types;
    if (instruction.registers == 8) {
      // Which formats, and no scales.
      types = {arguments[0]->getType(), arguments[1]->getType()};
      for (DType type : {product.b, product.a})
        arguments.push_back(b.getInt32(type == DType::F8E5M2 ? 1 : 0));
      arguments.append(4, none);
    } else {
      arguments.append(3, none);
    }
    sum = b.CreateIntrinsic(instruction.id, types, arguments);
  }
  for (auto [i, value] : llvm::enumerate(sums))
    value = b.CreateExtractElement(sum, uint64_t(i));
}

} // namespace

llvm::ArrayRef<const gpu::Device *> devices() {
  static const AmdgpuDevice gfx942("gfx942", Generation::Cdna3, *findMachine("mi300x"));
  static const AmdgpuDevice gfx950("gfx950", Generation::Cdna4, *findMachine("mi355x"));
  static const AmdgpuDevice gfx90a("gfx90a", Generation::Cdna2, *findMachine("mi250x"));
  static const gpu::Device *const all[] = {&gfx942, &gfx950, &gfx90a};
  return all;
}

} // namespace dtile::backend::amdgpu
