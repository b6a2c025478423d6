// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What code for GPUs records where it is compiled to be traced, run on emulated ones, and the file
// that becomes of it, which tests/tools/check_trace.py checks.
#include "host_support.h"

#include "backend/runtime/trace/device_trace.h"
#include "backend/runtime/trace/events.h"

#include "gmock/gmock.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace dtile::backend::host::testing {
namespace {

using runtime::TraceKind;
using runtime::TraceRecord;
using ::testing::HasSubstr;
using ::testing::Not;

const char *const kHead =
    "kernel @k {\n"
    "  %c0 = const {value = 0} : index\n"
    "  %c1 = const {value = 1} : index\n"
    "  %n = const {value = 40} : index\n"
    "  %W = num_ranks : index\n"
    "  %me = rank : index\n"
    "  %x = param @x %n {param = 0, mode = \"in\"} : view<f32, 1>\n"
    "  %y = param @y %W, %n {param = 1, mode = \"out\"} : view<f32, 2>\n"
    "  %arrived = signal_param @arrived %W {param = 2} : signal<1> (%cell: index) {\n"
    "    yield %c1\n  }\n"
    "  %all = param @all %W, %n {param = 3, mode = \"scratch\", copies = 4} : view<f32, 2>\n";

/// Peer number `hop` and its cell that is this rank's.
const char *const kPeer = "    %sum = add %me, %hop : index\n    %peer = rem %sum, %W : index\n"
                          "    %s0 = sig.slice %arrived, %me {dims = \"i\"} : signal<0>\n"
                          "    %s1 = sig.at %s0, %peer : signal<0, remote>\n";

/// Each rank sends what it has to all, and keeps what came from them all.
std::string allGather() {
  return std::string(kHead) + "  space @send %c0, %W, %c1 {vars = [\"hop\"]} (%hop: index) {\n" +
         kPeer +
         "    %there = view.at %all, %peer : view<f32, 2, remote>\n"
         "    %part = view.tile %there, %me, %c0, %n {dims = \"ir\", lens = [64]} : view<f32, 1, "
         "remote>\n"
         "    %rows = view.tile %x, %c0, %n {dims = \"r\", lens = [64]} : view<f32, 1>\n"
         "    %sent = put %rows, %part : token\n"
         "    notify %s1, %sent\n    yield\n  }\n"
         "  space @keep %c0, %W, %c1 {vars = [\"src\"]} (%src: index) {\n"
         "    %here = wait %arrived : acquire\n"
         "    %far = view.tile %all, %src, %c0, %n {dims = \"ir\", lens = [64]} : view<f32, 1>\n"
         "    %got = load %far, %here : tile<64xf32>\n"
         "    %to = view.tile %y, %src, %c0, %n {dims = \"ir\", lens = [64]} : view<f32, 1>\n"
         "    store %got, %to\n    yield\n  }\n  return\n}\n";
}

/// Threads of a program notify side by side; ranks meet; what others have is read in place.
std::string notifiesOfALoop() {
  return std::string(kHead) +
         "  space @main {vars = []} {\n"
         "    for %c0, %W, %c1 (%hop: index) {\n" +
         kPeer +
         "    notify %s1\n    yield\n  }\n"
         "    %here = wait %arrived : acquire\n"
         "    barrier\n"
         "    %up = add %me, %c1 : index\n    %next = rem %up, %W : index\n"
         "    %there = view.at %all, %next : view<f32, 2, remote>\n"
         "    %row = view.tile %there, %c0, %c0, %n {dims = \"ir\", lens = [64]} : view<f32, 1, "
         "remote>\n"
         "    %v = load %row, %here : tile<64xf32>\n"
         "    %to = view.tile %y, %c0, %c0, %n {dims = \"ir\", lens = [64]} : view<f32, 1>\n"
         "    store %v, %to\n    barrier\n    yield\n  }\n  return\n}\n";
}

class GpuTrace : public ::testing::Test {
protected:
  void TearDown() override {
    traceEmulated(0);
    std::remove(path.c_str());
  }

  /// Runs a kernel with room for so many events; the text of its trace, which is good and has so
  /// many of what `numbers` says.
  std::string run(const std::string &text, int ranks, int launches, const std::string &numbers,
                  int64_t events = 100'000) {
    Program program(text);
    if (!program.module)
      return {};
    traceEmulated(events);
    std::vector<Tensor> tensors = {random(DType::F32, {40}, 1, ranks),
                                   zeros(DType::F32, {ranks, 40}, ranks)};
    EXPECT_EQ(runEmulated(*program.module, ranks, tensors, launches, {}), "");
    reading = emulatedTrace().read();
    std::vector<const TraceRecord *> records;
    for (const TraceRecord &record : reading.records)
      records.push_back(&record);
    const std::string events_ =
        runtime::traceEvents(records, {.originNs = emulatedTrace().begin()});
    std::ofstream(path) << runtime::traceHead() << events_ << runtime::traceEnd(reading.dropped);
    const std::string check = std::string(DTILE_CHECK_TRACE) + " " + path + " " + numbers;
    // The words of the command are this test's own. NOLINTNEXTLINE(bugprone-command-processor)
    EXPECT_EQ(std::system(check.c_str()), 0);
    return events_;
  }
  [[nodiscard]] std::vector<TraceRecord> of(TraceKind kind) const {
    std::vector<TraceRecord> found;
    std::copy_if(reading.records.begin(), reading.records.end(), std::back_inserter(found),
                 [&](const TraceRecord &record) { return record.kind == kind; });
    return found;
  }

  runtime::DeviceTrace::Reading reading;
  std::string path = ::testing::TempDir() + "gpu_trace_" + std::to_string(getpid()) + ".json";
};

TEST_F(GpuTrace, HasBodiesTransfersAndWhoLetWaitsGoOn) {
  // On each rank two programs of `keep` wait once for all cells, in each launch.
  const std::string text =
      run(allGather(), 2, 3,
          "ranks=2 launches=6 bodies=24 transfers=12 bytes=1920 notifies=12 waits=12 arrows=12 "
          "unfinished=0 dropped=0");
  EXPECT_THAT(text, HasSubstr("\"send (hop=1)\""));
  EXPECT_THAT(text, HasSubstr("\"keep (src=1)\""));
  EXPECT_THAT(text, HasSubstr("\"k.send program 1\""));
  EXPECT_THAT(text, HasSubstr("\"put all\""));
  EXPECT_THAT(text, HasSubstr("\"notify arrived[1]\""));
  EXPECT_THAT(text, HasSubstr("\"wait arrived[0], arrived[1]\""));
  EXPECT_THAT(text, HasSubstr("\"wanted\":1,"));
  EXPECT_THAT(text, HasSubstr("\"writer_role\":\"k.send\""));
  // Operations are in bodies of their program.
  const std::vector<TraceRecord> bodies = of(TraceKind::Body);
  for (const TraceKind kind : {TraceKind::Put, TraceKind::Notify, TraceKind::Wait})
    for (const TraceRecord &record : of(kind))
      EXPECT_TRUE(std::any_of(bodies.begin(), bodies.end(), [&](const TraceRecord &body) {
        return body.task == record.task && body.rank == record.rank && body.space == record.space &&
               body.epoch == record.epoch && body.begin <= record.begin && record.end <= body.end;
      }));
}

TEST_F(GpuTrace, HasNotifiesOfThreadsAndBarriers) {
  for (const int ranks : {1, 2, 4}) {
    const std::string each = std::to_string(2 * ranks);
    // Own memory is no other rank's, but is named as one.
    run(notifiesOfALoop(), ranks, 2,
        "bodies=" + each + " waits=" + each + " arrows=" + each + " transfers=" + each +
            " notifies=" + std::to_string(2 * ranks * ranks));
    EXPECT_EQ(of(TraceKind::Barrier).size(), size_t(4 * ranks));
    EXPECT_EQ(of(TraceKind::Load).size(), size_t(2 * ranks));
    // Each rank tells each.
    for (int rank = 0; rank < ranks; ++rank)
      for (int peer = 0; peer < ranks; ++peer) {
        const std::vector<TraceRecord> notifies = of(TraceKind::Notify);
        EXPECT_EQ(std::count_if(notifies.begin(), notifies.end(),
                                [&](const TraceRecord &notify) {
                                  return notify.rank == rank && notify.cell.detail == peer &&
                                         notify.cell.number == rank;
                                }),
                  2);
      }
  }
}

TEST_F(GpuTrace, CountsWhatDoesNotFit) {
  // Regions of one event: of a program that sends, the put stays and its notify and body do not. No
  // more than four stay of all 24.
  const std::string text =
      run(allGather(), 2, 1, "ranks=2 transfers=2 waits=2 notifies=0 bodies=0 dropped=20", 4);
  EXPECT_THAT(text, Not(HasSubstr("writer")));
}

} // namespace
} // namespace dtile::backend::host::testing
