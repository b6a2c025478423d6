// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums of inputs: equal ones have equal numbers, however they were made.
#include "ir/interpret/terms.h"

#include <gtest/gtest.h>

namespace dtile::interpret {
namespace {

TEST(Terms, SumsAreEqualInAnyOrder) {
  TermTable terms;
  const TermId a = terms.input({0, 0, 0});
  const TermId b = terms.input({0, 1, 0});
  const TermId c = terms.input({0, 2, 0});
  EXPECT_EQ(terms.add(terms.add(a, b), c), terms.add(b, terms.add(c, a)));
  EXPECT_NE(terms.add(a, b), terms.add(a, c));
  EXPECT_EQ(terms.add(a, terms.scale(a, -1)), TermId(0));
}

TEST(Terms, ProductsDistribute) {
  TermTable terms;
  const TermId a = terms.input({0, 0, 0});
  const TermId b = terms.input({0, 0, 1});
  const TermId x = terms.input({1, 0, 0});
  EXPECT_EQ(terms.multiply(terms.add(a, b), x),
            terms.add(terms.multiply(x, b), terms.multiply(x, a)));
  EXPECT_EQ(terms.multiply(a, 0), TermId(0));
}

TEST(Terms, AddendsSayHowOftenAndFromWhere) {
  TermTable terms;
  const TermId a = terms.input({3, 1, 7});
  const auto addends = terms.addends(terms.add(a, a));
  ASSERT_EQ(addends.size(), 1u);
  EXPECT_EQ(addends[0].count, 2);
  ASSERT_EQ(addends[0].factors.size(), 1u);
  EXPECT_EQ(addends[0].factors[0].param, 3);
  EXPECT_EQ(addends[0].factors[0].rank, 1);
  EXPECT_EQ(addends[0].factors[0].element, 7);
}

TEST(Terms, WhatNobodyWroteIsOpaque) {
  TermTable terms;
  const TermId a = terms.input({0, 0, 0});
  EXPECT_TRUE(terms.isUnwritten(~TermId(0)));
  const auto addends = terms.addends(terms.add(a, ~TermId(0)));
  ASSERT_EQ(addends.size(), 2u);
  EXPECT_NE(addends[0].isOpaque, addends[1].isOpaque);
}

TEST(Terms, OtherFunctionsAreEqualOfEqualOperands) {
  TermTable terms;
  const TermId a = terms.input({0, 0, 0});
  const TermId b = terms.input({0, 0, 1});
  EXPECT_EQ(terms.opaque(5, {a}), terms.opaque(5, {a}));
  EXPECT_NE(terms.opaque(5, {a}), terms.opaque(5, {b}));
  EXPECT_NE(terms.opaque(5, {a}), terms.opaque(6, {a}));
}

TEST(Terms, ManySumsKeepTheirNumbers) {
  TermTable terms;
  std::vector<TermId> inputs, sums;
  for (int64_t i = 0; i < 400; ++i)
    inputs.push_back(terms.input({0, 0, i}));
  for (const TermId a : inputs)
    sums.push_back(terms.add(terms.multiply(a, inputs[0]), a));
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(terms.add(inputs[i], terms.multiply(inputs[0], inputs[i])), sums[i]);
  EXPECT_EQ(terms.addends(sums[399]).size(), 2u);
}

} // namespace
} // namespace dtile::interpret
