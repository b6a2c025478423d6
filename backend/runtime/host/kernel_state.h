// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the runtime keeps of a kernel between its launches: epochs, scratch objects, signals,
// barriers.
#pragma once

#include "backend/runtime/kernel_abi.h"

#include <array>
#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace dtile::runtime {

/// Objects of a kernel are told apart by parameter, sizes, and the sizes of the axes of its mesh.
/// Launches with other sizes have other objects, and a signal's counts stay with the cells that
/// they are about. Where axes have other sizes, other ranks notify a cell.
struct ObjectKey {
  int32_t param = 0;
  int32_t ndim = 0;
  /// Of the variants that use it (dtile_device_image).
  int32_t protocol = 0;
  std::array<int64_t, DTILE_MAX_RANK> size{};
  /// Arguments that are sizes of axes, in the order of the parameters.
  std::vector<uint64_t> axes;
  auto operator<=>(const ObjectKey &) const = default;
};

/// One rank's counts for the cells of a signal.
struct CellCounts {
  /// Reached when the launch before ended, and to be reached when this one ends.
  std::vector<uint64_t> base, want;
  /// Signals without derived counts: the largest count asked for in this launch.
  std::unique_ptr<std::atomic<uint64_t>[]> asked;
};

/// A scratch object or signal in the symmetric heap, the same on all ranks.
struct KernelObject {
  ObjectKey key;
  int64_t offset = 0;
  /// Scratch: copies taken in turn, `copyBytes` apart.
  int64_t copyBytes = 0;
  int32_t copies = 1;
  bool zero = false;
  /// Launches that used it, by local rank: chooses the copy. Counted by object, not by kernel, so
  /// that launches with other sizes in between cannot bring a copy back early.
  std::vector<int64_t> turn;
  /// Signals: number of cells, their derived count, and each local rank's counts.
  int64_t cells = 0;
  const dtile_signal_desc *signal = nullptr;
  std::vector<CellCounts> counts;
  /// Number of the last call that used it, for eviction.
  uint64_t lastUse = 0;
};

/// A `barrier` of a kernel, by its place in the source. Its n-th execution on each rank is one
/// meeting.
struct BarrierSite {
  const dtile_site *site = nullptr;
  /// Executions so far, by rank (threads) or of this rank alone (processes).
  std::vector<int64_t> arrived;
  int64_t completed = 0;
  std::vector<dtile_task *> waiting;
  /// Processes: which row of the barrier cells it uses.
  int32_t slot = 0;
};

/// What a wait at one place of one role is called, as strings of the team's telemetry, and who
/// notifies what it waits for (dtile_notify_from; several places that differ are anybody).
struct WaitNames {
  uint32_t kernel = 0, role = 0, signal = 0, dims = 0, place = 0, roles = 0, notifyPlace = 0;
  int32_t from = DTILE_FROM_ANYBODY;
  int64_t fromValue = 0;
};

/// A kernel as this team knows it.
struct KernelState {
  KernelState() = default;
  explicit KernelState(const dtile_kernel_desc &kernel);

  const dtile_kernel_desc *desc = nullptr;
  std::string name;
  /// What the descriptor said when it was first seen: the memory of a module that has been unloaded
  /// may hold another one.
  std::vector<dtile_param_desc> params;
  /// Position among a launch's arguments of each parameter; -1 for scratch and signals.
  std::vector<int32_t> argumentOf;
  int32_t argumentCount = 0;
  /// Parameters that are sizes of axes.
  std::vector<int32_t> axes;
  bool meetsAtEntry = false;
  /// Launches ended, by local rank.
  std::vector<int64_t> epoch;
  /// Ranks that have arrived at the meeting before the bodies of the current launch.
  int32_t entered = 0;
  std::map<ObjectKey, std::unique_ptr<KernelObject>> objects;
  /// The sizes of each parameter's object in the current call, to see that ranks agree.
  std::map<int32_t, std::pair<uint64_t, ObjectKey>> agreed;
  /// By file, line and column.
  std::map<std::tuple<std::string, int32_t, int32_t>, BarrierSite> barriers;
  std::mutex barrierMutex;
  /// By space, file, line, column and the signal's parameter.
  std::map<std::tuple<int32_t, const char *, int32_t, int32_t, int32_t>, std::unique_ptr<WaitNames>>
      waitNames;
  std::mutex namesMutex;
};

/// Scratch objects are the runtime's, not arguments.
inline bool isScratch(const dtile_param_desc &param) {
  return param.kind == DTILE_PARAM_TENSOR && param.mode == DTILE_MODE_SCRATCH;
}

inline KernelState::KernelState(const dtile_kernel_desc &kernel)
    : desc(&kernel), name(kernel.name), params(kernel.params, kernel.params + kernel.nparams) {
  for (const dtile_param_desc &param : params)
    argumentOf.push_back(param.kind != DTILE_PARAM_SIGNAL && !isScratch(param) ? argumentCount++
                                                                               : -1);
  for (size_t i = 0; i < params.size(); ++i)
    if ((params[i].flags & DTILE_PARAM_AXIS) != 0)
      axes.push_back(int32_t(i));
}

/// The key of an object of the kernel without its sizes, in a launch with these arguments.
inline ObjectKey keyOf(const KernelState &kernel, const dtile_arg *arguments, int32_t param,
                       int32_t protocol) {
  ObjectKey key{.param = param, .protocol = protocol};
  for (const int32_t axis : kernel.axes)
    key.axes.push_back(arguments[kernel.argumentOf[size_t(axis)]].scalar_bits);
  return key;
}

} // namespace dtile::runtime
