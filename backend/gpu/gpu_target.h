// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPUs as targets: from an IR module to images (PTX, cubins, code objects), with the host side of
// their launches around them, as a file or as code of this process (launch::load).
//
// Modules must be verified, free of calls (pass `inline`), and prepared for the device: the passes
// of passes::devicePipelineText run on a clone of what all targets share.
#pragma once

#include "backend/gpu/device.h"
#include "backend/runtime/kernel_abi.h"
#include "backend/target.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>
#include <vector>

namespace dtile::backend::gpu {

/// What a vendor's assembler says of a kernel.
struct KernelStats {
  std::string entry;
  /// Of a thread; registers that live in memory are bytes stored and loaded again.
  int64_t registers = 0, spillStores = 0, spillLoads = 0, stack = 0;
  /// Of a program, besides what a launch asks for.
  int64_t shared = 0;
  /// What it says makes the kernel slow, in its words; mostly empty.
  std::string loss;
};

/// What a device runs.
struct Image {
  dtile_image_format format = DTILE_IMAGE_PTX;
  std::string bytes;
  /// The same compressed, where the options ask for it.
  std::string packed;
  /// The only kernel that it has; empty where it has all.
  std::string entry;
  /// Why there are no bytes: making them would have taken too long.
  std::string tooLong;
  /// Of its kernels, where the vendor's assembler has run.
  std::vector<KernelStats> stats;
};

/// LLVM's passes of code generation that are not worth their time here. Tiles are walked step by
/// step as they are lowered (TileAccess), so nothing is left for the first two, which look for sums
/// and products of addresses that repeat in straight code, and take a quarter of the time and more:
/// one asks of each pair of addresses whether one may stand for the other. The third runs after
/// each of them and once more; what it still finds is less than 0.3% of the code. The last one
/// looks for `freeze` of what loops count, of which there is none.
inline constexpr llvm::StringLiteral kPassesLeftOut[] = {
    "slsr", "nary-reassociate", "early-cse", "Canonicalize Freeze Instructions in Loops"};

/// What becomes of a vendor's code once LLVM has optimized it. Has no state.
class Vendor {
public:
  virtual ~Vendor() = default;
  /// The devices that code can be made for, the default first.
  [[nodiscard]] virtual llvm::ArrayRef<const Device *> devices() const = 0;
  /// Makes LLVM's code generator for them known.
  virtual void initializeLlvm() const = 0;
  /// Whether files of this kind can be made, given the tools that may have to be found.
  [[nodiscard]] virtual bool canEmit(EmitKind kind) const = 0;
  /// The images for an object file, the best first: what can be made on this machine. With
  /// `assemble`, a tool of the vendor's may be run where it is found. Several threads may call it,
  /// each with a module of its own context; then each image gets its last step, by one thread.
  virtual llvm::Expected<std::vector<Image>> images(llvm::Module &module,
                                                    llvm::TargetMachine &machine,
                                                    const Device &device, bool assemble) const = 0;
  /// The last step of an image, where what it calls is not for several threads at once.
  virtual llvm::Error finish(Image &image) const { return llvm::Error::success(); }
  /// Ptx, Cubin or Hsaco, or an error that says what is missing.
  virtual llvm::Expected<std::string> file(llvm::Module &module, llvm::TargetMachine &machine,
                                           const Device &device, EmitKind kind) const = 0;
  virtual llvm::Expected<std::vector<KernelStats>>
  stats(llvm::Module &module, llvm::TargetMachine &machine, const Device &device) const = 0;
};

/// A vendor's devices as a target.
class GpuTarget : public Target {
public:
  GpuTarget(llvm::StringLiteral name, llvm::StringLiteral summary, const Vendor &vendor);

  llvm::ArrayRef<llvm::StringRef> archs() const override { return archs_; }
  const TargetFacts *facts(llvm::StringRef arch) const override;
  std::unique_ptr<LaunchEstimate> estimate(ir::Op &kernel,
                                           const TargetFacts *machine) const override;
  std::optional<Assembly> assembly() const override { return assemblyFromName(name()); }
  bool canEmit(EmitKind kind) const override;
  llvm::Error addTo(launch::Package &package, ir::Module &module,
                    const TargetOptions &options) const override;
  llvm::Error emit(ir::Module &module, const TargetOptions &options, EmitKind kind,
                   llvm::raw_pwrite_stream &os) const override;

private:
  /// The device of an architecture; empty is the default.
  [[nodiscard]] const Device *find(llvm::StringRef arch) const;
  [[nodiscard]] llvm::Expected<const Device *> require(llvm::StringRef arch) const;
  const Vendor &vendor_;
  std::vector<llvm::StringRef> archs_;
};

} // namespace dtile::backend::gpu
