// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of variants, and of estimated times.
#include "backend/driver/explain/explain_choices.h"

#include "backend/driver/choose/given_launch.h"
#include "backend/driver/explain/table.h"
#include "backend/runtime/alternatives.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <map>

namespace dtile::driver {

namespace {

/// Configurations that are listed beside the variants.
constexpr size_t kOthers = 5;

/// A launch as the model wants it.
struct Modelled {
  std::vector<int64_t> sizes;
  int64_t ranks = 1;
  Scalars scalars;
};

/// Of `--sizes`, in the order of `names`; nothing after reporting.
std::optional<Modelled> modelled(Session &session, const sema::KernelInstance &instance,
                                 llvm::ArrayRef<std::string> names) {
  const auto given = givenLaunch(session, instance, names);
  auto sizes = given ? sizesIn(session, *given, names) : std::nullopt;
  if (!sizes)
    return std::nullopt;
  return Modelled{.sizes = std::move(*sizes),
                  .ranks = std::max<int64_t>(given->ranks.value_or(1), 1),
                  .scalars = given->numbers};
}

/// The sizes that the model asks for.
std::vector<std::string> sizeNames(Session &session, sema::Program &program,
                                   const Choosing &choosing, const TargetArch &target) {
  // Without choices nobody has asked for them.
  return choosing.sizes.empty()
             ? VariantModel(session, program, choosing, choosing.possible.front(), target).sizes()
             : choosing.sizes;
}

/// `measured`: what runs whatever the times; null where the model decides.
void printTimes(const std::vector<Timed> &timed, const Constants *measured, llvm::raw_ostream &os) {
  std::vector<Row> rows = {{"constants", "us", "variant"}};
  size_t others = 0;
  bool runs = true;
  for (const Timed &row : timed) {
    if (!row.number && ++others > kOthers)
      continue;
    std::string number = "-";
    if (row.number) {
      const bool isIt = measured ? row.variant->constants == *measured : runs;
      number = std::to_string(*row.number) + (isIt ? ", which runs" : "");
      runs = false;
    }
    rows.push_back({text(row.variant->constants),
                    llvm::formatv("{0:F1}", row.nanoseconds / 1000).str(), number});
  }
  printTable(rows, os);
}

void printVariants(const Choosing &choosing, llvm::raw_ostream &os) {
  const bool areSomeForWords =
      llvm::any_of(choosing.kept, [&](size_t i) { return choosing.possible[i].wholeWords; });
  std::vector<Row> rows = {{"variant", "constants", "protocol"}};
  if (areSomeForWords)
    rows.front().push_back("launches");
  for (auto [number, kept] : llvm::enumerate(choosing.kept)) {
    const Variant &variant = choosing.possible[kept];
    rows.push_back(
        {std::to_string(number), text(variant.constants), std::to_string(variant.protocol)});
    if (areSomeForWords)
      rows.back().push_back(variant.wholeWords ? "in whole words" : "all");
  }
  printTable(rows, os);
}

/// As `--const` takes them.
std::string pins(const Constants &constants) {
  std::string text;
  for (const auto &[name, value] : constants)
    text += " --const " + name + "=" + std::to_string(value);
  return text;
}

/// What a launch takes by measurement.
void printMeasured(const TunedChoice &choice, llvm::raw_ostream &os) {
  os << "  measured for W=" << choice.ranks << ' ' << text(choice.sizes) << ": "
     << chosenText(choice)
     << llvm::formatv(", {0:f1} us instead of {1:f1}, which runs\n", choice.microseconds,
                      choice.usually);
  os << "  to pin it:"
     << (choice.alternative.empty() ? "" : " --const alternative=" + choice.alternative)
     << pins(choice.constants) << '\n';
}

std::vector<ir::Op *> kernelsOf(ir::Module &module) {
  std::vector<ir::Op *> kernels;
  for (ir::Op &op : module.body().ops())
    if (op.is(ir::OpKind::Kernel))
      kernels.push_back(&op);
  return kernels;
}

/// The row that a launch takes, if all ranks launch with these sizes: as HostTeam::takeCode and
/// DeviceTeam::chooseVariant find it.
const KernelTuning::Row *measuredRow(Session &session, sema::Program &program,
                                     const Choosing &choosing, const KernelTuning &tuning,
                                     const sema::KernelInstance &instance, const TargetArch &target,
                                     llvm::ArrayRef<int64_t> sizes, int64_t ranks) {
  const std::vector<bool> all(tuning.places.size(), true);
  const KernelTuning::Row *own = rowFor(tuning, instance, sizes, ranks, all);
  LoweredModule lowered = lowerKernels(session, program, &instance);
  const std::vector<ir::Op *> kernels = kernelsOf(*lowered.module);
  if (ranks == 1 || llvm::none_of(kernels, [](ir::Op *op) { return communicates(*op); }))
    return own;
  const KernelTuning::Row *common =
      rowFor(tuning, instance, sizes, ranks, agreedPlaces(tuning, instance, kernels));
  if (target.arch.empty())
    return common;
  const auto protocolOf = [&](const KernelTuning::Row *row) {
    return choosing.possible[*choosing.wanted[row->configuration]].protocol;
  };
  return own && common && protocolOf(own) == protocolOf(common) ? own : nullptr;
}

/// Says which sizes do not count where launches choose what other ranks see, as they may differ
/// from rank to rank.
void printSizesApart(Session &session, sema::Program &program, const Choosing &choosing,
                     const sema::KernelInstance &instance, llvm::raw_ostream &os) {
  const int32_t first = choosing.possible[choosing.kept.front()].protocol;
  if (llvm::all_of(choosing.kept, [&](size_t i) { return choosing.possible[i].protocol == first; }))
    return;
  const std::vector<SizePlace> places = sizePlaces(instance);
  KernelTuning all;
  for (const SizePlace &place : places)
    all.places.emplace_back(place.param, place.dim);
  LoweredModule lowered = lowerKernels(session, program, &instance);
  const std::vector<bool> agreed = agreedPlaces(all, instance, kernelsOf(*lowered.module));
  for (auto [place, isAgreed] : llvm::zip_equal(places, agreed))
    if (!isAgreed && llvm::is_contained(choosing.sizes, place.name))
      os << "  " << place.name << " may differ from rank to rank, so launches on several ranks "
         << "choose what other ranks see without it; `requires replicated(" << place.name
         << ")` says that it does not\n";
}

std::string microseconds(double nanoseconds) {
  return llvm::formatv("{0:F1} us", nanoseconds / 1000).str();
}

std::string boundText(const Bound &bound) {
  return microseconds(bound.nanoseconds) + ", by the " + bound.by;
}

/// Where the bodies of a role begin in the source; the kernel's name where it has no role so named.
SourceRange placeOf(const ast::KernelDecl &kernel, llvm::StringRef name) {
  for (const ast::Role *role : kernel.roles)
    for (; role; role = role->whenAll)
      if (role->name.name == name)
        return role->over ? role->over->range : role->range;
  return kernel.name.range;
}

/// Warns of a launch that takes more than twice its bound, at the space that ends last.
void warnOfSlowLaunch(Session &session, const sema::KernelInstance &instance,
                      const backend::LaunchTimeline &launch) {
  constexpr double kMost = 2;
  const Bound bound = boundOf(launch);
  if (launch.total <= kMost * bound.nanoseconds || launch.rows.empty())
    return;
  using Space = backend::LaunchTimeline::Row;
  const Space &last =
      *llvm::max_element(launch.rows, [](const Space &a, const Space &b) { return a.end < b.end; });
  std::string why = llvm::formatv("bodies: {0}, programs: {1}, each body: {2}", last.bodies,
                                  last.programs, microseconds(last.work))
                        .str();
  if (last.latency > 0)
    why += ", of waiting beside that: " + microseconds(last.latency);
  session.diagnostics.report(
      placeOf(*instance.decl, last.name), diag::slow_code,
      llvm::formatv("this launch is estimated to take {0}, {1:F1} times as long as its bound of "
                    "{2}: this space ends last ({3})",
                    microseconds(launch.total), launch.total / bound.nanoseconds, boundText(bound),
                    why)
          .str());
}

/// The bound of the variant that runs.
void printBound(Session &session, sema::Program &program, const Choosing &choosing,
                const Variant &variant, const TargetArch &target, const Modelled &launch,
                llvm::ArrayRef<int64_t> sizes, llvm::raw_ostream &os) {
  const auto timeline = VariantModel(session, program, choosing, variant, target, launch.scalars)
                            .timeline(sizes, launch.ranks);
  if (!timeline)
    return;
  os << "  bound of what runs: " << boundText(boundOf(*timeline)) << '\n';
  warnOfSlowLaunch(session, *variant.instance, *timeline);
}

/// One launch of a kernel, by `--sizes`. False after reporting.
bool explainLaunch(Session &session, sema::Program &program, const Choosing &choosing,
                   const KernelTuning &tuning, const TargetArch &target, llvm::raw_ostream &os) {
  const sema::KernelInstance &instance = *choosing.possible[choosing.kept.front()].instance;
  // Measurements are kept by all sizes, also by those that the model need not know.
  std::vector<std::string> names = choosing.sizes;
  if (!tuning.rows.empty()) {
    names.clear();
    for (const SizePlace &place : sizePlaces(instance))
      names.push_back(place.name);
  }
  const auto launch = modelled(session, instance, names);
  if (!launch)
    return false;
  const int64_t ranks = launch->ranks;
  std::vector<int64_t> sizes;
  for (const std::string &name : choosing.sizes)
    if (const auto at = llvm::find(names, name); at != names.end())
      sizes.push_back(launch->sizes[size_t(at - names.begin())]);
  const std::vector<Timed> timed =
      sizes.size() == choosing.sizes.size()
          ? timeAll(session, program, choosing, target, sizes, ranks, launch->scalars)
          : std::vector<Timed>();
  const KernelTuning::Row *row =
      tuning.rows.empty()
          ? nullptr
          : measuredRow(session, program, choosing, tuning, instance, target, launch->sizes, ranks);
  if (!timed.empty()) {
    printTimes(timed, row ? &row->choice.constants : nullptr, os);
    const auto runs = llvm::find_if(timed, [&](const Timed &one) {
      return one.number && (!row || one.variant->constants == row->choice.constants);
    });
    if (runs != timed.end())
      printBound(session, program, choosing, *runs->variant, target, *launch, sizes, os);
  }
  if (ranks > 1)
    printSizesApart(session, program, choosing, instance, os);
  if (row)
    printMeasured(row->choice, os);
  else if (!timed.empty())
    os << "  to pin the fastest:" << pins(timed.front().variant->constants) << '\n';
  else
    os << "  nothing near these sizes was measured: "
       << text(choosing.possible[choosing.kept.front()].constants) << " runs\n";
  return true;
}

/// The same of a kernel that leaves nothing to choose. False after reporting.
bool explainOnlyLaunch(Session &session, sema::Program &program, const ast::KernelDecl &kernel,
                       const Choosing &choosing, const TargetArch &target, llvm::raw_ostream &os) {
  const Variant &variant = choosing.possible.front();
  const std::vector<std::string> names = sizeNames(session, program, choosing, target);
  const auto launch = modelled(session, *variant.instance, names);
  if (!launch)
    return false;
  os << '\n'
     << kernel.name.name << " for " << target.target->name() << ' ' << target.arch
     << ": 1 configuration";
  if (!names.empty())
    os << ", by size of " << llvm::join(names, ", ");
  os << '\n';
  VariantModel model(session, program, choosing, variant, target, launch->scalars);
  const auto timeline = model.timeline(launch->sizes, launch->ranks);
  if (!timeline) {
    os << "  the model knows no time: these sizes do not say how much there is to do\n";
    return true;
  }
  std::string constants;
  for (const auto &[generic, value] : llvm::zip(kernel.generics, variant.instance->generics))
    if (value.kind == sema::GenericValue::Kind::Int)
      constants += (constants.empty() ? "" : " ") + generic.name.name.str() + "=" +
                   std::to_string(value.intValue);
  printTable(
      {{"constants", "us", "bound"},
       {constants.empty() ? "-" : constants, llvm::formatv("{0:F1}", timeline->total / 1000).str(),
        boundText(boundOf(*timeline))}},
      os);
  if (!model.isPossible())
    os << "  its tiles do not fit the registers of its threads: it is slower, or cannot be built\n";
  warnOfSlowLaunch(session, *variant.instance, *timeline);
  return true;
}

/// What was chosen for a kernel, by the model and by measurement.
struct Decided {
  Choosing choosing;
  KernelTuning tuning;
};

/// Taken for a size that may differ from rank to rank, as launches take it
/// (DeviceTeam::chooseAlternative).
constexpr int64_t kSizeApart = 4096;

/// The time of an alternative by the model, from what all ranks know alike; nothing where it says
/// none. `apart` are names of sizes that may differ from rank to rank.
std::optional<double> timeOf(Session &session, sema::Program &program, const Choosing &choosing,
                             const TargetArch &target, llvm::ArrayRef<std::string> apart) {
  const std::vector<std::string> names = sizeNames(session, program, choosing, target);
  auto launch = modelled(session, *choosing.possible.front().instance, names);
  if (!launch)
    return std::nullopt;
  for (auto [name, size] : llvm::zip_equal(names, launch->sizes))
    if (launch->ranks > 1 && llvm::is_contained(apart, name))
      size = kSizeApart;
  std::optional<double> least;
  for (const size_t kept : choosing.kept)
    if (const auto time = VariantModel(session, program, choosing, choosing.possible[kept], target,
                                       launch->scalars)
                              .nanoseconds(launch->sizes, launch->ranks))
      least = std::min(least.value_or(*time), *time);
  return least;
}

/// Which of several kernels of one name runs by the model.
void explainFastest(Session &session, sema::Program &program, const ast::KernelDecl &family,
                    llvm::ArrayRef<const ast::KernelDecl *> alternatives,
                    const std::map<const ast::KernelDecl *, Decided> &decided,
                    llvm::ArrayRef<const sema::KernelInstance *> instances,
                    const TargetArch &target, llvm::raw_ostream &os) {
  const std::vector<SizePlace> places = sizePlaces(*instances.front());
  KernelTuning all;
  for (const SizePlace &place : places)
    all.places.emplace_back(place.param, place.dim);
  LoweredModule lowered = lowerKernels(session, program, instances);
  const std::vector<bool> agreed =
      agreedPlaces(all, *instances.front(), kernelsOf(*lowered.module));
  std::vector<std::string> apart;
  for (auto [place, isAgreed] : llvm::zip_equal(places, agreed))
    if (!isAgreed)
      apart.push_back(place.name);
  std::vector<double> times;
  for (const ast::KernelDecl *one : alternatives) {
    const auto time = timeOf(session, program, decided.find(one)->second.choosing, target, apart);
    if (!time)
      return;
    times.push_back(*time);
  }
  const size_t fastest = runtime::fastestAlternative(times);
  std::vector<Row> rows = {{"alternative", "us", ""}};
  for (auto [i, one] : llvm::enumerate(alternatives))
    rows.push_back({one->name.name.str(), llvm::formatv("{0:F1}", times[i] / 1000).str(),
                    i == fastest ? "which runs" : ""});
  os << '\n' << family.name.name << ":\n";
  printTable(rows, os);
  os << "  to pin it: --const alternative=" << alternatives[fastest]->name.name << '\n';
}

/// Which of several kernels of one name runs for `--sizes`, by measurement or by the model. False
/// after reporting.
bool explainFamilies(Session &session, sema::Program &program,
                     const std::map<const ast::KernelDecl *, Decided> &decided,
                     const TargetArch &target, llvm::raw_ostream &os) {
  for (const ast::KernelDecl *family : program.families()) {
    std::vector<const KernelTuning *> tunings;
    std::vector<const sema::KernelInstance *> instances;
    const auto alternatives = program.alternatives(family);
    for (const ast::KernelDecl *one : alternatives)
      if (const auto it = decided.find(one); it != decided.end()) {
        tunings.push_back(&it->second.tuning);
        instances.push_back(program.tryInstantiate(one, constantsFor(session, *one)));
      }
    // Some are pinned away, or not asked for.
    if (tunings.size() != alternatives.size() || llvm::is_contained(instances, nullptr))
      continue;
    const sema::KernelInstance *first = instances.front();
    const KernelTuning tuning = familyTuning(*family, *first, tunings);
    if (tuning.rows.empty()) {
      explainFastest(session, program, *family, alternatives, decided, instances, target, os);
      continue;
    }
    std::vector<std::string> names;
    for (const SizePlace &place : sizePlaces(*first))
      names.push_back(place.name);
    const auto launch = modelled(session, *first, names);
    if (!launch)
      return false;
    os << '\n' << family->name.name << ":\n";
    LoweredModule lowered = lowerKernels(session, program, instances);
    const std::vector<bool> counts = launch->ranks > 1
                                         ? agreedPlaces(tuning, *first, kernelsOf(*lowered.module))
                                         : std::vector<bool>(tuning.places.size(), true);
    if (const KernelTuning::Row *row = rowFor(tuning, *first, launch->sizes, launch->ranks, counts))
      printMeasured(row->choice, os);
    else
      os << "  nothing near these sizes was measured\n";
  }
  return true;
}

} // namespace

bool explainChoices(Session &session, sema::Program &program,
                    llvm::ArrayRef<const ast::KernelDecl *> kernels, const TargetArch &target,
                    const TuningFile *tuning, llvm::raw_ostream &os) {
  std::map<const ast::KernelDecl *, Decided> decided;
  for (const ast::KernelDecl *kernel : kernels) {
    const sema::GenericArgs pinned = constantsFor(session, *kernel);
    KernelTuning tuned;
    if (tuning)
      tuned = tuningFor(session, program, *kernel, pinned, target, *tuning, StaleChoices::Reported);
    Choosing choosing = choose(session, program, *kernel, pinned, target, tuned.configurations);
    if (choosing.kept.empty())
      return false;
    keepTuned(session, target, choosing, tuned, StaleChoices::Reported);
    decided[kernel] = {choosing, tuned};
    if (choosing.possible.front().constants.empty()) {
      // Of several kernels each has sizes of its own.
      if (kernels.size() == 1 && tuned.rows.empty() && !session.options.sizes.empty() &&
          !explainOnlyLaunch(session, program, *kernel, choosing, target, os))
        return false;
      continue;
    }
    os << '\n'
       << kernel->name.name << " for " << target.target->name() << ' ' << target.arch << ": "
       << choosing.possible.size() << " configurations, " << choosing.kept.size()
       << (choosing.kept.size() == 1 ? " variant" : " variants") << ", by size of "
       << llvm::join(choosing.sizes, ", ") << '\n';
    if (session.options.batchInvariant)
      os << "  batch-invariant: " << choosing.ruledOut
         << " other configurations add up in another order than "
         << choosing.possible[choosing.kept.front()].sums << '\n';
    if (session.options.sizes.empty())
      printVariants(choosing, os);
    else if (!explainLaunch(session, program, choosing, tuned, target, os))
      return false;
  }
  return session.options.sizes.empty() || explainFamilies(session, program, decided, target, os);
}

bool explainChoicesAsJson(Session &session, sema::Program &program, const ast::KernelDecl &kernel,
                          const TargetArch &target, llvm::raw_ostream &os) {
  const Choosing choosing = choose(session, program, kernel, constantsFor(session, kernel), target);
  if (choosing.kept.empty())
    return false;
  const auto launch = modelled(session, *choosing.possible.front().instance,
                               sizeNames(session, program, choosing, target));
  if (!launch)
    return false;
  llvm::json::Array rows;
  for (const Timed &timed :
       timeAll(session, program, choosing, target, launch->sizes, launch->ranks, launch->scalars)) {
    llvm::json::Object constants;
    for (const auto &[name, value] : timed.variant->constants)
      constants[name] = value;
    llvm::json::Object row{{"constants", std::move(constants)}, {"ns", timed.nanoseconds}};
    row["variant"] =
        timed.number ? llvm::json::Value(int64_t(*timed.number)) : llvm::json::Value(nullptr);
    rows.push_back(std::move(row));
  }
  os << llvm::json::Value(std::move(rows)) << '\n';
  return true;
}

Bound boundOf(const backend::LaunchTimeline &launch) {
  return {.nanoseconds = launch.overhead + std::max(launch.workTime, launch.linkTime),
          .by = launch.linkTime > launch.workTime ? "link" : "processors"};
}

std::optional<PredictedLaunch> predictLaunch(Session &session, sema::Program &program,
                                             const ast::KernelDecl &kernel,
                                             const TargetArch &target) {
  const Choosing choosing = choose(session, program, kernel, constantsFor(session, kernel), target);
  if (choosing.kept.empty())
    return std::nullopt;
  const std::vector<std::string> names = sizeNames(session, program, choosing, target);
  const auto launch = modelled(session, *choosing.possible.front().instance, names);
  if (!launch)
    return std::nullopt;
  for (const Timed &timed :
       timeAll(session, program, choosing, target, launch->sizes, launch->ranks, launch->scalars)) {
    auto timeline =
        VariantModel(session, program, choosing, *timed.variant, target, launch->scalars)
            .timeline(launch->sizes, launch->ranks);
    if (!timeline)
      continue;
    std::string title = kernel.name.name.str();
    if (!timed.variant->constants.empty())
      title += " " + text(timed.variant->constants);
    title += " on " + target.arch + ", W=" + std::to_string(launch->ranks);
    for (auto [name, size] : llvm::zip_equal(names, launch->sizes))
      title += " " + name + "=" + std::to_string(size);
    return PredictedLaunch{.title = std::move(title), .timeline = std::move(*timeline)};
  }
  session.diagnostics.report(SourceLoc{}, diag::bad_size,
                             "gives a launch that " + target.target->name().str() +
                                 " has no model for");
  return std::nullopt;
}

} // namespace dtile::driver
