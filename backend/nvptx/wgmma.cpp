// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products of Hopper's warpgroups: PTX ISA 9.0, "Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate Instructions".
#include "backend/nvptx/hopper.h"
#include "backend/nvptx/inline_ptx.h"
#include "frontend/base/check.h"
#include "ir/machine/target_facts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace dtile::backend::nvptx {
namespace {

using gpu::GroupDot;
using gpu::SharedOperand;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

/// The PTX name of an operand's type, or "".
llvm::StringRef operandName(DType type) {
  switch (type) {
  case DType::BF16:
    return "bf16";
  case DType::F16:
    return "f16";
  case DType::F8E4M3:
    return "e4m3";
  case DType::F8E5M2:
    return "e5m2";
  case DType::I8:
    return "s8";
  case DType::U8:
    return "u8";
  // Whole f32 has no instruction: what is there has been rounded on its way (loadBox).
  case DType::F32:
    return "tf32";
  default:
    return "";
  }
}

bool isEightBit(DType type) { return dtypeBits(type) == 8; }

/// Registers of accumulators in one group, of one thread.
unsigned accumulatorCount(const GroupDot &dot) { return dot.columns / 2; }

/// PTX that reads and writes registers in place: they are $0 …, their old selves follow, then the
/// other operands (32 or 64 bits).
void inOut(Builder &b, llvm::StringRef text, llvm::MutableArrayRef<Value *> registers,
           llvm::ArrayRef<Value *> others) {
  llvm::Type *element = registers.front()->getType();
  const char *letter = element->isFloatTy() ? "f" : "r";
  std::string constraints;
  for (size_t i = 0; i < registers.size(); ++i)
    constraints += llvm::formatv("={0},", letter);
  for (size_t i = 0; i < registers.size(); ++i)
    constraints += llvm::formatv("{0},", i);
  for (const Value *other : others)
    constraints += other->getType()->isIntegerTy(32) ? "r," : "l,";
  constraints += "~{memory}";
  llvm::SmallVector<Value *, 16> operands(registers.begin(), registers.end());
  operands.append(others.begin(), others.end());
  llvm::SmallVector<llvm::Type *, 16> types(registers.size(), element);
  Value *result =
      emitPtx(b, llvm::StructType::get(b.getContext(), types), text, constraints, operands);
  for (auto [i, value] : llvm::enumerate(registers))
    value = b.CreateExtractValue(result, i);
}

class Wgmma : public gpu::WarpgroupMma {
public:
  bool hasDot(const GroupDot &dot) const override {
    const auto isKnown = [](const SharedOperand &operand) {
      return !operandName(operand.dtype).empty() &&
             (!operand.isMnMajor || dtypeBits(operand.dtype) == 16) &&
             (operand.swizzle == 32 || operand.swizzle == 64 || operand.swizzle == 128);
    };
    if (!isKnown(dot.a) || !isKnown(dot.b) || dot.columns % 8 != 0 || dot.columns > 256)
      return false;
    if (isInteger(dot.a.dtype))
      return dot.b.dtype == dot.a.dtype && dot.columns % 16 == 0 &&
             dot.accumulator == (dot.a.dtype == DType::I8 ? DType::I32 : DType::U32);
    if (isEightBit(dot.a.dtype))
      return isFloat(dot.b.dtype) && isEightBit(dot.b.dtype) && dot.accumulator == DType::F32;
    return dot.a.dtype == dot.b.dtype && dot.accumulator == DType::F32;
  }

  Value *descriptor(Builder &b, const SharedOperand &operand, Value *address) const override {
    // In units of 16 bytes: bits 0-13 the address, 16-29 from one box to the next (of operands that
    // lie across; else unused), 32-45 from 8 rows of a box to the next 8 that it takes. 62-63 are
    // the swizzle.
    const uint64_t mode = operand.swizzle == 128 ? 1 : operand.swizzle == 64 ? 2 : 3;
    const uint64_t eightRows = uint64_t(operand.swizzle) * 8 / 16 * operand.every;
    const uint64_t box = operand.isMnMajor ? operand.boxBytes / 16 : 1;
    Value *words = b.CreateAnd(b.CreateLShr(address, 4), 0x3FFF);
    return b.CreateOr(b.CreateZExt(words, b.getInt64Ty()),
                      b.getInt64(mode << 62 | eightRows << 32 | box << 16));
  }

  Value *advance(Builder &b, Value *descriptor, uint64_t bytes) const override {
    return bytes == 0 ? descriptor : b.CreateAdd(descriptor, b.getInt64(bytes / 16));
  }

  void writeZeros(Builder &b, llvm::MutableArrayRef<Value *> zeros) const override {
    llvm::Type *element = zeros.front()->getType();
    std::string text, constraints;
    for (size_t i = 0; i < zeros.size(); ++i) {
      text += llvm::formatv("{0}mov.b32 ${1}, 0;", i == 0 ? "" : "\n\t", i);
      constraints += llvm::formatv("{0}={1}", i == 0 ? "" : ",", element->isFloatTy() ? "f" : "r");
    }
    llvm::SmallVector<llvm::Type *, 16> types(zeros.size(), element);
    Value *result = emitPtx(b, llvm::StructType::get(b.getContext(), types), text, constraints, {});
    for (auto [i, value] : llvm::enumerate(zeros))
      value = b.CreateExtractValue(result, i);
  }

  void fence(Builder &b) const override {
    emitPtx(b, "wgmma.fence.sync.aligned;", "~{memory}", {});
  }

  void dot(Builder &b, const GroupDot &dot, llvm::ArrayRef<Value *> a, Value *bOperand,
           llvm::MutableArrayRef<Value *> accumulators, bool adds, bool fences) const override {
    const auto count = unsigned(accumulators.size());
    DTILE_CHECK(count == accumulatorCount(dot), "accumulators of another dot");
    const bool isInt = isInteger(dot.a.dtype);
    const unsigned depth = TargetFacts::kGroupDepthBytes * 8 / dtypeBits(dot.a.dtype);
    std::string text = llvm::formatv("{{\n\t.reg .pred p;\n\tsetp.eq.u32 p, 0, {5};\n\t{6}"
                                     "wgmma.mma_async.sync.aligned.m64n{0}k{1}.{2}.{3}.{4} ",
                                     dot.columns, depth, isInt ? "s32" : "f32",
                                     operandName(dot.a.dtype), operandName(dot.b.dtype),
                                     adds ? 0 : 1, fences ? "wgmma.fence.sync.aligned;\n\t" : "");
    const auto list = [&](unsigned first, size_t length) {
      for (size_t i = 0; i < length; ++i)
        text += llvm::formatv("{0}${1}", i == 0 ? "{" : ", ", first + i);
      text += "}, ";
    };
    list(0, count);
    // Accumulators are named as what they become, and as what they were.
    const unsigned first = 2 * count;
    const bool isInRegisters = a.size() > 1;
    if (isInRegisters)
      list(first, a.size());
    else
      text += llvm::formatv("${0}, ", first);
    // The predicate: add to the accumulators.
    text += llvm::formatv("${0}, p", first + a.size());
    // Scales of both operands; for 16-bit types also which dimension is contiguous.
    if (!isInt)
      text += ", 1, 1";
    if (dtypeBits(dot.a.dtype) == 16)
      text += isInRegisters
                  ? llvm::formatv(", {0}", int(dot.b.isMnMajor)).str()
                  : llvm::formatv(", {0}, {1}", int(dot.a.isMnMajor), int(dot.b.isMnMajor)).str();
    text += ";\n\t}";
    llvm::SmallVector<Value *, 5> operands(a);
    operands.push_back(bOperand);
    inOut(b, text, accumulators, operands);
  }

  void commit(Builder &b) const override {
    emitPtx(b, "wgmma.commit_group.sync.aligned;", "~{memory}", {});
  }

  void wait(Builder &b, unsigned pending, llvm::MutableArrayRef<Value *> accumulators,
            llvm::ArrayRef<Value *> fragments) const override {
    const std::string text = llvm::formatv("wgmma.wait_group.sync.aligned {0};", pending);
    if (accumulators.empty())
      emitPtx(b, text, "~{memory}", {});
    else
      inOut(b, text, accumulators, fragments);
  }
};

} // namespace

const gpu::WarpgroupMma &wgmma() {
  static const Wgmma mma;
  return mma;
}

} // namespace dtile::backend::nvptx
