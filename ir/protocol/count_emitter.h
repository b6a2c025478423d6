// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to derive-counts: the solution of a notify's equations as IR.
#pragma once

#include "ir/protocol/count_equations.h"

#include "llvm/ADT/DenseMap.h"

namespace dtile::passes {

/// Emits how many notifies come from a site.
class CountEmitter {
public:
  CountEmitter(ir::Builder &builder, ir::Polynomials &polys) : builder_(builder), polys_(polys) {}

  /// A size that the kernel has at hand before the signal.
  void give(ir::AtomId atom, ir::Value &value) { given_[atom] = &value; }
  /// Solves the site; the number, an index, at the builder.
  ir::Value *emit(CountSite &site);
  /// Whether a number is found by going through bodies, of which there may be many.
  [[nodiscard]] bool isLong() const { return isLong_; }

private:
  using Bound = llvm::DenseMap<ir::AtomId, ir::Value *>;
  ir::Value *emitCount(CountSite &site, Bound bound, size_t next,
                       const std::vector<size_t> &enumerated, const Unknown *counted,
                       const std::vector<size_t> &free);
  ir::Value *emitProduct(CountSite &site, const Bound &bound, const Unknown *counted,
                         const std::vector<size_t> &free);
  ir::Value *emitMatches(CountSite &site, Bound bound, std::optional<ir::AtomId> counted);
  ir::Value *emitAtLeastZero(const ir::Polynomial &p, const Bound &bound);
  ir::Value *emitGuard(ir::Value *condition, CountSite &site, const Bound &bound,
                       llvm::DenseMap<ir::Value *, ir::Value *> &done);
  ir::Value *both(ir::Value *a, ir::Value *b) { return builder_.value(ir::OpKind::And, {a, b}); }

  ir::Builder &builder_;
  ir::Polynomials &polys_;
  bool isLong_ = false;
  Bound given_;
};

} // namespace dtile::passes
