// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shmem device library on threads of this process (device_threads.h): copies of all shapes,
// launches of several ranks that send and wait, and launches that fail.
#include "backend/device_library/device.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csetjmp>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace {

/// A block of threads: where they meet.
struct Program {
  std::mutex mutex;
  std::condition_variable changed;
  int32_t threads = 1;
  struct Barrier {
    int32_t arrived = 0, any = 0, answer = 0;
    uint64_t round = 0;
  };
  /// Of all threads, then of each warp.
  static constexpr int32_t kWarps = 8;
  std::array<Barrier, 2 + kWarps> barriers;

  int32_t meet(int32_t x, int32_t number, int32_t count) {
    std::unique_lock lock(mutex);
    Barrier &barrier = barriers[size_t(number)];
    barrier.any |= x != 0;
    const uint64_t round = barrier.round;
    if (++barrier.arrived == count) {
      barrier.answer = barrier.any;
      barrier.any = barrier.arrived = 0;
      ++barrier.round;
      changed.notify_all();
    } else {
      changed.wait(lock, [&] { return barrier.round != round; });
    }
    return barrier.answer;
  }
};

struct Thread {
  Program *program = nullptr;
  int32_t index = 0, threads = 1, number = 0;
  std::jmp_buf *exit = nullptr;
};
thread_local Thread current;

} // namespace

extern "C" {
int32_t dtile_test_thread() { return current.index; }
int32_t dtile_test_threads() { return current.threads; }
int32_t dtile_test_program() { return current.number; }
int32_t dtile_test_any(int32_t x, int32_t barrier, int32_t threads) {
  return current.program->meet(x, barrier, threads);
}
void dtile_test_meet_warp() { (void)current.program->meet(0, 2 + current.index / 32, 32); }
void dtile_test_leave() { std::longjmp(*current.exit, 1); }
void dtile_test_yield() { std::this_thread::yield(); }
}

namespace {

// Copies.

struct Shape {
  int64_t rows, cols, toRow, fromRow, toCol, fromCol;
};

/// Copies between buffers, with elements `toOffset` and `fromOffset` bytes behind a multiple of 16,
/// and compares every byte with what a plain loop gives.
/// Shared memory of `bufferBytes` bytes is there for the copy to go through: whether it did.
/// Threads run one after the other, or `meet`.
bool checkCopy(int32_t bytes, Shape shape, int64_t toOffset, int64_t fromOffset, int32_t threads,
               int32_t bufferBytes = 0, bool meet = false) {
  auto span = [&](int64_t row, int64_t col) {
    return ((shape.rows - 1) * row + (shape.cols - 1) * col + 1) * bytes;
  };
  auto buffer = [](int64_t size) { return std::vector<uint64_t>(size_t(size / 8 + 8)); };
  std::vector<uint64_t> from = buffer(span(shape.fromRow, shape.fromCol) + 32);
  std::vector<uint64_t> to = buffer(span(shape.toRow, shape.toCol) + 32);
  std::mt19937_64 random(uint64_t(testing::UnitTest::GetInstance()->random_seed()));
  for (uint64_t &word : from)
    word = random();
  for (uint64_t &word : to)
    word = random();
  auto start = [](std::vector<uint64_t> &words, int64_t offset) {
    auto address = reinterpret_cast<uintptr_t>(words.data());
    return reinterpret_cast<char *>((address + 15) / 16 * 16 + uintptr_t(offset));
  };
  std::vector<uint64_t> expected = to;
  const char *source = start(from, fromOffset);
  char *plain = reinterpret_cast<char *>(expected.data()) +
                (start(to, toOffset) - reinterpret_cast<char *>(to.data()));
  for (int64_t i = 0; i < shape.rows; ++i)
    for (int64_t j = 0; j < shape.cols; ++j)
      std::memcpy(plain + (i * shape.toRow + j * shape.toCol) * bytes,
                  source + (i * shape.fromRow + j * shape.fromCol) * bytes, size_t(bytes));
  const uint64_t untouched = random();
  std::vector<uint64_t> shared(size_t(bufferBytes / 8 + 3), untouched);
  Program program;
  const auto copy = [&](int32_t thread) {
    current = {&program, thread, threads};
    dtile_dev_copy(start(to, toOffset), source, bytes, shape.rows, shape.cols, shape.toRow,
                   shape.fromRow, shape.toCol, shape.fromCol, threads,
                   bufferBytes ? start(shared, 0) : nullptr, bufferBytes);
  };
  std::vector<std::thread> lanes;
  for (int32_t thread = 0; thread < threads; ++thread)
    if (meet)
      lanes.emplace_back(copy, thread);
    else
      copy(thread);
  for (std::thread &lane : lanes)
    lane.join();
  // What is behind the buffer is somebody else's.
  EXPECT_EQ(shared.back(), untouched);
  EXPECT_EQ(to, expected) << bytes << " bytes, " << shape.rows << " x " << shape.cols
                          << ", rows of " << shape.toRow << " and " << shape.fromRow
                          << ", columns of " << shape.toCol << " and " << shape.fromCol << ", at "
                          << toOffset << " and " << fromOffset << ", " << threads << " threads";
  return std::any_of(shared.begin(), shared.end(),
                     [&](uint64_t word) { return word != untouched; });
}

TEST(DeviceCopy, MovesEveryElementAndNothingElse) {
  for (int32_t threads : {1, 7, 128})
    for (int32_t bytes : {1, 2, 4, 8})
      for (int64_t rows : {1, 3, 40})
        for (int64_t cols : {1, 5, 64, 1000})
          for (int64_t gap : {0, 8, 3}) {
            const int64_t pitch = cols + gap;
            checkCopy(bytes, {rows, cols, pitch, cols, 1, 1}, 0, 0, threads);
            checkCopy(bytes, {rows, cols, cols, pitch, 1, 1}, bytes, 0, threads);
            checkCopy(bytes, {rows, cols, pitch, pitch, 1, 1}, bytes, bytes, threads);
          }
}

TEST(DeviceCopy, MovesColumnsAndEveryOtherElement) {
  for (int32_t threads : {1, 32})
    for (int32_t bytes : {1, 2, 8}) {
      // Transposed on one side, strided on both, one column.
      checkCopy(bytes, {33, 17, 17, 1, 1, 33}, 0, 0, threads);
      checkCopy(bytes, {9, 50, 100, 150, 2, 3}, 0, 0, threads);
      checkCopy(bytes, {70, 1, 3, 5, 9, 9}, 0, 0, threads);
    }
}

/// What kernels without staged products lend on sm_90, and from how many bytes on copies use it:
/// slots of few warps are larger.
constexpr int32_t kBuffer = 4 * (128 + 4 * 4096);
constexpr int64_t leastOf(int32_t threads) { return threads < 128 ? 32768 : 65536; }

TEST(DeviceCopy, MovesLargeRowsInBulk) {
  for (int32_t threads : {32, 64, 128, 256})
    for (int64_t gap : {0, 8}) {
      const auto rows = [&](int64_t count, int64_t bytes) {
        return Shape{count, bytes / 2, bytes / 2 + gap, bytes / 2 + 2 * gap, 1, 1};
      };
      // Fewer slots than there are, all of them, several rounds; a last slot that is not full.
      for (int64_t count : {1, 3, 4, 5, 8, 9, 40})
        for (int64_t rest : {0, 16, 8176})
          EXPECT_EQ(checkCopy(2, rows(1, count * 8192 + rest), 0, 0, threads, kBuffer),
                    count * 8192 + rest >= leastOf(threads));
      // Rows that fill slots, that end in them, and that need several.
      for (int64_t bytes : {2048, 2064, 3072, 8192, 8208, 20000})
        for (int64_t count : {2, 16, 50})
          EXPECT_EQ(checkCopy(2, rows(count, bytes), 16, 32, threads, kBuffer),
                    count * bytes >= leastOf(threads));
      // Less room: smaller slots, then none.
      const int32_t walkers = std::min(threads / 32, 4);
      EXPECT_TRUE(checkCopy(2, rows(20, 10000), 0, 0, threads, walkers * (128 + 4 * 3072)));
      EXPECT_TRUE(checkCopy(2, rows(20, 10000), 0, 0, threads, walkers * (128 + 4 * 2048)));
      EXPECT_FALSE(checkCopy(2, rows(20, 10000), 0, 0, threads, walkers * (128 + 4 * 2048) - 8));
    }
}

TEST(DeviceCopy, ShiftsLargeRowsInBulk) {
  const auto isShifted = [](int32_t bytes, Shape shape, int64_t to, int64_t from, int32_t threads,
                            int32_t buffer = kBuffer) {
    return checkCopy(bytes, shape, to, from, threads, buffer, /*meet=*/true);
  };
  // All shifts of one row, of one part and of several.
  for (int64_t from = 0; from < 16; ++from)
    for (int64_t bytes : {32769, 200003})
      EXPECT_TRUE(isShifted(1, {1, bytes, bytes, bytes, 1, 1}, (from + 3) / 4, from, 64));
  // Rows of one part and of several, each of which begins elsewhere; some are not shifted.
  for (int32_t threads : {32, 128})
    for (int32_t bytes : {1, 2, 8})
      for (int64_t size : {2064, 9000}) {
        const int64_t cols = size / bytes, rows = leastOf(threads) / size + 3;
        EXPECT_TRUE(isShifted(bytes, {rows, cols, cols + 3, cols + 1, 1, 1}, bytes, 0, threads));
        EXPECT_TRUE(isShifted(bytes, {rows, cols - 1, cols, cols, 1, 1}, 0, 8 - bytes, threads));
      }
  // More warps than walk, and less room: smaller slots.
  EXPECT_TRUE(isShifted(2, {4, 20000, 20001, 20000, 1, 1}, 0, 2, 256));
  EXPECT_TRUE(isShifted(2, {4, 20000, 20001, 20000, 1, 1}, 0, 2, 64, 2 * (128 + 4 * 2048)));
}

TEST(DeviceCopy, MovesRowsThatNoEngineTakes) {
  // Warps that are not whole, strided, and too short.
  EXPECT_FALSE(checkCopy(2, {40, 4096, 4096, 4096, 1, 1}, 2, 0, 129, kBuffer));
  EXPECT_FALSE(checkCopy(4, {40, 4096, 4096, 8192, 1, 2}, 0, 0, 128, kBuffer));
  EXPECT_FALSE(checkCopy(2, {40, 512, 520, 528, 1, 1}, 2, 0, 128, kBuffer));
  EXPECT_FALSE(checkCopy(2, {40, 512, 520, 528, 1, 1}, 0, 0, 128, kBuffer));
}

TEST(DeviceCopy, MovesLongRowsThatBeginAtAnotherByteOfAWord) {
  for (int64_t to = 0; to < 16; ++to)
    for (int64_t from = 0; from < 16; ++from)
      for (int64_t bytes : {512, 529, 4099})
        checkCopy(1, {1, bytes, bytes, bytes, 1, 1}, to, from, 64);
  for (int32_t threads : {32, 33, 96, 256})
    for (int32_t bytes : {1, 2, 4, 8})
      for (int64_t rows : {1, 2, 9})
        for (int64_t cols : {511, 1025, 3000}) {
          checkCopy(bytes, {rows, cols, cols, cols, 1, 1}, bytes, 0, threads);
          checkCopy(bytes, {rows, cols, cols + 1, cols + 2, 1, 1}, 0, 8 - bytes, threads);
        }
}

TEST(DeviceCopy, MovesNothingWhereThereIsNothing) {
  checkCopy(4, {0, 16, 16, 16, 1, 1}, 0, 0, 3);
  checkCopy(4, {16, 0, 16, 16, 1, 1}, 0, 0, 3);
}

// Launches.

constexpr int32_t kRanks = 4, kPrograms = 3, kThreads = 4, kWords = 64;
constexpr uint64_t kKernelId = 0x123456789abcdef0;

/// Ranks whose heaps are vectors: cells of meetings, then a signal's, then data.
struct Team {
  struct Rank {
    std::vector<uint64_t> heap = std::vector<uint64_t>(kRanks + kRanks + kRanks * kWords);
    std::vector<uint64_t> bases = std::vector<uint64_t>(2 * kRanks), asked = bases;
    uint64_t since[2] = {};
    std::vector<uint64_t> peers = std::vector<uint64_t>(kRanks);
    dtile_device_team team = {};
    dtile_device_kernel kernel = {};
    dtile_device_report report = {};
    dtile_device_cells cells = {};
    [[nodiscard]] uint64_t *data() { return heap.data() + 2 * kRanks; }
  };
  std::vector<Rank> ranks = std::vector<Rank>(kRanks);
  uint32_t abort = 0;

  explicit Team(int64_t budget) {
    for (int32_t r = 0; r < kRanks; ++r) {
      Rank &rank = ranks[size_t(r)];
      for (int32_t p = 0; p < kRanks; ++p)
        rank.peers[size_t(p)] = reinterpret_cast<uint64_t>(ranks[size_t(p)].heap.data());
      rank.cells = {rank.heap.data() + kRanks, rank.bases.data(), rank.since, rank.asked.data()};
      rank.team.rank = r;
      rank.team.num_ranks = kRanks;
      rank.team.peers = rank.peers.data();
      rank.team.meeting = rank.heap.data();
      rank.team.abort = &abort;
      rank.team.report = &rank.report;
      rank.team.wait_budget_ns = budget;
    }
  }

  /// Runs `body` in all threads of all programs of all ranks; the number of threads that came to
  /// its end.
  int run(uint32_t flags,
          const std::function<void(Rank &rank, const dtile_device_launch &launch)> &body) {
    std::vector<std::thread> all;
    std::vector<std::unique_ptr<Program>> programs;
    std::vector<dtile_device_launch> launches(kRanks);
    std::atomic<int> ended = 0;
    for (int32_t r = 0; r < kRanks; ++r) {
      Rank &rank = ranks[size_t(r)];
      dtile_device_launch &launch = launches[size_t(r)];
      launch = {};
      launch.team = &rank.team;
      launch.kernel = &rank.kernel;
      launch.rank = r;
      launch.num_ranks = kRanks;
      for (size_t p = 0; p < size_t(kRanks); ++p)
        launch.shift[p] = int64_t(rank.peers[p] - rank.peers[size_t(r)]);
      launch.programs = kPrograms;
      launch.flags = flags;
      launch.kernel_id = kKernelId;
      // Program 0 is the first space's, the others the second's.
      launch.first_program[1] = 1;
      for (int32_t space = 2; space <= DTILE_DEVICE_MAX_SPACES; ++space)
        launch.first_program[space] = kPrograms;
      for (int32_t p = 0; p < kPrograms; ++p) {
        programs.push_back(std::make_unique<Program>());
        Program *program = programs.back().get();
        for (int32_t t = 0; t < kThreads; ++t)
          all.emplace_back([&, program, p, t] {
            std::jmp_buf leave;
            current = {program, t, kThreads, p, &leave};
            if (setjmp(leave) == 0) {
              body(rank, launch);
              ++ended;
            }
          });
      }
    }
    for (std::thread &thread : all)
      thread.join();
    return ended;
  }
};

TEST(DeviceLaunch, WaitsSeeWhatPeersHaveSentLaunchAfterLaunch) {
  Team team(0);
  std::atomic<int> wrong = 0, last = 0;
  constexpr int kLaunches = 5;
  for (int launch = 0; launch < kLaunches; ++launch) {
    const int ended =
        team.run(DTILE_KERNEL_ENTRY_BARRIER, [&](Team::Rank &rank, const dtile_device_launch &l) {
          dtile_dev_start();
          dtile_dev_enter(&l);
          const auto me = uint64_t(l.rank);
          if (current.number == 0) {
            // Its number to every rank.
            std::vector<uint64_t> mine(kWords, me * 1000 + uint64_t(launch));
            for (int64_t peer = 0; peer < kRanks; ++peer) {
              dtile_dev_put(&l, rank.data() + me * kWords, peer, mine.data(), 8, 1, kWords, kWords,
                            kWords, 1, 1, kThreads, nullptr, 0, 0, nullptr);
              dtile_dev_sync(0, 0, kThreads);
              if (current.index == 0)
                dtile_dev_notify(&l, rank.cells.cells + me, peer, DTILE_DISTANCE_TEAM, 0);
            }
          } else {
            // Each thread waits for one rank's.
            const int32_t failed = dtile_dev_wait(&l, &rank.cells, current.index,
                                                  int64_t(launch) << DTILE_DEVICE_PART_BITS, 1,
                                                  DTILE_DISTANCE_TEAM, 7);
            dtile_dev_sync(failed, 0, kThreads);
            for (uint64_t from = 0; from < kRanks; ++from)
              for (int word = 0; word < kWords; ++word)
                if (rank.data()[from * kWords + uint64_t(word)] != from * 1000 + uint64_t(launch))
                  ++wrong;
          }
          if (dtile_dev_end_as_last(&l, launch)) {
            ++last;
            dtile_dev_move_base(&rank.cells, current.index,
                                int64_t(launch) << DTILE_DEVICE_PART_BITS, 1);
          }
        });
    EXPECT_EQ(ended, kRanks * kPrograms * kThreads);
    EXPECT_EQ(wrong, 0);
    // All threads of one program a rank.
    EXPECT_EQ(last, (launch + 1) * kRanks * kThreads);
  }
  for (Team::Rank &rank : team.ranks) {
    EXPECT_EQ(rank.kernel.ended, uint64_t(kLaunches) << DTILE_DEVICE_PART_BITS);
    EXPECT_EQ(rank.kernel.entered, kLaunches);
    EXPECT_EQ(rank.kernel.finished, 0);
    EXPECT_EQ(rank.team.meetings, kLaunches);
    EXPECT_EQ(rank.report.state, 0u);
  }
}

TEST(DeviceLaunch, WaitsDoNotSeeThatBasesHaveMoved) {
  Team team(0);
  std::atomic<int> wrong = 0;
  std::atomic<int> passed[kRanks][kThreads] = {};
  int before = 0;
  // Launches that use the signal, which is as old as the third one: others lie between.
  for (int64_t launch : {2, 3, 4, 7, 8, 10}) {
    team.run(0, [&](Team::Rank &rank, const dtile_device_launch &l) {
      dtile_dev_start();
      const int64_t cell = current.index, count = cell + 2;
      // Some of this launch's programs may have ended, too.
      const int64_t ended = launch * DTILE_DEVICE_PARTS + current.number * 1000;
      std::atomic<int> &seen = passed[l.rank][cell];
      // The first program moves the bases, then the last one waits for what the second one sends.
      if (current.number == 0) {
        dtile_dev_move_base(&rank.cells, cell, ended, count);
        dtile_dev_space_done(&l, launch, 0);
      } else if (current.number == 1) {
        for (int64_t notify = 0; notify < count; ++notify) {
          for (int round = 0; round < 50; ++round)
            std::this_thread::yield();
          wrong += seen != before;
          dtile_dev_notify(&l, rank.cells.cells + cell, -1, DTILE_DISTANCE_RANK, 0);
        }
      } else {
        dtile_dev_space_await(&l, launch, 0, 0);
        wrong += dtile_dev_wait(&l, &rank.cells, cell, ended, count, DTILE_DISTANCE_RANK, 7);
        ++seen;
      }
      (void)dtile_dev_end(&l, launch);
    });
    ++before;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(DeviceLaunch, SpacesAndBarriersWaitForAll) {
  Team team(0);
  std::atomic<int> first = 0, arrived = 0, tooEarly = 0;
  const int ended = team.run(0, [&](Team::Rank &rank, const dtile_device_launch &l) {
    dtile_dev_start();
    if (current.number == 0) {
      ++arrived;
      dtile_dev_barrier(&l, 0, 0, kThreads);
      tooEarly += arrived != kRanks * kThreads;
      dtile_dev_barrier(&l, 0, 0, kThreads);
      ++first;
      dtile_dev_space_done(&l, 0, 0);
    } else {
      dtile_dev_space_await(&l, 0, 0, 3);
      tooEarly += first < kThreads;
      tooEarly += rank.kernel.progress[0].space_finished[0] != 1;
    }
    (void)dtile_dev_end(&l, 0);
  });
  EXPECT_EQ(ended, kRanks * kPrograms * kThreads);
  EXPECT_EQ(tooEarly, 0);
  for (Team::Rank &rank : team.ranks) {
    EXPECT_EQ(rank.team.meetings, 2u);
    EXPECT_EQ(rank.kernel.progress[0].space_finished[0], 1u);
    EXPECT_EQ(rank.kernel.ended, uint64_t(DTILE_DEVICE_PARTS));
  }
}

TEST(DeviceLaunch, SharesMakeALaunchWhenTheLastProgramEnds) {
  Team team(0);
  std::atomic<int> wrong = 0;
  for (int64_t launch = 0; launch < 5; ++launch) {
    std::atomic<int> others[kRanks] = {};
    std::atomic<uint64_t> turns[kRanks] = {};
    team.run(0, [&](Team::Rank &rank, const dtile_device_launch &l) {
      dtile_dev_start();
      auto number = [&] {
        return int64_t(std::atomic_ref(rank.kernel.ended).load() >> DTILE_DEVICE_PART_BITS);
      };
      wrong += number() != launch;
      dtile_device_progress &progress = rank.kernel.progress[launch & 1];
      // One program of each rank, every time another, stays until all others have ended.
      const bool isLate = current.number == launch % kPrograms;
      if (isLate) {
        while (others[l.rank] != (kPrograms - 1) * kThreads)
          std::this_thread::yield();
        wrong += number() != launch;
      } else {
        wrong += std::atomic_ref(progress.space_finished[1]).load() > kPrograms;
        dtile_dev_space_done(&l, launch, 1);
      }
      const int64_t share = dtile_dev_end(&l, launch);
      wrong += share != (current.number == 0 ? DTILE_DEVICE_PARTS - kPrograms + 1 : 1);
      if (current.index == 0)
        turns[l.rank] += uint64_t(share);
      if (!isLate)
        ++others[l.rank];
    });
    for (Team::Rank &rank : team.ranks) {
      EXPECT_EQ(rank.kernel.ended, uint64_t(launch + 1) << DTILE_DEVICE_PART_BITS);
      EXPECT_EQ(turns[rank.team.rank], uint64_t(DTILE_DEVICE_PARTS));
      EXPECT_EQ(rank.kernel.progress[launch & 1].space_finished[1], uint64_t(kPrograms - 1));
      EXPECT_EQ(rank.kernel.progress[(launch + 1) & 1].space_finished[1], 0u);
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(DeviceLaunch, WaitThatTakesTooLongIsReportedAndAllLeave) {
  Team team(20'000'000);
  const int ended = team.run(0, [&](Team::Rank &rank, const dtile_device_launch &l) {
    dtile_dev_start();
    rank.bases[4] = 10;
    dtile_dev_sync(0, 0, kThreads);
    int32_t failed = 0;
    // Rank 1's last program waits for nobody; the others find that the launch is over.
    if (current.index == 0 && l.rank == 1 && current.number == 2)
      failed = dtile_dev_wait(&l, &rank.cells, 2, 0, 3, DTILE_DISTANCE_TEAM, 42);
    else if (current.index == 0)
      while (!failed)
        failed = dtile_dev_aborted(&l);
    dtile_dev_sync(failed, 0, kThreads);
    ADD_FAILURE() << "goes on";
  });
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(team.abort, 1u);
  const dtile_device_report &report = team.ranks[1].report;
  EXPECT_EQ(report.state, 2u);
  EXPECT_EQ(report.failure, uint32_t(DTILE_DEVICE_TIMEOUT));
  EXPECT_EQ(report.rank, 1);
  EXPECT_EQ(report.space, 1);
  EXPECT_EQ(report.program, 2u);
  EXPECT_EQ(report.site, 42);
  EXPECT_EQ(report.kernel_id, kKernelId);
  EXPECT_EQ(report.cell, 2u);
  EXPECT_EQ(report.wanted, 3u);
  EXPECT_EQ(report.seen, 0u);
  EXPECT_EQ(team.ranks[0].report.state, 0u);
}

// Words that carry flags.

/// Looks for two words of a launch until they are there; 1 when they never will be.
int32_t takeWords(const dtile_device_launch &launch, const uint64_t *place, const uint64_t *object,
                  int32_t number, int64_t *words) {
  int64_t start = 0;
  for (int32_t round = 1;; ++round) {
    dtile_dev_get_words(place, words);
    if (int32_t(words[0] >> 32) == number && int32_t(words[1] >> 32) == number)
      return 0;
    const bool isFirst = int32_t(words[0] >> 32) != number;
    if (dtile_dev_words_late(&launch, isFirst ? place : place + 1, object, 8, number,
                             int32_t(words[isFirst ? 0 : 1] >> 32), round, &start, 5))
      return 1;
    std::this_thread::yield();
  }
}

TEST(DeviceWords, TellOfTheirLaunchByThemselves) {
  Team team(0);
  std::atomic<int> wrong = 0;
  for (int32_t number = 1; number < 6; ++number) {
    // Two copies in turn, of a pair of words a rank and thread.
    const auto place = [&](Team::Rank &rank, int32_t from) {
      return rank.data() + ((number % 2 * kRanks + from) * kThreads + current.index) * 2;
    };
    team.run(0, [&](Team::Rank &rank, const dtile_device_launch &l) {
      dtile_dev_start();
      if (current.number != 0)
        return;
      for (int32_t peer = 0; peer < kRanks; ++peer)
        dtile_dev_put_words(dtile_dev_peer(&l, place(rank, l.rank), peer), -l.rank,
                            number * 100 + current.index, number);
      for (int32_t from = 0; from < kRanks; ++from) {
        int64_t words[2];
        if (takeWords(l, place(rank, from), rank.data(), number, words) != 0 ||
            int32_t(words[0]) != -from || int32_t(words[1]) != number * 100 + current.index)
          ++wrong;
      }
    });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(DeviceWords, ThatAreNeverSentAreReported) {
  Team team(20'000'000);
  std::atomic<int> lost = 0;
  team.run(0, [&](Team::Rank &rank, const dtile_device_launch &l) {
    dtile_dev_start();
    if (current.number != 0 || current.index != 0 || l.rank != 1)
      return;
    // One of two has come, of the launch before; the other one's place is its third element.
    dtile_dev_put_word(rank.data() + 2, 7, 9);
    dtile_dev_put_word(rank.data() + 3, 7, 8);
    int64_t words[2], one = 0;
    dtile_dev_get_word(rank.data() + 2, &one);
    EXPECT_EQ(one, (int64_t(9) << 32) + 7);
    lost += takeWords(l, rank.data() + 2, rank.data(), 9, words);
  });
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(team.abort, 1u);
  const dtile_device_report &report = team.ranks[1].report;
  EXPECT_EQ(report.state, 2u);
  EXPECT_EQ(report.failure, uint32_t(DTILE_DEVICE_TIMEOUT));
  EXPECT_EQ(report.site, 5);
  EXPECT_EQ(report.cell, 3u);
  EXPECT_EQ(report.wanted, 9u);
  EXPECT_EQ(report.seen, 8u);
}

TEST(DeviceTrace, RecordersFillRegionsOfTheirOwnAndCountWhatDoesNotFit) {
  constexpr int32_t kTraced = 2, kRegions = kTraced * DTILE_DEVICE_RECORDERS, kMost = 3;
  struct Memory {
    dtile_device_trace head = {};
    dtile_device_region regions[kRegions] = {};
    dtile_device_event events[kRegions][kMost] = {};
  };
  std::vector<Memory> memory(kRanks);
  Team team(0);
  for (int32_t r = 0; r < kRanks; ++r) {
    Memory &own = memory[size_t(r)];
    own.head.programs = kTraced;
    for (int32_t i = 0; i < kRegions; ++i)
      own.regions[i] = {own.events[i], kMost, 0, 0, 0};
    // The last rank is not traced.
    team.ranks[size_t(r)].team.trace = r + 1 == kRanks ? nullptr : &own.head;
  }
  std::atomic<int> unrecorded = 0;
  const auto record = [&](const dtile_device_launch &l, int32_t recorder, int32_t number) {
    dtile_device_region *region = dtile_dev_trace_region(&l, recorder);
    const int64_t begin = dtile_dev_trace_now();
    int64_t *words = dtile_dev_trace_event(&l, region, /*op=*/7, /*space=*/1, /*site=*/number,
                                           /*number=*/4, begin, dtile_dev_trace_now(), /*peer=*/2);
    if (words)
      words[0] = 100 * l.rank + 10 * current.number + recorder;
    else
      ++unrecorded;
  };
  team.run(0, [&](Team::Rank &, const dtile_device_launch &l) {
    if (current.index >= DTILE_DEVICE_RECORDERS)
      return;
    // One more of the first recorder than there is room for.
    for (int32_t i = 0; i < (current.index == 0 ? kMost + 1 : 1); ++i)
      record(l, current.index, i);
  });
  for (int32_t r = 0; r < kRanks; ++r)
    for (int32_t i = 0; i < kRegions; ++i) {
      const dtile_device_region &region = memory[size_t(r)].regions[i];
      const int32_t recorder = i % DTILE_DEVICE_RECORDERS;
      const bool isTraced = r + 1 < kRanks, isFull = isTraced && recorder == 0;
      ASSERT_EQ(region.count, isFull ? kMost : isTraced ? 1u : 0u);
      EXPECT_EQ(region.dropped, isFull ? 1u : 0u);
      for (uint32_t e = 0; e < region.count; ++e) {
        const dtile_device_event &event = region.events[e];
        EXPECT_LE(event.begin, event.end);
        EXPECT_EQ(event.kernel_id, kKernelId);
        EXPECT_EQ(event.launch, 4);
        EXPECT_EQ(event.op, 7);
        EXPECT_EQ(event.space, 1);
        EXPECT_EQ(event.site, int32_t(e));
        EXPECT_EQ(event.peer, 2);
        EXPECT_EQ(event.words[0], 100 * r + 10 * (i / DTILE_DEVICE_RECORDERS) + recorder);
      }
    }
  // What was dropped, the third program, and the rank that is not traced.
  constexpr int kEach = kMost + 1 + 2;
  EXPECT_EQ(unrecorded, 2 * (kRanks - 1) + kEach * (kRanks - 1) + kPrograms * kEach);
}

TEST(DeviceLaunch, FirstFailureOfARankIsKept) {
  Team team(0);
  const int ended = team.run(0, [&](Team::Rank &, const dtile_device_launch &l) {
    dtile_dev_start();
    const int64_t arguments[] = {l.rank, 17};
    if (current.index == 0)
      dtile_dev_fail(&l, 5 + current.number, 2, arguments);
    dtile_dev_sync(1, 0, kThreads);
  });
  EXPECT_EQ(ended, 0);
  for (int32_t r = 0; r < kRanks; ++r) {
    const dtile_device_report &report = team.ranks[size_t(r)].report;
    EXPECT_EQ(report.state, 2u);
    EXPECT_EQ(report.failure, uint32_t(DTILE_DEVICE_TRAP));
    EXPECT_EQ(report.site, 5 + int32_t(report.program));
    EXPECT_EQ(report.nargs, 2);
    EXPECT_EQ(report.args[0], r);
    EXPECT_EQ(report.args[1], 17);
  }
}

// Sums.

TEST(DeviceAdd, PairsOfHalvesRoundToNearestEvenAndKeepTheirNeighbours) {
  auto add = [](uint32_t a, uint32_t b) {
    dtile_dev_add_bf16x2(&a, int32_t(b), DTILE_DISTANCE_TEAM);
    return a;
  };
  // 1 + 1 and 2 + (-0): a neighbour stays.
  EXPECT_EQ(add(0x3f804000, 0x3f808000), 0x40004000u);
  // 1 + 2^-8 is half way between neighbours, and goes to the even one: 1; then up from an odd one.
  EXPECT_EQ(add(0x3f80, 0x80003b80), 0x3f80u);
  EXPECT_EQ(add(0x3f81, 0x80003b80) & 0xffff, 0x3f82u);
  // -0 + -0 is -0; infinity and not a number stay what they are.
  EXPECT_EQ(add(0x80007f80, 0x80008000), 0x80007f80u);
  EXPECT_EQ(add(0x7fc0, 0x80003f80) & 0x7fff, 0x7fc0u);
  uint32_t halves = 0x3c003c00;
  dtile_dev_add_f16x2(&halves, int32_t(0x80003c00), DTILE_DISTANCE_RANK);
  EXPECT_EQ(halves, 0x3c004000u);
}

TEST(DeviceAdd, ManyThreadsLoseNothing) {
  alignas(16) float sums[4] = {};
  alignas(16) uint16_t halves[8] = {};
  int32_t integer = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([&] {
      const int32_t one = 0x3f800000, pair = 0x3f803f80;
      for (int i = 0; i < 32; ++i) {
        dtile_dev_add_f32x4(sums, one, one, one, one, DTILE_DISTANCE_TEAM);
        dtile_dev_add_bf16x8(halves, pair, pair, pair, pair, DTILE_DISTANCE_TEAM);
        dtile_dev_add_i32(&integer, 3, DTILE_DISTANCE_RANK);
      }
    });
  for (std::thread &thread : all)
    thread.join();
  for (float sum : sums)
    EXPECT_EQ(sum, 128);
  for (uint16_t half : halves)
    EXPECT_EQ(half, 0x4300);
  EXPECT_EQ(integer, 384);
}

} // namespace
