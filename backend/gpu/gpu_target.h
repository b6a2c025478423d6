// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPUs as targets: from an IR module to images (PTX, cubins, code objects), with the host side of
// their launches around them, as a file or as code of this process.
//
// Modules must be verified, free of calls (pass `inline`), and prepared for the device: the passes
// of Device::passes() run on a clone of what all targets share.
#pragma once

#include "backend/gpu/device.h"
#include "backend/launch/loaded_kernels.h"
#include "backend/target.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace dtile::backend::gpu {

/// What a module is compiled to, for one kind of device.
struct DeviceOptions {
  const Device *device = nullptr;
  /// Provider of symmetric memory: the device library that is linked in.
  std::string shmem = "p2p";
  /// 0 to 3.
  unsigned optLevel = 2;
  /// Line tables, for profilers and sanitizers.
  bool debugInfo = true;
  /// Assembles with the vendor's tool where it is found, so that the driver has nothing to compile.
  bool assemble = false;
};

/// Kernels whose descriptors hold images for one kind of device and no host code: the host side of
/// launches (prologues, counts) is code of this process. Outlives no launch that uses it.
using DeviceJit = launch::LoadedKernels;

/// Compiles a module; `module` may go away afterwards. Every descriptor has one image.
llvm::Expected<std::unique_ptr<DeviceJit>> jit(ir::Module &module, const DeviceOptions &options);

} // namespace dtile::backend::gpu
