// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The copy engines of emulated devices: lists of transfers, as launches make them, and the copies
// that follow from them.
#pragma once

#include "backend/gpu/engine_copies.h"
#include "backend/runtime/arguments/regions.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dtile::backend::gpu::testing {

class EmulatedEngine {
public:
  struct Copy {
    void *to;
    const void *from;
    size_t bytes;
  };
  /// Of spaces that leave transfers to it: the number, and what the function is called that lists.
  using Lists = std::vector<std::pair<unsigned, std::string>>;

  /// Emits the functions of a kernel.
  static Lists lower(launch::LaunchModule &module, const launch::Frame &frame, ir::Op &kernel) {
    Lists lists;
    unsigned number = 0;
    for (ir::Op &op : kernel.body().ops()) {
      if (!op.is(ir::OpKind::Space))
        continue;
      const std::string name = "engine" + std::to_string(number);
      if (op.get(ir::attr::engine_copies)) {
        lists.emplace_back(number, name);
        for (llvm::Function *function : {lowerEngineCopies(module, frame, op, name),
                                         launch::lowerCount(module, frame, op, name + ".count")})
          function->setLinkage(llvm::GlobalValue::ExternalLinkage);
      }
      ++number;
    }
    return lists;
  }

  /// Finds them, for ranks with these heaps.
  void open(llvm::orc::LLJIT &jit, const Lists &lists, const std::vector<void *> &heaps,
            size_t bytes) {
    *this = {};
    for (void *heap : heaps)
      heaps_.push_back(static_cast<char *>(heap));
    heapBytes_ = bytes;
    for (const auto &[number, name] : lists) {
      spaces_ |= 1u << number;
      lists_.emplace_back(llvm::cantFail(jit.lookup(name)).toPtr<List>(),
                          llvm::cantFail(jit.lookup(name + ".count")).toPtr<Count>());
    }
  }
  [[nodiscard]] bool isUsed() const { return spaces_ != 0; }
  [[nodiscard]] uint32_t spaces() const { return spaces_; }
  void addSignal(uint64_t *cells, size_t count, uint64_t *word) { signals_[cells] = {count, word}; }

  /// What the bodies of one rank's launch send.
  void list(void *launch, const void *frame) {
    copies_.emplace_back();
    for (const auto &[list, count] : lists_)
      for (int64_t body = 0; body < count(frame); ++body)
        list(launch, frame, body);
  }
  void put(const dtile_region &source, const dtile_region &target) {
    const runtime::RunPlan plan = runtime::planRuns(source, target);
    const auto *from = static_cast<const char *>(source.data);
    char *to = atPeer(target.data, target.rank);
    if (to)
      runtime::forEachRun(plan, [&](int64_t a, int64_t b) {
        copies_.back().push_back({to + b, from + a, size_t(plan.runBytes)});
      });
  }
  void notify(const dtile_region &cells) {
    runtime::forEachElement(cells, cells.data, [&](char *address) {
      auto *cell = reinterpret_cast<uint64_t *>(address);
      const auto after = signals_.upper_bound(cell);
      const auto signal = after == signals_.begin() ? signals_.end() : std::prev(after);
      if (signal == signals_.end() || cell >= signal->first + signal->second.first)
        problem = "a cell of no signal is told";
      else if (char *to = atPeer(address, cells.rank))
        copies_.back().push_back({to, signal->second.second, sizeof(uint64_t)});
      return true;
    });
  }
  /// The copies of each rank, in order.
  [[nodiscard]] std::vector<std::vector<Copy>> take() { return std::exchange(copies_, {}); }

  /// What was wrong.
  std::string problem;

private:
  using List = void (*)(void *launch, const void *frame, int64_t body);
  using Count = int64_t (*)(const void *frame);

  /// The same place of a peer's heap; null where that is the rank itself.
  [[nodiscard]] char *atPeer(void *own, int32_t rank) const {
    auto *place = static_cast<char *>(own);
    for (char *heap : heaps_)
      if (place >= heap && place < heap + heapBytes_ && heap != heaps_[size_t(rank)])
        return heaps_[size_t(rank)] + (place - heap);
    return nullptr;
  }

  std::vector<char *> heaps_;
  size_t heapBytes_ = 0;
  uint32_t spaces_ = 0;
  std::vector<std::pair<List, Count>> lists_;
  /// By their first cells: how many they have, and the word that is written to them.
  std::map<uint64_t *, std::pair<size_t, uint64_t *>> signals_;
  std::vector<std::vector<Copy>> copies_;
};

} // namespace dtile::backend::gpu::testing
