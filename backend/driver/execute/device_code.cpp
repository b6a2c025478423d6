// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the GPU that is asked for, and compiles for it into this process.
#include "backend/driver/execute/device_code.h"

#include "backend/driver/target_code.h"
#include "backend/launch/package.h"
#include "backend/runtime/dtile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

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

/// The target's architecture that a device runs best: its own with all its features (`sm_90a`), its
/// own, or the newest older one (of those without features that only one has). Empty: none.
std::string archOf(const backend::Target &target, llvm::StringRef device) {
  llvm::ArrayRef<llvm::StringRef> archs = target.archs();
  for (const std::string &name : {device.str() + "a", device.str()})
    if (llvm::is_contained(archs, name))
      return name;
  auto number = [](llvm::StringRef name) {
    int value = 0;
    return name.consume_front("sm_") && !name.getAsInteger(10, value) ? value : 0;
  };
  llvm::StringRef best;
  for (llvm::StringRef arch : archs)
    if (number(arch) != 0 && number(arch) <= number(device) && number(arch) > number(best))
      best = arch;
  return best.str();
}

/// What `--arch` names, or what the first of the devices is; the target's default where there are
/// none, so that what is wrong with the program is said first.
llvm::Expected<std::string> chooseArch(const backend::Target &target, const Options &options) {
  llvm::ArrayRef<llvm::StringRef> archs = target.archs();
  const std::string known = llvm::join(archs, ", ");
  if (!options.arch.empty()) {
    if (llvm::is_contained(archs, options.arch))
      return options.arch;
    return llvm::createStringError("`" + options.arch + "` is no architecture of target `" +
                                   options.target + "`, which has " + known);
  }
  char device[64] = "";
  if (dtile_device_arch(options.target.c_str(),
                        options.devices.empty() ? 0 : options.devices.front(), device,
                        sizeof(device)) != DTILE_OK)
    return archs.front().str();
  std::string arch = archOf(target, device);
  if (arch.empty())
    return llvm::createStringError("the GPU is `" + std::string(device) +
                                   "`, and code is made for " + known);
  return arch;
}

} // namespace

llvm::Expected<std::string> archOfDevices(const Options &options) {
  const backend::Target *target = backend::findTarget(options.target);
  if (!target || target->archs().empty())
    return std::string();
  return chooseArch(*target, options);
}

llvm::Expected<std::shared_ptr<DeviceCode>> compileForDevice(ir::Module &module,
                                                             const Options &options) {
  const backend::Target *target = backend::findTarget(options.target);
  if (!target || target->archs().empty())
    return llvm::createStringError("`" + options.target + "` is no target that runs on GPUs");
  auto arch = chooseArch(*target, options);
  if (!arch)
    return arch.takeError();
  const TargetArch device = {target, *arch, options.shmem == "p2p", /*splitsSums=*/true,
                             machineFor(options, *target, *arch)};
  const SourceManager none;
  Diagnostics diagnostics(module.sources() ? *module.sources() : none);
  std::unique_ptr<ir::Module> prepared = prepareFor(diagnostics, module, device);
  if (!prepared)
    return llvm::createStringError(diagnostics.all().empty() ? "a pass failed"
                                                             : diagnostics.all().front().message);
  backend::TargetOptions made = targetOptions(options, device);
  made.cpu = "native";
  made.assemble = false;
  made.prints = true;
  made.isTraced = !options.trace.empty();
  auto kernels = backend::launch::load(*target, *prepared, made);
  if (!kernels)
    return kernels.takeError();
  return std::make_shared<LoadedDeviceCode>(std::move(*kernels));
}

} // namespace dtile::driver
