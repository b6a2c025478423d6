// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integer index values as polynomials over what they are computed from, in a normal form: equal
// forms are equal values. Floor division, remainder, minimum and maximum that do not simplify are
// opaque atoms over polynomials.
#pragma once

#include "ir/core/builder.h"
#include "ir/core/ir.h"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace dtile::ir {

/// Something a polynomial is over; numbers are given by Polynomials.
using AtomId = uint32_t;

/// A sum of products: pairs of a product of atoms (sorted, with repeats) and its coefficient, in
/// the order of products, no zero coefficients.
class Polynomial {
public:
  using Monomial = llvm::SmallVector<AtomId, 4>;
  using Term = std::pair<Monomial, int64_t>;

  Polynomial() = default;
  explicit Polynomial(int64_t constant) {
    if (constant != 0)
      terms_.emplace_back(Monomial(), constant);
  }
  static Polynomial atom(AtomId id) { return term({id}, 1); }
  /// One product, whose atoms are sorted, times a coefficient.
  static Polynomial term(Monomial monomial, int64_t coefficient) {
    Polynomial p;
    if (coefficient != 0)
      p.terms_.emplace_back(std::move(monomial), coefficient);
    return p;
  }

  [[nodiscard]] const std::vector<Term> &terms() const { return terms_; }
  [[nodiscard]] bool isZero() const { return terms_.empty(); }
  [[nodiscard]] std::optional<int64_t> constant() const;
  /// The atom, when this is exactly one atom.
  [[nodiscard]] std::optional<AtomId> asAtom() const;

  /// A sum of terms in any order, whose products are sorted.
  static Polynomial sumOf(std::vector<Term> terms);

  Polynomial operator+(const Polynomial &other) const;
  Polynomial operator-(const Polynomial &other) const;
  Polynomial operator*(const Polynomial &other) const;
  /// *this - other, where that is a number.
  [[nodiscard]] std::optional<int64_t> constantAbove(const Polynomial &other) const;
  /// Whether *this + other is zero.
  [[nodiscard]] bool isOpposite(const Polynomial &other) const;
  /// Whether `isIt` holds for a factor somewhere, outside of other atoms.
  template <typename IsIt> [[nodiscard]] bool hasAtom(IsIt &&isIt) const {
    for (const auto &[monomial, coefficient] : terms_)
      for (const AtomId id : monomial)
        if (isIt(id))
          return true;
    return false;
  }
  /// Whether the atom is one.
  [[nodiscard]] bool hasFactor(AtomId id) const;
  /// With something else in place of an atom, outside of other atoms.
  [[nodiscard]] Polynomial replaced(AtomId id, const Polynomial &by) const;
  friend bool operator==(const Polynomial &, const Polynomial &) = default;
  friend auto operator<=>(const Polynomial &, const Polynomial &) = default;
  friend llvm::hash_code hash_value(const Polynomial &p) {
    llvm::hash_code code(p.terms_.size());
    for (const auto &[monomial, coefficient] : p.terms_)
      code = llvm::hash_combine(code, coefficient,
                                llvm::hash_combine_range(monomial.begin(), monomial.end()));
    return code;
  }

private:
  friend class Polynomials;
  friend class Substitution;
  void addTerm(const Monomial &monomial, int64_t coefficient);
  /// *this + other * factor.
  [[nodiscard]] Polynomial plus(const Polynomial &other, int64_t factor) const;
  std::vector<Term> terms_;
};

/// Makes polynomials from IR values, and IR values from polynomials.
class Polynomials {
public:
  enum class AtomKind : uint8_t {
    /// `rank`, `num_ranks`, `epoch`: one atom each however many ops there are.
    Rank,
    NumRanks,
    Epoch,
    /// `launch.dim` of a parameter and dimension.
    LaunchDim,
    /// A variable made by `fresh`.
    Variable,
    /// Any other IR value.
    Value,
    Div,
    Rem,
    /// `and`, `or`, `xor`, `shl`, `shr`; `a` is the op's kind.
    Bits,
    Min,
    Max,
    /// One of two, as a condition has it: results of `select` and `if`.
    Choice
  };
  struct Atom {
    AtomKind kind;
    /// LaunchDim: parameter, dimension. Variable: its number.
    int64_t a = 0, b = 0;
    Value *value = nullptr;
    /// Div, Rem, Bits, Min, Max, Choice.
    Polynomial lhs = {}, rhs = {};
    /// Choice: lhs where this is at least zero, else rhs.
    Polynomial condition = {};
    /// Values of the atom lie in [0, extent) where this is set.
    std::optional<Polynomial> extent = {};
    /// It is a Min, Max or Choice, or one occurs in it; the same of Bits.
    bool hasChoice = false, hasBits = false;
  };
  /// What stands for a value (block arguments), for `rank` and for `num_ranks` while a polynomial
  /// is made. `of` adds the polynomials of values that it went through, so that shared ones are
  /// made once.
  struct Environment {
    llvm::DenseMap<const Value *, Polynomial> values;
    std::optional<Polynomial> rank, numRanks;
    /// Values that a polynomial cannot say become variables of this environment, so that two
    /// environments may stand for two executions of one op.
    bool hasOwnValues = false;
  };

  Polynomials();

  [[nodiscard]] AtomId rank() const { return kRank; }
  [[nodiscard]] AtomId numRanks() const { return kNumRanks; }
  AtomId launchDim(int64_t param, int64_t dim);
  /// A new variable with values in [0, extent).
  AtomId fresh(const Polynomial &extent);
  /// A new variable with any values.
  AtomId fresh();
  [[nodiscard]] const Atom &atom(AtomId id) const { return atoms_[id]; }

  /// Whether values of the type are integers that an index can hold.
  [[nodiscard]] static bool isNumber(Type type) {
    return type.isIndex() ||
           (type.isScalar() && isInteger(type.dtype()) && type.dtype() != DType::U64);
  }
  /// The polynomial of an index, or of another number: that is an atom, as arithmetic on it wraps.
  Polynomial of(Value *value, Environment &environment);
  Polynomial div(const Polynomial &a, const Polynomial &b);
  Polynomial rem(const Polynomial &a, const Polynomial &b);
  Polynomial minMax(AtomKind kind, const Polynomial &a, const Polynomial &b);
  /// What an operation on bits gives, by the op's kind. `x ^ y ^ y` is x.
  Polynomial bits(OpKind kind, const Polynomial &a, const Polynomial &b);
  /// `a` where `condition` is at least zero, else `b`.
  Polynomial choice(const Polynomial &condition, const Polynomial &a, const Polynomial &b);
  /// 1 where the bool value holds, else 0; nothing where it is not made of comparisons of numbers.
  std::optional<Polynomial> indicator(Value *condition, Environment &environment) {
    constexpr unsigned kDepth = 4;
    return choose(condition, Polynomial(1), Polynomial(0), environment, kDepth);
  }
  /// A Choice that occurs in the polynomial, also inside opaque atoms, and depends on one of
  /// `atoms`; what it is of comes first.
  [[nodiscard]] std::optional<AtomId> choiceOf(const Polynomial &p,
                                               llvm::ArrayRef<AtomId> atoms) const;

  /// Whether an atom is another one, or occurs in it.
  [[nodiscard]] bool isIn(AtomId id, AtomId whole) const;
  /// Whether the atom occurs, also inside opaque atoms.
  [[nodiscard]] bool mentions(const Polynomial &p, AtomId id) const;
  /// Whether a minimum, maximum or choice does, and whether an operation on bits does.
  [[nodiscard]] bool mentionsChoice(const Polynomial &p) const;
  [[nodiscard]] bool mentionsBits(const Polynomial &p) const;
  /// Replaces an atom everywhere; a Substitution is for several polynomials.
  Polynomial substitute(const Polynomial &p, AtomId id, const Polynomial &by);
  /// Solves p == target for the variable, which must occur outside opaque atoms linearly, or in the
  /// form rem(variable + rest, n) with an extent of the variable of n or a number less, or in one
  /// operand of `^`. Conditions that make the answer right are appended (each must be zero); it
  /// must lie in the extent.
  std::optional<Polynomial> solve(const Polynomial &p, const Polynomial &target, AtomId variable,
                                  std::vector<Polynomial> &mustBeZero);

  /// Atoms of kind Value and Variable that the polynomial needs, through opaque atoms.
  void collectAtoms(const Polynomial &p, std::vector<AtomId> &out) const;
  /// Emits ops that compute it; `bound` gives the values of Variable atoms, and of others
  /// that have replacements.
  Value *emit(Builder &builder, const Polynomial &p,
              const llvm::DenseMap<AtomId, Value *> &bound) const;
  /// For messages and tests.
  [[nodiscard]] std::string str(const Polynomial &p) const;

private:
  static constexpr AtomId kRank = 0;
  static constexpr AtomId kNumRanks = 1;
  static constexpr AtomId kEpoch = 2;
  AtomId intern(Atom atom);
  Value *emitAtom(Builder &builder, AtomId id, const llvm::DenseMap<AtomId, Value *> &bound) const;
  Polynomial ofOp(Op &op, Value *value, Environment &environment);
  Polynomial ofNarrow(Op &op, Environment &environment);
  Polynomial exclusive(const Polynomial &a, const Polynomial &b);
  Polynomial opaque(Value *value, const Environment &environment);
  std::optional<Polynomial> ofChoice(Op &op, Value *value, Environment &environment);
  /// `a` where the bool value holds, else `b`; nothing where the condition is no comparison of
  /// numbers, or one of too many parts.
  std::optional<Polynomial> choose(Value *condition, const Polynomial &a, const Polynomial &b,
                                   Environment &environment, unsigned depth);
  /// How many values a numeral has: of digits that are atoms with extents, each times the product
  /// of the extents of those below it. Nothing where the polynomial is none.
  [[nodiscard]] std::optional<Polynomial> extentOf(Polynomial p) const;
  /// p = b * quotient + rest, taking the terms that b's single term divides.
  bool splitBy(const Polynomial &p, const Polynomial &b, Polynomial &quotient,
               Polynomial &rest) const;
  /// References to atoms stay good while others are added. What an atom is made of was there before
  /// it: its parts have smaller numbers.
  std::deque<Atom> atoms_;
  /// By what they are.
  std::unordered_multimap<size_t, AtomId> interned_;
};

} // namespace dtile::ir
