// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of dtile.h that are for teams of GPUs only.
#include "backend/runtime/device/device_team.h"
#include "backend/runtime/dtile.h"
#include "backend/runtime/errors.h"
#include "backend/runtime/options.h"
#include "backend/runtime/processor.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

using namespace dtile::runtime;

namespace {

constexpr int32_t kMostDeviceRanks = 64;
constexpr int32_t kMostJobRanks = 4096;
constexpr int32_t kLeastJobTimeoutMs = 60'000;

Status takeOptions(const dtile_device_options *given, dtile_team **out,
                   dtile_device_options *options) {
  if (!given || !out)
    return {DTILE_INVALID, "the options or the place for the team are null"};
  *out = nullptr;
  if (Status status = readOptions(given, options); !status.ok())
    return status;
  if (options->symmetric_bytes < 0)
    return {DTILE_INVALID, "symmetric_bytes is negative"};
  if (options->symmetric_bytes > kMostSymmetricBytes)
    return {DTILE_OUT_OF_MEMORY,
            format("no GPU has room for a symmetric heap of %lld bytes: lower symmetric_bytes",
                   static_cast<long long>(options->symmetric_bytes))};
  if (options->wait_timeout_ms < 0)
    return {DTILE_INVALID, "wait_timeout_ms is negative"};
  return {};
}

Status openDriver(const dtile_device_options &options, std::unique_ptr<DeviceDriver> *out) {
  const char *target = options.target ? options.target : "nvptx";
  if (std::strcmp(target, "nvptx") == 0)
    return openCuda(out);
  if (std::strcmp(target, "amdgpu") == 0)
    return openHip(out);
  return {DTILE_INVALID, format("`%s` is no kind of GPU: nvptx and amdgpu are", target)};
}

/// What one GPU says of itself.
Status askFacts(const char *target, int32_t device, DeviceFacts *facts) {
  dtile_device_options options = DTILE_DEVICE_OPTIONS_INIT;
  options.target = target;
  std::unique_ptr<DeviceDriver> driver;
  if (Status status = openDriver(options, &driver); !status.ok())
    return status;
  if (device < 0 || device >= driver->count())
    return {DTILE_UNAVAILABLE, format("there is no GPU %d", device)};
  std::unique_ptr<Device> opened;
  if (Status status = driver->open(device, &opened); !status.ok())
    return status;
  *facts = opened->facts();
  return {};
}

/// Null for p2p.
Status chooseProvider(const dtile_device_options &options, const HeapProviderRow **out) {
  const char *variable = std::getenv("DTILE_SHMEM");
  const std::string name = options.shmem           ? options.shmem
                           : variable && *variable ? variable
                                                   : kPeerToPeer;
  *out = nullptr;
  if (name == kPeerToPeer)
    return {};
  *out = findHeapProvider(name);
  if (!*out)
    return {DTILE_INVALID, format("this library has no host side for the shmem provider `%s`: it "
                                  "has %s",
                                  name.c_str(), heapProviderNames().c_str())};
  if (options.target && std::strcmp(options.target, (*out)->target) != 0)
    return {DTILE_INVALID, format("the shmem provider %s is for %s's GPUs only: use p2p",
                                  (*out)->name, (*out)->vendor)};
  return {};
}

Status finish(std::unique_ptr<DeviceDriver> driver, DeviceTeamConfig config,
              const dtile_device_options &options, dtile_team **out) {
  config.symmetricBytes = options.symmetric_bytes;
  config.timeoutMs = options.wait_timeout_ms;
  config.plainLaunches = options.plain_launches != 0;
  config.providerHome = options.nvshmem_home ? options.nvshmem_home : "";
  std::unique_ptr<DeviceTeam> team;
  Status status = DeviceTeam::create(std::move(driver), std::move(config), &team);
  *out = team.release();
  return status;
}

Status createDevices(const dtile_device_options *given, dtile_team **out) {
  dtile_device_options copy;
  if (Status status = takeOptions(given, out, &copy); !status.ok())
    return status;
  const dtile_device_options *options = &copy;
  if (options->ndevices < 1 || options->ndevices > kMostDeviceRanks)
    return {DTILE_INVALID,
            format("ndevices is %d; it must be 1 to %d", options->ndevices, kMostDeviceRanks)};
  DeviceTeamConfig config;
  if (Status status = chooseProvider(*options, &config.provider); !status.ok())
    return status;
  if (config.provider && options->ndevices > 1)
    return {DTILE_INVALID,
            format("the shmem provider %s wants one process a GPU, but this one asks for %d ranks: "
                   "start processes with torchrun or mpirun (dtile_team_create_device_env), or use "
                   "p2p",
                   config.provider->name, options->ndevices)};
  std::unique_ptr<DeviceDriver> driver;
  if (Status status = openDriver(*options, &driver); !status.ok())
    return status;
  for (int32_t i = 0; i < options->ndevices; ++i)
    config.ordinals.push_back(options->devices ? options->devices[i] : i);
  // A job of one.
  if (config.provider)
    if (Status status = Rendezvous::join({}, kLeastJobTimeoutMs, &config.job); !status.ok())
      return status;
  return finish(std::move(driver), std::move(config), *options, out);
}

/// What a process of a job has to have by itself. Without a GPU's number in the options it is that
/// of the process on its host; launchers may show each process its own GPU only.
Status findOwnGpu(const dtile_device_options &options, const JobPlace &place, bool isGiven,
                  DeviceTeamConfig *config, std::unique_ptr<DeviceDriver> *driver) {
  if (Status status = chooseProvider(options, &config->provider); !status.ok())
    return status;
  if (Status status = openDriver(options, driver); !status.ok())
    return status;
  const int32_t count = (*driver)->count();
  const int32_t ordinal = isGiven ? options.device : count == 1 ? 0 : place.localRank;
  if (ordinal < 0 || ordinal >= count)
    return {DTILE_UNAVAILABLE,
            format("rank %d wants GPU %d, but this process sees %d: start fewer processes, or see "
                   "CUDA_VISIBLE_DEVICES",
                   place.rank, ordinal, count)};
  config->ordinals = {ordinal};
  return {};
}

/// A process of a job.
Status createProcess(const dtile_device_options &options, JobPlace place, bool isGiven,
                     dtile_team **out) {
  if (place.ranks < 1 || place.ranks > kMostJobRanks)
    return {DTILE_INVALID, format("%d ranks; it must be 1 to %d", place.ranks, kMostJobRanks)};
  DeviceTeamConfig config;
  std::unique_ptr<DeviceDriver> driver;
  if (Status status = findOwnGpu(options, place, isGiven, &config, &driver); !status.ok()) {
    // The others need not wait for it.
    Rendezvous::withdraw(std::move(place), status);
    return status;
  }
  place.traits = {
      {"the version of the runtime's ABI",
       format("%d.%d", DTILE_ABI_VERSION, DTILE_DEVICE_ABI_VERSION)},
      {"the kind of GPUs", driver->target()},
      {"the shmem provider", config.provider ? config.provider->name : kPeerToPeer},
  };
  if (Status status = Rendezvous::join(place, std::max(options.wait_timeout_ms, kLeastJobTimeoutMs),
                                       &config.job);
      !status.ok())
    return status;
  return finish(std::move(driver), std::move(config), options, out);
}

/// How many teams this process has made from its environment: the n-th of each belong together.
int32_t nextTeamNumber() {
  static std::atomic<int32_t> number{0};
  return number++;
}

Status createFromEnvironment(const dtile_device_options *given, dtile_team **out) {
  const dtile_device_options defaults = DTILE_DEVICE_OPTIONS_INIT;
  dtile_device_options options;
  if (Status status = takeOptions(given ? given : &defaults, out, &options); !status.ok())
    return status;
  JobPlace place;
  if (Status status = placeFromEnvironment(&place); !status.ok())
    return status;
  place.name += std::to_string(nextTeamNumber());
  return createProcess(options, std::move(place), /*isGiven=*/false, out);
}

Status createJob(const dtile_device_options *given, dtile_team **out) {
  dtile_device_options options;
  if (Status status = takeOptions(given, out, &options); !status.ok())
    return status;
  if (!options.job || !*options.job)
    return {DTILE_INVALID, "the job has no name"};
  JobPlace place;
  place.rank = options.rank;
  place.ranks = options.ranks;
  place.localRank = options.device;
  if (Status status = placeFromName(options.job, &place); !status.ok())
    return status;
  return createProcess(options, std::move(place), /*isGiven=*/true, out);
}

/// Runs `call(team, rank)` with the team to itself.
template <typename Call> dtile_status withRank(dtile_team *team, int32_t local, Call call) {
  if (!team)
    return report({DTILE_INVALID, kNoTeam});
  if (Status status = team->checkProcess(); !status.ok())
    return report(status);
  DeviceTeam *devices = team->devices();
  if (!devices)
    return report({DTILE_INVALID, "this team's ranks run on processors, not on GPUs; make one by "
                                  "dtile_team_create_devices"});
  std::lock_guard lock(team->calls());
  if (Status status = devices->checkLocal(local); !status.ok())
    return report(status);
  return report(call(*devices, devices->local(local)));
}

DeviceAddress number(const void *address) { return reinterpret_cast<DeviceAddress>(address); }

Status isNull(const char *call, const char *what) {
  return {DTILE_INVALID, format("%s: %s is null", call, what)};
}

Status unknownGraph(const char *call) {
  return {DTILE_INVALID, format("%s: dtile_capture_end has not given this graph for this rank, or "
                                "it has been destroyed already",
                                call)};
}

/// A number of bytes to copy or to allocate, between memory that is there.
Status checkCopy(const char *call, const void *to, const void *from, int64_t bytes) {
  if (bytes < 0)
    return {DTILE_INVALID, format("%s: %lld bytes", call, static_cast<long long>(bytes))};
  return bytes > 0 && (!to || !from) ? isNull(call, to ? "the source" : "the destination")
                                     : Status();
}

} // namespace

extern "C" {

dtile_status dtile_device_count(const char *target, int32_t *out) {
  if (!out)
    return report(isNull("dtile_device_count", "the place for the number"));
  dtile_device_options options = DTILE_DEVICE_OPTIONS_INIT;
  options.target = target;
  std::unique_ptr<DeviceDriver> driver;
  Status status = openDriver(options, &driver);
  *out = status.ok() ? driver->count() : 0;
  return report(status);
}

dtile_status dtile_device_arch(const char *target, int32_t device, char *out, int32_t bytes) {
  if (!out || bytes < 1)
    return report({DTILE_INVALID, "dtile_device_arch: there is no place for the architecture"});
  *out = 0;
  DeviceFacts facts;
  Status status = askFacts(target, device, &facts);
  if (status.ok())
    std::snprintf(out, size_t(bytes), "%s", facts.arch.c_str());
  return report(status);
}

dtile_status dtile_machine_name(const char *target, int32_t device, char *out, int32_t bytes) {
  if (!out || bytes < 1)
    return report({DTILE_INVALID, "dtile_machine_name: there is no place for the name"});
  *out = 0;
  DeviceFacts facts;
  Status status;
  if (target && std::strcmp(target, "host") == 0)
    facts.name = processorName();
  else
    status = askFacts(target, device, &facts);
  if (status.ok())
    std::snprintf(out, size_t(bytes), "%s", facts.name.c_str());
  return report(status);
}

dtile_status dtile_team_create_devices(const dtile_device_options *options, dtile_team **out) {
  return report(createDevices(options, out));
}

dtile_status dtile_team_create_device_env(const dtile_device_options *options, dtile_team **out) {
  return report(createFromEnvironment(options, out));
}

dtile_status dtile_team_create_job(const dtile_device_options *options, dtile_team **out) {
  return report(createJob(options, out));
}

dtile_status dtile_launch_on(dtile_team *team, int32_t localRank, const dtile_kernel_desc *kernel,
                             const dtile_arg *args, int32_t nargs, void *stream) {
  return withRank(team, localRank, [&](DeviceTeam &devices, DeviceRank &) {
    return devices.launchOn(localRank, kernel, args, nargs, stream);
  });
}

dtile_status dtile_team_synchronize(dtile_team *team) {
  return withRank(team, 0,
                  [&](DeviceTeam &devices, DeviceRank &) { return devices.synchronize(); });
}

dtile_status dtile_team_stream(dtile_team *team, int32_t localRank, void **stream) {
  return withRank(team, localRank, [&](DeviceTeam &, DeviceRank &rank) {
    if (!stream)
      return isNull("dtile_team_stream", "the place for the stream");
    *stream = rank.stream;
    return Status();
  });
}

dtile_status dtile_team_device(dtile_team *team, int32_t localRank, int32_t *device) {
  return withRank(team, localRank, [&](DeviceTeam &, DeviceRank &rank) {
    if (!device)
      return isNull("dtile_team_device", "the place for the number");
    *device = rank.device->facts().ordinal;
    return Status();
  });
}

dtile_status dtile_device_alloc(dtile_team *team, int32_t localRank, int64_t bytes, void **out) {
  return withRank(team, localRank, [&](DeviceTeam &, DeviceRank &rank) {
    if (!out)
      return isNull("dtile_device_alloc", "the place for the address");
    *out = nullptr;
    if (bytes < 0)
      return Status{DTILE_INVALID,
                    format("cannot allocate %lld bytes", static_cast<long long>(bytes))};
    DeviceAddress address = 0;
    Status status = rank.device->allocate(std::max<int64_t>(bytes, 1), &address);
    *out = reinterpret_cast<void *>(address);
    return status;
  });
}

dtile_status dtile_device_free(dtile_team *team, int32_t localRank, void *address) {
  return withRank(team, localRank, [&](DeviceTeam &, DeviceRank &rank) {
    if (address)
      rank.device->release(number(address));
    return Status();
  });
}

dtile_status dtile_copy_to_device(dtile_team *team, int32_t localRank, void *to, const void *from,
                                  int64_t bytes) {
  return withRank(team, localRank, [&](DeviceTeam &, DeviceRank &rank) {
    if (Status status = checkCopy("dtile_copy_to_device", to, from, bytes);
        !status.ok() || bytes == 0)
      return status;
    Status status = rank.device->copyIn(number(to), from, bytes, rank.stream);
    return status.ok() ? rank.device->synchronize(rank.stream) : status;
  });
}

dtile_status dtile_copy_from_device(dtile_team *team, int32_t localRank, void *to, const void *from,
                                    int64_t bytes) {
  return withRank(team, localRank, [&](DeviceTeam &, DeviceRank &rank) {
    if (Status status = checkCopy("dtile_copy_from_device", to, from, bytes);
        !status.ok() || bytes == 0)
      return status;
    Status status = rank.device->copyOut(to, number(from), bytes, rank.stream);
    return status.ok() ? rank.device->synchronize(rank.stream) : status;
  });
}

dtile_status dtile_capture_begin(dtile_team *team, int32_t localRank) {
  return withRank(team, localRank, [&](DeviceTeam &, DeviceRank &rank) {
    return rank.device->beginCapture(rank.stream);
  });
}

dtile_status dtile_capture_end(dtile_team *team, int32_t localRank, void **graph) {
  return withRank(team, localRank, [&](DeviceTeam &, DeviceRank &rank) {
    if (!graph)
      return isNull("dtile_capture_end", "the place for the graph");
    *graph = nullptr;
    Status status = rank.device->endCapture(rank.stream, graph);
    if (status.ok())
      rank.graphs.insert(*graph);
    return status;
  });
}

dtile_status dtile_graph_replay(dtile_team *team, int32_t localRank, void *graph) {
  return withRank(team, localRank, [&](DeviceTeam &, DeviceRank &rank) {
    if (rank.graphs.count(graph) == 0)
      return unknownGraph("dtile_graph_replay");
    return rank.device->replay(graph, rank.stream);
  });
}

void dtile_graph_destroy(dtile_team *team, int32_t localRank, void *graph) {
  withRank(team, localRank, [&](DeviceTeam &, DeviceRank &rank) {
    if (!graph)
      return Status();
    if (rank.graphs.erase(graph) == 0)
      return unknownGraph("dtile_graph_destroy");
    rank.device->destroyGraph(graph);
    return Status();
  });
}

} // extern "C"
