// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts thread blocks of different ranks side by side, and numbers the cells of signals and the
// places of boxes. Where ranks do the same with other peers, equal numbers on all of them make one
// text out of what they do.
#include "frontend/import/algorithm.h"

#include "llvm/ADT/STLExtras.h"

#include <array>
#include <limits>
#include <tuple>

namespace dtile::imported {

namespace {

int64_t distance(const ThreadBlock &block, int ranks, BlockOrder order) {
  if (order == BlockOrder::AsWritten)
    return 0;
  // Blocks that talk to nobody come last.
  if (block.peer < 0)
    return std::numeric_limits<int64_t>::max();
  return order == BlockOrder::ByBits ? block.peer ^ block.rank
                                     : (block.peer - block.rank + ranks) % ranks;
}

} // namespace

void arrange(Algorithm &algorithm, BlockOrder order) {
  llvm::stable_sort(algorithm.blocks, [&](const ThreadBlock &a, const ThreadBlock &b) {
    return std::tuple(a.rank, distance(a, algorithm.ranks, order), a.id) <
           std::tuple(b.rank, distance(b, algorithm.ranks, order), b.id);
  });
  // What is waited for first has the first number. A packet has that of its chunk.
  for (Event &event : algorithm.events)
    if (event.kind != EventKind::Packet)
      event.index = -1;
  std::vector<std::array<int64_t, kEventKinds>> next(size_t(algorithm.ranks));
  for (const ThreadBlock &block : algorithm.blocks)
    for (const Step &step : block.steps)
      for (const int number : step.waits) {
        Event &event = algorithm.events[size_t(number)];
        if (event.index >= 0)
          continue;
        int64_t &count = next[size_t(event.rank)][size_t(event.kind)];
        event.index = count;
        count += event.count;
      }
}

} // namespace dtile::imported
