// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host target's entry points: from an IR module to a file, or to code of this process.
#include "backend/host/host.h"

#include "backend/host/host_module.h"
#include "backend/launch/package.h"
#include "frontend/base/check.h"

#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

namespace dtile::backend::host {

namespace {

/// Adds the code of a module's kernels to a package.
llvm::Error addTo(launch::Package &package, ir::Module &source, bool debugInfo, bool isTraced) {
  PhaseScope phase("generating host code");
  HostModule lowering(source, package.module(), package.vectors(), debugInfo);
  lowering.isTraced = isTraced;
  for (ir::Op &op : source.body().ops())
    if (op.is(ir::OpKind::Kernel)) {
      launch::KernelCode &code = package.code(launch::entryOf(op));
      code.include(op, /*isForDevice=*/false);
      std::unique_ptr<launch::HostCode> made = lowerKernel(lowering, op);
      const auto variant = int32_t(op.getOr(ir::attr::variant, 0));
      code.hostConstants[variant] =
          op.has(ir::attr::constants) ? op.get(ir::attr::constants).str() : "";
      if (variant == 0)
        code.host = std::move(made);
      else if (made)
        code.hostVariants[variant] = std::move(*made);
    }
  lowering.debug.finish();
  return lowering.takeError();
}

llvm::Expected<std::unique_ptr<launch::Package>> package(ir::Module &source,
                                                         const HostOptions &options, bool jit) {
  auto package =
      launch::Package::create({.cpu = options.cpu, .optLevel = options.optLevel, .jit = jit});
  if (!package)
    return package.takeError();
  if (llvm::Error error = addTo(**package, source, options.debugInfo, options.isTraced))
    return error;
  if (llvm::Error error = (*package)->finish(source))
    return error;
  return package;
}

} // namespace

llvm::Error emit(ir::Module &source, const HostOptions &options, EmitKind kind,
                 llvm::raw_pwrite_stream &os) {
  auto made = package(source, options, /*jit=*/false);
  return made ? (*made)->emit(kind, os) : made.takeError();
}

llvm::Expected<std::unique_ptr<JitModule>> jit(ir::Module &source, const HostOptions &options) {
  auto made = package(source, options, /*jit=*/true);
  if (!made)
    return made.takeError();
  return (*made)->load();
}

// The target's row.

namespace {

class HostTarget : public Target {
public:
  HostTarget() : Target("host", "this machine and others of its kind, through LLVM") {}
  bool canEmit(EmitKind kind) const override {
    return kind == EmitKind::Obj || kind == EmitKind::Asm || kind == EmitKind::LlvmIr ||
           kind == EmitKind::Bitcode;
  }
  std::optional<Assembly> assembly() const override {
    return assemblyFromName(llvm::Triple(llvm::sys::getProcessTriple()).getArchName());
  }
  llvm::Error addTo(launch::Package &package, ir::Module &module,
                    const TargetOptions &options) const override {
    return host::addTo(package, module, options.debugInfo, options.isTraced);
  }
  llvm::Error emit(ir::Module &module, const TargetOptions &options, EmitKind kind,
                   llvm::raw_pwrite_stream &os) const override {
    return host::emit(module,
                      {.cpu = options.cpu,
                       .optLevel = options.optLevel,
                       .debugInfo = options.debugInfo,
                       .isTraced = options.isTraced},
                      kind, os);
  }
};

} // namespace

} // namespace dtile::backend::host

namespace dtile::backend {

const Target &hostTarget() {
  static const host::HostTarget kTarget;
  return kTarget;
}

} // namespace dtile::backend
