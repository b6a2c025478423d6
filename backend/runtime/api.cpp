// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of dtile.h: one call a team at a time, errors kept for dtile_last_error.
#include "backend/runtime/dtile.h"

#include "backend/runtime/errors.h"
#include "backend/runtime/host/team.h"
#include "backend/runtime/job.h"
#include "backend/runtime/job/provider_watch.h"
#include "backend/runtime/options.h"
#include "backend/runtime/team_in_use.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <thread>

using namespace dtile::runtime;

namespace {

constexpr int32_t kMostRanks = 1024;
constexpr int32_t kMostWorkers = 1024;
constexpr int64_t kLeastStackBytes = 16 * 1024;
constexpr int64_t kMostStackBytes = int64_t(1) << 30;
constexpr size_t kErrorBytes = 1024;

Status checkOptions(const dtile_team_options &options) {
  if (options.workers < 0 || options.workers > kMostWorkers)
    return {DTILE_INVALID,
            format("workers is %d; it must be 0 (as many as there are processors) to %d",
                   options.workers, kMostWorkers)};
  if (options.symmetric_bytes < 0)
    return {DTILE_INVALID, "symmetric_bytes is negative"};
  if (options.symmetric_bytes > kMostSymmetricBytes)
    return {DTILE_OUT_OF_MEMORY,
            format("no machine has symmetric heaps of %lld bytes: ask for a smaller symmetric heap",
                   static_cast<long long>(options.symmetric_bytes))};
  if (options.stack_bytes != 0 &&
      (options.stack_bytes < kLeastStackBytes || options.stack_bytes > kMostStackBytes))
    return {DTILE_INVALID,
            format("stack_bytes is %lld; it must be 0 (for the default) or %lld to %lld",
                   static_cast<long long>(options.stack_bytes),
                   static_cast<long long>(kLeastStackBytes),
                   static_cast<long long>(kMostStackBytes))};
  if (options.wait_timeout_ms < 0)
    return {DTILE_INVALID, "wait_timeout_ms is negative"};
  return {};
}

Status createThreads(const dtile_team_options *given, dtile_team **out) {
  if (!given || !out)
    return {DTILE_INVALID, "dtile_team_create_threads: null arguments"};
  *out = nullptr;
  dtile_team_options options;
  if (Status status = readOptions(given, &options); !status.ok())
    return status;
  if (options.ranks < 1 || options.ranks > kMostRanks)
    return {DTILE_INVALID, format("ranks is %d; it must be 1 to %d", options.ranks, kMostRanks)};
  if (Status status = checkOptions(options); !status.ok())
    return status;
  dtile_shmem_config config = {.ranks = options.ranks,
                               .heap_bytes = options.symmetric_bytes,
                               .indirect = 0,
                               .timeout_ms = 0};
  char error[kErrorBytes] = "";
  dtile_shmem *shmem = dtile_shmem_open_threads(DTILE_SHMEM_VERSION, &config, error, sizeof error);
  if (!shmem)
    return {DTILE_OUT_OF_MEMORY, error};
  int32_t workers = options.workers;
  if (workers == 0)
    workers = std::clamp(int32_t(std::thread::hardware_concurrency()), 1, kMostWorkers);
  *out = new (std::nothrow) HostTeam(shmem, options, workers);
  return *out ? Status() : Status{DTILE_OUT_OF_MEMORY, "no memory for the team"};
}

Status createEnv(const dtile_team_options *options, dtile_team **out) {
  if (!out)
    return {DTILE_INVALID, "dtile_team_create_env: null arguments"};
  *out = nullptr;
  dtile_team_options chosen = DTILE_TEAM_OPTIONS_INIT;
  if (options)
    if (Status status = readOptions(options, &chosen); !status.ok())
      return status;
  if (Status status = checkOptions(chosen); !status.ok())
    return status;
  dtile_shmem *shmem = nullptr;
  if (Status status = joinJob(chosen, &shmem); !status.ok())
    return status;
  if (const int64_t least = HostTeam::leastHeapBytes(*shmem); shmem->heap_bytes < least) {
    const Status status = {
        DTILE_OUT_OF_MEMORY,
        format("symmetric heaps of %lld bytes are too small for a job of %d ranks, which needs "
               "%lld itself: raise symmetric_bytes of dtile_team_options",
               static_cast<long long>(shmem->heap_bytes), shmem->npes,
               static_cast<long long>(least))};
    // A process joins a job once.
    shmem->ops->leave_alone(shmem, status.message.c_str());
    return status;
  }
  // A process of a job shares its machine with others: one worker unless more are asked for.
  int32_t workers = shmem->threads_allowed ? std::max(chosen.workers, 1) : 1;
  auto *team = new (std::nothrow) HostTeam(shmem, chosen, workers);
  *out = team;
  if (!team)
    return {DTILE_OUT_OF_MEMORY, "no memory for the team"};
  team->watchJob(watchProvider(*shmem));
  return {};
}

/// What both questions about a launch want.
Status checkQuestion(const dtile_team &team, int32_t local, const dtile_kernel_desc *kernel,
                     const void *out) {
  if (!kernel || !out)
    return {DTILE_INVALID, "the kernel or the place for the answer is null"};
  if (kernel->abi_version != DTILE_ABI_VERSION)
    return {DTILE_INVALID, format("the kernel was compiled for version %u of the runtime's ABI, "
                                  "but this library has version %d: compile it again",
                                  kernel->abi_version, DTILE_ABI_VERSION)};
  if (local < 0 || local >= team.localCount())
    return {DTILE_INVALID,
            format("local rank %d is not one of the %d of this process", local, team.localCount())};
  return {};
}

/// That `argument` is the number of a tensor.
Status checkTensorNumber(const dtile_kernel_desc &kernel, int32_t argument) {
  const KernelState state(kernel);
  const auto at = std::find(state.argumentOf.begin(), state.argumentOf.end(), argument);
  if (argument < 0 || at == state.argumentOf.end() ||
      kernel.params[at - state.argumentOf.begin()].kind != DTILE_PARAM_TENSOR)
    return {DTILE_INVALID,
            format("argument %d of kernel `%s` is no tensor", argument, kernel.name)};
  return {};
}

/// A number of the team, which children know, too.
template <typename Number> int32_t numberOf(const dtile_team *team, Number number) {
  if (team)
    return (team->*number)();
  (void)report({DTILE_INVALID, kNoTeam});
  return -1;
}

} // namespace

extern "C" {

uint32_t dtile_abi_version(void) { return DTILE_ABI_VERSION; }

dtile_status dtile_team_create_threads(const dtile_team_options *options, dtile_team **out) {
  return report(createThreads(options, out));
}

dtile_status dtile_team_create_env(const dtile_team_options *options, dtile_team **out) {
  return report(createEnv(options, out));
}

void dtile_team_destroy(dtile_team *team) {
  if (!team)
    return;
  if (Status status = team->checkProcess(); !status.ok()) {
    (void)report(status);
    return;
  }
  forgetTeam(team);
  delete team;
}

dtile_status dtile_team_use(dtile_team *team) {
  if (team)
    if (Status status = team->checkProcess(); !status.ok())
      return report(status);
  useTeam(team);
  return report({});
}

dtile_status dtile_team_recover(dtile_team *team) {
  return withTeam(team, [&] { return team->recover(); });
}

dtile_status dtile_team_trim(dtile_team *team, uint32_t flags) {
  return withTeam(team, [&] {
    return (flags & ~DTILE_TRIM_CAPTURED) == 0
               ? team->trim(flags)
               : Status{DTILE_INVALID, format("dtile_team_trim knows no flags 0x%x", flags)};
  });
}

int32_t dtile_team_size(const dtile_team *team) { return numberOf(team, &dtile_team::ranks); }
int32_t dtile_team_first_local(const dtile_team *team) {
  return numberOf(team, &dtile_team::firstLocal);
}
int32_t dtile_team_local_count(const dtile_team *team) {
  return numberOf(team, &dtile_team::localCount);
}

dtile_status dtile_symm_alloc(dtile_team *team, int64_t bytes, void **out) {
  return withTeam(team, [&] { return team->symmAlloc(bytes, out); });
}

dtile_status dtile_symm_free(dtile_team *team, void *address) {
  return withTeam(team, [&] { return team->symmFree(address); });
}

dtile_status dtile_symm_register(dtile_team *team, void *const *pointers, int64_t bytes) {
  return withTeam(team, [&] { return team->symmRegister(pointers, bytes); });
}

dtile_status dtile_symm_unregister(dtile_team *team, void *address) {
  return withTeam(team, [&] { return team->symmUnregister(address); });
}

void *dtile_symm_address(dtile_team *team, void *address, int32_t localRank) {
  return team && address ? team->symmAddress(address, localRank) : nullptr;
}

dtile_status dtile_launch_all(dtile_team *team, const dtile_kernel_desc *kernel,
                              const dtile_arg *const *args, int32_t nargs) {
  return withTeam(team, [&] { return team->launch(kernel, args, nargs, 1); });
}

dtile_status dtile_launch_repeat(dtile_team *team, const dtile_kernel_desc *kernel,
                                 const dtile_arg *const *args, int32_t nargs, int32_t count) {
  return withTeam(team, [&] { return team->launch(kernel, args, nargs, count); });
}

dtile_status dtile_kernel_supports(dtile_team *team, int32_t localRank,
                                   const dtile_kernel_desc *kernel, const dtile_arg *args,
                                   int32_t nargs, int32_t *supported) {
  Status refusal;
  const dtile_status asked = withTeam(team, [&] {
    if (Status status = checkQuestion(*team, localRank, kernel, supported); !status.ok())
      return status;
    return team->supports(localRank, *kernel, args, nargs, &refusal);
  });
  if (asked != DTILE_OK)
    return asked;
  *supported = refusal.ok() ? 1 : 0;
  // The reason is kept; the question was answered.
  (void)report(refusal);
  return DTILE_OK;
}

dtile_status dtile_kernel_sizes(dtile_team *team, int32_t localRank,
                                const dtile_kernel_desc *kernel, const dtile_arg *args,
                                int32_t nargs, int32_t argument, int64_t *size) {
  return withTeam(team, [&] {
    if (Status status = checkQuestion(*team, localRank, kernel, size); !status.ok())
      return status;
    if (Status status = checkTensorNumber(*kernel, argument); !status.ok())
      return status;
    return team->sizes(localRank, *kernel, args, nargs, argument, size);
  });
}

dtile_status dtile_kernel_scratch(dtile_team *team, int32_t localRank,
                                  const dtile_kernel_desc *kernel, const char *name,
                                  dtile_tensor *out) {
  return withTeam(team, [&] {
    if (Status status = checkQuestion(*team, localRank, kernel, out); !status.ok())
      return status;
    if (!name)
      return Status{DTILE_INVALID, "the name of the scratch object is null"};
    return team->scratch(localRank, *kernel, name, out);
  });
}

dtile_status dtile_team_barrier(dtile_team *team) {
  return withTeam(team, [&] { return team->barrier(); });
}

dtile_status dtile_team_all_gather(dtile_team *team, const void *const *in, int64_t bytes,
                                   void *out) {
  return withTeam(team, [&] { return team->allGather(in, bytes, out); });
}

} // extern "C"
