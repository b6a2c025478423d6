// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes one mistake after the other in right programs, and compares what the checker says with what
// happens when the kernel runs in many schedules, with transfers landing late: a confusion matrix.
//
//   checker_mutation [-I DIR] [-v] [OPTION…] FILE.dtile…
//
//   --proved          only mutants that the checker has proved are run
//   --pairs N         besides, N mutants of each kernel with two mistakes, chosen by the seed
//   --seed S          schedules and pairs; 1 where none is given
//   --steps N         steps of the interpreter for each mutant that is accepted, beyond 3 schedules
//                     of few ranks; 1,000,000 where none are given
//   --results FILE    appends a line of JSON for each mutant, and leaves out those that it has
//   --seconds N       begins no mutant after so many
//   --const NAME=N    of kernels with such a constant; sizes must fit an interpreter's memory
//
// A mutant that hangs or traps, or whose results depend on the schedule, must be refused. One whose
// results are the same in every schedule, and wrong, is not the checker's to see, but it may be.
// One that is refused although every schedule gave the right results is listed: the emulation does
// not show races between launches, nor with the caller.
#include "checker_mutants.h"
#include "checker_results.h"
#include "checker_runs.h"

#include "frontend/base/check.h"
#include "ir/core/text_format.h"
#include "ir/from_ast/lower.h"
#include "ir/protocol/check/check_protocol.h"
#include "ir/transform/pipelines.h"
#include "sema/sema.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

#include <chrono>
#include <random>
#include <set>

namespace dtile::bench {
namespace {

using ir::Op;
using ir::OpKind;

/// Schedules of few ranks and sizes for a mutant, and for a program as it stands.
constexpr unsigned kRounds = 3;
constexpr unsigned kRoundsOfRight = 12;

struct Options {
  bool isVerbose = false;
  bool isProvedOnly = false;
  uint64_t pairs = 0;
  uint64_t seed = 1;
  uint64_t steps = 1'000'000;
  uint64_t seconds = 0;
  std::string results;
  std::vector<std::string> folders;
  std::vector<std::pair<std::string, int64_t>> constants;
  std::vector<std::string> files;
};

/// A program's text before its counts are derived.
struct Input {
  std::string name;
  std::string text;
};

std::unique_ptr<ir::Module> parse(const Input &input, SourceManager &sources,
                                  ir::TypeContext &types, Diagnostics &diagnostics) {
  return ir::parseModule(sources.add(input.name, input.text), sources, types, diagnostics);
}

bool runPasses(ir::Module &module, llvm::StringRef passes, Diagnostics &diagnostics) {
  auto pipeline = passes::parsePipeline(passes, passes::allPasses(), diagnostics);
  passes::PassContext context(diagnostics);
  return pipeline && passes::PassManager({}).run(module, *pipeline, context);
}

constexpr llvm::StringLiteral kBefore = "inline,canonicalize,cse,dce";
constexpr llvm::StringLiteral kAfter = "derive-counts,bound-drift,canonicalize,cse,dce";

uint64_t hashOf(ir::Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  ir::print(module, os);
  return llvm::xxh3_64bits(text);
}

/// What the checker says of one kernel, with little work beside a proof: the schedules are there to
/// contradict it.
Verdict judge(ir::Module &module, const std::string &kernel, Diagnostics &diagnostics) {
  protocol::CheckOptions options;
  options.isQuick = true;
  for (const protocol::Verdict &verdict : protocol::checkProtocol(module, options, diagnostics))
    if (verdict.kernel == kernel)
      return !verdict.isFine       ? Verdict::Refused
             : verdict.isProved    ? Verdict::Proved
             : verdict.isDecided() ? Verdict::Checked
                                   : Verdict::Undecided;
  return Verdict::Refused;
}

/// Compares verdicts for all mutants of a program's kernels.
class Comparison {
public:
  explicit Comparison(const Options &options)
      : options_(options), results_(options.results),
        end_(std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds)) {}
  void add(const Input &input);
  [[nodiscard]] const Results &results() const { return results_; }

private:
  void addKernel(const Input &input, const std::string &kernel);
  void addMutant(Result result, llvm::ArrayRef<Mutation> mutations,
                 const std::vector<std::string> &right);
  std::vector<std::vector<Mutation>> choose(const std::vector<Mutation> &single) const;
  [[nodiscard]] bool isOver() const {
    return options_.seconds != 0 && std::chrono::steady_clock::now() >= end_;
  }

  const Options &options_;
  Results results_;
  std::chrono::steady_clock::time_point end_;
  const Input *input_ = nullptr;
  /// Kernels that were there before: what mistakes make of one another is looked at once.
  std::set<uint64_t> seen_;
};

void Comparison::addMutant(Result result, llvm::ArrayRef<Mutation> mutations,
                           const std::vector<std::string> &right) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  auto module = parse(*input_, sources, types, diagnostics);
  DTILE_CHECK(module, "what was printed does not parse");
  Op &op = *module->lookup(result.kernel);
  if (!mutate(op, mutations) || !ir::verify(*module).empty() ||
      !runPasses(*module, kAfter, diagnostics))
    return results_.add(std::move(result));
  result.program = hashOf(*module);
  if (!seen_.insert(result.program).second) {
    result.isSame = true;
    return results_.add(std::move(result));
  }
  const auto begin = std::chrono::steady_clock::now();
  result.verdict = judge(*module, result.kernel, diagnostics);
  result.checkSeconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const Diagnostic &diagnostic : diagnostics.all())
    if (result.message.empty())
      result.message = diagnostic.message;
  if (options_.isProvedOnly && result.verdict != Verdict::Proved)
    return;
  ScheduleRuns runs(*module, op, options_.seed);
  runs.runFew(kRounds);
  if (!runs.isUnsafe() && result.verdict != Verdict::Refused)
    runs.runAdversarial(options_.steps);
  result.truth = runs.isUnsafe()            ? Truth::Unsafe
                 : runs.outcomes() == right ? Truth::Right
                                            : Truth::WrongAlways;
  result.runs = runs.runs();
  result.evidence = runs.evidence();
  if (options_.isVerbose && result.isStrange()) {
    llvm::outs() << toJson(result) << '\n';
    for (const Diagnostic &diagnostic : diagnostics.all())
      llvm::outs() << "    " << diagnostic.message << '\n';
  }
  results_.add(std::move(result));
}

/// One mistake each, and pairs of them that the seed chooses.
std::vector<std::vector<Mutation>> Comparison::choose(const std::vector<Mutation> &single) const {
  std::vector<std::vector<Mutation>> all;
  for (const Mutation &mutation : single)
    all.push_back({mutation});
  std::mt19937_64 random(options_.seed);
  for (uint64_t i = 0; i < options_.pairs && single.size() > 1; ++i) {
    const Mutation &first = single[random() % single.size()];
    const Mutation &second = single[random() % single.size()];
    if (first.op != second.op)
      all.push_back({first, second});
  }
  return all;
}

void Comparison::addKernel(const Input &input, const std::string &kernel) {
  input_ = &input;
  SourceManager sources;
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  auto module = parse(input, sources, types, diagnostics);
  Op &op = *module->lookup(kernel);
  const std::vector<Mutation> mutations = mutationsOf(op);
  if (!runPasses(*module, kAfter, diagnostics))
    return;
  Result base;
  base.file = input.name;
  base.kernel = kernel;
  ScheduleRuns runs(*module, op, options_.seed);
  runs.runFew(kRoundsOfRight);
  if (!runs.hasElements() || runs.runs() == 0) {
    llvm::outs() << input.name << ", " << kernel << ": no "
                 << (runs.hasElements() ? "launch of it fits a run (--const)"
                                        : "elements are known for it")
                 << ", left out\n";
    return;
  }
  if (!runs.isUnsafe())
    runs.runAdversarial(options_.steps);
  base.verdict = judge(*module, kernel, diagnostics);
  base.truth = runs.isUnsafe() ? Truth::Unsafe : Truth::Right;
  base.evidence = runs.evidence();
  base.runs = runs.runs();
  const bool isLeftOut = base.truth == Truth::Unsafe || base.verdict == Verdict::Refused;
  if (isLeftOut)
    llvm::outs() << "as it stands: " << toJson(base) << '\n';
  results_.add(base);
  if (isLeftOut)
    return;
  seen_ = results_.programsOf(base);
  seen_.insert(hashOf(*module));
  const std::vector<std::vector<Mutation>> chosen = choose(mutations);
  llvm::outs() << input.name << ", " << kernel << ": " << chosen.size() << " mutants\n";
  for (const std::vector<Mutation> &some : chosen) {
    Result result;
    result.file = input.name;
    result.kernel = kernel;
    for (const Mutation &mutation : some) {
      result.mutations.push_back(mutationText(mutation));
      result.kinds.push_back(mutationId(mutation.kind));
    }
    if (results_.has(result))
      continue;
    if (isOver())
      return;
    addMutant(std::move(result), some, runs.outcomes());
  }
}

void Comparison::add(const Input &input) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  auto module = parse(input, sources, types, diagnostics);
  DTILE_CHECK(module, "what was printed does not parse");
  for (Op &op : module->body().ops())
    if (op.is(OpKind::Kernel) && !isOver())
      addKernel(input, op.get(ir::attr::name).str());
}

/// Those of the constants that are given which the kernel has.
sema::GenericArgs constantsOf(const ast::KernelDecl &kernel, const Options &options) {
  sema::GenericArgs args;
  for (const auto &[name, value] : options.constants)
    if (llvm::any_of(kernel.generics, [&name = name](const ast::GenericParam &generic) {
          return generic.name.name == name;
        }))
      args.named.emplace_back(
          name, sema::GenericValue{.kind = sema::GenericValue::Kind::Int, .intValue = value});
  return args;
}

bool readInput(const std::string &path, const Options &given, Input &input) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  ir::Module module(types);
  auto file = sources.load(path);
  if (!file) {
    llvm::errs() << llvm::toString(file.takeError()) << '\n';
    return false;
  }
  sema::Options options;
  options.importPaths = given.folders;
  auto program = sema::Program::analyze(*file, sources, diagnostics, options);
  if (program && !diagnostics.hasErrors()) {
    std::vector<const sema::KernelInstance *> instances;
    for (const ast::KernelDecl *kernel : program->kernels())
      if (const auto *instance =
              program->instantiate(kernel, constantsOf(*kernel, given), {}, diagnostics))
        instances.push_back(instance);
    for (const sema::FnInstance *function : program->functions(instances))
      ir::lowerFunction(*function, module);
    for (const sema::KernelInstance *instance : instances)
      ir::lowerKernel(*instance, module);
  }
  if (diagnostics.hasErrors() || !runPasses(module, kBefore, diagnostics)) {
    printDiagnostics(diagnostics, DiagnosticForm::Text, ColorMode::Never, llvm::errs());
    return false;
  }
  input.name = path;
  llvm::raw_string_ostream os(input.text);
  ir::print(module, os);
  return true;
}

/// False where the arguments are not as the head of this file says.
bool readOptions(llvm::ArrayRef<const char *> args, Options &options) {
  const std::pair<llvm::StringRef, uint64_t *> numbers[] = {{"--pairs", &options.pairs},
                                                            {"--seed", &options.seed},
                                                            {"--steps", &options.steps},
                                                            {"--seconds", &options.seconds}};
  for (size_t i = 1; i < args.size(); ++i) {
    const llvm::StringRef arg = args[i];
    const auto *number =
        llvm::find_if(numbers, [&](const auto &known) { return known.first == arg; });
    const bool hasValue = i + 1 < args.size();
    if (number != std::end(numbers)) {
      if (!hasValue || !llvm::to_integer(args[++i], *number->second))
        return false;
    } else if (arg == "-I" && hasValue) {
      options.folders.emplace_back(args[++i]);
    } else if (arg == "--const" && hasValue) {
      const auto [name, value] = llvm::StringRef(args[++i]).split('=');
      if (!llvm::to_integer(value, options.constants.emplace_back(name.str(), 0).second))
        return false;
    } else if (arg == "--results" && hasValue) {
      options.results = args[++i];
    } else if (arg == "-v") {
      options.isVerbose = true;
    } else if (arg == "--proved") {
      options.isProvedOnly = true;
    } else if (arg.starts_with("-")) {
      return false;
    } else {
      options.files.push_back(arg.str());
    }
  }
  return !options.files.empty();
}

int run(llvm::ArrayRef<const char *> args) {
  Options options;
  if (!readOptions(args, options)) {
    llvm::errs() << "checker_mutation [-I DIR] [-v] [--proved] [--pairs N] [--seed S] [--steps N]\n"
                    "                 [--results FILE] [--seconds N] [--const NAME=N] "
                    "FILE.dtile...\n";
    return 2;
  }
  llvm::outs() << "seed " << options.seed << '\n';
  Comparison comparison(options);
  for (const std::string &path : options.files) {
    Input input;
    if (readInput(path, options, input))
      comparison.add(input);
    else
      llvm::outs() << path << ": cannot be lowered as it stands, left out\n";
  }
  comparison.results().print(llvm::outs());
  return comparison.results().hasFailed() ? 1 : 0;
}

} // namespace
} // namespace dtile::bench

int main(int argc, char **argv) {
  return dtile::bench::run({const_cast<const char **>(argv), size_t(argc)});
}
