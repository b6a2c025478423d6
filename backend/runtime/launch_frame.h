// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The frame of a launch on one rank: what the kernel's prologue fills and its bodies read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace dtile::runtime {

constexpr int64_t kFrameAlignment = 64;

/// The bytes to allocate for a frame of `frameBytes`: whole cache lines, at least one.
constexpr int64_t roomOfFrame(int64_t frameBytes) {
  return (std::max<int64_t>(frameBytes, 1) + kFrameAlignment - 1) / kFrameAlignment *
         kFrameAlignment;
}

struct FreeFrame {
  void operator()(void *frame) const { std::free(frame); }
};
using LaunchFrame = std::unique_ptr<void, FreeFrame>;

/// A frame of zeros; null where there is no memory.
[[nodiscard]] inline LaunchFrame makeFrame(int64_t frameBytes) {
  const auto room = size_t(roomOfFrame(frameBytes));
  LaunchFrame frame(std::aligned_alloc(kFrameAlignment, room));
  if (frame)
    std::memset(frame.get(), 0, room);
  return frame;
}

} // namespace dtile::runtime
