// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lists of targets and architectures, and the passes that each has of its own.
#include "backend/driver/target_code.h"

#include "frontend/base/check.h"
#include "ir/core/builder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace dtile::driver {

namespace {

std::vector<llvm::StringRef> splitList(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  std::vector<llvm::StringRef> names;
  for (llvm::StringRef part : parts)
    if (part = part.trim(); !llvm::is_contained(names, part))
      names.push_back(part);
  return names;
}

/// A list with commas but for one name.
std::string without(llvm::StringRef text, llvm::StringRef name) {
  std::vector<llvm::StringRef> names = splitList(text);
  llvm::erase(names, name);
  return llvm::join(names, ",");
}

std::string quotedNames(llvm::ArrayRef<llvm::StringRef> names) {
  std::vector<std::string> quoted;
  for (llvm::StringRef name : names)
    quoted.push_back("`" + name.str() + "`");
  return llvm::join(quoted, ", ");
}

bool reportUnknownTarget(Session &session, llvm::StringRef name) {
  std::vector<llvm::StringRef> names;
  for (const backend::Target *target : backend::allTargets())
    names.push_back(target->name());
  session.diagnostics.report(SourceLoc{}, diag::unknown_target, name, quotedNames(names));
  return false;
}

bool reportUnknownArch(Session &session, llvm::StringRef arch,
                       llvm::ArrayRef<const backend::Target *> targets) {
  for (const backend::Target *other : backend::allTargets())
    if (llvm::is_contained(other->archs(), arch)) {
      session.diagnostics.report(SourceLoc{}, diag::arch_of_other_target, arch, other->name());
      return false;
    }
  std::vector<std::string> known;
  for (const backend::Target *target : targets)
    known.push_back(
        target->archs().empty()
            ? "none for target `" + target->name().str() + "` (--cpu names its processor)"
            : quotedNames(target->archs()) + " for target `" + target->name().str() + "`");
  session.diagnostics.report(SourceLoc{}, diag::unknown_arch, arch, llvm::join(known, ", "));
  return false;
}

} // namespace

std::vector<TargetArch> selectTargets(Session &session, llvm::StringRef names) {
  std::vector<const backend::Target *> targets;
  bool isFine = true;
  for (llvm::StringRef name : splitList(names)) {
    if (const backend::Target *target = backend::findTarget(name))
      targets.push_back(target);
    else
      isFine = reportUnknownTarget(session, name);
  }
  std::vector<llvm::StringRef> archs;
  if (!session.options.arch.empty())
    archs = splitList(session.options.arch);
  if (isFine)
    for (llvm::StringRef arch : archs)
      if (llvm::none_of(targets, [&](const backend::Target *target) {
            return llvm::is_contained(target->archs(), arch);
          }))
        isFine = reportUnknownArch(session, arch, targets);
  std::vector<TargetArch> selected;
  const bool areMapped = session.options.shmem == "p2p";
  const bool splitsSums = !session.options.batchInvariant;
  if (!isFine)
    return selected;
  for (const backend::Target *target : targets) {
    const size_t before = selected.size();
    for (llvm::StringRef arch : archs)
      if (llvm::is_contained(target->archs(), arch))
        selected.push_back({target, arch.str(), areMapped, splitsSums,
                            machineFor(session.options, *target, arch)});
    if (selected.size() == before) {
      const llvm::StringRef arch = target->archs().empty() ? "" : target->archs().front();
      selected.push_back(
          {target, arch.str(), areMapped, splitsSums, machineFor(session.options, *target, arch)});
    }
  }
  return checkMachine(session, selected) ? selected : std::vector<TargetArch>();
}

const TargetFacts *machineFor(const Options &options, const backend::Target &target,
                              llvm::StringRef arch) {
  const TargetFacts *facts = target.facts(arch);
  const TargetFacts *machine = options.machine.get();
  return machine && facts && machine->sharesCode(*facts) ? machine : nullptr;
}

bool checkMachine(Session &session, llvm::ArrayRef<TargetArch> targets) {
  const TargetFacts *machine = session.options.machine.get();
  // Nothing about processors is predicted.
  const auto isUsed = [&](const TargetArch &one) {
    return one.machine || (!one.facts() && machine->name == one.target->name());
  };
  if (!machine || llvm::any_of(targets, isUsed))
    return true;
  std::vector<std::string> names;
  for (const TargetArch &one : targets)
    names.push_back(one.target->name().str() + (one.arch.empty() ? "" : " " + one.arch));
  session.diagnostics.report(SourceLoc{}, diag::machine_of_others, machine->name,
                             llvm::join(names, ", "));
  return false;
}

std::optional<Assembly> assemblyOfMachine(llvm::StringRef machine) {
  for (const backend::Target *target : backend::allTargets()) {
    const bool isProcessor = target->archs().empty() && target->name() == machine;
    const bool isDevice = llvm::any_of(target->archs(), [&](llvm::StringRef arch) {
      const TargetFacts *facts = target->facts(arch);
      return facts && facts->name == machine;
    });
    if (isProcessor || isDevice)
      return target->assembly();
  }
  return std::nullopt;
}

backend::TargetOptions targetOptions(const Options &options, const TargetArch &target) {
  backend::TargetOptions made;
  made.cpu = options.cpu;
  made.arch = target.arch;
  made.machine = target.machine;
  made.shmem = options.shmem;
  made.shmemPath = options.shmemPath;
  made.optLevel = unsigned(options.optLevel);
  made.assemble = options.assemble;
  made.isTraced = options.isTraced;
  made.isBatchInvariant = options.batchInvariant;
  made.prints = options.prints;
  return made;
}

std::unique_ptr<ir::Module> prepareFor(Diagnostics &diagnostics, ir::Module &module,
                                       const TargetArch &target,
                                       std::vector<passes::Remark> *remarks,
                                       std::vector<passes::Remark> *losses) {
  PhaseScope phase("running a target's passes");
  std::unique_ptr<ir::Module> copy = ir::cloneModule(module);
  const TargetFacts *machine = target.facts();
  // Processors need no passes of their own, but for instructions that programs give.
  std::string passNames = machine ? passes::devicePipelineText(*machine, target.areMapped)
                                  : std::string("select-instructions");
  if (!target.splitsSums)
    passNames = without(passNames, "split-sums");
  auto pipeline = passes::parsePipeline(passNames, passes::allPasses(), diagnostics);
  if (!pipeline)
    return nullptr;
  passes::PassContext context(diagnostics);
  context.facts = machine;
  context.assembly = target.target->assembly();
  context.areMapped = target.areMapped;
  passes::PassManager manager({});
  if (!manager.run(*copy, *pipeline, context))
    return nullptr;
  if (remarks)
    *remarks = std::move(context.remarks);
  if (losses)
    *losses = std::move(context.losses);
  return copy;
}

} // namespace dtile::driver
