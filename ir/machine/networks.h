// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What joins ranks: the links inside of a host, by machine, and the networks between hosts. Tables
// of networks.cpp; numbers are of one GPU and one direction.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace dtile {

/// The ranks of one host, which reach each other without a network: rate and latency of their links
/// are Timing::linkRate and peerLatency.
struct HostFacts {
  /// As TargetFacts::name.
  llvm::StringLiteral machine;
  int32_t ranks = 8;
};

/// A network with one NIC for each GPU.
struct NetworkFacts {
  /// Its name in `--machine`, after that of the machine.
  llvm::StringLiteral name;
  llvm::StringLiteral description;
  /// Bytes a nanosecond.
  double rate = 0;
  /// Nanoseconds from the request of a program until the first byte is in the peer's memory.
  double latency = 0;
  /// Nanoseconds of the NIC for a message, however short, and of the program that asks for it.
  double message = 0;
};

/// The host that machines of this kind come in, or null.
[[nodiscard]] const HostFacts *findHost(llvm::StringRef machine);

[[nodiscard]] llvm::ArrayRef<NetworkFacts> allNetworks();
/// The network of a name, or null.
[[nodiscard]] const NetworkFacts *findNetwork(llvm::StringRef name);

} // namespace dtile
