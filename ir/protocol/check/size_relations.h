// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes for which what a kernel compares comes out differently: `M == 3 * N + 7` is true for few of
// them. Private to ir/protocol.
#pragma once

#include "ir/protocol/check/launch_sizes.h"

namespace dtile::protocol {

/// What a kernel compares, of which sizes or scalars of the launch are part.
class SizeRelations {
public:
  /// Of comparisons, and of bounds of loops, that the slice needs.
  SizeRelations(ir::Op &kernel, const interpret::ControlSlice &slice, const LaunchSizes &sizes);

  /// More choices: relations come out in combinations in which they do for none of the given ones.
  /// Each has one value of a choice changed, or two where one solves no equation. It may be one
  /// that was found so itself, as what is under two conditions needs both.
  [[nodiscard]] std::vector<SizeValues> solve(int ranks, llvm::ArrayRef<SizeValues> choices) const;

private:
  struct Relation {
    const ir::Value *left = nullptr;
    const ir::Value *right = nullptr;
    /// Positions in the symbols of the launch.
    std::vector<size_t> symbols;
    /// Numbers of tiles and iterations that are part of it, outer ones first, and ranks.
    std::vector<const ir::Value *> variables;
  };
  /// Where numbers of tiles, of iterations and of ranks are.
  enum class End : uint8_t { First, Last };

  /// For each relation and end, which side is larger: -1, 0, 1, or nothing where none is compared.
  using Outcome = std::vector<std::optional<int>>;

  void add(const ir::Value *left, const ir::Value *right);
  [[nodiscard]] bool addParts(const ir::Value *value, Relation &relation) const;
  [[nodiscard]] Outcome outcome(int ranks, const SizeValues &values) const;
  [[nodiscard]] std::optional<int64_t> difference(const Relation &relation, End end, int ranks,
                                                  const SizeValues &values) const;
  [[nodiscard]] std::vector<int64_t> turns(const Relation &relation, End end, int ranks,
                                           const SizeValues &base, size_t symbol,
                                           int64_t &work) const;
  [[nodiscard]] std::optional<SizeValues> solveWithTwo(const Relation &relation, End end, int ranks,
                                                       const SizeValues &base, int64_t &work) const;

  const LaunchSizes &sizes_;
  std::vector<Relation> relations_;
};

} // namespace dtile::protocol
