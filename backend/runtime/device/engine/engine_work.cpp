// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lists of copies: rows with equal distances are one, and lists that are not worth their time, one
// by one, are refused.
#include "backend/runtime/device/engine/engine_work.h"

#include <algorithm>

namespace dtile::runtime {

namespace {

/// Bytes of a row of several: copy engines move narrow ones element by element.
constexpr int64_t kLeastRowBytes = 128;
/// Bytes from a row to the next one that the driver can be told.
constexpr int64_t kMostPitch = INT32_MAX;

bool isPitch(int64_t stride, int64_t rowBytes) {
  return stride >= rowBytes && stride <= kMostPitch;
}

} // namespace

void EngineWork::refuse(std::string why) {
  if (!refusal_.empty())
    return;
  refusal_ = std::move(why);
  copies_.clear();
  arrivals_.clear();
}

void EngineWork::add(const DeviceCopy &copy) {
  if (!refusal_.empty())
    return;
  copies_.push_back(copy);
  bytes_ += copy.rowBytes * copy.rows;
  if (copies_.size() > kMostCopies)
    refuse(format("it would make more than %zu copies", kMostCopies));
}

void EngineWork::put(DeviceAddress to, DeviceAddress from, const RunPlan &runs,
                     const dtile_site &site) {
  if (runs.runBytes == 0 || !refusal_.empty())
    return;
  const auto isHere = [&](const Place &place) {
    return place.file == site.file && place.line == site.line && place.column == site.column;
  };
  auto found = std::find_if(places_.begin(), places_.end(), isHere);
  if (found == places_.end())
    found = places_.insert(found, {site.file, site.line, site.column});
  place_ = int32_t(found - places_.begin());
  if (runs.ndim > 0 && runs.runBytes < kLeastRowBytes)
    return refuse(
        format("rows of %lld bytes are too narrow", static_cast<long long>(runs.runBytes)));
  // The innermost distance is the driver's, the others take a copy each.
  RunPlan outer = runs;
  DeviceCopy copy = {.rowBytes = runs.runBytes};
  if (const int32_t last = runs.ndim - 1; last >= 0 && isPitch(runs.strideA[last], runs.runBytes) &&
                                          isPitch(runs.strideB[last], runs.runBytes)) {
    copy.rows = runs.count[last];
    copy.fromPitch = runs.strideA[last];
    copy.toPitch = runs.strideB[last];
    outer.ndim = last;
  }
  forEachRun(outer, [&](int64_t a, int64_t b) {
    copy.from = from + DeviceAddress(a);
    copy.to = to + DeviceAddress(b);
    add(copy);
  });
}

void EngineWork::notify(DeviceAddress to, DeviceAddress word, const Arrival &arrival) {
  add({.to = to, .from = word, .rowBytes = int64_t(sizeof(uint64_t))});
  if (!refusal_.empty())
    return;
  arrivals_.push_back(arrival);
  arrivals_.back().place = place_;
}

} // namespace dtile::runtime
