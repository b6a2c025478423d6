// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the GPU that is asked for, and has it compile.
#include "backend/driver/execute/device_code.h"

namespace dtile::driver {

llvm::Expected<std::shared_ptr<DeviceCode>> compileForDevice(ir::Module &, const Options &options) {
  return llvm::createStringError("no code is made for `" + options.target + "` yet");
}

} // namespace dtile::driver
