// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores that readers in other processes see. Every field is written by atomic stores, as readers
// look at any time; what must be seen whole has a turn that is odd meanwhile.
#include "backend/runtime/telemetry/writer.h"

#include "backend/runtime/clock.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dtile::runtime::telemetry {

namespace {

template <typename T> void store(T &field, T value) {
  std::atomic_ref(field).store(value, std::memory_order_relaxed);
}

template <typename T> T load(T &field) {
  return std::atomic_ref(field).load(std::memory_order_relaxed);
}

/// Seals the file's size, so that nobody's mapping can lose its end.
int makeFile(uint64_t bytes) {
  const char *wanted = std::getenv("DTILE_TELEMETRY");
  if (wanted && std::strcmp(wanted, "0") == 0)
    return -1;
  const int file = memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0)
    return -1;
  if (ftruncate(file, off_t(bytes)) != 0 ||
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    close(file);
    return -1;
  }
  return file;
}

void copyName(char *out, size_t bytes, const char *path) {
  char buffer[4096];
  const ssize_t length = readlink(path, buffer, sizeof buffer - 1);
  if (length <= 0)
    return;
  buffer[length] = 0;
  const char *slash = std::strrchr(buffer, '/');
  std::strncpy(out, slash ? slash + 1 : buffer, bytes - 1);
}

} // namespace

Writer::Writer(const TeamFacts &team) : layout_(layoutOf(team.ranks, team.localCount)) {
  file_ = makeFile(layout_.bytes);
  void *memory = mmap(nullptr, layout_.bytes, PROT_READ | PROT_WRITE,
                      file_ >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file_, 0);
  if (memory == MAP_FAILED) {
    if (file_ >= 0)
      close(file_);
    file_ = -1;
    return;
  }
  block_ = static_cast<char *>(memory);
  Header &h = header();
  h.headerBytes = sizeof(Header);
  h.bytes = layout_.bytes;
  h.job = team.job;
  h.pid = getpid();
  h.createdNs = nowNs();
  h.ranks = team.ranks;
  h.firstLocal = team.firstLocal;
  h.localCount = team.localCount;
  h.kind = team.kind;
  h.isDirect = team.isDirect ? 1 : 0;
  h.timeoutMs = team.timeoutMs;
  h.window = layout_.window;
  h.waits = layout_.waits;
  h.ranksAt = layout_.ranksAt;
  h.peersAt = layout_.peersAt;
  h.historyAt = layout_.historyAt;
  h.waitsAt = layout_.waitsAt;
  h.stringsAt = layout_.stringsAt;
  h.stringsBytes = Layout::kStrings;
  // Offset 0 is "".
  h.stringsUsed = 1;
  strings_[""] = 0;
  copyName(h.program, sizeof h.program, "/proc/self/exe");
  for (int32_t local = 0; local < team.localCount; ++local)
    rank(local).sinceNs = rank(local).movedNs = h.createdNs;
  h.version = kVersion;
  // Who sees it sees the rest.
  std::atomic_ref(h.magic).store(kMagic, std::memory_order_release);
}

Writer::~Writer() {
  if (block_)
    munmap(block_, layout_.bytes);
  if (file_ >= 0)
    close(file_);
}

Rank &Writer::rank(int32_t local) {
  return reinterpret_cast<Rank *>(block_ + layout_.ranksAt)[local];
}

Peer &Writer::peer(int32_t local, int32_t rank) {
  return reinterpret_cast<Peer *>(
      block_ + layout_.peersAt)[size_t(local) * size_t(layout_.ranks) + size_t(rank)];
}

Launch &Writer::launch(int32_t local, uint64_t number) {
  const uint64_t row =
      uint64_t(local) * uint64_t(layout_.window) + number % uint64_t(layout_.window);
  return *reinterpret_cast<Launch *>(block_ + layout_.historyAt + row * layout_.launchBytes());
}

void Writer::setState(int32_t local, RankState state, int64_t now) {
  Rank &r = rank(local);
  store(r.state, state);
  store(r.sinceNs, now);
  store(r.movedNs, now);
}

void Writer::launchBegins(int32_t local, const std::string &kernel) {
  if (!block_)
    return;
  const int64_t now = nowNs();
  Rank &r = rank(local);
  store(r.kernel, stringOf(kernel));
  const uint64_t number = load(r.begun);
  store(r.begun, number + 1);
  setState(local, RankState::Begins, now);
  if (layout_.window == 0)
    return;
  Launch &l = launch(local, number);
  std::atomic_ref(l.turn).store(2 * number + 1);
  auto *own = reinterpret_cast<int64_t *>(&l + 1);
  for (int32_t i = 0; i < layout_.ranks; ++i)
    store(own[i], int64_t(0));
  store(l.beginNs, now);
  store(l.endNs, int64_t(0));
  store(l.ranNs, int64_t(0));
}

void Writer::bodiesBegin(int32_t local) {
  if (block_)
    setState(local, RankState::Runs, nowNs());
}

void Writer::launchEnds(int32_t local) {
  if (!block_)
    return;
  const int64_t now = nowNs();
  Rank &r = rank(local);
  const uint64_t begun = load(r.begun);
  store(r.ended, load(r.ended) + 1);
  setState(local, RankState::Idle, now);
  if (layout_.window == 0 || begun == 0)
    return;
  Launch &l = launch(local, begun - 1);
  store(l.endNs, now);
  std::atomic_ref(l.turn).store(2 * begun, std::memory_order_release);
}

void Writer::launchQueued(int32_t local, uint32_t kernel) {
  if (!block_)
    return;
  Rank &r = rank(local);
  store(r.kernel, kernel);
  store(r.begun, load(r.begun) + 1);
  const int64_t now = nowNs();
  if (load(r.state) == RankState::Runs)
    store(r.movedNs, now);
  else
    setState(local, RankState::Runs, now);
}

void Writer::queuesEnded() {
  if (!block_)
    return;
  for (int32_t local = 0; local < layout_.localCount; ++local)
    store(rank(local).ended, load(rank(local).begun));
  rest(/*hasFailed=*/false);
}

void Writer::rest(bool hasFailed) {
  if (!block_)
    return;
  const int64_t now = nowNs();
  for (int32_t local = 0; local < layout_.localCount; ++local)
    if (hasFailed || load(rank(local).state) != RankState::Idle)
      setState(local, hasFailed ? RankState::Failed : RankState::Idle, now);
}

void Writer::restart(uint64_t number) {
  if (!block_)
    return;
  for (int32_t local = 0; local < layout_.localCount; ++local)
    number = std::max(number, load(rank(local).begun));
  for (int32_t local = 0; local < layout_.localCount; ++local) {
    store(rank(local).begun, number);
    store(rank(local).ended, number);
  }
}

void Writer::fail(int32_t code, const std::string &words) {
  if (!block_)
    return;
  Header &h = header();
  std::atomic_ref(h.failureTurn).fetch_add(1);
  store(h.failureCode, code);
  store(h.failureNs, nowNs());
  const size_t length = words.copy(h.failure, sizeof h.failure - 1);
  h.failure[length] = 0;
  std::atomic_ref(h.failureTurn).fetch_add(1);
}

void Writer::notified(int32_t local, int32_t to, int64_t count, int64_t ownNs, int64_t now) {
  if (!block_ || to < 0 || to >= layout_.ranks)
    return;
  Peer &p = peer(local, to);
  std::atomic_ref(p.notified).fetch_add(uint64_t(count), std::memory_order_relaxed);
  store(p.lastNs, now);
  Rank &r = rank(local);
  store(r.movedNs, now);
  const uint64_t begun = load(r.begun);
  if (layout_.window == 0 || begun == 0)
    return;
  int64_t &own = reinterpret_cast<int64_t *>(&launch(local, begun - 1) + 1)[to];
  std::atomic_ref(own).fetch_add(std::max<int64_t>(ownNs, 1), std::memory_order_relaxed);
}

void Writer::ran(int32_t local, int64_t ns) {
  if (!block_ || layout_.window == 0)
    return;
  if (const uint64_t begun = load(rank(local).begun); begun != 0)
    std::atomic_ref(launch(local, begun - 1).ranNs).fetch_add(ns, std::memory_order_relaxed);
}

void Writer::woken(int32_t local, int64_t now) {
  if (block_)
    store(rank(local).movedNs, now);
}

Wait *Writer::openWait(size_t number) {
  // The last one is for meetings.
  if (!block_ || number + 1 >= size_t(layout_.waits))
    return nullptr;
  return openKnown(reinterpret_cast<Wait *>(block_ + layout_.waitsAt)[number]);
}

Wait &Writer::meeting() {
  return reinterpret_cast<Wait *>(block_ + layout_.waitsAt)[layout_.waits - 1];
}

void Writer::openMeeting(int32_t rank, const char *what, int32_t peer) {
  if (!block_)
    return;
  const uint32_t place = stringOf(what);
  Wait &wait = *openKnown(meeting());
  wait.rank = rank;
  wait.place = place;
  wait.from = peer < 0 ? From::Anybody : From::Rank;
  wait.fromRank = peer;
  wait.sinceNs = nowNs();
  closeWait(wait, WaitState::Meeting);
}

void Writer::endMeeting() {
  if (block_)
    endWait(meeting());
}

Wait *Writer::openKnown(Wait &wait) {
  const uint32_t turn = load(wait.turn);
  store(wait.turn, turn | 1);
  std::atomic_thread_fence(std::memory_order_release);
  return &wait;
}

void Writer::closeWait(Wait &wait, WaitState state) {
  store(wait.state, state);
  std::atomic_ref(wait.turn).store(load(wait.turn) + 1, std::memory_order_release);
}

void Writer::leaveOut() {
  if (block_)
    std::atomic_ref(header().waitsLeftOut).fetch_add(1, std::memory_order_relaxed);
}

uint32_t Writer::stringOf(const std::string &text) {
  std::lock_guard lock(mutex_);
  if (const auto known = strings_.find(text); known != strings_.end())
    return known->second;
  Header &h = header();
  const uint64_t at = load(h.stringsUsed);
  if (at + text.size() + 1 > Layout::kStrings)
    return 0;
  std::memcpy(block_ + layout_.stringsAt + at, text.c_str(), text.size() + 1);
  std::atomic_ref(h.stringsUsed).store(at + text.size() + 1, std::memory_order_release);
  return strings_[text] = uint32_t(at);
}

} // namespace dtile::runtime::telemetry
