// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shmem device library (backend/device_library), linked into a module of GPU code.
#pragma once

#include "backend/gpu/device.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dtile::backend::gpu {

/// Who carries bytes between ranks.
struct ShmemProvider {
  /// Of a row of backend/device_library/providers.def.
  std::string name = "p2p";
  /// Where the provider's own bitcode is found, as the row's option says it.
  std::string path;
};

/// `p2p, nvshmem, …`: of all vendors.
[[nodiscard]] std::string providerNames();
/// The options that give the path of a provider's bitcode, `--nvshmem-home` and the like.
[[nodiscard]] std::vector<std::string> providerOptions();

/// Links what the module calls of the library and of the provider's bitcode. All of it becomes
/// internal, is made for the device, and is inlined where that is meant; branches on the
/// architecture fold. Gives the version of the provider's bitcode (dtile_device_image), 0 where it
/// has none. Fails with a message for the user: no such provider, or bitcode that is not there, of
/// another version, or lacks a function. Target triple and data layout of the module must have been
/// set.
llvm::Expected<int32_t> linkDeviceLibrary(llvm::Module &module, const Device &device,
                                          const ShmemProvider &provider);

} // namespace dtile::backend::gpu
