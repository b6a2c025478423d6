// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Jobs of processes of this machine, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace dtile::test {

/// Runs `process(rank)` in so many processes; true when all of them gave true.
inline bool inProcesses(int32_t ranks, const std::function<bool(int32_t)> &process) {
  std::vector<pid_t> children;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    pid_t child = fork();
    if (child == 0)
      _exit(process(rank) ? 0 : 1);
    children.push_back(child);
  }
  bool isFine = true;
  for (pid_t child : children) {
    int state = 0;
    waitpid(child, &state, 0);
    isFine &= WIFEXITED(state) && WEXITSTATUS(state) == 0;
  }
  return isFine;
}

/// A job's name that no other process of this machine has.
inline std::string uniqueName(const char *test) {
  return std::string(test) + "-" + std::to_string(getpid());
}

} // namespace dtile::test
