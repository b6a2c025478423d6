// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontend/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace dtile {

void inParallel(size_t count, llvm::function_ref<void(size_t)> work) {
  std::atomic<size_t> next = 0;
  const auto workOn = [&] {
    for (size_t i = next++; i < count; i = next++)
      work(i);
  };
  // This thread is one of them.
  std::vector<std::thread> others;
  const size_t most = std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), count);
  while (others.size() + 1 < most)
    others.emplace_back(workOn);
  workOn();
  for (std::thread &other : others)
    other.join();
}

} // namespace dtile
