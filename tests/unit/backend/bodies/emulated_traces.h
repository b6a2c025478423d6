// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What emulated ranks record, where runs are traced.
#pragma once

#include "backend/gpu/gpu_module.h"
#include "backend/runtime/clock.h"
#include "backend/runtime/device/trace/trace_regions.h"
#include "backend/runtime/trace/device_trace.h"

#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace dtile::backend::gpu::testing {

class EmulatedTraces {
public:
  /// 0: no longer.
  void begin(int64_t events) {
    trace_ = events > 0 ? std::make_unique<runtime::DeviceTrace>(events) : nullptr;
    ranks_.clear();
    signals_.clear();
  }
  [[nodiscard]] bool isOn() const { return trace_ != nullptr; }
  [[nodiscard]] const runtime::DeviceTrace &trace() const { return *trace_; }

  /// A signal has been made on a rank.
  void addSignal(uint64_t *cells, int32_t ndim, const int64_t *size) {
    runtime::TracedCell &signal = signals_[cells];
    signal.ndim = ndim;
    std::copy(size, size + ndim, signal.size);
  }

  /// Before a launch of so many programs on a rank whose heap is there.
  [[nodiscard]] dtile_device_trace *queue(int32_t rank, int32_t programs, const void *heap) {
    if (!trace_)
      return nullptr;
    Rank &own = ranks_[rank];
    own.heap = static_cast<const char *>(heap);
    own.regions = runtime::TraceRegions(programs, trace_->mostEvents());
    own.memory.resize(size_t(own.regions.bytes() + 7) / 8);
    const auto address = reinterpret_cast<uint64_t>(own.memory.data());
    const std::vector<char> head = own.regions.head(address);
    std::memcpy(own.memory.data(), head.data(), head.size());
    const int64_t now = runtime::nowNs();
    trace_->queued(rank, kKernelId, now, now);
    return reinterpret_cast<dtile_device_trace *>(own.memory.data());
  }

  /// All of them have ended.
  void read(ir::Op &kernel, llvm::ArrayRef<GpuModule::Site> sites) {
    if (!trace_)
      return;
    const auto names = namesOf(kernel, sites);
    const int64_t now = runtime::nowNs();
    for (auto &[number, rank] : ranks_) {
      const char *memory = reinterpret_cast<const char *>(rank.memory.data());
      std::vector<char> head(memory, memory + rank.regions.headBytes());
      std::vector<runtime::TracedEvent> events;
      int64_t dropped = 0;
      for (const auto &region : rank.regions.recorded(head, &dropped))
        for (uint32_t i = 0; i < region.count; ++i) {
          runtime::TracedEvent &traced = events.emplace_back();
          std::memcpy(&traced.event, memory + region.at + i * sizeof traced.event,
                      sizeof traced.event);
          traced.kernel = names;
          traced.program = region.program;
          traced.recorder = region.recorder;
          if (runtime::DeviceTrace::isOfCell(traced.event))
            traced.cell = cellAt(rank, traced.event.words[0]);
        }
      trace_->add(number, /*clock=*/0, now, std::move(events), dropped);
    }
  }

  static constexpr uint64_t kKernelId = 17;

private:
  struct Rank {
    const char *heap = nullptr;
    runtime::TraceRegions regions;
    std::vector<uint64_t> memory;
  };

  [[nodiscard]] runtime::TracedCell cellAt(const Rank &rank, int64_t word) const {
    auto *address = reinterpret_cast<uint64_t *>(word);
    const auto behind = signals_.upper_bound(address);
    runtime::TracedCell cell;
    if (behind != signals_.begin()) {
      cell = std::prev(behind)->second;
      cell.number = address - std::prev(behind)->first;
    }
    cell.offset = reinterpret_cast<const char *>(address) - rank.heap;
    return cell;
  }

  static std::shared_ptr<const runtime::TracedKernel>
  namesOf(ir::Op &kernel, llvm::ArrayRef<GpuModule::Site> sites) {
    std::vector<runtime::TracedKernel::Space> spaces;
    for (ir::Op &op : kernel.body().ops())
      if (op.is(ir::OpKind::Space))
        spaces.push_back({op.get(ir::attr::name).str(), op.get(ir::attr::vars)});
    std::vector<runtime::TracedSite> places;
    for (const GpuModule::Site &site : sites)
      places.push_back({"k.dtir", site.what, int32_t(places.size()) + 1, 1});
    return std::make_shared<runtime::TracedKernel>(kernel.get(ir::attr::name).str(), "k.dtir", "",
                                                   std::move(spaces), std::move(places));
  }

  std::unique_ptr<runtime::DeviceTrace> trace_;
  std::map<int32_t, Rank> ranks_;
  std::map<uint64_t *, runtime::TracedCell> signals_;
};

} // namespace dtile::backend::gpu::testing
