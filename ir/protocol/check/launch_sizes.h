// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which sizes a launch of a kernel chooses, and which values of them are worth a look. Private to
// ir/protocol.
#pragma once

#include "ir/interpret/control_slice.h"
#include "ir/protocol/check/control_reach.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <string>
#include <vector>

namespace dtile::protocol {

/// A size that the arguments of a launch bind, or a scalar argument that decides something.
struct SizeSymbol {
  std::string name;
  /// The dimension that binds it, or the scalar_param.
  const ir::Op *dim = nullptr;
  /// The dimension is this many times the size; null for once.
  const ir::Value *factor = nullptr;
  /// Block sizes that cut it, ascending.
  std::vector<int64_t> steps;
  /// Numbers that assertions about the launch compare it with, and what they divide it by.
  std::vector<int64_t> asserted;
  /// It is divided among the ranks somewhere.
  bool isShared = false;
  /// Ranks are divided by it, or W is a product with it: how many places an axis has.
  bool isAxis = false;
  /// Values with which positions go beyond the kernel's own numbers, ascending.
  std::vector<int64_t> reached;
};

/// A value for each symbol, in their order.
using SizeValues = std::vector<int64_t>;

/// The sizes of one kernel.
class LaunchSizes {
public:
  LaunchSizes(ir::Op &kernel, const interpret::ControlSlice &slice);

  [[nodiscard]] const std::vector<SizeSymbol> &symbols() const { return symbols_; }
  /// How many of the sizes that matter: a few; those around the blocks that cut a dimension; those
  /// beyond the kernel's own numbers as well.
  enum class Choice : uint8_t { Few, AroundBlocks, All };
  /// Combinations of values for a number of ranks, the most telling first, and those that the
  /// kernel's assertions leave out last.
  [[nodiscard]] std::vector<SizeValues> choose(int ranks, Choice choice) const;
  /// The values with other ones for the sizes of axes: all that divide the ranks and are allowed.
  /// Those that make most axes longer than 1 come first, as they show most. Empty without axes.
  [[nodiscard]] std::vector<SizeValues> withAxes(int ranks, SizeValues values) const;
  /// The values; where clauses forbid them, sizes other than `kept` give way to others, as small
  /// ones as they can be.
  [[nodiscard]] SizeValues allowed(int ranks, const SizeValues &values,
                                   llvm::ArrayRef<size_t> kept) const;
  /// Whether the kernel's assertions allow some small sizes with so many ranks.
  [[nodiscard]] bool isAnyAllowed(int ranks) const;
  /// What else the kernel's own numbers ask for.
  [[nodiscard]] const ControlReach &reach() const { return reach_; }
  /// Combinations of values for a number of ranks, the most telling first.
  [[nodiscard]] std::vector<SizeValues> choose(int ranks, bool isQuick) const;
  /// What a value of the launch is; nothing where it is not known.
  [[nodiscard]] std::optional<int64_t> valueOf(const ir::Value *value, int ranks,
                                               const SizeValues &values) const {
    Known known;
    return evaluate(value, ranks, values, known);
  }
  /// What values are, as far as somebody has said or found.
  using Known = llvm::DenseMap<const ir::Value *, std::optional<int64_t>>;
  /// The same with some values that are known, to which it adds.
  std::optional<int64_t> valueOf(const ir::Value *value, int ranks, const SizeValues &values,
                                 Known &known) const {
    return evaluate(value, ranks, values, known);
  }
  /// Whether the kernel's assertions about launches allow it, as far as they can be evaluated.
  [[nodiscard]] bool isAllowed(int ranks, const SizeValues &values) const;
  /// Whether the number of a tile space's bodies depends on a size.
  [[nodiscard]] bool decidesBodies(const ir::Op &space, const SizeSymbol &symbol) const;
  /// The sizes of a tensor parameter; nothing where they cannot be known.
  [[nodiscard]] std::optional<std::vector<int64_t>> sizesOf(const ir::Op &param, int ranks,
                                                            const SizeValues &values) const;

private:
  std::optional<int64_t> evaluate(const ir::Value *value, int ranks, const SizeValues &values,
                                  Known &known) const;
  std::optional<int64_t> evaluateOp(const ir::Op &op, int ranks, const SizeValues &values,
                                    Known &known) const;
  [[nodiscard]] bool dependsOn(const ir::Value *value, const ir::Op *dim) const;
  void findSteps(ir::Op &kernel, const interpret::ControlSlice &slice);
  void findAsserted(const ir::Op &assertion);
  [[nodiscard]] std::vector<int64_t> candidates(const SizeSymbol &symbol, int ranks,
                                                bool isQuick) const;

  /// Allowed values of a scalar at and beside what clauses compare it with.
  [[nodiscard]] std::vector<int64_t> edges(size_t symbol, int ranks, const SizeValues &usual) const;
  /// The values, of which some, but not `kept`, give way to other candidates where clauses forbid
  /// them so: 0 last, as without bodies nothing shows.
  [[nodiscard]] SizeValues allowed(int ranks, const SizeValues &values,
                                   llvm::ArrayRef<std::vector<int64_t>> candidates,
                                   llvm::ArrayRef<size_t> kept) const;
  [[nodiscard]] std::vector<SizeValues> combinations(int ranks, Choice choice) const;
  void findAxes(const ir::Op &op);
  [[nodiscard]] std::vector<SizeValues> search(int ranks) const;

  std::vector<SizeSymbol> symbols_;
  ControlReach reach_;
  std::vector<const ir::Op *> assertions_;
};

} // namespace dtile::protocol
