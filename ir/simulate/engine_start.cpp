// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sets a simulation up: cells, spaces, programs, how many notifies each cell gets, whether ranks
// correspond; and computes what a body does, on its own rank and on one that corresponds.
#include "ir/simulate/engine.h"

#include "ir/model/launch_sizes.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::simulate {

llvm::SmallVector<int64_t, 4> blocksOf(const PlannedSpace &space, const std::vector<Word> &words) {
  llvm::SmallVector<int64_t, 4> blocks;
  for (size_t d = 0; d < space.steps.first.size(); ++d)
    blocks.push_back(model::blockCount(words[size_t(space.steps.first[d])].integer,
                                       words[size_t(space.steps.end[d])].integer,
                                       words[size_t(space.steps.step[d])].integer));
  return blocks;
}

namespace {

/// What the dimensions of a space are turned about, on the rank of `words`.
llvm::SmallVector<int64_t, 4> centersOf(const PlannedSpace &space, const std::vector<Word> &words) {
  llvm::SmallVector<int64_t, 4> centers;
  for (const Slot center : space.steps.center)
    centers.push_back(words[size_t(center)].integer);
  return centers;
}

/// Cells of all ranks that are simulated.
constexpr int64_t kMostCells = int64_t(1) << 27;
/// Bodies of a space that are compared with those of a rank that corresponds.
constexpr int64_t kComparedBodies = 5;

} // namespace

// ---- Setting up ----

bool Run::makeSignals() {
  if (plan_.spaces.empty())
    return true;
  const PlannedSpace &space = plan_.spaces.front();
  int64_t all = 0;
  for (const SignalShape &shape : space.signals) {
    auto &sizes = signalSizes_.emplace_back();
    int64_t cells = 1;
    for (const Slot size : shape.sizes) {
      sizes.push_back(std::max<int64_t>(space.launchWords[size_t(size)].integer, 0));
      if (__builtin_mul_overflow(cells, sizes.back(), &cells))
        cells = INT64_MAX / 2;
    }
    signalCells_.push_back(cells);
    mostCells_ = std::max(mostCells_, cells);
    all += std::min(cells, kMostCells + 1);
    if (all > kMostCells / period_) {
      fail(plan_.kernelLoc, "signal `" + shape.name + "` has " + std::to_string(cells) +
                                " cells a rank, which are too many for a simulation");
      return false;
    }
  }
  signals_.resize(size_t(period_));
  for (RankSignals &rank : signals_)
    for (const int64_t cells : signalCells_)
      rank.cells.emplace_back(size_t(cells));
  return true;
}

bool Run::start() {
  if (!makeSignals())
    return false;
  const double begin = plan_.meets ? links_.barrier() : 0;
  rankSpaces_.resize(size_t(period_));
  for (int32_t rank = 0; rank < period_; ++rank)
    for (const auto [s, space] : llvm::enumerate(plan_.spaces)) {
      RankSpace &made = rankSpaces_[size_t(rank)].emplace_back();
      made.words = space.wordsOf(rank);
      made.blocks = blocksOf(space, made.words);
      made.bodies = 1;
      for (const int64_t blocks : made.blocks)
        made.bodies *= blocks;
      made.left = made.bodies;
      made.end = begin;
    }
  for (const auto [s, space] : llvm::enumerate(plan_.spaces))
    times_.push_back(
        {.name = space.steps.name, .programs = plan_.shares.first[s + 1] - plan_.shares.first[s]});
  if (period_ < plan_.cluster.ranks && !compareRanks())
    return false;
  if (!countNotifies())
    return false;
  for (int32_t rank = 0; rank < period_; ++rank)
    for (int32_t s = 0; s < int32_t(plan_.spaces.size()); ++s) {
      const int32_t first = plan_.shares.first[size_t(s)];
      for (int32_t p = first; p < plan_.shares.first[size_t(s) + 1]; ++p) {
        Program &program = programs_.emplace_back();
        program.rank = rank;
        program.number = p;
        program.space = s;
        program.place = p - first;
        program.time = program.landed = program.known = program.epilogue = begin;
      }
    }
  for (int32_t i = 0; i < int32_t(programs_.size()); ++i)
    push(i);
  return true;
}

/// Samples: bodies of a rank take as long as those of a rank that corresponds, and send the same.
bool Run::compareRanks() {
  const int64_t ranks = plan_.cluster.ranks;
  const int64_t shift = ranks / period_ / 2 * period_;
  for (int32_t s = 0; s < int32_t(plan_.spaces.size()); ++s) {
    const PlannedSpace &space = plan_.spaces[size_t(s)];
    const RankSpace &here = rankSpaces_[0][size_t(s)];
    const std::vector<Word> there = space.wordsOf(shift);
    if (blocksOf(space, there) != here.blocks) {
      fail({}, "ranks have other numbers of bodies");
      return false;
    }
    const int64_t samples = std::min(here.bodies, kComparedBodies);
    for (int64_t i = 0; i < samples; ++i) {
      Program program;
      program.space = s;
      place(program, here.bodies / samples * i + here.bodies / samples / 2);
      const Word *other = wordsAt(program, shift);
      if (!isSame(space.steps.steps, program.words.data(), other, shift)) {
        fail({}, "ranks do not do the same in turn");
        return false;
      }
    }
  }
  return true;
}

bool Run::isSame(const std::vector<Step> &steps, const Word *here, const Word *there,
                 int64_t shift) {
  for (const Step &step : steps) {
    const auto differ = [&](Slot slot) {
      return slot != kNoSlot && here[slot].integer != there[slot].integer;
    };
    if (differ(step.time) || differ(step.bytes) || differ(step.count))
      return false;
    if (step.peer != kNoSlot &&
        (here[step.peer].integer + shift) % plan_.cluster.ranks != there[step.peer].integer)
      return false;
    // Of a loop's steps, what they are at no position says nothing.
    if (step.kind == StepKind::Branch &&
        here[step.condition].integer != there[step.condition].integer)
      return false;
  }
  return true;
}

bool Run::countNotifies() {
  for (int32_t rank = 0; rank < period_; ++rank)
    for (int32_t s = 0; s < int32_t(plan_.spaces.size()); ++s) {
      if (!plan_.spaces[size_t(s)].steps.hasNotifies)
        continue;
      Program program;
      program.rank = rank;
      program.space = s;
      const int64_t bodies = rankSpaces_[size_t(rank)][size_t(s)].bodies;
      for (int64_t body = 0; body < bodies; ++body) {
        place(program, body);
        if (!countSteps(program, plan_.spaces[size_t(s)].steps.steps))
          return false;
      }
    }
  return true;
}

bool Run::countSteps(Program &program, const std::vector<Step> &steps) {
  for (const Step &step : steps) {
    switch (step.kind) {
    case StepKind::Notify: {
      const int64_t peer = program.words[size_t(step.peer)].integer;
      if (peer < 0 || peer >= plan_.cluster.ranks) {
        fail(step.loc, "rank " + std::to_string(program.rank) + " tells rank " +
                           std::to_string(peer) + ", which there is not");
        return false;
      }
      const int64_t to = peer % period_, shift = peer - to;
      const Word *words = program.words.data();
      if (shift != 0) {
        const int64_t ranks = plan_.cluster.ranks;
        words = wordsAt(program, (program.rank - shift + ranks) % ranks);
        if (failure_ || words[step.peer].integer != to) {
          fail(step.loc, "ranks do not tell the same in turn");
          return false;
        }
      }
      auto &cells = signals_[size_t(to)].cells[size_t(step.signal)];
      if (!eachCell(step, words, [&](int64_t cell) {
            ++cells[size_t(cell)].all;
            return true;
          }))
        return false;
      break;
    }
    case StepKind::Branch:
      program.frames.push_back({.steps = nullptr,
                                .owner = &step,
                                .condition = program.words[size_t(step.condition)].integer != 0});
      if (!countSteps(program, program.frames.back().condition ? step.steps : step.otherwise))
        return false;
      program.frames.pop_back();
      break;
    case StepKind::Loop: {
      const Word *w = program.words.data();
      Frame frame = {.owner = &step,
                     .position = w[step.first].integer,
                     .end = w[step.end].integer,
                     .step = std::max<int64_t>(w[step.step].integer, 1)};
      for (; frame.position < frame.end; frame.position += frame.step, ++frame.round) {
        program.frames.push_back(frame);
        advanceLoop(plan_.spaces[size_t(program.space)], program, frame);
        if (!countSteps(program, step.steps))
          return false;
        program.frames.pop_back();
      }
      break;
    }
    default:
      break;
    }
  }
  return true;
}

// ---- Bodies ----

/// Puts a program at the start of a body.
void Run::place(Program &program, int64_t body) {
  const PlannedSpace &space = plan_.spaces[size_t(program.space)];
  const RankSpace &here = rankSpaces_[size_t(program.rank)][size_t(program.space)];
  const Arithmetic &a = space.steps.arithmetic;
  program.body = body;
  const auto blocks = space.order.decode(here.blocks, centersOf(space, here.words), body);
  // From the first dimension that is another one on, all is computed anew.
  unsigned changed = 0;
  if (program.isFresh) {
    program.words = here.words;
    program.isFresh = false;
  } else {
    while (changed < blocks.size() &&
           blocks[space.order.order[changed]] == program.blocks[space.order.order[changed]])
      ++changed;
  }
  for (unsigned place = changed; place < blocks.size(); ++place) {
    const unsigned d = space.order.order[place];
    program.words[size_t(space.steps.position[d])].integer =
        program.words[size_t(space.steps.first[d])].integer +
        blocks[d] * program.words[size_t(space.steps.step[d])].integer;
    a.run(kFirstDimension + int32_t(place), program.words.data());
  }
  program.blocks = blocks;
  program.frames.clear();
}

void Run::advanceLoop(const PlannedSpace &space, Program &program, const Frame &frame) {
  program.words[size_t(frame.owner->position)].integer = frame.position;
  space.steps.arithmetic.run(frame.owner->level, program.words.data());
}

/// The same place of the same body, on another rank; null where that rank is not there.
const Word *Run::wordsAt(Program &program, int64_t rank) {
  const PlannedSpace &space = plan_.spaces[size_t(program.space)];
  const Arithmetic &a = space.steps.arithmetic;
  scratch_ = space.launchWords;
  Word *words = scratch_.data();
  words[a.rank()].integer = rank;
  a.run(kRankLevel, words);
  const RankSpace &here = rankSpaces_[size_t(program.rank)][size_t(program.space)];
  const auto blocks = space.order.decode(here.blocks, centersOf(space, scratch_), program.body);
  for (unsigned place = 0; place < blocks.size(); ++place) {
    const unsigned d = space.order.order[place];
    words[space.steps.position[d]].integer =
        words[space.steps.first[d]].integer + blocks[d] * words[space.steps.step[d]].integer;
    a.run(kFirstDimension + int32_t(place), words);
  }
  for (const Frame &frame : program.frames)
    if (frame.owner && frame.owner->kind == StepKind::Loop) {
      words[frame.owner->position].integer =
          words[frame.owner->first].integer + frame.round * words[frame.owner->step].integer;
      a.run(frame.owner->level, words);
    } else if (frame.owner && (words[frame.owner->condition].integer != 0) != frame.condition) {
      fail(frame.owner->loc, "ranks do not decide the same in turn");
    }
  return words;
}

} // namespace dtile::simulate
