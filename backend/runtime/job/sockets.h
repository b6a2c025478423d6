// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sockets of a job's processes, Unix and TCP, with a deadline for whatever may wait.
#pragma once

#include "backend/runtime/errors.h"

#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace dtile::runtime {

/// Owns a file descriptor.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { reset(); }
  Socket(Socket &&other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  void reset();
  [[nodiscard]] int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

private:
  int descriptor_ = -1;
};

/// An address of a socket.
struct Endpoint {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr *at() const { return reinterpret_cast<const sockaddr *>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
  /// `10.0.0.1:29501`, `[fe80::1]:29501`, or the name of a Unix socket.
  [[nodiscard]] std::string text() const;
  /// Its address by numbers, without the port.
  [[nodiscard]] std::string host() const;
  /// The same host, whatever the port.
  [[nodiscard]] bool hasSameAddress(const Endpoint &other) const;
};

/// An abstract name, which belongs to no file, so that nothing is left behind by a process that
/// dies. Seen within one network namespace only.
Endpoint unixEndpoint(const std::string &name);
/// All addresses of a host's name or number, or of several with commas between.
Status resolve(const std::string &host, int32_t port, std::vector<Endpoint> *out);
/// Of this host's network interfaces, or of the one so named.
Status localEndpoints(const std::string &interface, std::vector<Endpoint> *out);

/// At which a socket listens.
int32_t portOf(int socket);
/// Milliseconds from now to a time of nowNs(), 0 where it has passed.
int millisecondsLeft(int64_t end);
/// Whether there is something to read, or an end, before the time.
bool waitReadable(int socket, int64_t end);

/// Listens there. An errno, 0 where it does.
int listenAt(const Endpoint &endpoint, int backlog, Socket *out);
/// An errno, 0 where it is connected. `from`: the own address, or null.
int connectTo(const Endpoint &endpoint, const Endpoint *from, int64_t end, Socket *out);
/// Small messages go at once, and the end of a host out of reach is noticed within `lostMs`.
void keepAlive(int socket, int32_t lostMs);

/// What is told apart from the errno of a connection that the system has given up.
constexpr int kTooLate = -1;
/// All bytes before the time: 0, kTooLate, or an errno, which is ECONNRESET at the end of the
/// stream.
int sendAll(int socket, const void *in, int64_t bytes, int64_t end);
int receiveAll(int socket, void *out, int64_t bytes, int64_t end);

/// A descriptor passed over a Unix socket.
Status sendDescriptor(int socket, int descriptor);
/// -1: none came.
int receiveDescriptor(int socket);
/// The user whose process is at the other end of a Unix socket.
bool userAtOtherEnd(int socket, uid_t *out);

} // namespace dtile::runtime
