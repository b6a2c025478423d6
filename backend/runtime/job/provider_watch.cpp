// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/job/provider_watch.h"

#include "backend/runtime/job/handshake.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>

namespace dtile::runtime {

namespace {

/// To meet in: all have just done so by the provider.
constexpr int32_t kMeetMs = 10'000;

/// What each process tells the others.
struct Card {
  char machine[96] = {};
  char key[40] = {};
  /// Where it would listen, by numbers.
  char addresses[512] = {};
  int32_t port = 0;
};

std::string hexOf(const Nonce &nonce) {
  std::string text;
  for (const uint8_t byte : nonce)
    text += format("%02x", byte);
  return text;
}

/// All that other hosts may reach.
std::string addressesHere() {
  const char *interface = std::getenv("DTILE_JOB_INTERFACE");
  std::vector<Endpoint> here;
  if (!localEndpoints(interface ? interface : "", &here).ok())
    return {};
  std::string all;
  for (const Endpoint &each : here) {
    const auto *four = reinterpret_cast<const sockaddr_in *>(&each.storage);
    const auto *six = reinterpret_cast<const sockaddr_in6 *>(&each.storage);
    if (each.family() == AF_INET
            ? ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
            : IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
      continue;
    all += (all.empty() ? "" : ",") + each.host();
  }
  return all;
}

int32_t freePort() {
  std::vector<Endpoint> any;
  Socket socket;
  if (!resolve("0.0.0.0", 0, &any).ok() || listenAt(any.front(), 1, &socket) != 0)
    return 0;
  return portOf(socket.get());
}

Card ownCard(const std::string &machine, const std::string &addresses) {
  Card card;
  machine.copy(card.machine, sizeof card.machine - 1);
  hexOf(newNonce()).copy(card.key, sizeof card.key - 1);
  // Cut after a whole address.
  std::string fitting = addresses;
  while (fitting.size() >= sizeof card.addresses)
    fitting.resize(fitting.rfind(','));
  fitting.copy(card.addresses, sizeof card.addresses - 1);
  card.port = freePort();
  return card;
}

} // namespace

std::unique_ptr<Rendezvous> watchProvider(dtile_shmem &shmem) {
  if (shmem.local != 1 || shmem.npes == 1)
    return nullptr;
  const auto gather = [&](const void *own, size_t bytes, void *all) {
    shmem.ops->all_gather(&shmem, &own, bytes, all);
  };
  const Card own = ownCard(ownMember().machine, addressesHere());
  std::vector<Card> cards(static_cast<size_t>(shmem.npes));
  gather(&own, sizeof own, cards.data());
  JobPlace place;
  place.rank = shmem.first;
  place.ranks = shmem.npes;
  place.key = cards.front().key;
  place.name = "shmem-" + place.key;
  place.address = cards.front().addresses;
  place.port = cards.front().port;
  place.hostsMayDiffer = true;
  const auto here = std::count_if(cards.begin(), cards.end(), [&](const Card &card) {
    return std::strcmp(card.machine, own.machine) == 0;
  });
  place.localRanks = int32_t(here);
  std::unique_ptr<Rendezvous> job;
  int32_t hasMet = Rendezvous::join(place, kMeetMs, &job).ok();
  std::vector<int32_t> all(static_cast<size_t>(shmem.npes));
  gather(&hasMet, sizeof hasMet, all.data());
  if (std::count(all.begin(), all.end(), 1) < shmem.npes)
    job.reset();
  return job;
}

} // namespace dtile::runtime
