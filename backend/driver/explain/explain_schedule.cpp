// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the scheduler decided for a program: one table a kernel, then the remarks of the passes.
#include "backend/driver/explain/explain_schedule.h"

#include "backend/driver/choose/lower_variants.h"
#include "backend/driver/compile.h"
#include "backend/driver/explain/explain_choices.h"
#include "backend/driver/explain/table.h"
#include "backend/driver/target_code.h"
#include "ir/core/tile_order.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace dtile::driver {

namespace {

std::string varName(const ir::Op &space, unsigned dim) {
  const auto vars = space.get(ir::attr::vars);
  return dim < vars.size() ? vars[dim] : "#" + std::to_string(dim);
}

// `src, n, m`: the dimensions, outermost first.
std::string orderText(const ir::Op &space, const ir::TileOrder &order) {
  std::vector<std::string> names;
  for (unsigned dim : order.order)
    names.push_back(varName(space, dim));
  return names.empty() ? "one body" : llvm::join(names, ", ");
}

// `src = rank + 1 - i`: where each rotated dimension starts and which way it turns.
std::string rotationText(const ir::Op &space, const ir::TileOrder &order) {
  std::vector<std::string> texts;
  for (unsigned dim = 0; dim < order.rotate.size(); ++dim) {
    if (order.rotate[dim] == 0)
      continue;
    std::string text =
        varName(space, dim) + (ir::rotationCenter(space, dim) ? " from own place" : " from rank");
    const int64_t start = dim < order.start.size() ? order.start[dim] : 0;
    if (start != 0)
      text += (start > 0 ? " + " : " - ") + std::to_string(std::abs(start));
    texts.push_back(text + (order.rotate[dim] > 0 ? " upward" : " downward"));
  }
  return texts.empty() ? "-" : llvm::join(texts, "; ");
}

std::string groupText(const ir::Op &space, const ir::TileOrder &order) {
  std::vector<std::string> texts;
  for (unsigned dim = 0; dim < order.group.size(); ++dim)
    if (order.group[dim] > 0)
      texts.push_back(std::to_string(order.group[dim]) + " of " + varName(space, dim));
  return texts.empty() ? "-" : llvm::join(texts, "; ");
}

std::string placementText(const ir::Op &space) {
  std::vector<std::string> texts;
  if (space.get(ir::attr::ordered))
    texts.emplace_back("ordered");
  if (int64_t programs = space.getOr(ir::attr::programs, 0))
    texts.push_back("programs(" + std::to_string(programs) + ")");
  if (space.has(ir::attr::after_all))
    texts.push_back("after all of " + space.get(ir::attr::after_all).str());
  return texts.empty() ? "-" : llvm::join(texts, ", ");
}

void explainKernel(ir::Op &kernel) {
  llvm::outs() << "kernel " << kernel.get(ir::attr::name) << '\n';
  std::vector<Row> rows = {
      {"space", "order, outermost first", "rotation", "grouping", "placement"}};
  for (ir::Op &op : kernel.body().ops()) {
    if (!op.is(ir::OpKind::Space))
      continue;
    const ir::TileOrder order = ir::TileOrder::fromSpace(op);
    const llvm::StringRef name = op.get(ir::attr::name);
    rows.push_back({name.empty() ? "(body)" : name.str(), orderText(op, order),
                    rotationText(op, order), groupText(op, order), placementText(op)});
  }
  printTable(rows, llvm::outs());
}

// What the passes of one target's own decided, or why they left something alone.
void explainTarget(Session &session, ir::Module &module, const TargetArch &target) {
  std::vector<passes::Remark> remarks;
  if (!prepareFor(session.diagnostics, module, target, &remarks))
    return;
  llvm::outs() << '\n' << target.target->name();
  if (!target.arch.empty())
    llvm::outs() << ' ' << target.arch;
  llvm::outs() << '\n';
  printRemarks(session, remarks, llvm::outs());
}

// Which kernels overlaps are, one for each combination of plans, and which plans do not fit.
void explainPlans(const sema::Program &program, llvm::ArrayRef<const ast::KernelDecl *> kernels) {
  llvm::SmallVector<const ast::KernelDecl *, 4> seen;
  for (const ast::KernelDecl *kernel : kernels) {
    const ast::KernelDecl *family = program.familyOfJoined(kernel);
    const ast::KernelDecl *called = family ? family : kernel;
    const auto leftOut = program.leftOut(called);
    if (llvm::is_contained(seen, called) || (family == nullptr && leftOut.empty()))
      continue;
    seen.push_back(called);
    llvm::outs() << called->name.name << (family ? " is one of these in each launch:" : ":")
                 << '\n';
    for (const ast::KernelDecl *one : program.alternatives(called))
      if (family)
        llvm::outs() << "  " << one->name.name << '\n';
    for (const sema::LeftOut &one : leftOut)
      llvm::outs() << "  left out: " << one.label << ": " << one.why << '\n';
    if (family)
      llvm::outs() << "  to pin one: --const alternative=" << kernel->name.name << '\n';
    llvm::outs() << '\n';
  }
}

void explainAsJson(Session &session, sema::Program &program,
                   llvm::ArrayRef<const ast::KernelDecl *> kernels) {
  const std::vector<TargetArch> targets = selectTargets(session, session.options.target);
  if (kernels.empty() || targets.empty())
    return;
  if (kernels.size() > 1 || targets.size() > 1 || session.options.sizes.empty()) {
    session.diagnostics.report(SourceLoc{}, diag::bad_command_line,
                               "`--json` lists the times of one kernel on one target: name them by "
                               "`--kernel`, `--target` and `--sizes`",
                               "dtilec explain");
    return;
  }
  (void)explainChoicesAsJson(session, program, *kernels.front(), targets.front(), llvm::outs());
}

} // namespace

void explainSchedule(Session &session, llvm::StringRef path) {
  const auto program = analyzeFile(session, path);
  if (!program || !checkConstants(session, *program))
    return;
  const auto kernels = selectKernels(session, *program);
  const bool hasTargets = session.options.hasTarget || !session.options.arch.empty();
  if (!session.options.sizes.empty() && !hasTargets) {
    session.diagnostics.report(SourceLoc{}, diag::bad_command_line,
                               "`--sizes` are those of a launch on a target: name it, as by "
                               "`--target nvptx`",
                               "dtilec explain");
    return;
  }
  if (session.options.json)
    return explainAsJson(session, *program, kernels);
  const auto instances = instantiateKernels(session, *program, kernels);
  if (instances.empty())
    return;
  LoweredModule lowered = lowerKernels(session, *program, instances);
  if (!optimize(session, lowered, session.options.optLevel))
    return;
  explainPlans(*program, kernels);
  bool first = true;
  for (ir::Op &op : lowered.module->body().ops()) {
    if (!op.is(ir::OpKind::Kernel))
      continue;
    if (!first)
      llvm::outs() << '\n';
    first = false;
    explainKernel(op);
  }
  if (!lowered.remarks.empty())
    llvm::outs() << '\n';
  printRemarks(session, lowered.remarks, llvm::outs());
  std::optional<TuningFile> tuning;
  if (!session.options.tuning.empty()) {
    tuning = readTuningFile(session, session.options.tuning);
    if (!tuning)
      return;
  }
  if (hasTargets)
    for (const TargetArch &target : selectTargets(session, session.options.target)) {
      LoweredModule own;
      const bool isChosen =
          haveChoices(session, *program, kernels) || (tuning && !program->families().empty());
      const bool hasModel = target.facts() != nullptr;
      if (!hasModel && !session.options.sizes.empty())
        llvm::outs() << '\n'
                     << target.target->name()
                     << ": it has no model, so nothing is known of the launch's time\n";
      // One configuration takes some time, too.
      if (!isChosen && hasModel && kernels.size() == 1 && !session.options.sizes.empty() &&
          !explainChoices(session, *program, kernels, target, tuning ? &*tuning : nullptr,
                          llvm::outs()))
        return;
      if (isChosen && (tuning || hasModel)) {
        if (!explainChoices(session, *program, kernels, target, tuning ? &*tuning : nullptr,
                            llvm::outs()))
          return;
        // A launch for which sizes are given is all that was asked for.
        if (!session.options.sizes.empty())
          continue;
        own = lowerVariants(session, *program, kernels, target, tuning ? &*tuning : nullptr);
        if (!own.module)
          return;
      }
      explainTarget(session, own.module ? *own.module : *lowered.module, target);
    }
}

} // namespace dtile::driver
