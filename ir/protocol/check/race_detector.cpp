// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Happens-before of a run. A body is a thread; each asynchronous operation is one of its own, which
// starts when it is issued and what it is `after` is complete. Only what is `after` a wait comes
// after it, besides what uses a value that was read so. A notify passes on all that its body has
// done at once, and the operations that it is `after`. A launch begins on a rank when that rank's
// last one has ended: that other ranks meet somewhere is not counted, as the order between launches
// is the program's to make, but for scratch objects, which the runtime keeps apart.
#include "ir/protocol/check/race_detector.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::protocol {

using interpret::AccessKind;
using interpret::BodyId;
using interpret::SignalVal;
using interpret::ViewVal;
using ir::Op;
using ir::OpKind;

RaceDetector::RaceDetector(int ranks, Explain explain, const RaceDetector *earlier, Budget budget)
    : ranks_(ranks), explains_(explain == Explain::Yes), earlier_(earlier), budget_(budget),
      clocks_(ranks), rankStates_(ranks) {
  for (RankState &rank : rankStates_) {
    rank.caller = clocks_.newThread(-1, 0);
    rank.start = rank.end = clocks_.empty();
  }
}

RaceDetector::~RaceDetector() = default;

// Bodies and launches.

void RaceDetector::spend() {
  constexpr uint32_t kEventsBetweenLooks = 1024;
  if (++events_ % kEventsBetweenLooks != 0)
    return;
  isFull_ |= clocks_.bytes() > budget_.bytes;
  isOver_ |= isFull_ || work() > budget_.work;
}

RaceDetector::Body &RaceDetector::body(const BodyId &id) {
  spend();
  const auto it = bodies_.find(id.number);
  DTILE_CHECK(it != bodies_.end(), "an event of a body that has not started");
  return *it->second;
}

void RaceDetector::startLaunch(RankState &rank, int32_t launch) {
  rank.launch = launch;
  rank.start = clocks_.with(rank.end, rank.caller, uint32_t(launch) + 1);
  rank.end = rank.start;
  rank.spaces.clear();
}

void RaceDetector::endLaunch(RankState &rank, int r) {
  rank.end = clocks_.rebased(rank.end, r, rank.launch + 1);
  rank.ends.push_back(rank.end);
  std::vector<Pending> later;
  for (Pending &pending : rank.pending) {
    const Record &access = pending.record;
    if (access.launch != rank.launch)
      later.push_back(std::move(pending));
    else if (!clocks_.includes(*rank.end, access.thread, access.time))
      report(Finding::Kind::OutlivesKernel, access, access, *pending.object, pending.box);
  }
  rank.pending = std::move(later);
}

void RaceDetector::bodyStarts(const BodyId &id) {
  RankState &rank = rankStates_[id.rank];
  if (!id.space) {
    if (rank.launch < 0)
      rank.firstLaunch = id.launch;
    else
      endLaunch(rank, id.rank);
    startLaunch(rank, int32_t(id.launch - rank.firstLaunch));
  }
  auto body = std::make_unique<Body>();
  body->name = uint32_t(names_.size());
  names_.push_back({id.rank, rank.launch, id.space, {id.positions.begin(), id.positions.end()}});
  body->rank = id.rank;
  body->launch = rank.launch;
  body->space = id.space;
  body->thread = clocks_.newThread(id.rank, rank.launch);
  body->order = rank.start;
  if (id.space) {
    learnSpaces(*id.space->parentOp());
    if (const Op *before = spaceBefore_.lookup(id.space))
      if (const auto it = rank.spaces.find(before); it != rank.spaces.end()) {
        clocks_.joinTo(body->order, it->second.ended);
        body->yielded = it->second.sent;
      }
  }
  body->release = body->order;
  bodies_[id.number] = std::move(body);
}

/// Finds which spaces start after the end of another: `when all`, and bodies that run one by one.
void RaceDetector::learnSpaces(const Op &kernel) {
  if (!learnt_.insert(&kernel).second)
    return;
  for (const Op &space : kernel.body().ops()) {
    if (!space.is(OpKind::Space))
      continue;
    if (space.get(ir::attr::ordered) && space.getOr(ir::attr::programs, 0) <= 1)
      spaceBefore_[&space] = &space;
    if (!space.has(ir::attr::after_all))
      continue;
    for (const Op &other : kernel.body().ops())
      if (other.is(OpKind::Space) && other.has(ir::attr::name) &&
          other.get(ir::attr::name) == space.get(ir::attr::after_all))
        spaceBefore_[&space] = &other;
  }
  for (const auto &[space, before] : spaceBefore_)
    isWaitedFor_.insert(before);
  walk(const_cast<Op &>(kernel),
       [&](const Op &op) { hasCounts_ |= op.is(OpKind::Wait) && op.numOperands() > 1; });
}

void RaceDetector::yields(const BodyId &id, llvm::ArrayRef<uint64_t> operations) {
  Body &body = this->body(id);
  if (!isWaitedFor_.contains(body.space))
    return;
  body.given = body.order;
  for (const uint64_t number : operations)
    clocks_.joinTo(body.given, tokenClock(body, number));
}

void RaceDetector::bodyEnds(const BodyId &id) {
  Body &body = this->body(id);
  RankState &rank = rankStates_[id.rank];
  ClockRef end = clocks_.with(clocks_.join(body.order, body.release), body.thread, body.time);
  ClockRef sent = end;
  for (size_t i = 0; i < body.tokens.size(); ++i)
    if (body.tokens[i].isTransfer)
      clocks_.joinTo(sent, tokenClock(body, i + 1));
  if (!body.space) {
    rank.start = sent;
  } else if (isWaitedFor_.contains(body.space)) {
    SpaceEnd &all = rank.spaces[body.space];
    all.ended = all.ended ? clocks_.join(all.ended, end) : end;
    // What the body has sent and did not yield may be under way still.
    const ClockRef given = body.given ? clocks_.join(end, body.given) : end;
    all.sent = all.sent ? clocks_.join(all.sent, given) : given;
  }
  // Only used when all of the launch's bodies have ended: one number stands for them then.
  clocks_.joinTo(rank.end, clocks_.withoutLaunch(sent, id.rank, rank.launch));
  bodies_.erase(id.number);
}

// Tokens and order.

ClockRef RaceDetector::tokenClock(Body &body, uint64_t number) const {
  DTILE_CHECK(number != 0 && number <= body.tokens.size(), "a token that its body does not have");
  Token &token = body.tokens[number - 1];
  if (!token.isTransfer)
    return token.clock;
  if (!token.complete)
    token.complete = clocks_.with(token.clock, token.thread, 1);
  return token.complete;
}

ClockRef RaceDetector::clockOf(Body &body, const Op &op, llvm::ArrayRef<uint64_t> after) {
  const auto &sources = values_.sourcesOf(op);
  const bool hasSources = !sources.empty() && !body.reads.empty();
  if (body.yielded && values_.isAfterSpace(op)) {
    ClockRef clock = clocks_.join(body.order, body.yielded);
    for (const uint64_t number : after)
      clocks_.joinTo(clock, tokenClock(body, number));
    return clock;
  }
  if (after.empty() && !hasSources)
    return body.order;
  const bool isCached = !hasSources && body.cachedOp == &op && body.cachedOrder == body.order &&
                        llvm::ArrayRef<uint64_t>(body.cachedAfter) == after;
  if (isCached)
    return body.cachedClock;
  ClockRef clock = body.order;
  for (const uint64_t number : after)
    clocks_.joinTo(clock, tokenClock(body, number));
  if (hasSources) {
    for (const ValueSource &source : sources)
      if (const auto it = body.reads.find(source.read); it != body.reads.end())
        clocks_.joinTo(clock, source.isCarried ? it->second.all : it->second.last);
    return clock;
  }
  body.cachedOp = &op;
  body.cachedOrder = body.order;
  body.cachedAfter.assign(after.begin(), after.end());
  body.cachedClock = clock;
  return clock;
}

void RaceDetector::issues(const BodyId &id, const Op &op, uint64_t number,
                          llvm::ArrayRef<uint64_t> after) {
  Body &body = this->body(id);
  body.tokens.resize(number);
  Token token;
  token.op = &op;
  token.isTransfer = true;
  token.thread = clocks_.newThread(body.rank, body.launch);
  token.issued = body.time;
  token.fence = body.fences;
  token.clock = clocks_.with(clockOf(body, op, after), body.thread, body.time);
  if (op.is(OpKind::PutSignal))
    token.release = clocks_.with(body.release, body.thread, body.time);
  ++body.time;
  body.tokens[number - 1] = std::move(token);
}

/// What fences put before a send of the body to a rank.
void RaceDetector::joinFenced(Body &body, ClockRef &clock, uint32_t fence, int32_t toRank) {
  if (fence == 0)
    return;
  for (size_t i = 0; i < body.tokens.size(); ++i)
    if (const Token &token = body.tokens[i];
        token.isTransfer && token.toRank == toRank && token.fence < fence)
      clocks_.joinTo(clock, tokenClock(body, i + 1));
}

/// Whether a notify tells a peer that something was written there: what it is `after`, or what the
/// body has done since it last told that.
bool RaceDetector::announces(Body &body, const Op &op, int32_t rank,
                             llvm::ArrayRef<uint64_t> after) {
  const bool hasWritten = body.wroteAt.erase(rank);
  if (rank == body.rank)
    return false;
  return hasWritten || (body.yielded && values_.isAfterSpace(op)) ||
         llvm::any_of(after, [&](uint64_t number) {
           const Token &token = body.tokens[number - 1];
           return token.isSomething && token.toRank == rank;
         });
}

void RaceDetector::notifies(const BodyId &id, const Op &op, const SignalVal &cells,
                            llvm::ArrayRef<uint64_t> after, uint64_t number) {
  Body &body = this->body(id);
  ClockRef clock;
  ThreadId thread = body.thread;
  uint32_t time = body.time;
  if (number != 0) {
    const Token &token = body.tokens[number - 1];
    clock = clocks_.join(token.release ? token.release : clocks_.empty(), tokenClock(body, number));
    thread = token.thread;
    time = 1;
  } else {
    clock = clocks_.join(body.release, clockOf(body, op, after));
    joinFenced(body, clock, body.fences, cells.rank);
    clock = clocks_.with(clock, body.thread, body.time);
    ++body.time;
  }
  const bool isNews = announces(body, op, cells.rank, after);
  cells.forEachCell([&](int64_t cell) {
    NotifiedCell &notified =
        cells_
            .try_emplace({cells.signal, {cells.rank, cell}}, NotifiedCell{.known = clocks_.empty()})
            .first->second;
    clocks_.joinTo(notified.known, clock);
    if (isNews && !notified.first) {
      notified.first = &op;
      notified.body = body.name;
    }
    if (explains_)
      sent_.push_back({&op, clock, cells.signal, cells.rank, cell, body.name, body.launch});
    if (hasCounts_)
      keepArrival(body, cells, cell, {clock, thread, time});
    return true;
  });
}

void RaceDetector::keepArrival(const Body &body, const SignalVal &cells, int64_t cell,
                               const Arrival &arrival) {
  arrivals_[{cellText(*cells.signal, cell), cells.rank, body.launch}].push_back(arrival);
}

/// What comes before a wait for `count` notifies of a cell, whichever of them come first: those
/// without which, and without what comes after them, there are not so many.
void RaceDetector::joinCertain(const Body &body, ClockRef &clock, const SignalVal &cells,
                               int64_t cell, uint64_t count) {
  const ArrivalKey key{cellText(*cells.signal, cell), cells.rank, body.launch};
  const auto arrived = arrivals_.find(key);
  if (arrived == arrivals_.end())
    return;
  const auto &came = arrived->second;
  if (!earlier_) {
    needsAnother_ = true;
    for (const Arrival &arrival : came)
      clocks_.joinTo(clock, arrival.clock);
    return;
  }
  const auto all = earlier_->arrivals_.find(key);
  DTILE_CHECK(all != earlier_->arrivals_.end() && all->second.size() >= came.size(),
              "two runs of one kernel differ");
  for (size_t i = 0; i < came.size(); ++i) {
    const Arrival &event = all->second[i];
    const size_t others = llvm::count_if(all->second, [&](const Arrival &other) {
      return !earlier_->clocks_.includes(*other.clock, event.thread, event.time);
    });
    if (others < count)
      clocks_.joinTo(clock, came[i].clock);
  }
}

void RaceDetector::waits(const BodyId &id, const Op &op, const SignalVal &cells, uint64_t number,
                         std::optional<uint64_t> count) {
  Body &body = this->body(id);
  body.tokens.resize(number);
  ClockRef clock = body.order;
  BodyWait wait;
  wait.op = &op;
  wait.number = uint32_t(number);
  cells.forEachCell([&](int64_t cell) {
    const auto it = cells_.find({cells.signal, {cells.rank, cell}});
    if (it == cells_.end()) {
      if (!wait.nothing)
        std::tie(wait.nothing, wait.nothingCell) = std::pair(cells.signal, cell);
      return true;
    }
    it->second.isWaitedFor = true;
    if (count)
      joinCertain(body, clock, cells, cell, *count);
    else
      clocks_.joinTo(clock, it->second.known);
    return true;
  });
  body.tokens[number - 1].op = &op;
  body.tokens[number - 1].clock = clock;
  wait.clock = clock;
  if (explains_)
    waits_[body.name].push_back(std::move(wait));
}

void RaceDetector::awaits(const BodyId &id, const Op &op, llvm::ArrayRef<uint64_t> operations) {
  Body &body = this->body(id);
  if (body.yielded && values_.isAfterSpace(op))
    clocks_.joinTo(body.order, body.yielded);
  for (const uint64_t number : operations)
    clocks_.joinTo(body.order, tokenClock(body, number));
  clocks_.joinTo(body.release, body.order);
}

void RaceDetector::quiet(const BodyId &id, const Op &) {
  Body &body = this->body(id);
  for (size_t i = 0; i < body.tokens.size(); ++i)
    if (body.tokens[i].isTransfer)
      clocks_.joinTo(body.order, tokenClock(body, i + 1));
  clocks_.joinTo(body.release, body.order);
}

void RaceDetector::fence(const BodyId &id, const Op &) { ++body(id).fences; }

void RaceDetector::memoryFence(const BodyId &id, const Op &op) {
  Body &body = this->body(id);
  if (op.get(ir::attr::kind) == "release") {
    body.released = clocks_.with(clocks_.join(body.release, body.order), body.thread, body.time);
    ++body.time;
  } else if (body.met) {
    clocks_.joinTo(body.order, body.met);
    clocks_.joinTo(body.release, body.order);
  }
}

void RaceDetector::meet(Body &body, ShadowObject &object, const ViewVal &element) {
  const auto known = object.released.find(element.data);
  if (known != object.released.end())
    body.met = body.met ? clocks_.join(body.met, known->second) : known->second;
  if (!body.released)
    return;
  // Whoever comes later has read what this one wrote (a release sequence: an atomic changes what it
  // has read).
  ClockRef &passedOn = object.released.try_emplace(element.data, clocks_.empty()).first->second;
  clocks_.joinTo(passedOn, body.released);
}

void RaceDetector::arrives(const BodyId &id, const Op &op, uint64_t barrier) {
  // All that the body has sent has landed.
  quiet(id, op);
  Body &body = this->body(id);
  ClockRef &all = barriers_.try_emplace({&op, barrier}, clocks_.empty()).first->second;
  clocks_.joinTo(all, clocks_.with(body.release, body.thread, body.time));
  ++body.time;
}

void RaceDetector::leaves(const BodyId &id, const Op &op, uint64_t barrier) {
  Body &body = this->body(id);
  clocks_.joinTo(body.order, barriers_[{&op, barrier}]);
  clocks_.joinTo(body.release, body.order);
}

// Memory.

void RaceDetector::binds(const BodyId &, const Op &param, const ViewVal &view) {
  // Nobody writes what is `in`.
  if (param.get(ir::attr::mode) == ir::ParamMode::In || view.isEmpty())
    return;
  std::unique_ptr<ShadowObject> &object = objects_[view.data];
  const bool isKept =
      object && object->isCallers && &object->param == &param && object->isSame(view);
  if (isKept)
    return;
  if (object)
    checkUnwritten(object.get());
  object = std::make_unique<ShadowObject>(param, view);
}

ShadowObject *RaceDetector::objectAt(const ViewVal &view) {
  const char *place = view.data;
  for (unsigned d = 0; d < view.dims; ++d)
    place += view.dim[d].lo * view.dim[d].stride * int64_t(dtypeBytes(view.dtype));
  auto it = objects_.upper_bound(place);
  if (it == objects_.begin())
    return nullptr;
  ShadowObject *object = std::prev(it)->second.get();
  return place < object->base() + object->bytes() ? object : nullptr;
}

namespace {

/// Whether something was written there; what updates add to is not.
bool hasContents(const Cell &cell) {
  return llvm::any_of(cell.writers,
                      [](const Record &record) { return record.kind == AccessKind::Write; });
}

bool isReadBy(const Cell &cell, ThreadId thread) {
  return llvm::any_of(cell.readers, [&](const Record &record) { return record.thread == thread; });
}

/// Whether two views of one shape have each of their positions at one place.
bool isSamePlace(const ViewVal &a, const ViewVal &b) {
  const char *from = a.data;
  const char *to = b.data;
  bool isSame = a.dims == b.dims;
  for (unsigned d = 0; isSame && d < a.dims; ++d) {
    const ViewVal::Dim &x = a.dim[d];
    const ViewVal::Dim &y = b.dim[d];
    const int64_t count = x.hi - x.lo;
    isSame = count == y.hi - y.lo && (count == 1 || x.stride == y.stride);
    from += x.lo * x.stride * int64_t(dtypeBytes(a.dtype));
    to += y.lo * y.stride * int64_t(dtypeBytes(b.dtype));
  }
  return isSame && from == to;
}

} // namespace

/// Whether both are at once of one body, or one is at once and the other sent after it.
bool RaceDetector::isSameBody(const Record &record, const Record &access,
                              const Token *token) const {
  if (record.thread == access.thread)
    return true;
  return token && record.body == access.body && !record.isSent && record.time <= token->issued;
}

void RaceDetector::access(const BodyId &id, const Op &op, AccessKind kind, const ViewVal &view,
                          llvm::ArrayRef<uint64_t> after, uint64_t number) {
  Body &body = this->body(id);
  Token *token = number == 0 ? nullptr : &body.tokens[number - 1];
  // A fence orders what is sent, and a get is not.
  if (token && token->toRank < 0 && kind != AccessKind::Read && !token->op->is(OpKind::Get)) {
    token->toRank = view.rank;
    joinFenced(body, token->clock, token->fence, view.rank);
    token->complete = nullptr;
  }
  if (kind != AccessKind::Read && !view.isEmpty()) {
    if (token)
      token->isSomething = true;
    if (view.rank != body.rank)
      body.wroteAt.insert(view.rank);
  }
  Record access;
  access.thread = token ? token->thread : body.thread;
  access.time = token ? 1 : body.time;
  access.op = &op;
  access.body = body.name;
  access.launch = body.launch;
  access.kind = kind;
  access.isSent = token != nullptr;
  access.sequence = uint32_t(token ? number : body.tokens.size());
  access.clock = token ? token->clock : clockOf(body, op, after);

  ShadowObject *object = view.isEmpty() ? nullptr : objectAt(view);
  if (view.isOutside && token)
    reportOutside(access, view);
  if (kind != AccessKind::Read && !body.openReads.empty())
    closeReads(body, op, view);
  if (object) {
    const bool needsContents = !object->isCallers && !object->isZeroed && kind != AccessKind::Write;
    const bool mayMeetItself =
        kind == AccessKind::Write && token && token->source && !isSamePlace(*token->source, view);
    bool isWritten = true;
    object->forEachBox(view, [&](const Box &box) {
      object->forEachCell(box, [&](const Box &part, Cell &cell) {
        ++cellsTouched_;
        isWritten &= hasContents(cell);
        if (mayMeetItself && isReadBy(cell, access.thread))
          report(Finding::Kind::MeetsItself, access, access, *object, part);
        touch(*object, part, cell, access, token);
      });
      if (object->isCallers && object->rank != body.rank)
        checkEnd(*object, box, access);
    });
    if (kind == AccessKind::Atomic && ir::isAtomic(op) && view.dims == 0)
      meet(body, *object, view);
    if (needsContents && !isWritten)
      readUnwritten(body, access, view, *object);
    // What it reads comes first, then what it writes.
    if (token)
      token->source = kind == AccessKind::Read ? std::make_unique<ViewVal>(view) : nullptr;
  }
  if (token || access.clock == body.order)
    return;
  clocks_.joinTo(body.release, access.clock);
  if (kind == AccessKind::Write)
    return;
  Body::Read &read = body.reads[&op];
  read.last = access.clock;
  read.all = read.all ? clocks_.join(read.all, access.clock) : access.clock;
}

/// Keeps what of a view nobody has written yet, to be asked again when the launch is over.
void RaceDetector::addUnwritten(const Record &access, const ViewVal &view, ShadowObject &object) {
  object.forEachBox(view, [&](const Box &box) {
    bool isWritten = true;
    object.forEachCell(box, [&](const Box &, Cell &cell) { isWritten &= hasContents(cell); });
    if (!isWritten)
      unwritten_.push_back({access, box, &object});
  });
}

void RaceDetector::readUnwritten(Body &body, const Record &access, const ViewVal &view,
                                 ShadowObject &object) {
  const auto [it, isNew] = kept_.try_emplace(access.op);
  if (isNew)
    it->second = ir::keptElements(const_cast<Op &>(*access.op));
  if (!it->second)
    return addUnwritten(access, view, object);
  OpenRead read{access, view, &object, {}};
  for (const ir::KeptBy &kept : *it->second)
    read.keptBy.push_back(&kept);
  body.openReads.push_back(std::move(read));
}

/// An op keeps the elements for which its view has a place.
void RaceDetector::closeReads(Body &body, const Op &op, const ViewVal &view) {
  for (OpenRead &read : body.openReads) {
    const auto *kept =
        llvm::find_if(read.keptBy, [&](const ir::KeptBy *by) { return by->op == &op; });
    if (kept == read.keptBy.end())
      continue;
    ViewVal part = read.view;
    for (const auto &[d, of] : llvm::enumerate((*kept)->dims))
      if (of) {
        part.dim[d].lo = std::max(part.dim[d].lo, view.dim[*of].lo);
        part.dim[d].hi = std::min(part.dim[d].hi, view.dim[*of].hi);
      }
    read.keptBy.erase(kept);
    if (!view.isEmpty() && !part.isEmpty())
      addUnwritten(read.record, part, *read.object);
  }
  llvm::erase_if(body.openReads, [](const OpenRead &read) { return read.keptBy.empty(); });
}

void RaceDetector::meetsItself(const BodyId &id, const Op &op, const ViewVal &view) {
  Body &body = this->body(id);
  ShadowObject *object = objectAt(view);
  if (!object)
    return;
  Record access;
  access.thread = body.thread;
  access.time = body.time;
  access.op = &op;
  access.body = body.name;
  access.launch = body.launch;
  access.kind = AccessKind::Write;
  object->forEachBox(view, [&](const Box &box) {
    report(Finding::Kind::MeetsItself, access, access, *object, box);
  });
}

namespace {

bool conflicts(AccessKind a, AccessKind b) {
  if (a == AccessKind::Read && b == AccessKind::Read)
    return false;
  return a != AccessKind::Atomic || b != AccessKind::Atomic;
}

} // namespace

void RaceDetector::touch(ShadowObject &object, const Box &box, Cell &cell, Record &access,
                         const Token *token) {
  // What this body has done here comes first, and with it what that came after.
  const auto forAll = [&](auto &&fn) {
    for (const Record &record : cell.writers)
      if (conflicts(record.kind, access.kind))
        fn(record);
    for (const Record &record : cell.readers)
      if (conflicts(record.kind, access.kind))
        fn(record);
  };
  forAll([&](const Record &record) {
    if (isSameBody(record, access, token))
      clocks_.joinTo(access.clock, record.clock);
  });
  bool isRace = false;
  forAll([&](const Record &record) {
    const bool isBefore = isSameBody(record, access, token) ||
                          clocks_.includes(*access.clock, record.thread, record.time);
    if (isBefore || isRace)
      return;
    isRace = true;
    // What the read was for had been written before.
    const bool isOverwrite =
        record.kind == AccessKind::Read && llvm::any_of(cell.writers, [&](const Record &writer) {
          return clocks_.includes(*record.clock, writer.thread, writer.time);
        });
    report(isOverwrite ? Finding::Kind::Overwrite : Finding::Kind::Race, record, access, object,
           box);
  });
  if (!isRace && object.isCallers && object.rank != names_[access.body].rank)
    checkCaller(object, box, cell, access);
  enter(cell, access);
}

/// Makes the access one of the cell's last.
void RaceDetector::enter(Cell &cell, const Record &access) {
  if (access.launch > cell.lastLaunch) {
    cell.launchBefore = cell.lastLaunch;
    cell.lastLaunch = access.launch;
  } else if (access.launch < cell.lastLaunch) {
    cell.launchBefore = std::max(cell.launchBefore, access.launch);
  }
  const auto add = [&](auto &records, uint32_t &many) {
    llvm::erase_if(records, [&](const Record &record) {
      return record.thread == access.thread && record.kind == access.kind;
    });
    // What comes after this access comes after what this one knows.
    if (records.size() > many) {
      llvm::erase_if(records, [&](const Record &record) {
        return record.kind == access.kind &&
               clocks_.includes(*access.clock, record.thread, record.time);
      });
      // Again when there are twice as many as are left, so that all of it stays linear.
      many = std::max(Cell::kFewRecords, 2 * uint32_t(records.size()));
    }
    records.push_back(access);
  };
  switch (access.kind) {
  case AccessKind::Read:
    add(cell.readers, cell.manyReaders);
    return;
  case AccessKind::Atomic:
    add(cell.writers, cell.manyWriters);
    return;
  case AccessKind::Write:
    cell.manyWriters = cell.manyReaders = Cell::kFewRecords;
    cell.writers.clear();
    cell.readers.clear();
    cell.writers.push_back(access);
    return;
  }
}

/// A peer's access against what a rank's caller may do between its launches: write what the kernel
/// only reads, and use what the last launch has touched.
void RaceDetector::checkCaller(ShadowObject &object, const Box &box, const Cell &cell,
                               const Record &access) {
  const RankState &home = rankStates_[object.rank];
  const auto knowsBegin = [&](int32_t launch) {
    return clocks_.includes(*access.clock, home.caller, uint32_t(launch) + 1);
  };
  if (access.kind != AccessKind::Write) {
    const bool isMade = llvm::any_of(
        cell.writers, [&](const Record &record) { return record.launch == access.launch; });
    if (!isMade && !knowsBegin(access.launch))
      report(Finding::Kind::NotReady, access, access, object, box);
  }
  if (access.kind == AccessKind::Read)
    return;
  const int32_t before = cell.lastLaunch < access.launch ? cell.lastLaunch : cell.launchBefore;
  if (before < 0 || before >= access.launch || knowsBegin(before + 1))
    return;
  const Record *last = nullptr;
  for (const Record &record : cell.writers)
    last = record.launch == before ? &record : last;
  for (const Record &record : cell.readers)
    last = record.launch == before ? &record : last;
  report(Finding::Kind::CallerUses, last ? *last : access, access, object, box);
}

/// A peer's access must be over when the kernel ends on the rank whose memory it is.
void RaceDetector::checkEnd(ShadowObject &object, const Box &box, const Record &access) {
  RankState &home = rankStates_[object.rank];
  const bool isOver = size_t(access.launch) < home.ends.size();
  if (isOver && clocks_.includes(*home.ends[access.launch], access.thread, access.time))
    return;
  Pending pending{access, &object, box};
  if (isOver)
    report(Finding::Kind::OutlivesKernel, access, access, object, box);
  else
    home.pending.push_back(std::move(pending));
}

namespace {

/// The first part of a box that nobody has written: of its first rows that have one, the columns
/// from there on.
std::optional<Box> unwrittenPart(ShadowObject &object, const Box &box) {
  std::optional<Box> hole;
  object.forEachCell(box, [&](const Box &part, Cell &cell) {
    if (hasContents(cell))
      return;
    if (!hole)
      hole = part;
    else if (hole->row == part.row && hole->rowEnd == part.rowEnd && hole->colEnd == part.col)
      hole->colEnd = part.colEnd;
    else if (hole->rowEnd == part.row && hole->col == part.col && hole->colEnd == part.colEnd)
      hole->rowEnd = part.rowEnd;
  });
  return hole;
}

} // namespace

/// Reports reads of an object that no write of its launch has reached, or of all objects.
void RaceDetector::checkUnwritten(ShadowObject *object) {
  std::vector<UnwrittenRead> reads;
  std::swap(reads, unwritten_);
  for (UnwrittenRead &read : reads) {
    if (object && read.object != object) {
      unwritten_.push_back(std::move(read));
      continue;
    }
    if (const std::optional<Box> hole = unwrittenPart(*read.object, read.box))
      report(Finding::Kind::NeverWritten, read.record, read.record, *read.object, *hole);
  }
}

std::vector<LeftOut> RaceDetector::leftOut() {
  std::vector<LeftOut> parts;
  for (auto &[address, object] : objects_) {
    if (object->param.get(ir::attr::mode) != ir::ParamMode::Out || object->bytes() == 0)
      continue;
    std::optional<Box> hole;
    object->forEachCell(object->whole(), [&](const Box &box, Cell &cell) {
      if (!hole && !hasContents(cell))
        hole = box;
    });
    if (hole)
      parts.push_back({&object->param, object->rank, object->regionText(*hole)});
  }
  // Wherever they lie; of an output, that of the last rank comes first.
  llvm::sort(parts, [](const LeftOut &a, const LeftOut &b) {
    const auto key = [](const LeftOut &part) {
      return std::pair(part.param->get(ir::attr::param), -part.rank);
    };
    return key(a) < key(b);
  });
  return parts;
}

void RaceDetector::finish(bool isComplete) {
  if (!isComplete) {
    if (explains_)
      explainRaces();
    return;
  }
  for (int r = 0; r < ranks_; ++r)
    if (rankStates_[r].launch >= 0)
      endLaunch(rankStates_[r], r);
  checkUnwritten(nullptr);
  findUnheard();
  if (explains_)
    explainRaces();
}

} // namespace dtile::protocol
