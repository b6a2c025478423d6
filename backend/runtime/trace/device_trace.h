// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What devices have recorded of a team (dtile_device_event), made into the records of a trace.
#pragma once

#include "backend/runtime/device_abi.h"
#include "backend/runtime/trace/trace_record.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace dtile::runtime {

/// A place in the source, as a trace names it.
struct TracedSite {
  std::string file, what;
  int32_t line = 0, column = 0;
};

/// What is said of a kernel in a trace. Copies: a trace may be written when the library that the
/// kernel came from has been closed.
class TracedKernel {
public:
  struct Space {
    std::string name;
    std::vector<std::string> vars;
  };
  TracedKernel(std::string name, std::string file, std::string variant, std::vector<Space> spaces,
               std::vector<TracedSite> sites);
  TracedKernel(const TracedKernel &) = delete;
  TracedKernel &operator=(const TracedKernel &) = delete;

  /// With the names and numbers that traces use, and nothing else.
  [[nodiscard]] const dtile_kernel_desc &desc() const { return desc_; }
  /// The constants of the variant, or "".
  [[nodiscard]] const char *variant() const { return variant_.c_str(); }
  /// Null where there is none of that number.
  [[nodiscard]] const dtile_site *site(int32_t number) const;

private:
  std::string name_, file_, variant_;
  std::vector<Space> spaces_;
  std::vector<TracedSite> places_;
  std::vector<std::vector<const char *>> vars_;
  std::vector<dtile_space_desc> descs_;
  std::vector<dtile_site> sites_;
  dtile_kernel_desc desc_ = {};
};

/// A cell of a signal, as the host knows it.
struct TracedCell {
  /// Where it is in any rank's heap.
  int64_t offset = 0;
  /// Row-major number in the signal, whose sizes follow.
  int64_t number = 0;
  int32_t ndim = 0;
  int32_t size[DTILE_MAX_RANK] = {};
};

/// What one recorder of one program has recorded of a kernel's launches.
struct TracedEvent {
  dtile_device_event event;
  std::shared_ptr<const TracedKernel> kernel;
  int32_t program = 0;
  int32_t recorder = 0;
  /// Of a notify, a wait or a further cell.
  TracedCell cell;
};

/// The trace of a team of devices, from one reading of their regions to the next. Devices have
/// clocks of their own. A launch is queued before its first event begins, and its last event has
/// ended when the host sees that the launch has: this bounds how far a clock is from the host's.
class DeviceTrace {
public:
  explicit DeviceTrace(int64_t mostEvents);
  /// Whether words[0] of an event is where a cell is.
  [[nodiscard]] static bool isOfCell(const dtile_device_event &event);
  /// When it was begun, by the host's clock.
  [[nodiscard]] int64_t begin() const { return begin_; }
  [[nodiscard]] int64_t mostEvents() const { return most_; }

  /// A launch of a kernel is queued on a rank, from one time of the host's clock to another.
  void queued(int32_t rank, uint64_t kernelId, int64_t before, int64_t after);
  /// What a rank has recorded of launches that have ended by now. `clock`: a number of its device.
  /// Events of one recorder are in the order in which it has recorded them.
  void add(int32_t rank, int32_t clock, int64_t now, std::vector<TracedEvent> events,
           int64_t dropped);
  /// The team has failed: launches count from zero again.
  void failed();

  /// From another thread, too.
  struct Reading {
    std::vector<TraceRecord> records;
    int64_t dropped = 0;
  };
  [[nodiscard]] Reading read() const;

private:
  struct Kept : TracedEvent {
    int32_t rank = 0, clock = 0;
    /// How often the team had failed.
    int32_t failures = 0;
  };
  /// Of one launch on a rank.
  struct Launch {
    uint64_t first = 0, last = 0;
    /// When it was queued, or 0.
    int64_t before = 0, after = 0;
    int32_t clock = 0;
    std::shared_ptr<const TracedKernel> kernel;
  };
  /// Rank, failures, kernel, number.
  using LaunchKey = std::tuple<int32_t, int32_t, uint64_t, int64_t>;
  /// How far a device's clock is behind the host's.
  struct Clock {
    int64_t least, most;
  };

  [[nodiscard]] std::map<int32_t, int64_t> offsets() const;
  void addLaunches(const std::map<int32_t, int64_t> &offsets, Reading &reading) const;

  const int64_t begin_, most_;
  mutable std::mutex mutex_;
  std::vector<Kept> events_;
  int64_t left_;
  int64_t dropped_ = 0;
  int32_t failures_ = 0;
  std::map<int32_t, Clock> clocks_;
  std::map<LaunchKey, Launch> launches_;
  /// By rank and kernel: launches whose events have not been read.
  std::map<std::pair<int32_t, uint64_t>, std::vector<std::pair<int64_t, int64_t>>> queued_;
};

} // namespace dtile::runtime
