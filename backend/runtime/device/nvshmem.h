// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVSHMEM's host library, opened at run time: a job's symmetric heap and the state of the device
// code that was compiled with its bitcode. One process a GPU.
#pragma once

#include "backend/runtime/device/heap_provider.h"
#include "backend/runtime/device/nvshmem_abi.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dtile::runtime {

/// HeapProvider by NVSHMEM.
class Nvshmem final : public HeapProvider {
public:
  /// HeapProviderRow::start; `home` may also be DTILE_NVSHMEM_HOME, or as the loader finds it.
  static Status start(const std::string &home, Device &device, Rendezvous &job, int64_t heapBytes,
                      std::unique_ptr<HeapProvider> *out);

  [[nodiscard]] DeviceAddress heap() const override { return heap_; }
  [[nodiscard]] DeviceAddress peer(int32_t rank) const override { return peers_[size_t(rank)]; }
  [[nodiscard]] int32_t firstUnmapped() const override;
  Status lend(DeviceAddress begin, DeviceAddress end) override;
  [[nodiscard]] Status accepts(int32_t deviceVersion) const override;
  Status attach(ModuleHandle module) override;
  void detach(ModuleHandle module) override;
  void finish() override;

private:
  Nvshmem(Device &device, int32_t rank, int32_t ranks)
      : device_(device), rank_(rank), ranks_(ranks) {}
  Status open(const std::string &home);
  void prepareEnvironment(const Rendezvous &job, int64_t heapBytes) const;
  /// Rank 0's id; fails where ranks do not fit together.
  Status exchangeId(Rendezvous &job, int64_t heapBytes, nvshmem::UniqueId *out);
  /// NVSHMEM waits for all ranks where one of them finds no memory.
  Status tryRoom(int64_t bytes) const;
  Status initialize(nvshmem::UniqueId &id);
  Status allocate(const Rendezvous &job, int64_t bytes);

  Device &device_;
  int32_t rank_, ranks_;
  nvshmem::Functions calls_;
  std::string path_;
  int32_t version_ = 0;
  DeviceAddress heap_ = 0;
  std::vector<DeviceAddress> peers_;
  /// What was lent: ends by begins. No two touch.
  std::map<DeviceAddress, DeviceAddress> lent_;
};

} // namespace dtile::runtime
