// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory of others as symmetric objects of processors. What bodies do to another rank's memory goes
// through the runtime, which knows where each rank has its part.
#include "backend/runtime/host/team.h"

#include <algorithm>

namespace dtile::runtime {

Status HostTeam::symmRegister(void *const *pointers, int64_t bytes) {
  if (!broken_.ok())
    return brokenStatus();
  if (distributed())
    return {DTILE_UNAVAILABLE, "dtile_symm_register: the memory of processes that OpenSHMEM "
                               "connects is OpenSHMEM's own"};
  if (!pointers || bytes <= 0)
    return {DTILE_INVALID, "dtile_symm_register: the pointers are null, or there are no bytes"};
  std::lock_guard lock(memory_);
  RegisteredRange range;
  range.bytes = bytes;
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    auto *const at = static_cast<char *>(pointers[rank]);
    if (!at)
      return {DTILE_INVALID, format("dtile_symm_register: the pointer of rank %d is null", rank)};
    const auto overlaps = [&](const char *other, int64_t otherBytes) {
      return at < other + otherBytes && other < at + bytes;
    };
    const auto isTaken = [&](const RegisteredRange &other) {
      return std::any_of(other.pointers.begin(), other.pointers.end(),
                         [&](const char *one) { return overlaps(one, other.bytes); });
    };
    if (isTaken(range) || std::any_of(registered_.begin(), registered_.end(), isTaken))
      return {DTILE_INVALID, format("dtile_symm_register: the memory of rank %d, or a part of it, "
                                    "is registered already, or another rank's",
                                    rank)};
    for (int32_t other = 0; other < ranks(); ++other)
      if (overlaps(heapOf(other), heapBytes()))
        return {DTILE_INVALID, format("dtile_symm_register: the memory of rank %d is in the "
                                      "symmetric heap, and so symmetric as it is",
                                      rank)};
    range.pointers.push_back(at);
  }
  registered_.push_back(std::move(range));
  return {};
}

Status HostTeam::symmUnregister(void *address) {
  if (!broken_.ok())
    return brokenStatus();
  std::lock_guard lock(memory_);
  const auto found =
      std::find_if(registered_.begin(), registered_.end(), [&](const RegisteredRange &range) {
        return range.pointers[size_t(firstLocal())] == address;
      });
  if (found == registered_.end())
    return {DTILE_INVALID, "dtile_symm_unregister: nothing was registered at this address, or it "
                           "was unregistered already"};
  // Calls to launch return when all ranks have ended: nobody uses it.
  for (int32_t local = 0; local < localCount(); ++local) {
    const int64_t begin = found->pointers[size_t(local)] - heapOf(firstLocal() + local);
    turned_[size_t(local)].release(begin, begin + found->bytes);
  }
  registered_.erase(found);
  return {};
}

char *HostTeam::registeredAt(const void *address, int32_t rank, int32_t other) const {
  const auto *at = static_cast<const char *>(address);
  for (const RegisteredRange &range : registered_) {
    const char *begin = range.pointers[size_t(rank)];
    if (at >= begin && at < begin + range.bytes)
      return range.pointers[size_t(other)] + (at - begin);
  }
  return nullptr;
}

std::string HostTeam::checkRegistered(int32_t rank, const TensorSpan &span,
                                      const dtile_tensor *first) const {
  for (const RegisteredRange &range : registered_) {
    const auto begin = reinterpret_cast<uint64_t>(range.pointers[size_t(rank)]);
    if (span.begin < begin || span.begin >= begin + uint64_t(range.bytes))
      continue;
    if (span.end > begin + uint64_t(range.bytes))
      return format("the data is %lld bytes, %lld behind the begin of registered memory of %lld "
                    "bytes: it goes past its end",
                    static_cast<long long>(span.end - span.begin),
                    static_cast<long long>(span.begin - begin),
                    static_cast<long long>(range.bytes));
    if (first && first->data &&
        registeredAt(first->data, firstLocal(), rank) != reinterpret_cast<char *>(span.begin))
      return "the object is at another place of the registered memory than on the first rank";
    return {};
  }
  return "the data is not in this rank's symmetric heap: allocate it by dtile_symm_alloc, and pass "
         "dtile_symm_address of the rank; or register it by dtile_symm_register";
}

} // namespace dtile::runtime
