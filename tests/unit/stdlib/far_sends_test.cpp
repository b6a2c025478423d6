// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How often programs wait for what they have sent to another host, and that what they send arrives
// all the same. Four ranks on two hosts, each of which sends to the next: two of them to the other
// host.
#include "tests/unit/backend/bodies/host_support.h"
#include "tests/unit/stdlib/far_network.h"

namespace dtile::backend::host::testing {
namespace {

constexpr int kRanks = 4, kLaunches = 3, kSenders = 2 * kLaunches;
constexpr int64_t kColumns = 40;

/// `count` rows go to the next rank, each with a cell. `send` is of the body that sends, where
/// %there is the view of the next rank's rows, %cells its cells.
std::string rows(int count, const std::string &send) {
  return "kernel @k {\n"
         "  %c0 = const {value = 0} : index\n  %c1 = const {value = 1} : index\n"
         "  %m = const {value = " +
         std::to_string(count) +
         "} : index\n  %n = const {value = 40} : index\n"
         "  %half = const {value = 20} : index\n"
         "  %W = num_ranks : index\n  %me = rank : index\n"
         "  %up = add %me, %c1 : index\n  %next = rem %up, %W : index\n"
         "  %x = param @x %m, %n {param = 0, mode = \"in\"} : view<f32, 2>\n"
         "  %y = param @y %m, %n {param = 1, mode = \"out\"} : view<f32, 2>\n"
         "  %arrived = signal_param @arrived %m {param = 2} : signal<1> (%cell: index) {\n"
         "    yield %c1\n  }\n"
         "  %inbox = param @inbox %m, %n {param = 3, mode = \"scratch\", copies = 4} : view<f32, "
         "2>\n"
         "  space @send {vars = []} {\n"
         "    %there = view.at %inbox, %next : view<f32, 2, remote>\n"
         "    %cells = sig.at %arrived, %next : signal<1, remote>\n" +
         send +
         "    yield\n  }\n"
         "  space @receive %c0, %m, %c1 {vars = [\"row\"]} (%row: index) {\n"
         "    %cell = sig.slice %arrived, %row {dims = \"i\"} : signal<0>\n"
         "    %here = wait %cell : acquire\n"
         "    %from = view.slice %inbox, %row {dims = \"ia\"} : view<f32, 1>\n"
         "    %got = load %from, %here : tile<40xf32>\n"
         "    %to = view.slice %y, %row {dims = \"ia\"} : view<f32, 1>\n"
         "    store %got, %to\n    yield\n  }\n  return\n}\n";
}

/// The row of number `at` of a view, as %<name><at>.
std::string row(const std::string &view, const std::string &name, const std::string &at,
                const char *type = "view<f32, 1>") {
  return "    %" + name + at + " = view.slice %" + view + ", %" + at +
         " {dims = \"ia\"} : " + type + "\n";
}
std::string cell(const std::string &at) {
  return "    %s" + at + " = sig.slice %cells, %" + at + " {dims = \"i\"} : signal<0, remote>\n";
}
std::string put(const std::string &at) {
  return row("x", "a", at) + row("there", "b", at, "view<f32, 1, remote>") + "    %t" + at +
         " = put %a" + at + ", %b" + at + " : token\n";
}
std::string notify(const std::string &at, const std::string &token) {
  return cell(at) + "    notify %s" + at + ", %" + token + "\n";
}
std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "    %r" + std::to_string(i) + " = const {value = " + std::to_string(i) + "} : index\n";
  return text;
}

/// Puts of the two halves of so many rows; their tokens are joined as %both.
std::string halves(int count) {
  const std::string tile = " {dims = \"rr\", lens = [" + std::to_string(count) + ", 20]} : ";
  std::string send;
  for (const char *from : {"c0", "half"}) {
    const std::string name = from;
    send += "    %a" + name + " = view.tile %x, %c0, %m, %" + name + ", %n" + tile +
            "view<f32, 2>\n    %b" + name + " = view.tile %there, %c0, %m, %" + name + ", %n" +
            tile + "view<f32, 2, remote>\n    %t" + name + " = put %a" + name + ", %b" + name +
            " : token\n";
  }
  return send + "    %both = token.join %tc0, %thalf : token\n";
}

/// Runs it and says how often threads waited.
int64_t waits(int count, const std::string &send) {
  runBoth(rows(count, send), kRanks,
          {random(DType::F32, {count, kColumns}, 1, kRanks),
           zeros(DType::F32, {count, kColumns}, kRanks)},
          1e-5, kLaunches);
  EXPECT_GT(test::farMessages(), 0);
  return test::farWaits();
}

// What is left is that sources are read before the launch ends.
TEST(FarSends, NotifiesOfTheirPutsWaitForNothing) {
  EXPECT_EQ(waits(96, "    for %c0, %m, %c1 (%i: index) {\n" + put("i") + notify("i", "ti") +
                          "      yield\n    }\n"),
            kSenders);
}

TEST(FarSends, SeveralPutsThenSeveralNotifiesFenceOnce) {
  std::string send = numbers(8);
  for (int i = 0; i < 8; ++i)
    send += put("r" + std::to_string(i));
  for (int i = 0; i < 8; ++i)
    send += notify("r" + std::to_string(i), "tr" + std::to_string(i));
  EXPECT_EQ(waits(8, send), 2 * kSenders);
}

TEST(FarSends, PutsUnderConditionsTakeTheirNotifiesAlong) {
  const std::string branch = put("i") + "        yield %ti\n";
  const std::string send = "    %two = const {value = 2} : index\n"
                           "    for %c0, %m, %c1 (%i: index) {\n"
                           "      %odd = rem %i, %two : index\n"
                           "      %is = cmp %odd, %c0 {pred = \"eq\"} : bool\n"
                           "      %t = if %is : token {\n" +
                           branch + "      } {\n" + branch + "      }\n" + notify("i", "t") +
                           "      yield\n    }\n";
  EXPECT_EQ(waits(96, send), kSenders);
}

// Two halves of each row, of which neither brings the notify.
TEST(FarSends, NotifiesOfSeveralPutsFence) {
  EXPECT_EQ(waits(1, halves(8) + numbers(8) + notify("r0", "both")), 2 * kSenders);
}

// One thread does not post so many: each waits for its own, if it has sent any.
TEST(FarSends, ManyRowsAreSentByAllThreads) {
  const std::string send = halves(64) + "    await %both\n    for %c0, %m, %c1 (%i: index) {\n" +
                           cell("i") + "    notify %si\n      yield\n    }\n";
  EXPECT_GE(waits(40, send), kSenders);
}

// Threads have their words of all tiles under way at once.
TEST(FarSends, TilesOfALoopAreWaitedForOnce) {
  const std::string send =
      "    %none = token.done : token\n"
      "    %sent = for %c0, %m, %c1, %none : token (%i: index, %t: token) {\n" +
      row("x", "a", "i") + row("there", "b", "i", "view<f32, 1, remote>") +
      "      %v = load %ai : tile<40xf32>\n      %w = put %v, %bi : token\n"
      "      %u = token.join %t, %w : token\n      yield %u\n    }\n    await %sent\n"
      "    for %c0, %m, %c1 (%k: index) {\n" +
      cell("k") + "    notify %sk\n      yield\n    }\n";
  EXPECT_LE(waits(16, send), kSenders * kColumns);
}

// A notify of another rank publishes what has been awaited.
TEST(FarSends, AwaitedPutsHaveLandedBeforeAnyNotify) {
  const std::string send = numbers(2) + put("r0") + "    await %tr0\n" + put("r1") +
                           notify("r1", "tr1") + cell("r0") + "    notify %sr0\n";
  EXPECT_EQ(waits(2, send), 2 * kSenders);
}

} // namespace
} // namespace dtile::backend::host::testing
