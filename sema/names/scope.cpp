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

void SpellingSuggestion::consider(llvm::StringRef candidate) {
  const unsigned limit = written_.size() <= 3 ? 1 : written_.size() <= 7 ? 2 : 3;
  if (candidate == written_ || candidate.size() > written_.size() + limit ||
      written_.size() > candidate.size() + limit)
    return;
  unsigned distance = written_.edit_distance(candidate, /*AllowReplacements=*/true, limit);
  // Another case of the same letters is as good as one slip.
  if (written_.equals_insensitive(candidate))
    distance = std::min(distance, 1u);
  // A name of one or two letters is near to everything.
  if (distance > limit || distance >= written_.size() || distance >= candidate.size())
    return;
  if (distance < distance_ || (distance == distance_ && candidate < best_)) {
    distance_ = distance;
    best_ = candidate.str();
  }
}

} // namespace dtile::sema
