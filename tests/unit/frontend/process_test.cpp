// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a process ends that cannot go on: a message with a code, and exit code 1.
#include "frontend/base/process.h"

#include "frontend/base/check.h"

#include <gtest/gtest.h>

#include <new>
#include <string>
#include <thread>

namespace dtile {
namespace {

TEST(ProcessDeathTest, memory_that_runs_out_has_a_code) {
  EXPECT_EXIT(
      {
        setUpProcess();
        PhaseScope phase("counting sheep");
        (void)::operator new(SIZE_MAX / 2);
      },
      testing::ExitedWithCode(1),
      "^error: out of memory \\(counting sheep\\); smaller sizes need less \\[E0731\\]\n$");
  EXPECT_EXIT(
      {
        setUpProcess();
        setLastWords(DiagnosticForm::Json);
        (void)::operator new(SIZE_MAX / 2);
      },
      testing::ExitedWithCode(1), "^.\\{\"code\":\"E0731\",.*\"message\":\"out of memory; smaller");
}

TEST(ProcessDeathTest, exceptions_of_libraries_have_a_code) {
  EXPECT_EXIT(
      {
        setUpProcess();
        // What leaves a thread is caught by nobody.
        std::thread([] { (void)std::string("x").at(9); }).join();
      },
      testing::ExitedWithCode(1),
      "^error: .*at.* \\[" + std::string(diagInfo(diag::library_failed).code) + "\\]\n$");
}

} // namespace
} // namespace dtile
