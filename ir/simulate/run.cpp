// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulation itself: programs in the order of time. A program runs until it has to wait for a
// cell that is not complete, or is about to use a link at a time at which another program may come
// before it.
#include "ir/simulate/engine.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::simulate {

// ---- Running ----

std::variant<Outcome, Failure> Run::run() {
  if (!start())
    return *failure_;
  while (!queue_.empty() && !failure_) {
    const Due due = queue_.top();
    queue_.pop();
    if (due.program >= 0)
      execute(due.program);
    else
      land(-1 - due.program);
  }
  if (failure_)
    return *failure_;
  for (const auto &spaces : rankSpaces_)
    for (const RankSpace &space : spaces)
      if (space.left > 0)
        return standstill();
  return outcome();
}

/// What a program that cannot go on waits for.
Failure Run::standstill() const {
  for (const Program &p : programs_)
    if (p.parkedAt != kNever && !p.frames.empty()) {
      const Frame &frame = p.frames.back();
      const SourceLoc loc =
          frame.at < frame.steps->size() ? (*frame.steps)[frame.at].loc : SourceLoc();
      return {loc, "rank " + std::to_string(rankOf(p)) +
                       " waits here for what no rank tells it: the launch does not end"};
    }
  return {plan_.kernelLoc, "the launch does not end"};
}

/// Takes the next body for a program; false where there is none, or it has to wait.
bool Run::nextBody(Program &program, int32_t index) {
  while (program.space < int32_t(plan_.spaces.size())) {
    const auto s = size_t(program.space);
    const PlannedSpace &space = plan_.spaces[s];
    RankSpace &here = spaceOf(program);
    if (space.after >= 0 && here.next < here.bodies) {
      RankSpace &before = rankSpaces_[size_t(program.rank)][size_t(space.after)];
      if (before.left > 0) {
        program.parkedAt = program.time;
        before.gate.push_back(index);
        return false;
      }
      if (before.end > program.time) {
        times_[s].waited += before.end - program.time;
        program.time = before.end;
      }
    }
    // Spaces that guests may enter deal out bodies in order, others every so many-th.
    int64_t body = -1;
    const int64_t own = plan_.shares.first[s + 1] - plan_.shares.first[s];
    if (plan_.shares.shares[s] || program.place < 0)
      body = here.next < here.bodies ? here.next : -1;
    else
      body = program.body < 0 ? program.place : program.body + own;
    if (body >= 0 && body < here.bodies) {
      ++here.next;
      place(program, body);
      program.frames.push_back({.steps = &space.steps.steps});
      return true;
    }
    ++program.space;
    while (program.space < int32_t(plan_.spaces.size()) &&
           !plan_.shares.shares[size_t(program.space)])
      ++program.space;
    program.place = -1;
    program.body = -1;
    program.isFresh = true;
  }
  end_ = std::max(end_, program.time);
  program.words = {};
  return false;
}

void Run::endBody(Program &program) {
  ++times_[size_t(program.space)].bodies;
  endPart(program.rank, program.space, std::max({program.time, program.landed, program.epilogue}));
}

/// A body ends, or what it sent lands.
void Run::endPart(int32_t rank, int32_t space, double end) {
  const auto s = size_t(space);
  RankSpace &here = rankSpaces_[size_t(rank)][s];
  here.end = std::max(here.end, end);
  end_ = std::max(end_, end);
  if (end > times_[s].end) {
    times_[s].end = end;
    times_[s].lastRank = symmetry_.rankOf(rank);
  }
  if (--here.left > 0)
    return;
  for (const int32_t waiting : here.gate) {
    Program &other = programs_[size_t(waiting)];
    times_[size_t(other.space)].waited += std::max(here.end - other.time, 0.0);
    other.time = std::max(other.time, here.end);
    other.parkedAt = kNever;
    push(waiting);
  }
  here.gate.clear();
}

void Run::execute(int32_t index) {
  Program &program = programs_[size_t(index)];
  while (!failure_) {
    if (program.frames.empty() && !nextBody(program, index))
      return;
    Frame &frame = program.frames.back();
    if (frame.at < frame.steps->size()) {
      const Step &one = (*frame.steps)[frame.at];
      if (step(program, index, one) == Next::Stop)
        return;
      continue;
    }
    const Step *owner = frame.owner;
    if (owner && owner->kind == StepKind::Loop) {
      ++frame.round;
      frame.position += frame.step;
      if (frame.position < frame.end) {
        frame.at = 0;
        advanceLoop(plan_.spaces[size_t(program.space)], program, frame);
        continue;
      }
      if (owner->isTogether && frame.round > 0)
        program.time += options_.isFree ? 0 : plan_.cluster.machine->timing.notifyLatency;
    }
    program.frames.pop_back();
    if (program.frames.empty()) {
      endBody(program);
      // Bodies of others may come first.
      if (!queue_.empty() && queue_.top().time < program.time) {
        push(index);
        return;
      }
    }
  }
}

Run::Next Run::step(Program &program, int32_t index, const Step &step) {
  Frame &frame = program.frames.back();
  const Word *w = program.words.data();
  SpaceTimes &times = times_[size_t(program.space)];
  switch (step.kind) {
  case StepKind::Work: {
    const double start = program.time;
    program.time += w[step.time].real;
    times.worked += w[step.time].real;
    if (options_.record)
      record(Event::Kind::Work, program, rankOf(program), start, program.time, 0, step, w);
    ++frame.at;
    return Next::Go;
  }
  case StepKind::Land:
    if (!step.isEpilogue && waitForFlights(program))
      return Next::Stop;
    ++frame.at;
    if (step.isEpilogue) {
      program.epilogue = std::max(program.epilogue, program.known);
    } else if (program.known > program.time) {
      times.moved += program.known - program.time;
      program.time = program.known;
    }
    return Next::Go;
  case StepKind::Branch: {
    const bool condition = w[step.condition].integer != 0;
    ++frame.at;
    program.frames.push_back({.steps = condition ? &step.steps : &step.otherwise,
                              .owner = &step,
                              .condition = condition});
    return Next::Go;
  }
  case StepKind::Loop: {
    ++frame.at;
    const Frame inner = {.steps = &step.steps,
                         .owner = &step,
                         .position = w[step.first].integer,
                         .end = w[step.end].integer,
                         .step = std::max<int64_t>(w[step.step].integer, 1)};
    if (inner.position >= inner.end)
      return Next::Go;
    program.frames.push_back(inner);
    advanceLoop(plan_.spaces[size_t(program.space)], program, inner);
    return Next::Go;
  }
  case StepKind::Wait:
    return wait(program, index, step);
  case StepKind::Barrier:
    return barrier(program, index);
  case StepKind::Put:
  case StepKind::Get:
  case StepKind::Notify:
    // Links are used in the order of time.
    if (!queue_.empty() && queue_.top().time < program.time) {
      push(index);
      return Next::Stop;
    }
    if (!message(program, step))
      return Next::Stop;
    ++program.frames.back().at;
    return Next::Go;
  }
  return Next::Stop;
}

/// Puts, gets and notifies.
bool Run::message(Program &program, const Step &step) {
  const int64_t ranks = plan_.cluster.ranks;
  const Word *words = program.words.data();
  SpaceTimes &times = times_[size_t(program.space)];
  const int64_t peer = words[step.peer].integer;
  if (peer < 0 || peer >= ranks) {
    fail(step.loc, "rank " + std::to_string(rankOf(program)) + " sends to rank " +
                       std::to_string(peer) + ", which there is not");
    return false;
  }
  const int64_t rank = rankOf(program);
  const bool isOwn = peer == rank;
  const bool isFar = !isOwn && plan_.cluster.network &&
                     peer / plan_.cluster.perHost != rank / plan_.cluster.perHost;
  const int64_t to = symmetry_.indexOf(peer);
  const auto from = size_t(program.rank);
  const double start = step.isEpilogue ? std::max(program.time, program.epilogue) : program.time;
  const double bytes = step.bytes == kNoSlot ? 0 : words[step.bytes].real;
  // An empty copy sends nothing.
  if (step.kind != StepKind::Notify && (isOwn || bytes == 0)) {
    const double end = start + (bytes == 0 && !isOwn ? 0 : words[step.time].real);
    times.moved += step.isEpilogue ? 0 : end - start;
    (step.isEpilogue ? program.epilogue : program.time) = end;
    program.landed = std::max(program.landed, end);
    program.known = std::max(program.known, end);
    return true;
  }
  // A notify is after messages to others only when these have landed.
  if (step.isBehind && program.flights > 0 && (!isFar || program.flightPeer != peer) &&
      waitForFlights(program))
    return false;
  messages_ += isOwn ? 0 : 1;
  if (isFar && step.kind != StepKind::Get && !options_.isFree) {
    leave(program, step, peer, start);
    return !failure_;
  }
  Links::Passage passage;
  if (step.kind == StepKind::Put)
    passage = links_.put(from, size_t(to), bytes, words[step.time].real, start);
  else if (step.kind == StepKind::Get)
    passage = links_.get(from, size_t(to), isFar, bytes, words[step.time].real, start);
  else
    passage = links_.notify(step.isBehind ? program.landed : start, start);
  const bool isTogether = program.frames.back().owner && program.frames.back().owner->isTogether;
  if (step.isEpilogue) {
    program.epilogue = passage.program;
  } else if (!isTogether) {
    times.moved += passage.program - program.time;
    program.time = passage.program;
  }
  program.landed = std::max(program.landed, passage.landed);
  program.known = std::max(program.known, passage.known);
  if (step.kind != StepKind::Notify) {
    if (options_.record)
      record(step.kind == StepKind::Put ? Event::Kind::Put : Event::Kind::Get, program, peer, start,
             passage.landed, bytes, step, words);
    return true;
  }
  words = wordsOfSource(program, words, peer);
  if (failure_)
    return false;
  if (options_.record)
    record(Event::Kind::Notify, program, peer, start, passage.landed, 0, step, words);
  return eachCell(step, words, [&](int64_t number) {
    told(to, step.signal, number, passage.landed);
    return true;
  });
}

/// A notify arrives at a cell.
void Run::told(int64_t to, int32_t signal, int64_t number, double ready) {
  Cell &cell = signals_[size_t(to)].cells[size_t(signal)][size_t(number)];
  cell.ready = std::max(cell.ready, ready);
  // Who waits for some of them is woken by each.
  if (++cell.got >= cell.all || plan_.hasCounts)
    wakeCell(keyOf(int32_t(to), signal, number), cell.ready);
}

/// Gives a put or notify to the NIC: the program goes on, and the message arrives by land().
void Run::leave(Program &program, const Step &step, int64_t peer, double now) {
  const int64_t to = symmetry_.indexOf(peer);
  const Word *words = program.words.data();
  const double posted = now + plan_.cluster.network->message;
  int32_t number = int32_t(flights_.size());
  if (landedFlights_.empty()) {
    flights_.emplace_back();
  } else {
    number = landedFlights_.back();
    landedFlights_.pop_back();
  }
  Flight &flight = flights_[size_t(number)];
  flight.program = int32_t(&program - programs_.data());
  flight.space = program.space;
  flight.from = program.rank;
  flight.to = int32_t(to);
  flight.bytes = step.bytes == kNoSlot ? 0 : words[step.bytes].real;
  const Links::Departure departure = links_.depart(size_t(program.rank), flight.bytes, posted);
  flight.start = departure.start;
  flight.end = departure.end;
  flight.signal = step.signal;
  flight.cells.clear();
  if (step.kind == StepKind::Notify) {
    words = wordsOfSource(program, words, peer);
    if (failure_ || !eachCell(step, words, [&](int64_t cell) {
          flight.cells.push_back(cell);
          return true;
        }))
      return;
  }
  if (options_.record)
    record(step.kind == StepKind::Put ? Event::Kind::Put : Event::Kind::Notify, program, peer, now,
           flight.end + plan_.cluster.network->latency, flight.bytes, step, words);
  ++program.flights;
  program.flightPeer = peer;
  ++spaceOf(program).left;
  SpaceTimes &times = times_[size_t(program.space)];
  if (step.isEpilogue) {
    program.epilogue = posted;
  } else {
    times.moved += posted - program.time;
    program.time = posted;
  }
  push(flight.program, flight.start, number);
}

/// A message between hosts gets its turn at the other end.
void Run::land(int32_t number) {
  Flight &flight = flights_[size_t(number)];
  Program &program = programs_[size_t(flight.program)];
  const double landed = links_.arrive(size_t(flight.to), flight.bytes, {flight.start, flight.end});
  program.landed = std::max(program.landed, landed);
  program.known = std::max(program.known, landed + plan_.cluster.network->latency);
  for (const int64_t cell : flight.cells)
    told(flight.to, flight.signal, cell, landed);
  landedFlights_.push_back(number);
  endPart(flight.from, flight.space, landed);
  if (--program.flights == 0 && program.isLanding) {
    program.isLanding = false;
    program.parkedAt = kNever;
    times_[size_t(program.space)].moved += std::max(program.known - program.time, 0.0);
    program.time = std::max(program.time, program.known);
    push(flight.program);
  }
}

/// Whether a program has to wait until what it has given to the NIC has landed.
bool Run::waitForFlights(Program &program) {
  if (program.flights == 0)
    return false;
  program.isLanding = true;
  program.parkedAt = program.time;
  return true;
}

void Run::wakeCell(int64_t key, double ready) {
  const auto it = waiters_.find(key);
  if (it == waiters_.end())
    return;
  const std::vector<int32_t> woken = std::move(it->second);
  waiters_.erase(it);
  // Each looks again, at the time at which it stood still: it may still have to wait.
  for (const int32_t index : woken)
    push(index, std::max(ready, programs_[size_t(index)].time));
}

Run::Next Run::wait(Program &program, int32_t index, const Step &step) {
  const Word *words = program.words.data();
  auto &cells = signals_[size_t(program.rank)].cells[size_t(step.signal)];
  if (program.parkedAt == kNever)
    program.ready = program.time;
  int64_t seen = program.cursor;
  std::optional<int64_t> missing;
  const bool isFine = eachCell(
      step, words,
      [&](int64_t number) {
        const Cell &cell = cells[size_t(number)];
        const int64_t needed = step.count == kNoSlot ? cell.all : words[step.count].integer;
        if (cell.got < needed) {
          missing = number;
          return false;
        }
        program.ready = std::max(program.ready, cell.ready);
        ++seen;
        return true;
      },
      program.cursor);
  if (!isFine)
    return Next::Stop;
  if (missing) {
    program.cursor = seen;
    program.parkedAt = program.time;
    waiters_[keyOf(program.rank, step.signal, *missing)].push_back(index);
    return Next::Stop;
  }
  program.cursor = 0;
  program.parkedAt = kNever;
  times_[size_t(program.space)].waited += program.ready - program.time;
  if (options_.record)
    record(Event::Kind::Wait, program, rankOf(program), program.time, program.ready, 0, step,
           words);
  program.time = program.ready + plan_.cluster.machine->timing.memoryLatency;
  ++program.frames.back().at;
  return Next::Go;
}

Run::Next Run::barrier(Program &program, int32_t index) {
  if (waitForFlights(program))
    return Next::Stop;
  ++program.frames.back().at;
  barrierTime_ = std::max({barrierTime_, program.time, program.landed});
  program.parkedAt = program.time;
  atBarrier_.push_back(index);
  if (int64_t(atBarrier_.size()) < count_)
    return Next::Stop;
  for (const int32_t waiting : atBarrier_) {
    Program &other = programs_[size_t(waiting)];
    times_[size_t(other.space)].waited += barrierTime_ + links_.barrier() - other.time;
    other.time = barrierTime_ + links_.barrier();
    other.parkedAt = kNever;
    push(waiting);
  }
  atBarrier_.clear();
  barrierTime_ = 0;
  return Next::Stop;
}

void Run::record(Event::Kind kind, const Program &p, int64_t peer, double start, double end,
                 double bytes, const Step &step, const Word *words) {
  Event event = {.kind = kind,
                 .space = p.space,
                 .program = p.number,
                 .body = p.body,
                 .rank = rankOf(p),
                 .peer = peer,
                 .start = start,
                 .end = end,
                 .bytes = bytes,
                 .signal = step.signal};
  if (step.signal >= 0)
    (void)eachCell(step, words, [&](int64_t cell) {
      event.cells.push_back(cell);
      return true;
    });
  options_.record(event);
}

Outcome Run::outcome() {
  Outcome made;
  made.overhead = plan_.shares.overhead;
  made.time = end_ + made.overhead;
  made.spaces = times_;
  made.links = links_.times();
  made.simulated = count_;
  for (int64_t index = 0; index < count_; ++index)
    made.ranks.push_back(symmetry_.rankOf(index));
  made.messages = messages_;
  for (const SpaceTimes &space : times_)
    made.bodies += space.bodies;
  return made;
}

std::variant<Outcome, Failure> simulate(const Plan &plan, const Symmetry &symmetry,
                                        Likeness likeness, const Options &options) {
  return Run(plan, symmetry, likeness, options).run();
}

} // namespace dtile::simulate
