// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/job/sockets.h"

#include "backend/runtime/clock.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

namespace dtile::runtime {

void Socket::reset() {
  if (descriptor_ >= 0)
    close(std::exchange(descriptor_, -1));
}

// ---- Addresses ----

std::string Endpoint::text() const {
  if (family() == AF_UNIX)
    return {reinterpret_cast<const sockaddr_un *>(&storage)->sun_path + 1,
            length - offsetof(sockaddr_un, sun_path) - 1};
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(at(), length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return family() == AF_INET6 ? format("[%s]:%s", host, port) : format("%s:%s", host, port);
}

std::string Endpoint::host() const {
  char host[NI_MAXHOST];
  return getnameinfo(at(), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0
             ? host
             : "an unknown address";
}

bool Endpoint::hasSameAddress(const Endpoint &other) const {
  if (family() != other.family())
    return false;
  if (family() == AF_INET)
    return reinterpret_cast<const sockaddr_in *>(&storage)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in *>(&other.storage)->sin_addr.s_addr;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6 *>(&storage)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6 *>(&other.storage)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

Endpoint unixEndpoint(const std::string &name) {
  Endpoint endpoint;
  auto *address = reinterpret_cast<sockaddr_un *>(&endpoint.storage);
  address->sun_family = AF_UNIX;
  // The first byte is 0: an abstract name.
  const size_t length = std::min(name.size(), sizeof address->sun_path - 1);
  std::memcpy(address->sun_path + 1, name.data(), length);
  endpoint.length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + length);
  return endpoint;
}

Status resolve(const std::string &host, int32_t port, std::vector<Endpoint> *out) {
  if (const size_t comma = host.find(','); comma != std::string::npos) {
    Status status = resolve(host.substr(0, comma), port, out);
    return status.ok() ? resolve(host.substr(comma + 1), port, out) : status;
  }
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo *found = nullptr;
  const std::string service = std::to_string(port);
  if (int error = getaddrinfo(host.c_str(), service.c_str(), &wanted, &found); error != 0)
    return {DTILE_UNAVAILABLE,
            format("rank 0 of the job is said to be at `%s`, which is no address "
                   "and no known name of a host: %s",
                   host.c_str(), gai_strerror(error))};
  for (const addrinfo *each = found; each; each = each->ai_next) {
    Endpoint endpoint;
    std::memcpy(&endpoint.storage, each->ai_addr, each->ai_addrlen);
    endpoint.length = each->ai_addrlen;
    out->push_back(endpoint);
  }
  freeaddrinfo(found);
  return {};
}

Status localEndpoints(const std::string &interface, std::vector<Endpoint> *out) {
  ifaddrs *found = nullptr;
  if (getifaddrs(&found) != 0)
    return {DTILE_UNAVAILABLE,
            format("cannot list the network interfaces: %s", std::strerror(errno))};
  std::string names;
  for (const ifaddrs *each = found; each; each = each->ifa_next) {
    const int family = each->ifa_addr ? each->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6)
      continue;
    if (names.find("`" + std::string(each->ifa_name) + "`") == std::string::npos)
      names += (names.empty() ? "`" : ", `") + std::string(each->ifa_name) + "`";
    if (!interface.empty() && interface != each->ifa_name)
      continue;
    Endpoint endpoint;
    endpoint.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&endpoint.storage, each->ifa_addr, endpoint.length);
    out->push_back(endpoint);
  }
  freeifaddrs(found);
  if (out->empty() && !interface.empty())
    return {DTILE_UNAVAILABLE, format("there is no network interface `%s` with an address; there "
                                      "are %s: see DTILE_JOB_INTERFACE",
                                      interface.c_str(), names.c_str())};
  return {};
}

// ---- Connections ----

int millisecondsLeft(int64_t end) {
  const int64_t left = (end - nowNs() + 999'999) / 1'000'000;
  return left > 0 ? int(std::min<int64_t>(left, 1 << 30)) : 0;
}

int32_t portOf(int socket) {
  Endpoint own;
  own.length = sizeof own.storage;
  if (getsockname(socket, reinterpret_cast<sockaddr *>(&own.storage), &own.length) != 0)
    return 0;
  return ntohs(own.family() == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6 *>(&own.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in *>(&own.storage)->sin_port);
}

namespace {

bool waitFor(int socket, short events, int64_t end) {
  pollfd entry = {socket, events, 0};
  int ready;
  do
    ready = poll(&entry, 1, millisecondsLeft(end));
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

} // namespace

bool waitReadable(int socket, int64_t end) { return waitFor(socket, POLLIN, end); }

int listenAt(const Endpoint &endpoint, int backlog, Socket *out) {
  Socket made(socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (made && endpoint.family() != AF_UNIX)
    (void)setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  // Otherwise one socket would take the port of both families.
  if (made && endpoint.family() == AF_INET6)
    (void)setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  if (!made || bind(made.get(), endpoint.at(), endpoint.length) != 0 ||
      listen(made.get(), backlog) != 0)
    return errno;
  *out = std::move(made);
  return 0;
}

int connectTo(const Endpoint &endpoint, const Endpoint *from, int64_t end, Socket *out) {
  Socket made(socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made || (from && bind(made.get(), from->at(), from->length) != 0))
    return errno;
  if (connect(made.get(), endpoint.at(), endpoint.length) != 0) {
    if (errno != EINPROGRESS)
      return errno;
    if (!waitFor(made.get(), POLLOUT, end))
      return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0)
      return errno;
    if (error != 0)
      return error;
  }
  *out = std::move(made);
  return 0;
}

void keepAlive(int socket, int32_t lostMs) {
  const auto set = [&](int level, int option, int value) {
    // A Unix socket has none of these, and needs none.
    (void)setsockopt(socket, level, option, &value, sizeof value);
  };
  constexpr int kProbes = 3;
  const int interval = std::max(lostMs / 1000 / (kProbes + 1), 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, interval);
  set(IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, lostMs);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

int sendAll(int socket, const void *in, int64_t bytes, int64_t end) {
  for (auto *at = static_cast<const char *>(in); bytes > 0;) {
    const ssize_t sent = send(socket, at, size_t(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!waitFor(socket, POLLOUT, end))
        return kTooLate;
      continue;
    }
    if (sent < 0)
      return errno;
    at += sent;
    bytes -= sent;
  }
  return 0;
}

int receiveAll(int socket, void *out, int64_t bytes, int64_t end) {
  for (auto *at = static_cast<char *>(out); bytes > 0;) {
    const ssize_t got = recv(socket, at, size_t(bytes), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!waitReadable(socket, end))
        return kTooLate;
      continue;
    }
    if (got <= 0)
      return got == 0 ? ECONNRESET : errno;
    at += got;
    bytes -= got;
  }
  return 0;
}

// ---- What Unix sockets can do beside ----

Status sendDescriptor(int socket, int descriptor) {
  char byte = 'd';
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  ssize_t sent;
  do
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && (errno == EINTR || (errno == EAGAIN && waitFor(socket, POLLOUT, INT64_MAX))));
  if (sent == 1)
    return {};
  return {DTILE_UNAVAILABLE,
          format("cannot pass a file descriptor to another process: %s", std::strerror(errno))};
}

int receiveDescriptor(int socket) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
    return -1;
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS)
    return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return descriptor;
}

bool userAtOtherEnd(int socket, uid_t *out) {
  ucred peer = {};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || length != sizeof peer)
    return false;
  *out = peer.uid;
  return true;
}

} // namespace dtile::runtime
