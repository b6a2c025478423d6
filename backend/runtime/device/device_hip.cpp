// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// AMD's driver.
#include "backend/runtime/device/device.h"

namespace dtile::runtime {

Status openHip(std::unique_ptr<DeviceDriver> *) {
  return {DTILE_UNAVAILABLE,
          "kernels cannot be launched on AMD GPUs yet; load the code object with "
          "HIP's module API"};
}

} // namespace dtile::runtime
