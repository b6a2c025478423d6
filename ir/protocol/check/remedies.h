// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What would mend a finding, by places of the text. Who has the syntax makes edits of it.
#pragma once

#include "frontend/base/source_manager.h"

#include <cstdint>
#include <string>
#include <variant>

namespace dtile::protocol {

/// Two operations of a body, one of which is to be `after` the other.
struct MissingOrder {
  /// The notify at `signal` is to be after the transfer at `access`; else the access is to be after
  /// the wait at `signal`.
  bool isOfNotify = false;
  SourceLoc access;
  SourceLoc signal;
};

/// A read of a peer's memory, and the name of the signal that is to say that it is over.
struct MissingSignal {
  std::string object;
  std::string signal;
  SourceLoc read;
};

/// A wait for more notifies than there are: as many as there are would be enough.
struct LargeCount {
  SourceLoc wait;
};

/// A notify that others wait for, and that comes only after a wait for these.
struct LateNotify {
  SourceLoc notify;
  SourceLoc wait;
};

/// A size that ends a copied block early.
struct ShortSize {
  std::string size;
  int64_t length = 0;
};

/// A write of an object that leaves out a part of it: "all[3, 0..64]" of rank 3.
struct LeftOutPart {
  SourceLoc write;
  std::string region;
  int rank = 0;
};

using Remedy =
    std::variant<MissingOrder, MissingSignal, LargeCount, LateNotify, ShortSize, LeftOutPart>;

} // namespace dtile::protocol
