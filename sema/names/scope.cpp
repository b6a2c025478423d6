// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Block scopes and spelling suggestions.
#include "sema/names/scope.h"

namespace dtile::sema {

void Scope::pop(llvm::function_ref<void(Symbol &)> leave) {
  std::vector<Entry> frame = std::move(frames_.back());
  frames_.pop_back();
  for (const Entry &entry : frame)
    leave(*entry.symbol);
  for (auto it = frame.rbegin(); it != frame.rend(); ++it)
    names_[it->symbol->name] = it->hidden;
}

Symbol *Scope::lookup(llvm::StringRef name) const { return names_.lookup(name); }

Symbol &Scope::declare(Symbol symbol) {
  symbol.depth = frames_.size();
  auto *owned = new (symbols_.Allocate()) Symbol(std::move(symbol));
  Symbol *&current = names_[owned->name];
  frames_.back().push_back({owned, current});
  current = owned;
  return *owned;
}

void Scope::forEachName(llvm::function_ref<void(llvm::StringRef)> visit) const {
  for (const auto &frame : frames_)
    for (const Entry &entry : frame)
      visit(entry.symbol->name);
}

// Two neighbours that changed places are one slip.
static bool isOneExchange(llvm::StringRef a, llvm::StringRef b) {
  if (a.size() != b.size())
    return false;
  const size_t at = size_t(llvm::mismatch(a, b).first - a.begin());
  return at + 1 < a.size() && a[at] == b[at + 1] && a[at + 1] == b[at] &&
         a.drop_front(at + 2) == b.drop_front(at + 2);
}

void SpellingSuggestion::consider(llvm::StringRef candidate) {
  const unsigned limit = written_.size() <= 5 ? 1 : written_.size() <= 8 ? 2 : 3;
  if (candidate == written_ || candidate.size() > written_.size() + limit ||
      written_.size() > candidate.size() + limit)
    return;
  unsigned distance = written_.edit_distance(candidate, /*AllowReplacements=*/true, limit);
  // Another case of the same letters is as good as one slip.
  if (written_.equals_insensitive(candidate) || isOneExchange(written_, candidate))
    distance = std::min(distance, 1u);
  // Who slips rarely does so in the first letter: short words that differ there are others.
  const bool hasSameStart = !written_.empty() && !candidate.empty() &&
                            (llvm::toLower(written_[0]) == llvm::toLower(candidate[0]) ||
                             (distance <= 1 && written_.size() > 4));
  if (!hasSameStart && !isOneExchange(written_, candidate))
    return;
  // A name of one or two letters is near to everything.
  if (distance > limit || distance >= written_.size() || distance >= candidate.size())
    return;
  if (distance < distance_ || (distance == distance_ && candidate < best_)) {
    distance_ = distance;
    best_ = candidate.str();
  }
}

} // namespace dtile::sema
