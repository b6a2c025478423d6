// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What pass bound-drift has found of a kernel, in words that fit the kernel with other constants.
#pragma once

#include "llvm/ADT/StringMap.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtile::passes {

/// Whether the kernel's own waits keep ranks together (protocol::DriftBound).
struct DriftAnswer {
  bool isBounded = false;
  /// The same with one more space that waits for all notifies, where sizes are needed.
  bool isBoundedTogether = false;
  bool readsStale = false;
  std::string reason;
  /// Parameter and dimension of each size that is needed.
  std::vector<std::pair<int64_t, int64_t>> needed;
  /// Parameters that go in turn.
  std::vector<int64_t> inTurn;
  friend bool operator==(const DriftAnswer &, const DriftAnswer &) = default;
};

/// What was proved of kernels, by their text: one that is made again, to be tried and then to be
/// built, is not proved again. Several threads may use it.
class DriftMemory {
public:
  [[nodiscard]] std::optional<DriftAnswer> find(llvm::StringRef kernel) const {
    const std::lock_guard lock(mutex_);
    const auto it = answers_.find(kernel);
    return it == answers_.end() ? std::nullopt : std::optional(it->second);
  }
  void add(llvm::StringRef kernel, const DriftAnswer &answer) {
    const std::lock_guard lock(mutex_);
    answers_[kernel] = answer;
  }

  [[nodiscard]] size_t size() const {
    const std::lock_guard lock(mutex_);
    return answers_.size();
  }

private:
  mutable std::mutex mutex_;
  llvm::StringMap<DriftAnswer> answers_;
};

} // namespace dtile::passes
