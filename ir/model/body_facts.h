// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is asked of a kernel again for each launch that is estimated, and no launch changes.
#pragma once

#include "ir/analysis/boxes/folded_tiles.h"
#include "ir/core/op_classes.h"
#include "ir/model/op_cost.h"
#include "ir/model/streams.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace dtile::model {

/// Of one kernel, which stays as it is; a question is answered once. Of one thread.
class BodyFacts {
public:
  [[nodiscard]] Stream streamOf(ir::Op &load) {
    return of<const ir::Op *>(streams_, &load, [&] { return model::streamOf(load); });
  }
  /// Of the space around an op.
  [[nodiscard]] llvm::ArrayRef<ir::Op *> firstReads(ir::Op &op) {
    ir::Op *space = op.enclosing(ir::OpKind::Space);
    auto &reads = firstReads_[space];
    if (!reads)
      reads = model::firstReads(*space);
    return *reads;
  }
  [[nodiscard]] double pieceFactor(ir::Op &op, ir::Type tile) {
    return of<const ir::Op *>(pieces_, &op, [&] { return model::pieceFactor(op, tile); });
  }
  [[nodiscard]] double streamedAhead(ir::Op &loop) {
    return of<const ir::Op *>(streamedAhead_, &loop, [&] { return model::streamedAhead(loop); });
  }
  [[nodiscard]] int64_t keptTiles(const ir::Op &loop) {
    return of<const ir::Op *>(kept_, &loop, [&] { return model::keptTiles(loop); });
  }
  /// Of the space around an op.
  [[nodiscard]] bool hasUnstagedBody(ir::Op &op) {
    ir::Op *space = op.enclosing(ir::OpKind::Space);
    return of<const ir::Op *>(unstaged_, space, [&] { return model::hasUnstagedBody(*space); });
  }
  /// Of the space around an op.
  [[nodiscard]] int64_t foldedUnits(ir::Op &op) {
    ir::Op *space = op.enclosing(ir::OpKind::Space);
    return of<const ir::Op *>(folded_, space, [&] { return ir::FoldedRing(*space).units; });
  }
  [[nodiscard]] Sends sendsOfProducts(ir::Block &body) {
    return of<const ir::Block *>(sends_, &body, [&] { return model::sendsOfProducts(body); });
  }
  /// Whether something in it reads memory into registers.
  [[nodiscard]] bool readsMemory(ir::Block &body) {
    return of<const ir::Block *>(reads_, &body, [&] {
      bool reads = false;
      ir::walk(body, [&](ir::Op &op) { reads |= model::readsMemory(op); });
      return reads;
    });
  }
  /// Whether it loads tiles in a kernel without products.
  [[nodiscard]] bool begins(ir::Block &body) {
    return of<const ir::Block *>(begins_, &body, [&] {
      return readsMemory(body) && !ir::multiplies(*body.parentOp()->enclosing(ir::OpKind::Kernel));
    });
  }
  [[nodiscard]] double arithmetic(ir::Op &op, const TargetFacts &machine) {
    if (!arithmetic_)
      arithmetic_.emplace(op);
    return arithmetic_->of(op, machine);
  }

private:
  template <typename Key, typename T, typename Find>
  static T of(llvm::DenseMap<Key, T> &known, Key key, Find find) {
    const auto [it, isNew] = known.try_emplace(key);
    if (isNew)
      it->second = find();
    return it->second;
  }

  llvm::DenseMap<const ir::Op *, Stream> streams_;
  llvm::DenseMap<const ir::Op *, std::optional<llvm::SmallVector<ir::Op *, 4>>> firstReads_;
  llvm::DenseMap<const ir::Op *, double> pieces_;
  llvm::DenseMap<const ir::Op *, double> streamedAhead_;
  llvm::DenseMap<const ir::Op *, int64_t> kept_;
  llvm::DenseMap<const ir::Op *, bool> unstaged_;
  llvm::DenseMap<const ir::Op *, int64_t> folded_;
  llvm::DenseMap<const ir::Block *, Sends> sends_;
  llvm::DenseMap<const ir::Block *, bool> reads_;
  llvm::DenseMap<const ir::Block *, bool> begins_;
  std::optional<ArithmeticCost> arithmetic_;
};

} // namespace dtile::model
