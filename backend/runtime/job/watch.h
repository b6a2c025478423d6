// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Notices at once when a process of the job dies, is out of reach or gives up, whatever this one is
// doing, and tells a process that is late from one that is gone.
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/job/admission.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dtile::runtime {

/// What a team lets the watch do; called by the watch's thread.
class JobListener {
public:
  virtual ~JobListener() = default;
  /// Whether a launch on this host was given up.
  virtual bool isAborted() = 0;
  /// All that waits here leaves.
  virtual void abort() = 0;
  /// What ranks of this host report of what they gave up, as bytes.
  virtual std::string reports() = 0;
  /// The same from another host.
  virtual void takeReports(const std::string &bytes) = 0;
};

/// A star around rank 0, of sockets that nothing else uses. A process that ends closes its end,
/// whatever it dies of; one whose host is lost answers no probe of TCP; one that is stopped keeps
/// its connection, but its thread does not answer.
class Watch {
public:
  Watch(int32_t rank, std::vector<Socket> sockets, std::vector<JobMember> members);
  /// Leaves in order: others are told that this process has not died.
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

  /// Why the job cannot go on: a process has died, or gave up with these words.
  [[nodiscard]] Status failure() const;
  [[nodiscard]] bool hasFailed() const { return hasFailed_.load(std::memory_order_acquire); }
  /// Tells all others why this process gives up. The first failure of a job is kept.
  void fail(const Status &status);
  /// Readable from the first failure on.
  [[nodiscard]] int descriptor() const { return changed_.get(); }
  /// Who has not answered lately, in words: "" where all have.
  [[nodiscard]] std::string silentRanks() const;
  /// What is known of a rank that does not come.
  [[nodiscard]] std::string stateOf(int32_t rank) const;
  /// For whom this process waits, which the others are told of by rank 0; -1: for nobody.
  void setWaiting(int32_t rank) { waiting_ = rank; }
  /// For whom rank 0 waits.
  [[nodiscard]] int32_t waitedFor() const { return rankZeroWaits_; }
  /// Null: nobody listens any more. `polls`: whether aborts of this host must be looked for.
  void attach(JobListener *listener, bool polls);

private:
  struct Peer {
    Socket socket;
    int32_t rank = 0;
    std::string unread;
    bool hasLeft = false;
  };
  struct Frame;
  void run();
  void step();
  void read(Peer &peer);
  void take(Peer &peer, const Frame &frame, const std::string &bytes);
  void lose(Peer &peer, int error);
  void ping();
  void lookForAbort();
  [[nodiscard]] int64_t silence(int32_t rank) const;
  [[nodiscard]] bool isSilent(int32_t rank) const;
  void sendFrame(Peer &peer, uint32_t kind, int32_t rank, const std::string &bytes);
  void sendAll(uint32_t kind, int32_t rank, const std::string &bytes, const Peer *but = nullptr);
  void setFailure(const Status &status);

  int32_t rank_;
  std::vector<JobMember> members_;
  std::vector<Peer> peers_;
  Socket changed_, wake_;
  /// Of what follows, and of all sending.
  mutable std::mutex mutex_;
  Status failure_;
  /// When each rank was last heard of, and whether rank 0 has not heard of it lately; until when
  /// this process has listened. Time in which it has been stopped itself counts for nobody.
  std::vector<int64_t> heard_;
  std::vector<char> isSilent_;
  int64_t listened_;
  JobListener *listener_ = nullptr;
  bool polls_ = false, toldAbort_ = false;
  int64_t nextPing_ = 0;
  std::atomic<bool> hasFailed_{false};
  std::atomic<int32_t> waiting_{-1}, rankZeroWaits_{-1};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

} // namespace dtile::runtime
