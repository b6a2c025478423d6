// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Solves the equations of a notify for tile numbers and loop positions.
#include "ir/protocol/count_equations.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

namespace {

/// A number of ranks, of ranks along an axis, or a positive constant, or a product of such, or a
/// sum.
bool isPositive(const Polynomials &polys, const CountSite &site, const Polynomial &p) {
  return !p.isZero() && llvm::all_of(p.terms(), [&](const Polynomial::Term &term) {
    return term.second > 0 && llvm::all_of(term.first, [&](AtomId id) {
             return id == polys.numRanks() || llvm::is_contained(site.positive, id);
           });
  });
}

/// Solves the equations of one site.
class Solver {
public:
  Solver(Polynomials &polys, CountSite &site) : polys_(polys), site_(site) {}

  /// Solves one equation for one unknown, and puts the solution in everywhere. Where `onlyDirect`
  /// is set, only an equation that is the unknown itself.
  bool solveOne(bool onlyDirect);
  /// Takes the last digit from an equation `n * more + digit == target`, whose digit is an unknown
  /// of extent n.
  bool solveDigit();
  /// Makes two equations of `n * more + x % n == target`.
  bool splitRemainder();
  /// Writes an unknown whose quotient or remainder by some n an equation names as n * q + r.
  /// Quotients go first: they leave fewer values.
  bool splitUnknown(Polynomials::AtomKind kind);
  /// Says by two inequalities what a quotient is of which no unknown could be taken.
  bool boundQuotient();

private:
  [[nodiscard]] bool isOpen(const Polynomial &p) const {
    return llvm::any_of(site_.unknowns, [&](const Unknown &unknown) {
      return !unknown.solution && polys_.mentions(p, unknown.atom);
    });
  }
  [[nodiscard]] bool splitsBy(const Unknown &unknown, const Polynomial &divisor);
  /// The number by which an equation divides an unknown, where it has nothing but the unknown and
  /// multiples of that number there.
  std::optional<Polynomial> divisorOf(const Polynomial &p, const Unknown &unknown,
                                      Polynomials::AtomKind kind);
  /// An open summand of an equation that is a quotient or a remainder of lhs by rhs.
  struct Summand {
    Polynomial value, lhs, rhs;
    /// What else the equation adds up.
    Polynomial others;
  };
  llvm::SmallVector<Summand, 2> openSummands(const Equation &equation, Polynomials::AtomKind kind);
  void replace(AtomId atom, const Polynomial &by);

  Polynomials &polys_;
  CountSite &site_;
};

void Solver::replace(AtomId atom, const Polynomial &by) {
  const auto in = [&](Polynomial &p) { p = polys_.substitute(p, atom, by); };
  for (Equation &equation : site_.equations) {
    in(equation.value);
    if (equation.below)
      in(*equation.below);
  }
  for (Unknown &other : site_.unknowns) {
    in(other.extent);
    if (other.solution && other.atom != atom)
      in(*other.solution);
  }
  for (std::vector<Polynomial> *conditions : {&site_.mustBeZero, &site_.conditions})
    for (Polynomial &condition : *conditions)
      in(condition);
}

bool Solver::solveOne(bool onlyDirect) {
  for (Equation &equation : site_.equations) {
    if (equation.below)
      continue;
    for (Unknown &unknown : site_.unknowns) {
      if (unknown.solution || !polys_.mentions(equation.value, unknown.atom))
        continue;
      if (onlyDirect && equation.value.asAtom() != unknown.atom)
        continue;
      std::vector<Polynomial> conditions;
      std::optional<Polynomial> answer =
          polys_.solve(equation.value, equation.target, unknown.atom, conditions);
      // An unknown must not end up in its own extent.
      const bool isCircular = llvm::any_of(site_.unknowns, [&](const Unknown &other) {
        return !other.solution && polys_.mentions(other.extent, unknown.atom) &&
               polys_.mentions(answer.value_or(Polynomial()), other.atom);
      });
      if (!answer || isCircular)
        continue;
      unknown.solution = answer;
      llvm::append_range(site_.mustBeZero, conditions);
      replace(unknown.atom, *answer);
      return true;
    }
  }
  return false;
}

bool Solver::solveDigit() {
  for (Equation &equation : site_.equations) {
    if (equation.below || isOpen(equation.target))
      continue;
    for (Unknown &unknown : site_.unknowns) {
      const Polynomial digit = Polynomial::atom(unknown.atom), base = unknown.extent;
      const Polynomial more = equation.value - digit;
      if (unknown.solution || isOpen(base) || polys_.mentions(more, unknown.atom) || !isOpen(more))
        continue;
      // Multiples of the base are what the quotient of `more` has in front of its rest's.
      const Polynomial rest = polys_.rem(more, base);
      const std::optional<AtomId> remainder = rest.asAtom();
      const bool isReduced = remainder &&
                             polys_.atom(*remainder).kind == Polynomials::AtomKind::Rem &&
                             polys_.atom(*remainder).rhs == base;
      const Polynomial added = isReduced ? polys_.atom(*remainder).lhs : rest;
      if (isOpen(added))
        continue;
      const Polynomial number = equation.target - added;
      // Without a positive base there are no bodies.
      if (!isPositive(polys_, site_, base))
        site_.conditions.push_back(base - Polynomial(1));
      equation = {polys_.div(more - added, base), polys_.div(number, base)};
      unknown.solution = polys_.rem(number, base);
      replace(unknown.atom, *unknown.solution);
      return true;
    }
  }
  return false;
}

llvm::SmallVector<Solver::Summand, 2> Solver::openSummands(const Equation &equation,
                                                           Polynomials::AtomKind kind) {
  llvm::SmallVector<Summand, 2> found;
  for (const auto &[monomial, coefficient] : equation.value.terms()) {
    if (monomial.size() != 1 || coefficient != 1)
      continue;
    const Polynomial value = Polynomial::atom(monomial.front());
    const Polynomials::Atom &atom = polys_.atom(monomial.front());
    if (atom.kind == kind && isOpen(value))
      found.push_back({value, atom.lhs, atom.rhs, equation.value - value});
  }
  return found;
}

bool Solver::splitRemainder() {
  for (size_t i = 0; i < site_.equations.size(); ++i) {
    const Equation equation = site_.equations[i];
    if (equation.below || isOpen(equation.target))
      continue;
    for (const Summand &remainder : openSummands(equation, Polynomials::AtomKind::Rem)) {
      const Polynomial &more = remainder.others, &base = remainder.rhs;
      if (more.isZero() || isOpen(base) || !isPositive(polys_, site_, base) ||
          !polys_.rem(more, base).isZero())
        continue;
      site_.equations[i] = {polys_.div(more, base), polys_.div(equation.target, base)};
      site_.equations.push_back({remainder.value, polys_.rem(equation.target, base)});
      return true;
    }
  }
  return false;
}

std::optional<Polynomial> Solver::divisorOf(const Polynomial &p, const Unknown &unknown,
                                            Polynomials::AtomKind kind) {
  for (const auto &[monomial, coefficient] : p.terms())
    for (const AtomId id : monomial) {
      const Polynomials::Atom &atom = polys_.atom(id);
      if (atom.kind < Polynomials::AtomKind::Div)
        continue;
      for (const Polynomial *part : {&atom.lhs, &atom.rhs, &atom.condition})
        if (std::optional<Polynomial> inner = divisorOf(*part, unknown, kind))
          return inner;
      if (atom.kind == kind && atom.lhs == Polynomial::atom(unknown.atom) &&
          splitsBy(unknown, atom.rhs))
        return atom.rhs;
    }
  return std::nullopt;
}

/// Whether n * q + r stands for the values of an unknown: n is positive, or there are no values.
bool Solver::splitsBy(const Unknown &unknown, const Polynomial &divisor) {
  return !isOpen(divisor) && unknown.extent != divisor &&
         (isPositive(polys_, site_, divisor) || polys_.rem(unknown.extent, divisor).isZero());
}

bool Solver::splitUnknown(Polynomials::AtomKind kind) {
  for (size_t i = 0; i < site_.unknowns.size(); ++i) {
    const Unknown unknown = site_.unknowns[i];
    if (unknown.solution)
      continue;
    for (const Equation &equation : site_.equations) {
      const std::optional<Polynomial> divisor = divisorOf(equation.value, unknown, kind);
      if (!divisor)
        continue;
      const Polynomial quotients = polys_.div(unknown.extent + *divisor - Polynomial(1), *divisor);
      const AtomId quotient = polys_.fresh(quotients), digit = polys_.fresh(*divisor);
      site_.unknowns.push_back({.atom = quotient, .extent = quotients});
      site_.unknowns.push_back({.atom = digit, .extent = *divisor});
      const Polynomial number = *divisor * Polynomial::atom(quotient) + Polynomial::atom(digit);
      site_.unknowns[i].solution = number;
      replace(unknown.atom, number);
      return true;
    }
  }
  return false;
}

bool Solver::boundQuotient() {
  for (size_t i = 0; i < site_.equations.size(); ++i) {
    const Equation equation = site_.equations[i];
    if (equation.below || isOpen(equation.target))
      continue;
    for (const Summand &quotient : openSummands(equation, Polynomials::AtomKind::Div)) {
      if (isOpen(quotient.others) || !isPositive(polys_, site_, quotient.rhs))
        continue;
      // rhs * number <= lhs < rhs * (number + 1)
      const Polynomial over = quotient.lhs - quotient.rhs * (equation.target - quotient.others);
      site_.conditions.push_back(over);
      site_.conditions.push_back(quotient.rhs - Polynomial(1) - over);
      site_.equations.erase(site_.equations.begin() + ptrdiff_t(i));
      return true;
    }
  }
  return false;
}

} // namespace

void solveSite(Polynomials &polys, CountSite &site) {
  Solver solver(polys, site);
  // Equations that name an unknown go first: they leave the others simple.
  while (solver.solveOne(true) || solver.solveDigit() || solver.splitRemainder() ||
         solver.solveOne(false) || solver.splitUnknown(Polynomials::AtomKind::Div) ||
         solver.splitUnknown(Polynomials::AtomKind::Rem) || solver.boundQuotient()) {
  }
}

std::vector<Polynomial> inequalitiesOf(const Polynomials &polys, const CountSite &site) {
  std::vector<Polynomial> inequalities;
  for (const Unknown &unknown : site.unknowns) {
    if (!unknown.solution)
      continue;
    // A remainder lies in its extent by itself.
    const std::optional<AtomId> single = unknown.solution->asAtom();
    if (single && polys.atom(*single).extent == unknown.extent)
      continue;
    inequalities.push_back(*unknown.solution);
    inequalities.push_back(unknown.extent - Polynomial(1) - *unknown.solution);
  }
  for (const Equation &equation : site.equations) {
    if (!equation.below)
      continue;
    inequalities.push_back(equation.target - equation.value);
    inequalities.push_back(*equation.below - Polynomial(1) - equation.target);
  }
  llvm::append_range(inequalities, site.conditions);
  return inequalities;
}

std::optional<CountInterval> intervalOf(Polynomials &polys, const CountSite &site,
                                        const Unknown &unknown) {
  const auto mentions = [&](const Polynomial &p) { return polys.mentions(p, unknown.atom); };
  const bool isElsewhere =
      !site.guards.empty() || llvm::any_of(site.mustBeZero, mentions) ||
      llvm::any_of(site.equations,
                   [&](const Equation &equation) {
                     return !equation.below && mentions(equation.value - equation.target);
                   }) ||
      llvm::any_of(site.unknowns,
                   [&](const Unknown &other) { return !other.solution && mentions(other.extent); });
  if (isElsewhere)
    return std::nullopt;
  CountInterval interval{{Polynomial()}, {unknown.extent - Polynomial(1)}};
  for (const Polynomial &inequality : inequalitiesOf(polys, site)) {
    if (!mentions(inequality))
      continue;
    // factor * unknown + rest is at least zero.
    const Polynomial rest = inequality.replaced(unknown.atom, Polynomial());
    const Polynomial one = inequality.replaced(unknown.atom, Polynomial(1)) - rest;
    const Polynomial opposite = Polynomial() - one;
    const bool grows = isPositive(polys, site, one);
    if ((!grows && !isPositive(polys, site, opposite)) || mentions(rest) ||
        inequality != rest + one * Polynomial::atom(unknown.atom))
      return std::nullopt;
    if (grows)
      interval.low.push_back(Polynomial() - polys.div(rest, one));
    else
      interval.high.push_back(polys.div(rest, opposite));
  }
  return interval;
}

} // namespace dtile::passes
