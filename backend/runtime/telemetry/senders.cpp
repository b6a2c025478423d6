// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/telemetry/senders.h"

#include "backend/runtime/text/report.h"

namespace dtile::runtime::telemetry {

Senders sendersOf(const dtile_kernel_desc &desc, int32_t signal) {
  Senders senders;
  const dtile_notify_desc *first = nullptr;
  bool isOne = true;
  for (int32_t s = 0; s < desc.nspaces; ++s) {
    const dtile_space_desc &space = desc.spaces[s];
    bool notifies = false;
    for (int32_t i = 0; i < space.nnotifies; ++i) {
      const dtile_notify_desc &notify = space.notifies[i];
      if (notify.param != signal)
        continue;
      notifies = true;
      if (!first)
        first = &notify;
      isOne &= first->from == notify.from && first->value == notify.value;
    }
    if (notifies)
      senders.roles += (senders.roles.empty() ? "" : ",") + std::string(space.name);
  }
  if (!first)
    return senders;
  senders.place = siteText(first->site);
  if (isOne) {
    senders.from = first->from;
    senders.value = first->value;
  }
  return senders;
}

void findSender(int32_t from, int64_t value, int32_t rank, int32_t ranks, Wait &wait) {
  wait.from = From::Anybody;
  wait.fromRank = -1;
  int64_t sender = -1;
  if (from == DTILE_FROM_POSITION && value < wait.cellDims)
    sender = wait.cell[value];
  else if (from == DTILE_FROM_BEFORE)
    sender = ((rank - value) % ranks + ranks) % ranks;
  if (sender < 0 || sender >= ranks)
    return;
  wait.from = From::Rank;
  wait.fromRank = int32_t(sender);
}

} // namespace dtile::runtime::telemetry
