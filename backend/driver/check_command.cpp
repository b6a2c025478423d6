// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec check`: every check that there is, nothing written.
#include "backend/driver/compile.h"
#include "backend/driver/promises.h"
#include "backend/driver/signal_fix.h"

#include "frontend/ast/ast_printer.h"
#include "frontend/base/check.h"
#include "frontend/parse/parser.h"
#include "ir/core/builder.h"
#include "ir/protocol/check/check_protocol.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <set>

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

/// A kernel to check; which of its values stand for what only a caller knows.
struct Checked {
  const sema::KernelInstance *instance = nullptr;
  std::set<llvm::StringRef> standIns;
};

/// A kernel that needs values from its caller, with stand-ins: the first that it takes.
Checked instantiateAlone(Session &session, sema::Program &program, const ast::KernelDecl &kernel) {
  constexpr int64_t kSizes[] = {16, 128, 1024, 1};
  for (const int64_t size : kSizes) {
    sema::GenericArgs args = constantsFor(session, kernel);
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
    Diagnostics attempt(session.sources);
    if (const sema::KernelInstance *instance =
            program.instantiate(&kernel, args, kernel.name.range, attempt))
      return {instance, std::move(standIns)};
  }
  return {};
}

std::string valueText(const sema::GenericValue &value) {
  switch (value.kind) {
  case sema::GenericValue::Kind::DType:
    return dtypeName(value.dtype).str();
  case sema::GenericValue::Kind::Bool:
    return value.intValue != 0 ? "true" : "false";
  case sema::GenericValue::Kind::Shape:
    DTILE_UNREACHABLE("kernels have no shapes as parameters");
  case sema::GenericValue::Kind::Int:
    return std::to_string(value.intValue);
  }
  DTILE_UNREACHABLE("a value has a kind");
}

/// What a verdict is about, where a kernel has compile-time parameters.
std::string valuesText(const Checked &checked) {
  std::string standIns, others;
  for (auto [generic, value] :
       llvm::zip_equal(checked.instance->decl->generics, checked.instance->generics)) {
    std::string &list = checked.standIns.count(generic.name.name) ? standIns : others;
    list += (list.empty() ? "  with " : ", ") + generic.name.name.str() + " = " + valueText(value);
  }
  if (!standIns.empty())
    standIns += ", which stand for what the caller chooses\n";
  if (!others.empty())
    others += "; a build checks the values that it is given\n";
  return standIns + others;
}

/// Whether something stays undecided; errors are reported.
bool checkFile(Session &session, llvm::StringRef path) {
  const auto program = analyzeFile(session, path);
  if (!program || !checkConstants(session, *program))
    return false;
  bool isUndecided = false;
  std::vector<const sema::KernelInstance *> instances;
  std::map<std::string, Checked> byName;
  for (const ast::KernelDecl *kernel : program->kernels()) {
    if (!session.options.kernel.empty() && kernel->name.name != session.options.kernel)
      continue;
    if (hasAllValues(session, *kernel)) {
      for (const sema::KernelInstance *instance : instantiateKernels(session, *program, {kernel})) {
        instances.push_back(instance);
        byName[instance->name] = {instance, {}};
      }
      continue;
    }
    const Checked checked = instantiateAlone(session, *program, *kernel);
    if (!checked.instance) {
      llvm::outs() << '`' << kernel->name.name
                   << "`: not checked: it needs values of its generics, --const NAME=VALUE\n";
      isUndecided = true;
      continue;
    }
    instances.push_back(checked.instance);
    byName[checked.instance->name] = checked;
  }
  if (instances.empty() || session.diagnostics.hasErrors())
    return isUndecided;
  LoweredModule lowered = lowerKernels(session, *program, instances);
  // Room is asked for as a build without further options schedules it; the rest as it is written.
  const std::unique_ptr<ir::Module> scheduled = ir::cloneModule(*lowered.module);
  passes::PassContext context(session.diagnostics);
  if (!runPipeline(*scheduled, OptLevel::O2, context) || !optimize(session, lowered, OptLevel::O1))
    return false;
  protocol::CheckOptions checks;
  checks.scheduled = scheduled.get();
  if (!session.options.ranks.empty()) {
    checks.ranks = session.options.ranks;
    checks.areRanksGiven = true;
    // Who asks for many ranks waits for them.
    checks.work *= 4;
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
  const std::vector<protocol::Verdict> verdicts =
      protocol::checkProtocol(*lowered.module, checks, session.diagnostics);
  // Each verdict is followed by what it leaves open; JSON is one array.
  const bool isText = session.options.diagnosticForm == DiagnosticForm::Text;
  if (isText)
    session.flush();
  for (const protocol::Verdict &verdict : verdicts) {
    llvm::outs() << protocol::verdictText(verdict, &session.sources);
    if (const auto it = byName.find(verdict.kernel); it != byName.end())
      llvm::outs() << valuesText(it->second);
    llvm::outs().flush();
    reportVerdict(session.diagnostics, verdict);
    if (isText)
      session.flush();
    isUndecided |= !verdict.isDecided();
  }
  return isUndecided;
}

} // namespace

ExitCode runCheck(const Options &options) {
  Session session(options);
  std::vector<std::string> files;
  for (const std::string &path : options.inputs)
    collectFiles(session, path, files);
  bool isUndecided = false;
  for (const std::string &path : files)
    if (options.dumpAst)
      dumpAst(session, path);
    else
      isUndecided |= checkFile(session, path);
  const ExitCode code = session.finish();
  return code == ExitCode::Ok && isUndecided ? ExitCode::Undecided : code;
}

} // namespace dtile::driver
