// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to ir/simulate: when messages arrive. Each rank has a way out of its device and one into
// it, inside of its host, and the same of its NIC. A way carries one message after the other, and
// what a message waits for at its end holds up nothing at its start.
#pragma once

#include "ir/simulate/simulation.h"

#include <algorithm>

namespace dtile::simulate {

class Links {
public:
  Links(const Cluster &cluster, size_t ranks, bool isFree)
      : cluster_(cluster), isFree_(isFree), free_(ranks), times_(ranks) {}

  /// How a message goes, from `now` on.
  struct Passage {
    /// When the program goes on, when the bytes are in the peer's memory, and when a program that
    /// waits for them may know.
    double program = 0, landed = 0, known = 0;
  };

  /// Inside of a host. `own`: nanoseconds of the program, at its own rate.
  Passage put(size_t from, size_t to, double bytes, double own, double now) {
    if (isFree_)
      return {now, now, now};
    const double end =
        std::max(now + own, take(from, to, Link::HostOut, Link::HostIn,
                                 bytes / cluster_.machine->timing.linkRate, bytes, now));
    return {end, end, end};
  }

  /// A message that a NIC has been given: when it begins to leave, and has left.
  struct Departure {
    double start = 0, end = 0;
  };
  Departure depart(size_t from, double bytes, double now) {
    const NetworkFacts &network = *cluster_.network;
    const double time = network.message + bytes / network.rate;
    double &leaves = free_[from][size_t(Link::NetworkOut)];
    const double start = std::max(now, leaves);
    leaves = start + time;
    count(from, Link::NetworkOut, bytes, time);
    return {start, leaves};
  }
  /// When it is in the peer's memory. Asked in the order in which messages begin to leave.
  double arrive(size_t to, double bytes, Departure departure) {
    const NetworkFacts &network = *cluster_.network;
    const double time = network.message + bytes / network.rate;
    double &enters = free_[to][size_t(Link::NetworkIn)];
    enters = std::max(departure.start, enters) + time;
    count(to, Link::NetworkIn, bytes, time);
    return std::max(departure.end, enters) + network.latency;
  }

  /// The program waits for the answer.
  Passage get(size_t from, size_t to, bool isFar, double bytes, double own, double now) {
    if (isFree_)
      return {now, now, now};
    const double latency = isFar ? cluster_.network->latency : cluster_.machine->timing.peerLatency;
    // Bytes go the other way.
    const double end =
        isFar
            ? take(to, from, Link::NetworkOut, Link::NetworkIn,
                   cluster_.network->message + bytes / cluster_.network->rate, bytes, now + latency)
            : take(to, from, Link::HostOut, Link::HostIn, bytes / cluster_.machine->timing.linkRate,
                   bytes, now + latency);
    const double back = std::max(now + own + latency, end) + latency;
    return {back, back, back};
  }

  /// Within a host. `behind`: when the transfers that it follows have landed.
  Passage notify(double behind, double now) const {
    if (isFree_)
      return {now, now, now};
    const double there = std::max(now, behind) + cluster_.machine->timing.notifyLatency;
    return {there, there, there};
  }

  /// All ranks meet.
  [[nodiscard]] double barrier() const {
    if (isFree_)
      return 0;
    return 2 * cluster_.machine->timing.notifyLatency +
           (cluster_.network ? 2 * cluster_.network->latency : 0);
  }

  [[nodiscard]] std::vector<std::array<LinkTimes, kLinks>> times() const { return times_; }

private:
  double take(size_t from, size_t to, Link out, Link in, double time, double bytes, double now) {
    double &leaves = free_[from][size_t(out)], &enters = free_[to][size_t(in)];
    const double start = std::max(now, leaves);
    leaves = start + time;
    enters = std::max(start, enters) + time;
    count(from, out, bytes, time);
    count(to, in, bytes, time);
    return std::max(leaves, enters);
  }

  void count(size_t rank, Link link, double bytes, double time) {
    LinkTimes &times = times_[rank][size_t(link)];
    times.bytes += bytes;
    times.busy += time;
  }

  const Cluster &cluster_;
  bool isFree_;
  std::vector<std::array<double, kLinks>> free_;
  std::vector<std::array<LinkTimes, kLinks>> times_;
};

} // namespace dtile::simulate
