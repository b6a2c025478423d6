// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: facts have no "or". Where an execution takes place because one of several things holds, or
// a number of it is one of two, what is asked is shown for each of them by itself. Each case adds
// facts, and together they are all that there is, so it is enough that each is shown.
#include "ir/protocol/prove/model.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

namespace {

/// Of what falls into more cases, those that would be too many stay together.
constexpr size_t kMostCases = 24;

/// Whether the formula has alternatives somewhere.
bool hasAlternatives(const Formula &formula) {
  return formula.kind == Formula::Kind::Or || llvm::any_of(formula.parts, hasAlternatives);
}

} // namespace

/// Each case with the formula, once for each of its alternatives; but for what is impossible.
void Scene::splitCases(std::vector<Facts> &cases, const Formula &formula) {
  if (formula.kind == Formula::Kind::And && hasAlternatives(formula)) {
    for (const Formula &part : formula.parts)
      splitCases(cases, part);
    return;
  }
  std::vector<Facts> split;
  for (size_t i = 0; i < cases.size(); ++i) {
    const size_t left = cases.size() - i - 1;
    std::vector<Facts> parts;
    if (formula.kind == Formula::Kind::Or) {
      for (const Formula &alternative : formula.parts) {
        std::vector<Facts> one = {cases[i]};
        splitCases(one, alternative);
        llvm::append_range(parts, std::move(one));
      }
    } else {
      Facts with = cases[i];
      assume(with, formula);
      if (!refuter.isImpossible(with))
        parts.push_back(std::move(with));
    }
    if (split.size() + parts.size() + left > kMostCases)
      split.push_back(std::move(cases[i]));
    else
      llvm::append_range(split, std::move(parts));
  }
  cases = std::move(split);
}

std::optional<std::vector<Facts>> Scene::casesOf(const Facts &facts,
                                                 llvm::ArrayRef<const Instance *> instances) {
  std::vector<Facts> cases = {facts};
  // Of launches all instances say the same.
  for (const Formula &formula : instances.front()->required)
    if (hasAlternatives(formula))
      splitCases(cases, formula);
  for (const Instance *instance : instances)
    for (const std::vector<Formula> *formulas : {&instance->guards, &instance->asserted})
      for (const Formula &formula : *formulas)
        if (hasAlternatives(formula))
          splitCases(cases, formula);
  // Numbers that are one of two: what they are of comes first.
  for (size_t i = 0; i < cases.size() && cases.size() < kMostCases;) {
    const auto condition = refuter.openChoice(cases[i]);
    if (!condition) {
      ++i;
      continue;
    }
    std::vector<Facts> parts = {std::move(cases[i])};
    const Polynomial otherwise = Polynomial(-1) - *condition;
    splitCases(parts, {Formula::Kind::Or,
                       {},
                       {Formula::atLeastZero(*condition), Formula::atLeastZero(otherwise)}});
    cases.erase(cases.begin() + ptrdiff_t(i));
    cases.insert(cases.begin() + ptrdiff_t(i), parts.begin(), parts.end());
  }
  if (cases.size() == 1 && cases.front().size() == facts.size())
    return std::nullopt;
  return cases;
}

bool Scene::impliesInCases(const Facts &facts, const Instance &instance, const Formula &formula) {
  if (implies(facts, formula))
    return true;
  const auto cases = casesOf(facts, {&instance});
  return cases && llvm::all_of(*cases, [&](const Facts &one) { return implies(one, formula); });
}

} // namespace dtile::protocol::prove
