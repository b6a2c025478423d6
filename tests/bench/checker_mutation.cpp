// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes one mistake after the other in right programs, and compares what the checker says with what
// happens when the kernel runs in many schedules, with transfers landing late: a confusion matrix.
//
//   checker_mutation [-I DIR] [-v] [--proved] FILE.dtile…
//
// With --proved only those mutants are run that the checker has proved: none of them may fail, and
// none may be refused for what a run of the checker has shown.
//
// A mutant that hangs or traps, or whose results depend on the schedule, must be refused. One whose
// results are the same in every schedule, and wrong, is not the checker's to see, but it may be.
// One that is refused although every schedule gave the right results is listed: the emulation does
// not show races between launches, nor with the caller.
#include "checker_mutants.h"

#include "frontend/base/check.h"
#include "ir/core/text_format.h"
#include "ir/from_ast/lower.h"
#include "ir/interpret/control_slice.h"
#include "ir/interpret/interpreter.h"
#include "ir/protocol/check_protocol.h"
#include "ir/protocol/launch_sizes.h"
#include "ir/transform/pipelines.h"
#include "sema/sema.h"

#include <cstring>
#include <map>
#include <random>

namespace dtile::bench {
namespace {

using interpret::Schedule;
using ir::Op;
using ir::OpKind;

/// Schedules of each choice of ranks and sizes.
constexpr unsigned kSeeds = 12;
constexpr unsigned kSeedsOfMany = 4;
constexpr uint64_t kMaxSteps = 4'000'000;
/// Launches back to back: the third is the first to meet the scratch memory of the first again.
constexpr int64_t kLaunches = 4;

enum class Truth : uint8_t { Right, WrongAlways, Unsafe };

/// Arguments of one launch, filled with small integers, and their outputs as bytes.
class Arguments {
public:
  bool make(Op &kernel, const protocol::LaunchSizes &sizes, const protocol::SizeValues &values,
            int ranks, interpret::Machine &machine);
  [[nodiscard]] std::string outputs() const;

  std::vector<std::vector<interpret::Arg>> ofRank;

private:
  std::vector<std::vector<char>> memory_;
  std::vector<std::pair<const char *, size_t>> outputs_;
};

void fill(char *data, DType dtype, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  for (int64_t i = 0; i < count; ++i)
    storeFromDouble(dtype, data + i * int64_t(dtypeBytes(dtype)), double(random() % 4) - 1);
}

bool Arguments::make(Op &kernel, const protocol::LaunchSizes &sizes,
                     const protocol::SizeValues &values, int ranks, interpret::Machine &machine) {
  ofRank.assign(ranks, {});
  std::map<int64_t, Op *> params;
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::ScalarParam) || (op.is(OpKind::Param) && op.strAttr("mode") != "scratch"))
      params[op.intAttr("param")] = &op;
  for (const auto &[position, param] : params) {
    interpret::TensorArg tensor;
    tensor.dtype = param->result()->type().elementOrIndex();
    if (param->is(OpKind::ScalarParam)) {
      for (auto &args : ofRank) {
        storeFromDouble(tensor.dtype, &args.emplace_back().scalarBits, 1);
      }
      continue;
    }
    auto known = sizes.sizesOf(*param, ranks, values);
    if (!known)
      return false;
    tensor.sizes = *known;
    int64_t elements = 1;
    for (int64_t size : *known)
      elements *= size;
    int64_t stride = elements;
    for (int64_t size : *known) {
      stride = size == 0 ? 0 : stride / size;
      tensor.strides.push_back(stride);
    }
    const llvm::StringRef mode = param->strAttr("mode");
    const size_t bytes = size_t(elements) * dtypeBytes(tensor.dtype);
    void *object = mode == "symm" ? machine.symmAlloc(std::max<size_t>(1, bytes)) : nullptr;
    for (int r = 0; r < ranks; ++r) {
      if (object)
        tensor.data = machine.symmAddress(object, r);
      else
        tensor.data = memory_.emplace_back(bytes + 1, char(0xFF)).data();
      auto *data = static_cast<char *>(tensor.data);
      if (mode != "out")
        fill(data, tensor.dtype, elements, uint32_t(100 * position + r));
      if (mode != "in")
        outputs_.emplace_back(data, bytes);
      ofRank[r].push_back({tensor, 0});
    }
  }
  return true;
}

std::string Arguments::outputs() const {
  std::string all;
  for (const auto &[data, bytes] : outputs_)
    all.append(data, bytes);
  return all;
}

/// What one run gives: its error's kind, or its outputs.
std::string outcome(ir::Module &module, Op &kernel, const protocol::LaunchSizes &sizes,
                    const protocol::SizeValues &values, int ranks, int64_t launches,
                    const Schedule &schedule, bool &isUnsafe) {
  interpret::Machine machine(module, ranks, schedule);
  Arguments arguments;
  if (!arguments.make(kernel, sizes, values, ranks, machine))
    return "";
  const auto error = machine.launchRepeat(kernel.strAttr("name").str(), arguments.ofRank, launches);
  if (!error)
    return arguments.outputs();
  isUnsafe |= error->kind == interpret::RunError::Kind::Deadlock ||
              error->kind == interpret::RunError::Kind::Trap;
  return "error " + std::to_string(int(error->kind));
}

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

/// The outcomes of a kernel for each choice of ranks, sizes and schedule, in one fixed order. Half
/// of the schedules run it with waits as late and transfers as early as their tokens allow: a body
/// by itself never does what comes later in it first.
std::vector<std::string> allOutcomes(ir::Module &module, Op &kernel,
                                     const protocol::LaunchSizes &sizes, bool &isUnsafe) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  std::string text;
  llvm::raw_string_ostream os(text);
  ir::print(module, os);
  auto reordered =
      ir::parseModule(sources.add("reordered", text), sources, module.types(), diagnostics);
  DTILE_CHECK(reordered && runPasses(*reordered, "issue-early", diagnostics),
              "what was printed does not parse");
  // One launch, in memory that nobody has written, and several: with the same arguments in each, a
  // place may hold by chance what it should.
  std::vector<std::string> all;
  for (const int ranks : {1, 2, 3})
    for (const protocol::SizeValues &values :
         sizes.choose(ranks, protocol::LaunchSizes::Choice::Few))
      for (const int64_t launches : {int64_t(1), kLaunches}) {
        std::string first;
        for (unsigned seed = 0; seed <= (launches == 1 ? kSeeds : kSeedsOfMany); ++seed) {
          Schedule schedule;
          schedule.seed = seed;
          schedule.maxSteps = kMaxSteps;
          schedule.landing = seed == 0       ? Schedule::Landing::AtIssue
                             : seed % 3 == 0 ? Schedule::Landing::AsLateAsAllowed
                                             : Schedule::Landing::Random;
          ir::Module &run = seed % 2 == 1 ? *reordered : module;
          const std::string result =
              outcome(run, kernel, sizes, values, ranks, launches, schedule, isUnsafe);
          if (seed == 0)
            first = result;
          isUnsafe |= result != first;
          if (isUnsafe)
            return all;
        }
        all.push_back(std::move(first));
      }
  return all;
}

/// Compares verdicts for all mutants of a program's kernels.
class Comparison {
public:
  Comparison(bool isVerbose, bool isProvedOnly)
      : isVerbose_(isVerbose), isProvedOnly_(isProvedOnly) {}
  void add(const Input &input);
  void print();
  [[nodiscard]] bool hasFailed() const {
    return falseAccepts_ != 0 || falseRejects_ != 0 || falseProofs_ != 0;
  }

private:
  void addKernel(const Input &input, const std::string &kernel);
  void addMutant(const Input &input, const std::string &kernel, const Mutation &mutation,
                 const std::vector<std::string> &right);

  bool isVerbose_;
  bool isProvedOnly_;
  unsigned falseAccepts_ = 0;
  /// Mutants that were proved, and those of them that were refused or failed all the same.
  unsigned proved_ = 0;
  unsigned falseProofs_ = 0;
  unsigned falseRejects_ = 0;
  unsigned skipped_ = 0;
  /// By truth, then whether refused.
  std::array<std::array<unsigned, 2>, 3> counts_{};
  std::map<Mutation::Kind, std::array<std::array<unsigned, 2>, 3>> byKind_;
};

/// What the checker says of one kernel.
struct Judgement {
  bool isRefused = false;
  bool isProved = false;
};

Judgement judge(ir::Module &module, const std::string &kernel, Diagnostics &diagnostics) {
  protocol::CheckOptions options;
  options.ranks = {1, 2, 3, 4};
  options.areRanksGiven = true;
  for (const protocol::Verdict &verdict : protocol::checkProtocol(module, options, diagnostics))
    if (verdict.kernel == kernel)
      return {!verdict.isFine, verdict.isProved};
  return {};
}

void Comparison::addMutant(const Input &input, const std::string &kernel, const Mutation &mutation,
                           const std::vector<std::string> &right) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  auto module = parse(input, sources, types, diagnostics);
  DTILE_CHECK(module, "what was printed does not parse");
  Op &op = *module->lookup(kernel);
  mutate(op, mutation);
  if (!ir::verify(*module).empty() || !runPasses(*module, kAfter, diagnostics)) {
    ++skipped_;
    return;
  }
  const Judgement judgement = judge(*module, kernel, diagnostics);
  const bool refused = judgement.isRefused;
  proved_ += judgement.isProved;
  if (isProvedOnly_ && !judgement.isProved)
    return;
  const interpret::ControlSlice slice = interpret::sliceControl(op);
  const protocol::LaunchSizes sizes(op, slice);
  bool isUnsafe = false;
  const std::vector<std::string> outcomes = allOutcomes(*module, op, sizes, isUnsafe);
  const Truth truth = isUnsafe            ? Truth::Unsafe
                      : outcomes == right ? Truth::Right
                                          : Truth::WrongAlways;
  ++counts_[size_t(truth)][refused];
  ++byKind_[mutation.kind][size_t(truth)][refused];
  falseAccepts_ += truth == Truth::Unsafe && !refused;
  const bool isFalseProof = judgement.isProved && (truth == Truth::Unsafe || refused);
  falseProofs_ += isFalseProof;
  const bool isStrange = isFalseProof || (truth == Truth::Unsafe) != refused;
  if (!isVerbose_ || !isStrange)
    return;
  llvm::outs() << input.name << ", " << kernel << ": " << mutationName(mutation.kind) << ", op "
               << mutation.op << ", operand " << mutation.operand << ": "
               << (truth == Truth::Unsafe        ? "unsafe"
                   : truth == Truth::WrongAlways ? "always wrong"
                                                 : "right")
               << ", " << (refused ? "refused" : "accepted")
               << (judgement.isProved ? ", proved" : "") << '\n';
  for (const Diagnostic &diagnostic : diagnostics.all())
    llvm::outs() << "    " << diagnostic.message << '\n';
}

void Comparison::addKernel(const Input &input, const std::string &kernel) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  auto module = parse(input, sources, types, diagnostics);
  Op &op = *module->lookup(kernel);
  const std::vector<Mutation> mutations = mutationsOf(op);
  if (!runPasses(*module, kAfter, diagnostics))
    return;
  const interpret::ControlSlice slice = interpret::sliceControl(op);
  if (!slice.data.empty() || !slice.indexed.empty()) {
    llvm::outs() << input.name << ", " << kernel << ": depends on data, left out\n";
    return;
  }
  const protocol::LaunchSizes sizes(op, slice);
  bool isUnsafe = false;
  const std::vector<std::string> right = allOutcomes(*module, op, sizes, isUnsafe);
  const bool refused = judge(*module, kernel, diagnostics).isRefused;
  if (isUnsafe || refused) {
    llvm::outs() << input.name << ", " << kernel << ": as it stands it is "
                 << (isUnsafe ? "unsafe" : "safe") << " and " << (refused ? "refused" : "accepted")
                 << '\n';
    falseRejects_ += refused && !isUnsafe;
    falseAccepts_ += isUnsafe && !refused;
    return;
  }
  for (const Mutation &mutation : mutations)
    addMutant(input, kernel, mutation, right);
  llvm::outs() << input.name << ", " << kernel << ": " << mutations.size() << " mutants\n";
  llvm::outs().flush();
}

void Comparison::add(const Input &input) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  auto module = parse(input, sources, types, diagnostics);
  DTILE_CHECK(module, "what was printed does not parse");
  for (Op &op : module->body().ops())
    if (op.is(OpKind::Kernel))
      addKernel(input, op.strAttr("name").str());
}

void Comparison::print() {
  const auto row = [](llvm::StringRef name, const std::array<std::array<unsigned, 2>, 3> &counts) {
    llvm::outs() << llvm::left_justify(name, 34);
    for (const Truth truth : {Truth::Unsafe, Truth::WrongAlways, Truth::Right})
      for (const bool refused : {true, false})
        llvm::outs() << llvm::right_justify(std::to_string(counts[size_t(truth)][refused]), 9);
    llvm::outs() << '\n';
  };
  llvm::outs() << '\n'
               << llvm::left_justify("", 34)
               << "  unsafe in a run  always wrong      always right\n"
               << llvm::left_justify("mutation", 34)
               << "  refused accepted  refused accepted  refused accepted\n";
  for (const auto &[kind, counts] : byKind_)
    row(mutationName(kind), counts);
  row("all", counts_);
  llvm::outs() << "not well-formed, or refused by a pass: " << skipped_ << '\n'
               << "false accepts: " << falseAccepts_
               << ", right programs refused: " << falseRejects_ << '\n'
               << "proved: " << proved_ << ", of these refused or unsafe in a run: " << falseProofs_
               << '\n';
}

bool readInput(const std::string &path, const std::vector<std::string> &folders, Input &input) {
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
  options.importPaths = folders;
  auto program = sema::Program::analyze(*file, sources, diagnostics, options);
  if (program && !diagnostics.hasErrors()) {
    std::vector<const sema::KernelInstance *> instances;
    for (const ast::KernelDecl *kernel : program->kernels())
      if (const auto *instance = program->instantiate(kernel, {}, {}, diagnostics))
        instances.push_back(instance);
    for (const sema::FnInstance *function : program->functions())
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

int run(llvm::ArrayRef<const char *> args) {
  std::vector<std::string> folders;
  std::vector<std::string> files;
  bool isVerbose = false;
  bool isProvedOnly = false;
  for (size_t i = 1; i < args.size(); ++i) {
    const llvm::StringRef arg = args[i];
    if (arg == "-I" && i + 1 < args.size())
      folders.emplace_back(args[++i]);
    else if (arg == "-v")
      isVerbose = true;
    else if (arg == "--proved")
      isProvedOnly = true;
    else
      files.push_back(arg.str());
  }
  if (files.empty()) {
    llvm::errs() << "checker_mutation [-I DIR] [-v] [--proved] FILE.dtile...\n";
    return 2;
  }
  Comparison comparison(isVerbose, isProvedOnly);
  for (const std::string &path : files) {
    Input input;
    if (readInput(path, folders, input))
      comparison.add(input);
    else
      llvm::outs() << path << ": cannot be lowered as it stands, left out\n";
  }
  comparison.print();
  return comparison.hasFailed() ? 1 : 0;
}

} // namespace
} // namespace dtile::bench

int main(int argc, char **argv) {
  return dtile::bench::run({const_cast<const char **>(argv), size_t(argc)});
}
