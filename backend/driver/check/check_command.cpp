// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec check`: every check that there is, nothing written.
#include "backend/driver/check/check_kernels.h"
#include "backend/driver/check/determinism.h"
#include "backend/driver/compile.h"

#include "frontend/ast/ast_printer.h"
#include "frontend/base/check.h"
#include "frontend/parse/parser.h"
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

/// What a verdict is about, where a kernel has compile-time parameters: those of `instance`.
/// `more` says with which other values it is the same, or is not.
std::string valuesText(const CheckedKernel &checked, const sema::KernelInstance &instance,
                       const std::string &more) {
  std::string standIns, others;
  for (auto [generic, value] : llvm::zip_equal(instance.decl->generics, instance.generics)) {
    std::string &list = checked.standIns.count(generic.name.name) ? standIns : others;
    list += (list.empty() ? "  with " : ", ") + generic.name.name.str() + " = " + valueText(value);
  }
  if (!standIns.empty())
    standIns += ", which stand for what the caller chooses\n";
  if (!others.empty())
    others += "; a build checks the values that it is given\n";
  return standIns + others + more;
}

/// Prints what is known of a kernel, with the values of its parameters; false where it stays
/// undecided. `checks` is how it was checked.
bool reportKernel(Session &session, sema::Program &program, const CheckedKernel &checked,
                  const protocol::Verdict &verdict, const protocol::CheckOptions &checks) {
  const OtherValues other =
      checkOtherValues(program, checked, verdict, session.sources, checks, session.diagnostics);
  const protocol::Verdict &known = other.instance ? other.verdict : verdict;
  std::string more;
  if (other.instance)
    more = (known.isFine ? "  proved with " : "  not refused with ") +
           choicesText(program, checked, *checked.instance) + "\n";
  else
    for (const std::string &values : other.alsoWith)
      more += "  also with " + values + "\n";
  llvm::outs() << protocol::verdictText(known)
               << valuesText(checked, other.instance ? *other.instance : *checked.instance, more);
  llvm::outs().flush();
  reportVerdict(session.diagnostics, known);
  if (session.options.diagnosticForm == DiagnosticForm::Text)
    session.flush();
  return known.isDecided();
}

/// Whether something stays undecided; errors are reported.
bool checkFile(Session &session, llvm::StringRef path) {
  const auto program = analyzeFile(session, path);
  if (!program || !checkConstants(session, *program))
    return false;
  bool isUndecided = false;
  std::vector<const sema::KernelInstance *> instances;
  std::map<std::string, CheckedKernel> byName;
  for (const ast::KernelDecl *kernel : program->kernels()) {
    if (!session.options.kernel.empty() && kernel->name.name != session.options.kernel)
      continue;
    if (hasAllValues(session, *kernel)) {
      for (const sema::KernelInstance *instance : instantiateKernels(session, *program, {kernel})) {
        instances.push_back(instance);
        byName[instance->name] = {instance, constantsFor(session, *kernel), {}};
      }
      continue;
    }
    const CheckedKernel checked =
        instantiateAlone(*program, *kernel, constantsFor(session, *kernel), session.sources);
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
  const LoweredModule lowered = lowerKernels(session, *program, instances);
  if (session.options.deterministic && !checkDeterminism(session, *lowered.module))
    return false;
  protocol::CheckOptions checks;
  if (!session.options.ranks.empty()) {
    checks.ranks = session.options.ranks;
    checks.areRanksGiven = true;
    // Who asks for many ranks waits for them.
    checks.work *= 4;
  }
  checks.machine = session.options.machine.get();
  const auto verdicts = checkInstances(*lowered.module, *program, instances, session.sources,
                                       checks, session.diagnostics);
  if (!verdicts)
    return false;
  // Each verdict is followed by what it leaves open; JSON is one array.
  if (session.options.diagnosticForm == DiagnosticForm::Text)
    session.flush();
  for (const protocol::Verdict &verdict : *verdicts)
    isUndecided |= !reportKernel(session, *program, byName.at(verdict.kernel), verdict, checks);
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
