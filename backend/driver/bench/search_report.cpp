// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/driver/bench/search_report.h"

#include "backend/driver/tune/launch_text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace dtile::driver {

namespace {

/// Kinds of launches, and of refusals, that are printed.
constexpr size_t kMostPrinted = 10;

void printRefusals(llvm::raw_ostream &os, const SearchReport &report) {
  if (report.tooLong > 0)
    os << llvm::formatv("\n  left out, as they take longer than {0} us: {1} launches\n",
                        microsecondsText(report.limit), report.tooLong);
  std::vector<const Refusals *> most;
  for (const auto &[kind, refusals] : report.refusals)
    if (!refusals.isWrong)
      most.push_back(&refusals);
  llvm::stable_sort(most, [](const auto *a, const auto *b) { return a->count > b->count; });
  if (!most.empty())
    os << "\n  launches that cannot run:\n";
  for (const Refusals *one : llvm::ArrayRef(most).take_front(kMostPrinted))
    os << llvm::formatv("  {0,6}  as {1}: {2}\n", one->count, report.names.launchText(one->example),
                        one->why);
}

} // namespace

std::string BenchNames::launchText(const LaunchPoint &point) const {
  const BenchSetting &setting = settings[point.setting];
  std::string text = "W=" + std::to_string(setting.ranks);
  for (auto [name, size] : llvm::zip_equal(sizes, point.sizes))
    text += " " + name + "=" + std::to_string(size);
  for (const auto &[name, value] : setting.constants)
    text += " " + name + "=" + value;
  return text;
}

llvm::json::Object BenchNames::launchObject(const LaunchPoint &point) const {
  const BenchSetting &setting = settings[point.setting];
  llvm::json::Object values, constants;
  for (auto [name, size] : llvm::zip_equal(sizes, point.sizes))
    values[name] = size;
  for (const auto &[name, value] : setting.constants)
    constants[name] = value;
  return llvm::json::Object{
      {"ranks", setting.ranks}, {"sizes", std::move(values)}, {"constants", std::move(constants)}};
}

std::string BenchNames::againText(llvm::ArrayRef<LaunchPoint> points) const {
  const BenchSetting &setting = settings[points.front().setting];
  std::string text = "--kernel " + kernel;
  if (setting.ranks > 1)
    text += " --ranks " + std::to_string(setting.ranks);
  for (const auto &[name, value] : setting.constants)
    text += " --const " + name + "=" + value;
  text += " --sizes \"";
  for (auto [i, point] : llvm::enumerate(points)) {
    text += i == 0 ? "" : "; ";
    for (auto [axis, size] : llvm::enumerate(point.sizes))
      text += (axis == 0 ? "" : ",") + sizes[axis] + "=" + std::to_string(size);
  }
  return text + "\"";
}

void printSearch(llvm::raw_ostream &os, const SearchReport &report) {
  const BenchNames &names = report.names;
  const llvm::ArrayRef<SlowLaunch> slow = report.slow;
  os << llvm::formatv(
      "`{0}` for {1}{2}{3}: {4} launches timed (--seed {5}), {6} of launch {7} {8:f1} times as "
      "long as "
      "{9} should, or longer\n",
      names.kernel, report.options.target, report.arch.empty() ? "" : " ", report.arch,
      report.search.measured(), report.options.seed,
      slow.empty() ? "no kind"
                   : std::to_string(slow.size()) + (slow.size() == 1 ? " kind" : " kinds"),
      slow.size() > 1 ? "take" : "takes", report.options.slowFactor,
      slow.size() > 1 ? "they" : "it");
  if (report.variesByRun)
    os << "  results are not compared, as who comes first decides them\n";
  for (size_t i = 0; i < names.settings.size(); ++i)
    if (const double typical = report.search.typical(i); typical != 1)
      os << llvm::formatv("  with W={0}: {1:f2} of the estimated time in the median\n",
                          names.settings[i].ranks, typical);
  for (const SlowLaunch &one : slow.take_front(kMostPrinted)) {
    os << llvm::formatv("\n  {0}: {1} us, {2:f1} times as long as {3} us, which ",
                        names.launchText(one.point), microsecondsText(one.measured),
                        one.measured / one.limit, microsecondsText(one.limit));
    if (one.larger)
      os << names.launchText(*one.larger) << " takes\n";
    else
      os << "the model expects\n";
    if (one.count > 1)
      os << llvm::formatv(
          "    of {0} such launches the slowest takes {1:f1} times as long as it should: {2}\n",
          one.count, one.worstFactor, names.launchText(one.worst));
    std::vector<LaunchPoint> points = {one.point};
    if (one.larger)
      points.push_back(*one.larger);
    os << "    again: " << names.againText(points) << '\n';
  }
  if (slow.size() > kMostPrinted)
    os << llvm::formatv("\n  and {0} more; --json has all\n", slow.size() - kMostPrinted);
  printRefusals(os, report);
}

llvm::json::Value searchAsJson(const SearchReport &report) {
  const BenchNames &names = report.names;
  llvm::json::Array kinds, cannot;
  for (const SlowLaunch &one : report.slow) {
    llvm::json::Object kind = names.launchObject(one.point);
    kind["microseconds"] = one.measured / 1e3;
    kind["limit"] = one.limit / 1e3;
    kind["factor"] = one.measured / one.limit;
    if (one.larger)
      kind["larger"] = names.launchObject(*one.larger);
    kind["count"] = int64_t(one.count);
    kind["worst"] = names.launchObject(one.worst);
    kind["again"] =
        names.againText(one.larger ? std::vector{one.point, *one.larger} : std::vector{one.point});
    kinds.push_back(std::move(kind));
  }
  for (const auto &[kind, refusals] : report.refusals) {
    llvm::json::Object one = names.launchObject(refusals.example);
    one["count"] = int64_t(refusals.count);
    one["why"] = refusals.why;
    cannot.push_back(std::move(one));
  }
  return llvm::json::Object{{"kernel", names.kernel},
                            {"target", report.options.target},
                            {"arch", report.arch},
                            {"seed", int64_t(report.options.seed)},
                            {"launches", int64_t(report.search.measured())},
                            {"too_long", int64_t(report.tooLong)},
                            {"slow", std::move(kinds)},
                            {"cannot_run", std::move(cannot)}};
}

} // namespace dtile::driver
