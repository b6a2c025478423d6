// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu and the vendors' folders: the LLVM module of one device's code.
#pragma once

#include "backend/gpu/device.h"
#include "backend/llvm/lowering.h"
#include "backend/runtime/device_abi.h"

#include <cstdint>

namespace dtile::backend::gpu {

/// Functions of the device library, one enumerator a row of device_calls.def.
enum class DeviceCall : uint8_t {
#define CALL(NAME, SIGNATURE) NAME,
#include "backend/gpu/device_calls.def"
};

/// The module and what all of its functions use.
class GpuModule : public ModuleLowering {
public:
  GpuModule(ir::Module &source, llvm::Module &module, const Device &device, bool debugInfo)
      : ModuleLowering(source, module, debugInfo), device(device) {}

  const Device &device;

  [[nodiscard]] llvm::FunctionCallee call(DeviceCall call);
  /// The number of a place in the image's list of sites; `what` names the object or is the message
  /// of an assert.
  [[nodiscard]] int32_t site(const ir::Op &op, llvm::StringRef what);
  /// Bytes of shared memory for the op being lowered, from the program's buffer.
  [[nodiscard]] llvm::Value *shared(llvm::IRBuilder<> &b, int64_t bytes, int64_t align);
  /// What `shared` has handed out at most.
  [[nodiscard]] int64_t sharedBytes() const { return sharedBytes_; }

private:
  int64_t sharedBytes_ = 0;
};

/// The kernel around the bodies: its parameters and what they hold, loaded once.
struct KernelScaffold {
  ir::Op *kernel = nullptr;
  llvm::Function *function = nullptr;
  /// Addresses of the two parameters (constant memory).
  llvm::Value *launch = nullptr;
  llvm::Value *frame = nullptr;
  llvm::Value *rank = nullptr, *ranks = nullptr, *epoch = nullptr;
  /// i32
  llvm::Value *thread = nullptr;
  unsigned threads = 128;
};

} // namespace dtile::backend::gpu
