// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the ranks of the emulated device are: on one host, or, where the build says so, on two of
// which one maps the heaps of its own ranks only.
#pragma once

#include "ir/core/ir.h"

#ifdef DTILE_EMULATED_HOSTS
#include "tests/unit/stdlib/far_network.h"
#endif

#include <string>
#include <vector>

namespace dtile::backend::gpu::testing {

#ifdef DTILE_EMULATED_HOSTS

constexpr bool kAreMapped = false;

inline bool sends(const ir::Op &kernel) {
  bool found = false;
  ir::walk(kernel.body(), [&](const ir::Op &op) {
    for (const ir::Value *operand : op.operands())
      found |= operand->type().isRemote() && !op.is(ir::OpKind::ViewSlice);
  });
  return found;
}

/// Opened with the heaps of all ranks. There is one host where two would refuse the kernel.
class Hosts {
public:
  Hosts(const ir::Op &kernel, bool wantsMapped) : isFar_(!wantsMapped && sends(kernel)) {}
  void open(const std::vector<void *> &heaps, size_t bytes, unsigned seed) {
    const int ranks = int(heaps.size());
    isFar_ = isFar_ && ranks > 1;
    test::openFarNetwork(heaps, bytes, isFar_ ? ranks / 2 : ranks, seed);
  }
  static void step() { test::stepFarNetwork(); }
  /// After a launch, when its inputs may be written.
  static std::string leftBehind() {
    return test::areFarSourcesInUse() ? "a launch ends before what it sent has been read" : "";
  }
  [[nodiscard]] std::string problem() const {
    return isFar_ && test::farMessages() == 0 ? "nothing was sent between hosts" : "";
  }

private:
  bool isFar_;
};

#else

constexpr bool kAreMapped = true;

struct Hosts {
  Hosts(const ir::Op &, bool) {}
  static void open(const std::vector<void *> &, size_t, unsigned) {}
  static void step() {}
  static std::string leftBehind() { return ""; }
  [[nodiscard]] static std::string problem() { return ""; }
};

#endif

} // namespace dtile::backend::gpu::testing
