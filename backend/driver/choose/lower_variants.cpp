// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names variants, and lets alternatives of one name share their number.
#include "backend/driver/choose/lower_variants.h"

#include "backend/driver/choose/configurations.h"
#include "backend/driver/execute/declared_sizes.h"
#include "frontend/base/check.h"
#include "ir/core/builder.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace dtile::driver {

namespace {

/// A kernel with what was chosen for it, by the model and by measurement.
struct Chosen {
  Choosing choosing;
  KernelTuning tuning;

  [[nodiscard]] const sema::KernelInstance &first() const {
    return *choosing.possible[choosing.kept.front()].instance;
  }
  [[nodiscard]] TunedEntry entry(const TargetArch &target) const;
};

/// A copy without the other kernels; null where none communicates.
std::unique_ptr<ir::Module> communicatingKernels(ir::Module &module) {
  std::unique_ptr<ir::Module> copy = ir::cloneModule(module);
  std::vector<ir::Op *> others;
  bool isAny = false;
  for (ir::Op &op : copy->body().ops()) {
    if (!op.is(ir::OpKind::Kernel))
      continue;
    if (communicates(op))
      isAny = true;
    else
      others.push_back(&op);
  }
  for (ir::Op *op : others)
    op->erase();
  return isAny ? std::move(copy) : nullptr;
}

backend::launch::TunedRow tunedRow(const KernelTuning::Row &row, const TargetArch &target) {
  backend::launch::TunedRow tuned;
  tuned.machine = row.machine;
  tuned.arch = target.arch;
  tuned.ranks = int32_t(row.choice.ranks);
  tuned.sizes = row.sizes;
  return tuned;
}

TunedEntry Chosen::entry(const TargetArch &target) const {
  TunedEntry made{first().entry, tuning.places, {}};
  for (const KernelTuning::Row &row : tuning.rows) {
    const size_t position = *choosing.wanted[row.configuration];
    backend::launch::TunedRow &tuned = made.rows.emplace_back(tunedRow(row, target));
    tuned.variant = int32_t(llvm::find(choosing.kept, position) - choosing.kept.begin());
    tuned.protocol = choosing.possible[position].protocol;
  }
  return made;
}

/// Of a name for several kernels, whose descriptor counts what callers pass.
TunedEntry entryOfFamily(const sema::Program &program, const ast::KernelDecl &family,
                         llvm::ArrayRef<Chosen *> alternatives, const TargetArch &target) {
  const sema::KernelInstance &first = alternatives.front()->first();
  std::vector<const KernelTuning *> tunings;
  for (const Chosen *one : alternatives)
    tunings.push_back(&one->tuning);
  const KernelTuning tuning = familyTuning(family, first, tunings);
  TunedEntry made{program.familyName(&family, first), {}, {}};
  for (const auto &[param, dim] : tuning.places) {
    const auto before = llvm::ArrayRef(first.params).take_front(size_t(param));
    made.places.emplace_back(int32_t(llvm::count_if(before, isLaunchArgument)), dim);
  }
  for (const KernelTuning::Row &row : tuning.rows)
    made.rows.emplace_back(tunedRow(row, target)).variant = int32_t(row.configuration);
  return made;
}

} // namespace

LoweredModule lowerVariants(Session &session, sema::Program &program,
                            llvm::ArrayRef<const ast::KernelDecl *> kernels,
                            const TargetArch &target, const TuningFile *tuning,
                            VariantsInfo *info) {
  std::vector<const sema::KernelInstance *> instances;
  struct Row {
    int64_t number;
    Variant variant;
  };
  llvm::StringMap<Row> rows;
  std::map<const ast::KernelDecl *, Chosen> choosings;
  for (const ast::KernelDecl *kernel : kernels) {
    const sema::GenericArgs pins = constantsFor(session, *kernel);
    Chosen made;
    // Only builds ask for the info, and they say what is not used.
    if (tuning)
      made.tuning = tuningFor(session, program, *kernel, pins, target, *tuning,
                              info ? StaleChoices::Reported : StaleChoices::Silent);
    made.choosing = choose(session, program, *kernel, pins, target, made.tuning.configurations);
    if (made.choosing.kept.empty())
      return {};
    choosings.emplace(kernel, std::move(made));
  }
  // Names whose kernels are all here.
  std::vector<std::pair<const ast::KernelDecl *, std::vector<Chosen *>>> families;
  for (const ast::KernelDecl *family : program.families()) {
    std::vector<Chosen *> alternatives;
    for (const ast::KernelDecl *one : program.alternatives(family))
      if (const auto it = choosings.find(one); it != choosings.end())
        alternatives.push_back(&it->second);
    if (alternatives.size() == family->alternatives.size())
      families.emplace_back(family, std::move(alternatives));
  }
  for (const ast::KernelDecl *kernel : kernels) {
    Chosen &chosen = choosings.find(kernel)->second;
    keepTuned(session, target, chosen.choosing, chosen.tuning,
              info ? StaleChoices::Reported : StaleChoices::Silent);
    const Choosing &made = chosen.choosing;
    // Without choices there is one code for all rows.
    if (info && !chosen.tuning.rows.empty() && !made.possible.front().constants.empty())
      info->tuned.push_back(chosen.entry(target));
    for (const auto [i, kept] : llvm::enumerate(made.kept)) {
      const Variant &variant = made.possible[kept];
      instances.push_back(variant.instance);
      rows[variant.instance->name] = {int64_t(i), variant};
    }
  }
  for (const auto &[family, alternatives] : families)
    if (TunedEntry entry = entryOfFamily(program, *family, alternatives, target);
        info && !entry.rows.empty())
      info->tuned.push_back(std::move(entry));
  LoweredModule lowered = lowerKernels(session, program, instances);
  for (ir::Op &op : lowered.module->body().ops()) {
    if (!op.is(ir::OpKind::Kernel))
      continue;
    const Row &row = rows.find(op.get(ir::attr::name))->second;
    const std::string &entry = row.variant.instance->entry;
    op.set(ir::attr::entry, entry);
    op.set(ir::attr::variant, row.number);
    op.set(ir::attr::protocol, row.variant.protocol);
    if (row.variant.wholeWords)
      op.set(ir::attr::whole_words, true);
    op.set(ir::attr::constants, text(row.variant.constants));
    op.set(ir::attr::name, row.number == 0 ? entry : entry + "$" + std::to_string(row.number));
  }
  if (info)
    info->written = communicatingKernels(*lowered.module);
  if (!optimize(session, lowered, session.options.optLevel))
    return {};
  return lowered;
}

} // namespace dtile::driver
