// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds scheduling passes to the checker: none may change what it says of a program.
//
//   check-schedules [-I DIR] [-v] FILE.dtile…
//
// Each program is lowered and brought into the form that scheduling starts from; then the passes of
// kind Schedule in passes.def run on it one after the other, those of the highest level in their
// order first, and the checker after each pass that has changed the program: of the same text it
// says the same. Programs that the front end refuses are left out.
#include "frontend/base/check.h"
#include "ir/core/text_format.h"
#include "ir/from_ast/lower.h"
#include "ir/protocol/check/check_protocol.h"
#include "ir/transform/pipelines.h"
#include "sema/sema.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <set>

namespace dtile::tools {
namespace {

/// What the checker says of each kernel: nothing, or the codes of what is wrong.
using Verdicts = std::map<std::string, std::string>;

struct Plan {
  /// Before anything is scheduled, and the passes that schedule.
  passes::Pipeline prepare;
  std::vector<passes::PassStep> schedules;
};

Plan makePlan(Diagnostics &diagnostics) {
  auto pipeline = passes::parsePipeline(passes::pipelineText(passes::OptLevel::O2),
                                        passes::allPasses(), diagnostics);
  DTILE_CHECK(pipeline, "the highest level has no pipeline");
  Plan plan;
  std::set<std::string> seen;
  const auto add = [&](const passes::PassStep &step) {
    if (seen.insert(step.pass->name.str()).second)
      plan.schedules.push_back(step);
  };
  for (const passes::PassStep &step : *pipeline)
    if (step.pass->kind == passes::PassKind::Schedule)
      add(step);
    else if (plan.schedules.empty())
      plan.prepare.push_back(step);
  for (const passes::PassInfo &pass : passes::allPasses())
    if (pass.kind == passes::PassKind::Schedule)
      add({&pass, {}});
  return plan;
}

bool runPasses(ir::Module &module, const passes::Pipeline &pipeline, Diagnostics &diagnostics) {
  passes::PassContext context(diagnostics);
  return passes::PassManager({}).run(module, pipeline, context);
}

std::string textOf(ir::Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  ir::print(module, os);
  return text;
}

Verdicts check(ir::Module &module, SourceManager &sources) {
  Verdicts verdicts;
  protocol::CheckOptions options;
  options.ranks = {1, 2, 3, 4};
  options.areRanksGiven = true;
  options.isQuick = true;
  Diagnostics diagnostics(sources);
  for (const protocol::Verdict &verdict : protocol::checkProtocol(module, options, diagnostics))
    verdicts[verdict.kernel] = verdict.isFine ? "fine" : "refused";
  // One kernel a program, so that what is wrong is wrong with that.
  std::set<std::string> codes;
  for (const Diagnostic &diagnostic : diagnostics.all())
    if (diagnostic.severity == Severity::Error)
      codes.insert(std::string(diagInfo(diagnostic.id).code));
  for (auto &[kernel, text] : verdicts)
    if (text == "refused")
      for (const std::string &code : codes)
        text += " " + code;
  return verdicts;
}

class Comparison {
public:
  Comparison(std::vector<std::string> folders, bool isVerbose)
      : folders_(std::move(folders)), isVerbose_(isVerbose) {}
  void add(const std::string &path);
  int finish();

private:
  std::vector<std::string> folders_;
  bool isVerbose_;
  unsigned checked_ = 0;
  unsigned leftOut_ = 0;
  unsigned changed_ = 0;
  /// Of how many programs each pass made others.
  std::map<std::string, unsigned> changes_;
};

void Comparison::add(const std::string &path) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  ir::Module module(types);
  module.setSources(&sources);
  auto file = sources.load(path);
  if (!file) {
    llvm::errs() << llvm::toString(file.takeError()) << '\n';
    ++changed_;
    return;
  }
  sema::Options options;
  options.importPaths = folders_;
  auto program = sema::Program::analyze(*file, sources, diagnostics, options);
  std::vector<const sema::KernelInstance *> instances;
  for (const ast::KernelDecl *kernel : program->kernels())
    if (!diagnostics.hasErrors())
      if (const auto *instance = program->instantiate(kernel, {}, {}, diagnostics))
        instances.push_back(instance);
  if (diagnostics.hasErrors()) {
    ++leftOut_;
    return;
  }
  for (const sema::FnInstance *function : program->functions(instances))
    ir::lowerFunction(*function, module);
  for (const sema::KernelInstance *instance : instances)
    ir::lowerKernel(*instance, module);
  const Plan plan = makePlan(diagnostics);
  if (!runPasses(module, plan.prepare, diagnostics)) {
    ++leftOut_;
    return;
  }
  ++checked_;
  const Verdicts before = check(module, sources);
  std::string text = textOf(module);
  for (const passes::PassStep &step : plan.schedules) {
    if (!runPasses(module, {step}, diagnostics)) {
      llvm::outs() << path << ": " << step.pass->name << " fails\n";
      ++changed_;
      return;
    }
    std::string now = textOf(module);
    if (now == text)
      continue;
    text = std::move(now);
    ++changes_[step.pass->name.str()];
    const Verdicts after = check(module, sources);
    for (const auto &[kernel, verdict] : before) {
      const auto it = after.find(kernel);
      const std::string later = it == after.end() ? "gone" : it->second;
      if (isVerbose_ || later != verdict)
        llvm::outs() << path << ", " << kernel << ": " << verdict << ", after " << step.pass->name
                     << ": " << later << '\n';
      changed_ += later != verdict;
    }
  }
}

int Comparison::finish() {
  for (const auto &[pass, programs] : changes_)
    llvm::outs() << pass << ": " << programs << " programs changed\n";
  llvm::outs() << checked_ << " programs, " << leftOut_ << " left out, " << changed_
               << " verdicts changed\n";
  return changed_ == 0 && checked_ != 0 ? 0 : 1;
}

int run(llvm::ArrayRef<const char *> args) {
  std::vector<std::string> folders;
  std::vector<std::string> files;
  bool isVerbose = false;
  for (size_t i = 1; i < args.size(); ++i) {
    const llvm::StringRef arg = args[i];
    if (arg == "-I" && i + 1 < args.size())
      folders.emplace_back(args[++i]);
    else if (arg == "-v")
      isVerbose = true;
    else
      files.push_back(arg.str());
  }
  if (files.empty()) {
    llvm::errs() << "check-schedules [-I DIR] [-v] FILE.dtile...\n";
    return 2;
  }
  Comparison comparison(folders, isVerbose);
  for (const std::string &path : files)
    comparison.add(path);
  return comparison.finish();
}

} // namespace
} // namespace dtile::tools

int main(int argc, char **argv) {
  return dtile::tools::run({const_cast<const char **>(argv), size_t(argc)});
}
