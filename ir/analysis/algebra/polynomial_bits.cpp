// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on bits in a normal form: what is a product, a quotient or a remainder is written as
// one, and operands of `^` are a set.
#include "ir/analysis/algebra/polynomial.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

namespace dtile::ir {

namespace {

/// Numbers of more bits are left as they are.
constexpr int64_t kMostBits = 46;

/// Some of the last bits, all of them ones.
bool isLastBits(const std::optional<int64_t> &mask) {
  return mask && *mask >= 0 && *mask < (int64_t(1) << kMostBits) && (*mask & (*mask + 1)) == 0;
}

/// The digit that a number ends with where the number has it as a term, as r in `2 q + r` of r
/// below 2: the remainder of another number would be an atom of its own.
std::optional<Polynomial> lastDigit(Polynomials &polys, const Polynomial &x, int64_t base) {
  const Polynomial digit = polys.rem(x, Polynomial(base));
  const auto isOfX = [&](const auto &term) {
    return term.first.empty() ||
           llvm::any_of(x.terms(), [&](const auto &own) { return own.first == term.first; });
  };
  return llvm::all_of(digit.terms(), isOfX) ? std::optional(digit) : std::nullopt;
}

/// `x ^ mask` of last bits that are a digit of x, or of what they are turned to: they are taken
/// from the mask. Other numbers stay operands, which `^` gives back.
std::optional<Polynomial> turnedDigit(Polynomials &polys, const Polynomial &x, int64_t mask) {
  const Polynomial ones(mask);
  if (const auto digit = lastDigit(polys, x, mask + 1))
    return x + ones - Polynomial(2) * *digit;
  if (const auto digit = lastDigit(polys, ones - x, mask + 1))
    return x - ones + Polynomial(2) * *digit;
  return std::nullopt;
}

} // namespace

/// Operands of nested ones, of which two that are equal are none.
Polynomial Polynomials::exclusive(const Polynomial &a, const Polynomial &b) {
  int64_t constant = 0;
  std::set<Polynomial> operands;
  std::vector<Polynomial> open{a, b};
  while (!open.empty()) {
    const Polynomial p = std::move(open.back());
    open.pop_back();
    const std::optional<AtomId> single = p.asAtom();
    const Atom *nested = single ? &atoms_[*single] : nullptr;
    if (const std::optional<int64_t> number = p.constant())
      constant ^= *number;
    else if (nested && nested->kind == AtomKind::Bits && OpKind(nested->a) == OpKind::Xor)
      open.insert(open.end(), {nested->lhs, nested->rhs});
    else if (!operands.insert(p).second)
      operands.erase(p);
  }
  if (constant != 0 && operands.size() == 1 && isLastBits(constant))
    if (const auto turned = turnedDigit(*this, *operands.begin(), constant))
      return *turned;
  if (constant != 0)
    operands.insert(Polynomial(constant));
  Polynomial result;
  for (const Polynomial &operand : operands)
    result = result.isZero() ? operand
                             : Polynomial::atom(intern({.kind = AtomKind::Bits,
                                                        .a = int64_t(OpKind::Xor),
                                                        .value = nullptr,
                                                        .lhs = result,
                                                        .rhs = operand}));
  return result;
}

Polynomial Polynomials::bits(OpKind kind, const Polynomial &a, const Polynomial &b) {
  if (kind == OpKind::Xor)
    return exclusive(a, b);
  const std::optional<int64_t> ca = a.constant(), cb = b.constant();
  if (ca && cb && kind == OpKind::And)
    return Polynomial(*ca & *cb);
  if (ca && cb && kind == OpKind::Or)
    return Polynomial(*ca | *cb);
  // The last bits, and what is left without them, are a remainder and a quotient.
  if (kind == OpKind::And && isLastBits(cb))
    return rem(a, Polynomial(*cb + 1));
  if (kind == OpKind::And && isLastBits(ca))
    return rem(b, Polynomial(*ca + 1));
  const bool isShift = kind == OpKind::Shl || kind == OpKind::Shr;
  if (isShift && cb && *cb >= 0 && *cb < kMostBits) {
    const Polynomial power(int64_t(1) << *cb);
    return kind == OpKind::Shl ? a * power : div(a, power);
  }
  const bool swaps = !isShift && b < a;
  return Polynomial::atom(intern({.kind = AtomKind::Bits,
                                  .a = int64_t(kind),
                                  .value = nullptr,
                                  .lhs = swaps ? b : a,
                                  .rhs = swaps ? a : b}));
}

} // namespace dtile::ir
