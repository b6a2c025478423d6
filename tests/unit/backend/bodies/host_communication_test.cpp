// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transfers, signals and checks of compiled code on several ranks, against the interpreter.
#include "host_support.h"

namespace dtile::backend::host::testing {
namespace {

using ::testing::Test;

/// Constants that every kernel here has.
const char *const kHead = "kernel @k {\n"
                          "  %c0 = const {value = 0} : index\n"
                          "  %c1 = const {value = 1} : index\n"
                          "  %c2 = const {value = 2} : index\n"
                          "  %n = const {value = 40} : index\n"
                          "  %W = num_ranks : index\n"
                          "  %me = rank : index\n"
                          "  %up = add %me, %c1 : index\n"
                          "  %next = rem %up, %W : index\n";

std::string kernel(const std::string &params, const std::string &spaces) {
  return kHead + params + spaces + "  return\n}\n";
}

/// Runs on 1 to 4 ranks, three launches back to back.
template <typename Fn>
void checkRanks(const std::string &text, Fn tensors, double tolerance = 1e-5) {
  for (int ranks : {1, 2, 4}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    runBoth(text, ranks, tensors(ranks), tolerance, 3);
  }
}

const char *const kArrived =
    "  %arrived = signal_param @arrived %W {param = 2} : signal<1> (%cell: index) {\n"
    "    %prev = sub %me, %c1 : index\n"
    "    %from = rem %prev, %W : index\n"
    "    %mine = cmp %cell, %from {pred = \"eq\"} : bool\n"
    "    %one = select %mine, %c1, %c0 : index\n"
    "    yield %one\n  }\n";

/// Each rank sends to the next and reads what it got. `send` makes token %sent of view %there.
std::string ring(const std::string &send) {
  return kernel(
      std::string("  %x = param @x %n {param = 0, mode = \"in\"} : view<f32, 1>\n"
                  "  %y = param @y %n {param = 1, mode = \"out\"} : view<f32, 1>\n") +
          kArrived +
          "  %inbox = param @inbox %n {param = 3, mode = \"scratch\", copies = 4} : view<f32, 1>\n",
      "  space @send {vars = []} {\n"
      "    %there = view.at %inbox, %next : view<f32, 1, remote>\n" +
          send +
          "    %s0 = sig.slice %arrived, %me {dims = \"i\"} : signal<0>\n"
          "    %s1 = sig.at %s0, %next : signal<0, remote>\n"
          "    notify %s1, %sent\n    yield\n  }\n"
          "  space @receive {vars = []} {\n"
          "    %prev = sub %me, %c1 : index\n    %from = rem %prev, %W : index\n"
          "    %s2 = sig.slice %arrived, %from {dims = \"i\"} : signal<0>\n"
          "    %here = wait %s2 : acquire\n"
          "    %got = load %inbox, %here : tile<40xf32>\n"
          "    %two = add %got, %got : tile<40xf32>\n"
          "    store %two, %y\n    yield\n  }\n");
}

std::vector<Tensor> ringTensors(int ranks) {
  return {random(DType::F32, {40}, 1, ranks), zeros(DType::F32, {40}, ranks)};
}

/// Each rank sends rows of a matrix to all others, and adds to what it got. `columns` of 16 are
/// sent. On GPUs the copy engine does, in every second launch.
std::string gather(int columns) {
  const std::string count = std::to_string(columns);
  const std::string text = kernel(
      "  %m = const {value = 16} : index\n  %sent = const {value = " + count + "} : index\n" +
          "  %x = param @x %n, %m {param = 0, mode = \"in\"} : view<f32, 2>\n"
          "  %y = param @y %W, %n, %m {param = 1, mode = \"out\"} : view<f32, 3>\n"
          "  %arrived = signal_param @arrived %W, %c2 {param = 2} : signal<2> (%p: index, %q: "
          "index) {\n    yield %c1\n  }\n"
          "  %all = param @all %W, %n, %m {param = 3, mode = \"scratch\"} : view<f32, 3>\n"
          "  %half = const {value = 24} : index\n",
      "  space @send %c0, %W, %c1, %c0, %n, %half {copy_engine = true, engine_copies = true, vars "
      "= "
      "[\"hop\", \"r\"]} (%hop: index, %r: index) {\n"
      "    %sum = add %me, %hop : index\n    %peer = rem %sum, %W : index\n"
      "    %rows = view.tile %x, %r, %n, %c0, %sent {dims = \"rr\", lens = [24, " +
          count +
          "]} : view<f32, 2>\n"
          "    %there = view.at %all, %peer : view<f32, 3, remote>\n"
          "    %part = view.tile %there, %me, %r, %n, %c0, %sent {dims = \"irr\", lens = [24, " +
          count +
          "]} : view<f32, 2, remote>\n"
          "    %gone = put %rows, %part : token\n"
          "    %chunk = div %r, %half : index\n"
          "    %s0 = sig.slice %arrived, %me, %chunk {dims = \"ii\"} : signal<0>\n"
          "    %s1 = sig.at %s0, %peer : signal<0, remote>\n"
          "    notify %s1, %gone\n    yield\n  }\n"
          "  space @add %c0, %W, %c1 {vars = [\"src\"]} (%src: index) {\n"
          "    %s2 = sig.slice %arrived, %src, %c0, %c2 {dims = \"ir\"} : signal<1>\n"
          "    %here = wait %s2 : acquire\n"
          "    %from = view.tile %all, %src, %c0, %n, %c0, %sent {dims = \"irr\", lens = [64, 16]} "
          ": view<f32, 2>\n"
          "    %got = load %from, %here : tile<64x16xf32>\n"
          "    %two = add %got, %got : tile<64x16xf32>\n"
          "    %to = view.tile %y, %src, %c0, %n, %c0, %m {dims = \"irr\", lens = [64, 16]} : "
          "view<f32, 2>\n"
          "    store %two, %to\n    yield\n  }\n");
  std::string meeting = text;
  const std::string head = "kernel @k {";
  meeting.replace(meeting.find(head), head.size(), "kernel @k {entry_barrier = true} {");
  return meeting;
}

TEST(HostCommunication, CopyEnginesSendWhatProgramsSend) {
  for (const int columns : {16, 12}) {
    SCOPED_TRACE(columns);
    checkRanks(gather(columns), [](int ranks) {
      return std::vector<Tensor>{random(DType::F32, {40, 16}, 1, ranks),
                                 zeros(DType::F32, {ranks, 40, 16}, ranks)};
    });
  }
}

TEST(HostCommunication, AnAllGatherMayLeaveTheOwnShardWhereItIs) {
  // As read-in-place leaves it: nothing of the own window is sent, reads choose. The own part is
  // never written: what is read there would not be the shard.
  const std::string text = kernel(
      "  %x = param @x %n {param = 0, mode = \"in\"} : view<f32, 1>\n"
      "  %y = param @y %W, %n {param = 1, mode = \"out\"} : view<f32, 2>\n"
      "  %arrived = signal_param @arrived %W {param = 2} : signal<1> (%cell: index) {\n"
      "    yield %c1\n  }\n"
      "  %all = param @all %W, %n {param = 3, mode = \"scratch\", copies = 4} : view<f32, 2>\n",
      "  space @send %c0, %W, %c1 {vars = [\"hop\"]} (%hop: index) {\n"
      "    %sum = add %me, %hop : index\n    %peer = rem %sum, %W : index\n"
      "    %home = cmp %peer, %me {pred = \"eq\"} : bool\n"
      "    %end = select %home, %c0, %n : index\n"
      "    %rows = view.tile %x, %c0, %end {dims = \"r\", lens = [64]} : view<f32, 1>\n"
      "    %there = view.at %all, %peer : view<f32, 2, remote>\n"
      "    %part = view.tile %there, %me, %c0, %n {dims = \"ir\", lens = [64]} : view<f32, 1, "
      "remote>\n"
      "    %sent = put %rows, %part : token\n"
      "    %s0 = sig.slice %arrived, %me {dims = \"i\"} : signal<0>\n"
      "    %s1 = sig.at %s0, %peer : signal<0, remote>\n"
      "    notify %s1, %sent\n    yield\n  }\n"
      "  space @keep %c0, %W, %c1 {vars = [\"src\"]} (%src: index) {\n"
      "    %own = cmp %src, %me {pred = \"eq\"} : bool\n"
      "    %s2 = sig.slice %arrived, %src {dims = \"i\"} : signal<0>\n"
      "    %here = wait %s2 : acquire\n"
      "    %far = view.tile %all, %src, %c0, %n {dims = \"ir\", lens = [64]} : view<f32, 1>\n"
      "    %near = view.tile %x, %c0, %n {dims = \"r\", lens = [64]} : view<f32, 1>\n"
      "    %from = view.select %own, %near, %far : view<f32, 1>\n"
      "    %got = load %from, %here : tile<64xf32>\n"
      "    %to = view.tile %y, %src, %c0, %n {dims = \"ir\", lens = [64]} : view<f32, 1>\n"
      "    store %got, %to\n    yield\n  }\n");
  checkRanks(text, [](int ranks) {
    return std::vector<Tensor>{random(DType::F32, {40}, 1, ranks),
                               zeros(DType::F32, {ranks, 40}, ranks)};
  });
}

TEST(HostCommunication, PutsOfViewsTilesAndWindowsArrive) {
  checkRanks(ring("    %sent = put %x, %there : token\n"), ringTensors);
  checkRanks(ring("    %v = load %x : tile<40xf32>\n    %w = exp %v : tile<40xf32>\n"
                  "    %sent = put %w, %there : token\n"),
             ringTensors);
  checkRanks(ring("    %v = load %x : tile<40xf32>\n"
                  "    %half = const {value = 20} : index\n"
                  "    %a = view.tile %there, %c0, %half {dims = \"r\", lens = [40]} : view<f32, "
                  "1, remote>\n"
                  "    %b = view.tile %there, %half, %n {dims = \"r\", lens = [40]} : view<f32, 1, "
                  "remote>\n"
                  "    %p = put %v, %a : token\n    %q = put %v, %b : token\n"
                  "    %sent = token.join %p, %q : token\n"),
             ringTensors);
  checkRanks(ring("    %h = const {value = 2.5} : f32\n    %v = tile.splat %h : tile<40xf32>\n"
                  "    %sent = put %v, %there : token\n"),
             ringTensors);
}

TEST(HostCommunication, PutsFromALoopDoNotOverwriteEachOther) {
  checkRanks(
      ring("    %done = token.done : token\n"
           "    %eight = const {value = 8} : index\n"
           "    %sent = for %c0, %n, %eight, %done : token (%i: index, %t: token) {\n"
           "      %end = add %i, %eight : index\n"
           "      %a = view.tile %x, %i, %n {dims = \"r\", lens = [8]} : view<f32, 1>\n"
           "      %b = view.tile %there, %i, %n {dims = \"r\", lens = [8]} : view<f32, 1, remote>\n"
           "      %v = load %a : tile<8xf32>\n      %w = mul %v, %v : tile<8xf32>\n"
           "      %s = put %w, %b : token\n      %u = token.join %t, %s : token\n"
           "      yield %u\n    }\n"),
      ringTensors);
}

// As merge-notifies leaves it: what is sent is complete behind the loop, then each of some threads
// tells a rank.
TEST(HostCommunication, TilesOfALoopAreToldOfBehindIt) {
  const std::string text = kernel(
      "  %x = param @x %n {param = 0, mode = \"in\"} : view<f32, 1>\n"
      "  %y = param @y %W, %n {param = 1, mode = \"out\"} : view<f32, 2>\n"
      "  %arrived = signal_param @arrived %W {param = 2} : signal<1> (%cell: index) {\n"
      "    yield %c1\n  }\n"
      "  %all = param @all %W, %n {param = 3, mode = \"scratch\", copies = 4} : view<f32, 2>\n",
      "  space @send {vars = []} {\n"
      "    %tile = load %x : tile<40xf32>\n"
      "    %none = token.done : token\n"
      "    %sent = for %c0, %W, %c1, %none : token (%hop: index, %t: token) {\n"
      "      %sum = add %me, %hop : index\n      %peer = rem %sum, %W : index\n"
      "      %there = view.at %all, %peer : view<f32, 2, remote>\n"
      "      %row = view.slice %there, %me {dims = \"ia\"} : view<f32, 1, remote>\n"
      "      %gone = put %tile, %row : token\n"
      "      %u = token.join %t, %gone : token\n      yield %u\n    }\n"
      "    await %sent\n"
      "    for %c0, %W, %c1 (%hop: index) {\n"
      "      %sum = add %me, %hop : index\n      %peer = rem %sum, %W : index\n"
      "      %cells = sig.at %arrived, %peer : signal<1, remote>\n"
      "      %cell = sig.slice %cells, %me {dims = \"i\"} : signal<0, remote>\n"
      "      notify %cell\n      yield\n    }\n    yield\n  }\n"
      "  space @keep %c0, %W, %c1 {vars = [\"src\"]} (%src: index) {\n"
      "    %cell = sig.slice %arrived, %src {dims = \"i\"} : signal<0>\n"
      "    %here = wait %cell : acquire\n"
      "    %from = view.slice %all, %src {dims = \"ia\"} : view<f32, 1>\n"
      "    %got = load %from, %here : tile<40xf32>\n"
      "    %to = view.slice %y, %src {dims = \"ia\"} : view<f32, 1>\n"
      "    store %got, %to\n    yield\n  }\n");
  checkRanks(text, [](int ranks) {
    return std::vector<Tensor>{random(DType::F32, {40}, 1, ranks),
                               zeros(DType::F32, {ranks, 40}, ranks)};
  });
}

TEST(HostCommunication, PutsOfScalarsArrive) {
  checkRanks(ring("    %done = token.done : token\n"
                  "    %sent = for %c0, %n, %c1, %done : token (%i: index, %t: token) {\n"
                  "      %a = view.slice %x, %i {dims = \"i\"} : view<f32, 0>\n"
                  "      %b = view.slice %there, %i {dims = \"i\"} : view<f32, 0, remote>\n"
                  "      %v = load %a : f32\n      %w = neg %v : f32\n"
                  "      %s = put %w, %b : token\n      %u = token.join %t, %s : token\n"
                  "      yield %u\n    }\n"),
             ringTensors);
}

TEST(HostCommunication, PutSignalTellsWhenDataHasLanded) {
  std::string text = ring("    %s9 = sig.slice %arrived, %me {dims = \"i\"} : signal<0>\n"
                          "    %s8 = sig.at %s9, %next : signal<0, remote>\n"
                          "    %gone = put_signal %x, %there, %s8 : token\n    await %gone\n");
  // The signal came with the data.
  const size_t from = text.find("    %s0 = sig.slice");
  text.erase(from, text.find("    yield", from) - from);
  checkRanks(text, ringTensors);
}

TEST(HostCommunication, RemoteMemoryIsLoadedStoredAndGot) {
  const std::string params =
      "  %x = param @x %n {param = 0, mode = \"symm\"} : view<bf16, 1>\n"
      "  %y = param @y %n {param = 1, mode = \"out\"} : view<bf16, 1>\n"
      "  %z = param @z %n {param = 2, mode = \"out\"} : view<bf16, 1>\n"
      "  %box = param @box %n {param = 3, mode = \"symm\"} : view<bf16, 1>\n";
  const std::string spaces =
      "  space @main {vars = []} {\n"
      "    barrier\n"
      "    %there = view.at %x, %next : view<bf16, 1, remote>\n"
      "    %far = const {value = 30} : index\n"
      "    %w = view.tile %there, %far, %n {dims = \"r\", lens = [16]} : view<bf16, 1, remote>\n"
      "    %a = load %w : tile<16xbf16>\n    store %a, %y\n"
      "    %t = get %there, %z : token\n    await %t\n"
      "    %e = view.slice %there, %c2 {dims = \"i\"} : view<bf16, 0, remote>\n"
      "    %s = load %e : bf16\n"
      "    %o = view.slice %y, %far {dims = \"i\"} : view<bf16, 0>\n    store %s, %o\n"
      "    %rest = view.at %box, %next : view<bf16, 1, remote>\n"
      "    %p = view.tile %rest, %far, %n {dims = \"r\", lens = [16]} : view<bf16, 1, remote>\n"
      "    store %a, %p\n"
      "    %q = view.slice %rest, %c1 {dims = \"i\"} : view<bf16, 0, remote>\n    store %s, %q\n"
      "    %i = tile.iota : tile<8xi32>\n    %five = const {value = 5} : i32\n"
      "    %f = tile.splat %five : tile<8xi32>\n    %j = mul %i, %f : tile<8xi32>\n"
      "    %g = gather %there, %j : tile<8xbf16>\n"
      "    scatter %g, %rest, %j\n"
      "    quiet\n    barrier\n    yield\n  }\n";
  checkRanks(kernel(params, spaces), [](int ranks) {
    return std::vector{symmetric(random(DType::BF16, {40}, 1, ranks)),
                       zeros(DType::BF16, {40}, ranks), zeros(DType::BF16, {40}, ranks),
                       symmetric(zeros(DType::BF16, {40}, ranks))};
  });
}

TEST(HostCommunication, SumsAndAtomicsMeetInOnePlace) {
  const std::string params =
      "  %x = param @x %n {param = 0, mode = \"in\"} : view<f32, 1>\n"
      "  %sum = param @sum %n {param = 1, mode = \"symm\"} : view<f32, 1>\n"
      "  %count = param @count %n {param = 2, mode = \"symm\"} : view<i32, 1>\n"
      "  %old = param @old %n {param = 3, mode = \"out\"} : view<i32, 1>\n";
  const std::string spaces =
      "  space @main %c0, %W, %c1 {vars = [\"p\"]} (%p: index) {\n"
      "    %there = view.at %sum, %p : view<f32, 1, remote>\n"
      "    %v = load %x : tile<40xf32>\n    %t = reduce_add %v, %there : token\n    await %t\n"
      "    %far = view.at %count, %p : view<i32, 1, remote>\n"
      "    %one = const {value = 3} : i32\n"
      "    %a = view.slice %far, %c0 {dims = \"i\"} : view<i32, 0, remote>\n"
      "    %p0 = atomic %a, %one {kind = \"add\"} : i32\n"
      "    %m = cast %me : i32\n"
      "    %b = view.slice %far, %c1 {dims = \"i\"} : view<i32, 0, remote>\n"
      "    %p1 = atomic %b, %m {kind = \"max\"} : i32\n"
      "    %c = view.slice %count, %c2 {dims = \"i\"} : view<i32, 0>\n"
      "    %six = const {value = 6} : i32\n    %zero = const {value = 0} : i32\n"
      "    %p2 = atomic %c, %zero, %six {kind = \"cas\"} : i32\n"
      "    %gone = view.slice %count, %n {dims = \"i\"} : view<i32, 0>\n"
      "    %p3 = atomic %gone, %six {kind = \"exch\"} : i32\n"
      "    %o = view.slice %old, %c0 {dims = \"i\"} : view<i32, 0>\n    store %p3, %o\n"
      "    yield\n  }\n";
  checkRanks(kernel(params, spaces), [](int ranks) {
    return std::vector{random(DType::F32, {40}, 1, ranks),
                       symmetric(zeros(DType::F32, {40}, ranks)),
                       symmetric(zeros(DType::I32, {40}, ranks)), zeros(DType::I32, {40}, ranks)};
  });
}

TEST(HostCommunication, SumsOfEveryTypeAreAddedAtTheOwner) {
  for (DType dtype : {DType::I8, DType::U16, DType::I32, DType::I64, DType::F8E5M2, DType::F16,
                      DType::BF16, DType::F32, DType::F64}) {
    SCOPED_TRACE(dtypeName(dtype).str());
    const std::string t = dtypeName(dtype).str();
    // Windows that reach past the edge, at odd places, and one element.
    const std::string text =
        kernel("  %x = param @x %n {param = 0, mode = \"in\"} : view<" + t + ", 1>\n" +
                   "  %sum = param @sum %n {param = 1, mode = \"symm\"} : view<" + t + ", 1>\n",
               "  space @main %c0, %W, %c1 {vars = [\"p\"]} (%p: index) {\n"
               "    %there = view.at %sum, %p : view<" +
                   t +
                   ", 1, remote>\n"
                   "    %v = load %x : tile<40x" +
                   t +
                   ">\n"
                   "    %t0 = reduce_add %v, %there : token\n"
                   "    %w = view.tile %there, %c1, %n {dims = \"r\", lens = [40]} : view<" +
                   t +
                   ", 1, remote>\n"
                   "    %t1 = reduce_add %v, %w : token\n"
                   "    %e = view.slice %x, %c2 {dims = \"i\"} : view<" +
                   t +
                   ", 0>\n"
                   "    %s = load %e : " +
                   t +
                   "\n"
                   "    %f = view.slice %there, %c1 {dims = \"i\"} : view<" +
                   t +
                   ", 0, remote>\n"
                   "    %t2 = reduce_add %s, %f : token\n"
                   "    await %t0, %t1, %t2\n    yield\n  }\n");
    checkRanks(text, [&](int ranks) {
      // Small integers: sums are exact in every order.
      return std::vector{filled(dtype, {40}, ranks, [](int64_t i) { return double(i % 2); }),
                         symmetric(zeros(dtype, {40}, ranks))};
    });
  }
}

TEST(HostCommunication, CopiesOfPartsOfThreeDimensionsArrive) {
  for (bool isGet : {false, true}) {
    const std::string params =
        "  %c3 = const {value = 3} : index\n  %c5 = const {value = 5} : index\n"
        "  %c16 = const {value = 16} : index\n  %c13 = const {value = 13} : index\n"
        "  %x = param @x %c3, %c5, %c16 {param = 0, mode = \"symm\"} : view<i16, 3>\n"
        "  %y = param @y %c3, %c5, %c16 {param = 1, mode = \"symm\"} : view<i16, 3>\n";
    const std::string from = isGet ? "3, remote" : "3", to = isGet ? "3" : "3, remote";
    const std::string spaces =
        std::string("  space @main {vars = []} {\n    barrier\n") +
        (isGet ? "    %a = view.at %x, %next : view<i16, 3, remote>\n"
                 "    %b = view.slice %y {dims = \"aaa\"} : view<i16, 3>\n"
               : "    %a = view.slice %x {dims = \"aaa\"} : view<i16, 3>\n"
                 "    %b = view.at %y, %next : view<i16, 3, remote>\n") +
        // Rows without gaps; a part of each; and windows of which not all exists.
        "    %a0 = view.slice %a, %c0, %c1 {dims = \"raa\"} : view<i16, " + from +
        ">\n"
        "    %b0 = view.slice %b, %c2, %c3 {dims = \"raa\"} : view<i16, " +
        to +
        ">\n"
        "    %t0 = " +
        (isGet ? "get" : "put") +
        " %a0, %b0 : token\n"
        "    %a1 = view.slice %a, %c1, %c3, %c1, %c3, %c2, %c13 {dims = \"rrr\"} : view<i16, " +
        from +
        ">\n"
        "    %b1 = view.slice %b, %c0, %c2, %c2, %c5, %c5, %c16 {dims = \"rrr\"} : view<i16, " +
        to +
        ">\n"
        "    %a2 = view.tile %a1, %c0, %n, %c0, %n, %c0, %n {dims = \"rrr\", lens = [2, 4, 8]} "
        ": view<i16, " +
        from +
        ">\n"
        "    %b2 = view.tile %b1, %c0, %n, %c0, %n, %c0, %n {dims = \"rrr\", lens = [2, 4, 8]} "
        ": view<i16, " +
        to +
        ">\n"
        "    %t1 = " +
        (isGet ? "get" : "put") +
        " %a2, %b2 : token\n"
        "    await %t0, %t1\n    quiet\n    barrier\n    yield\n  }\n";
    checkRanks(kernel(params, spaces), [](int ranks) {
      return std::vector{symmetric(random(DType::I16, {3, 5, 16}, 1, ranks)),
                         symmetric(zeros(DType::I16, {3, 5, 16}, ranks))};
    });
  }
}

TEST(HostCommunication, LargeCopiesLeaveSharedMemoryToTilesAgain) {
  const std::string params =
      "  %c24 = const {value = 24} : index\n  %c640 = const {value = 640} : index\n"
      "  %c3 = const {value = 3} : index\n  %c20 = const {value = 20} : index\n"
      "  %c5 = const {value = 5} : index\n  %c22 = const {value = 22} : index\n"
      "  %c64 = const {value = 64} : index\n  %c576 = const {value = 576} : index\n"
      "  %x = param @x %c2, %c24, %c640 {param = 0, mode = \"symm\"} : view<f32, 3>\n"
      "  %y = param @y %c2, %c24, %c640 {param = 1, mode = \"symm\"} : view<f32, 3>\n"
      "  %z = param @z %c64 {param = 2, mode = \"out\"} : view<f32, 1>\n";
  const std::string spaces =
      "  space @main {vars = []} {\n    barrier\n"
      "    %there = view.at %y, %next : view<f32, 3, remote>\n"
      "    %w0 = view.slice %x, %c0 {dims = \"iaa\"} : view<f32, 2>\n"
      "    %v = load %w0 : tile<24x64xf32>\n"
      // Rows without gaps, sums of columns, rows of a part, and the sums of what has arrived.
      "    %a0 = view.slice %x, %c0 {dims = \"iaa\"} : view<f32, 2>\n"
      "    %b0 = view.slice %there, %c1 {dims = \"iaa\"} : view<f32, 2, remote>\n"
      "    %t0 = put %a0, %b0 : token\n"
      "    %s = tile.reduce %v {axis = 0, kind = \"sum\"} : tile<64xf32>\n"
      "    %a1 = view.slice %x, %c1, %c3, %c20, %c64, %c640 {dims = \"irr\"} : view<f32, 2>\n"
      "    %b1 = view.slice %there, %c0, %c5, %c22, %c0, %c576 {dims = \"irr\"} : "
      "view<f32, 2, remote>\n"
      "    %t1 = put %a1, %b1 : token\n"
      "    await %t0, %t1\n    quiet\n    barrier\n"
      "    %w1 = view.slice %y, %c1 {dims = \"iaa\"} : view<f32, 2>\n"
      "    %u = load %w1 : tile<24x64xf32>\n"
      "    %r = tile.reduce %u {axis = 0, kind = \"sum\"} : tile<64xf32>\n"
      "    %q = mul %r, %s : tile<64xf32>\n"
      "    store %q, %z\n    yield\n  }\n";
  checkRanks(kernel(params, spaces), [](int ranks) {
    return std::vector{symmetric(random(DType::F32, {2, 24, 640}, 1, ranks)),
                       symmetric(zeros(DType::F32, {2, 24, 640}, ranks)),
                       zeros(DType::F32, {64}, ranks)};
  });
}

TEST(HostCommunication, WaitsForPartsOfCountsAndForManyCells) {
  // Every rank tells the next one twice, on a row of 3 cells; the derived count is 2 for that row.
  const std::string derived =
      "(%from: index, %i: index) {\n"
      "    %back = sub %me, %c1 : index\n    %prev = rem %back, %W : index\n"
      "    %mine = cmp %from, %prev {pred = \"eq\"} : bool\n"
      "    %two = select %mine, %c2, %c0 : index\n    yield %two\n  }\n";
  for (const std::string &region : {derived, std::string("{}\n")})
    for (const char *count : {"", ", %c1", ", %c2"}) {
      // A wait without a count needs a derived one.
      if (region.size() < 4 && !*count)
        continue;
      const std::string params =
          "  %c3 = const {value = 3} : index\n"
          "  %x = param @x %n {param = 0, mode = \"in\"} : view<f32, 1>\n"
          "  %box = param @box %n {param = 1, mode = \"symm\"} : view<f32, 1>\n"
          "  %ready = signal_param @ready %W, %c3 {param = 2} : signal<2> " +
          region;
      const std::string spaces =
          "  space @send {vars = []} {\n"
          "    %there = view.at %box, %next : view<f32, 1, remote>\n"
          "    %t = put %x, %there : token\n"
          "    %row = sig.slice %ready, %me {dims = \"ia\"} : signal<1>\n"
          "    %far = sig.at %row, %next : signal<1, remote>\n"
          "    notify %far, %t\n    notify %far\n    yield\n  }\n"
          "  space @receive {vars = []} {\n"
          "    %back = sub %me, %c1 : index\n    %prev = rem %back, %W : index\n"
          "    %row = sig.slice %ready, %prev, %c0, %c3 {dims = \"ir\"} : signal<1>\n"
          "    %here = wait %row" +
          std::string(count) +
          " : acquire\n"
          "    %v = load %box, %here : tile<40xf32>\n"
          "    %w = mul %v, %v : tile<40xf32>\n    store %w, %box\n    yield\n  }\n";
      // One launch: the box is not the sender's again before it has been read.
      for (int ranks : {1, 2, 4})
        runBoth(kernel(params, spaces), ranks,
                {random(DType::F32, {40}, 1, ranks), symmetric(zeros(DType::F32, {40}, ranks))});
    }
}

// More cells than the threads of all programs; who waits begins first, so that a cell that counts
// from too little is seen, as one that counts from too much is.
TEST(HostCommunication, ThousandsOfCellsCountFromTheLaunchBefore) {
  const std::string params =
      "  %c17 = const {value = 17} : index\n  %c700 = const {value = 700} : index\n"
      "  %x = param @x %n {param = 0, mode = \"in\"} : view<f32, 1>\n"
      "  %y = param @y %n {param = 1, mode = \"out\"} : view<f32, 1>\n"
      "  %arrived = signal_param @arrived %W, %c700 {param = 2} : signal<2> "
      "(%cell: index, %i: index) {\n"
      "    %back = sub %me, %c1 : index\n    %prev = rem %back, %W : index\n"
      "    %mine = cmp %cell, %prev {pred = \"eq\"} : bool\n"
      "    %one = select %mine, %c1, %c0 : index\n    yield %one\n  }\n"
      "  %inbox = param @inbox %n {param = 3, mode = \"scratch\", copies = 4} : view<f32, 1>\n";
  const std::string spaces =
      "  space @receive %c0, %n, %c1 {vars = [\"i\"]} (%i: index) {\n"
      "    %back = sub %me, %c1 : index\n    %prev = rem %back, %W : index\n"
      "    %at = mul %i, %c17 : index\n"
      "    %s2 = sig.slice %arrived, %prev, %at {dims = \"ii\"} : signal<0>\n"
      "    %here = wait %s2 : acquire\n"
      "    %a = view.slice %inbox, %i {dims = \"i\"} : view<f32, 0>\n"
      "    %b = view.slice %y, %i {dims = \"i\"} : view<f32, 0>\n"
      "    %v = load %a, %here : f32\n    store %v, %b\n    yield\n  }\n"
      "  space @send {vars = []} {\n"
      "    %there = view.at %inbox, %next : view<f32, 1, remote>\n"
      "    %sent = put %x, %there : token\n"
      "    %row = sig.slice %arrived, %me {dims = \"ia\"} : signal<1>\n"
      "    %far = sig.at %row, %next : signal<1, remote>\n"
      "    notify %far, %sent\n    yield\n  }\n";
  checkRanks(kernel(params, spaces), ringTensors);
}

TEST(HostCommunication, JoinedTokensReachTheSpaceAfterAll) {
  const std::string params =
      "  %x = param @x %n {param = 0, mode = \"in\"} : view<f32, 1>\n"
      "  %y = param @y %n {param = 1, mode = \"out\"} : view<f32, 1>\n"
      "  %ready = signal_param @ready %W {param = 2} : signal<1> (%cell: index) {\n    yield %c1\n "
      " }\n"
      "  %inbox = param @inbox %n {param = 3, mode = \"scratch\", zero = true} : view<f32, 1>\n";
  const std::string spaces =
      "  space @send %c0, %n, %c1 {vars = [\"i\"]} (%i: index) {\n"
      "    %there = view.at %inbox, %next : view<f32, 1, remote>\n"
      "    %a = view.slice %x, %i {dims = \"i\"} : view<f32, 0>\n"
      "    %b = view.slice %there, %i {dims = \"i\"} : view<f32, 0, remote>\n"
      "    %v = load %a : f32\n    %s = put %v, %b : token\n    yield %s\n  }\n"
      "  space @tell %c0, %W, %c1 {vars = [\"p\"], after_all = \"send\"} (%p: index, %sent: token) "
      "{\n"
      "    %s0 = sig.slice %ready, %me {dims = \"i\"} : signal<0>\n"
      "    %s1 = sig.at %s0, %p : signal<0, remote>\n    notify %s1, %sent\n    yield\n  }\n"
      "  space @take {vars = []} {\n"
      "    %here = wait %ready : acquire\n    %got = load %inbox, %here : tile<40xf32>\n"
      "    store %got, %y\n    yield\n  }\n";
  checkRanks(kernel(params, spaces), ringTensors);
}

TEST(HostCommunication, EpochsCountLaunches) {
  const std::string params = "  %y = param @y %n {param = 0, mode = \"inout\"} : view<i64, 1>\n"
                             "  %e = epoch : index\n";
  const std::string spaces = "  space @main {vars = []} {\n"
                             "    %a = view.slice %y, %e {dims = \"i\"} : view<i64, 0>\n"
                             "    %f = epoch : index\n    %g = cast %f : i64\n"
                             "    store %g, %a\n    yield\n  }\n";
  checkRanks(kernel(params, spaces),
             [](int ranks) { return std::vector{zeros(DType::I64, {40}, ranks)}; });
}

TEST(HostCommunication, ScalarsOfEveryTypeArePassed) {
  const std::string params = "  %y = param @y %n {param = 0, mode = \"out\"} : view<f64, 1>\n"
                             "  %s = scalar_param @s {param = 1} : bf16\n"
                             "  %b = scalar_param @b {param = 2} : bool\n"
                             "  %i = scalar_param @i {param = 3} : index\n"
                             "  %u = scalar_param @u {param = 4} : u8\n";
  const std::string spaces = "  space @main {vars = []} {\n"
                             "    %p = cast %s : f64\n    %q = cast %b : f64\n"
                             "    %r = cast %i : f64\n    %v = cast %u : f64\n"
                             "    %c3 = const {value = 3} : index\n"
                             "    %y0 = view.slice %y, %c0 {dims = \"i\"} : view<f64, 0>\n"
                             "    %y1 = view.slice %y, %c1 {dims = \"i\"} : view<f64, 0>\n"
                             "    %y2 = view.slice %y, %c2 {dims = \"i\"} : view<f64, 0>\n"
                             "    %y3 = view.slice %y, %c3 {dims = \"i\"} : view<f64, 0>\n"
                             "    store %p, %y0\n    store %q, %y1\n    store %r, %y2\n"
                             "    store %v, %y3\n    yield\n  }\n";
  const auto got = runBoth(kernel(params, spaces), 1, {zeros(DType::F64, {40})}, 0, 1,
                           {f32ToBf16(1.5f), 1, uint64_t(-7), 200});
  EXPECT_EQ(got[0].at(0), 1.5);
  EXPECT_EQ(got[0].at(1), 1);
  EXPECT_EQ(got[0].at(2), -7);
  EXPECT_EQ(got[0].at(3), 200);
}

// What stops a launch.

std::string failure(const std::string &text, int ranks) {
  Program program(text);
  std::vector<Tensor> tensors{zeros(DType::F32, {40}, ranks)};
  return program.module ? runCompiled(*program.module, ranks, tensors) : "";
}

const char *const kOneParam = "  %y = param @y %n {param = 0, mode = \"symm\"} : view<f32, 1>\n";

TEST(HostFailure, AssertionsSayTheirNumbers) {
  const std::string message = failure(
      kernel("  %y = param @y %n {param = 0, mode = \"out\"} : view<f32, 1>\n",
             "  space @main {vars = []} {\n"
             "    %ok = cmp %n, %c2 {pred = \"lt\"} : bool\n"
             "    assert %ok, %n, %c2 {message = \"{0} rows, at most {1}\"}\n    yield\n  }\n"),
      1);
  EXPECT_NE(message.find("40 rows, at most 2"), std::string::npos) << message;
}

TEST(HostFailure, RanksThatDoNotExistAreRefused) {
  Program program(kernel(kOneParam,
                         "  space @main {vars = []} {\n"
                         "    %there = view.at %y, %W : view<f32, 1, remote>\n"
                         "    %t = put %y, %there : token\n    await %t\n    yield\n  }\n"));
  std::vector<Tensor> tensors{symmetric(zeros(DType::F32, {40}, 2))};
  const std::string message = runCompiled(*program.module, 2, tensors);
  EXPECT_NE(message.find('2'), std::string::npos) << message;
  EXPECT_NE(message.find("rank"), std::string::npos) << message;
}

TEST(HostFailure, SignalPositionsAreChecked) {
  const std::string message =
      failure(kernel("  %y = param @y %n {param = 0, mode = \"out\"} : view<f32, 1>\n"
                     "  %s = signal_param @ready %W {param = 1} : signal<1> {}\n",
                     "  space @main {vars = []} {\n"
                     "    %cell = sig.slice %s, %W {dims = \"i\"} : signal<0>\n"
                     "    notify %cell\n    yield\n  }\n"),
              1);
  EXPECT_NE(message.find("ready"), std::string::npos) << message;
}

TEST(HostFailure, DeclaredSizesAreChecked) {
  const std::string message =
      failure(kernel("  %d = launch.dim {param = 0, dim = 0} : index\n"
                     "  launch.check %c2, %d {param = 0, dim = 0}\n"
                     "  %y = param @y %c2 {param = 0, mode = \"out\"} : view<f32, 1>\n",
                     "  space @main {vars = []} {\n    yield\n  }\n"),
              1);
  EXPECT_NE(message.find("40"), std::string::npos) << message;
}

TEST(HostFailure, CallsMustBeGone) {
  Program program(
      "func @f {\n  return\n}\n" +
      kernel("", "  space @main {vars = []} {\n    call {callee = \"f\"}\n    yield\n  }\n"));
  std::vector<Tensor> tensors;
  auto code = jit(*program.module, {});
  ASSERT_FALSE(bool(code));
  EXPECT_NE(llvm::toString(code.takeError()).find("inlined"), std::string::npos);
}

TEST(HostFailure, UnknownProcessorsAreNamed) {
  Program program(kernel("", "  space @main {vars = []} {\n    yield\n  }\n"));
  auto code = jit(*program.module, {.cpu = "z80"});
  ASSERT_FALSE(bool(code));
  EXPECT_NE(llvm::toString(code.takeError()).find("z80"), std::string::npos);
}

} // namespace
} // namespace dtile::backend::host::testing
