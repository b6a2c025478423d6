// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is refuted, and what must not be: everything that some integers satisfy.
#include "ir/analysis/algebra/inequalities.h"

#include "gtest/gtest.h"

#include <random>

namespace dtile::ir {
namespace {

struct InequalitiesTest : testing::Test {
  Polynomials polys;
  Refuter refuter{polys};
  Polynomial ranks = Polynomial::atom(polys.numRanks());
  Polynomial s = Polynomial::atom(polys.launchDim(0, 0));
  Facts facts;

  Polynomial n(int64_t value) { return Polynomial(value); }
  /// A variable in [0, end).
  Polynomial below(const Polynomial &end) {
    const Polynomial x = Polynomial::atom(polys.fresh(end));
    facts.push_back(x);
    addLess(facts, x, end);
    return x;
  }
};

TEST_F(InequalitiesTest, BlocksThatOverlapAreOneBlock) {
  const Polynomial i = below(s), j = below(s), p = below(n(64) * s);
  for (const Polynomial &block : {i, j}) {
    addLessEqual(facts, n(64) * block, p);
    addLess(facts, p, n(64) * block + n(64));
  }
  EXPECT_TRUE(refuter.impliesEqual(facts, i, j));
  EXPECT_FALSE(refuter.isImpossible(facts));
}

TEST_F(InequalitiesTest, SharesOfUnknownSizeThatOverlapAreOneShare) {
  const Polynomial a = below(ranks), b = below(ranks);
  const Polynomial x = below(s), y = below(s);
  addEqual(facts, a * s + x, b * s + y);
  EXPECT_TRUE(refuter.impliesEqual(facts, a, b));
  EXPECT_TRUE(refuter.impliesEqual(facts, x, y));
}

TEST_F(InequalitiesTest, TurningAboutTheRanksIsOneToOne) {
  const Polynomial rank = below(ranks), hop = below(ranks), other = below(ranks);
  addEqual(facts, polys.rem(rank + hop, ranks), polys.rem(rank + other, ranks));
  EXPECT_TRUE(refuter.impliesEqual(facts, hop, other));
}

TEST_F(InequalitiesTest, NeighboursDifferWhereThereAreTwoRanks) {
  const Polynomial rank = below(ranks);
  addEqual(facts, polys.rem(rank + n(1), ranks), rank);
  EXPECT_TRUE(refuter.impliesEqual(facts, ranks, n(1)));
  EXPECT_FALSE(refuter.isImpossible(facts));
}

TEST_F(InequalitiesTest, APartIsWithinRoundedUpParts) {
  // s <= ranks * ceil(s / ranks)
  const Polynomial share = n(0) - polys.div(n(0) - s, ranks);
  EXPECT_TRUE(refuter.implies(facts, ranks * share - s));
  EXPECT_FALSE(refuter.implies(facts, ranks * share - s - n(1)));
}

TEST_F(InequalitiesTest, APartOfADifferenceIsWithinIt) {
  const Polynomial part = below(n(64)), a = below(s), b = below(s);
  const Polynomial count = Polynomial::atom(polys.fresh());
  addLessEqual(facts, a, b);
  addEqual(facts, count, b - a);
  const Polynomial end = Polynomial::atom(polys.fresh());
  addEqual(facts, end, a + polys.div(count * part + count, n(64)));
  EXPECT_TRUE(refuter.implies(facts, b - end));
  EXPECT_FALSE(refuter.implies(facts, b - end - n(1)));
}

TEST_F(InequalitiesTest, MinimaAreOneOfTheirOperands) {
  const Polynomial i = below(s), end = polys.minMax(Polynomials::AtomKind::Min, i + n(8), s);
  EXPECT_TRUE(refuter.implies(facts, end - i - n(1)));
  EXPECT_FALSE(refuter.implies(facts, end - i - n(2)));
}

TEST_F(InequalitiesTest, BitsOfOneOperandStayInTheirBlock) {
  const Polynomial rank = below(ranks), partner = polys.bits(OpKind::Xor, rank, n(1));
  EXPECT_FALSE(refuter.implies(facts, ranks - partner - n(1)));
  addEqual(facts, polys.rem(ranks, n(2)), n(0));
  EXPECT_TRUE(refuter.implies(facts, ranks - partner - n(1)));
  EXPECT_TRUE(refuter.implies(facts, partner));
  EXPECT_FALSE(refuter.implies(facts, ranks - partner - n(2)));
}

TEST_F(InequalitiesTest, NumbersBelowAPowerOfTwoStayBelowIt) {
  const Polynomial a = below(ranks), b = below(ranks), mixed = polys.bits(OpKind::Xor, a, b);
  EXPECT_FALSE(refuter.implies(facts, ranks - mixed - n(1)));
  Facts isPower = facts, isFour = facts, isSix = facts;
  addEqual(isPower, polys.bits(OpKind::And, ranks, ranks - n(1)), n(0));
  EXPECT_TRUE(refuter.implies(isPower, ranks - mixed - n(1)));
  EXPECT_FALSE(refuter.implies(isPower, ranks - mixed - n(2)));
  addEqual(isFour, ranks, n(4));
  EXPECT_TRUE(refuter.implies(isFour, ranks - mixed - n(1)));
  addEqual(isSix, ranks, n(6));
  EXPECT_FALSE(refuter.implies(isSix, ranks - mixed - n(1)));
}

TEST_F(InequalitiesTest, PartnersThatAreOneHaveOneStep) {
  const Polynomial rank = below(ranks), other = below(ranks), a = below(ranks), b = below(ranks);
  addEqual(facts, polys.bits(OpKind::Xor, rank, a), polys.bits(OpKind::Xor, other, b));
  EXPECT_FALSE(refuter.impliesEqual(facts, a, b));
  addEqual(facts, rank, other);
  EXPECT_TRUE(refuter.impliesEqual(facts, a, b));
}

TEST_F(InequalitiesTest, FactorsThatMayBeZeroSayNothingOfOperands) {
  const Polynomial rank = below(ranks), a = below(ranks), b = below(ranks);
  const Polynomial one = polys.bits(OpKind::Xor, rank, a), other = polys.bits(OpKind::Xor, rank, b);
  addEqual(facts, s * a, s * b);
  EXPECT_FALSE(refuter.impliesEqual(facts, one, other));
  EXPECT_FALSE(refuter.impliesEqual(facts, polys.bits(OpKind::Xor, rank, s * a),
                                    polys.bits(OpKind::Xor, rank, s * a + s)));
  addEqual(facts, a, b);
  EXPECT_TRUE(refuter.impliesEqual(facts, one, other));
}

TEST_F(InequalitiesTest, DivisorsThatMayBeZeroSayNothing) {
  const Polynomial x = Polynomial::atom(polys.fresh());
  // x / 0 is 0, so the quotient times s may be anything below x.
  EXPECT_FALSE(refuter.implies(facts, x - s * polys.div(x, s)));
  facts.push_back(s - n(1));
  EXPECT_TRUE(refuter.implies(facts, x - s * polys.div(x, s)));
}

TEST_F(InequalitiesTest, AQuestionThatIsAskedAgainCountsLittle) {
  const Polynomial i = below(s), j = below(s), p = below(n(64) * s);
  for (const Polynomial &block : {i, j}) {
    addLessEqual(facts, n(64) * block, p);
    addLess(facts, p, n(64) * block + n(64));
  }
  addLess(facts, i, j);
  RefutationBudget budget;
  const uint64_t all = budget.left;
  Refuter bounded(polys, &budget);
  EXPECT_TRUE(bounded.isImpossible(facts));
  const uint64_t once = all - budget.left;
  EXPECT_GT(once, 0u);
  EXPECT_TRUE(bounded.isImpossible(facts));
  EXPECT_EQ(all - budget.left, once + 1);
  // What is left is not enough for it, where it was not asked yet.
  budget.left = once / 2;
  Refuter other(polys, &budget);
  EXPECT_FALSE(other.isImpossible(facts));
  EXPECT_TRUE(budget.isSpent());
}

/// Systems made around a point that satisfies them: none may be refuted.
TEST_F(InequalitiesTest, WhatIntegersSatisfyIsNeverRefuted) {
  std::mt19937 random(1 + uint32_t(testing::UnitTest::GetInstance()->random_seed()));
  const auto pick = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  for (int round = 0; round < 400; ++round) {
    Polynomials own;
    Refuter refutes(own);
    std::map<AtomId, int64_t> point;
    point[own.numRanks()] = pick(1, 6);
    point[own.launchDim(0, 0)] = pick(0, 5);
    std::vector<AtomId> atoms = {own.numRanks(), own.launchDim(0, 0)};
    for (int i = 0; i < 4; ++i) {
      atoms.push_back(own.fresh());
      point[atoms.back()] = pick(-4, 7);
    }
    // Values of what is built are known beside its form.
    using Term = std::pair<Polynomial, int64_t>;
    const auto atom = [&]() -> Term {
      const AtomId id = atoms[random() % atoms.size()];
      return {Polynomial::atom(id), point[id]};
    };
    const auto floorDiv = [](int64_t a, int64_t b) {
      return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
    };
    const auto term = [&]() -> Term {
      Term a = atom();
      const Term b = atom();
      const int64_t w = point[own.numRanks()];
      const Polynomial ranksAtom = Polynomial::atom(own.numRanks());
      switch (random() % 12) {
      case 0:
        return {a.first * b.first, a.second * b.second};
      case 1:
        return {own.rem(a.first + b.first, ranksAtom),
                a.second + b.second - w * floorDiv(a.second + b.second, w)};
      case 2:
        return {own.div(a.first - b.first, ranksAtom), floorDiv(a.second - b.second, w)};
      case 3:
        return {own.minMax(Polynomials::AtomKind::Min, a.first, b.first),
                std::min(a.second, b.second)};
      case 4:
        return {own.minMax(Polynomials::AtomKind::Max, a.first, b.first),
                std::max(a.second, b.second)};
      case 5:
        return {own.div(a.first, Polynomial(3)), floorDiv(a.second, 3)};
      case 6:
        return {own.bits(OpKind::Xor, a.first, b.first), a.second ^ b.second};
      case 7:
        return {own.bits(OpKind::And, a.first, b.first - Polynomial(1)), a.second & (b.second - 1)};
      case 8:
        return {own.bits(OpKind::Or, a.first, b.first), a.second | b.second};
      case 9:
        return {own.bits(OpKind::Xor, own.bits(OpKind::Xor, a.first, Polynomial(3)), b.first),
                a.second ^ 3 ^ b.second};
      case 10:
        if (b.second >= 0)
          return {own.bits(OpKind::Shr, a.first, b.first), a.second >> b.second};
        return {own.bits(OpKind::Shl, a.first, Polynomial(2)), a.second * 4};
      default:
        return a;
      }
    };
    Facts satisfied;
    // Operations on bits rest on ranges, and on what is a power of two.
    for (const AtomId id : atoms) {
      if (random() % 2)
        satisfied.push_back(Polynomial::atom(id) - Polynomial(std::min<int64_t>(point[id], 0)));
      if (random() % 2)
        addLess(satisfied, Polynomial::atom(id), Polynomial(8));
      if (random() % 2 && point[id] < point[own.numRanks()])
        addLess(satisfied, Polynomial::atom(id), Polynomial::atom(own.numRanks()));
    }
    if (const int64_t w = point[own.numRanks()]; (w & (w - 1)) == 0) {
      const Polynomial ranks = Polynomial::atom(own.numRanks());
      addEqual(satisfied, own.bits(OpKind::And, ranks, ranks - Polynomial(1)), Polynomial());
    }
    for (int i = 0; i < 8; ++i) {
      Polynomial sum;
      int64_t value = 0;
      for (int t = 0; t < 3; ++t) {
        const auto [p, v] = term();
        const int64_t factor = pick(-3, 3);
        sum = sum + Polynomial(factor) * p;
        value += factor * v;
      }
      const int64_t slack = random() % 3 == 0 ? pick(0, 3) : 0;
      satisfied.push_back(sum - Polynomial(value) + Polynomial(slack));
      if (random() % 2)
        satisfied.push_back(Polynomial(value) + Polynomial(slack) - sum);
    }
    EXPECT_FALSE(refutes.isImpossible(satisfied)) << "round " << round;
    // Nor does it say of anything that it is more than it is: questions go on from what the facts
    // they share were made into.
    for (int i = 0; i < 8; ++i) {
      const auto [p, v] = term();
      const auto [q, w] = term();
      EXPECT_FALSE(refutes.implies(satisfied, p + q - Polynomial(v + w + 1)))
          << "round " << round << ", question " << i;
    }
  }
}

/// Each definition squares the one before; with twenty of them the last would have 2^20 factors.
TEST_F(InequalitiesTest, DefinitionsThatGrowAreBounded) {
  Facts growing;
  std::vector<Polynomial> values = {Polynomial::atom(polys.launchDim(0, 0))};
  for (int i = 0; i < 20; ++i) {
    const Polynomial other = Polynomial::atom(polys.launchDim(1, i));
    values.push_back(Polynomial::atom(polys.fresh()));
    addEqual(growing, values[i + 1], values[i] * (values[i] + other));
  }
  const Polynomial rank = below(Polynomial::atom(polys.numRanks()));
  growing.insert(growing.end(), facts.begin(), facts.end());
  EXPECT_TRUE(refuter.implies(growing, Polynomial::atom(polys.numRanks()) - rank - n(1)));
  EXPECT_FALSE(refuter.implies(growing, values.back() - n(1)));
}

TEST_F(InequalitiesTest, QuestionsDoNotHearOfEachOther) {
  Polynomials own;
  Refuter refutes(own);
  const Polynomial x = Polynomial::atom(own.fresh()), y = Polynomial::atom(own.fresh());
  const Polynomial n = Polynomial::atom(own.launchDim(0, 0));
  // y = x + n, 0 <= x.
  Facts facts = {x};
  addEqual(facts, y, x + n);
  EXPECT_TRUE(refutes.implies(facts, y));
  EXPECT_TRUE(refutes.implies(facts, y - x));
  EXPECT_FALSE(refutes.implies(facts, x - Polynomial(1)));
  EXPECT_FALSE(refutes.implies(facts, Polynomial(5) - y));
  // What a divisor is known to be decides what is said of quotients: here by the question alone.
  const Polynomial quotient = own.div(y, n);
  EXPECT_FALSE(refutes.implies(facts, quotient));
  Facts positive = facts;
  positive.push_back(n - Polynomial(1));
  EXPECT_TRUE(refutes.implies(positive, quotient));
  EXPECT_FALSE(refutes.implies(facts, quotient));
  // The same questions again.
  EXPECT_TRUE(refutes.implies(facts, y));
  EXPECT_FALSE(refutes.implies(facts, x - Polynomial(1)));
}

} // namespace
} // namespace dtile::ir
