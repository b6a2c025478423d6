// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   build-for-machines [--whole=MACHINE,…] [--machines=MACHINE,…] FILE…
//
// Makes code for every GPU of the machine table of every kernel of programs: with its defaults, and
// as each test launches it. Tests are evaluated, but their launches write nothing, so that only
// what they launch with counts. Instances whose IR is the same are built once. For machines of
// `--whole` (default: all) code goes through the vendor's code generator, as far as this build has
// it (AMD: to a linked code object, NVIDIA: to PTX); for the others it ends as LLVM IR, by when all
// memory is laid out. Exits with 1 if anything is refused.
#include "backend/driver/compile.h"
#include "backend/driver/execute/kernel_library.h"
#include "backend/driver/target_code.h"
#include "backend/driver/testing/test_evaluator.h"

#include "ir/core/builder.h"
#include "ir/core/text_format.h"
#include "ir/machine/target_facts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <map>
#include <set>

namespace dtile::driver {
namespace {

/// A row of the table, and what makes code for it.
struct Machine {
  const TargetFacts *facts = nullptr;
  const backend::Target *target = nullptr;
  llvm::StringRef arch;
  bool isWhole = false;
  unsigned kernels = 0;
  double seconds = 0;
};

/// Whether code for one machine is code for the other.
bool isLike(const TargetFacts &a, const TargetFacts &b) {
  return a.sharedBytes == b.sharedBytes && a.lanes == b.lanes &&
         a.products.data() == b.products.data() && a.groupProducts.data() == b.groupProducts.data();
}

/// All GPUs of the table. A row that no architecture is named for (another part with the same
/// processors) is built as one that is like it.
std::vector<Machine> machines() {
  std::vector<Machine> all;
  for (const TargetFacts &row : allMachines()) {
    if (row.lanes == 0)
      continue;
    Machine machine{.facts = &row};
    for (const backend::Target *target : backend::allTargets())
      for (llvm::StringRef arch : target->archs()) {
        const TargetFacts *facts = target->facts(arch);
        if (facts && (facts->name == row.name || (!machine.target && isLike(*facts, row)))) {
          machine.target = target;
          machine.arch = arch;
        }
      }
    all.push_back(machine);
  }
  return all;
}

std::string textOf(ir::Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  ir::print(module, os);
  return text;
}

class Builder {
public:
  Builder(std::vector<Machine> machines) : machines_(std::move(machines)) {}

  void build(const KernelCode &code);
  [[nodiscard]] unsigned failures() const { return failures_; }
  void print() const;

private:
  void build(Machine &machine, const KernelCode &code);

  std::vector<Machine> machines_;
  /// IR before the passes of a machine, and what came to a code generator with its options.
  llvm::StringSet<> built_;
  llvm::StringSet<> emitted_;
  unsigned failures_ = 0;
};

void Builder::build(const KernelCode &code) {
  if (built_.insert(textOf(*code.module)).second)
    for (Machine &machine : machines_)
      build(machine, code);
}

void Builder::build(Machine &machine, const KernelCode &code) {
  const auto start = std::chrono::steady_clock::now();
  const auto refuse = [&](llvm::StringRef why) {
    llvm::outs() << "FAIL " << code.instance->name << " for " << machine.facts->name << ": " << why
                 << '\n';
    ++failures_;
  };
  ++machine.kernels;
  if (!machine.target)
    return refuse("no target makes code for it");
  const SourceManager none;
  Diagnostics diagnostics(code.module->sources() ? *code.module->sources() : none);
  auto pipeline = passes::parsePipeline(passes::devicePipelineText(*machine.facts),
                                        passes::allPasses(), diagnostics);
  const std::unique_ptr<ir::Module> module = ir::cloneModule(*code.module);
  passes::PassContext context(diagnostics);
  context.facts = machine.facts;
  if (!pipeline || !passes::PassManager({}).run(*module, *pipeline, context))
    return refuse(diagnostics.all().empty() ? "a pass failed" : diagnostics.all().front().message);
  backend::TargetOptions options;
  options.arch = machine.arch.str();
  options.optLevel = machine.isWhole ? 2 : 0;
  options.assemble = false;
  const bool isAmd = machine.target->canEmit(backend::EmitKind::Hsaco);
  const backend::EmitKind kind = !machine.isWhole ? backend::EmitKind::LlvmIr
                                 : isAmd          ? backend::EmitKind::Hsaco
                                                  : backend::EmitKind::Ptx;
  // Machines that are like each other often get the same IR from their passes.
  const bool isNew = emitted_
                         .insert(machine.target->name().str() + ' ' + options.arch + ' ' +
                                 std::to_string(options.optLevel) + '\n' + textOf(*module))
                         .second;
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream os(bytes);
  if (isNew)
    if (llvm::Error error = machine.target->emit(*module, options, kind, os))
      return refuse(llvm::toString(std::move(error)));
  machine.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Builder::print() const {
  for (const Machine &machine : machines_)
    llvm::outs() << machine.facts->name << ": " << machine.kernels << " kernels, "
                 << (machine.isWhole ? "whole" : "to LLVM IR") << '\n';
  for (const Machine &machine : machines_)
    llvm::errs() << machine.facts->name << ' ' << int(machine.seconds * 1000) << " ms\n";
  llvm::outs() << failures_ << " refused\n";
}

/// Launches nothing.
class NoLaunch : public LoadedKernel {
public:
  LaunchResult launch(RankArgs &, int) override { return {}; }
};

class BuildingExecutor : public Executor {
public:
  BuildingExecutor(Builder &builder, int ranks) : builder_(builder), ranks_(ranks) {}
  [[nodiscard]] llvm::StringRef name() const override { return "builder"; }
  [[nodiscard]] int ranks() const override { return ranks_; }
  llvm::Expected<LoadedKernel *> load(const KernelCode &code) override {
    builder_.build(code);
    return &kernel_;
  }
  void reset() override {}

private:
  Builder &builder_;
  int ranks_;
  NoLaunch kernel_;
};

/// False where the file cannot be read, has errors, or a test's instances cannot be made.
bool buildFile(Builder &builder, const Options &options, const std::string &path) {
  Session session(options);
  const auto program = analyzeFile(session, path);
  if (!program) {
    session.flush();
    return false;
  }
  KernelLibrary library(session, *program);
  for (const sema::KernelInstance *instance :
       instantiateKernels(session, *program, selectKernels(session, *program)))
    if (const auto code = library.get(instance))
      builder.build(*code);
  // Kernels whose generics have no defaults are built where they are launched.
  session.forget();
  for (const ast::TestDecl *test : program->tests()) {
    // One rank, and the most: instances may depend on their number, little else does.
    std::set<int> counts;
    for (const ast::Expr *count : test->ranks)
      if (const auto *literal = llvm::dyn_cast<ast::IntLit>(count))
        counts.insert(int(literal->value));
    if (counts.empty())
      counts.insert(1);
    for (int ranks : {*counts.begin(), *counts.rbegin()}) {
      BuildingExecutor executor(builder, ranks);
      (void)TestEvaluator(session, library, executor).run(*test->body);
      if (counts.size() == 1)
        break;
    }
  }
  // What launches have not written is not what tests expect.
  session.forget();
  return true;
}

} // namespace
} // namespace dtile::driver

int main(int argc, char **argv) {
  using namespace dtile;
  using namespace dtile::driver;
  std::vector<Machine> all = machines();
  for (Machine &machine : all)
    machine.isWhole = true;
  const auto isNamed = [](llvm::StringRef list, const Machine &machine) {
    llvm::SmallVector<llvm::StringRef> names;
    list.split(names, ',');
    return llvm::is_contained(names, machine.facts->name);
  };
  Options options;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef argument = argv[i];
    if (argument.consume_front("--whole="))
      for (Machine &machine : all)
        machine.isWhole = isNamed(argument, machine);
    else if (argument.consume_front("--machines="))
      llvm::erase_if(all, [&](const Machine &machine) { return !isNamed(argument, machine); });
    else
      options.inputs.push_back(argument.str());
  }
  Builder builder(std::move(all));
  bool isFine = !options.inputs.empty();
  for (const std::string &path : options.inputs)
    isFine &= buildFile(builder, options, path);
  builder.print();
  return isFine && builder.failures() == 0 ? 0 : 1;
}
