// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A team whose ranks are devices: their heaps and each other's addresses, kernels as loaded, and
// launches.
//
// What a launch reads on the device never changes while the arguments do not (device_abi.h), so
// that everything found out at the first launch of a kernel with these arguments is kept: a launch
// after that is a look-up and one call of the driver, and may be captured in a graph. Whether ranks
// meet before it is asked at each launch that writes callers' objects (epoch_buffers.h).
#pragma once

#include "backend/runtime/device/control_listener.h"
#include "backend/runtime/device/device.h"
#include "backend/runtime/device/device_arena.h"
#include "backend/runtime/device/device_kernel.h"
#include "backend/runtime/device/epoch_buffers.h"
#include "backend/runtime/device/heap_provider.h"
#include "backend/runtime/device/print/print_ring.h"
#include "backend/runtime/device/trace/trace_regions.h"
#include "backend/runtime/device_abi.h"
#include "backend/runtime/dtile.h"
#include "backend/runtime/host/launch.h"
#include "backend/runtime/job/rendezvous.h"
#include "backend/runtime/symmetric_heap.h"
#include "backend/runtime/team_interface.h"
#include "backend/runtime/telemetry/writer.h"
#include "backend/runtime/trace/device_trace.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace dtile::runtime {

/// A team as its creator wants it.
struct DeviceTeamConfig {
  /// One a local rank.
  std::vector<int32_t> ordinals;
  int64_t symmetricBytes = 0;
  int32_t timeoutMs = 0;
  /// Launches need not start all programs at once.
  bool plainLaunches = false;
  /// Null: all ranks are of this process.
  std::unique_ptr<Rendezvous> job;
  /// Who makes the heaps and what kernels may be compiled for: null for p2p, any other with a job.
  const HeapProviderRow *provider = nullptr;
  std::string providerHome;
};

/// Code on a device.
struct LoadedModule {
  ModuleHandle handle = nullptr;
  /// The image, where it was compressed: HIP reads it as long as the code is loaded.
  std::unique_ptr<char[]> bytes;
  /// The heap provider knows of it.
  bool isAttached = false;
};

/// Memory of others that is mapped beside the heaps (device_foreign.cpp).
struct RegisteredMemory {
  /// This rank's, as it was registered, and its bytes.
  DeviceAddress address = 0;
  int64_t bytes = 0;
  /// Where the whole allocation is mapped, at the same offset of all heaps, and its bytes there.
  int64_t offset = 0;
  int64_t mappedBytes = 0;
  /// How far the memory is after the allocation's begin.
  int64_t inside = 0;
  /// Device::mappingAt of the address; 0: the driver did not say.
  uint64_t mapping = 0;
  /// A graph may launch with it.
  bool isCaptured = false;
};

/// Where programs of a rank record for a trace.
struct TraceMemory {
  TraceRegions regions;
  DeviceAddress address = 0;
};

/// One rank of this process.
struct DeviceRank {
  std::unique_ptr<Device> device;
  int32_t rank = 0;
  /// Ranks of this process on the same device.
  int32_t sharers = 1;
  StreamHandle stream = nullptr;
  DeviceArena arena;
  /// The dtile_device_team and the table of peers.
  DeviceAddress team = 0, peers = 0;
  dtile_device_team words = {};
  /// As in dtile_device_launch.
  std::array<int64_t, DTILE_DEVICE_NEAR_RANKS> shift = {};
  DeviceAddress heap = 0;
  /// Where other processes' heaps are mapped by this team; 0 for the own.
  std::vector<DeviceAddress> mapped;
  PinnedMemory control;
  /// What its bodies print; none before a kernel was loaded that does.
  PinnedMemory printMemory;
  std::optional<PrintRing> prints;
  /// New launches record in the last one. All stay until the trace ends: launches in streams of the
  /// caller's may still run.
  std::vector<TraceMemory> traces;
  dtile_launch launch;
  TurnedMemory turned;
  /// That the caller has captured and not destroyed.
  std::set<GraphHandle> graphs;
  /// Of the copy engine: for launches, and for those that are captured. A stream that is captured
  /// takes nothing else until the capture ends.
  EngineStream engine, capturedEngine;
};

/// Calls come one at a time.
class DeviceTeam final : public dtile_team {
public:
  static Status create(std::unique_ptr<DeviceDriver> driver, DeviceTeamConfig config,
                       std::unique_ptr<DeviceTeam> *out);
  ~DeviceTeam() override;

  int32_t ranks() const override { return ranks_; }
  int32_t firstLocal() const override { return job_ ? job_->rank() : 0; }
  int32_t localCount() const override { return int32_t(locals_.size()); }
  DeviceTeam *devices() override { return this; }
  DeviceRank &local(int32_t index) { return *locals_[size_t(index)]; }

  /// Teams of one process have recovered when a call gives its failure; jobs cannot.
  Status recover() override { return broken_; }
  Status trim(uint32_t flags) override;

  Status symmAlloc(int64_t bytes, void **out) override;
  Status symmFree(void *address) override;
  Status symmRegister(void *const *pointers, int64_t bytes) override;
  Status symmUnregister(void *address) override;
  void *symmAddress(const void *address, int32_t local) const override;

  /// On the team's own streams, and waits for their end.
  Status launch(const dtile_kernel_desc *desc, const dtile_arg *const *arguments, int32_t nargs,
                int32_t count) override;
  /// Queues a launch.
  Status launchOn(int32_t local, const dtile_kernel_desc *desc, const dtile_arg *arguments,
                  int32_t nargs, StreamHandle stream);
  Status supports(int32_t local, const dtile_kernel_desc &desc, const dtile_arg *arguments,
                  int32_t nargs, Status *refusal) override;
  Status sizes(int32_t local, const dtile_kernel_desc &desc, const dtile_arg *arguments,
               int32_t nargs, int32_t argument, int64_t *size) override;
  Status scratch(int32_t local, const dtile_kernel_desc &desc, const char *name,
                 dtile_tensor *out) override;
  Status barrier() override;
  Status allGather(const void *const *in, int64_t bytes, void *out) override;
  /// Waits for everything queued on this process's devices and says what failed.
  Status synchronize();
  /// An index out of range is an error.
  Status checkLocal(int32_t local) const;

  /// What launches do from now on is recorded; what was recorded before is forgotten.
  void beginTrace(int64_t mostEvents);
  /// Waits for everything queued; null where no trace was begun.
  std::unique_ptr<DeviceTrace> endTrace();
  /// From another thread, too: what was read so far.
  [[nodiscard]] const DeviceTrace *trace() const { return trace_.get(); }

  // ---- Of lists of transfers ----
  /// Where the heap of a rank is mapped for a local one.
  [[nodiscard]] DeviceAddress heapAt(const DeviceRank &rank, int32_t peer) const;
  void listPut(dtile_launch &launch, const dtile_region &source, const dtile_region &destination,
               const dtile_site &site);
  void listNotify(dtile_launch &launch, const dtile_region &cells);

  // ---- Of prologues ----
  /// The object of a parameter with these sizes; null: launch.error says why.
  DeviceObject *object(dtile_launch &launch, int32_t param, int32_t ndim, const int64_t *size);

private:
  DeviceTeam() = default;

  // device_team.cpp
  Status open(DeviceTeamConfig config);
  Status openRank(int32_t local, int32_t ordinal);
  Status openHeaps();
  Status openSharedHeap();
  [[nodiscard]] Status reachesOneHost() const;
  Status startProvider(const std::string &home);
  void closeHeap(DeviceRank &rank);
  void unloadModules();
  Status openControl();
  Status uploadTeam(DeviceRank &rank);
  Status zeroHeaps(int64_t offset, int64_t bytes);
  Status agree(uint64_t value, const char *what);

  // device_launch.cpp
  DeviceKernel *findKernel(const dtile_kernel_desc &desc);
  /// The part of loading that is this process's alone.
  Status openKernel(const dtile_kernel_desc &desc, std::unique_ptr<DeviceKernel> *out);
  /// Collective.
  Status loadKernel(const dtile_kernel_desc &desc, DeviceKernel **out);
  Status checkProvider(const dtile_device_image &image) const;
  /// Ranks that are not mapped reach what a kernel puts, and where it gets to, by the network.
  Status lendArguments(const DeviceKernel &kernel, int32_t local, const dtile_arg *arguments);
  /// A kernel that accesses other ranks' memory wants all of it mapped.
  Status checkMapped(const dtile_kernel_desc &desc, const dtile_device_image &image) const;
  /// `stream`: where it will be queued, which may be being captured.
  Status prepare(DeviceKernel &kernel, int32_t local, const dtile_arg *arguments,
                 const StreamHandle *stream, PreparedLaunch **out);
  /// Before a launch is queued: keeps what a graph will hold, and finds out whether ranks meet
  /// before the launch, which it writes to it.
  Status enterTurns(const DeviceKernel &kernel, int32_t local, const dtile_arg *arguments,
                    StreamHandle stream, PreparedLaunch &prepared, bool *entered);
  /// The launch that entered last did not take place.
  void leaveTurns(int32_t local, PreparedLaunch &prepared);
  Status start(DeviceKernel &kernel, int32_t local, PreparedLaunch &prepared, StreamHandle stream);
  Status waitForAll();
  /// What was queued on this process's devices has ended; an error where that was by giving up.
  Status haveEnded();

  // engine/engine_launch.cpp
  /// Lists what the copy engine does beside a launch with this frame, where it can.
  Status listTransfers(DeviceKernel &kernel, int32_t local, const LoadedImage &variant,
                       DeviceLaunch &device, PreparedLaunch &prepared);
  /// Why the copy engine does not send for a rank; empty where it does.
  [[nodiscard]] std::string whyNoEngine(const DeviceRank &rank) const;
  /// The spaces, a bit each, for which it is expected to in a launch that is not to be.
  [[nodiscard]] uint32_t expectedEngine(const DeviceKernel &kernel, int32_t local,
                                        const LoadedImage &variant, const void *frame) const;
  /// What stands before such a launch on its stream, and the copies beside it.
  Status beginEngine(int32_t local, PreparedLaunch &prepared, const GridLaunch &grid,
                     StreamHandle stream, EngineStream **used);
  static Status openEngine(Device &device, EngineStream &stream);
  static void closeEngine(Device &device, EngineStream &stream);
  /// Who writes a cell that was waited for, where a copy engine does: the put's place.
  [[nodiscard]] std::string engineText(const DeviceKernel &kernel, const DeviceObject &signal,
                                       const dtile_device_report &report) const;

  // device_variants.cpp
  /// Loads those variants that fit the rank's device; an error says why none does.
  Status loadVariants(DeviceKernel &kernel, int32_t local);
  Status loadImage(const dtile_kernel_desc &desc, int32_t local, const dtile_device_image &image,
                   LoadedImage *out);
  /// That all ranks have the same variants, where they must choose alike.
  Status agreeOnVariants(const DeviceKernel &kernel);
  Status runPrologue(DeviceKernel &kernel, int32_t local, const LoadedImage &variant,
                     const dtile_arg *arguments, DeviceLaunch &device, void *frame);
  /// The variant that is estimated to be the fastest with these arguments.
  size_t chooseVariant(DeviceKernel &kernel, int32_t local, const dtile_arg *arguments);
  /// The variant that was measured to be the fastest for such arguments on such a device, if any.
  /// `agreedOnly`: as below.
  [[nodiscard]] std::optional<size_t> measuredVariant(const DeviceKernel &kernel, int32_t local,
                                                      const dtile_arg *arguments,
                                                      bool agreedOnly) const;
  /// What a size is taken as that ranks need not agree on: rows and columns of a layer, and
  /// elements of a tensor.
  static constexpr int64_t kUnknownSizes[] = {4096, int64_t(1) << 20};
  /// Nanoseconds of a launch; infinite where the variant refuses the arguments. `unknownSize`, if
  /// not less than 0: from what all ranks know alike, other sizes taken as this one.
  /// `family`: for which the kernel is an alternative, or null.
  double estimate(DeviceKernel &kernel, int32_t local, const LoadedImage &variant,
                  const dtile_arg *arguments, int64_t unknownSize,
                  const dtile_kernel_desc *family = nullptr);
  /// What a launch of the variant with these arguments would be refused for, without side effects.
  Status tryVariant(DeviceKernel &kernel, int32_t local, const LoadedImage &variant,
                    const dtile_arg *arguments);
  /// Fails where a space has more bodies than kernels can number.
  Status checkBodies(const DeviceKernel &kernel, int32_t local, const LoadedImage &variant,
                     const void *frame) const;
  /// A launch that needs more programs at once, -`programs`, than can be.
  Status cannotBeResident(const DeviceKernel &kernel, int32_t local, const LoadedImage &variant,
                          const void *frame, int32_t programs) const;
  /// Tells stderr which variant runs, with how many programs, and when it is estimated to end.
  void logLaunch(const DeviceKernel &kernel, int32_t local, const dtile_device_image &image,
                 double nanoseconds, const PreparedLaunch &prepared) const;
  /// Memory for the sums that programs leave for each other, once a kernel and rank. None, and no
  /// error, where there is no room: launches divide no bodies then.
  Status makePartials(DeviceKernel &kernel, int32_t local, bool capturing);
  Status prepareVariant(DeviceKernel &kernel, int32_t local, const dtile_arg *arguments,
                        bool capturing, PreparedLaunch &prepared);

  // device_families.cpp
  /// Of a name for several kernels, gives the alternative that a launch with these arguments runs.
  Status resolveFamily(int32_t local, const dtile_arg *arguments, int32_t nargs,
                       const StreamHandle *stream, const dtile_kernel_desc **desc);
  Status loadAlternatives(const dtile_kernel_desc &family, int32_t local,
                          const StreamHandle *stream, DeviceFamily &known);
  Status chooseAlternative(const dtile_kernel_desc &family, int32_t local,
                           const dtile_arg *arguments, const DeviceFamily &known, size_t *fastest);
  /// Arguments are as the first alternative asks for them, which is what the family declares, also
  /// where the one that runs would be content with less.
  Status checkDeclared(const dtile_kernel_desc &family, const dtile_kernel_desc &chosen,
                       int32_t local, const dtile_arg *arguments);
  /// Which of these alternatives a launch runs.
  size_t fastestOf(const std::vector<DeviceKernel *> &kernels, int32_t local,
                   const dtile_arg *arguments, const dtile_kernel_desc &family);
  /// The alternative that was measured to be the fastest for such arguments on such a device, or
  /// null. `any` of them says which architecture it is.
  [[nodiscard]] const dtile_kernel_desc *measuredAlternative(const DeviceKernel &any, int32_t local,
                                                             const dtile_arg *arguments,
                                                             const dtile_kernel_desc &family) const;

  // device_queries.cpp
  /// The kernel as it was loaded, or loaded for a question.
  Status kernelToAsk(const dtile_kernel_desc &desc, DeviceKernel **out);
  Status alternativeToAsk(const dtile_kernel_desc &family, int32_t local,
                          const dtile_arg *arguments, DeviceKernel **out);

  // device_foreign.cpp
  Status findForeign(void *const *pointers, int64_t bytes, RegisteredMemory *out,
                     std::vector<ForeignMemory> *memory);
  Status mapForeign(const RegisteredMemory &registered, const std::vector<ForeignMemory> &memory);
  void unmapForeign(const RegisteredMemory &registered, int32_t ranks);
  void unmapAllForeign();
  /// The arguments with tensors in registered memory where that is mapped.
  Status translate(int32_t local, const dtile_kernel_desc &desc, const StreamHandle *stream,
                   const dtile_arg **arguments, int32_t nargs);
  /// No launch is ready any more that uses these offsets.
  void forgetLaunchesOf(int64_t offset, int64_t bytes);
  [[nodiscard]] DeviceAddress heapOf(int32_t rank) const;

  // device_objects.cpp
  /// Where the symmetric arguments of a launch lie, from the begin of the heap.
  [[nodiscard]] std::vector<int64_t> symmetricPlaces(const dtile_launch &launch) const;
  DeviceObject *allocateObject(dtile_launch &launch, const ObjectKey &key,
                               const dtile_param_desc &param);
  /// An offset; -1 where there is no room, whatever goes. An error: the devices or processes
  /// failed.
  Status allocateEvicting(int64_t bytes, int64_t *offset);
  /// Gives these back, in all processes.
  Status evict(const std::vector<DeviceObject *> &leaving);
  Status giveBack(DeviceObject *object);
  [[nodiscard]] std::vector<DeviceObject *> allObjects() const;
  /// Those that can go, in the order in which they would.
  [[nodiscard]] std::vector<DeviceObject *> idleObjects() const;
  [[nodiscard]] std::string roomText() const;

  // device_telemetry.cpp
  Status beginTelemetry();
  void showLaunch(int32_t local, const DeviceKernel &kernel);
  /// What the local ranks' programs waited for that have given up.
  void showReports();
  void showReport(int32_t local, const dtile_device_report &report);
  void hideReports();
  /// Adds to `failure` what went wrong with the wait-for graph, where one was asked for.
  void showFailure(Status &failure);

  // print/device_prints.cpp
  /// Makes the rings that kernels print to.
  Status openPrints();
  [[nodiscard]] std::string printText(int32_t rank, const dtile_device_print &print) const;
  /// Writes to stderr what has come. `areOver`: no program runs any more.
  void showPrints(bool areOver = false);
  /// And how much there was no room for.
  void tellLostPrints();

  // trace/device_traces.cpp
  /// Memory for what programs of a launch record, where the team is traced. `stream`: as for
  /// prepare.
  Status prepareTrace(const DeviceKernel &kernel, int32_t local, int32_t programs,
                      const StreamHandle *stream);
  Status addTraceMemory(DeviceRank &rank, int32_t programs);
  Status leadToTrace(DeviceRank &rank, DeviceAddress address);
  static void releaseTrace(DeviceRank &rank);
  /// Reads what was recorded by launches that have ended.
  void readTraces();
  Status readTrace(DeviceRank &rank, const TraceMemory &memory, std::vector<TracedEvent> &events,
                   int64_t *dropped);
  std::shared_ptr<const TracedKernel> tracedKernel(uint64_t kernelId);
  [[nodiscard]] TracedCell tracedCell(const DeviceRank &rank, int64_t address) const;

  // watchdog.cpp
  [[nodiscard]] bool aborted() const;
  /// Gives up what runs, says what happened and makes the team usable again where that is possible.
  Status collectFailure(Status driverError);
  /// Who is gone, or does not answer.
  void addWhatTheWatchKnows(Status &failure) const;
  std::string reportText(const dtile_device_report &report);
  /// The name of the cell or element that a wait was for, what it wanted there, and what it saw.
  std::string waitText(const DeviceKernel *kernel, const dtile_device_report &report,
                       const dtile_site *site);
  Status sayFailure(Status driverError);
  /// The object of parameter `name` that has the cell or element; null: none has. `isOnly`: no
  /// other one has it, too, for launches with other sizes.
  [[nodiscard]] const DeviceObject *waitedObject(const DeviceKernel &kernel,
                                                 const dtile_device_report &report,
                                                 const std::string &name, bool *isOnly) const;
  /// Null where it was unloaded, and its place taken by another.
  [[nodiscard]] const DeviceKernel *kernelOf(uint64_t kernelId) const;
  Status resetCounters();
  dtile_device_report *reportOf(int32_t rank) const;

  std::unique_ptr<DeviceDriver> driver_;
  std::unique_ptr<Rendezvous> job_;
  std::unique_ptr<ControlListener> listener_;
  /// Null: the heaps are this team's own.
  /// Null for p2p.
  const HeapProviderRow *providerRow_ = nullptr;
  std::unique_ptr<HeapProvider> provider_;
  int32_t ranks_ = 0;
  int32_t timeoutMs_ = 0;
  bool plainLaunches_ = false;
  /// All processes have made theirs.
  bool isOpen_ = false;
  int64_t heapBytes_ = 0;
  SymmetricHeap heap_{0, 0};
  int64_t meetingOffset_ = 0;
  std::vector<std::unique_ptr<DeviceRank>> locals_;
  /// An abort word, then a report a rank: pinned memory of this process, or of all of the job.
  void *control_ = nullptr;
  int64_t controlBytes_ = 0;
  std::map<const dtile_kernel_desc *, std::unique_ptr<DeviceKernel>> kernels_;
  /// Of which something was asked before their first launch.
  std::map<const dtile_kernel_desc *, std::unique_ptr<DeviceKernel>> asked_;
  /// By device, size and hash of the image.
  std::map<std::tuple<int32_t, int64_t, uint64_t>, LoadedModule> modules_;
  const dtile_kernel_desc *lastDesc_ = nullptr;
  DeviceKernel *lastKernel_ = nullptr;
  std::map<const dtile_kernel_desc *, DeviceFamily> families_;
  /// Of the arguments of a launch whose alternative is being chosen.
  std::vector<int64_t> sizes_;
  /// Of objects of kernels that were unloaded.
  std::vector<std::unique_ptr<DeviceObject>> orphans_;
  CallersObjects callers_;
  /// Offsets after the heaps, and what is there.
  SymmetricHeap window_{0, 0};
  int64_t windowBytes_ = 0;
  std::vector<RegisteredMemory> registered_;
  /// Of the launch whose arguments are translated.
  std::vector<dtile_arg> translated_;
  std::vector<dtile_tensor> translatedTensors_;
  /// Of the current call that uses objects.
  uint64_t callNumber_ = 0;
  uint64_t useNumber_ = 0;
  /// Of the launch that is being prepared.
  std::vector<uint64_t> signature_;
  Status broken_;
  std::unique_ptr<telemetry::Writer> telemetry_;
  std::string waitGraph_;
  bool showsReports_ = false;
  std::unique_ptr<DeviceTrace> trace_;
  /// By their ids, those that have recorded something.
  std::map<uint64_t, std::shared_ptr<const TracedKernel>> tracedKernels_;
  /// Whether the first launch with certain arguments is told to stderr (DTILE_LOG_LAUNCHES).
  bool logsLaunches_ = false;
};

/// Whether a device has written all of it.
inline bool isComplete(dtile_device_report &report) {
  constexpr uint32_t kComplete = 2;
  return std::atomic_ref(report.state).load(std::memory_order_acquire) == kComplete;
}

/// Where cell number `cell` of a signal, or an element of a scratch object with flags, is.
void placeIn(const DeviceObject &object, uint64_t cell, int64_t *position);

} // namespace dtile::runtime
