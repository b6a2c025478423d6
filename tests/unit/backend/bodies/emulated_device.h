// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The emulated device, as code for it is generated: threads, shuffles, products and asynchronous
// copies are calls of the emulator.
#pragma once

#include "backend/gpu/async_copies.h"
#include "backend/gpu/gpu_module.h"
#include "tests/unit/backend/bodies/emulated_facts.h"

namespace dtile::backend::gpu::testing {

inline llvm::Value *callEmulator(llvm::IRBuilder<> &b, llvm::StringRef name, llvm::Type *result,
                                 llvm::ArrayRef<llvm::Value *> arguments) {
  llvm::SmallVector<llvm::Type *, 4> types;
  for (llvm::Value *argument : arguments)
    types.push_back(argument->getType());
  return b.CreateCall(b.GetInsertBlock()->getModule()->getOrInsertFunction(
                          name, llvm::FunctionType::get(result, types, false)),
                      arguments);
}

class EmulatedCopies : public AsyncCopies {
public:
  void copy(llvm::IRBuilder<> &b, llvm::Value *shared, llvm::Value *global, unsigned bytes,
            llvm::Value *valid) const override {
    callEmulator(b, "emu_copy", b.getVoidTy(),
                 {b.CreateAddrSpaceCast(shared, b.getPtrTy()),
                  b.CreateAddrSpaceCast(global, b.getPtrTy()), b.getInt32(bytes), valid});
  }
  void commit(llvm::IRBuilder<> &b) const override {
    callEmulator(b, "emu_commit", b.getVoidTy(), {});
  }
  void await(llvm::IRBuilder<> &b, unsigned pending) const override {
    callEmulator(b, "emu_await", b.getVoidTy(), {b.getInt32(pending)});
  }
};
inline const EmulatedCopies emulatedCopies;

class EmulatedDevice : public Device {
public:
  [[nodiscard]] llvm::StringRef vendor() const override { return "emulator"; }
  [[nodiscard]] llvm::StringRef arch() const override { return "x86-64-v3"; }
  [[nodiscard]] llvm::StringRef triple() const override { return "x86_64-pc-linux-gnu"; }
  [[nodiscard]] llvm::StringRef features(int64_t) const override { return ""; }
  [[nodiscard]] int64_t parameterBytes() const override { return 16 << 10; }
  [[nodiscard]] const TargetFacts &facts() const override { return kDeviceFacts; }
  void makeKernel(llvm::Function &, unsigned, unsigned) const override {}
  [[nodiscard]] int64_t registers() const override { return 65536; }
  [[nodiscard]] llvm::StringRef rankScope() const override { return ""; }
  [[nodiscard]] llvm::Value *threadIndex(llvm::IRBuilder<> &b) const override {
    return call(b, "emu_thread", b.getInt32Ty(), {});
  }
  [[nodiscard]] llvm::Value *programIndex(llvm::IRBuilder<> &b) const override {
    return call(b, "emu_program", b.getInt32Ty(), {});
  }
  void barrier(llvm::IRBuilder<> &b) const override { call(b, "emu_barrier", b.getVoidTy(), {}); }
  void barrier(llvm::IRBuilder<> &b, unsigned, unsigned) const override { barrier(b); }
  [[nodiscard]] llvm::Value *shuffleXor(llvm::IRBuilder<> &b, llvm::Value *value,
                                        unsigned mask) const override {
    return call(b, "emu_shuffle", b.getInt32Ty(), {value, b.getInt32(mask)});
  }
  [[nodiscard]] llvm::Value *shuffleUp(llvm::IRBuilder<> &b, llvm::Value *value) const override {
    return call(b, "emu_shuffle_up", b.getInt32Ty(), {value});
  }
  [[nodiscard]] bool hasShuffleUp() const override { return true; }
  void multiply(llvm::IRBuilder<> &b, const MatrixProduct &product, llvm::ArrayRef<llvm::Value *> a,
                llvm::ArrayRef<llvm::Value *> bWords,
                llvm::MutableArrayRef<llvm::Value *> sums) const override {
    llvm::Value *places[] = {put(b, a), put(b, bWords), put(b, sums)};
    const auto number = uint32_t(&product - kFacts.products.data());
    call(b, "emu_multiply", b.getVoidTy(), {b.getInt32(number), places[0], places[1], places[2]});
    for (auto [i, sum] : llvm::enumerate(sums))
      sum = b.CreateLoad(sum->getType(), b.CreateConstGEP1_64(sum->getType(), places[2], i));
  }
  [[nodiscard]] const AsyncCopies *asyncCopies() const override {
    return kIsWide ? nullptr : &emulatedCopies;
  }
  [[nodiscard]] bool hasLdmatrix() const override { return !kIsWide; }
  [[nodiscard]] bool hasSumVectors() const override { return kIsWide; }
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 4> loadMatrices(llvm::IRBuilder<> &b,
                                                                 llvm::Value *address,
                                                                 unsigned count,
                                                                 bool transposed) const override {
    llvm::SmallVector<llvm::Value *, 4> words(count, b.getInt32(0));
    llvm::Value *out = put(b, words);
    call(b, "emu_squares", b.getVoidTy(),
         {b.CreateAddrSpaceCast(address, b.getPtrTy()), b.getInt32(count), b.getInt32(transposed),
          out});
    for (auto [i, word] : llvm::enumerate(words))
      word = b.CreateLoad(b.getInt32Ty(), b.CreateConstGEP1_64(b.getInt32Ty(), out, i));
    return words;
  }

private:
  static llvm::Value *call(llvm::IRBuilder<> &b, llvm::StringRef name, llvm::Type *result,
                           llvm::ArrayRef<llvm::Value *> arguments) {
    return callEmulator(b, name, result, arguments);
  }
  static llvm::Value *put(llvm::IRBuilder<> &b, llvm::ArrayRef<llvm::Value *> values) {
    llvm::BasicBlock &entry = b.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> at(&entry, entry.begin());
    llvm::Type *type = values.front()->getType();
    llvm::Value *place =
        at.CreateAlloca(llvm::ArrayType::get(type, values.size()), nullptr, "words");
    for (auto [i, value] : llvm::enumerate(values))
      b.CreateStore(value, b.CreateConstGEP1_64(type, place, i));
    return place;
  }
};

} // namespace dtile::backend::gpu::testing
