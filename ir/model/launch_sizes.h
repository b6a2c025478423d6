// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of one launch, and what follows from them: the domain of BodyTime in which all numbers are
// known now.
#pragma once

#include "ir/core/ir.h"
#include "ir/model/op_cost.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace dtile::model {

/// The sizes that arguments determine, in the order of the parameters and their dimensions; their
/// hints are the sizes' names. Of an argument of W * S rows that is S. Sizes that are only compared
/// with others are not among them.
[[nodiscard]] llvm::SmallVector<ir::Value *, 8> freeSizes(ir::Op &kernel);

/// Whether a space has a body, or several, for each single position below a size: of sequences or
/// heads there are tens, where there are thousands of what is cut into blocks. A space of nothing
/// else does not count: it may be one of tokens.
[[nodiscard]] bool isCounted(ir::Op &kernel, ir::Value &size);

/// What is known of a launch on rank 0.
class LaunchSizes {
public:
  using Number = double;
  explicit LaunchSizes(int64_t ranks) : ranks_(ranks) {}

  /// Gives a value a number: a size, or the position of a body.
  void set(ir::Value &value, int64_t number);
  /// A number that follows from what was set, integers as the IR computes them; what is read from
  /// memory is as large as the kernel says that it may be (promised_limit.h).
  [[nodiscard]] std::optional<int64_t> number(ir::Value &value);

  // ---- The domain ----
  [[nodiscard]] static double real(double x) { return x; }
  [[nodiscard]] static double add(double x, double y) { return x + y; }
  [[nodiscard]] static double mul(double x, double y) { return x * y; }
  [[nodiscard]] static double larger(double x, double y) { return std::max(x, y); }
  [[nodiscard]] static double smaller(double x, double y) { return std::min(x, y); }
  [[nodiscard]] double select(ir::Value &condition, double then, double otherwise) {
    return number(condition).value_or(1) != 0 ? then : otherwise;
  }
  [[nodiscard]] bool isKnown(ir::Value &value);
  [[nodiscard]] double rounds(ir::Op &loop, int64_t together);
  [[nodiscard]] double bytesOfView(ir::Value &view);
  /// What is not known is taken to be aligned.
  [[nodiscard]] double byRowStart(ir::Op &load, const ByRowStart &numbers);
  [[nodiscard]] double unlessOwn(ir::Value &peer, double bytes) {
    return number(peer).value_or(1) == 0 ? 0 : bytes;
  }

private:
  using Extents = llvm::SmallVector<int64_t, 4>;
  [[nodiscard]] std::optional<int64_t> compute(ir::Op &op);
  [[nodiscard]] std::optional<Extents> extents(ir::Value &view);
  [[nodiscard]] std::optional<Extents> cut(ir::Op &slice);

  int64_t ranks_;
  llvm::DenseMap<ir::Value *, int64_t> set_;
  /// What follows from them, as far as it was asked for.
  llvm::DenseMap<ir::Value *, std::optional<int64_t>> computed_;
};

/// Blocks of `step` in [first, end); 0 where there are none.
[[nodiscard]] int64_t blockCount(int64_t first, int64_t end, int64_t step);

} // namespace dtile::model
