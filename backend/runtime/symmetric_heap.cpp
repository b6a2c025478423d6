// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Best fit over ordered gaps: few objects, allocated rarely, so clarity and determinism go before
// speed.
#include "backend/runtime/symmetric_heap.h"

#include "backend/runtime/errors.h"

#include <algorithm>
#include <limits>

namespace dtile::runtime {

SymmetricHeap::SymmetricHeap(int64_t begin, int64_t end) {
  begin = (begin + kAlignment - 1) / kAlignment * kAlignment;
  if (begin < end)
    gaps_[begin] = end - begin;
}

int64_t SymmetricHeap::allocate(int64_t bytes) {
  if (bytes < 0 || bytes > std::numeric_limits<int64_t>::max() - kAlignment)
    return -1;
  int64_t rounded = (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap)
    if (gap->second >= rounded && (best == gaps_.end() || gap->second < best->second))
      best = gap;
  if (best == gaps_.end())
    return -1;
  auto [offset, room] = *best;
  gaps_.erase(best);
  if (room > rounded)
    gaps_[offset + rounded] = room - rounded;
  objects_[offset] = rounded;
  usedBytes_ += rounded;
  return offset;
}

int64_t SymmetricHeap::sizeAt(int64_t offset) const {
  auto object = objects_.find(offset);
  return object == objects_.end() ? -1 : object->second;
}

bool SymmetricHeap::release(int64_t offset) {
  auto object = objects_.find(offset);
  if (object == objects_.end())
    return false;
  int64_t bytes = object->second;
  usedBytes_ -= bytes;
  objects_.erase(object);
  auto after = gaps_.lower_bound(offset);
  if (after != gaps_.end() && after->first == offset + bytes) {
    bytes += after->second;
    after = gaps_.erase(after);
  }
  if (after != gaps_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return true;
    }
  }
  gaps_[offset] = bytes;
  return true;
}

int64_t CallersObjects::bytesAt(int64_t offset) const {
  auto found = bytes_.find(offset);
  return found == bytes_.end() ? -1 : found->second;
}

int64_t CallersObjects::bytes(int64_t end) const {
  constexpr int64_t kAlign = SymmetricHeap::kAlignment;
  int64_t sum = 0;
  for (auto [offset, bytes] : bytes_)
    if (offset < end)
      sum += (std::max<int64_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
  return sum;
}

std::string CallersObjects::check(int64_t offset, int64_t bytes) const {
  auto next = bytes_.upper_bound(offset);
  // What was asked for with no bytes holds none.
  const bool isInside =
      next != bytes_.begin() && offset < std::prev(next)->first + std::prev(next)->second;
  if (!isInside)
    return "the data is in the symmetric heap, but in no object that dtile_symm_alloc has given, "
           "or in one that was freed";
  auto [begin, given] = *std::prev(next);
  if (bytes <= given - (offset - begin))
    return {};
  return format("the data is %lld bytes, %lld behind the begin of a symmetric object of %lld "
                "bytes: it goes past its end",
                static_cast<long long>(bytes), static_cast<long long>(offset - begin),
                static_cast<long long>(given));
}

uint64_t CallersObjects::hash() const {
  uint64_t hash = 0xcbf29ce484222325u;
  for (auto [offset, bytes] : bytes_)
    for (auto word : {uint64_t(offset), uint64_t(bytes)})
      hash = (hash ^ word) * 0x100000001b3u;
  return hash;
}

} // namespace dtile::runtime
