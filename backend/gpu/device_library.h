// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shmem device library (backend/device_library), linked into a module of GPU code.
#pragma once

#include "backend/gpu/device.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <string>

namespace dtile::backend::gpu {

/// Who carries bytes between ranks.
struct ShmemProvider {
  /// `p2p`, `nvshmem`, `rocshmem`.
  std::string name = "p2p";
  /// Where the provider's own bitcode is found: NVSHMEM's installation, or rocSHMEM's file.
  std::string path;
};

/// Links what the module calls of the library and of the provider's bitcode. All of it becomes
/// internal, is made for the device, and is inlined where that is meant; branches on the
/// architecture fold. Gives the version of the provider's bitcode (dtile_device_image), 0 where it
/// has none. Fails with a message for the user: no such provider, or bitcode that is not there, of
/// another version, or lacks a function. Target triple and data layout of the module must have been
/// set.
llvm::Expected<int32_t> linkDeviceLibrary(llvm::Module &module, const Device &device,
                                          const ShmemProvider &provider);

} // namespace dtile::backend::gpu
