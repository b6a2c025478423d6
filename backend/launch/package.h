// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One object file for several targets: each adds what it made for the kernels, then descriptors
// tell the runtime of it.
#pragma once

#include "backend/launch/descriptor.h"
#include "backend/launch/loaded_kernels.h"
#include "backend/target.h"

#include "llvm/Target/TargetMachine.h"

#include <map>

namespace dtile::backend::launch {

/// How this machine's code is made.
struct PackageOptions {
  /// `native`, or a name that LLVM knows. Empty: one that the same code runs on nearly everywhere,
  /// `x86-64-v3` on x86-64 (every server since 2015), else `generic`.
  std::string cpu;
  /// 0 to 3.
  unsigned optLevel = 2;
  /// Code that runs in this process.
  bool jit = false;
};

/// An object file being made.
class Package {
public:
  static llvm::Expected<std::unique_ptr<Package>> create(const PackageOptions &options);

  [[nodiscard]] llvm::LLVMContext &context() { return context_; }
  [[nodiscard]] llvm::Module &module() { return module_; }
  [[nodiscard]] VectorUnit vectors() const;
  /// Code of a kernel, to be added to.
  [[nodiscard]] KernelCode &code(llvm::StringRef kernel) { return kernels_[kernel.str()]; }

  /// Notes that there is no code of a variant of a kernel, which others stand in for.
  void leaveOut(std::string what, std::string why) {
    leftOut_.emplace_back(std::move(what), std::move(why));
  }
  /// Variants without code, and why.
  [[nodiscard]] llvm::ArrayRef<std::pair<std::string, std::string>> leftOut() const {
    return leftOut_;
  }

  /// Notes what makes the code of a kernel slow, in words; `where` is the kernel.
  void warn(SourceLoc where, std::string what) { slow_.push_back({where, std::move(what)}); }
  struct Slow {
    SourceLoc where;
    std::string what;
  };
  [[nodiscard]] llvm::ArrayRef<Slow> slow() const { return slow_; }

  /// Kernels are to be functions of TVM FFI, too: __tvm_ffi_<name>.
  void exportTvmFfi() { exportsTvmFfi_ = true; }
  /// Emits the descriptors of a module's kernels, and optimizes. What all targets made theirs from
  /// must have had the same kernels, parameters and spaces.
  llvm::Error finish(ir::Module &source);
  /// Writes it: an object, assembly, LLVM IR or bitcode.
  llvm::Error emit(EmitKind kind, llvm::raw_pwrite_stream &os);
  /// Loads it into this process.
  llvm::Expected<std::unique_ptr<LoadedKernels>> load();

private:
  explicit Package(std::unique_ptr<llvm::TargetMachine> machine, unsigned optLevel);
  std::unique_ptr<llvm::TargetMachine> machine_;
  unsigned optLevel_;
  llvm::LLVMContext context_;
  llvm::Module module_;
  std::map<std::string, KernelCode> kernels_;
  std::vector<std::string> names_;
  std::vector<std::pair<std::string, std::string>> leftOut_;
  std::vector<Slow> slow_;
  bool exportsTvmFfi_ = false;
};

/// Compiles a verified, call-free, prepared module for one target into this process; `module` may
/// go away afterwards. For devices nothing is assembled unless the options say so.
llvm::Expected<std::unique_ptr<LoadedKernels>> load(const Target &target, ir::Module &module,
                                                    const TargetOptions &options);

} // namespace dtile::backend::launch
