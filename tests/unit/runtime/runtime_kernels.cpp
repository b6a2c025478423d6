// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two kernels that communicate, and helpers to launch kernels.
#include "tests/unit/runtime/runtime_kernels.h"

namespace dtile::test {

Team makeTeam(int ranks, int workers, uint64_t seed, int64_t symmetricBytes) {
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  options.ranks = ranks;
  options.workers = workers;
  options.symmetric_bytes = symmetricBytes;
  // Instrumented bodies need more than the default.
  options.stack_bytes = 256 * 1024;
  options.schedule_seed = seed;
  dtile_team *team = nullptr;
  dtile_team_create_threads(&options, &team);
  return Team(team);
}

dtile_region region(void *data, int32_t dtype, std::vector<int64_t> size, int32_t rank) {
  dtile_region r = {};
  r.data = data;
  r.rank = rank;
  r.dtype = dtype;
  r.ndim = int32_t(size.size());
  int64_t stride = 1;
  for (size_t d = size.size(); d-- > 0;) {
    r.size[d] = size[d];
    r.stride[d] = stride;
    stride *= size[d];
  }
  return r;
}

void Arguments::add(int rank, const dtile_tensor &tensor) {
  tensors_[size_t(rank)].push_back(std::make_unique<dtile_tensor>(tensor));
  args_[size_t(rank)].push_back({.tensor = tensors_[size_t(rank)].back().get()});
}

void Arguments::addScalar(int rank, uint64_t bits) {
  args_[size_t(rank)].push_back({.scalar_bits = bits});
}

const dtile_arg *const *Arguments::data() {
  pointers_.clear();
  for (const std::vector<dtile_arg> &args : args_)
    pointers_.push_back(args.data());
  return pointers_.data();
}

void fillHead(dtile_launch *launch, FrameHead &head) {
  head.rank = dtile_rt_rank(launch);
  head.ranks = dtile_rt_num_ranks(launch);
  head.epoch = dtile_rt_epoch(launch);
}

namespace {

/// Frame of both kernels.
struct Frame {
  FrameHead head;
  int64_t n;
  int64_t *x, *scratch, *y;
  uint64_t *ready;
};

const Frame &frameOf(const void *frame) { return *static_cast<const Frame *>(frame); }

void position(const void *, int64_t linear, int64_t *position) { position[0] = linear; }
int64_t ranksCount(const void *frame) { return frameOf(frame).head.ranks; }
int64_t oneBody(const void *) { return 1; }
int64_t oneNotify(const void *, int64_t) { return 1; }

// ---- neighbour ----

constexpr dtile_site kNeighbourNotify = {"neighbour.dtile", "ready", 7, 5};
constexpr dtile_site kNeighbourWait = {"neighbour.dtile", "ready", 8, 18};

int32_t neighbourPrologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<Frame *>(memory);
  fillHead(launch, frame.head);
  frame.n = dtile_rt_arg_dim(launch, 0, 0);
  frame.x = static_cast<int64_t *>(dtile_rt_arg_data(launch, 0));
  frame.y = static_cast<int64_t *>(dtile_rt_arg_data(launch, 2));
  if (dtile_rt_check_dim(launch, 2, 0, frame.n, dtile_rt_arg_dim(launch, 2, 0)))
    return 1;
  frame.scratch = static_cast<int64_t *>(dtile_rt_scratch(launch, 1, 1, &frame.n));
  frame.ready = static_cast<uint64_t *>(dtile_rt_signal(launch, 3, 0, nullptr));
  return frame.scratch && frame.ready ? 0 : 1;
}

void neighbourBody(dtile_task *task, const void *memory, void *, int64_t) {
  const Frame &frame = frameOf(memory);
  auto right = int32_t((frame.head.rank + 1) % frame.head.ranks);
  dtile_region source = region(frame.x, DTILE_I64, {frame.n});
  dtile_region target = region(frame.scratch, DTILE_I64, {frame.n}, right);
  dtile_rt_put(task, &source, &target);
  dtile_rt_await(task);
  dtile_region remote = region(frame.ready, DTILE_U64, {}, right);
  dtile_rt_notify(task, &remote, &kNeighbourNotify);
  dtile_region own = region(frame.ready, DTILE_U64, {});
  dtile_rt_wait(task, &own, -1, &kNeighbourWait);
  dtile_region received = region(frame.scratch, DTILE_I64, {frame.n});
  dtile_region result = region(frame.y, DTILE_I64, {frame.n});
  dtile_rt_store(task, &received, &result);
}

// ---- all_gather ----

constexpr dtile_site kGatherNotify = {"all_gather.dtile", "ready", 10, 9};
constexpr dtile_site kGatherWait = {"all_gather.dtile", "ready", 13, 20};

int32_t gatherPrologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<Frame *>(memory);
  fillHead(launch, frame.head);
  frame.n = dtile_rt_arg_dim(launch, 0, 0);
  frame.x = static_cast<int64_t *>(dtile_rt_arg_data(launch, 0));
  frame.y = static_cast<int64_t *>(dtile_rt_arg_data(launch, 2));
  if (dtile_rt_check_dim(launch, 2, 0, frame.head.ranks * frame.n, dtile_rt_arg_dim(launch, 2, 0)))
    return 1;
  int64_t sizes[] = {frame.head.ranks, frame.n};
  frame.scratch = static_cast<int64_t *>(dtile_rt_scratch(launch, 1, 2, sizes));
  frame.ready = static_cast<uint64_t *>(dtile_rt_signal(launch, 3, 1, sizes));
  return frame.scratch && frame.ready ? 0 : 1;
}

void gatherSend(dtile_task *task, const void *memory, void *, int64_t hop) {
  const Frame &frame = frameOf(memory);
  auto peer = int32_t((frame.head.rank + hop) % frame.head.ranks);
  dtile_region source = region(frame.x, DTILE_I64, {frame.n});
  dtile_region target =
      region(frame.scratch + frame.head.rank * frame.n, DTILE_I64, {frame.n}, peer);
  dtile_rt_put(task, &source, &target);
  dtile_rt_await(task);
  dtile_region cell = region(frame.ready + frame.head.rank, DTILE_U64, {}, peer);
  dtile_rt_notify(task, &cell, &kGatherNotify);
}

void gatherReceive(dtile_task *task, const void *memory, void *workspace, int64_t src) {
  const Frame &frame = frameOf(memory);
  dtile_region cell = region(frame.ready + src, DTILE_U64, {});
  dtile_rt_wait(task, &cell, -1, &kGatherWait);
  // By way of the workspace, so that a workspace shared by two bodies would show.
  dtile_region received = region(frame.scratch + src * frame.n, DTILE_I64, {frame.n});
  dtile_region part = region(workspace, DTILE_I64, {frame.n});
  dtile_region result = region(frame.y + src * frame.n, DTILE_I64, {frame.n});
  dtile_rt_load(task, &received, &part);
  dtile_rt_store(task, &part, &result);
}

const char *const kHop[] = {"hop"};
const char *const kSrc[] = {"src"};

const dtile_param_desc kNeighbourParams[] = {
    {"x", DTILE_PARAM_TENSOR, DTILE_MODE_IN, DTILE_I64, 1, 0, 1},
    {"a", DTILE_PARAM_TENSOR, DTILE_MODE_SCRATCH, DTILE_I64, 1, 0, 2},
    {"y", DTILE_PARAM_TENSOR, DTILE_MODE_OUT, DTILE_I64, 1, 0, 1},
    {"ready", DTILE_PARAM_SIGNAL, DTILE_MODE_SYMM, DTILE_U64, 0, 0, 1},
};
const dtile_space_desc kNeighbourSpaces[] = {
    {"", 0, -1, 0, 0, nullptr, oneBody, position, 0, neighbourBody},
};
const dtile_signal_desc kReady[] = {{3, oneNotify}};
const dtile_param_desc kGatherParams[] = {
    {"x", DTILE_PARAM_TENSOR, DTILE_MODE_IN, DTILE_I64, 1, 0, 1},
    {"a", DTILE_PARAM_TENSOR, DTILE_MODE_SCRATCH, DTILE_I64, 2, 0, 2},
    {"y", DTILE_PARAM_TENSOR, DTILE_MODE_OUT, DTILE_I64, 1, 0, 1},
    {"ready", DTILE_PARAM_SIGNAL, DTILE_MODE_SYMM, DTILE_U64, 1, 0, 1},
};
const dtile_space_desc kGatherSpaces[] = {
    {"comm", 1, -1, 0, 0, kHop, ranksCount, position, 0, gatherSend},
    {"copy", 1, -1, 0, 0, kSrc, ranksCount, position, 8192, gatherReceive},
};

} // namespace

const dtile_kernel_desc kNeighbourPut = {
    DTILE_ABI_VERSION, 0,      "neighbour",   "neighbour.dtile", 4, 1, 1, 0, kNeighbourParams,
    kNeighbourSpaces,  kReady, sizeof(Frame), neighbourPrologue};
const dtile_kernel_desc kAllGather = {
    DTILE_ABI_VERSION, 0,      "all_gather",  "all_gather.dtile", 4, 2, 1, 0, kGatherParams,
    kGatherSpaces,     kReady, sizeof(Frame), gatherPrologue};

} // namespace dtile::test
