// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to ir/simulate: what a simulation has in memory.
#pragma once

#include "ir/core/tile_order.h"
#include "ir/simulate/simulation.h"

#include <array>
#include <memory>

namespace dtile::simulate {

inline constexpr double kNever = -1;

/// Cells of one signal of one rank.
struct Cell {
  /// When the last notify so far arrived.
  double ready = 0;
  int32_t got = 0;
  /// Notifies of the whole launch.
  int32_t all = 0;
};

/// A place in the steps of a body.
struct Frame {
  const std::vector<Step> *steps = nullptr;
  uint32_t at = 0;
  /// The loop or branch whose steps these are; null for the body.
  const Step *owner = nullptr;
  int64_t position = 0, end = 0, step = 1;
  int64_t round = 0;
  /// Of a branch.
  bool condition = false;
};

/// One program of one rank.
struct Program {
  /// The number of its rank among those that are simulated.
  int32_t rank = 0;
  int32_t number = 0;
  /// The space that it is in, and its place among that space's own programs; -1: a guest.
  int32_t space = 0;
  int32_t place = 0;
  int64_t body = -1;
  double time = 0;
  /// When what the body has put has landed, and when the program may know it.
  double landed = 0, known = 0;
  /// Messages of it that are on their way between hosts, and to whom the last one goes.
  int32_t flights = 0;
  int64_t flightPeer = -1;
  /// It goes on when these have landed.
  bool isLanding = false;
  /// When the epilogue warp is free.
  double epilogue = 0;
  /// Of a wait: the cells before this one are complete, and were at that time.
  int64_t cursor = 0;
  double ready = 0;
  double parkedAt = kNever;
  bool isFresh = true;
  std::vector<Word> words;
  llvm::SmallVector<int64_t, 4> blocks;
  llvm::SmallVector<Frame, 4> frames;
};

/// A message on its way between hosts.
struct Flight {
  int32_t program = -1;
  int32_t space = 0;
  /// Numbers of ranks among those that are simulated.
  int32_t from = 0, to = 0;
  double bytes = 0;
  double start = 0, end = 0;
  /// Of a notify: the signal, and its cells at `to`.
  int32_t signal = -1;
  std::vector<int64_t> cells;
  /// For who records events.
  Event event;
};

/// A space on one rank.
struct RankSpace {
  /// With sizes and the rank known.
  std::vector<Word> words;
  llvm::SmallVector<int64_t, 4> blocks;
  int64_t bodies = 0;
  int64_t next = 0;
  /// Bodies that have not ended, and messages of theirs that have not landed.
  int64_t left = 0;
  double end = 0;
  /// Programs that wait for its end.
  std::vector<int32_t> gate;
};

/// Signals of one rank.
struct RankSignals {
  std::vector<std::vector<Cell>> cells;
};

} // namespace dtile::simulate
