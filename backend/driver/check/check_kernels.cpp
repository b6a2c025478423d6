// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instances of kernels whose callers are not known, and the check of lowered ones.
#include "backend/driver/check/check_kernels.h"

#include "backend/driver/check/promises.h"
#include "backend/driver/check/signal_fix.h"
#include "backend/driver/optimize.h"
#include "ir/core/builder.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::driver {

CheckedKernel instantiateAlone(sema::Program &program, const ast::KernelDecl &kernel,
                               const sema::GenericArgs &given, const SourceManager &sources) {
  constexpr int64_t kSizes[] = {16, 128, 1024, 1};
  for (const int64_t size : kSizes) {
    sema::GenericArgs args = given;
    std::set<llvm::StringRef> standIns;
    for (const ast::GenericParam &generic : kernel.generics) {
      const llvm::StringRef name = generic.name.name;
      const bool isGiven =
          llvm::any_of(args.named, [&](const auto &named) { return named.first == name; });
      if (generic.defaultValue || isGiven)
        continue;
      sema::GenericValue value;
      const llvm::StringRef type = generic.type ? generic.type->name.name : "";
      value.kind = type == "dtype"  ? sema::GenericValue::Kind::DType
                   : type == "bool" ? sema::GenericValue::Kind::Bool
                                    : sema::GenericValue::Kind::Int;
      value.intValue = type == "bool" ? 1 : size;
      args.named.emplace_back(name.str(), value);
      standIns.insert(name);
    }
    Diagnostics attempt(sources);
    if (const sema::KernelInstance *instance =
            program.instantiate(&kernel, args, kernel.name.range, attempt))
      return {instance, std::move(standIns)};
  }
  return {};
}

std::optional<std::vector<protocol::Verdict>>
checkInstances(ir::Module &module, llvm::ArrayRef<const sema::KernelInstance *> instances,
               const SourceManager &sources, protocol::CheckOptions checks,
               Diagnostics &diagnostics) {
  // Room is asked for as a build without further options schedules it; the rest as it is written.
  const std::unique_ptr<ir::Module> scheduled = ir::cloneModule(module);
  passes::PassContext context(diagnostics);
  if (!runPipeline(*scheduled, OptLevel::O2, context) ||
      !runPipeline(module, OptLevel::O1, context))
    return std::nullopt;
  checks.scheduled = scheduled.get();
  checks.promises = promisesOf(instances);
  checks.signalFix = [&](llvm::StringRef kernel, llvm::StringRef object, llvm::StringRef signal,
                         SourceLoc place) -> std::vector<FixIt> {
    for (const sema::KernelInstance *instance : instances)
      if (instance->name == kernel)
        return signalFix(sources, *instance->decl, {object.str(), signal.str(), place});
    return {};
  };
  return protocol::checkProtocol(module, checks, diagnostics);
}

} // namespace dtile::driver
