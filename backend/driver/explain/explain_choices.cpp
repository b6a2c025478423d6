// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of variants, and of estimated times.
#include "backend/driver/explain/explain_choices.h"

#include "backend/driver/explain/table.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <algorithm>

namespace dtile::driver {

namespace {

constexpr llvm::StringLiteral kRanks = "W";
/// Of one dimension.
constexpr int64_t kLargestSize = int64_t(1) << 40;
/// Configurations that are listed beside the variants.
constexpr size_t kOthers = 5;

/// A configuration with its estimated time.
struct Timed {
  const Variant *variant = nullptr;
  /// Its number among the variants; nothing where it is none.
  std::optional<size_t> number;
  double nanoseconds = 0;
};

/// The sizes of `--sizes` in the order of the kernel's; nothing after reporting.
std::optional<std::vector<int64_t>> sizesFor(Session &session, const Choosing &choosing,
                                             int64_t &ranks) {
  ranks = 1;
  const auto refuse = [&](const std::string &why) {
    session.diagnostics.report(SourceLoc{}, diag::bad_size, why);
    return std::nullopt;
  };
  std::vector<int64_t> sizes(choosing.sizes.size(), -1);
  for (const auto &[name, value] : session.options.sizes) {
    int64_t number = 0;
    if (llvm::StringRef(value).getAsInteger(10, number) || number < 0 || number > kLargestSize)
      return refuse("wants a number up to " + std::to_string(kLargestSize) + " for `" + name +
                    "`, not `" + value + "`");
    const auto found = llvm::find(choosing.sizes, name);
    if (name == kRanks)
      ranks = std::max<int64_t>(number, 1);
    else if (found != choosing.sizes.end())
      sizes[size_t(found - choosing.sizes.begin())] = number;
    else
      return refuse("names `" + name + "`; the sizes of the arguments are " +
                    llvm::join(choosing.sizes, ", "));
  }
  for (auto [name, size] : llvm::zip_equal(choosing.sizes, sizes))
    if (size < 0)
      return refuse("does not say what `" + name + "` is");
  return sizes;
}

std::vector<Timed> timeAll(Session &session, sema::Program &program, const Choosing &choosing,
                           const TargetArch &target, llvm::ArrayRef<int64_t> sizes, int64_t ranks) {
  std::vector<Timed> timed;
  for (auto [i, variant] : llvm::enumerate(choosing.possible)) {
    const auto time = estimateTime(session, program, variant, target, sizes, ranks);
    if (!time)
      continue;
    Timed &row = timed.emplace_back();
    row.variant = &variant;
    row.nanoseconds = *time;
    const auto kept = llvm::find(choosing.kept, i);
    if (kept != choosing.kept.end())
      row.number = size_t(kept - choosing.kept.begin());
  }
  llvm::sort(timed, [](const Timed &a, const Timed &b) {
    return std::pair(a.nanoseconds, a.variant) < std::pair(b.nanoseconds, b.variant);
  });
  return timed;
}

void printTimes(const std::vector<Timed> &timed, llvm::raw_ostream &os) {
  std::vector<Row> rows = {{"constants", "us", "variant"}};
  size_t others = 0;
  bool runs = true;
  for (const Timed &row : timed) {
    if (!row.number && ++others > kOthers)
      continue;
    std::string number = "-";
    if (row.number) {
      number = std::to_string(*row.number) + (runs ? ", which runs" : "");
      runs = false;
    }
    rows.push_back({text(row.variant->constants),
                    llvm::formatv("{0:F1}", row.nanoseconds / 1000).str(), number});
  }
  printTable(rows, os);
}

void printVariants(const Choosing &choosing, llvm::raw_ostream &os) {
  std::vector<Row> rows = {{"variant", "constants", "protocol"}};
  for (auto [number, kept] : llvm::enumerate(choosing.kept)) {
    const Variant &variant = choosing.possible[kept];
    rows.push_back(
        {std::to_string(number), text(variant.constants), std::to_string(variant.protocol)});
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

} // namespace

bool explainChoices(Session &session, sema::Program &program,
                    llvm::ArrayRef<const ast::KernelDecl *> kernels, const TargetArch &target,
                    llvm::raw_ostream &os) {
  for (const ast::KernelDecl *kernel : kernels) {
    const Choosing choosing =
        choose(session, program, *kernel, constantsFor(session, *kernel), target);
    if (choosing.kept.empty())
      return false;
    if (choosing.possible.front().constants.empty())
      continue;
    os << '\n'
       << kernel->name.name << " for " << target.target->name() << ' ' << target.arch << ": "
       << choosing.possible.size() << " configurations, " << choosing.kept.size()
       << (choosing.kept.size() == 1 ? " variant" : " variants") << ", by size of "
       << llvm::join(choosing.sizes, ", ") << '\n';
    if (session.options.sizes.empty()) {
      printVariants(choosing, os);
      continue;
    }
    int64_t ranks = 1;
    const auto sizes = sizesFor(session, choosing, ranks);
    if (!sizes)
      return false;
    const std::vector<Timed> timed = timeAll(session, program, choosing, target, *sizes, ranks);
    printTimes(timed, os);
    if (!timed.empty())
      os << "  to pin the fastest:" << pins(timed.front().variant->constants) << '\n';
  }
  return true;
}

bool explainChoicesAsJson(Session &session, sema::Program &program, const ast::KernelDecl &kernel,
                          const TargetArch &target, llvm::raw_ostream &os) {
  const Choosing choosing = choose(session, program, kernel, constantsFor(session, kernel), target);
  int64_t ranks = 1;
  const auto sizes = choosing.kept.empty() ? std::nullopt : sizesFor(session, choosing, ranks);
  if (!sizes)
    return false;
  llvm::json::Array rows;
  for (const Timed &timed : timeAll(session, program, choosing, target, *sizes, ranks)) {
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

std::optional<PredictedLaunch> predictLaunch(Session &session, sema::Program &program,
                                             const ast::KernelDecl &kernel,
                                             const TargetArch &target) {
  const Choosing choosing = choose(session, program, kernel, constantsFor(session, kernel), target);
  int64_t ranks = 1;
  const auto sizes = choosing.kept.empty() ? std::nullopt : sizesFor(session, choosing, ranks);
  if (!sizes)
    return std::nullopt;
  for (const Timed &timed : timeAll(session, program, choosing, target, *sizes, ranks)) {
    auto timeline = timelineOf(session, program, *timed.variant, target, *sizes, ranks);
    if (!timeline)
      continue;
    std::string title = kernel.name.name.str();
    if (!timed.variant->constants.empty())
      title += " " + text(timed.variant->constants);
    title += " on " + target.arch + ", W=" + std::to_string(ranks);
    for (auto [name, size] : llvm::zip_equal(choosing.sizes, *sizes))
      title += " " + name + "=" + std::to_string(size);
    return PredictedLaunch{.title = std::move(title), .timeline = std::move(*timeline)};
  }
  session.diagnostics.report(SourceLoc{}, diag::bad_size,
                             "gives a launch that " + target.target->name().str() +
                                 " has no model for");
  return std::nullopt;
}

} // namespace dtile::driver
