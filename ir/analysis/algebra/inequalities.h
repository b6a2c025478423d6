// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether integer polynomials can all be at least zero at once. "No" is a proof; there is no "yes".
#pragma once

#include "ir/analysis/algebra/polynomial.h"
#include "ir/analysis/algebra/substitution.h"

#include "llvm/ADT/DenseSet.h"

#include <map>
#include <memory>
#include <unordered_map>

namespace dtile::ir {

/// A conjunction: each polynomial is at least zero.
using Facts = std::vector<Polynomial>;

/// Adds that a <= b.
inline void addLessEqual(Facts &facts, const Polynomial &a, const Polynomial &b) {
  facts.push_back(b - a);
}
/// Adds that a < b.
inline void addLess(Facts &facts, const Polynomial &a, const Polynomial &b) {
  facts.push_back(b - a - Polynomial(1));
}
/// Adds that a == b.
inline void addEqual(Facts &facts, const Polynomial &a, const Polynomial &b) {
  facts.push_back(b - a);
  facts.push_back(a - b);
}

/// Work that refutations may do, in rows of inequalities: what is decided does not depend on how
/// fast a machine is.
struct RefutationBudget {
  uint64_t left = 2'000'000;
  [[nodiscard]] bool isSpent() const { return left == 0; }
};

/// Refutes conjunctions over the atoms of one set of polynomials. It knows what the atoms mean:
/// sizes are not negative, there is at least one rank, and what floor division, remainder, minimum
/// and maximum give. Values are integers; nothing wraps.
class Refuter {
public:
  /// Without a budget each question is bounded only by itself.
  explicit Refuter(Polynomials &polys, RefutationBudget *budget = nullptr);
  ~Refuter();

  /// True only where no values of the atoms satisfy all facts.
  [[nodiscard]] bool isImpossible(const Facts &facts);
  /// Whether the facts leave no value of p below zero.
  [[nodiscard]] bool implies(const Facts &facts, const Polynomial &p);
  /// Whether the facts leave no difference between a and b.
  [[nodiscard]] bool impliesEqual(const Facts &facts, const Polynomial &a, const Polynomial &b);

  /// The condition of a choice, or what a minimum or maximum compares, that the facts rest on and
  /// that none of them decides by itself.
  [[nodiscard]] std::optional<Polynomial> openChoice(const Facts &facts);

private:
  struct Base;
  enum class Outcome : uint8_t { Refuted, Substituted, Learnt, Nothing };
  /// Which of its operands a minimum, maximum or choice is: `lhs` or `rhs`.
  enum class Operand : uint8_t { First, Second };
  bool isImpossible(const Facts &facts, const Polynomial &more);
  Base &baseOf(const Facts &facts);
  bool isImpossibleWith(const Base &base, const Facts &facts, const Polynomial &more);
  bool isImpossibleFrom(const Facts &facts, unsigned splits);
  bool isImpossibleInRounds(Facts facts, size_t substitutions);
  Outcome refuteOnce(Facts &facts, std::map<AtomId, int> &signs);
  [[nodiscard]] bool mentionsBits(const Facts &facts) const;
  [[nodiscard]] std::optional<AtomId> choiceIn(llvm::ArrayRef<Polynomial> facts) const;
  [[nodiscard]] std::optional<AtomId> firstChoice(llvm::ArrayRef<Polynomial> facts,
                                                  llvm::SmallDenseSet<AtomId, 16> &seen) const;
  [[nodiscard]] std::vector<AtomId> choicesIn(llvm::ArrayRef<Polynomial> facts) const;
  [[nodiscard]] std::optional<Operand> decided(AtomId id, const Facts &facts) const;
  Polynomial chosen(const Polynomial &p, AtomId id, Operand operand);
  Polynomial settled(Polynomial p, const Facts &facts);

  struct FactsHash {
    size_t operator()(const Facts &facts) const {
      return llvm::hash_combine_range(facts.begin(), facts.end());
    }
  };
  Polynomials &polys_;
  RefutationBudget *budget_;
  /// Proofs choose the same operands of the same atoms again and again.
  std::map<std::pair<AtomId, Operand>, Substitution> substitutions_;
  /// Proofs ask twenty things and more of the same facts.
  std::unordered_map<Facts, std::unique_ptr<Base>, FactsHash> bases_;
};

} // namespace dtile::ir
