// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A port of this machine for jobs of tests.
#pragma once

#include "backend/runtime/job/sockets.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <netinet/in.h>
#include <sys/socket.h>

namespace dtile::test {

/// A TCP port of the loopback interface that nobody listens at.
inline int32_t freePort() {
  runtime::Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr *>(&address), length), 0);
  EXPECT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address), &length), 0);
  return ntohs(address.sin_port);
}

} // namespace dtile::test
