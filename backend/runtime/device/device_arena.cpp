// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/device/device_arena.h"

#include <algorithm>

namespace dtile::runtime {

namespace {
constexpr int64_t kChunkBytes = int64_t(1) << 20;
constexpr int64_t kAlignment = 64;

int64_t rounded(int64_t bytes) {
  return (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}
} // namespace

void DeviceArena::close() {
  for (const Chunk &chunk : chunks_)
    device_->release(chunk.begin);
  chunks_.clear();
  free_.clear();
}

Status DeviceArena::allocate(int64_t bytes, DeviceAddress *out) {
  bytes = rounded(bytes);
  // Launches come with the same few sizes again, so pieces of equal size are enough to look for.
  if (auto pieces = free_.find(bytes); pieces != free_.end() && !pieces->second.empty()) {
    const DeviceAddress piece = pieces->second.back();
    if (Status status = device_->zero(piece, bytes, stream_); !status.ok())
      return status;
    if (Status status = device_->synchronize(stream_); !status.ok())
      return status;
    pieces->second.pop_back();
    *out = piece;
    return {};
  }
  if (chunks_.empty() || chunks_.back().used + bytes > chunks_.back().bytes) {
    Chunk chunk = {0, std::max(bytes, kChunkBytes), 0};
    if (Status status = device_->allocate(chunk.bytes, &chunk.begin); !status.ok())
      return status;
    chunks_.push_back(chunk);
    if (Status status = device_->zero(chunk.begin, chunk.bytes, stream_); !status.ok())
      return status;
    if (Status status = device_->synchronize(stream_); !status.ok())
      return status;
  }
  *out = chunks_.back().begin + DeviceAddress(chunks_.back().used);
  chunks_.back().used += bytes;
  return {};
}

void DeviceArena::release(DeviceAddress address, int64_t bytes) {
  free_[rounded(bytes)].push_back(address);
}

Status DeviceArena::zeroAll() {
  for (const Chunk &chunk : chunks_)
    if (Status status = device_->zero(chunk.begin, chunk.bytes, stream_); !status.ok())
      return status;
  return device_->synchronize(stream_);
}

} // namespace dtile::runtime
