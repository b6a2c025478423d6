// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Index polynomials: normal form, division, remainder, solving.
#include "ir/analysis/algebra/polynomial.h"
#include "ir/analysis/algebra/substitution.h"

#include "gtest/gtest.h"

#include <algorithm>

namespace dtile::ir {
namespace {

struct PolynomialTest : testing::Test {
  Polynomials polys;
  Polynomial ranks = Polynomial::atom(polys.numRanks());
  Polynomial rank = Polynomial::atom(polys.rank());
  Polynomial s = Polynomial::atom(polys.launchDim(0, 0));
  AtomId hopAtom = polys.fresh(ranks);
  Polynomial hop = Polynomial::atom(hopAtom);
  Polynomial n(int64_t value) { return Polynomial(value); }
};

TEST_F(PolynomialTest, EqualSumsHaveEqualForms) {
  EXPECT_EQ((rank + s) * (rank - s), rank * rank - s * s);
  EXPECT_TRUE((rank - rank).isZero());
  EXPECT_EQ(polys.str(n(2) * rank * s - n(3)), "-3 + 2*rank*dim0.0");
}

TEST_F(PolynomialTest, SumsAreOrderedByTheirProductsHoweverTheyAreMade) {
  // Multiplied by `hop` the products change places: 7 * hop comes last.
  const Polynomial sum = n(7) - s + n(2) * rank * rank + rank;
  for (const Polynomial &p : {sum, sum * hop, (sum + hop) * (sum - hop), hop + sum - hop}) {
    EXPECT_TRUE(std::is_sorted(p.terms().begin(), p.terms().end()));
    for (const auto &[monomial, coefficient] : p.terms()) {
      EXPECT_TRUE(std::is_sorted(monomial.begin(), monomial.end()));
      EXPECT_NE(coefficient, 0);
    }
  }
  EXPECT_EQ(hash_value(hop + sum - hop), hash_value(sum));
  EXPECT_TRUE((n(0) * sum).isZero());
}

TEST_F(PolynomialTest, KnowsSumsThatAreANumberApart) {
  EXPECT_EQ((rank * s + n(3)).constantAbove(rank * s), 3);
  EXPECT_EQ((rank * s).constantAbove(rank * s + n(3)), -3);
  EXPECT_EQ(n(2).constantAbove(n(0)), 2);
  EXPECT_EQ(rank.constantAbove(s), std::nullopt);
  EXPECT_EQ((n(2) * rank).constantAbove(rank), std::nullopt);
  EXPECT_TRUE((s + rank * rank).hasFactor(polys.rank()));
  EXPECT_FALSE(polys.div(rank, s).hasFactor(polys.rank()));
}

TEST_F(PolynomialTest, DivisionTakesOutWholeMultiples) {
  EXPECT_EQ(polys.div(s * rank, s), rank);
  EXPECT_EQ(polys.div(n(6) * rank + n(3), n(3)), n(2) * rank + n(1));
  EXPECT_EQ(polys.div(ranks * s + hop, ranks), s);
  EXPECT_EQ(polys.div(n(-7), n(2)), n(-4));
  EXPECT_EQ(polys.rem(n(-7), n(2)), n(1));
  EXPECT_TRUE(polys.div(n(7), n(0)).isZero());
}

TEST_F(PolynomialTest, RemainderOfSomethingSmallIsItself) {
  EXPECT_EQ(polys.rem(hop, ranks), hop);
  EXPECT_EQ(polys.rem(hop + n(5) * ranks, ranks), hop);
  EXPECT_EQ(polys.rem(polys.rem(rank + hop, ranks) - hop, ranks), rank);
}

TEST_F(PolynomialTest, QuotientsAndRemaindersOfANumeralAreItsDigits) {
  const Polynomial rows = Polynomial::atom(polys.launchDim(1, 0));
  const Polynomial high = Polynomial::atom(polys.fresh());
  const Polynomial middle = Polynomial::atom(polys.fresh(rows));
  const Polynomial low = Polynomial::atom(polys.fresh(s));
  const Polynomial numeral = (high * rows + middle) * s + low;
  EXPECT_EQ(polys.rem(numeral, s), low);
  EXPECT_EQ(polys.rem(polys.div(numeral, s), rows), middle);
  EXPECT_EQ(polys.div(numeral, rows * s), high);
  EXPECT_EQ(polys.rem(numeral, rows * s), middle * s + low);
  // A digit too large is none, and so is one that is missing.
  EXPECT_NE(polys.div(high * s + low + n(1), s), high);
  EXPECT_NE(polys.div(high * rows * s + middle * s + n(2) * low, rows * s), high);
  EXPECT_NE(polys.div(high * rows * s + middle + low, rows * s), high);
}

TEST_F(PolynomialTest, SolvesSumsForAnUnknown) {
  std::vector<Polynomial> conditions;
  auto answer = polys.solve(n(3) - hop + s, rank, hopAtom, conditions);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(*answer, n(3) + s - rank);
  EXPECT_TRUE(conditions.empty());
}

TEST_F(PolynomialTest, SolvesMultiplesWithACondition) {
  std::vector<Polynomial> conditions;
  auto answer = polys.solve(n(4) * hop, rank, hopAtom, conditions);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(*answer, polys.div(rank, n(4)));
  ASSERT_EQ(conditions.size(), 1u);
  EXPECT_EQ(conditions[0], polys.rem(rank, n(4)));
}

TEST_F(PolynomialTest, SolvesRotationsForTheHop) {
  std::vector<Polynomial> conditions;
  AtomId sourceAtom = polys.fresh(ranks);
  Polynomial source = Polynomial::atom(sourceAtom);
  auto answer = polys.solve(polys.rem(source + hop, ranks), rank, hopAtom, conditions);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(*answer, polys.rem(rank - source, ranks));
  EXPECT_TRUE(conditions.empty());
}

TEST_F(PolynomialTest, RefusesWhatHasNoSingleSolution) {
  std::vector<Polynomial> conditions;
  EXPECT_FALSE(polys.solve(hop * hop, rank, hopAtom, conditions).has_value());
  EXPECT_FALSE(polys.solve(polys.rem(hop + rank, s), rank, hopAtom, conditions).has_value());
  EXPECT_FALSE(polys.solve(polys.div(hop + rank, n(3)), rank, hopAtom, conditions).has_value());
}

TEST_F(PolynomialTest, SubstitutionReachesInsideOpaqueParts) {
  Polynomial p = polys.div(hop + rank, n(3)) + hop;
  EXPECT_EQ(polys.substitute(p, hopAtom, n(2) * rank), n(3) * rank);
  EXPECT_TRUE(polys.mentions(p, hopAtom));
  EXPECT_FALSE(polys.mentions(polys.substitute(p, hopAtom, s), hopAtom));
}

TEST_F(PolynomialTest, OneSubstitutionIsForManyPolynomials) {
  Substitution twice(polys, hopAtom, n(2) * rank);
  const Polynomial p = polys.div(hop + rank, n(3));
  EXPECT_EQ(twice.of(p), rank);
  EXPECT_EQ(twice.of(p * p + s + hop), rank * rank + s + n(2) * rank);
  EXPECT_EQ(twice.of(polys.rem(s, n(3))), polys.rem(s, n(3)));
}

TEST_F(PolynomialTest, LastBitsThatAreADigitAreTurned) {
  const Polynomial digit = Polynomial::atom(polys.fresh(n(4)));
  const auto turned = [&](const Polynomial &x, int64_t mask) {
    return polys.bits(OpKind::Xor, x, n(mask));
  };
  EXPECT_EQ(turned(n(4) * rank + digit, 3), n(4) * rank + n(3) - digit);
  EXPECT_EQ(turned(n(6) * rank + n(5), 1), n(6) * rank + n(4));
  EXPECT_EQ(turned(turned(n(4) * rank + digit, 3), 3), n(4) * rank + digit);
  // These may have any bits.
  for (const Polynomial &x : {rank, n(4) * rank + hop, n(2) * rank + digit})
    EXPECT_TRUE(polys.mentionsBits(turned(x, 3)));
  EXPECT_TRUE(polys.mentionsBits(turned(n(4) * rank + digit, 2)));
}

TEST_F(PolynomialTest, ChoicesAndBitsAreSeenInsideOfAtoms) {
  const Polynomial least = polys.div(polys.minMax(Polynomials::AtomKind::Min, hop, s), n(3));
  const Polynomial partner = polys.rem(polys.bits(OpKind::Xor, rank, hop), s);
  EXPECT_TRUE(polys.mentionsChoice(least + rank) && polys.mentionsBits(partner * rank));
  EXPECT_FALSE(polys.mentionsChoice(partner) || polys.mentionsBits(least));
}

} // namespace
} // namespace dtile::ir
