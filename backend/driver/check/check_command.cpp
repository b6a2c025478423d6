// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec check`: every check that there is, nothing written.
#include "backend/driver/check/check_kernels.h"
#include "backend/driver/check/determinism.h"
#include "backend/driver/compile.h"

#include "frontend/ast/ast_printer.h"
#include "frontend/base/check.h"
#include "frontend/base/parallel.h"
#include "frontend/parse/parser.h"
#include "ir/protocol/check/check_protocol.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <memory>
#include <mutex>
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

/// A kernel on its way to its verdict. What is found with the first values of its choices, and with
/// others, is kept apart: messages of the first kind come before all verdicts.
struct Work {
  const CheckedKernel *kernel = nullptr;
  LoweredModule lowered;
  Diagnostics diagnostics;
  /// Nothing where passes have refused it.
  std::optional<protocol::Verdict> verdict;
  Diagnostics othersDiagnostics;
  OtherValues other;
};

/// Checks kernels side by side: none knows of another, and a budget is steps, so that neither
/// verdicts nor messages depend on it.
void checkAll(sema::Program &program, std::vector<std::unique_ptr<Work>> &all,
              const SourceManager &sources, const protocol::CheckOptions &checks) {
  std::mutex programIsInUse;
  std::vector<std::unique_ptr<OtherValuesCheck>> others;
  for (const auto &work : all)
    others.push_back(std::make_unique<OtherValuesCheck>(program, *work->kernel, sources, checks,
                                                        programIsInUse));
  inParallel(2 * all.size(), [&](size_t i) {
    if (i >= all.size())
      return others[i - all.size()]->begin();
    Work &work = *all[i];
    work.verdict =
        checkInstance(work.lowered, *work.kernel->instance, sources, checks, work.diagnostics);
  });
  inParallel(all.size(), [&](size_t i) {
    Work &work = *all[i];
    if (work.verdict)
      work.other = others[i]->finish(*work.verdict, work.othersDiagnostics);
  });
}

/// Prints what is known of a kernel, with the values of its parameters; false where it stays
/// undecided.
bool reportKernel(Session &session, sema::Program &program, const Work &work) {
  const CheckedKernel &checked = *work.kernel;
  const OtherValues &other = work.other;
  session.diagnostics.append(work.othersDiagnostics);
  const protocol::Verdict &known = other.instance ? other.verdict : *work.verdict;
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

/// The kernels of a file that are asked for.
std::vector<const ast::KernelDecl *> askedKernels(const Session &session,
                                                  const sema::Program &program) {
  const std::string &wanted = session.options.kernel;
  if (wanted.empty())
    return {program.kernels().begin(), program.kernels().end()};
  const ast::KernelDecl *kernel = program.findKernel(wanted);
  return kernel ? alternativesOf(session, program, *kernel)
                : std::vector<const ast::KernelDecl *>();
}

/// What becomes of several files.
struct CheckedFiles {
  bool isUndecided = false;
  /// Of the kernel that is asked for, whether one has it; and those that there are.
  bool isFound = false;
  std::vector<std::string> names;
};

/// Whether something stays undecided; errors are reported.
bool checkFile(Session &session, llvm::StringRef path, CheckedFiles &files) {
  const auto program = analyzeFile(session, path);
  if (!program) {
    // It may be there.
    files.isFound = true;
    return false;
  }
  const std::vector<const ast::KernelDecl *> asked = askedKernels(session, *program);
  files.isFound |= !asked.empty();
  for (const ast::KernelDecl *kernel : program->kernels())
    files.names.push_back("`" + kernel->name.name.str() + "`");
  if (asked.empty() || !checkConstants(session, *program))
    return false;
  bool isUndecided = false;
  std::vector<const sema::KernelInstance *> instances;
  std::map<std::string, CheckedKernel> byName;
  for (const ast::KernelDecl *kernel : asked) {
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
  std::vector<std::unique_ptr<Work>> all;
  bool isDeterministic = true;
  for (const sema::KernelInstance *instance : instances) {
    all.push_back(std::make_unique<Work>(
        Work{.kernel = &byName.at(instance->name),
             .lowered = lowerInstances(session.sources, *program, {instance}),
             .diagnostics = Diagnostics(session.sources),
             .verdict = {},
             .othersDiagnostics = Diagnostics(session.sources),
             .other = {}}));
    if (session.options.deterministic)
      isDeterministic &= checkDeterminism(session, *all.back()->lowered.module);
  }
  if (!isDeterministic)
    return false;
  protocol::CheckOptions checks;
  if (!session.options.ranks.empty()) {
    checks.ranks = session.options.ranks;
    checks.areRanksGiven = true;
    // Who asks for many ranks waits for them.
    checks.work *= 4;
  }
  checks.machine = session.options.machine.get();
  checkAll(*program, all, session.sources, checks);
  const bool areRefused = llvm::any_of(all, [](const auto &work) { return !work->verdict; });
  for (const auto &work : all)
    if (!areRefused || !work->verdict)
      session.diagnostics.append(work->diagnostics);
  if (areRefused)
    return false;
  // Each verdict is followed by what it leaves open; JSON is one array.
  if (session.options.diagnosticForm == DiagnosticForm::Text)
    session.flush();
  for (const auto &work : all)
    isUndecided |= !reportKernel(session, *program, *work);
  return isUndecided;
}

} // namespace

ExitCode runCheck(const Options &options) {
  Session session(options);
  std::vector<std::string> files;
  for (const std::string &path : options.inputs)
    collectFiles(session, path, files);
  CheckedFiles checked;
  for (const std::string &path : files)
    if (options.dumpAst)
      dumpAst(session, path);
    else
      checked.isUndecided |= checkFile(session, path, checked);
  if (!options.kernel.empty() && !checked.isFound && !options.dumpAst)
    session.diagnostics.report(SourceLoc{}, diag::unknown_kernel, options.kernel,
                               checked.names.empty() ? "none" : llvm::join(checked.names, ", "));
  const ExitCode code = session.finish();
  return code == ExitCode::Ok && checked.isUndecided ? ExitCode::Undecided : code;
}

} // namespace dtile::driver
