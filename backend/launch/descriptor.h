// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtile_kernel_<name>`: what the runtime sees of a kernel, whichever targets made code for it.
#pragma once

#include "backend/launch/frame.h"
#include "backend/runtime/kernel_abi.h"

#include <map>
#include <string>
#include <vector>

namespace dtile::backend::launch {

/// A kernel's code for the host target.
struct HostCode {
  struct Space {
    llvm::Function *count = nullptr;
    llvm::Function *position = nullptr;
    llvm::Function *body = nullptr;
    int64_t workspaceBytes = 0;
    /// As dtile_space_desc has them.
    int32_t afterAll = -1;
    int32_t ordered = 0;
    int32_t programs = 0;
  };
  llvm::Function *prologue = nullptr;
  int64_t frameBytes = 0;
  /// In the order of the kernel's.
  std::vector<Space> spaces;
  /// One a signal; null where no count was derived.
  std::vector<llvm::Function *> expected;
};

/// A kernel's code for one kind of device, with its host side.
struct DeviceImage {
  dtile_image_format format = DTILE_IMAGE_PTX;
  std::string target, arch, shmem;
  int32_t shmemVersion = 0;
  /// Shared by the kernels of a module; see LaunchModule::bytes.
  llvm::Constant *data = nullptr;
  int64_t bytes = 0;
  /// Of `data`, where that is compressed; else 0.
  int64_t packedBytes = 0;
  /// Names of its functions, by dtile_launch_kind; several may be one.
  std::string entries[DTILE_LAUNCH_KINDS];
  int32_t threads = 0;
  int32_t sharedBytes = 0;
  int64_t frameBytes = 0;
  llvm::Function *prologue = nullptr;
  /// One a space.
  std::vector<llvm::Constant *> counts, weights, latencies, shared, remoteBytes;
  std::vector<dtile_device_space> spaces;
  /// Null where all launches move tiles alike, and where programs share no loads.
  llvm::Function *loading = nullptr, *paired = nullptr, *pairedWeight = nullptr;
  /// Which variant of its kernel it is for this device, whether it looks to other ranks like
  /// another one, and what was chosen for it.
  int32_t variant = 0;
  int32_t protocol = 0;
  std::string constants;
  /// Numbers of the machine that are not the architecture's; empty where all are.
  std::string machine;
  /// Nanoseconds of a launch whose bodies do nothing.
  int32_t launchTime = 0;
  /// What one takes more whose programs share loads.
  int32_t pairTime = 0;
  /// Bytes a nanosecond between devices.
  int32_t linkRate = 0;
  /// In `sites`; -1: none.
  int32_t mappedSite = -1;
  /// Of the sums that a program leaves for another one where bodies are divided.
  int64_t partialBytes = 0;
  /// One a scratch object.
  std::vector<dtile_device_scratch> scratch;
  /// dtile_site values.
  std::vector<llvm::Constant *> sites;
  /// One a space, or null; none where no space uses the copy engine.
  std::vector<llvm::Constant *> engine;
};

/// A measured choice, as dtile_tuned_row has it.
struct TunedRow {
  std::string machine, arch;
  int32_t ranks = 1;
  /// Of a name for several kernels: the number of the alternative.
  int32_t variant = 0;
  int32_t protocol = 0;
  /// One a size of KernelCode::tunedSizes.
  std::vector<int64_t> sizes;
};

/// What was made for a kernel that callers launch: by its variants, where it has some.
struct KernelCode {
  /// What launches have to keep of a parameter: the strictest of all variants, as the kernel is one
  /// to its callers, whatever runs.
  struct Param {
    uint32_t flags = 0;
    int64_t copies = 1;
  };
  /// Adds what a kernel of the IR, the entry or one of its variants, asks of launches.
  void include(ir::Op &kernel, bool isForDevice);

  uint32_t flags = 0;
  std::map<int64_t, Param> params;
  std::unique_ptr<HostCode> host;
  /// Code for processors with other constants, by number; launches take it by `tuned` alone.
  std::map<int32_t, HostCode> hostVariants;
  /// Constants of each, for the hash that ranks compare.
  std::map<int32_t, std::string> hostConstants;
  std::vector<DeviceImage> images;
  /// What this machine's part of it needs: a bit a row of runtime/processor_features.def.
  uint64_t processorFeatures = 0;
  /// Sizes of arguments, by parameter and dimension, and choices that were measured for them.
  std::vector<std::pair<int32_t, int32_t>> tunedSizes;
  std::vector<TunedRow> tuned;
};

/// Emits the functions of the host target that read a frame: its prologue, counts, positions and
/// expected counts; `body` makes each space's body and says what workspace it needs.
[[nodiscard]] HostCode lowerHostCode(
    LaunchModule &module, Frame &frame,
    llvm::function_ref<void(ir::Op &space, llvm::StringRef name, HostCode::Space &code)> body);

/// Emits the descriptor, the only symbol that is visible outside.
void lowerDescriptor(LaunchModule &module, ir::Op &kernel, const KernelCode &code);

/// A name for several kernels, with the first of them in front; emits its descriptor. `family` has
/// what was measured of launches by the name, and no code.
void lowerFamily(LaunchModule &module, llvm::StringRef name, llvm::ArrayRef<ir::Op *> alternatives,
                 const KernelCode &first, const KernelCode &family);

/// The names for several kernels in a module, and their alternatives in order.
[[nodiscard]] std::map<std::string, std::vector<ir::Op *>> familiesOf(ir::Module &module);

/// The dimensions of a parameter whose sizes are the same on all ranks, a bit each
/// (dtile_param_desc.agreed).
[[nodiscard]] uint32_t agreedDims(ir::Op &kernel, int64_t param);

/// The name that callers launch a kernel of the IR by.
[[nodiscard]] llvm::StringRef entryOf(const ir::Op &kernel);

} // namespace dtile::backend::launch
