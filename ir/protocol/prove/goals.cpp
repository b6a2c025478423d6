// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Goals: something exists. Values for the unknowns are read off the equations, or guessed; nothing
// rests on how they were found, as all that must hold of them is then proved.
#include "ir/protocol/prove/prover.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

void Goal::addExists(const Instance &instance) {
  unknowns.insert(unknowns.end(), instance.unknowns.begin(), instance.unknowns.end());
  for (const Polynomial &bound : instance.bounds)
    formulas.push_back(Formula::atLeastZero(bound));
  formulas.insert(formulas.end(), instance.guards.begin(), instance.guards.end());
  for (const Formula &guard : instance.guards)
    addEquations(guard);
}

/// `if rank() == root` says which rank it is.
void Goal::addEquations(const Formula &guard) {
  if (guard.kind != Formula::Kind::And)
    return;
  const bool isEquation =
      guard.parts.size() == 2 &&
      llvm::all_of(guard.parts,
                   [](const Formula &part) { return part.kind == Formula::Kind::AtLeastZero; }) &&
      guard.parts[0].p.isOpposite(guard.parts[1].p);
  if (isEquation)
    equal.push_back({guard.parts[0].p, Polynomial()});
  else
    for (const Formula &part : guard.parts)
      addEquations(part);
}

void Goal::add(const Goal &other) {
  const auto append = [](auto &to, const auto &from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(unknowns, other.unknowns);
  append(equal, other.equal);
  append(formulas, other.formulas);
  append(members, other.members);
  append(further, other.further);
  append(given, other.given);
  append(reads, other.reads);
  append(known, other.known);
}

namespace {

void replace(Scene &scene, Goal &goal, AtomId id, const Polynomial &by) {
  const auto put = [&](Polynomial &p) { p = scene.polys.substitute(p, id, by); };
  for (auto &[a, b] : goal.equal) {
    put(a);
    put(b);
  }
  for (auto &[p, first] : goal.members) {
    put(p);
    put(first);
  }
  for (Picked &read : goal.reads) {
    put(read.rank);
    put(read.value);
    for (Polynomial &at : read.at)
      put(at);
  }
  for (std::vector<Formula> *formulas : {&goal.formulas, &goal.further, &goal.given})
    for (Formula &formula : *formulas)
      formula = scene.substituted(formula, id, by);
}

/// rem(±unknown + rest, n) == to: the residue; that it is in the unknown's range is shown later.
std::optional<Polynomial> solveResidue(Scene &scene, const Polynomial &from, const Polynomial &to,
                                       AtomId id) {
  const auto single = from.asAtom();
  if (!single)
    return std::nullopt;
  const Polynomials::Atom &atom = scene.polys.atom(*single);
  if (atom.kind != Polynomials::AtomKind::Rem || scene.polys.mentions(atom.rhs, id))
    return std::nullopt;
  std::vector<Polynomial> conditions;
  const auto answer = scene.polys.solve(atom.lhs, to, id, conditions);
  if (!answer || !conditions.empty())
    return std::nullopt;
  return scene.polys.rem(*answer, atom.rhs);
}

/// Which equations give an unknown: those that name it by itself; those that leave it one value; or
/// also those that say its residue, which is one of several values.
enum class Gives : uint8_t { Itself, OneValue, Residue };

/// One unknown from one equation.
bool solveEquation(Scene &scene, Goal &goal, Gives gives) {
  for (const auto &[a, b] : goal.equal)
    for (const auto &[from, to] :
         {std::pair(a, b), std::pair(b, a), std::pair(a - b, Polynomial())})
      for (size_t i = 0; i < goal.unknowns.size(); ++i) {
        const AtomId id = goal.unknowns[i];
        const bool isDirect = from.asAtom() == id || from.isOpposite(var(id));
        if ((gives == Gives::Itself && !isDirect) || !scene.polys.mentions(from, id) ||
            scene.polys.mentions(to, id))
          continue;
        // What the solution needs shows when it is put in place: the equation stays.
        std::vector<Polynomial> conditions;
        auto answer = scene.polys.solve(from, to, id, conditions);
        if (!answer && gives == Gives::Residue)
          answer = solveResidue(scene, from, to, id);
        if (!answer)
          continue;
        goal.unknowns.erase(goal.unknowns.begin() + ptrdiff_t(i));
        replace(scene, goal, id, *answer);
        return true;
      }
  return false;
}

/// One equation of numerals becomes one for the last digit and one for those above it: what is
/// added to a multiple of n, and lies in [0, n), is the remainder by n. With one unknown it is
/// linear, and is split only where the digits are known.
bool splitNumeral(Scene &scene, Goal &goal) {
  const auto isOpen = [&](const Polynomial &p) {
    return llvm::any_of(goal.unknowns, [&](AtomId id) { return scene.polys.mentions(p, id); });
  };
  const auto isRemainder = [&](const Polynomial &p) {
    const auto atom = p.asAtom();
    return !atom || scene.polys.atom(*atom).kind == Polynomials::AtomKind::Rem;
  };
  const auto split = [&](size_t e, const Polynomial &numeral, const Polynomial &value) {
    for (const auto &[monomial, coefficient] : numeral.terms()) {
      if (monomial.size() != 1 || (coefficient != 1 && coefficient != -1))
        continue;
      const Polynomial digit = var(monomial.front());
      const std::optional<Polynomial> extent = scene.polys.atom(monomial.front()).extent;
      const Polynomial above = numeral - Polynomial(coefficient) * digit;
      if (!extent || above.isZero() || !isOpen(digit) || !scene.polys.rem(above, *extent).isZero())
        continue;
      const Polynomial last = scene.polys.rem(Polynomial(coefficient) * value, *extent);
      if (isRemainder(last) && !isOpen(above))
        continue;
      // What is taken away from a multiple is added to the rest.
      const Polynomial rest = coefficient == 1 ? value : value + last;
      goal.equal.push_back({digit, last});
      goal.equal[e] = {scene.polys.div(above, *extent), scene.polys.div(rest, *extent)};
      return true;
    }
    return false;
  };
  for (size_t e = 0; e < goal.equal.size(); ++e)
    for (const auto &[left, right] :
         {goal.equal[e], std::pair(goal.equal[e].second, goal.equal[e].first)}) {
      // Or with what is known on the other side: `peer + 1 == rank`.
      Polynomial open;
      for (const auto &[monomial, coefficient] : left.terms())
        if (const Polynomial term = Polynomial::term(monomial, coefficient); isOpen(term))
          open = open + term;
      if (split(e, left, right) || (!(open == left) && split(e, open, right - (left - open))))
        return true;
    }
  return false;
}

/// The quotient of an unknown, and of something known beside it, that occurs in a polynomial, also
/// inside of quotients and remainders.
std::optional<AtomId> quotientIn(Scene &scene, const Goal &goal, const Polynomial &p, AtomId id) {
  const auto isKnown = [&](const Polynomial &beside) {
    return llvm::none_of(goal.unknowns,
                         [&](AtomId other) { return scene.polys.mentions(beside, other); });
  };
  for (const auto &[monomial, coefficient] : p.terms())
    for (const AtomId part : monomial) {
      const Polynomials::Atom &atom = scene.polys.atom(part);
      if (atom.kind == Polynomials::AtomKind::Div && isKnown(atom.lhs - var(id)))
        return part;
      if (atom.kind != Polynomials::AtomKind::Div && atom.kind != Polynomials::AtomKind::Rem)
        continue;
      if (const auto inner = quotientIn(scene, goal, atom.lhs, id))
        return inner;
    }
  return std::nullopt;
}

/// An unknown whose quotient by some n an equation names becomes n * q + r, less what is known
/// beside it: as with blocks that are dealt to ranks, where `b % W` is the rank and `b / W` the
/// place there, and with the children of a rank in a tree, whose parent is `(child - 1) / 2`.
bool splitQuotient(Scene &scene, Goal &goal) {
  for (size_t i = 0; i < goal.unknowns.size(); ++i) {
    const AtomId id = goal.unknowns[i];
    for (const auto &equation : goal.equal)
      for (const Polynomial *side : {&equation.first, &equation.second}) {
        const auto part = quotientIn(scene, goal, *side, id);
        const Polynomial divisor = part ? scene.polys.atom(*part).rhs : Polynomial();
        const Polynomial beside = part ? scene.polys.atom(*part).lhs - var(id) : Polynomial();
        if (!part || llvm::any_of(goal.unknowns, [&](AtomId other) {
              return scene.polys.mentions(divisor, other);
            }))
          continue;
        const AtomId quotient = scene.polys.fresh(), rest = scene.polys.fresh(divisor);
        goal.unknowns[i] = quotient;
        goal.unknowns.push_back(rest);
        goal.formulas.push_back(Formula::atLeastZero(var(rest)));
        goal.addLess(var(rest), divisor);
        replace(scene, goal, id, divisor * var(quotient) + var(rest) - beside);
        return true;
      }
  }
  return false;
}

/// The coefficient of an atom outside of products with itself and outside of opaque atoms.
std::optional<Polynomial> coefficientOf(Scene &scene, const Polynomial &p, AtomId id) {
  Polynomial factor, rest;
  for (const auto &[monomial, coefficient] : p.terms()) {
    Polynomial term(coefficient);
    const auto count = llvm::count(monomial, id);
    if (count > 1)
      return std::nullopt;
    for (const AtomId atom : monomial)
      if (atom != id)
        term = term * var(atom);
    (count == 1 ? factor : rest) = (count == 1 ? factor : rest) + term;
  }
  if (factor.isZero() || scene.polys.mentions(rest, id) || scene.polys.mentions(factor, id))
    return std::nullopt;
  return factor;
}

/// The block of an unknown that a position lies in; of several unknowns the widest blocks first.
/// That blocks are of one element at least becomes a fact, where it follows: divisions rest on it.
bool guessBlock(Scene &scene, Facts &facts, Goal &goal) {
  std::optional<AtomId> best;
  Polynomial bestFactor, numerator;
  int64_t bestSize = 0;
  for (const auto &[p, first] : goal.members)
    for (const AtomId id : goal.unknowns) {
      const auto factor = coefficientOf(scene, first, id);
      // A position that moves with the block says nothing about which one it is.
      if (!factor || scene.polys.mentions(p, id))
        continue;
      const auto constant = factor->constant();
      const int64_t size = constant ? *constant : INT64_MAX;
      if (size <= bestSize || (!constant && !scene.implies(facts, *factor - Polynomial(1))))
        continue;
      best = id;
      bestFactor = *factor;
      bestSize = size;
      // Blocks of other unknowns begin at their first one.
      Polynomial rest = first - *factor * var(id);
      for (const AtomId other : goal.unknowns)
        rest = scene.polys.substitute(rest, other, Polynomial(0));
      numerator = p - rest;
    }
  if (!best)
    return false;
  if (const Polynomial atLeastOne = bestFactor - Polynomial(1); !atLeastOne.constant())
    facts.push_back(atLeastOne);
  goal.unknowns.erase(llvm::find(goal.unknowns, *best));
  replace(scene, goal, *best, scene.polys.div(numerator, bestFactor));
  return true;
}

/// Puts the number of an element that was read otherwise in place of what the goal reads, where
/// that is the same element.
bool identifyRead(Scene &scene, const Facts &facts, Goal &goal) {
  for (size_t i = 0; i < goal.reads.size(); ++i) {
    const Picked read = goal.reads[i];
    const auto isOpen = [&](const Polynomial &p) {
      return llvm::any_of(goal.unknowns, [&](AtomId id) { return scene.polys.mentions(p, id); });
    };
    if (isOpen(read.rank) || llvm::any_of(read.at, isOpen))
      continue;
    goal.reads.erase(goal.reads.begin() + ptrdiff_t(i));
    const auto known = llvm::find_if(
        goal.known, [&](const Picked &other) { return scene.areOne(facts, read, other); });
    const auto number = read.value.asAtom();
    if (number && known != goal.known.end())
      replace(scene, goal, *number, known->value);
    return true;
  }
  return false;
}

/// Parts that follow each other, of which the first begins at or before a position and the last
/// ends after it: one of them has the position. It is named, and is an unknown no more.
bool namePart(Scene &scene, Facts &facts, Goal &goal) {
  const Polynomial one(1);
  for (const auto &[position, first] : goal.members)
    for (size_t i = 0; i < goal.unknowns.size(); ++i) {
      const AtomId id = goal.unknowns[i];
      const std::optional<Polynomial> parts = scene.polys.atom(id).extent;
      const auto isOpen = [&](const Polynomial &p) {
        return llvm::any_of(goal.unknowns, [&](AtomId other) {
          return other != id && scene.polys.mentions(p, other);
        });
      };
      if (!parts || !scene.polys.mentions(first, id) || scene.polys.mentions(position, id) ||
          isOpen(position) || isOpen(first) || isOpen(*parts))
        continue;
      const auto beginOf = [&, first = first](const Polynomial &part) {
        return scene.polys.substitute(first, id, part);
      };
      // That the next one begins where this one ends is what the goal says.
      const Polynomial before = beginOf(var(id) + one) - position - one;
      const bool isInTurn = llvm::any_of(goal.formulas, [&](const Formula &formula) {
        return formula.kind == Formula::Kind::AtLeastZero && formula.p == before;
      });
      const Polynomial begin = beginOf(Polynomial(0)), end = beginOf(*parts);
      if (!isInTurn || !scene.implies(facts, *parts) || !scene.implies(facts, position - begin) ||
          !scene.implies(facts, end - position - one))
        continue;
      const Polynomial part = var(scene.polys.fresh(*parts));
      facts.push_back(part);
      ir::addLess(facts, part, *parts);
      ir::addLessEqual(facts, beginOf(part), position);
      ir::addLess(facts, position, beginOf(part + one));
      goal.unknowns.erase(goal.unknowns.begin() + ptrdiff_t(i));
      replace(scene, goal, id, part);
      return true;
    }
  return false;
}

/// The cases in which the formula does not hold; none where that cannot be said.
std::vector<Facts> without(Scene &scene, const Facts &facts, const Formula &formula) {
  const auto with = [&](const Formula &fails) {
    Facts more = facts;
    scene.assume(more, fails);
    return more;
  };
  switch (formula.kind) {
  case Formula::Kind::AtLeastZero:
  case Formula::Kind::Or:
    return {with(negated(formula))};
  case Formula::Kind::And: {
    std::vector<Facts> cases;
    for (const Formula &part : formula.parts) {
      std::vector<Facts> fails = without(scene, facts, part);
      if (fails.empty())
        return {};
      llvm::append_range(cases, fails);
    }
    return cases;
  }
  case Formula::Kind::Unknown:
    break;
  }
  return {};
}

/// Whether what has to hold further follows from the facts, or from these and what is given.
bool followsFromGiven(Scene &scene, const Facts &facts, const Goal &goal, const Formula &formula) {
  if (scene.implies(facts, formula))
    return true;
  if (goal.given.empty())
    return false;
  Facts more = facts;
  for (const Formula &given : goal.given)
    scene.assume(more, given);
  return scene.implies(more, formula);
}

bool reachesOneOf(Scene &scene, const Facts &facts, const std::vector<Goal> &goals,
                  unsigned splits) {
  constexpr size_t kMostFailing = 2;
  for (size_t i = 0; i < goals.size(); ++i) {
    std::vector<const Formula *> failing;
    // A bound is often asked for twice, as of both sides of a copy.
    const auto fails = [&](const Formula &formula) {
      const bool isKnown = llvm::any_of(failing, [&](const Formula *known) {
        return known->kind == Formula::Kind::AtLeastZero && known->kind == formula.kind &&
               known->p == formula.p;
      });
      if (!isKnown)
        failing.push_back(&formula);
    };
    for (const Formula &formula : goals[i].formulas) {
      if (!scene.implies(facts, formula))
        fails(formula);
      if (failing.size() > kMostFailing)
        break;
    }
    for (const Formula &formula : goals[i].further) {
      if (failing.size() > kMostFailing)
        break;
      if (!followsFromGiven(scene, facts, goals[i], formula))
        fails(formula);
    }
    if (failing.empty())
      return true;
    if (failing.size() > kMostFailing || splits == 0 || goals.size() == 1)
      continue;
    // Where it fails one of the others must do.
    std::vector<Goal> others = goals;
    others.erase(others.begin() + ptrdiff_t(i));
    const bool isReached = llvm::all_of(failing, [&](const Formula *formula) {
      const std::vector<Facts> cases = without(scene, facts, *formula);
      return !cases.empty() && llvm::all_of(cases, [&](const Facts &left) {
        return scene.refuter.isImpossible(left) || reachesOneOf(scene, left, others, splits - 1);
      });
    });
    if (isReached)
      return true;
  }
  return false;
}

} // namespace

namespace {

/// That the condition is at least zero; with its opposite that is an equation, which says more.
void assumeChosen(Goal &goal, const Polynomial &condition) {
  const auto opposite = llvm::find_if(goal.formulas, [&](const Formula &known) {
    return known.kind == Formula::Kind::AtLeastZero && known.p.isOpposite(condition);
  });
  if (opposite == goal.formulas.end()) {
    goal.formulas.push_back(Formula::atLeastZero(condition));
    return;
  }
  goal.formulas.erase(opposite);
  goal.equal.push_back({condition, Polynomial()});
}

/// The goal once for each way in which what its unknowns choose comes out.
void splitChoices(Scene &scene, Goal goal, std::vector<Goal> &split) {
  constexpr size_t kMost = 8;
  std::optional<AtomId> id;
  const auto find = [&](const Polynomial &p) {
    if (!id)
      id = scene.polys.choiceOf(p, goal.unknowns);
  };
  for (const auto &[a, b] : goal.equal) {
    find(a);
    find(b);
  }
  for (const auto &[p, first] : goal.members) {
    find(p);
    find(first);
  }
  for (const Formula &formula : goal.formulas)
    if (formula.kind == Formula::Kind::AtLeastZero)
      find(formula.p);
  if (!id || split.size() >= kMost) {
    split.push_back(std::move(goal));
    return;
  }
  // A copy: atoms are made meanwhile.
  const Polynomials::Atom atom = scene.polys.atom(*id);
  for (const bool isFirst : {true, false}) {
    Goal one = goal;
    replace(scene, one, *id, isFirst ? atom.lhs : atom.rhs);
    assumeChosen(one, isFirst ? atom.condition : Polynomial(-1) - atom.condition);
    splitChoices(scene, std::move(one), split);
  }
}

/// The polynomial without the positive atoms that are factors of all its terms: it is zero where
/// what is left is zero.
Polynomial withoutFactors(Scene &scene, const Facts &facts, const Polynomial &p) {
  Polynomial::Monomial common = p.terms().front().first;
  for (const auto &[monomial, coefficient] : p.terms()) {
    Polynomial::Monomial both;
    std::set_intersection(common.begin(), common.end(), monomial.begin(), monomial.end(),
                          std::back_inserter(both));
    common = std::move(both);
  }
  Polynomial left = p;
  for (const AtomId id : common)
    if (scene.implies(facts, var(id) - Polynomial(1)))
      left = scene.polys.div(left, var(id));
  return left;
}

} // namespace

namespace {

/// What an unknown is at least, by an inequality of the goal without other unknowns; else zero.
Polynomial leastOf(Scene &scene, const Goal &goal, AtomId id) {
  for (const Formula &formula : goal.formulas) {
    if (formula.kind != Formula::Kind::AtLeastZero)
      continue;
    const Polynomial least = var(id) - formula.p;
    const bool isOpen =
        scene.polys.mentions(least, id) || llvm::any_of(goal.unknowns, [&](AtomId other) {
          return scene.polys.mentions(least, other);
        });
    if (!isOpen && !least.isZero())
      return least;
  }
  return {};
}

} // namespace

void solve(Scene &scene, Facts &facts, Goal &goal, Guesses guesses) {
  constexpr unsigned kMostSplits = 8;
  const bool isEarly = guesses == Guesses::Early;
  // Rests of one quotient may have to be divided for another one.
  unsigned splits = kMostSplits;
  const auto splitOne = [&] {
    if (splits == 0 || !splitQuotient(scene, goal))
      return false;
    --splits;
    return true;
  };
  while (
      solveEquation(scene, goal, Gives::Itself) || splitNumeral(scene, goal) || splitOne() ||
      (isEarly && guessBlock(scene, facts, goal)) || solveEquation(scene, goal, Gives::OneValue) ||
      solveEquation(scene, goal, Gives::Residue) || (!isEarly && guessBlock(scene, facts, goal)) ||
      identifyRead(scene, facts, goal) || namePart(scene, facts, goal)) {
  }
  // What no equation speaks of may be anything that is large enough: the first.
  while (!goal.unknowns.empty()) {
    const AtomId id = goal.unknowns.back();
    goal.unknowns.pop_back();
    replace(scene, goal, id, leastOf(scene, goal, id));
  }
  for (const auto &[a, b] : goal.equal)
    if (!(a == b)) {
      const Polynomial zero = withoutFactors(scene, facts, a - b);
      goal.formulas.push_back(
          {Formula::Kind::And,
           {},
           {Formula::atLeastZero(zero), Formula::atLeastZero(Polynomial() - zero)}});
    }
  goal.equal.clear();
}

namespace {

/// What blocks that positions may lie in are long, where that may be zero elements.
std::optional<Polynomial> openLength(Scene &scene, const Facts &facts, llvm::ArrayRef<Goal> goals) {
  for (const Goal &goal : goals)
    for (const auto &[p, first] : goal.members)
      for (const AtomId id : goal.unknowns) {
        const auto length = coefficientOf(scene, first, id);
        if (length && !length->constant() && !scene.polys.mentions(p, id) &&
            scene.implies(facts, *length) && !scene.implies(facts, *length - Polynomial(1)))
          return length;
      }
  return std::nullopt;
}

} // namespace

bool reachesOne(Scene &scene, Facts facts, std::vector<Goal> choices, Guesses guesses) {
  std::vector<Goal> goals;
  for (Goal &goal : choices)
    splitChoices(scene, std::move(goal), goals);
  for (Goal &goal : goals)
    solve(scene, facts, goal, guesses);
  llvm::erase_if(goals, [](const Goal &goal) {
    return llvm::any_of(goal.formulas, [](const Formula &formula) {
      return formula.kind == Formula::Kind::Unknown;
    });
  });
  return reachesOneOf(scene, facts, goals, 2);
}

bool reachesOneByLength(Scene &scene, const Facts &facts, const std::vector<Goal> &goals) {
  const auto length = openLength(scene, facts, goals);
  if (!length)
    return false;
  // Of blocks without elements none has the position.
  Facts none = facts, some = facts;
  ir::addEqual(none, *length, Polynomial());
  some.push_back(*length - Polynomial(1));
  return (scene.refuter.isImpossible(none) || reachesOne(scene, none, goals)) &&
         reachesOne(scene, some, goals);
}

} // namespace dtile::protocol::prove
