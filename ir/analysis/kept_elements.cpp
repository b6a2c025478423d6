// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows a tile through what is computed element by element, through loops that carry it and
// results of branches, to the stores.
#include "ir/analysis/kept_elements.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::ir {

namespace {

using Dims = llvm::SmallVector<std::optional<unsigned>, 4>;

/// Whether a block is that of `op`, or around it.
bool isAround(const Block *block, const Op *op) {
  for (; op; op = op->parentOp())
    if (op->parentBlock() == block)
      return true;
  return false;
}

class Follower {
public:
  explicit Follower(Op &load) : load_(load) {}

  std::optional<std::vector<KeptBy>> run() {
    Dims dims;
    for (unsigned d = 0; d < load_.result()->type().rank(); ++d)
      dims.emplace_back(d);
    if (!follow(load_.result(), dims))
      return std::nullopt;
    // What one iteration leaves to the next is not followed to a store of that.
    for (const KeptBy &kept : kept_)
      for (const Op *at = kept.op; at; at = at->parentOp())
        if (carrying_.contains(at))
          return std::nullopt;
    return std::move(kept_);
  }

private:
  /// False where some use of the value wants all of its elements.
  bool follow(Value *value, const Dims &dims) {
    if (!value->type().isTile())
      return false;
    const auto [it, isNew] = seen_.try_emplace(value, dims);
    if (!isNew)
      return it->second == dims;
    return llvm::all_of(value->uses(), [&](const Use &use) {
      return followUse(*use.user, use.index, value, dims);
    });
  }

  bool followUse(Op &user, unsigned index, Value *value, const Dims &dims) {
    if (isElementwise(user.kind()))
      return follow(user.result(), dims);
    switch (user.kind()) {
    case OpKind::Convert:
      return follow(user.result(), dims);
    case OpKind::Broadcast:
      return follow(user.result(), moved(dims, [&](unsigned d) -> std::optional<unsigned> {
                      return value->type().shape()[d] == user.result()->type().shape()[d]
                                 ? std::optional(d)
                                 : std::nullopt;
                    }));
    case OpKind::Trans:
      return follow(user.result(), moved(dims, [&](unsigned d) -> std::optional<unsigned> {
                      const llvm::ArrayRef<int64_t> perm = user.get(attr::perm);
                      return unsigned(llvm::find(perm, int64_t(d)) - perm.begin());
                    }));
    case OpKind::Reduce: {
      const auto axis = unsigned(user.get(attr::axis));
      return follow(user.result(), moved(dims, [&](unsigned d) -> std::optional<unsigned> {
                      return d == axis ? std::nullopt : std::optional(d < axis ? d : d - 1);
                    }));
    }
    case OpKind::Reshape:
      return followReshape(user, value, dims);
    case OpKind::Store:
    case OpKind::Put:
    case OpKind::PutSignal:
    case OpKind::ReduceAdd:
      if (index != 0 || !isAround(user.parentBlock(), &load_))
        return false;
      kept_.push_back({&user, dims});
      return true;
    case OpKind::For:
      return index >= 3 && followCarried(user, index - 3, dims);
    case OpKind::Yield: {
      Op *around = user.parentOp();
      if (around->is(OpKind::If))
        return follow(around->result(index), dims);
      return around->is(OpKind::For) && followCarried(*around, index, dims);
    }
    default:
      return false;
    }
  }

  bool followCarried(Op &loop, unsigned k, const Dims &dims) {
    carrying_.insert(&loop);
    return follow(loop.body().argument(1 + k), dims) && follow(loop.result(k), dims);
  }

  /// Dimensions of size 1 may come and go.
  bool followReshape(Op &reshape, Value *value, const Dims &dims) {
    const llvm::ArrayRef<int64_t> from = value->type().shape();
    const llvm::ArrayRef<int64_t> to = reshape.result()->type().shape();
    llvm::SmallVector<std::optional<unsigned>, 4> places(from.size());
    unsigned next = 0;
    for (auto [d, size] : llvm::enumerate(from)) {
      if (size == 1)
        continue;
      while (next < to.size() && to[next] == 1)
        ++next;
      if (next == to.size() || to[next] != size)
        return false;
      places[d] = next++;
    }
    return llvm::all_of(to.drop_front(next), [](int64_t size) { return size == 1; }) &&
           follow(reshape.result(), moved(dims, [&](unsigned d) { return places[d]; }));
  }

  template <typename Fn> static Dims moved(const Dims &dims, Fn &&place) {
    Dims result;
    for (const std::optional<unsigned> d : dims)
      result.push_back(d ? place(*d) : std::nullopt);
    return result;
  }

  Op &load_;
  std::vector<KeptBy> kept_;
  llvm::DenseMap<Value *, Dims> seen_;
  /// Loops that carry what is followed.
  llvm::SmallPtrSet<const Op *, 4> carrying_;
};

} // namespace

std::optional<std::vector<KeptBy>> keptElements(Op &load) {
  if (!load.is(OpKind::Load) || !load.result()->type().isTile())
    return std::nullopt;
  return Follower(load).run();
}

} // namespace dtile::ir
