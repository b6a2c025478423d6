// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A collective algorithm as a foreign file tells it: for each rank, thread blocks of steps that
// wait, add up chunks, store the sum and notify. Both file formats are read into this form.
#pragma once

#include "frontend/base/source_manager.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtile::imported {

enum class Collective : uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast };

/// Input, output and scratch are the file's. A box holds what a rank was sent and has not taken
/// yet: the queue of a connection, with a place of its own for each message.
enum class Buffer : uint8_t { Input, Output, Scratch, Box };

/// Chunks of a buffer of a rank. In a box, those of the message `event`.
struct Region {
  Buffer buffer = Buffer::Input;
  int rank = 0;
  int64_t index = 0;
  int64_t count = 1;
  /// Of a box only: which of Algorithm::events fills it.
  int event = -1;
};

/// Why a step waits for others.
enum class EventKind : uint8_t {
  /// A message of a connection is in its box.
  Sent,
  /// A step of another thread block of the rank is over.
  Passed,
  /// A signal of a channel, or of a semaphore.
  Signal,
  /// A barrier of thread blocks of one rank.
  Met,
  /// A chunk of scratch was written as packets, which tell their reader themselves.
  Packet,
};
inline constexpr int kEventKinds = 5;

/// Something that steps notify and one rank waits for: a cell of a signal.
struct Event {
  EventKind kind = EventKind::Sent;
  /// The rank that waits.
  int rank = 0;
  /// Chunks of its message, of Sent.
  int64_t count = 1;
  /// The number of its cell; a packet's is the chunk of scratch.
  int64_t index = -1;
};

/// What a thread block does at once: waits, adds up sources in their order, stores the sum to each
/// target, then notifies.
struct Step {
  SourceRange place;
  std::vector<int> waits;
  std::vector<Region> sources;
  std::vector<Region> targets;
  std::vector<int> notifies;
};

struct ThreadBlock {
  SourceRange place;
  int rank = 0;
  int64_t id = 0;
  /// The rank that it sends to, else the one that it hears from, else -1: what tells blocks apart
  /// that do the same on different ranks.
  int peer = -1;
  std::vector<Step> steps;
};

struct Algorithm {
  std::string name;
  SourceRange place;
  /// What the file says of itself, for the head of the program.
  std::string format;
  Collective collective = Collective::AllReduce;
  /// Of a broadcast.
  int root = 0;
  int ranks = 0;
  /// Input and output are one buffer; regions of both then name the larger one.
  bool inPlace = false;
  int64_t inputChunks = 0;
  int64_t outputChunks = 0;
  int64_t scratchChunks = 0;
  std::vector<Event> events;
  std::vector<ThreadBlock> blocks;
};

/// How thread blocks of different ranks are put side by side.
enum class BlockOrder : uint8_t {
  AsWritten,
  /// By the distance of the peer around the ring of ranks.
  ByDistance,
  /// By the bits in which rank and peer differ.
  ByBits,
};
inline constexpr BlockOrder kBlockOrders[] = {BlockOrder::AsWritten, BlockOrder::ByDistance,
                                              BlockOrder::ByBits};

/// Sorts the blocks of each rank and numbers cells and boxes in that order.
void arrange(Algorithm &algorithm, BlockOrder order);

/// The name of its kernel, which no keyword and no function has: it ends in the number of ranks.
[[nodiscard]] std::string nameOf(const Algorithm &algorithm);

/// The text of the plan of an all-gather; "" where it has none: chunks are not where they belong in
/// the end, or those of one rank go different ways.
[[nodiscard]] std::string writePlan(const Algorithm &algorithm);

/// The program text of an arranged algorithm.
[[nodiscard]] std::string writeProgram(const Algorithm &algorithm);

} // namespace dtile::imported
