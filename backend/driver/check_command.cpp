// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec check`: every check that there is, nothing written.
#include "backend/driver/compile.h"
#include "backend/driver/promises.h"
#include "backend/driver/signal_fix.h"

#include "frontend/ast/ast_printer.h"
#include "frontend/parse/parser.h"
#include "ir/core/builder.h"
#include "ir/protocol/check_protocol.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace dtile::driver {

namespace {

void dumpAst(Session &session, llvm::StringRef path) {
  std::optional<FileId> file = session.load(path);
  if (!file)
    return;
  ast::Arena arena;
  const ast::Module *module = parse::parse(*file, session.sources, arena, session.diagnostics);
  ast::printAst(*module, llvm::outs());
}

/// A kernel to check, with what stands in for values that only a caller knows.
struct Checked {
  const sema::KernelInstance *instance = nullptr;
  std::string standIns;
};

/// A kernel that needs values from its caller, with stand-ins: the first that it takes.
Checked instantiateAlone(Session &session, sema::Program &program, const ast::KernelDecl &kernel) {
  constexpr int64_t kSizes[] = {16, 128, 1024, 1};
  for (const int64_t size : kSizes) {
    sema::GenericArgs args = constantsFor(session, kernel);
    std::string text;
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
      text += (text.empty() ? "" : ", ") + name.str() + " = " +
              (type == "dtype"  ? "f32"
               : type == "bool" ? "true"
                                : std::to_string(size));
    }
    Diagnostics attempt(session.sources);
    if (const sema::KernelInstance *instance =
            program.instantiate(&kernel, args, kernel.name.range, attempt))
      return {instance, text};
  }
  return {};
}

void checkFile(Session &session, llvm::StringRef path) {
  const auto program = analyzeFile(session, path);
  if (!program || !checkConstants(session, *program))
    return;
  std::vector<const sema::KernelInstance *> instances;
  std::map<std::string, std::string> standIns;
  for (const ast::KernelDecl *kernel : program->kernels()) {
    if (hasAllValues(session, *kernel)) {
      llvm::append_range(instances, instantiateKernels(session, *program, {kernel}));
      continue;
    }
    const Checked checked = instantiateAlone(session, *program, *kernel);
    if (!checked.instance) {
      llvm::outs() << '`' << kernel->name.name
                   << "`: not checked: it needs values of its generics, --const NAME=VALUE\n";
      continue;
    }
    instances.push_back(checked.instance);
    standIns[checked.instance->name] = checked.standIns;
  }
  if (instances.empty() || session.diagnostics.hasErrors())
    return;
  LoweredModule lowered = lowerKernels(session, *program, instances);
  // Room is asked for as a build without further options schedules it; the rest as it is written.
  const std::unique_ptr<ir::Module> scheduled = ir::cloneModule(*lowered.module);
  passes::PassContext context(session.diagnostics);
  if (!runPipeline(*scheduled, OptLevel::O2, context) || !optimize(session, lowered, OptLevel::O1))
    return;
  protocol::CheckOptions checks;
  checks.scheduled = scheduled.get();
  if (!session.options.ranks.empty()) {
    checks.ranks = session.options.ranks;
    checks.seconds = 7.0 / double(instances.size());
  }
  checks.promises = promisesOf(instances);
  checks.signalFix = [&](llvm::StringRef kernel, llvm::StringRef object, llvm::StringRef signal,
                         SourceLoc place) -> std::vector<FixIt> {
    for (const sema::KernelInstance *instance : instances)
      if (instance->name == kernel)
        return signalFix(session.sources, *instance->decl, {object.str(), signal.str(), place});
    return {};
  };
  checks.machine = findMachine(session.options.machine);
  for (const protocol::Verdict &verdict :
       protocol::checkProtocol(*lowered.module, checks, session.diagnostics)) {
    llvm::outs() << protocol::verdictText(verdict, &session.sources);
    if (const auto it = standIns.find(verdict.kernel); it != standIns.end())
      llvm::outs() << "  with " << it->second << ", which stand for what the caller chooses\n";
  }
}

} // namespace

ExitCode runCheck(const Options &options) {
  Session session(options);
  for (const std::string &path : options.inputs)
    options.dumpAst ? dumpAst(session, path) : checkFile(session, path);
  return session.finish();
}

} // namespace dtile::driver
