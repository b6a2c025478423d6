// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rank 0 hears of everybody and hands on what it hears. A message is a frame and bytes. Sending
// never waits for long: a frame that finds no room within a moment is dropped with the connection.
#include "backend/runtime/job/watch.h"

#include "backend/runtime/clock.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dtile::runtime {

namespace {

enum Kind : uint32_t {
  /// The process leaves in order.
  kLeaves,
  /// The job has failed: a code and words.
  kFails,
  /// Launches of a host were given up; the reports of its ranks.
  kAborts,
  /// Rank 0 asks whether a process runs, and says for whom it waits and who is silent.
  kAsks,
  kAnswers
};

constexpr int64_t kPingNs = 500'000'000;
constexpr int64_t kSilentNs = 2'500'000'000;
/// A thread that has not come to listen for so long has not been let run.
constexpr int64_t kAwayNs = 1'000'000'000;
constexpr int64_t kSendNs = 1'000'000'000;
/// How soon an abort of this host is handed on.
constexpr int kLookMs = 5, kIdleMs = 100;
constexpr uint32_t kMostBytes = 1 << 20;

} // namespace

struct Watch::Frame {
  uint32_t kind;
  int32_t rank;
  uint32_t bytes;
};

Watch::Watch(int32_t rank, std::vector<Socket> sockets, std::vector<JobMember> members)
    : rank_(rank), members_(std::move(members)), changed_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), heard_(members_.size(), nowNs()),
      isSilent_(members_.size()), listened_(nowNs()) {
  for (size_t i = 0; i < sockets.size(); ++i)
    if (sockets[i])
      peers_.push_back({std::move(sockets[i]), rank == 0 ? int32_t(i) : 0, {}, false});
  if (peers_.empty())
    return;
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watch::~Watch() {
  if (!thread_.joinable())
    return;
  ends_ = true;
  (void)eventfd_write(wake_.get(), 1);
  thread_.join();
  std::lock_guard lock(mutex_);
  sendAll(kLeaves, rank_, {});
}

Status Watch::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Watch::setFailure(const Status &status) {
  if (!failure_.ok())
    return;
  failure_ = status;
  hasFailed_.store(true, std::memory_order_release);
  (void)eventfd_write(changed_.get(), 1);
  if (listener_)
    listener_->abort();
}

void Watch::fail(const Status &status) {
  std::lock_guard lock(mutex_);
  if (!failure_.ok())
    return;
  const auto code = int32_t(status.code);
  sendAll(kFails, rank_,
          std::string(reinterpret_cast<const char *>(&code), sizeof code) + status.message);
  setFailure(status);
}

void Watch::attach(JobListener *listener, bool polls) {
  std::lock_guard lock(mutex_);
  listener_ = listener;
  polls_ = polls;
  if (listener && !failure_.ok())
    listener->abort();
}

// ---- Sending ----

void Watch::sendFrame(Peer &peer, uint32_t kind, int32_t rank, const std::string &bytes) {
  if (!peer.socket || peer.hasLeft)
    return;
  const Frame frame = {kind, rank, uint32_t(bytes.size())};
  std::string message(reinterpret_cast<const char *>(&frame), sizeof frame);
  message += bytes;
  // What is wrong with the connection its reader finds out.
  if (runtime::sendAll(peer.socket.get(), message.data(), int64_t(message.size()),
                       nowNs() + kSendNs) == kTooLate)
    (void)shutdown(peer.socket.get(), SHUT_RDWR);
}

void Watch::sendAll(uint32_t kind, int32_t rank, const std::string &bytes, const Peer *but) {
  for (Peer &peer : peers_)
    if (&peer != but)
      sendFrame(peer, kind, rank, bytes);
}

// ---- The thread ----

void Watch::run() {
  while (!ends_)
    step();
}

void Watch::step() {
  std::vector<pollfd> entries = {{wake_.get(), POLLIN, 0}};
  int wait = kIdleMs;
  {
    std::lock_guard lock(mutex_);
    for (const Peer &peer : peers_)
      entries.push_back({peer.socket.get(), POLLIN, 0});
    if (polls_ && !toldAbort_)
      wait = kLookMs;
  }
  (void)poll(entries.data(), entries.size(), wait);
  std::lock_guard lock(mutex_);
  const int64_t now = nowNs();
  if (const int64_t away = now - listened_; away > kAwayNs)
    for (int64_t &heard : heard_)
      heard += away;
  listened_ = now;
  for (size_t i = 0; i < peers_.size(); ++i)
    if (entries[i + 1].revents != 0)
      read(peers_[i]);
  if (rank_ == 0)
    ping();
  lookForAbort();
}

void Watch::lookForAbort() {
  if (!polls_ || toldAbort_ || !listener_ || !listener_->isAborted())
    return;
  toldAbort_ = true;
  sendAll(kAborts, rank_, listener_->reports());
}

void Watch::ping() {
  const int64_t now = nowNs();
  if (now < nextPing_)
    return;
  nextPing_ = now + kPingNs;
  heard_[0] = now;
  for (size_t rank = 0; rank < heard_.size(); ++rank)
    isSilent_[rank] = silence(int32_t(rank)) > kSilentNs;
  sendAll(kAsks, waiting_, {isSilent_.begin(), isSilent_.end()});
}

void Watch::read(Peer &peer) {
  char bytes[4096];
  const ssize_t got = recv(peer.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (got <= 0)
    return lose(peer, got < 0 ? errno : 0);
  peer.unread.append(bytes, size_t(got));
  Frame frame;
  while (peer.unread.size() >= sizeof frame) {
    std::memcpy(&frame, peer.unread.data(), sizeof frame);
    if (frame.bytes > kMostBytes)
      return lose(peer, EPROTO);
    if (peer.unread.size() < sizeof frame + frame.bytes)
      return;
    const std::string content = peer.unread.substr(sizeof frame, frame.bytes);
    peer.unread.erase(0, sizeof frame + frame.bytes);
    take(peer, frame, content);
  }
}

void Watch::take(Peer &peer, const Frame &frame, const std::string &bytes) {
  heard_[size_t(peer.rank)] = nowNs();
  switch (frame.kind) {
  case kLeaves:
    peer.hasLeft = true;
    break;
  case kFails: {
    int32_t code = DTILE_TIMEOUT;
    if (bytes.size() < sizeof code)
      break;
    std::memcpy(&code, bytes.data(), sizeof code);
    if (rank_ == 0)
      sendAll(frame.kind, frame.rank, bytes, &peer);
    setFailure({dtile_status(code), bytes.substr(sizeof code)});
    break;
  }
  case kAborts:
    if (rank_ == 0)
      sendAll(frame.kind, frame.rank, bytes, &peer);
    // The own host's abort is the same one from now on.
    toldAbort_ = true;
    if (listener_) {
      listener_->takeReports(bytes);
      listener_->abort();
    }
    break;
  case kAsks:
    rankZeroWaits_ = frame.rank;
    if (bytes.size() == isSilent_.size())
      isSilent_.assign(bytes.begin(), bytes.end());
    sendFrame(peer, kAnswers, rank_, {});
    break;
  default:
    break;
  }
}

void Watch::lose(Peer &peer, int error) {
  peer.socket.reset();
  if (peer.hasLeft)
    return;
  const JobMember &member = members_[size_t(peer.rank)];
  const Status status = {DTILE_TIMEOUT, isCutOff(error)
                                            ? lostHostText(peer.rank, member, error)
                                            : memberText(peer.rank, member) +
                                                  " has died: its process ended without leaving "
                                                  "the job"};
  const auto code = int32_t(status.code);
  if (failure_.ok())
    sendAll(kFails, peer.rank,
            std::string(reinterpret_cast<const char *>(&code), sizeof code) + status.message);
  setFailure(status);
}

// ---- What is known ----

int64_t Watch::silence(int32_t rank) const { return listened_ - heard_[size_t(rank)]; }

/// Of rank 0 each process hears itself, of others from rank 0.
bool Watch::isSilent(int32_t rank) const {
  if (rank_ == 0 || rank != 0)
    return isSilent_[size_t(rank)] != 0;
  return !peers_.front().hasLeft && silence(0) > kSilentNs;
}

std::string Watch::stateOf(int32_t rank) const {
  std::lock_guard lock(mutex_);
  if (rank == rank_ || size_t(rank) >= members_.size())
    return {};
  const std::string who = memberText(rank, members_[size_t(rank)]);
  for (const Peer &peer : peers_)
    if (peer.rank == rank && peer.hasLeft)
      return who + " has left the job";
  if (!isSilent(rank))
    return who + " is late, but its process runs";
  if (rank_ == 0 || rank == 0)
    return who + format(" has not answered for %.1f s: its process is stopped, or its host cannot "
                        "be reached",
                        double(silence(rank)) / 1e9);
  return who + " does not answer: its process is stopped, or its host cannot be reached";
}

std::string Watch::silentRanks() const {
  std::lock_guard lock(mutex_);
  std::string text;
  for (int32_t rank = 0; rank < int32_t(members_.size()); ++rank)
    if (rank != rank_ && isSilent(rank))
      text += (text.empty() ? "" : ", ") + memberText(rank, members_[size_t(rank)]);
  return text.empty() ? text
                      : text + " did not answer lately: stopped, or on a host that cannot be "
                               "reached";
}

} // namespace dtile::runtime
