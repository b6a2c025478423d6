// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The optimizer's pipeline and the output formats.
#include "backend/llvm/emit.h"

#include "backend/llvm/instructions.h"
#include "backend/lowering_error.h"
#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"

namespace dtile::backend {

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine(const MachineOptions &options) {
  std::string error;
  llvm::Triple triple(options.triple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(error);
  // Asked first: making a machine for an unknown processor only warns, on stderr.
  std::unique_ptr<llvm::MCSubtargetInfo> processors(target->createMCSubtargetInfo(triple, "", ""));
  if (!options.cpu.empty() && !processors->isCPUStringValid(options.cpu))
    return llvm::createStringError("`" + options.cpu + "` is no processor that LLVM knows for " +
                                   triple.getArchName() + "; `native` always works");
  if (triple.getArch() == llvm::Triple::x86_64 && !options.cpu.empty()) {
    const std::unique_ptr<llvm::MCSubtargetInfo> chosen(
        target->createMCSubtargetInfo(triple, options.cpu, options.features));
    if (!chosen->checkFeatures("+64bit"))
      return llvm::createStringError("`" + options.cpu + "` has no 64-bit code; `native` always " +
                                     "works");
  }
  llvm::TargetOptions targetOptions;
  // Each operation rounds; fma is only where it was asked for, or instructions allow it.
  targetOptions.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  targetOptions.FunctionSections = true;
  targetOptions.DataSections = true;
  llvm::CodeGenOptLevel level = options.optLevel == 0   ? llvm::CodeGenOptLevel::None
                                : options.optLevel == 1 ? llvm::CodeGenOptLevel::Less
                                                        : llvm::CodeGenOptLevel::Default;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, options.cpu, options.features, targetOptions,
                                  llvm::Reloc::PIC_, llvm::CodeModel::Small, level, options.jit));
  if (!machine)
    return llvm::createStringError("no code generator for `" + options.triple + "`");
  return machine;
}

namespace {

/// Tile loops come out as they should run: vectors, few blocks, nothing to inline. What is left is
/// redundant address arithmetic. This gives the same code as LLVM's default in a third of the time.
constexpr llvm::StringRef kPipeline =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(loop-rotate,licm),gvn,instcombine<no-verify-fixpoint>,simplifycfg,adce),globaldce";

/// Kernels for GPUs are long, and all their tiles are in registers: what gvn finds beyond early-cse
/// is not worth up to a fifth of the time (docs/decisions/no_gvn.md).
constexpr llvm::StringRef kGpuPipeline =
    "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(loop-rotate,licm),early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "adce),globaldce";

/// While it lives a context's optional passes are all run but some.
class PassesLeftOut : public llvm::OptPassGate {
public:
  PassesLeftOut(llvm::LLVMContext &context, llvm::ArrayRef<llvm::StringLiteral> names)
      : context_(context), before_(context.getOptPassGate()), names_(names) {
    context.setOptPassGate(*this);
  }
  ~PassesLeftOut() override { context_.setOptPassGate(before_); }
  bool shouldRunPass(llvm::StringRef name, llvm::StringRef) const override {
    return !llvm::is_contained(names_, name);
  }
  bool isEnabled() const override { return !names_.empty(); }

private:
  llvm::LLVMContext &context_;
  llvm::OptPassGate &before_;
  llvm::ArrayRef<llvm::StringLiteral> names_;
};

/// While it lives, what LLVM says of instructions that programs gave is kept: LLVM itself would
/// print it and end the process.
class AssemblyErrors {
public:
  explicit AssemblyErrors(const llvm::Module &module)
      : module_(module), before_(module.getContext().getDiagnosticHandler()) {
    module.getContext().setDiagnosticHandler(std::make_unique<Handler>(error_));
  }
  ~AssemblyErrors() { module_.getContext().setDiagnosticHandler(std::move(before_)); }
  AssemblyErrors(const AssemblyErrors &) = delete;
  AssemblyErrors &operator=(const AssemblyErrors &) = delete;

  [[nodiscard]] llvm::Error take() {
    if (!error_)
      return llvm::Error::success();
    const InstructionsOf where = instructionsAt(module_, error_->cookie);
    if (where.name.empty())
      return llvm::createStringError(error_->message);
    return llvm::make_error<LoweringError>(SourceLoc{uint32_t(error_->cookie)}, where.place,
                                           "the instructions of `" + where.name + "` for `" +
                                               where.assembly +
                                               "` are refused: " + error_->message);
  }

private:
  struct First {
    uint64_t cookie = 0;
    std::string message;
  };

  struct Handler : llvm::DiagnosticHandler {
    explicit Handler(std::optional<First> &error) : error(error) {}
    bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
      if (info.getSeverity() != llvm::DS_Error)
        return false;
      First found;
      if (const auto *source = llvm::dyn_cast<llvm::DiagnosticInfoSrcMgr>(&info)) {
        found = {source->getLocCookie(), source->getSMDiag().getMessage().str()};
      } else if (const auto *inlined = llvm::dyn_cast<llvm::DiagnosticInfoInlineAsm>(&info)) {
        found = {inlined->getLocCookie(), inlined->getMsgStr().str()};
      } else {
        llvm::raw_string_ostream os(found.message);
        llvm::DiagnosticPrinterRawOStream printer(os);
        info.print(printer);
      }
      if (!error)
        error = std::move(found);
      return true;
    }
    std::optional<First> &error;
  };

  const llvm::Module &module_;
  std::unique_ptr<llvm::DiagnosticHandler> before_;
  std::optional<First> error_;
};

} // namespace

llvm::Error verifyModule(const llvm::Module &module) {
  std::string message;
  llvm::raw_string_ostream os(message);
  if (llvm::verifyModule(module, &os))
    return llvm::createStringError("dtilec generated invalid code (a bug in it): " + message);
  return llvm::Error::success();
}

void runPasses(llvm::Module &module, llvm::TargetMachine *machine, llvm::StringRef pipeline) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder passes(machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager manager;
  llvm::cantFail(passes.parsePassPipeline(manager, pipeline));
  manager.run(module, modules);
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine, unsigned optLevel) {
  if (optLevel == 0)
    return;
  const llvm::StringRef quick = machine.getTargetTriple().isGPU() ? kGpuPipeline : kPipeline;
  runPasses(module, &machine, optLevel >= 3 ? "default<O3>" : quick);
}

llvm::Error emitModule(llvm::Module &module, llvm::TargetMachine &machine, EmitKind kind,
                       llvm::raw_pwrite_stream &os, llvm::ArrayRef<llvm::StringLiteral> without) {
  switch (kind) {
  case EmitKind::LlvmIr:
    module.print(os, nullptr);
    return llvm::Error::success();
  case EmitKind::Bitcode:
    llvm::WriteBitcodeToFile(module, os);
    return llvm::Error::success();
  case EmitKind::Obj:
  case EmitKind::Asm:
    break;
  case EmitKind::Ptx:
  case EmitKind::Cubin:
  case EmitKind::Hsaco:
  case EmitKind::Stats:
    DTILE_UNREACHABLE("images are their targets' to make");
  }
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(
      llvm::TargetLibraryInfoImpl(machine.getTargetTriple())));
  llvm::CodeGenFileType type = kind == EmitKind::Obj ? llvm::CodeGenFileType::ObjectFile
                                                     : llvm::CodeGenFileType::AssemblyFile;
  if (machine.addPassesToEmitFile(passes, os, nullptr, type, /*DisableVerify=*/true))
    return llvm::createStringError("this target cannot write that kind of file");
  const PassesLeftOut gate(module.getContext(), without);
  AssemblyErrors errors(module);
  passes.run(module);
  return errors.take();
}

} // namespace dtile::backend
