// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the readers of both formats share: their limits, messages, and the events of an algorithm.
#pragma once

#include "frontend/base/diagnostics.h"
#include "frontend/import/algorithm.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace dtile::imported {

// More than any published algorithm has; a file that asks for more is refused before it takes
// memory.
inline constexpr int64_t kMaxRanks = 64;
inline constexpr int64_t kMaxChunks = 4096;
inline constexpr size_t kMaxSteps = 50'000;
inline constexpr int64_t kMaxBlocks = 200;

/// One reading of a file.
struct Reader {
  FileId file;
  const SourceManager &sources;
  Diagnostics &diags;

  [[nodiscard]] SourceRange range(size_t begin, size_t end) const {
    return {sources.locAt(file, uint32_t(begin)), sources.locAt(file, uint32_t(end))};
  }
};

/// The collective of a name as files write it, as `allreduce` or `reduce_scatter`.
[[nodiscard]] std::optional<Collective> collectiveOf(llvm::StringRef name);

/// How many chunks an output has for so many of the input, or nothing where the input cannot have
/// so many.
[[nodiscard]] std::optional<int64_t> outputChunksOf(Collective collective, int64_t inputChunks,
                                                    int64_t ranks);

/// Gives input and output of an algorithm in place one name: the larger of both.
[[nodiscard]] Region inOneBuffer(const Algorithm &algorithm, Region region);

/// A new event.
[[nodiscard]] int addEvent(Algorithm &algorithm, EventKind kind, int rank, int64_t count = 1);

/// Finds the root of a broadcast, and steps that wait for themselves. False after reporting.
[[nodiscard]] bool finish(Algorithm &algorithm, Reader &reader);

/// The algorithm of an XML file of MSCCL.
[[nodiscard]] std::optional<Algorithm> readMsccl(Reader &reader);
/// The algorithm of a JSON plan of MSCCL++.
[[nodiscard]] std::optional<Algorithm> readPlan(Reader &reader);

} // namespace dtile::imported
