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
/// Bodies of a space that are compared with those of a rank that corresponds, rounds of their
/// loops, and ranks whose bodies are.
constexpr int64_t kComparedBodies = 5, kComparedRounds = 3, kComparedRanks = 16;
constexpr const char *kNotAlike = "ranks do not do the same in turn";

/// `wanted` numbers below `all`, as far apart as they can be, or all of them.
int64_t sample(int64_t i, int64_t wanted, int64_t all) {
  const int64_t samples = std::min(wanted, all);
  return all / samples * i + all / samples / 2;
}

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
    if (all > kMostCells / count_) {
      fail(plan_.kernelLoc, "signal `" + shape.name + "` has " + std::to_string(cells) +
                                " cells a rank, which are too many for a simulation");
      return false;
    }
  }
  signals_.resize(size_t(count_));
  for (RankSignals &rank : signals_)
    for (const int64_t cells : signalCells_)
      rank.cells.emplace_back(size_t(cells));
  return true;
}

bool Run::start() {
  if (!makeSignals())
    return false;
  const double begin = plan_.meets ? links_.barrier() : 0;
  rankSpaces_.resize(size_t(count_));
  for (int32_t rank = 0; rank < count_; ++rank)
    for (const auto [s, space] : llvm::enumerate(plan_.spaces)) {
      RankSpace &made = rankSpaces_[size_t(rank)].emplace_back();
      made.words = space.wordsOf(symmetry_.rankOf(rank));
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
  if (count_ < plan_.cluster.ranks && !compareRanks())
    return false;
  if (!countNotifies())
    return false;
  for (int32_t rank = 0; rank < count_; ++rank)
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
  const int64_t samples = std::min(count_, kComparedRanks);
  for (const Symmetry::Axis &axis : symmetry_.axes())
    if (axis.isFolded && axis.size > 1)
      for (int64_t i = 0; i < samples; ++i)
        for (const int64_t places : {int64_t(1), axis.size / 2})
          if (!isLike(sample(i, kComparedRanks, count_), axis, places)) {
            fail({}, kNotAlike);
            return false;
          }
  return true;
}

/// Whether the rank that is so many places on along an axis does what a simulated one does.
bool Run::isLike(int64_t rank, const Symmetry::Axis &axis, int64_t places) {
  const int64_t other = Symmetry::moved(axis, symmetry_.rankOf(rank), places);
  for (int32_t s = 0; s < int32_t(plan_.spaces.size()); ++s) {
    const PlannedSpace &space = plan_.spaces[size_t(s)];
    const RankSpace &here = rankSpaces_[size_t(rank)][size_t(s)];
    if (blocksOf(space, space.wordsOf(other)) != here.blocks)
      return false;
    for (int64_t i = 0; i < std::min(here.bodies, kComparedBodies); ++i) {
      Program program;
      program.rank = int32_t(rank);
      program.space = s;
      place(program, sample(i, kComparedBodies, here.bodies));
      (void)wordsAt(program, other);
      std::vector<Word> there = scratch_;
      if (!isSame(rank, space, space.steps.steps, program.words.data(), there.data(), axis, places))
        return false;
    }
  }
  return true;
}

bool Run::isSame(int64_t rank, const PlannedSpace &space, const std::vector<Step> &steps,
                 Word *here, Word *there, const Symmetry::Axis &axis, int64_t places) {
  const auto differ = [&](Slot slot) {
    return slot != kNoSlot && here[slot].integer != there[slot].integer;
  };
  return llvm::all_of(steps, [&](const Step &step) {
    if (differ(step.time) || differ(step.bytes) || differ(step.count) || differ(step.condition))
      return false;
    if (step.peer != kNoSlot && here[step.peer].integer >= 0 &&
        Symmetry::moved(axis, here[step.peer].integer, places) != there[step.peer].integer)
      return false;
    if (step.kind == StepKind::Branch)
      return isSame(rank, space, here[step.condition].integer != 0 ? step.steps : step.otherwise,
                    here, there, axis, places);
    if (step.kind == StepKind::Wait)
      compareWaits(rank, step, here, there, axis, places);
    if (step.kind != StepKind::Loop)
      return true;
    const int64_t rounds = model::blockCount(here[step.first].integer, here[step.end].integer,
                                             here[step.step].integer);
    if (rounds != model::blockCount(there[step.first].integer, there[step.end].integer,
                                    there[step.step].integer))
      return false;
    for (int64_t i = 0; i < std::min(rounds, kComparedRounds); ++i) {
      for (Word *words : {here, there}) {
        words[step.position].integer =
            words[step.first].integer +
            sample(i, kComparedRounds, rounds) * words[step.step].integer;
        space.steps.arithmetic.run(step.level, words);
      }
      if (!isSame(rank, space, step.steps, here, there, axis, places))
        return false;
    }
    return true;
  });
}

/// Notes which cells two corresponding waits read first: they are of corresponding notifies where
/// ranks wait in the same order.
void Run::compareWaits(int64_t rank, const Step &step, const Word *here, const Word *there,
                       const Symmetry::Axis &axis, int64_t places) {
  if (likeness_ != Likeness::Full)
    return;
  ComparedCell other{&axis, places, {}};
  for (const CellRange &range : step.cells)
    other.among.emplace_back(there[range.first].integer, there[range.count].integer);
  (void)eachCell(step, here, [&](int64_t cell) {
    compared_[keyOf(int32_t(rank), step.signal, cell)].push_back(std::move(other));
    return false;
  });
}

/// Whether what tells some cells tells those that were noted for them, as many places on.
bool Run::areToldAlike(Program &program, const Step &step, int64_t to, int64_t teller,
                       llvm::ArrayRef<int64_t> cells) {
  for (const auto [i, cell] : llvm::enumerate(cells)) {
    const auto it = compared_.find(keyOf(int32_t(to), step.signal, cell));
    if (it == compared_.end())
      continue;
    for (const ComparedCell &other : it->second) {
      const Word *words = wordsAt(program, Symmetry::moved(*other.axis, teller, other.places));
      if (failure_)
        return false;
      int64_t told = -1;
      (void)eachCell(
          step, words,
          [&](int64_t number) {
            told = number;
            return false;
          },
          int64_t(i));
      const auto &sizes = signalSizes_[size_t(step.signal)];
      for (size_t d = sizes.size(); d-- > 0; told /= std::max<int64_t>(sizes[d], 1)) {
        const auto [first, count] = other.among[d];
        const int64_t at = told < 0 ? -1 : told % sizes[d];
        if (at < first || at >= first + count)
          return false;
      }
    }
  }
  return true;
}

/// Counts a notify of the cells of `words` at a simulated rank.
bool Run::countCells(Program &program, const Step &step, int64_t to, const Word *words) {
  std::vector<int64_t> cells;
  auto &counts = signals_[size_t(to)].cells[size_t(step.signal)];
  const bool isFine = eachCell(step, words, [&](int64_t cell) {
    ++counts[size_t(cell)].all;
    if (!compared_.empty())
      cells.push_back(cell);
    return true;
  });
  const int64_t peer = program.words[size_t(step.peer)].integer;
  if (isFine && !areToldAlike(program, step, to, symmetry_.sourceOf(rankOf(program), peer), cells))
    fail(step.loc, "ranks do not wait for each other in the same order");
  return isFine && !failure_;
}

bool Run::countNotifies() {
  for (int32_t rank = 0; rank < count_; ++rank)
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
        fail(step.loc, "rank " + std::to_string(rankOf(program)) + " tells rank " +
                           std::to_string(peer) + ", which there is not");
        return false;
      }
      const int64_t to = symmetry_.indexOf(peer);
      const Word *words = wordsOfSource(program, program.words.data(), peer);
      if (failure_ || words[step.peer].integer != symmetry_.rankOf(to)) {
        fail(step.loc, kNotAlike);
        return false;
      }
      if (!countCells(program, step, to, words))
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
    a.run(model::kFirstDimension + int32_t(place), program.words.data());
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
  a.run(model::kRankLevel, words);
  const RankSpace &here = rankSpaces_[size_t(program.rank)][size_t(program.space)];
  const auto blocks = space.order.decode(here.blocks, centersOf(space, scratch_), program.body);
  for (unsigned place = 0; place < blocks.size(); ++place) {
    const unsigned d = space.order.order[place];
    words[space.steps.position[d]].integer =
        words[space.steps.first[d]].integer + blocks[d] * words[space.steps.step[d]].integer;
    a.run(model::kFirstDimension + int32_t(place), words);
  }
  for (const Frame &frame : program.frames)
    if (frame.owner && frame.owner->kind == StepKind::Loop) {
      words[frame.owner->position].integer =
          words[frame.owner->first].integer + frame.round * words[frame.owner->step].integer;
      a.run(frame.owner->level, words);
    } else if (frame.owner && (words[frame.owner->condition].integer != 0) != frame.condition) {
      fail(frame.owner->loc, kNotAlike);
    }
  return words;
}

/// What a rank has at this place that tells the one that stands for `peer` what this program tells
/// `peer`.
const Word *Run::wordsOfSource(Program &program, const Word *words, int64_t peer) {
  if (symmetry_.isOne(peer))
    return words;
  return wordsAt(program, symmetry_.sourceOf(rankOf(program), peer));
}

} // namespace dtile::simulate
