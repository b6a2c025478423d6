// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/unit/stdlib/far_network.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>

extern "C" int32_t dtile_test_thread(void);
extern "C" int32_t dtile_test_threads(void);

namespace dtile::test {

namespace {

/// What a thread has sent to a rank, since so many fences.
struct Message {
  const void *thread;
  int pe;
  int64_t fences;
  /// It reads memory when it lands.
  bool reads = false;
  std::function<void()> land;
};

struct Network {
  std::vector<char *> heaps;
  size_t bytes = 0;
  int ranksAHost = 1;
  std::mt19937 random;
  std::vector<Message> messages;
  std::map<const void *, int64_t> fences;
  int64_t sent = 0;
  /// Threads that have sent something since they last waited, and how often any has waited.
  std::set<const void *> senders;
  int64_t waits = 0;

  [[nodiscard]] int rankOf(const void *place) const {
    for (size_t rank = 0; rank < heaps.size(); ++rank)
      if (place >= heaps[rank] && place < heaps[rank] + bytes)
        return int(rank);
    return -1;
  }
  /// The same place of another rank.
  [[nodiscard]] char *at(const void *place, int pe) const {
    const int own = rankOf(place);
    return own < 0 ? nullptr
                   : heaps[size_t(pe)] + (static_cast<const char *>(place) - heaps[size_t(own)]);
  }
  [[nodiscard]] bool isMapped(const void *place, int pe) const {
    const int own = rankOf(place);
    return own >= 0 && own / ranksAHost == pe / ranksAHost;
  }
  /// Nothing that was sent before a fence of its thread, to the same rank, is still on its way.
  [[nodiscard]] bool mayLand(const Message &message) const {
    return std::none_of(messages.begin(), messages.end(), [&](const Message &other) {
      return other.thread == message.thread && other.pe == message.pe &&
             other.fences < message.fences;
    });
  }
  /// Lands any one that may, of a thread or (null) of all.
  bool landOne(const void *thread) {
    std::vector<size_t> candidates;
    for (size_t i = 0; i < messages.size(); ++i)
      if ((!thread || messages[i].thread == thread) && mayLand(messages[i]))
        candidates.push_back(i);
    if (candidates.empty())
      return false;
    const size_t chosen = candidates[random() % candidates.size()];
    const std::function<void()> land = std::move(messages[chosen].land);
    messages.erase(messages.begin() + std::ptrdiff_t(chosen));
    land();
    return true;
  }
  /// This thread waits for what it has sent, a trip and back.
  void wait() { waits += int64_t(senders.erase(farThread())); }
  /// The message that this thread sends next to a rank.
  Message next(int pe) { return {farThread(), pe, fences[farThread()], false, {}}; }
  void send(const void *place, int pe, std::function<void()> land, bool reads = false) {
    if (isMapped(place, pe))
      return land();
    ++sent;
    senders.insert(farThread());
    messages.push_back(next(pe));
    messages.back().reads = reads;
    messages.back().land = std::move(land);
  }
};
std::unique_ptr<Network> network;

template <typename T> void sendStore(T *place, T value, int pe) {
  char *there = network->at(place, pe);
  network->send(place, pe, [=] { std::memcpy(there, &value, sizeof value); });
}
template <typename T> std::function<void()> addition(T *place, T value, int pe) {
  auto *there = reinterpret_cast<T *>(network->at(place, pe));
  return [=] { __atomic_fetch_add(there, value, __ATOMIC_RELEASE); };
}
template <typename T> void sendAdd(T *place, T value, int pe) {
  network->send(place, pe, addition(place, value, pe));
}
template <typename T> T fetchAdd(T *place, T value, int pe) {
  stepFarNetwork();
  return __atomic_fetch_add(reinterpret_cast<T *>(network->at(place, pe)), value, __ATOMIC_ACQ_REL);
}
template <typename T> T compareSwap(T *place, T expected, T desired, int pe) {
  stepFarNetwork();
  (void)__atomic_compare_exchange_n(reinterpret_cast<T *>(network->at(place, pe)), &expected,
                                    desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}

} // namespace

void openFarNetwork(const std::vector<void *> &heaps, size_t bytes, int ranksAHost, unsigned seed) {
  network = std::make_unique<Network>();
  for (void *heap : heaps)
    network->heaps.push_back(static_cast<char *>(heap));
  network->bytes = bytes;
  network->ranksAHost = ranksAHost;
  network->random.seed(seed);
}

int64_t farMessages() { return network->sent; }
int64_t farWaits() { return network->waits; }

bool areFarSourcesInUse() {
  return std::any_of(network->messages.begin(), network->messages.end(),
                     [](const Message &message) { return message.reads; });
}

void stepFarNetwork() {
  // Seldom, so that waiters look in vain first.
  constexpr unsigned kOneIn = 5;
  if (network->random() % kOneIn == 0)
    (void)network->landOne(nullptr);
}

extern "C" {

void *nvshmem_ptr(const void *place, int pe) {
  return network->isMapped(place, pe) ? network->at(place, pe) : nullptr;
}
// The source is read when the message lands.
void nvshmem_putmem_nbi(void *to, const void *from, uint64_t bytes, int pe) {
  char *there = network->at(to, pe);
  network->send(to, pe, [=] { std::memmove(there, from, bytes); }, true);
}
// The signal is on its way when the data has landed.
void nvshmem_putmem_signal_nbi(void *to, const void *from, uint64_t bytes, uint64_t *signal,
                               uint64_t value, int, int pe) {
  char *there = network->at(to, pe);
  const Message sender = network->next(pe);
  const auto land = [=] {
    std::memmove(there, from, bytes);
    network->messages.push_back(sender);
    network->messages.back().land = addition(signal, value, pe);
  };
  network->send(to, pe, land, true);
}
void nvshmem_getmem(void *to, const void *from, uint64_t bytes, int pe) {
  stepFarNetwork();
  std::memmove(to, network->at(from, pe), bytes);
}
// By all threads of a program; one of them sends, not the one that notifies, and no other one's
// quiet covers it.
void nvshmemx_putmem_nbi_block(void *to, const void *from, uint64_t bytes, int pe) {
  if (dtile_test_thread() == dtile_test_threads() - 1)
    nvshmem_putmem_nbi(to, from, bytes, pe);
}
void nvshmemx_getmem_block(void *to, const void *from, uint64_t bytes, int pe) {
  if (dtile_test_thread() == dtile_test_threads() - 1)
    nvshmem_getmem(to, from, bytes, pe);
}
void nvshmemx_signal_op(uint64_t *signal, uint64_t value, int, int pe) {
  sendAdd(signal, value, pe);
}
uint64_t nvshmem_signal_wait_until(uint64_t *signal, int, uint64_t) {
  return __atomic_load_n(signal, __ATOMIC_ACQUIRE);
}
void nvshmem_fence(void) {
  network->wait();
  ++network->fences[farThread()];
  stepFarNetwork();
}
void nvshmem_quiet(void) {
  network->wait();
  while (network->landOne(farThread()))
    ;
}

#define STORE(BITS)                                                                                \
  void nvshmem_uint##BITS##_p(uint##BITS##_t *place, uint##BITS##_t value, int pe) {               \
    sendStore(place, value, pe);                                                                   \
  }
STORE(8)
STORE(16)
STORE(32)
STORE(64)
#undef STORE
#define ATOMICS(BITS)                                                                              \
  void nvshmem_uint##BITS##_atomic_add(uint##BITS##_t *word, uint##BITS##_t value, int pe) {       \
    sendAdd(word, value, pe);                                                                      \
  }                                                                                                \
  uint##BITS##_t nvshmem_uint##BITS##_atomic_fetch_add(uint##BITS##_t *word, uint##BITS##_t value, \
                                                       int pe) {                                   \
    return fetchAdd(word, value, pe);                                                              \
  }                                                                                                \
  uint##BITS##_t nvshmem_uint##BITS##_atomic_compare_swap(                                         \
      uint##BITS##_t *word, uint##BITS##_t expected, uint##BITS##_t desired, int pe) {             \
    return compareSwap(word, expected, desired, pe);                                               \
  }
ATOMICS(32)
ATOMICS(64)
#undef ATOMICS
}

} // namespace dtile::test
