// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the GPU that is asked for, and compiles for it into this process.
#include "backend/driver/execute/device_code.h"

#include "backend/driver/target_code.h"
#include "backend/launch/package.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::driver {

namespace {

class LoadedDeviceCode : public DeviceCode {
public:
  explicit LoadedDeviceCode(std::unique_ptr<backend::launch::LoadedKernels> kernels)
      : kernels_(std::move(kernels)) {}
  const dtile_kernel_desc *find(llvm::StringRef name) const override {
    return kernels_->find(name);
  }

private:
  std::unique_ptr<backend::launch::LoadedKernels> kernels_;
};

} // namespace

llvm::Expected<std::shared_ptr<DeviceCode>> compileForDevice(ir::Module &module,
                                                             const Options &options) {
  const backend::Target *target = backend::findTarget(options.target);
  if (!target || target->archs().empty())
    return llvm::createStringError("`" + options.target + "` is no target that runs on GPUs");
  std::string arch = options.arch.empty() ? target->archs().front().str() : options.arch;
  if (!llvm::is_contained(target->archs(), arch))
    return llvm::createStringError("`" + arch + "` is no architecture of target `" +
                                   options.target + "`");
  const SourceManager none;
  Diagnostics diagnostics(module.sources() ? *module.sources() : none);
  std::unique_ptr<ir::Module> prepared = prepareFor(diagnostics, module, {target, arch});
  if (!prepared)
    return llvm::createStringError(diagnostics.all().empty()
                                       ? "a pass failed"
                                       : diagnostics.all().front().message);
  backend::TargetOptions made = targetOptions(options, arch);
  made.cpu = "native";
  made.assemble = false;
  auto kernels = backend::launch::load(*target, *prepared, made);
  if (!kernels)
    return kernels.takeError();
  return std::make_shared<LoadedDeviceCode>(std::move(*kernels));
}

} // namespace dtile::driver
