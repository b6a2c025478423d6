// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether this process was forked from another one since.
#pragma once

#include <cstdint>
#include <unistd.h>

namespace dtile::runtime {

/// A child has neither the threads nor the network and devices of its parent, so nothing that these
/// serve can be used there, nor be ended. A page that the system wipes in children says so to who
/// reads a word of it: calls need not ask for the process's number each time.
class ForkCheck {
public:
  ForkCheck();
  ~ForkCheck();
  ForkCheck(const ForkCheck &) = delete;
  ForkCheck &operator=(const ForkCheck &) = delete;

  [[nodiscard]] bool isChild() const { return word_ ? *word_ == 0 : getpid() != process_; }

private:
  /// Null where the system has no such pages.
  volatile uint64_t *word_ = nullptr;
  pid_t process_;
};

} // namespace dtile::runtime
