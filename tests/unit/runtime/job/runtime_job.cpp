// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One rank of a job started by oshrun: everything that the runtime does between processes. Each
// rank prints "rank R ok" when all was right. `runtime_job deadlock|trap|sizes` make the job fail,
// and each rank prints why; `recover` goes on then as if nothing had been, several times. Each rank
// prints its process in the other modes: `lasting` launches until somebody stops one, `unclosed`
// does not end the team then, and `closing` ends it a while after all is done.
#include "tests/unit/runtime/runtime_kernels.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <unistd.h>

using namespace dtile::test;

namespace {

dtile_team *team;
int ranks, me;
/// On a slow network, fewer launches.
int launchCount = 100;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "rank %d: %s:%d: %s: %s\n", me, __FILE__, __LINE__, #condition,         \
                   dtile_last_error());                                                            \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

/// This process has one rank: its arguments.
Arguments own(const std::vector<dtile_tensor> &tensors) {
  Arguments arguments(1);
  for (const dtile_tensor &t : tensors)
    arguments.add(0, t);
  return arguments;
}

int64_t one(const void *) { return 1; }
void nowhere(const void *, int64_t, int64_t *) {}

void gathersWhatAllRanksHave() {
  for (int64_t n : {5, 0, 1000, 5}) {
    std::vector<int64_t> x(static_cast<size_t>(n)), y(static_cast<size_t>(n * ranks));
    Arguments arguments = own({tensor(x.data(), {n}), tensor(y.data(), {n * ranks})});
    for (int launch = 0; launch < launchCount / 5; ++launch) {
      std::iota(x.begin(), x.end(), me * 1000 + launch);
      CHECK(dtile_launch_all(team, &kAllGather, arguments.data(), 2) == DTILE_OK);
      for (int64_t i = 0; i < n * ranks; ++i)
        CHECK(y[size_t(i)] == i / n * 1000 + launch + i % n);
    }
    CHECK(dtile_launch_repeat(team, &kAllGather, arguments.data(), 2, 3 * launchCount) == DTILE_OK);
    for (int64_t i = 0; i < n * ranks; ++i)
      CHECK(y[size_t(i)] == i / n * 1000 + launchCount / 5 - 1 + i % n);
  }
}

// ---- reduce_add, atomics, strided remote loads, barriers: in one kernel over symmetric memory
// ----

constexpr int64_t kRows = 6, kColumns = 10;

/// One block a rank of each element type.
struct Shared {
  float f32[kRows * kColumns];
  int64_t i64[kRows * kColumns];
  int32_t i32[kRows * kColumns];
  uint16_t bf16[kRows * kColumns];
  float most;
  int64_t least;
  uint8_t bytes[4];
  int32_t slot, mask;
};

struct Frame {
  FrameHead head;
  Shared *shared;
  int64_t *wrong;
};

int32_t prologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<Frame *>(memory);
  fillHead(launch, frame.head);
  frame.shared = reinterpret_cast<Shared *>(dtile_rt_arg_data(launch, 0));
  frame.wrong = static_cast<int64_t *>(dtile_rt_arg_data(launch, 1));
  return 0;
}

template <typename T>
void addBlock(dtile_task *task, T *block, int32_t dtype, T value, int32_t rank) {
  T source[kRows * kColumns];
  std::fill(std::begin(source), std::end(source), value);
  dtile_region from = region(source, dtype, {kRows, kColumns - 2});
  dtile_region to = region(block, dtype, {kRows, kColumns - 2}, rank);
  to.stride[0] = kColumns;
  dtile_rt_reduce_add(task, &from, &to);
}

void body(dtile_task *task, const void *memory, void *, int64_t) {
  const auto &frame = *static_cast<const Frame *>(memory);
  Shared &shared = *frame.shared;
  auto n = int32_t(frame.head.ranks);
  auto rank = int32_t(frame.head.rank);
  static constexpr dtile_site kSite = {"job.dtile", "barrier", 2, 2};
  auto expect = [&](bool right) { *frame.wrong += !right; };
  for (int32_t peer = 0; peer < n; ++peer) {
    addBlock(task, shared.f32, DTILE_F32, float(rank + 1), peer);
    addBlock(task, shared.i64, DTILE_I64, int64_t(rank) + 1, peer);
    addBlock(task, shared.i32, DTILE_I32, rank + 1, peer);
    // 1.0 in bf16.
    addBlock(task, shared.bf16, DTILE_BF16, uint16_t(0x3f80), peer);
    dtile_region most = region(&shared.most, DTILE_F32, {}, peer);
    float mine = float(rank) + 0.5f;
    uint32_t bits;
    std::memcpy(&bits, &mine, 4);
    dtile_rt_atomic(task, 2, &most, bits, 0);
    dtile_region least = region(&shared.least, DTILE_I64, {}, peer);
    dtile_rt_atomic(task, 1, &least, uint64_t(-1 - rank), 0);
    dtile_region byte = region(&shared.bytes[1], DTILE_U8, {}, peer);
    dtile_rt_atomic(task, 0, &byte, 1, 0);
    dtile_region slot = region(&shared.slot, DTILE_I32, {}, peer);
    dtile_rt_atomic(task, 0, &slot, 1, 0);
    dtile_region mask = region(&shared.mask, DTILE_I32, {}, peer);
    dtile_rt_atomic(task, 4, &mask, uint64_t(1) << rank, 0);
  }
  dtile_rt_barrier(task, &kSite);
  int64_t sum = int64_t(n) * (n + 1) / 2;
  for (int32_t peer = 0; peer < n; ++peer) {
    // A strided remote region: column 1 of the peer's block, and column 9, which nobody has added
    // to.
    int64_t columns[kRows * 2];
    dtile_region from = region(shared.i64 + 1, DTILE_I64, {kRows, 2}, peer);
    from.stride[0] = kColumns;
    from.stride[1] = 8;
    dtile_region to = region(columns, DTILE_I64, {kRows, 2});
    dtile_rt_get(task, &from, &to);
    dtile_rt_await(task);
    for (int64_t row = 0; row < kRows; ++row)
      expect(columns[2 * row] == sum && columns[2 * row + 1] == 0);
  }
  expect(shared.f32[0] == float(sum) && shared.f32[kColumns - 1] == 0);
  expect(shared.i32[kColumns * kRows - 3] == sum);
  float ones;
  uint32_t wide = uint32_t(shared.bf16[3]) << 16;
  std::memcpy(&ones, &wide, 4);
  expect(ones == float(n));
  expect(shared.most == float(n) - 0.5f && shared.least == -n);
  expect(shared.bytes[0] == 0 && shared.bytes[1] == n && shared.bytes[2] == 0);
  expect(shared.slot == n && shared.mask == (1 << n) - 1);
  // Whoever comes first exchanges its number in.
  dtile_region first = region(&shared.slot, DTILE_I32, {}, 0);
  dtile_rt_barrier(task, &kSite);
  auto seen = int32_t(dtile_rt_atomic(task, 6, &first, 1000 + uint64_t(rank), uint64_t(n)));
  expect(seen == n || (seen >= 1000 && seen < 1000 + n));
  // Neighbour's value by a plain store.
  int32_t word = 7 + rank;
  dtile_region source = region(&word, DTILE_I32, {});
  dtile_region target = region(&shared.i32[kColumns - 1], DTILE_I32, {}, (rank + 1) % n);
  dtile_rt_store(task, &source, &target);
  dtile_rt_barrier(task, &kSite);
  expect(shared.i32[kColumns - 1] == 7 + (rank + n - 1) % n);
}

void addsAndAtomicsLoseNothing() {
  const dtile_param_desc params[] = {
      {"shared", DTILE_PARAM_TENSOR, DTILE_MODE_SYMM, DTILE_U8, 1, 0, 1},
      {"wrong", DTILE_PARAM_TENSOR, DTILE_MODE_OUT, DTILE_I64, 1, 0, 1},
  };
  const dtile_space_desc spaces[] = {{"", 0, -1, 0, 0, nullptr, one, nowhere, 0, body}};
  const dtile_kernel_desc kernel = {
      DTILE_ABI_VERSION, 0,       "adds", "job.dtile", 2, 1, 0, 0, params, spaces, nullptr,
      sizeof(Frame),     prologue};
  for (int round = 0; round < 5; ++round) {
    void *memory = nullptr;
    CHECK(dtile_symm_alloc(team, sizeof(Shared), &memory) == DTILE_OK);
    int64_t wrong = 0;
    Arguments arguments(1);
    dtile_tensor shared = tensor(static_cast<int64_t *>(memory), {int64_t(sizeof(Shared))});
    shared.dtype = DTILE_U8;
    arguments.add(0, shared);
    arguments.add(0, tensor(&wrong, {1}));
    CHECK(dtile_launch_all(team, &kernel, arguments.data(), 2) == DTILE_OK);
    CHECK(wrong == 0);
    CHECK(dtile_symm_free(team, memory) == DTILE_OK);
  }
}

// ---- Scratch that is zeroed, and room made by what is old ----

struct ZeroFrame {
  FrameHead head;
  int64_t *inbox, *right;
  uint64_t *ready;
};

int32_t zeroPrologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<ZeroFrame *>(memory);
  fillHead(launch, frame.head);
  frame.right = static_cast<int64_t *>(dtile_rt_arg_data(launch, 0));
  int64_t n = 4;
  frame.inbox = static_cast<int64_t *>(dtile_rt_scratch(launch, 1, 1, &n));
  frame.ready = static_cast<uint64_t *>(dtile_rt_signal(launch, 2, 0, nullptr));
  return frame.inbox && frame.ready ? 0 : 1;
}

void zeroBody(dtile_task *task, const void *memory, void *, int64_t) {
  const auto &frame = *static_cast<const ZeroFrame *>(memory);
  static constexpr dtile_site kSite = {"job.dtile", "ready", 1, 1};
  for (int32_t r = 0; r < frame.head.ranks; ++r) {
    dtile_region there = region(frame.inbox, DTILE_I64, {}, r);
    dtile_rt_atomic(task, 0, &there, uint64_t(frame.head.epoch + 1), 0);
    dtile_region cell = region(frame.ready, DTILE_U64, {}, r);
    dtile_rt_notify(task, &cell, &kSite);
  }
  dtile_region cell = region(frame.ready, DTILE_U64, {});
  dtile_rt_wait(task, &cell, -1, &kSite);
  *frame.right += *frame.inbox == frame.head.ranks * (frame.head.epoch + 1);
}

int64_t ranksNotify(const void *frame, int64_t) {
  return static_cast<const ZeroFrame *>(frame)->head.ranks;
}

void zeroedScratchHoldsOnlyItsLaunch() {
  const dtile_param_desc params[] = {
      {"right", DTILE_PARAM_TENSOR, DTILE_MODE_INOUT, DTILE_I64, 1, 0, 1},
      {"inbox", DTILE_PARAM_TENSOR, DTILE_MODE_SCRATCH, DTILE_I64, 1, 1, 1},
      {"ready", DTILE_PARAM_SIGNAL, DTILE_MODE_SYMM, DTILE_U64, 0, 0, 1},
  };
  const dtile_space_desc spaces[] = {{"", 0, -1, 0, 0, nullptr, one, nowhere, 0, zeroBody}};
  const dtile_signal_desc signals[] = {{2, ranksNotify}};
  const dtile_kernel_desc kernel = {
      DTILE_ABI_VERSION, 0,           "zero", "job.dtile", 3, 1, 1, 0, params, spaces, signals,
      sizeof(ZeroFrame), zeroPrologue};
  int64_t right = 0;
  Arguments arguments = own({tensor(&right, {1})});
  CHECK(dtile_launch_repeat(team, &kernel, arguments.data(), 1, 2 * launchCount) == DTILE_OK);
  CHECK(right == 2 * launchCount);
}

void scratchOfOldSizesMakesRoom() {
  // Each takes a good part of the heap of 8 MiB.
  for (int64_t n : {200'000, 210'000, 220'000, 200'000}) {
    std::vector<int64_t> x(size_t(n), me + n), y(size_t(n), 0);
    Arguments arguments = own({tensor(x.data(), {n}), tensor(y.data(), {n})});
    for (int i = 0; i < 3; ++i)
      CHECK(dtile_launch_all(team, &kNeighbourPut, arguments.data(), 2) == DTILE_OK);
    CHECK(y[size_t(n) - 1] == (me + ranks - 1) % ranks + n);
  }
}

void teamCollectivesWork() {
  std::vector<char> mine(50'000, char('a' + me)), all(size_t(ranks) * mine.size());
  const void *in[] = {mine.data()};
  CHECK(dtile_team_all_gather(team, in, int64_t(mine.size()), all.data()) == DTILE_OK);
  for (size_t i = 0; i < all.size(); ++i)
    CHECK(all[i] == char('a' + i / mine.size()));
  for (int i = 0; i < 10; ++i)
    CHECK(dtile_team_barrier(team) == DTILE_OK);
}

// ---- Failures ----

void waitForever(dtile_task *task, const void *memory, void *, int64_t) {
  const auto &frame = *static_cast<const ZeroFrame *>(memory);
  static constexpr dtile_site kSite = {"job.dtile", "ready", 4, 4};
  dtile_region cell = region(frame.ready, DTILE_U64, {});
  dtile_rt_wait(task, &cell, -1, &kSite);
}

void trapOnLastRank(dtile_task *task, const void *memory, void *, int64_t) {
  const auto &frame = *static_cast<const ZeroFrame *>(memory);
  static constexpr dtile_site kSite = {"job.dtile", "assert", 5, 5};
  if (frame.head.rank == frame.head.ranks - 1)
    dtile_rt_fail(task, &kSite, "no room", 0, nullptr);
  waitForever(task, memory, nullptr, 0);
}

void tellLastRank(dtile_task *task, const void *memory, void *, int64_t) {
  const auto &frame = *static_cast<const ZeroFrame *>(memory);
  static constexpr dtile_site kSite = {"job.dtile", "ready", 6, 6};
  dtile_region cell = region(frame.ready, DTILE_U64, {}, int32_t(frame.head.ranks) - 1);
  dtile_rt_notify(task, &cell, &kSite);
}

/// Launches a kernel of one body: all wait for ever, or the last rank gives up, or is told
/// something.
dtile_status launchBody(void (*body)(dtile_task *, const void *, void *, int64_t)) {
  const dtile_param_desc params[] = {
      {"right", DTILE_PARAM_TENSOR, DTILE_MODE_INOUT, DTILE_I64, 1, 0, 1},
      {"inbox", DTILE_PARAM_TENSOR, DTILE_MODE_SCRATCH, DTILE_I64, 1, 0, 1},
      {"ready", DTILE_PARAM_SIGNAL, DTILE_MODE_SYMM, DTILE_U64, 0, 0, 1},
  };
  const dtile_space_desc spaces[] = {{"", 0, -1, 0, 0, nullptr, one, nowhere, 0, body}};
  const dtile_signal_desc signals[] = {{2, ranksNotify}};
  const dtile_kernel_desc kernel = {
      DTILE_ABI_VERSION, 0,           "stuck", "job.dtile", 3, 1, 1, 0, params, spaces, signals,
      sizeof(ZeroFrame), zeroPrologue};
  int64_t right = 0;
  Arguments arguments = own({tensor(&right, {1})});
  return dtile_launch_all(team, &kernel, arguments.data(), 1);
}

/// Nobody knows when a failure of another rank comes: it may be in any of these calls.
void recoversFromAnywhere() {
  void *kept = nullptr;
  CHECK(dtile_symm_alloc(team, 5000, &kept) == DTILE_OK);
  std::memset(kept, 7, 5000);
  for (int round = 0; round < 6; ++round) {
    // Some ranks have launched other kernels before, and seen other sizes, when the last one fails.
    const int64_t n = 100 + 10 * round;
    std::vector<int64_t> x(static_cast<size_t>(n), me), y(static_cast<size_t>(n * ranks));
    Arguments arguments = own({tensor(x.data(), {n}), tensor(y.data(), {n * ranks})});
    dtile_status status = DTILE_OK;
    if (round % 3 == 1 && me == ranks - 1) {
      status = launchBody(trapOnLastRank);
    } else if (round % 3 == 1) {
      while (status == DTILE_OK)
        status = dtile_launch_all(team, &kAllGather, arguments.data(), 2);
    } else {
      status = round % 3 == 0 ? launchBody(trapOnLastRank) : dtile_team_barrier(team);
    }
    // In the third round nothing has failed.
    CHECK((status == DTILE_OK) == (round % 3 == 2));
    // A process that has all ranks has recovered.
    if (round % 3 != 2 && ranks > 1)
      CHECK(dtile_team_barrier(team) != DTILE_OK);
    CHECK(dtile_team_recover(team) == DTILE_OK);
    CHECK(dtile_team_barrier(team) == DTILE_OK);
    gathersWhatAllRanksHave();
    addsAndAtomicsLoseNothing();
    zeroedScratchHoldsOnlyItsLaunch();
  }
  for (int i = 0; i < 5000; ++i)
    CHECK(static_cast<char *>(kept)[i] == 7);
  CHECK(dtile_symm_free(team, kept) == DTILE_OK);
}

/// Launches until a rank does not come any more; the exit code, 0 where that never was.
int lasting(const std::string &mode) {
  std::vector<int64_t> x(100, me), y(size_t(100 * ranks));
  Arguments arguments = own({tensor(x.data(), {100}), tensor(y.data(), {100 * ranks})});
  CHECK(dtile_launch_all(team, &kAllGather, arguments.data(), 2) == DTILE_OK);
  std::printf("rank %d is process %d\n", me, int(getpid()));
  std::fflush(stdout);
  if (mode == "closing") {
    // Every rank could go; one of them is stopped meanwhile.
    usleep(2'000'000);
    dtile_team_destroy(team);
    return 0;
  }
  for (int i = 0; i < 100'000; ++i) {
    usleep(1000);
    dtile_status status = dtile_launch_all(team, &kAllGather, arguments.data(), 2);
    if (status == DTILE_OK)
      continue;
    // Not flushed: the exit has to do it.
    std::printf("rank %d: %d: %s\n", me, status, dtile_last_error());
    if (mode == "unclosed")
      return 0;
    dtile_team_destroy(team);
    return 7;
  }
  return 0;
}

/// The last rank takes no part in OpenSHMEM for a while: what it is told does not land, and who
/// told it waits at the end of a launch.
int asleep() {
  CHECK(launchBody(tellLastRank) == DTILE_OK);
  CHECK(dtile_team_barrier(team) == DTILE_OK);
  std::printf("rank %d is process %d\n", me, int(getpid()));
  std::fflush(stdout);
  // The last rank has been asleep for a while when it is told.
  usleep(me == ranks - 1 ? 60'000'000 : 500'000);
  const dtile_status status = launchBody(tellLastRank);
  std::printf("rank %d: %d: %s\n", me, status, dtile_last_error());
  return 7;
}

int failing(const std::string &mode) {
  if (mode == "sizes") {
    void *memory = nullptr;
    dtile_status status = dtile_symm_alloc(team, 1000 + me, &memory);
    std::printf("rank %d: %d: %s\n", me, status, dtile_last_error());
    return 1;
  }
  dtile_status status = launchBody(mode == "trap" ? trapOnLastRank : waitForever);
  std::printf("rank %d: %d: %s\n", me, status, dtile_last_error());
  status = dtile_team_barrier(team);
  std::printf("rank %d: then %d\n", me, status);
  return status == DTILE_OK ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  options.symmetric_bytes = 8 << 20;
  std::string mode = argc > 1 ? argv[1] : "";
  bool fails = mode == "deadlock" || mode == "trap" || mode == "sizes";
  const bool isPatient = mode == "patient";
  const bool lasts = isPatient || mode == "lasting" || mode == "unclosed" || mode == "closing";
  options.wait_timeout_ms = fails              ? 500
                            : isPatient        ? 8000
                            : mode == "asleep" ? 4000
                            : lasts            ? 1000
                                               : 0;
  options.workers = mode == "workers" ? 3 : 0;
  if (mode == "few")
    launchCount = 5;
  if (mode == "small" || mode == "huge")
    options.symmetric_bytes = mode == "small" ? 1 : INT64_MAX;
  if (dtile_team_create_env(&options, &team) != DTILE_OK) {
    std::fprintf(stderr, "%s\n", dtile_last_error());
    return 1;
  }
  ranks = dtile_team_size(team);
  me = dtile_team_first_local(team);
  if (fails) {
    int code = failing(mode);
    std::fflush(stdout);
    dtile_team_destroy(team);
    return code;
  }
  if (lasts)
    return lasting(mode);
  if (mode == "asleep")
    return asleep();
  CHECK(dtile_team_local_count(team) == 1);
  if (mode == "recover") {
    launchCount = 5;
    recoversFromAnywhere();
  }
  gathersWhatAllRanksHave();
  addsAndAtomicsLoseNothing();
  zeroedScratchHoldsOnlyItsLaunch();
  scratchOfOldSizesMakesRoom();
  teamCollectivesWork();
  std::printf("rank %d ok\n", me);
  std::fflush(stdout);
  dtile_team_destroy(team);
  return 0;
}
