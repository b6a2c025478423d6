// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What fails on a guarded thread fails there only.
#include "editors/lsp/guard.h"
#include "frontend/base/check.h"
#include "frontend/base/process.h"

#include <gtest/gtest.h>

#include <csignal>

namespace dtile::lsp {
namespace {

TEST(Guard, WhatIsFineRunsToItsEnd) {
  int runs = 0;
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(runGuarded([&] { ++runs; }));
  EXPECT_EQ(runs, 3);
}

TEST(Guard, AFailedCheckLeavesTheCallerAlone) {
  const PhaseScope outer("the caller's phase");
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(runGuarded([] {
      const PhaseScope phase("a phase that never ends");
      DTILE_UNREACHABLE("a mistake of ours");
    }));
    EXPECT_EQ(currentPhase(), "the caller's phase");
  }
  EXPECT_TRUE(runGuarded([] { EXPECT_EQ(currentPhase(), ""); }));
}

TEST(Guard, AccessToNoMemoryIsCaught) {
  EXPECT_FALSE(runGuarded([] { std::raise(SIGSEGV); }));
}

} // namespace
} // namespace dtile::lsp
