// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `dtilec bench` says of launches, and of a search among them.
#pragma once

#include "backend/driver/bench/slow_launches.h"
#include "backend/driver/options.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <string>
#include <vector>

namespace dtile::driver {

/// Ranks and constants of launches.
struct BenchSetting {
  int ranks = 1;
  std::vector<NamedText> constants;
};

/// What the numbers of launch points stand for.
struct BenchNames {
  std::string kernel;
  std::vector<std::string> sizes;
  std::vector<BenchSetting> settings;

  /// "W=2 M=64 N=512", with the constants that vary.
  [[nodiscard]] std::string launchText(const LaunchPoint &point) const;
  [[nodiscard]] llvm::json::Object launchObject(const LaunchPoint &point) const;
  /// The options of `dtilec bench` that time these launches again, which are of one setting.
  [[nodiscard]] std::string againText(llvm::ArrayRef<LaunchPoint> points) const;
};

/// Launches that have no time, for one reason.
struct Refusals {
  size_t count = 0;
  /// Their results are wrong; else they cannot run.
  bool isWrong = false;
  /// One of them, and what it said.
  LaunchPoint example;
  std::string why;
};

/// A search that has ended.
struct SearchReport {
  const BenchNames &names;
  const Options &options;
  llvm::StringRef arch;
  bool variesByRun = false;
  const SlowSearch &search;
  llvm::ArrayRef<SlowLaunch> slow;
  /// By their kind.
  const std::map<std::string, Refusals> &refusals;
  /// Launches that take longer than `limit`, in nanoseconds.
  size_t tooLong = 0;
  double limit = 0;
};

/// For people; the most important kinds of each sort.
void printSearch(llvm::raw_ostream &os, const SearchReport &report);
/// All of it.
[[nodiscard]] llvm::json::Value searchAsJson(const SearchReport &report);

} // namespace dtile::driver
