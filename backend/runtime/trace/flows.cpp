// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A cell only grows, so the notify that satisfied a wait is the one that brought the cell to what
// was wanted. Each notify has recorded what the cell held before it. Where two notifies overlap
// they may have read the same, and the one that began first counts as the first.
#include "backend/runtime/trace/flows.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

namespace dtile::runtime {

namespace {

/// A notify of a cell, and what it brought the cell to.
struct Update {
  const TraceRecord *notify;
  uint64_t before;
  uint64_t after = 0;
};

bool isFurther(const TraceRecord &record) { return record.kind == TraceKind::FurtherCell; }

void countUpdates(std::vector<Update> &updates) {
  std::sort(updates.begin(), updates.end(),
            [](const Update &a, const Update &b) { return a.notify->begin < b.notify->begin; });
  const Update *previous = nullptr;
  for (Update &update : updates) {
    update.after = update.before + 1;
    const bool overlaps = previous && update.notify->begin <= previous->notify->end;
    if (overlaps && update.after <= previous->after)
      update.after = previous->after + 1;
    previous = &update;
  }
}

/// The last update to `wanted` that began before `end`: cells begin again at zero after failures.
const TraceRecord *updateTo(const std::vector<Update> &updates, uint64_t wanted, int64_t end) {
  for (auto it = updates.rbegin(); it != updates.rend(); ++it)
    if (it->after == wanted && it->notify->begin <= end)
      return it->notify;
  return nullptr;
}

} // namespace

std::vector<size_t> findOwners(const std::vector<const TraceRecord *> &records) {
  std::vector<size_t> owners(records.size());
  // Further cells come after theirs among the records of their task, which may be in two chunks.
  std::unordered_map<int32_t, size_t> last;
  for (size_t i = 0; i < records.size(); ++i) {
    owners[i] = i;
    if (records[i]->kind == TraceKind::Launch)
      continue;
    if (!isFurther(*records[i]))
      last[records[i]->task] = i;
    else if (auto it = last.find(records[i]->task); it != last.end())
      owners[i] = it->second;
  }
  return owners;
}

std::vector<const TraceRecord *> findWriters(const std::vector<const TraceRecord *> &records) {
  const std::vector<size_t> owners = findOwners(records);
  std::map<const void *, std::vector<Update>, std::less<>> cells;
  for (size_t i = 0; i < records.size(); ++i)
    if (const TraceRecord *owner = records[owners[i]]; owner->kind == TraceKind::Notify)
      cells[records[i]->cell.address].push_back({owner, records[i]->cell.value});
  for (auto &[cell, updates] : cells)
    countUpdates(updates);
  std::vector<const TraceRecord *> writers(records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    const TraceRecord &wait = *records[owners[i]];
    if (wait.kind != TraceKind::Wait || wait.isUnfinished)
      continue;
    const auto updates = cells.find(records[i]->cell.address);
    const TraceRecord *found = updates == cells.end()
                                   ? nullptr
                                   : updateTo(updates->second, records[i]->cell.value, wait.end);
    const TraceRecord *&writer = writers[owners[i]];
    if (found && (!writer || found->end > writer->end))
      writer = found;
  }
  return writers;
}

} // namespace dtile::runtime
