// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hopper's instructions for staged loops: tensor copies, barriers in shared memory, and the matrix
// products of warpgroups. Written as PTX, as LLVM has intrinsics for some of them only. Source of
// the formats: PTX ISA 9.0, sections "Asynchronous Warpgroup Level Matrix Multiply-Accumulate",
// "cp.async.bulk.tensor" and "mbarrier".
#include "backend/nvptx/staging_ops.h"

#include "frontend/base/check.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FormatVariadic.h"

namespace dtile::backend::nvptx {

namespace {

using gpu::GroupDot;
using gpu::SharedOperand;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

/// Emits PTX with side effects; `constraints` as LLVM's.
Value *emitPtx(Builder &b, llvm::Type *result, const llvm::Twine &text, llvm::StringRef constraints,
               llvm::ArrayRef<Value *> operands) {
  llvm::SmallVector<llvm::Type *, 8> types;
  for (Value *operand : operands)
    types.push_back(operand->getType());
  auto *type = llvm::FunctionType::get(result, types, false);
  auto *code = llvm::InlineAsm::get(type, text.str(), constraints, /*hasSideEffects=*/true);
  auto *call = b.CreateCall(type, code, operands);
  call->addFnAttr(llvm::Attribute::Convergent);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  return call;
}

void emitPtx(Builder &b, const llvm::Twine &text, llvm::StringRef constraints,
             llvm::ArrayRef<Value *> operands) {
  emitPtx(b, b.getVoidTy(), text, constraints, operands);
}

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
  // Whole f32 has no instruction: what is there has been rounded on its way (copyBox).
  case DType::F32:
    return "tf32";
  default:
    return "";
  }
}

bool isEightBit(DType type) { return dtypeBits(type) == 8; }

/// Registers of accumulators in one group, of one thread.
unsigned accumulatorCount(const GroupDot &dot) { return dot.columns / 2; }

class HopperOps : public gpu::StagingOps {
public:
  void meetWarp(Builder &b) const override { emitPtx(b, "bar.warp.sync -1;", "~{memory}", {}); }

  Value *uniform(Builder &b, Value *value) const override {
    if (value->getType()->isIntegerTy(32))
      return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32,
                               {b.getInt32(-1), value, b.getInt32(0), b.getInt32(31)});
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

  void initBarrier(Builder &b, Value *barrier, unsigned arrivals) const override {
    emitPtx(b, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}",
            {barrier, b.getInt32(arrivals)});
  }

  void publishBarriers(Builder &b) const override {
    emitPtx(b, "fence.mbarrier_init.release.cluster;", "~{memory}", {});
    proxyFence(b);
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

  void arriveWhenFetched(Builder &b, Value *barrier) const override {
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

  void copyBox(Builder &b, Value *shared, Value *map, llvm::ArrayRef<Value *> coordinates,
               Value *barrier) const override {
    llvm::SmallVector<Value *, 8> operands = {shared, map, barrier};
    emitPtx(b,
            "cp.async.bulk.tensor." + llvm::Twine(coordinates.size()) +
                "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, " +
                placeholders(operands, coordinates) + "], [$2];",
            "r,l,r" + repeated(",r", coordinates.size()) + ",~{memory}", operands);
  }

  void prefetchMap(Builder &b, Value *map) const override {
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

  bool hasDot(const GroupDot &dot) const override {
    const auto isKnown = [](const SharedOperand &operand) {
      return !operandName(operand.dtype).empty() &&
             (!operand.isAcross || dtypeBits(operand.dtype) == 16) &&
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
    // lie across; else unused), 32-45 from 8 rows of a box to the next 8. 62-63 are the swizzle.
    const uint64_t mode = operand.swizzle == 128 ? 1 : operand.swizzle == 64 ? 2 : 3;
    const uint64_t eightRows = uint64_t(operand.swizzle) * 8 / 16;
    const uint64_t box = operand.isAcross ? operand.boxBytes / 16 : 1;
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

  void beginDots(Builder &b) const override {
    emitPtx(b, "wgmma.fence.sync.aligned;", "~{memory}", {});
  }

  void dot(Builder &b, const GroupDot &dot, llvm::ArrayRef<Value *> a, Value *bOperand,
           llvm::MutableArrayRef<Value *> accumulators, bool adds) const override {
    const auto count = unsigned(accumulators.size());
    DTILE_CHECK(count == accumulatorCount(dot), "accumulators of another dot");
    const bool isInt = isInteger(dot.a.dtype);
    const unsigned depth = GroupDot::kDepthBytes * 8 / dtypeBits(dot.a.dtype);
    std::string text =
        llvm::formatv("{{\n\t.reg .pred p;\n\tsetp.eq.u32 p, 0, {5};\n\t"
                      "wgmma.mma_async.sync.aligned.m64n{0}k{1}.{2}.{3}.{4} ",
                      dot.columns, depth, isInt ? "s32" : "f32", operandName(dot.a.dtype),
                      operandName(dot.b.dtype), adds ? 0 : 1);
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
                  ? llvm::formatv(", {0}", int(dot.b.isAcross)).str()
                  : llvm::formatv(", {0}, {1}", int(dot.a.isAcross), int(dot.b.isAcross)).str();
    text += ";\n\t}";
    llvm::SmallVector<Value *, 5> operands(a);
    operands.push_back(bOperand);
    inOut(b, text, accumulators, operands);
  }

  void endDots(Builder &b) const override {
    emitPtx(b, "wgmma.commit_group.sync.aligned;", "~{memory}", {});
  }

  void awaitDots(Builder &b, unsigned pending,
                 llvm::MutableArrayRef<Value *> accumulators) const override {
    const std::string text = llvm::formatv("wgmma.wait_group.sync.aligned {0};", pending);
    if (accumulators.empty())
      emitPtx(b, text, "~{memory}", {});
    else
      inOut(b, text, accumulators, {});
  }

  void setRegisters(Builder &b, unsigned count, bool more) const override {
    emitPtx(b,
            llvm::Twine("setmaxnreg.") + (more ? "inc" : "dec") + ".sync.aligned.u32 " +
                llvm::Twine(count) + ";",
            "~{memory}", {});
  }

private:
  static std::string repeated(llvm::StringRef text, size_t times) {
    std::string result;
    while (times-- > 0)
      result += text;
    return result;
  }

  /// Appends the coordinates to the operands and gives `{$3, $4}`.
  static std::string placeholders(llvm::SmallVectorImpl<Value *> &operands,
                                  llvm::ArrayRef<Value *> coordinates) {
    std::string text = "{";
    for (auto [i, coordinate] : llvm::enumerate(coordinates)) {
      text += llvm::formatv("{0}${1}", i == 0 ? "" : ", ", operands.size()).str();
      operands.push_back(coordinate);
    }
    return text + "}";
  }

  /// PTX that reads and writes registers in place: they are $0 …, their old selves follow, then the
  /// other operands (32 or 64 bits).
  static void inOut(Builder &b, llvm::StringRef text, llvm::MutableArrayRef<Value *> registers,
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
};

} // namespace

const gpu::StagingOps &hopperOps() {
  static const HopperOps ops;
  return ops;
}

} // namespace dtile::backend::nvptx
