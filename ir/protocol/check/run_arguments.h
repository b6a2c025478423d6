// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments of a launch that nobody fills: what the checker runs kernels on. Private to
// ir/protocol.
#pragma once

#include "ir/interpret/interpreter.h"
#include "ir/protocol/check/launch_sizes.h"

namespace dtile::protocol {

/// Memory of the arguments of one run, zeros that take up no room until they are written.
class RunArguments {
public:
  RunArguments() = default;
  RunArguments(const RunArguments &) = delete;
  ~RunArguments();
  /// Makes the arguments of a kernel; false where a size is not known or too large.
  [[nodiscard]] bool make(ir::Op &kernel, const LaunchSizes &sizes, const SizeValues &values,
                          int ranks, interpret::Machine &machine);

  std::vector<std::vector<interpret::Arg>> ofRank;
  /// Inputs for which no elements were found that are as the kernel's clauses say.
  std::vector<const ir::Op *> unfilled;

private:
  bool makeTensor(ir::Op &param, std::vector<int64_t> sizes, interpret::Machine &machine);
  std::vector<std::pair<void *, size_t>> owned_;
};

} // namespace dtile::protocol
