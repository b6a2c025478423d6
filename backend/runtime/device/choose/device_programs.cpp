// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rule of device_programs.h.
#include "backend/runtime/device/choose/device_programs.h"

#include "backend/runtime/device_abi.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

/// Bodies whose weights stand for all of a space.
constexpr int64_t kSampledBodies = 16;
/// Launches that are estimated to end within this part of each other may end the other way round.
constexpr double kDoubt = 0.02;
/// Nanoseconds for which a cluster's programs wait for the first operands of their next body: these
/// are not loaded while sums are exchanged where they go.
constexpr int64_t kRefill = 1000;
/// Bodies for each program beyond which clusters are not tried.
constexpr int64_t kMostTurns = 8;
/// Nanoseconds that the driver takes for a body's copy and the word after it, besides their bytes.
constexpr double kEngineBody = 2500;

/// What adding up four parts takes, over what adding up two takes: the same latencies, and three
/// parts to read for one. Fitted to 402 divided products on an H200 (docs/measurements/model.md).
constexpr double kPartsOfFour = 1.5;

/// Rounds of bodies where those of the last one may be divided (backend/gpu/divided_bodies.h):
/// between two, which takes `more` of a round, and between four, where one adds what three have
/// left.
double roundsOf(int64_t bodies, int64_t programs, double more) {
  const double forFour = kPartsOfFour * more;
  const int64_t halves = programs / 2, quarters = programs / 4;
  const int64_t whole = bodies / programs, left = bodies % programs;
  double last = 1;
  if (left == 0)
    last = 0;
  else if (left <= quarters)
    last = 0.25 + forFour;
  else if (left <= halves)
    last = 0.5 + more;
  else if (left <= halves + quarters)
    last = 0.75 + more + forFour;
  return double(whole) + std::min(last, 1.0);
}

double wholeRounds(int64_t bodies, int64_t programs) {
  const int64_t rounds = (bodies + programs - 1) / programs;
  return double(rounds);
}

/// Programs for bodies of which there are fewer than programs that run at once: one each, or where
/// dividing them pays, as many as their parts take: two or four each, whatever ends first.
int64_t programsOf(int64_t bodies, int64_t resident, double more) {
  if (bodies >= resident)
    return resident;
  int64_t best = bodies;
  double least = 1;
  for (const int64_t parts : {2, 4}) {
    const int64_t divided = std::min(resident, parts * bodies);
    if (!dtile_divides(bodies, divided, more))
      continue;
    const double rounds = roundsOf(bodies, divided, more);
    if (rounds < least) {
      best = divided;
      least = rounds;
    }
  }
  return best;
}

/// Programs of a space as far as they are known, and what it can use.
struct Share {
  int64_t least = 0;
  int64_t most = 0;
};

/// A launch whose programs are shared.
class Sharing {
public:
  Sharing(int32_t count, const dtile_device_space *spaces, const int64_t *bodies,
          const int64_t *weights, const int64_t *latencies, int32_t resident);

  [[nodiscard]] int64_t needed() const { return needed_; }
  void share();
  void take(const int32_t *first);
  void findEnds(double *ends) const;
  /// Whether to divide bodies of a space's last round.
  [[nodiscard]] bool isDivided(int32_t s) const {
    return dtile_divides(bodies_[s], shares_[s].least, costOfDivision(s)) != 0;
  }
  [[nodiscard]] double end() const;
  [[nodiscard]] int64_t programs(int32_t space) const { return shares_[space].least; }

private:
  [[nodiscard]] bool isRunning(int32_t s) const { return shares_[s].least > 0; }
  [[nodiscard]] bool isFixed(int32_t s) const {
    return spaces_[s].ordered || spaces_[s].pinned > 0;
  }
  [[nodiscard]] bool isMoving(int32_t s) const { return spaces_[s].most > 0; }
  /// As many programs as a space that moves data can use beside arithmetic.
  [[nodiscard]] int64_t mostOf(int32_t s) const;
  /// In bodies.
  [[nodiscard]] double costOfDivision(int32_t s) const {
    return double(spaces_[s].divide) / weight_[s];
  }
  /// What the programs of a space take for its bodies alone, in bodies.
  [[nodiscard]] double roundsOfSpace(int32_t s) const {
    const int64_t programs = shares_[s].least;
    return isDivided(s) ? roundsOf(bodies_[s], programs, costOfDivision(s))
                        : wholeRounds(bodies_[s], programs);
  }
  void give(int64_t movers);
  void distribute(int64_t spare);
  /// What programs run: how many bodies, how long one takes on average, and how long all take on
  /// the programs of the space alone, which run the bodies of one space after those of another.
  struct Load {
    double bodies = 0;
    double each = 0;
    double alone = 0;
  };
  /// The space whose programs run the bodies of one that has bodies and no programs: the nearest
  /// before it that computes, or else that moves data; -1 where there is none.
  [[nodiscard]] int32_t leaderOf(int32_t s) const;
  /// The bodies of a space, and of those that follow it.
  [[nodiscard]] Load loadOf(int32_t s) const;
  [[nodiscard]] double computed(int32_t s, int64_t helpers, double from) const;
  void giveIdle();

  int32_t count_;
  const dtile_device_space *spaces_;
  const int64_t *bodies_;
  int64_t resident_;
  int64_t needed_ = 0;
  /// Who has a free number of programs: of those that compute, and the most of those that move.
  bool hasComputation_ = false;
  int64_t mostMovers_ = 0;
  /// Whether the kernel has no products (dtile_device_space.covers).
  bool covers_ = false;
  /// Nanoseconds of a body, and of all; of a body without its latency.
  double weight_[DTILE_DEVICE_MAX_SPACES];
  double work_[DTILE_DEVICE_MAX_SPACES];
  double busy_[DTILE_DEVICE_MAX_SPACES];
  /// Before the others are given any, and as they are.
  Share fixed_[DTILE_DEVICE_MAX_SPACES];
  Share shares_[DTILE_DEVICE_MAX_SPACES];
};

Sharing::Sharing(int32_t count, const dtile_device_space *spaces, const int64_t *bodies,
                 const int64_t *weights, const int64_t *latencies, int32_t resident)
    : count_(count), spaces_(spaces), bodies_(bodies), resident_(resident) {
  bool hasBodies = false;
  int64_t computing = 0;
  int32_t mover = -1, free = -1, manyFree = 0;
  for (int32_t s = 0; s < count; ++s) {
    busy_[s] = double(std::max<int64_t>(weights[s], 1));
    weight_[s] = busy_[s] + double(std::max<int64_t>(latencies[s], 0));
    work_[s] = double(bodies[s]) * weight_[s];
    const bool isFollowing =
        hasBodies && (spaces[s].follows == 1 || (spaces[s].follows == 2 && computing <= resident));
    hasBodies |= bodies[s] > 0;
    if (!isMoving(s))
      computing += std::max<int64_t>(bodies[s], 0);
    // Who moves data for what follows has programs for that, too.
    if (isFollowing && bodies[s] > 0 && !hasComputation_ && mover >= 0 && !isMoving(s))
      fixed_[mover].most = std::max(fixed_[mover].most, bodies[s]);
    if (bodies[s] <= 0 || isFollowing)
      continue;
    covers_ |= spaces[s].covers;
    Share &share = fixed_[s];
    const int64_t asked = spaces[s].ordered ? 1 : spaces[s].pinned;
    share.least = std::clamp<int64_t>(asked, 1, bodies[s]);
    share.most = isFixed(s) ? share.least : bodies[s];
    needed_ += share.least;
    if (isFixed(s))
      continue;
    free = s;
    ++manyFree;
    if (isMoving(s)) {
      mostMovers_ = std::max(mostMovers_, mostOf(s));
      mover = s;
    } else {
      hasComputation_ = true;
    }
  }
  // Nobody else has a use for the programs that its bodies leave.
  if (manyFree == 1 && !isMoving(free))
    fixed_[free].most =
        programsOf(bodies[free], resident - (needed_ - fixed_[free].least), costOfDivision(free));
}

int64_t Sharing::mostOf(int32_t s) const {
  if (spaces_[s].covers)
    return bodies_[s];
  const double most = double(spaces_[s].most) * weight_[s] / busy_[s];
  return int64_t(std::min(most, double(bodies_[s])));
}

/// Gives `spare` programs to spaces that have room, in proportion to their work.
void Sharing::distribute(int64_t spare) {
  while (spare > 0) {
    double total = 0;
    for (int32_t s = 0; s < count_; ++s)
      if (shares_[s].least < shares_[s].most)
        total += work_[s];
    if (total == 0)
      return;
    // Who would get more than it can use gets that, and the rest is shared anew.
    const double each = double(spare) / total;
    bool isFilled = false;
    for (int32_t s = 0; s < count_; ++s) {
      Share &share = shares_[s];
      const int64_t room = share.most - share.least;
      if (room <= 0 || double(room) > work_[s] * each)
        continue;
      share.least = share.most;
      spare -= room;
      isFilled = true;
    }
    if (isFilled)
      continue;
    int64_t given = 0;
    int32_t largest = -1;
    for (int32_t s = 0; s < count_; ++s) {
      Share &share = shares_[s];
      if (share.least >= share.most)
        continue;
      const auto part = int64_t(work_[s] * each);
      share.least += part;
      given += part;
      if (largest < 0 || work_[s] > work_[largest])
        largest = s;
    }
    // What rounding left.
    const int64_t room = shares_[largest].most - shares_[largest].least;
    const int64_t rest = std::min(spare - given, room);
    shares_[largest].least += rest;
    spare -= given + rest;
    if (given + rest == 0)
      return;
  }
}

/// Shares all programs, with at most this many for a space that moves data.
void Sharing::give(int64_t movers) {
  std::copy(fixed_, fixed_ + count_, shares_);
  int64_t spare = resident_ - needed_;
  for (int32_t s = 0; s < count_; ++s) {
    Share &share = shares_[s];
    if (!isMoving(s) || isFixed(s) || !isRunning(s))
      continue;
    const int64_t most = std::min<int64_t>({share.most, mostOf(s), movers});
    const int64_t more = std::clamp<int64_t>(most - share.least, 0, spare);
    share.least += more;
    share.most = share.least;
    spare -= more;
  }
  distribute(spare);
}

int32_t Sharing::leaderOf(int32_t s) const {
  int32_t moving = -1;
  for (int32_t before = s - 1; before >= 0; --before) {
    if (!isRunning(before))
      continue;
    if (!isMoving(before))
      return before;
    moving = std::max(moving, before);
  }
  return moving;
}

Sharing::Load Sharing::loadOf(int32_t s) const {
  const auto own = double(shares_[s].least);
  double work = work_[s];
  Load load = {.bodies = double(bodies_[s]), .alone = roundsOfSpace(s) * weight_[s]};
  for (int32_t other = s + 1; other < count_; ++other) {
    if (bodies_[other] <= 0 || isRunning(other) || leaderOf(other) != s)
      continue;
    load.bodies += double(bodies_[other]);
    work += work_[other];
    load.alone += std::ceil(double(bodies_[other]) / own) * weight_[other];
  }
  load.each = work / std::max(load.bodies, 1.0);
  return load;
}

/// When a space that computes is through, helped by programs that come at `from`.
double Sharing::computed(int32_t s, int64_t helpers, double from) const {
  const auto [bodies, each, alone] = loadOf(s);
  const auto own = double(shares_[s].least);
  if (helpers == 0 || alone <= from)
    return alone;
  // After wave n: own * n + helpers * (n - late), for whole waves.
  const double late = std::ceil(from / each);
  const double waves = std::ceil((bodies + double(helpers) * late) / (own + double(helpers)));
  // Helpers end bodies within a wave.
  const double more = waves - late;
  const double done = own * (waves - 1) + double(helpers) * more;
  return done >= bodies ? std::min(from + more * each, waves * each) : waves * each;
}

/// When the bodies of each space have ended, by the estimate of device_programs.h.
void Sharing::findEnds(double *ends) const {
  double link = 0, longest = 0, drained = 0;
  for (int32_t s = 0; s < count_; ++s) {
    if (!isMoving(s) || !isRunning(s))
      continue;
    const double rounds = double(bodies_[s]) / double(std::min(shares_[s].least, bodies_[s]));
    link += double(bodies_[s]) * busy_[s] / double(std::max(spaces_[s].fill, 1));
    longest = std::max(longest, rounds * weight_[s]);
    if (spaces_[s].covers)
      drained = std::max(drained, (rounds - 1) * (weight_[s] - busy_[s]));
  }
  const double moved = std::max(link + drained, longest);
  double computed = 0;
  int64_t helpers = 0, movers = 0;
  /// When programs that moved data are through with what follows.
  double behind = moved;
  for (int32_t s = 0; s < count_; ++s) {
    ends[s] = 0;
    if (!isRunning(s)) {
      const int32_t leader = bodies_[s] > 0 ? leaderOf(s) : -1;
      // Those of a leader that computes are counted with it.
      if (leader >= 0 && isMoving(leader))
        ends[s] = behind += std::ceil(double(bodies_[s]) / double(movers)) * weight_[s];
      else if (leader >= 0)
        ends[s] = std::max(ends[leader], spaces_[s].waits ? moved + weight_[s] : 0);
      continue;
    }
    if (isMoving(s)) {
      ends[s] = moved;
      movers += shares_[s].least;
      if (!spaces_[s].waits)
        helpers += shares_[s].least;
      continue;
    }
    ends[s] = this->computed(s, spaces_[s].shares ? helpers : 0, moved);
    computed = std::max(computed, ends[s]);
    if (spaces_[s].waits)
      ends[s] = std::max(ends[s], moved + weight_[s]);
  }
  for (int32_t s = 0; s < count_; ++s)
    if (isMoving(s) && isRunning(s) && spaces_[s].waits)
      ends[s] = std::max(ends[s], computed + weight_[s]);
}

/// When the launch ends.
double Sharing::end() const {
  double ends[DTILE_DEVICE_MAX_SPACES] = {};
  findEnds(ends);
  return std::max(0.0, *std::max_element(ends, ends + std::max(count_, 1)));
}

/// Beside little arithmetic nobody else has a use for the rest.
void Sharing::giveIdle() {
  int64_t idle = resident_;
  for (int32_t s = 0; s < count_; ++s)
    idle -= shares_[s].least;
  for (int32_t s = 0; s < count_; ++s) {
    if (!isMoving(s) || isFixed(s) || !isRunning(s))
      continue;
    const int64_t more = std::clamp<int64_t>(bodies_[s] - shares_[s].least, 0, idle);
    shares_[s].least += more;
    idle -= more;
  }
}

/// Takes the shares that were decided before.
void Sharing::take(const int32_t *first) {
  for (int32_t s = 0; s < count_; ++s)
    shares_[s].least = first[s + 1] - first[s];
}

void Sharing::share() {
  if (!hasComputation_) {
    std::copy(fixed_, fixed_ + count_, shares_);
    return distribute(resident_ - needed_);
  }
  int64_t best = std::min(mostMovers_, std::max<int64_t>(1, resident_ / (covers_ ? 2 : 4)));
  give(best);
  double earliest = best > 1 ? end() : 0;
  for (int64_t movers = best - 1; movers > 0; --movers) {
    give(movers);
    if (const double end = this->end(); end < earliest * (1 - kDoubt)) {
      earliest = end;
      best = movers;
    }
  }
  give(best);
  giveIdle();
}

} // namespace

int64_t dtile_mean_weight(int64_t (*weight)(const void *frame, int64_t body, int64_t together,
                                            int64_t running),
                          const void *frame, int64_t bodies, int64_t together, int64_t running) {
  const int64_t count = std::min(bodies, kSampledBodies);
  if (count <= 0)
    return 1;
  // One in each part of equal length, and not always at the same place of it: what differs from
  // body to body often does so by dimensions of few blocks.
  const int64_t part = bodies / count;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += double(weight(frame, bodies * i / count + i % part, together, running));
  return std::max<int64_t>(int64_t(sum / double(count)), 1);
}

int64_t dtile_uncovered_latency(const dtile_device_space *space, int64_t weight, int64_t latency,
                                int64_t together) {
  if (together <= 1 || !space->covers || space->most > 0 || space->waits || weight <= 0 ||
      latency <= 0)
    return latency;
  const double own = 1 / double(together), w = double(weight);
  const double alone = own + double(latency) / w;
  const double time = w * std::cbrt((1 + alone * alone * alone) / (1 + own * own * own));
  return std::clamp<int64_t>(int64_t(time - w), 0, latency);
}

dtile_device_load dtile_load_of(int32_t nspaces, const int64_t *bodies, int64_t resident,
                                int64_t processors) {
  int64_t running = 0;
  for (int32_t s = 0; s < nspaces; ++s)
    running += std::min(std::max<int64_t>(bodies[s], 0), resident - running);
  running = std::max<int64_t>(running, 1);
  processors = std::max<int64_t>(processors, 1);
  return {running, (running + processors - 1) / processors};
}

int32_t dtile_share_programs(int32_t nspaces, const dtile_device_space *spaces,
                             const int64_t *bodies, const int64_t *weights,
                             const int64_t *latencies, int32_t resident, int32_t *first) {
  Sharing sharing(nspaces, spaces, bodies, weights, latencies, resident);
  if (sharing.needed() > resident)
    return int32_t(std::max<int64_t>(-sharing.needed(), INT32_MIN));
  sharing.share();
  first[0] = 0;
  for (int32_t s = 0; s < nspaces; ++s)
    first[s + 1] = first[s] + int32_t(sharing.programs(s));
  return first[nspaces];
}

double dtile_launch_time(int32_t nspaces, const dtile_device_space *spaces, const int64_t *bodies,
                         const int64_t *weights, const int64_t *latencies, const int32_t *first) {
  Sharing sharing(nspaces, spaces, bodies, weights, latencies, first[nspaces]);
  sharing.take(first);
  return sharing.end();
}

void dtile_space_ends(int32_t nspaces, const dtile_device_space *spaces, const int64_t *bodies,
                      const int64_t *weights, const int64_t *latencies, const int32_t *first,
                      double *ends) {
  Sharing sharing(nspaces, spaces, bodies, weights, latencies, first[nspaces]);
  sharing.take(first);
  sharing.findEnds(ends);
}

uint32_t dtile_divided_spaces(int32_t nspaces, const dtile_device_space *spaces,
                              const int64_t *bodies, const int64_t *weights,
                              const int64_t *latencies, const int32_t *first) {
  Sharing sharing(nspaces, spaces, bodies, weights, latencies, first[nspaces]);
  sharing.take(first);
  uint32_t divided = 0;
  for (int32_t s = 0; s < nspaces; ++s)
    if (sharing.programs(s) > 0 && sharing.isDivided(s))
      divided |= 1u << unsigned(s);
  return divided;
}

int32_t dtile_share_loops(int32_t nspaces, dtile_device_space *spaces, int32_t parts,
                          const int64_t *shared, int32_t resident, int64_t *bodies,
                          int64_t *weights) {
  int64_t programs = 0;
  for (int32_t s = 0; s < nspaces; ++s) {
    if (spaces[s].exchange == 0 || bodies[s] <= 0)
      continue;
    // With many bodies for each cluster there is nothing to gain.
    if (bodies[s] > kMostTurns * int64_t(resident))
      return 0;
    programs += bodies[s] * parts;
  }
  if (programs == 0 || resident < parts)
    return 0;
  for (int32_t s = 0; s < nspaces; ++s) {
    if (spaces[s].exchange == 0 || bodies[s] <= 0)
      continue;
    bodies[s] *= parts;
    spaces[s].divide = 0;
    // A cluster takes its bodies in turn, so no other program can, and it needs its own programs.
    spaces[s].shares = 0;
    spaces[s].follows = 0;
    weights[s] += spaces[s].exchange - shared[s] + shared[s] / parts;
    if (programs > resident)
      weights[s] += kRefill;
  }
  return 1;
}

void dtile_leave_to_engine(int32_t nspaces, dtile_device_space *spaces, uint32_t engine,
                           const int64_t *bodies, const double *bytes, double link_rate,
                           int64_t *weights, int64_t *latencies) {
  bool isLed = false;
  for (int32_t s = 0; s < nspaces && engine != 0; ++s) {
    if ((engine >> unsigned(s) & 1) == 0) {
      if (!isLed)
        spaces[s].follows = 0;
      isLed |= bodies[s] > 0;
      continue;
    }
    spaces[s].pinned = std::max(spaces[s].pinned, 1);
    spaces[s].fill = 1;
    weights[s] = int64_t(kEngineBody + bytes[s] / std::max(link_rate, 1.0));
    latencies[s] = 0;
  }
}

void dtile_share_link(int32_t nspaces, dtile_device_space *spaces, const int64_t *bodies,
                      const double *bytes, double link_rate, int64_t running,
                      const int64_t *latencies, int64_t *weights) {
  for (int32_t s = 0; s < nspaces && link_rate > 0; ++s) {
    const double all = bytes[s] * double(std::min(running, bodies[s]));
    if (spaces[s].follows == 1)
      weights[s] = std::max(weights[s], int64_t(all / link_rate) - latencies[s]);
    // The copy engine is one program.
    if (spaces[s].covers && spaces[s].fill > 1 && bytes[s] > 0)
      spaces[s].fill = int32_t(std::clamp(std::ceil(link_rate * double(weights[s]) / bytes[s]), 1.0,
                                          double(std::numeric_limits<int32_t>::max())));
  }
}

int32_t dtile_align_to_clusters(int32_t nspaces, const dtile_device_space *spaces, int32_t parts,
                                int32_t resident, const int64_t *bodies, int32_t *first) {
  const auto mayGrow = [&](int32_t space) {
    return spaces[space].exchange == 0 && !spaces[space].ordered && spaces[space].pinned == 0 &&
           first[space + 1] > first[space];
  };
  const auto moveFrom = [&](int32_t boundary) {
    const int32_t missing = (parts - first[boundary] % parts) % parts;
    int32_t grows = boundary - 1;
    while (missing > 0 && grows >= 0 && !mayGrow(grows))
      --grows;
    if (missing > 0 && grows < 0)
      return false;
    for (int32_t s = grows + 1; missing > 0 && s <= nspaces; ++s)
      first[s] += missing;
    return true;
  };
  for (int32_t s = 0; s < nspaces; ++s) {
    if (spaces[s].exchange == 0 || bodies[s] <= 0)
      continue;
    const int32_t programs = first[s + 1] - first[s];
    if (programs < parts || !moveFrom(s))
      return 0;
    // Whole clusters; what is left of one others have no use for.
    for (int32_t behind = s + 1; behind <= nspaces; ++behind)
      first[behind] -= programs % parts;
  }
  return moveFrom(nspaces) && first[nspaces] <= resident ? first[nspaces] : 0;
}

void dtile_add_unshared(dtile_device_space *space, int64_t weight, int64_t shared) {
  if (space->divide > 0)
    space->divide += int32_t(std::clamp<int64_t>(weight - shared, 0, INT32_MAX / 2));
}

int32_t dtile_divides(int64_t bodies, int64_t programs, double more) {
  if (programs <= 0 || bodies <= 0 || more <= 0)
    return 0;
  return roundsOf(bodies, programs, more) * (1 + kDoubt) < wholeRounds(bodies, programs);
}

int32_t dtile_pair_programs(int64_t paired, int64_t resident, int64_t bodies, int64_t programs,
                            double more, double gain, double start) {
  const int64_t inPairs = 2 * programsOf(paired / 2, resident / 2, more);
  if (inPairs <= 0 || programs <= 0 || 2 * inPairs < resident)
    return 0;
  const auto rounds = [&](int64_t count, int64_t at) {
    return dtile_divides(count, at, more) ? roundsOf(count, at, more) : wholeRounds(count, at);
  };
  const double alone = rounds(bodies, programs) * (1 + kDoubt);
  if (rounds(paired / 2, inPairs / 2) / gain + start > alone)
    return 0;
  return int32_t(std::min<int64_t>(inPairs, DTILE_DEVICE_PARTS));
}
