// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Traces of teams on threads: what is recorded, that it is bounded, which notify is taken to have
// let a wait go on, and what is written of records that no team has made.
#include "tests/unit/runtime/runtime_kernels.h"

#include "backend/runtime/trace/events.h"
#include "backend/runtime/trace/flows.h"
#include "backend/runtime/trace/trace_abi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

namespace dtile::test {
namespace {

using runtime::findWriters;
using runtime::TraceKind;
using runtime::TraceRecord;
using ::testing::HasSubstr;

// ring: each body notifies the right neighbour and waits for the left one, as traced code does.

struct RingFrame {
  FrameHead head;
  uint64_t *came;
};

const dtile_site kRingNotify = {"ring.dtile", "came", 4, 5};
const dtile_site kRingWait = {"ring.dtile", "came", 5, 11};

int32_t ringPrologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<RingFrame *>(memory);
  fillHead(launch, frame.head);
  const int64_t size[] = {8};
  frame.came = static_cast<uint64_t *>(dtile_rt_signal(launch, 0, 1, size));
  return frame.came ? 0 : 1;
}

void ringBody(dtile_task *task, const void *memory, void *, int64_t i) {
  const auto &frame = *static_cast<const RingFrame *>(memory);
  dtile_rt_trace_body(task);
  const auto next = int32_t((frame.head.rank + 1) % frame.head.ranks);
  dtile_region cell = region(frame.came + i, DTILE_U64, {}, next);
  dtile_rt_trace_cells(task, DTILE_TRACE_NOTIFY, &cell, -1, &kRingNotify);
  dtile_rt_notify(task, &cell, &kRingNotify);
  dtile_rt_trace_end(task);
  dtile_region own = region(frame.came + i, DTILE_U64, {});
  dtile_rt_trace_cells(task, DTILE_TRACE_WAIT, &own, -1, &kRingWait);
  dtile_rt_wait(task, &own, -1, &kRingWait);
  dtile_rt_trace_end(task);
  dtile_rt_trace_end(task);
}

/// Waits for what nobody sends.
void lonelyBody(dtile_task *task, const void *memory, void *, int64_t i) {
  const auto &frame = *static_cast<const RingFrame *>(memory);
  dtile_rt_trace_body(task);
  dtile_region own = region(frame.came + i, DTILE_U64, {});
  dtile_rt_trace_cells(task, DTILE_TRACE_WAIT, &own, -1, &kRingWait);
  dtile_rt_wait(task, &own, -1, &kRingWait);
  dtile_rt_trace_end(task);
  dtile_rt_trace_end(task);
}

int64_t eight(const void *) { return 8; }
int64_t oneNotify(const void *, int64_t) { return 1; }
void place(const void *, int64_t linear, int64_t *position) { position[0] = linear; }

const char *const kVars[] = {"i"};
const dtile_param_desc kRingParams[] = {
    {"came", DTILE_PARAM_SIGNAL, DTILE_MODE_SYMM, DTILE_U64, 1, 0, 1, 0, 0}};
const dtile_space_desc kRingSpaces[] = {{"turn", 1, -1, 0, 0, kVars, eight, place, 0, ringBody}};
const dtile_space_desc kLonelySpaces[] = {{"", 1, -1, 0, 0, kVars, eight, place, 0, lonelyBody}};
const dtile_signal_desc kRingSignals[] = {{0, oneNotify}};

dtile_kernel_desc kernel(const char *name, const dtile_space_desc *spaces) {
  dtile_kernel_desc desc{};
  desc.abi_version = DTILE_ABI_VERSION;
  desc.name = name;
  desc.file = "ring.dtile";
  desc.nparams = desc.nspaces = desc.nsignals = 1;
  desc.params = kRingParams;
  desc.spaces = spaces;
  desc.signals = kRingSignals;
  desc.frame_bytes = sizeof(RingFrame);
  desc.prologue = ringPrologue;
  return desc;
}

const dtile_kernel_desc kRing = kernel("ring", kRingSpaces);
const dtile_kernel_desc kLonely = kernel("lonely", kLonelySpaces);

dtile_status launch(dtile_team *team, const dtile_kernel_desc &desc, int count = 1) {
  Arguments none(dtile_team_size(team));
  return dtile_launch_repeat(team, &desc, none.data(), 0, count);
}

/// A path that is gone with the scope.
struct TracePath {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("dtile_trace_" + std::to_string(::getpid()) + ".json"))
                         .string();
  ~TracePath() { std::remove(path.c_str()); }
  [[nodiscard]] std::string text() const {
    std::stringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
};

size_t count(const std::string &text, const std::string &what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++found;
  return found;
}

TEST(RuntimeTrace, SlicesAndArrowsOfAllRanks) {
  const Team team = makeTeam(3);
  const TracePath path;
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_EQ(launch(team.get(), kRing, 2), DTILE_OK) << dtile_last_error();
  int64_t dropped = -1;
  ASSERT_EQ(dtile_trace_end(team.get(), path.path.c_str(), &dropped), DTILE_OK)
      << dtile_last_error();
  EXPECT_EQ(dropped, 0);
  const std::string text = path.text();
  // 3 ranks, 2 launches, 8 bodies.
  EXPECT_EQ(count(text, "\"cat\":\"body\""), 48u);
  EXPECT_EQ(count(text, "\"cat\":\"wait\""), 48u);
  EXPECT_EQ(count(text, "\"ph\":\"s\""), 48u);
  EXPECT_EQ(count(text, "\"ph\":\"f\""), 48u);
  EXPECT_EQ(count(text, "\"cat\":\"launch\""), 6u);
  EXPECT_THAT(text, HasSubstr("\"turn (i=7)\""));
  EXPECT_THAT(text, HasSubstr("\"at\":\"ring.dtile:5:11\",\"wanted\":1"));
  EXPECT_THAT(text, HasSubstr("\"writer\":\"ring.dtile:4:5\",\"writer_role\":\"ring.turn\""));
  EXPECT_THAT(text, HasSubstr("\"name\":\"rank 2\""));
}

TEST(RuntimeTrace, IsBoundedAndCountsWhatItLeavesOut) {
  const Team team = makeTeam(2, 1);
  const TracePath path;
  ASSERT_EQ(dtile_trace_begin(team.get(), 64), DTILE_OK);
  ASSERT_EQ(launch(team.get(), kRing, 20), DTILE_OK) << dtile_last_error();
  int64_t dropped = 0;
  ASSERT_EQ(dtile_trace_end(team.get(), path.path.c_str(), &dropped), DTILE_OK);
  // 2 ranks, 20 launches, 8 bodies, 3 slices each; tasks leave parts of their chunks empty.
  const auto kept =
      int64_t(count(path.text(), "\"ph\":\"X\"") - count(path.text(), "\"cat\":\"launch\"") -
              count(path.text(), "\"cat\":\"prologue\"") - count(path.text(), "\"cat\":\"start\""));
  EXPECT_GT(kept, 0);
  EXPECT_LE(kept, 64);
  EXPECT_EQ(dropped, 2 * 20 * 8 * 3 - kept);
  EXPECT_THAT(path.text(), HasSubstr("\"dropped\":" + std::to_string(dropped)));
}

TEST(RuntimeTrace, WhatAFailedLaunchLeftOpenEndsThere) {
  const Team team = makeTeam(2);
  const TracePath path;
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_EQ(launch(team.get(), kLonely), DTILE_DEADLOCK);
  ASSERT_EQ(launch(team.get(), kRing), DTILE_OK) << dtile_last_error();
  ASSERT_EQ(dtile_trace_end(team.get(), path.path.c_str(), nullptr), DTILE_OK);
  // Bodies, waits, and launches of 2 ranks; then those of the other kernel.
  EXPECT_EQ(count(path.text(), "\"unfinished\":true"), 16u + 16u + 2u);
  EXPECT_EQ(count(path.text(), "\"cat\":\"body\""), 32u);
}

TEST(RuntimeTrace, CodeThatIsNotTracedShowsItsLaunchesOnly) {
  const Team team = makeTeam(2);
  const TracePath path;
  std::vector<int64_t> x(8), y(16);
  Arguments arguments(2);
  for (int rank = 0; rank < 2; ++rank) {
    arguments.add(rank, tensor(x.data(), {4}));
    arguments.add(rank, tensor(y.data() + 8 * rank, {8}));
  }
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_EQ(dtile_launch_all(team.get(), &kAllGather, arguments.data(), 2), DTILE_OK)
      << dtile_last_error();
  ASSERT_EQ(dtile_trace_end(team.get(), path.path.c_str(), nullptr), DTILE_OK);
  EXPECT_EQ(count(path.text(), "\"cat\":\"launch\""), 2u);
  EXPECT_EQ(count(path.text(), "\"cat\":\"body\""), 0u);
}

TEST(RuntimeTrace, WrongUsesAreSaid) {
  const Team team = makeTeam(2);
  EXPECT_EQ(dtile_trace_begin(nullptr, 0), DTILE_INVALID);
  EXPECT_EQ(dtile_trace_begin(team.get(), -1), DTILE_INVALID);
  EXPECT_EQ(dtile_trace_end(team.get(), nullptr, nullptr), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("no trace of this team was begun"));
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_EQ(launch(team.get(), kRing), DTILE_OK);
  EXPECT_EQ(dtile_trace_end(team.get(), "/no/such/folder/t.json", nullptr), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(),
              HasSubstr("cannot write the trace `/no/such/folder/t.json`: No such file"));
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  EXPECT_EQ(dtile_trace_end(team.get(), "/dev/full", nullptr), DTILE_INVALID);
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
  // The team goes on.
  ASSERT_EQ(launch(team.get(), kRing), DTILE_OK);
}

// Which notify let a wait go on.

TraceRecord cellRecord(TraceKind kind, const void *cell, uint64_t value, int64_t begin, int64_t end,
                       int32_t task = 0) {
  TraceRecord record;
  record.kind = kind;
  record.begin = begin;
  record.end = end;
  record.task = task;
  record.cell = {};
  record.cell.address = cell;
  record.cell.value = value;
  return record;
}

std::vector<const TraceRecord *> pointers(const std::vector<TraceRecord> &records) {
  std::vector<const TraceRecord *> all;
  for (const TraceRecord &record : records)
    all.push_back(&record);
  return all;
}

TEST(RuntimeTrace, NotifiesThatOverlapCountInOrderOfTheirBegins) {
  const int cell = 0;
  const std::vector<TraceRecord> records = {
      cellRecord(TraceKind::Notify, &cell, 0, 10, 20, 1),
      cellRecord(TraceKind::Notify, &cell, 0, 12, 22, 2),
      cellRecord(TraceKind::Notify, &cell, 2, 30, 31, 3),
      cellRecord(TraceKind::Wait, &cell, 1, 5, 40),
      cellRecord(TraceKind::Wait, &cell, 2, 5, 40),
      cellRecord(TraceKind::Wait, &cell, 3, 5, 40),
      cellRecord(TraceKind::Wait, &cell, 4, 5, 40),
  };
  const auto writers = findWriters(pointers(records));
  EXPECT_EQ(writers[3], &records[0]);
  EXPECT_EQ(writers[4], &records[1]);
  EXPECT_EQ(writers[5], &records[2]);
  EXPECT_EQ(writers[6], nullptr);
}

TEST(RuntimeTrace, AfterAFailureCellsBeginAgain) {
  const int cell = 0;
  const std::vector<TraceRecord> records = {cellRecord(TraceKind::Notify, &cell, 0, 10, 11),
                                            cellRecord(TraceKind::Wait, &cell, 1, 5, 12),
                                            cellRecord(TraceKind::Notify, &cell, 0, 50, 51),
                                            cellRecord(TraceKind::Wait, &cell, 1, 45, 60)};
  const auto writers = findWriters(pointers(records));
  EXPECT_EQ(writers[1], &records[0]);
  EXPECT_EQ(writers[3], &records[2]);
}

TEST(RuntimeTrace, AWaitForSeveralCellsEndsByTheLastNotify) {
  const int cells[2] = {};
  const std::vector<TraceRecord> records = {
      cellRecord(TraceKind::Notify, &cells[0], 0, 30, 31, 1),
      cellRecord(TraceKind::Notify, &cells[1], 0, 10, 11, 2),
      cellRecord(TraceKind::Wait, &cells[0], 1, 5, 40, 3),
      cellRecord(TraceKind::FurtherCell, &cells[1], 1, 5, 40, 3),
      cellRecord(TraceKind::Notify, &cells[0], 1, 50, 51, 4),
      cellRecord(TraceKind::FurtherCell, &cells[1], 1, 50, 51, 4),
      cellRecord(TraceKind::Wait, &cells[1], 2, 45, 60, 5)};
  const auto writers = findWriters(pointers(records));
  EXPECT_EQ(writers[2], &records[0]);
  EXPECT_EQ(writers[3], nullptr);
  EXPECT_EQ(writers[6], &records[4]);
}

// What is written of records, whoever has made them.

const dtile_site kRingPut = {"ring.dtile", "data", 3, 5};

/// A slice of a program of ring: one program a rank, whose number is the rank's.
TraceRecord ringRecord(TraceRecord record, int32_t rank, const dtile_site *site) {
  record.kernel = &kRing;
  record.rank = record.task = rank;
  record.site = site;
  return record;
}

std::string eventsOf(const std::vector<TraceRecord> &records, int64_t originNs) {
  return runtime::traceEvents(pointers(records), {.originNs = originNs});
}

TEST(RuntimeTrace, RecordsAreEnoughForEvents) {
  const int cell = 0;
  TraceRecord body = ringRecord({}, 0, nullptr);
  body.begin = 1'000;
  body.end = 9'500;
  body.position[0] = 5;
  TraceRecord put = ringRecord({}, 0, &kRingPut);
  put.kind = TraceKind::Put;
  put.begin = 2'000;
  put.end = 2'750;
  put.copy = {.bytes = 4096, .peer = 1};
  TraceRecord notify =
      ringRecord(cellRecord(TraceKind::Notify, &cell, 6, 3'000, 3'500), 0, &kRingNotify);
  notify.cell.detail = 1;
  TraceRecord wait = ringRecord(cellRecord(TraceKind::Wait, &cell, 7, 500, 4'250), 1, &kRingWait);
  wait.cell.base = 6;
  wait.cell.detail = 1;
  const std::string text = eventsOf({put, notify, body, wait}, 500);

  EXPECT_THAT(text, HasSubstr(R"~("pid":1,"tid":2,"ts":0.500,"dur":8.500,"name":"turn (i=5)")~"));
  EXPECT_THAT(text, HasSubstr(R"("ts":1.500,"dur":0.750,"name":"put data","cat":"put")"));
  EXPECT_THAT(text, HasSubstr(R"("bytes":4096,"peer":1)"));
  // The wait of rank 1 and what let it go on, 0.75 us before its end.
  EXPECT_THAT(text, HasSubstr(R"("pid":2,"tid":2,"ts":0.000,"dur":3.750,"name":"wait came")"));
  EXPECT_THAT(text, HasSubstr(R"("wanted":1,"blocked":true,"writer_rank":0,"queued_us":0.750)"));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"s","pid":1,"tid":2,"ts":2.500)"));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"f","pid":2,"tid":2,"ts":3.749)"));
  EXPECT_EQ(count(text, "\"ph\":\"s\""), 1u);
  EXPECT_THAT(text, HasSubstr(R"("name":"bytes in flight","args":{"bytes":4096})"));
  EXPECT_THAT(text, HasSubstr(R"("name":"rank 1")"));
}

TEST(RuntimeTrace, WhatIsBeforeTheZeroIsShownThere) {
  TraceRecord body = ringRecord({}, 0, nullptr);
  body.begin = 100;
  body.end = 1'700;
  EXPECT_THAT(eventsOf({body}, 700), HasSubstr(R"("ts":0.000,"dur":1.600)"));
  EXPECT_EQ(eventsOf({}, 700), "");
}

} // namespace
} // namespace dtile::test
