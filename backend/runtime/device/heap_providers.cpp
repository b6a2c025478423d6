// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of heap_provider.h: a row a library.
#include "backend/runtime/device/heap_provider.h"
#include "backend/runtime/device/nvshmem.h"

namespace dtile::runtime {

namespace {

constexpr HeapProviderRow kRows[] = {
    {.name = "nvshmem", .target = "nvptx", .vendor = "NVIDIA", .start = Nvshmem::start},
};

} // namespace

const HeapProviderRow *findHeapProvider(const std::string &name) {
  for (const HeapProviderRow &row : kRows)
    if (name == row.name)
      return &row;
  return nullptr;
}

std::string heapProviderNames() {
  std::string names = kPeerToPeer;
  for (const HeapProviderRow &row : kRows)
    names += std::string(&row == std::end(kRows) - 1 ? " and " : ", ") + row.name;
  return names;
}

const HeapProviderRow *providerBetweenHosts(const std::string &target) {
  for (const HeapProviderRow &row : kRows)
    if (target == row.target)
      return &row;
  return nullptr;
}

} // namespace dtile::runtime
