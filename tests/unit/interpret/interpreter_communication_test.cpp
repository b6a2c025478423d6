// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that send, notify and wait: transfers and when they land, signals across launches,
// deadlocks and their reports.
#include "interpreter_support.h"

namespace dtile::interpret::testing {
namespace {

using Landing = Schedule::Landing;

/// Every schedule worth trying: in order and random, landing at once and late.
std::vector<Schedule> schedules() {
  std::vector<Schedule> all;
  for (const Landing landing : {Landing::AtIssue, Landing::AsLateAsAllowed, Landing::Random})
    for (uint64_t seed = 0; seed < 6; ++seed)
      all.push_back({.seed = seed, .landing = landing});
  return all;
}

void expectTrap(const std::unique_ptr<RunError> &error, const std::string &message) {
  ASSERT_TRUE(error) << message;
  EXPECT_EQ(error->kind, RunError::Kind::Trap);
  EXPECT_NE(error->message.find(message), std::string::npos) << error->message;
}

/// Each rank puts its shard to every rank and waits for all: an all-gather with one notify a peer.
constexpr const char *kAllGather = R"(
kernel @gather {
  %W = num_ranks : index
  %me = rank : index
  %S = launch.dim {param = 0, dim = 0} : index
  %shard = param @shard %S {param = 0, mode = "in"} : view<i64, 1>
  %all = param @all %W, %S {param = 1, mode = "scratch", copies = 2} : view<i64, 2>
  %total = mul %W, %S : index
  %out = param @out %total {param = 2, mode = "out"} : view<i64, 1>
  %ready = signal_param @ready %W {param = 3} : signal<1> (%cell: index) {
    %one = const {value = 1} : index
    yield %one
  }
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  space @comm %c0, %W, %c1 {vars = ["hop"]} (%hop: index) {
    %t = add %me, %hop : index
    %peer = rem %t, %W : index
    %there = view.at %all, %peer : view<i64, 2, remote>
    %row = view.slice %there, %me {dims = "ia"} : view<i64, 1, remote>
    %sent = put %shard, %row : token
    %cells = sig.at %ready, %peer : signal<1, remote>
    %cell = sig.slice %cells, %me {dims = "i"} : signal<0, remote>
    notify %cell, %sent
    yield
  }
  space @copy %c0, %W, %c1 {vars = ["src"]} (%src: index) {
    %cell = sig.slice %ready, %src {dims = "i"} : signal<0>
    %here = wait %cell : acquire
    %row = view.slice %all, %src {dims = "ia"} : view<i64, 1>
    %first = mul %src, %S : index
    %end = add %first, %S : index
    %to = view.slice %out, %first, %end {dims = "r"} : view<i64, 1>
    %done = put %row, %to, %here : token
    await %done
    yield
  }
  return
})";

TEST(Communication, AllGatherOnAnyNumberOfRanksUnderAnySchedule) {
  Program program(kAllGather);
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const Schedule &schedule : schedules()) {
      Machine machine(*program.module, ranks, schedule);
      // Launches of other sizes follow: cells keep their counts.
      for (const int64_t size : {5, 3, 0, 7}) {
        std::vector<std::vector<int64_t>> shard(ranks);
        std::vector<std::vector<int64_t>> out(ranks, std::vector<int64_t>(ranks * size, -1));
        std::vector<int64_t> expected;
        std::vector<std::vector<Arg>> args;
        for (int r = 0; r < ranks; ++r) {
          for (int64_t i = 0; i < size; ++i)
            shard[r].push_back(size * 1000 + r * 100 + i);
          expected.insert(expected.end(), shard[r].begin(), shard[r].end());
          args.push_back({tensor(shard[r]), tensor(out[r])});
        }
        ASSERT_EQ(text(machine.launch("gather", args)), "");
        for (int r = 0; r < ranks; ++r)
          EXPECT_EQ(out[r], expected) << "rank " << r << " of " << ranks;
      }
    }
}

TEST(Communication, RanksDriftOverManyLaunches) {
  Program program(kAllGather);
  for (const Schedule &schedule : schedules()) {
    Machine machine(*program.module, 3, schedule);
    std::vector<std::vector<int64_t>> shard{{1, 2}, {3, 4}, {5, 6}};
    std::vector<std::vector<int64_t>> out(3, std::vector<int64_t>(6, -1));
    std::vector<std::vector<Arg>> args;
    for (int r = 0; r < 3; ++r)
      args.push_back({tensor(shard[r]), tensor(out[r])});
    ASSERT_EQ(text(machine.launchRepeat("gather", args, 20)), "");
    for (int r = 0; r < 3; ++r)
      EXPECT_EQ(out[r], (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  }
}

/// One signal cell and one body a rank; `body` sees %me, %W, %s, %c0 and %c1.
std::string signalText(const std::string &count, const std::string &body,
                       const std::string &attrs = "") {
  return "kernel @k " + attrs + R"({
  %W = num_ranks : index
  %me = rank : index
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %c2 = const {value = 2} : index
  %log = param @log %W {param = 0, mode = "symm"} : view<i64, 1>
  %s = signal_param @ready %W {param = 1} : signal<1> )" +
         (count.empty() ? "{}" : "(%cell: index) {\n    %n = " + count + "\n    yield %n\n  }") +
         "\n  space @main {vars = []} {\n" + body + "\n    yield\n  }\n  return\n}";
}

std::unique_ptr<RunError> runSignals(const std::string &program, int ranks, Schedule schedule = {},
                                     int launches = 1, std::vector<int64_t> *log = nullptr) {
  Program parsed(program);
  if (!parsed.module)
    return nullptr;
  Machine machine(*parsed.module, ranks, schedule);
  Symmetric<int64_t> symmetric(machine, ranks);
  std::vector<std::vector<Arg>> args;
  for (int r = 0; r < ranks; ++r)
    args.push_back({symmetric.arg(r)});
  auto error = machine.launchRepeat("k", args, launches);
  if (log)
    *log = symmetric.values(0);
  return error;
}

constexpr const char *kNotifyNext = R"(
    %t = add %me, %c1 : index
    %next = rem %t, %W : index
    %far = sig.at %s, %next : signal<1, remote>
    %cell = sig.slice %far, %c0 {dims = "i"} : signal<0, remote>
    notify %cell
)";
constexpr const char *kWaitOwn = R"(
    %own = sig.slice %s, %c0 {dims = "i"} : signal<0>
)";

TEST(Communication, ADeadlockIsReportedWithEveryWaiter) {
  const auto error = runSignals(signalText("const {value = 1} : index", std::string(kWaitOwn) + R"(
    %here = wait %own : acquire
    await %here)"),
                                2);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, RunError::Kind::Deadlock);
  EXPECT_EQ(error->message,
            "deadlock: 2 bodies are left, and all of them wait\n"
            "  test.dtir:16:13: rank 0, kernel `k`, role `main` waits for `ready[0]`: wants 1, has "
            "seen 0\n"
            "  test.dtir:16:13: rank 1, kernel `k`, role `main` waits for `ready[0]`: wants 1, has "
            "seen 0");
}

TEST(Communication, ACycleOfWaitsIsADeadlockUnderEverySchedule) {
  // Each rank notifies its neighbour only after its own wait.
  for (const Schedule &schedule : schedules()) {
    const auto error =
        runSignals(signalText("const {value = 1} : index",
                              std::string(kWaitOwn) +
                                  "    %here = wait %own : acquire\n    await %here" + kNotifyNext),
                   3, schedule);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind, RunError::Kind::Deadlock);
  }
}

TEST(Communication, CountsOfAWaitAreThisLaunchsOwn) {
  // Two notifies to cell 0 a launch; waits for one and then for both, 10 launches.
  const std::string body = std::string(kNotifyNext) + "    notify %cell" + kWaitOwn + R"(
    %one = wait %own, %c1 : acquire
    await %one
    %two = wait %own, %c2 : acquire
    await %two)";
  // Underived, the base grows by the largest count waited for; derived, by what the region gives.
  const std::string derived = R"(sub %c2, %c2 : index
    %is0 = cmp %cell, %c0 {pred = "eq"} : bool
    %m = select %is0, %c2, %n : index)";
  std::string program = signalText(derived, body);
  program.replace(program.find("yield %n"), 8, "yield %m");
  for (const Schedule &schedule : schedules()) {
    EXPECT_EQ(text(runSignals(signalText("", body), 3, schedule, 10)), "");
    EXPECT_EQ(text(runSignals(program, 3, schedule, 10)), "");
  }
}

TEST(Communication, AWaitForMoreThanIsSentNamesWantedAndSeen) {
  const auto error =
      runSignals(signalText("", std::string(kNotifyNext) + kWaitOwn +
                                    "    %two = wait %own, %c2 : acquire\n    await %two"),
                 2, {}, 3);
  ASSERT_TRUE(error);
  EXPECT_NE(error->message.find("waits for `ready[0]`: wants 2, has seen 1"), std::string::npos)
      << error->message;
}

TEST(Communication, AWaitWithoutACountNeedsADerivedOne) {
  expectTrap(
      runSignals(
          signalText("", std::string(kWaitOwn) + "    %h = wait %own : acquire\n    await %h"), 1),
      "a wait without a count on signal `ready`, whose count has not been derived");
}

TEST(Communication, DerivedCountsThatDoNotAddUpAreCaught) {
  expectTrap(runSignals(signalText("const {value = 1} : index",
                                   std::string(kNotifyNext) + "    notify %cell"),
                        2),
             "rank 0, kernel `k`: `ready[0]` has got 2 notifies over all launches, but the derived "
             "counts add up to 1");
}

TEST(Communication, SignalsBeginAgainAfterAFailedRun) {
  Program program(signalText("", std::string(kNotifyNext) + kWaitOwn + R"(
    %n = view.slice %log, %c0 {dims = "i"} : view<i64, 0>
    %count = load %n : index
    %here = wait %own, %count : acquire
    await %here)"));
  Machine machine(*program.module, 2);
  Symmetric<int64_t> log(machine, 2, 2, int64_t(5));
  const std::vector<std::vector<Arg>> args{{log.arg(0)}, {log.arg(1)}};
  const auto error = machine.launch("k", args);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, RunError::Kind::Deadlock);
  for (int r = 0; r < 2; ++r)
    log.on(r)[0] = 1;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(text(machine.launch("k", args)), "");
}

TEST(Communication, RanksAndCellsOutsideTrap) {
  expectTrap(runSignals(signalText("", "    %far = view.at %log, %W : view<i64, 1, remote>"), 2),
             "rank 2 is not one of the 2 ranks");
  expectTrap(runSignals(signalText("", "    %far = sig.at %s, %W : signal<1, remote>"), 2),
             "rank 2 is not one of the 2 ranks");
  expectTrap(runSignals(signalText("", "    %c = sig.slice %s, %W {dims = \"i\"} : signal<0>"), 3),
             "test.dtir:10:10: rank 0, kernel `k`, role `main`: position 3 of signal `ready` is "
             "outside [0, 3)");
}

TEST(Communication, WaitOnASliceWaitsForEachOfItsCells) {
  // Each rank notifies its own cell on rank 0; rank 0 waits for all of them.
  const std::string program = signalText("", R"(
    %far = sig.at %s, %c0 : signal<1, remote>
    %mine = sig.slice %far, %me {dims = "i"} : signal<0, remote>
    %place = view.at %log, %c0 : view<i64, 1, remote>
    %word = view.slice %place, %me {dims = "i"} : view<i64, 0, remote>
    store %W, %word
    notify %mine
    %is0 = cmp %me, %c0 {pred = "eq"} : bool
    if %is0 {
      %all = sig.slice %s, %c0, %W {dims = "r"} : signal<1>
      %here = wait %all, %c1 : acquire
      %l = load %log, %here : tile<4xi64>
      %d = add %l, %l : tile<4xi64>
      store %d, %log
      yield
    } {
      yield
    })");
  for (const Schedule &schedule : schedules()) {
    std::vector<int64_t> log;
    EXPECT_EQ(text(runSignals(program, 4, schedule, 1, &log)), "");
    EXPECT_EQ(log, (std::vector<int64_t>{8, 8, 8, 8}));
  }
}

TEST(Communication, BarriersOrderAllRanksAgainAndAgain) {
  // Before barrier i each rank writes i to its right; after it, it must find i from its left.
  const std::string program = signalText("", R"(
    %t = add %me, %c1 : index
    %next = rem %t, %W : index
    %c10 = const {value = 10} : index
    for %c0, %c10, %c1 (%i: index) {
      %far = view.at %log, %next : view<i64, 1, remote>
      %to = view.slice %far, %c0 {dims = "i"} : view<i64, 0, remote>
      %sent = put %i, %to : token
      await %sent
      barrier
      %from = view.slice %log, %c0 {dims = "i"} : view<i64, 0>
      %got = load %from : index
      %ok = cmp %got, %i {pred = "eq"} : bool
      assert %ok, %got, %i {message = "found {0} in round {1}"}
      barrier
      yield
    })");
  for (const Schedule &schedule : schedules())
    EXPECT_EQ(text(runSignals(program, 3, schedule, 2)), "");
}

TEST(Communication, ABarrierLandsWhatWasSentBefore) {
  const std::string program = signalText("", R"(
    %t = add %me, %c1 : index
    %next = rem %t, %W : index
    %far = view.at %log, %next : view<i64, 1, remote>
    %to = view.slice %far, %c0 {dims = "i"} : view<i64, 0, remote>
    %c42 = const {value = 42} : index
    %sent = put %c42, %to : token
    barrier
    %from = view.slice %log, %c0 {dims = "i"} : view<i64, 0>
    %got = load %from : index
    %ok = cmp %got, %c42 {pred = "eq"} : bool
    assert %ok {message = "not landed"}
    await %sent)");
  for (const Schedule &schedule : schedules())
    EXPECT_EQ(text(runSignals(program, 2, schedule)), "");
}

TEST(Communication, ABarrierThatARankNeverReachesIsADeadlock) {
  const auto error = runSignals(signalText("", R"(
    %is0 = cmp %me, %c0 {pred = "eq"} : bool
    if %is0 {
      barrier
      yield
    } {
      yield
    })"),
                                3);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, RunError::Kind::Deadlock);
  EXPECT_EQ(error->message,
            "deadlock: one body is left, and it waits\n  test.dtir:13:7: rank 0, kernel `k`, role "
            "`main` waits at the barrier for ranks 1, 2");
}

TEST(Communication, EntryBarriersKeepRanksInTheSameLaunch) {
  // Rank 0 reads what the others store in this launch before it notifies them to go on: without the
  // meeting point a rank could store its next number before.
  const std::string body = R"(
    %launch = epoch : index
    %far = view.at %log, %c0 : view<i64, 1, remote>
    %to = view.slice %far, %me {dims = "i"} : view<i64, 0, remote>
    store %launch, %to
    barrier
    %got = load %log : tile<2xi64>
    %want = tile.splat %launch : tile<2xi64>
    %same = cmp %got, %want {pred = "eq"} : tile<2xbool>
    %all = tile.reduce %same {axis = 0, kind = "all"} : bool
    %is0 = cmp %me, %c0 {pred = "eq"} : bool
    %not0 = not %is0 : bool
    %ok = or %all, %not0 : bool
    assert %ok {message = "a rank is ahead"})";
  bool drifted = false;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    EXPECT_EQ(
        text(runSignals(signalText("", body, "{entry_barrier = true} "), 2, {.seed = seed}, 8)),
        "");
    drifted |= runSignals(signalText("", body), 2, {.seed = seed}, 8) != nullptr;
  }
  EXPECT_TRUE(drifted);
}

// When transfers land.

/// Puts the word 7 from %log[0] to %log[1] of the same rank, with `body` after the put; %from and
/// %to are the words.
std::vector<int64_t> wordsAfter(const std::string &body, Landing landing) {
  std::vector<int64_t> log;
  const std::string program = signalText("", R"(
    %from = view.slice %log, %c0 {dims = "i"} : view<i64, 0>
    %near = view.slice %log, %c1 {dims = "i"} : view<i64, 0>
    %there = view.at %log, %me : view<i64, 1, remote>
    %to = view.slice %there, %c1 {dims = "i"} : view<i64, 0, remote>
    %c7 = const {value = 7} : index
    %c9 = const {value = 9} : index
    store %c7, %from
)" + body);
  // Two ranks, so that there are two words.
  EXPECT_EQ(text(runSignals(program, 2, {.landing = landing}, 1, &log)), "");
  return log;
}

TEST(Landing, LateTransfersReadTheirSourceWhenTheyLand) {
  const std::string reuse = R"(
    %sent = put %from, %to : token
    store %c9, %from
    await %sent)";
  EXPECT_EQ(wordsAfter(reuse, Landing::AtIssue), (std::vector<int64_t>{9, 7}));
  EXPECT_EQ(wordsAfter(reuse, Landing::AsLateAsAllowed), (std::vector<int64_t>{9, 9}));
}

TEST(Landing, TilesAndScalarsAreTakenWhenSent) {
  const std::string value = R"(
    %x = load %from : index
    %sent = put %x, %to : token
    store %c9, %from
    await %sent)";
  EXPECT_EQ(wordsAfter(value, Landing::AsLateAsAllowed), (std::vector<int64_t>{9, 7}));
}

/// What a load of the target sees after the put, with `order` between them and `after` as its
/// token.
int64_t seenAfter(const std::string &order, const std::string &after, bool awaits,
                  Landing landing) {
  const std::string body = "    %sent = put %from, %to : token\n" + order + "    %x = load %near" +
                           after + " : index\n    store %x, %from\n" +
                           (awaits ? "    await %sent" : "");
  return wordsAfter(body, landing)[0];
}

TEST(Landing, TokensQuietAndNotifyForceTransfers) {
  const Landing late = Landing::AsLateAsAllowed;
  EXPECT_EQ(seenAfter("", "", true, Landing::AtIssue), 7);
  EXPECT_EQ(seenAfter("", "", true, late), 0);
  EXPECT_EQ(seenAfter("", ", %sent", false, late), 7);
  EXPECT_EQ(seenAfter("    await %sent\n", "", false, late), 7);
  EXPECT_EQ(seenAfter("    quiet\n", "", true, late), 7);
  EXPECT_EQ(seenAfter("    notify %s, %sent\n", "", false, late), 7);
  EXPECT_EQ(seenAfter("    notify %s\n", "", true, late), 0);
  EXPECT_EQ(seenAfter("    fence\n", "", true, late), 0);
  EXPECT_EQ(seenAfter("    fence\n    notify %s\n", "", true, late), 7);
}

TEST(Landing, JoinedTokensForceAllOfTheirTransfers) {
  const std::string body = R"(
    %a = put %from, %to : token
    %b = put %from, %to : token
    %both = token.join %a, %b : token
    %x = load %near, %both : index
    store %x, %from)";
  EXPECT_EQ(wordsAfter(body, Landing::AsLateAsAllowed)[0], 7);
}

TEST(Landing, TokensCarriedThroughLoopsForceTheRightTransfer) {
  // Iteration i awaits the put of iteration i - 1, so only the last is still under way at the load.
  const std::string body = R"(
    %done = token.done : token
    %c3 = const {value = 3} : index
    %last = for %c0, %c3, %c1, %done : token (%i: index, %before: token) {
      await %before
      %ten = const {value = 10} : index
      %v = add %i, %ten : index
      %sent = put %v, %to : token
      yield %sent
    }
    %x = load %near : index
    store %x, %from
    await %last)";
  EXPECT_EQ(wordsAfter(body, Landing::AsLateAsAllowed), (std::vector<int64_t>{11, 12}));
  EXPECT_EQ(wordsAfter(body, Landing::AtIssue), (std::vector<int64_t>{12, 12}));
}

TEST(Landing, FencesKeepSendsToOneRankInOrder) {
  // Only the second put's token is used: the fence takes the first along. Without it, the first
  // lands last.
  const auto body = [](const std::string &between) {
    return "    %a = put %c7, %to : token\n" + between +
           "    %b = put %c9, %to : token\n    await %b\n    %x = load %near : index\n"
           "    store %x, %from\n    await %a";
  };
  EXPECT_EQ(wordsAfter(body("    fence\n"), Landing::AsLateAsAllowed),
            (std::vector<int64_t>{9, 9}));
  EXPECT_EQ(wordsAfter(body(""), Landing::AsLateAsAllowed), (std::vector<int64_t>{9, 7}));
}

TEST(Landing, ABodysEndLandsWhatItSent) {
  EXPECT_EQ(wordsAfter("    %sent = put %from, %to : token", Landing::AsLateAsAllowed),
            (std::vector<int64_t>{7, 7}));
}

TEST(Landing, PutSignalNotifiesWhenItLands) {
  // Rank 0 sends with a signal and waits for the answer, without using the token before: it must
  // land all the same.
  const std::string program = signalText("", R"(
    %t = add %me, %c1 : index
    %next = rem %t, %W : index
    %is0 = cmp %me, %c0 {pred = "eq"} : bool
    %own = sig.slice %s, %c0 {dims = "i"} : signal<0>
    %far = sig.at %s, %next : signal<1, remote>
    %cell = sig.slice %far, %c0 {dims = "i"} : signal<0, remote>
    %there = view.at %log, %next : view<i64, 1, remote>
    %to = view.slice %there, %c1 {dims = "i"} : view<i64, 0, remote>
    %near = view.slice %log, %c1 {dims = "i"} : view<i64, 0>
    if %is0 {
      %c5 = const {value = 5} : index
      %sent = put_signal %c5, %to, %cell : token
      %here = wait %own, %c1 : acquire
      await %here
      await %sent
      yield
    } {
      %here = wait %own, %c1 : acquire
      %x = load %near, %here : index
      %y = add %x, %x : index
      %sent = put_signal %y, %to, %cell : token
      await %sent
      yield
    })");
  for (const Schedule &schedule : schedules()) {
    std::vector<int64_t> log;
    EXPECT_EQ(text(runSignals(program, 2, schedule, 1, &log)), "");
    EXPECT_EQ(log[1], 10);
  }
}

TEST(Communication, GetsCopyFromARemoteViewAndLoadsBlockOnOne) {
  const std::string program = signalText("", R"(
    %far = view.at %log, %c1 : view<i64, 1, remote>
    %word = view.slice %far, %c0 {dims = "i"} : view<i64, 0, remote>
    %mine = view.slice %log, %c1 {dims = "i"} : view<i64, 0>
    %first = view.slice %log, %c0 {dims = "i"} : view<i64, 0>
    %v = add %me, %c2 : index
    store %v, %first
    barrier
    %got = get %word, %mine : token
    %x = load %mine, %got : index
    %y = load %word : index
    %sum = add %x, %y : index
    barrier
    store %sum, %first)");
  for (const Schedule &schedule : schedules()) {
    std::vector<int64_t> log;
    EXPECT_EQ(text(runSignals(program, 2, schedule, 1, &log)), "");
    EXPECT_EQ(log, (std::vector<int64_t>{6, 3}));
  }
}

TEST(Communication, ReduceAddAddsEveryRanksTile) {
  Program program(R"(
kernel @k {
  %n = const {value = 6} : index
  %sum = param @sum %n {param = 0, mode = "symm"} : view<f32, 1>
  %c0 = const {value = 0} : index
  %c4 = const {value = 4} : index
  %me = rank : index
  space @main %c0, %n, %c4 {vars = ["i"]} (%i: index) {
    %far = view.at %sum, %c0 : view<f32, 1, remote>
    %to = view.tile %far, %i, %n {dims = "r", lens = [4]} : view<f32, 1, remote>
    %f = cast %me : f32
    %one = const {value = 1.0} : f32
    %v = add %f, %one : f32
    %t = tile.splat %v : tile<4xf32>
    %sent = reduce_add %t, %to : token
    await %sent
    yield
  }
  return
})");
  for (const Schedule &schedule : schedules()) {
    Machine machine(*program.module, 4, schedule);
    Symmetric<float> sum(machine, 4, 6, 0.5f);
    ASSERT_EQ(text(machine.launch("k", {{sum.arg(0)}, {sum.arg(1)}, {sum.arg(2)}, {sum.arg(3)}})),
              "");
    EXPECT_EQ(sum.values(0), std::vector<float>(6, 10.5f));
    EXPECT_EQ(sum.values(1), std::vector<float>(6, 0.5f));
  }
}

TEST(Communication, APutThatDoesNotFitTrapsWithBothSizes) {
  Program program(R"(
kernel @k {
  %n = const {value = 6} : index
  %x = param @x %n {param = 0, mode = "in"} : view<f32, 1>
  %box = param @box %n {param = 1, mode = "scratch"} : view<f32, 1>
  %rows = scalar_param @rows {param = 2} : index
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %c4 = const {value = 4} : index
  space @main {vars = []} {
    %from = view.slice %x, %c0, %rows {dims = "r"} : view<f32, 1>
    %far = view.at %box, %c1 : view<f32, 1, remote>
    %to = view.slice %far, %c0, %c4 {dims = "r"} : view<f32, 1, remote>
    %sent = put %from, %to : token
    await %sent
    yield
  }
  return
})");
  Machine machine(*program.module, 2);
  std::vector<float> x(6);
  EXPECT_EQ(
      text(machine.launch("k", {{tensor(x), scalar(int64_t(4))}, {tensor(x), scalar(int64_t(4))}})),
      "");
  expectTrap(
      machine.launch("k", {{tensor(x), scalar(int64_t(4))}, {tensor(x), scalar(int64_t(6))}}),
      "rank 1, kernel `k`, role `main`: a put of [6] does not fit [4] on rank 1");
}

TEST(Communication, LimitedProgramsCanDeadlockAndSayWhy) {
  // One body at a time: the first waits for a notify that the second would send.
  Program program(R"(
kernel @k {
  %s = signal_param @ready {param = 0} : signal<0> {
    %one = const {value = 1} : index
    yield %one
  }
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %c2 = const {value = 2} : index
  space @pair %c0, %c2, %c1 {vars = ["i"], programs = 1} (%i: index) {
    %is0 = cmp %i, %c0 {pred = "eq"} : bool
    if %is0 {
      %here = wait %s : acquire
      await %here
      yield
    } {
      notify %s
      yield
    }
    yield
  }
  return
})");
  Machine machine(*program.module, 1);
  const auto error = machine.launch("k", {{}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, RunError::Kind::Deadlock);
  EXPECT_EQ(
      error->message,
      "deadlock: one body is left, and it waits\n"
      "  test.dtir:13:15: rank 0, kernel `k`, role `pair` (i = 0) waits for `ready`: wants 1, "
      "has seen 0\n"
      "  rank 0, kernel `k`, role `pair`: 1 body has not begun: only 1 may run at a time");
}

TEST(Communication, ThousandsOfBodiesMayWait) {
  Program program(R"(
kernel @k {
  %n = const {value = 5000} : index
  %seen = param @seen {param = 0, mode = "inout"} : view<i64, 0>
  %s = signal_param @go {param = 1} : signal<0> {
    %one = const {value = 1} : index
    yield %one
  }
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  space @wait %c0, %n, %c1 {vars = ["i"]} (%i: index) {
    %here = wait %s : acquire
    %old = atomic %seen, %c1, %here {kind = "add", ntok = 1} : index
    yield
  }
  space @first %c0, %n, %c1 {vars = ["i"]} (%i: index) {
    yield
  }
  space @go {after_all = "first", vars = []} {
    notify %s
    yield
  }
  return
})");
  for (const uint64_t seed : {0, 3}) {
    Machine machine(*program.module, 1, {.seed = seed});
    int64_t seen = 0;
    ASSERT_EQ(text(machine.launch("k", {{tensor(&seen, DType::I64, {})}})), "");
    EXPECT_EQ(seen, 5000);
  }
}

} // namespace
} // namespace dtile::interpret::testing
