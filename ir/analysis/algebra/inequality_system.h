// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inequalities over products of atoms, each product a variable of its own, and what follows from
// them by eliminating variables. A part of inequalities.cpp.
#pragma once

#include "ir/analysis/algebra/inequalities.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace dtile::ir {

/// With more rows a system gives up.
inline constexpr size_t kMaxRows = 160;

/// Rows over numbered products of atoms: each sum is at least zero.
class InequalitySystem {
public:
  /// What is known of an atom's value.
  struct Range {
    std::optional<int64_t> low, high;
    [[nodiscard]] int sign() const { return low && *low >= 0 ? 1 : high && *high <= 0 ? -1 : 0; }
    [[nodiscard]] bool isNotZero() const { return (low && *low > 0) || (high && *high < 0); }
  };

  explicit InequalitySystem(RefutationBudget *budget) : budget_(budget) { rows_.reserve(kMaxRows); }

  /// Reads ranges only, which rows that are added later make use of.
  void learnRangeOf(const Polynomial &fact);
  /// Adds that p >= 0, and what follows at once.
  void add(const Polynomial &p) { add(rowOf(p)); }
  /// Adds what the signs of atoms say of their products.
  void addSigns();
  /// Eliminates products, or only atoms that are in no product, until it finds a contradiction, has
  /// none left, or gives up.
  void eliminateAll(bool onlyLinear);
  /// What two rows together say is zero.
  [[nodiscard]] std::optional<Polynomial> equality() const;

  llvm::DenseMap<AtomId, Range> ranges;
  /// Rows that were found by dividing; facts of the next round.
  std::vector<Polynomial> learnt;
  bool isContradiction = false;

private:
  using Monomial = Polynomial::Monomial;
  struct MonomialHash {
    size_t operator()(const Monomial &monomial) const {
      return llvm::hash_combine_range(monomial.begin(), monomial.end());
    }
  };
  /// Numbers of products, and their coefficients.
  struct Row {
    llvm::SmallVector<std::pair<uint32_t, int64_t>, 6> terms;
    int64_t constant = 0;
  };

  uint32_t numberOf(const Monomial &monomial);
  Row rowOf(const Polynomial &p);
  [[nodiscard]] Polynomial polynomialOf(const Row &row) const;
  bool learnRange(const Row &row);
  bool normalize(Row &row);
  void add(Row row);
  void divide(const Row &row);
  [[nodiscard]] bool isLinear(uint32_t number) const { return monomials_[number].size() == 1; }
  [[nodiscard]] std::optional<uint32_t> nextToEliminate(bool onlyLinear) const;
  void eliminate(uint32_t number);

  std::vector<Monomial> monomials_;
  /// Of single atoms, which most are, and of products.
  llvm::SmallDenseMap<AtomId, uint32_t, 32> atomNumbers_;
  std::unordered_map<Monomial, uint32_t, MonomialHash> productNumbers_;
  std::vector<Row> rows_;
  RefutationBudget *budget_;
  bool gaveUp_ = false;
};

} // namespace dtile::ir
