// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/protocol/prove/rank_axes.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

using ir::Op;
using ir::OpKind;
using ir::Polynomial;
using ir::Polynomials;

namespace {

/// Axes beyond these are left out.
constexpr size_t kMostAxes = 4;

/// Finds by what ranks are divided.
class StrideFinder {
public:
  explicit StrideFinder(Polynomials &polys) : polys_(polys) { environment_.hasOwnValues = true; }

  void follow(ir::Value *part, const Polynomial &stride) {
    for (const ir::Use &use : part->uses()) {
      Op *op = use.user;
      if ((!op->is(OpKind::Div) && !op->is(OpKind::Rem)) || op->operand(0) != part)
        continue;
      const Polynomial by = polys_.of(op->operand(1), environment_);
      if (!isOfLaunch(by))
        continue;
      const Polynomial next = stride * by;
      add(next);
      follow(op->result(), op->is(OpKind::Div) ? next : stride);
    }
  }

  /// The strides that divide each other, the smallest first, after 1.
  [[nodiscard]] llvm::SmallVector<Polynomial, 3> chain() {
    // What divides another one has fewer factors, or a smaller constant.
    const auto size = [](const Polynomial &p) {
      return std::pair(p.terms().front().first.size(), p.terms().front().second);
    };
    llvm::stable_sort(strides_,
                      [&](const Polynomial &a, const Polynomial &b) { return size(a) < size(b); });
    llvm::SmallVector<Polynomial, 3> chain{Polynomial(1)};
    for (const Polynomial &stride : strides_)
      if (chain.size() < kMostAxes && divides(chain.back(), stride))
        chain.push_back(stride);
    return chain;
  }

private:
  /// Products of sizes, scalars and constants: the same on all ranks and in all bodies.
  bool isOfLaunch(const Polynomial &by) {
    std::vector<ir::AtomId> atoms;
    polys_.collectAtoms(by, atoms);
    return by.terms().size() == 1 && !by.isZero() && by.terms().front().second > 0 &&
           llvm::all_of(atoms, [&](ir::AtomId id) {
             const Polynomials::Atom &atom = polys_.atom(id);
             return atom.kind == Polynomials::AtomKind::LaunchDim ||
                    atom.kind == Polynomials::AtomKind::NumRanks ||
                    (atom.kind == Polynomials::AtomKind::Value && atom.value->definingOp() &&
                     atom.value->definingOp()->is(OpKind::ScalarParam));
           });
  }
  /// By W itself nothing is divided.
  void add(const Polynomial &stride) {
    const Polynomial rank = Polynomial::atom(polys_.rank());
    if (!(stride == Polynomial(1)) && !polys_.div(rank, stride).isZero() &&
        !llvm::is_contained(strides_, stride))
      strides_.push_back(stride);
  }
  bool divides(const Polynomial &a, const Polynomial &b) { return polys_.rem(b, a).isZero(); }

  Polynomials &polys_;
  Polynomials::Environment environment_;
  llvm::SmallVector<Polynomial, 4> strides_;
};

/// W as a product with the stride in it, where an equation between W and such a product is known.
std::optional<Polynomial> productWith(const Polynomial &stride, Polynomials &polys,
                                      const ir::Facts &launch) {
  const Polynomial ranks = Polynomial::atom(polys.numRanks());
  for (const Polynomial &fact : launch)
    for (const Polynomial &product : {ranks - fact, ranks + fact}) {
      // In `W == P * (W / P)` the quotient is a number like another.
      const bool isProduct = product.terms().size() == 1 && !product.constant() &&
                             !product.hasFactor(polys.numRanks());
      const bool isEqual =
          llvm::any_of(launch, [&](const Polynomial &other) { return other.isOpposite(fact); });
      if (isProduct && isEqual && polys.rem(product, stride).isZero())
        return product;
    }
  return std::nullopt;
}

} // namespace

RankAxes RankAxes::line(const Polynomials &polys) {
  const Polynomial ranks = Polynomial::atom(polys.numRanks());
  RankAxes line;
  line.axes.push_back({Polynomial(1), ranks});
  line.numRanks = ranks;
  return line;
}

Polynomial RankAxes::digitOf(Polynomials &polys, const Polynomial &rank, size_t axis) const {
  const Polynomial above = polys.div(rank, axes[axis].stride);
  return axis + 1 == axes.size() ? above : polys.rem(above, *axes[axis].extent);
}

std::optional<llvm::SmallVector<Polynomial, 3>> RankAxes::digitsOf(Polynomials &polys,
                                                                   const Polynomial &rank) const {
  llvm::SmallVector<Polynomial, 3> digits;
  Polynomial sum;
  for (size_t i = 0; i < axes.size(); ++i) {
    digits.push_back(digitOf(polys, rank, i));
    sum = sum + axes[i].stride * digits.back();
  }
  if (!(sum == rank))
    return std::nullopt;
  return digits;
}

RankAxes findRankAxes(Op &kernel, Polynomials &polys, ir::Refuter &refuter,
                      const ir::Facts &launch) {
  const Polynomial ranks = Polynomial::atom(polys.numRanks());
  StrideFinder finder(polys);
  ir::walk(kernel, [&](Op &op) {
    if (op.is(OpKind::Rank) && !op.enclosing(OpKind::SignalParam))
      finder.follow(op.result(), Polynomial(1));
  });
  const auto strides = finder.chain();
  if (strides.size() == 1)
    return RankAxes::line(polys);
  RankAxes found{{}, ranks};
  for (size_t i = 0; i + 1 < strides.size(); ++i)
    found.axes.push_back({strides[i], polys.div(strides[i + 1], strides[i])});
  const Polynomial &last = strides.back();
  found.axes.push_back({last, std::nullopt});
  if (const auto product = productWith(last, polys, launch)) {
    found.numRanks = *product;
    found.axes.back().extent = polys.div(*product, last);
  } else if (refuter.impliesEqual(launch, polys.rem(ranks, last), Polynomial())) {
    found.axes.back().extent = polys.div(ranks, last);
    found.numRanks = last * *found.axes.back().extent;
  }
  return found;
}

} // namespace dtile::protocol::prove
