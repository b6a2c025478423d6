// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// derive-counts: how many notifies one launch sends to each cell of a signal.
//
// Expects: inlined kernels; `signal_param` regions empty.
// Produces: each `signal_param` region computes, from a cell's position and `rank`, the number of
// notifies that all
//   ranks together send to that cell of this rank. A notify site is an equation system: its target
//   rank equals `rank`, its cell the asked one, over the unknowns source rank, tile numbers and
//   loop positions. Unknowns that the equations determine are solved for (count_equations.h);
//   unknowns that nothing mentions multiply the count, as does one of which inequalities leave an
//   interval; what is left is enumerated by loops. Conditions around the notify
//   are asked at the solution. A target that is one of two values is two sites.
// Why: nobody writes a count by hand, and a wait is right whatever the tile sizes are.
// Leaves alone: signals with a notify whose place or condition depends on data (loads): their waits
// must say
//   `count:`, which is reported here.
#include "frontend/base/diagnostics.h"
#include "ir/core/constants.h"
#include "ir/core/tile_order.h"
#include "ir/protocol/count_emitter.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Derives the count of one signal.
class CountDeriver {
public:
  CountDeriver(Module &module, Op &signal)
      : builder_(module), signal_(signal), emitter_(builder_, polys_) {}

  /// The op that makes the signal's count depend on data, or null after filling the region.
  Op *run(llvm::ArrayRef<Op *> sites);
  [[nodiscard]] bool isLong() const { return emitter_.isLong(); }

private:
  void addPositive(const Value &required, CountSite &site);
  bool collect(Op &notify, CountSite &site);
  bool collectEnclosing(Op &notify, CountSite &site);
  bool collectTarget(Value *cells, CountSite &site);
  bool addComparisons(Value *condition, bool wanted, CountSite &site);
  bool addComparison(Op &comparison, bool wanted, CountSite &site);
  bool addUnknown(CountSite &site, Value *position, Value *lo, Value *hi, Value *step);
  void splitChoices(CountSite site, std::vector<CountSite> &split);
  void addCondition(CountSite &site, const Polynomial &condition) const;
  bool isDataFree(const Polynomial &p, const CountSite &site) const;
  bool isDataFree(Value *condition, CountSite &site);

  Builder builder_;
  Op &signal_;
  Polynomials polys_;
  CountEmitter emitter_;
};

bool CountDeriver::addUnknown(CountSite &site, Value *position, Value *lo, Value *hi, Value *step) {
  Polynomial first = polys_.of(lo, site.environment);
  Polynomial stride = polys_.of(step, site.environment);
  Polynomial length = polys_.of(hi, site.environment) - first;
  if (!isDataFree(first, site) || !isDataFree(stride, site) || !isDataFree(length, site))
    return false;
  // Number of blocks: ceil(length / stride).
  Polynomial extent = polys_.div(length + stride - Polynomial(1), stride);
  if (std::optional<int64_t> one = stride.constant(); one && *one == 1)
    extent = length;
  AtomId atom = polys_.fresh(extent);
  site.unknowns.push_back({.atom = atom, .extent = extent});
  site.environment.values[position] = first + stride * Polynomial::atom(atom);
  return true;
}

/// Comparisons of numbers that all must hold as conditions and equations; false where the condition
/// is made of something else.
bool CountDeriver::addComparisons(Value *condition, bool wanted, CountSite &site) {
  Op *op = condition->definingOp();
  if (!op)
    return false;
  if (op->is(OpKind::Not))
    return addComparisons(op->operand(0), !wanted, site);
  if (op->is(wanted ? OpKind::And : OpKind::Or))
    return addComparisons(op->operand(0), wanted, site) &&
           addComparisons(op->operand(1), wanted, site);
  // `a && b`: where a holds b, else false.
  if (op->is(OpKind::If) && wanted) {
    const Op *otherwise = op->body(1).terminator()->operand(condition->index())->definingOp();
    const bool *no = otherwise && otherwise->is(OpKind::Const)
                         ? std::get_if<bool>(otherwise->attr("value"))
                         : nullptr;
    return no && !*no && addComparisons(op->operand(0), true, site) &&
           addComparisons(op->body(0).terminator()->operand(condition->index()), true, site);
  }
  return op->is(OpKind::Cmp) && op->operand(0)->type().isIndex() &&
         addComparison(*op, wanted, site);
}

bool CountDeriver::addComparison(Op &comparison, bool wanted, CountSite &site) {
  const Polynomial difference = polys_.of(comparison.operand(0), site.environment) -
                                polys_.of(comparison.operand(1), site.environment);
  const Polynomial opposite = Polynomial() - difference, one(1);
  if (!isDataFree(difference, site))
    return false;
  const llvm::StringRef pred = comparison.get(attr::pred);
  if (pred == (wanted ? "ge" : "lt"))
    site.conditions.push_back(difference);
  else if (pred == (wanted ? "gt" : "le"))
    site.conditions.push_back(difference - one);
  else if (pred == (wanted ? "le" : "gt"))
    site.conditions.push_back(opposite);
  else if (pred == (wanted ? "lt" : "ge"))
    site.conditions.push_back(opposite - one);
  else if (pred == (wanted ? "eq" : "ne"))
    site.equations.push_back({difference, Polynomial()});
  else
    return false;
  return true;
}

/// Unknowns from the space and the loops around, outermost first, and guards from the ifs.
bool CountDeriver::collectEnclosing(Op &notify, CountSite &site) {
  llvm::SmallVector<std::pair<Op *, Op *>, 8> around;
  for (Op *op = &notify; Op *parent = op->parentOp(); op = parent)
    around.push_back({parent, op});
  for (auto [op, inner] : llvm::reverse(around)) {
    if (op->is(OpKind::Space)) {
      for (unsigned d = 0; d < spaceDims(*op); ++d)
        if (!addUnknown(site, op->body().argument(d), op->operand(3 * d), op->operand(3 * d + 1),
                        op->operand(3 * d + 2)))
          return false;
    } else if (op->is(OpKind::For)) {
      if (!addUnknown(site, op->body().argument(0), op->operand(0), op->operand(1), op->operand(2)))
        return false;
    } else if (op->is(OpKind::If)) {
      bool inThen = inner->parentBlock() == &op->body(0);
      if (CountSite more = site; addComparisons(op->operand(0), inThen, more)) {
        site = std::move(more);
        continue;
      }
      if (isDataFree(op->operand(0), site)) {
        site.guards.push_back({op->operand(0), inThen});
        continue;
      }
      // `a && b` is an `if`, which is no pure op.
      const auto holds = polys_.indicator(op->operand(0), site.environment);
      if (!holds || !isDataFree(*holds, site))
        return false;
      site.conditions.push_back(inThen ? *holds - Polynomial(1) : Polynomial() - *holds);
    } else if (op->is(OpKind::While)) {
      return false;
    }
  }
  return true;
}

/// The equations that say which cell of which rank is notified.
bool CountDeriver::collectTarget(Value *cells, CountSite &site) {
  // Walk from the slice towards the parameter; slices of slices are composed per dimension.
  llvm::SmallVector<Op *, 4> chain;
  Value *value = cells;
  while (value != signal_.result()) {
    Op *op = value->definingOp();
    chain.push_back(op);
    value = op->operand(0);
  }
  Polynomial peer = *site.environment.rank;
  struct Dim {
    Polynomial first;
    bool single = false;
    std::optional<Polynomial> below;
  };
  llvm::SmallVector<Dim, 4> dims(signal_.numOperands());
  // Dimensions of the current value, as numbers of the signal's own.
  llvm::SmallVector<unsigned, 4> live;
  for (unsigned d = 0; d < dims.size(); ++d)
    live.push_back(d);
  for (Op *op : llvm::reverse(chain)) {
    if (op->is(OpKind::SigAt)) {
      peer = polys_.of(op->operand(1), site.environment);
      continue;
    }
    if (!op->is(OpKind::SigSlice))
      return false;
    unsigned next = 1;
    llvm::SmallVector<unsigned, 4> left;
    llvm::StringRef letters = op->get(attr::dims);
    for (unsigned i = 0; i < letters.size(); ++i) {
      Dim &dim = dims[live[i]];
      if (letters[i] == 'i') {
        dim.first = dim.first + polys_.of(op->operand(next++), site.environment);
        dim.single = true;
        continue;
      }
      left.push_back(live[i]);
      if (letters[i] != 'r')
        continue;
      Polynomial base = dim.first;
      dim.first = base + polys_.of(op->operand(next), site.environment);
      dim.below = base + polys_.of(op->operand(next + 1), site.environment);
      next += 2;
    }
    live = left;
  }
  site.equations.push_back({peer, Polynomial::atom(polys_.rank())});
  Polynomials::Environment none;
  for (unsigned d = 0; d < dims.size(); ++d) {
    Polynomial cell = polys_.of(signal_.body().argument(d), none);
    if (dims[d].single)
      site.equations.push_back({dims[d].first, cell});
    else if (dims[d].below)
      site.equations.push_back({dims[d].first, cell, dims[d].below});
  }
  for (const Equation &equation : site.equations)
    if (!isDataFree(equation.value, site) || (equation.below && !isDataFree(*equation.below, site)))
      return false;
  return true;
}

/// Notes the scalar of `L >= 1`.
void CountDeriver::addPositive(const Value &required, CountSite &site) {
  const Op *op = required.definingOp();
  if (!op || !op->is(OpKind::Cmp) || op->get(attr::pred) != "ge" ||
      constantOf(op->operand(1)).value_or(0) < 1)
    return;
  if (const auto atom = polys_.of(op->operand(0), site.environment).asAtom())
    site.positive.push_back(*atom);
}

bool CountDeriver::collect(Op &notify, CountSite &site) {
  // The source rank is an unknown like the others; `rank` in the notifying body is it.
  AtomId source = polys_.fresh(Polynomial::atom(polys_.numRanks()));
  site.unknowns.push_back({.atom = source, .extent = Polynomial::atom(polys_.numRanks())});
  site.environment.rank = Polynomial::atom(source);
  for (const Op &op : notify.enclosing(OpKind::Kernel)->body().ops())
    if (op.is(OpKind::LaunchRequire))
      addPositive(*op.operand(0), site);
  Value *cells = notify.is(OpKind::PutSignal) ? notify.operand(2) : notify.operand(0);
  return collectEnclosing(notify, site) && collectTarget(cells, site);
}

/// Where an equation is about one of two values (`next == W ? 0 : next`), the site is two: in each
/// the equation is simple. All of them together are the notify.
void CountDeriver::splitChoices(CountSite site, std::vector<CountSite> &split) {
  constexpr size_t kMost = 32;
  llvm::SmallVector<AtomId, 8> unknowns;
  for (const Unknown &unknown : site.unknowns)
    unknowns.push_back(unknown.atom);
  std::optional<AtomId> id;
  for (const Equation &equation : site.equations)
    for (const Polynomial *p : {&equation.value, equation.below ? &*equation.below : nullptr})
      if (p && !id)
        id = polys_.choiceOf(*p, unknowns);
  if (!id || split.size() >= kMost) {
    split.push_back(std::move(site));
    return;
  }
  const Polynomials::Atom atom = polys_.atom(*id);
  for (const bool isFirst : {true, false}) {
    CountSite one = site;
    const Polynomial &value = isFirst ? atom.lhs : atom.rhs;
    for (Equation &equation : one.equations) {
      equation.value = polys_.substitute(equation.value, *id, value);
      if (equation.below)
        equation.below = polys_.substitute(*equation.below, *id, value);
    }
    addCondition(one, isFirst ? atom.condition : Polynomial(-1) - atom.condition);
    splitChoices(std::move(one), split);
  }
}

/// Two conditions that are opposites are an equation.
void CountDeriver::addCondition(CountSite &site, const Polynomial &condition) const {
  const auto opposite = llvm::find_if(
      site.conditions, [&](const Polynomial &known) { return known.isOpposite(condition); });
  if (opposite == site.conditions.end()) {
    site.conditions.push_back(condition);
    return;
  }
  site.conditions.erase(opposite);
  site.equations.push_back({condition, Polynomial()});
}

/// Nothing in it comes from memory or from another op that a polynomial cannot say.
bool CountDeriver::isDataFree(const Polynomial &p, const CountSite &site) const {
  std::vector<AtomId> atoms;
  polys_.collectAtoms(p, atoms);
  for (AtomId id : atoms) {
    const Polynomials::Atom &atom = polys_.atom(id);
    if (atom.kind != Polynomials::AtomKind::Value)
      continue;
    // Scalar parameters are the same on every rank by contract; a cell's position is given.
    Op *op = atom.value->definingOp();
    bool isCell = atom.value->argumentOf() == &signal_.body();
    if (!isCell && !(op && op->is(OpKind::ScalarParam)))
      return false;
  }
  return true;
}

bool CountDeriver::isDataFree(Value *condition, CountSite &site) {
  if (condition->type().isIndex())
    return isDataFree(polys_.of(condition, site.environment), site);
  Op *op = condition->definingOp();
  if (!op || !op->isPure())
    return false;
  for (Value *operand : op->operands())
    if (!isDataFree(operand, site))
      return false;
  return true;
}

Op *CountDeriver::run(llvm::ArrayRef<Op *> sites) {
  Block &body = signal_.body();
  if (body.numArguments() == 0)
    for (unsigned d = 0; d < signal_.numOperands(); ++d)
      body.addArgument(builder_.types().index(), "c" + std::to_string(d));
  std::vector<CountSite> collected;
  for (Op *notify : sites) {
    CountSite site;
    if (collect(*notify, site)) {
      splitChoices(std::move(site), collected);
      continue;
    }
    while (body.numArguments() != 0)
      body.removeArgument(body.numArguments() - 1);
    return notify;
  }
  for (Op &op : signal_.parentBlock()->ops()) {
    if (&op == &signal_)
      break;
    if (op.is(OpKind::LaunchDim))
      emitter_.give(polys_.launchDim(op.get(attr::param), op.get(attr::dim)), *op.result());
  }
  builder_.setInsertionPointToEnd(body);
  Value *total = builder_.constIndex(0);
  for (CountSite &site : collected)
    total = builder_.add(total, emitter_.emit(site));
  builder_.op(OpKind::Yield, {total});
  return nullptr;
}

/// The signal_param that a cell value comes from.
Op *signalOf(Value *cells) {
  Op *op = cells->definingOp();
  while (op && !op->is(OpKind::SignalParam))
    op = op->operand(0)->definingOp();
  return op;
}

/// Moves what a launch passes in to the front of the kernel, where every count can see it.
void moveArgumentsUp(Op &kernel) {
  Op *front = &kernel.body().ops().front();
  llvm::SmallVector<Op *, 8> arguments;
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::LaunchDim) || op.is(OpKind::ScalarParam))
      arguments.push_back(&op);
  for (Op *op : arguments) {
    if (op == front)
      front = &*std::next(op->getIterator());
    else
      op->moveBefore(front);
  }
}

} // namespace

bool deriveCounts(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    moveArgumentsUp(kernel);
    llvm::MapVector<Op *, llvm::SmallVector<Op *, 4>> notifies, waits;
    for (Op &op : kernel.body().ops())
      if (op.is(OpKind::SignalParam))
        notifies[&op];
    walk(kernel, [&](Op &op) {
      if (op.is(OpKind::Notify))
        notifies[signalOf(op.operand(0))].push_back(&op);
      else if (op.is(OpKind::PutSignal))
        notifies[signalOf(op.operand(2))].push_back(&op);
      else if (op.is(OpKind::Wait))
        waits[signalOf(op.operand(0))].push_back(&op);
    });
    for (auto &[signal, sites] : notifies) {
      if (!signal || !signal->body().empty())
        continue;
      CountDeriver deriver(module, *signal);
      Op *dataDependent = deriver.run(sites);
      changed = true;
      if (!dataDependent && deriver.isLong())
        context.remark(*signal, "each wait for `" + signal->get(attr::name) +
                                    "` goes through bodies to count its notifies: no sum, quotient "
                                    "or remainder tells from a cell who notifies it");
      if (!dataDependent)
        continue;
      for (Op *wait : waits[signal])
        if (wait->numOperands() == 1)
          context.report(*wait, diag::count_not_derivable, signal->get(attr::name))
              .note({dataDependent->loc(), dataDependent->loc()},
                    diag::note_notify_depends_on_data);
    }
  }
  return changed;
}

} // namespace dtile::passes
