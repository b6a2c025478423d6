// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cse: one op for equal pure ops.
//
// Expects: any well-formed module; canonicalize first, so that equal values look equal.
// Produces: the first of equal pure ops (kind, operands, attributes, result types) serves those
//   below it in its region and the regions nested in it.
// Why: slices and index arithmetic come out of lowering once for each mention.
// Leaves alone: ops with effects, and ops that give tokens: each token is used once. Of loads only
//   those of inputs are merged, which nobody writes: of single elements, so that sizes read twice
//   are one number to the prover, and of tiles that are the same operand of products side by side.
//   Other tiles would be kept in registers, and what is several operands is not staged
//   (stage-loads).
#include "ir/analysis/communication.h"
#include "ir/transform/fold.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopedHashTable.h"

namespace dtile::passes {

using namespace dtile::ir;

namespace {

llvm::hash_code hashOf(const Attr &attr) {
  return std::visit(
      [](const auto &value) -> llvm::hash_code {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          llvm::hash_code hash = llvm::hash_value(value.size());
          for (const std::string &text : value)
            hash = llvm::hash_combine(hash, text);
          return hash;
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          return llvm::hash_combine_range(value.begin(), value.end());
        } else if constexpr (std::is_same_v<T, double>) {
          return llvm::hash_value(std::bit_cast<uint64_t>(value));
        } else {
          return llvm::hash_value(value);
        }
      },
      attr);
}

/// Equal to the bit: 0.0 and -0.0 are not the same constant.
bool isSame(const Attr &a, const Attr &b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (x && y)
    return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
  return a == b;
}

/// Compares ops by what they compute.
struct SameComputation {
  static Op *getEmptyKey() { return llvm::DenseMapInfo<Op *>::getEmptyKey(); }
  static Op *getTombstoneKey() { return llvm::DenseMapInfo<Op *>::getTombstoneKey(); }

  static unsigned getHashValue(const Op *op) {
    llvm::hash_code hash = llvm::hash_value(unsigned(op->kind()));
    if (isCommutative(op->kind())) {
      const auto a = uintptr_t(op->operand(0)), b = uintptr_t(op->operand(1));
      hash = llvm::hash_combine(hash, std::min(a, b), std::max(a, b));
    } else {
      hash = llvm::hash_combine(
          hash, llvm::hash_combine_range(op->operands().begin(), op->operands().end()));
    }
    for (const NamedAttr &attr : op->attrs())
      hash = llvm::hash_combine(hash, attr.name, hashOf(attr.value));
    for (const Value *result : op->results())
      hash = llvm::hash_combine(hash, result->type().storage());
    return unsigned(hash);
  }

  static bool isEqual(const Op *a, const Op *b) {
    if (a == b)
      return true;
    if (isSpecial(a) || isSpecial(b))
      return false;
    if (a->kind() != b->kind() || a->numResults() != b->numResults())
      return false;
    const bool swapped = isCommutative(a->kind()) && a->operand(0) == b->operand(1) &&
                         a->operand(1) == b->operand(0);
    if (!swapped && a->operands() != b->operands())
      return false;
    for (unsigned i = 0; i < a->numResults(); ++i)
      if (a->result(i)->type() != b->result(i)->type())
        return false;
    return llvm::equal(a->attrs(), b->attrs(), [](const NamedAttr &x, const NamedAttr &y) {
      return x.name == y.name && isSame(x.value, y.value);
    });
  }

private:
  static bool isSpecial(const Op *op) { return op == getEmptyKey() || op == getTombstoneKey(); }
};

class Eliminator {
public:
  void visit(Block &block) {
    const Table::ScopeTy scope(known_);
    for (auto it = block.ops().begin(); it != block.ops().end();) {
      Op &op = *it++;
      for (unsigned i = 0; i < op.numRegions(); ++i)
        visit(op.body(i));
      if (isCandidate(op))
        eliminate(op);
    }
  }
  /// Numbers of the block itself, not of what is nested in it.
  void visitNumbers(Block &block) {
    const Table::ScopeTy scope(known_);
    for (auto it = block.ops().begin(); it != block.ops().end();) {
      Op &op = *it++;
      if (op.isPure() && op.numRegions() == 0 && op.numResults() == 1 &&
          op.result()->type().isIndex())
        eliminate(op);
    }
  }
  [[nodiscard]] bool changed() const { return changed_; }

private:
  using Table = llvm::ScopedHashTable<Op *, Op *, SameComputation>;

  /// Which operand of products beside it a tile is, in all its uses; none where it is anything
  /// else.
  static std::optional<unsigned> operandOfProducts(const Op &op) {
    std::optional<unsigned> operand;
    for (const Use &use : op.result()->uses()) {
      if (!use.user->is(OpKind::Dot) || use.user->parentBlock() != op.parentBlock() ||
          (operand && *operand != use.index))
        return std::nullopt;
      operand = use.index;
    }
    return operand;
  }

  /// A tile of what nobody writes.
  static bool isTileOfInput(const Op &op) {
    return isReadOfInput(op) && op.result()->type().isTile();
  }

  static bool isElementOfInput(const Op &op) {
    return isLoadOfInput(op) && !op.result()->type().isTile();
  }

  /// How products beside it use a tile of an input: as which operand, and whether as it is or
  /// transposed. None where it has other uses.
  static std::optional<std::pair<unsigned, bool>> roleOf(const Op &op) {
    if (!isTileOfInput(op))
      return std::nullopt;
    const auto uses = op.result()->uses();
    const bool isTransposed = !uses.empty() && uses[0].user->is(OpKind::Trans);
    if (isTransposed && uses.size() != 1)
      return std::nullopt;
    if (const auto operand = operandOfProducts(isTransposed ? *uses[0].user : op))
      return std::make_pair(*operand, isTransposed);
    return std::nullopt;
  }

  static bool isCandidate(const Op &op) {
    if (isElementOfInput(op) || roleOf(op))
      return true;
    return op.isPure() && op.numRegions() == 0 && op.numResults() != 0 &&
           llvm::none_of(op.results(), [](const Value *v) { return v->type().isToken(); });
  }

  void eliminate(Op &op) {
    Op *first = known_.lookup(&op);
    if (!first) {
      known_.insert(&op, &op);
      return;
    }
    // A load that another kind of product needs stays one of its own.
    if (isTileOfInput(op) &&
        (first->parentBlock() != op.parentBlock() || roleOf(*first) != roleOf(op))) {
      known_.insert(&op, &op);
      return;
    }
    for (auto [result, same] : llvm::zip(op.results(), first->results())) {
      if (same->nameHint().empty())
        same->setNameHint(result->nameHint());
      result->replaceAllUsesWith(same);
    }
    op.erase();
    changed_ = true;
  }

  Table known_;
  bool changed_ = false;
};

} // namespace

bool eliminateCommonSubexpressions(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &function : module.body().ops()) {
    Eliminator eliminator;
    for (unsigned i = 0; i < function.numRegions(); ++i)
      eliminator.visit(function.body(i));
    changed |= eliminator.changed();
  }
  return changed;
}

bool shareSizes(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &function : module.body().ops()) {
    Eliminator eliminator;
    if (function.is(OpKind::Kernel))
      eliminator.visitNumbers(function.body());
    changed |= eliminator.changed();
  }
  return changed;
}

} // namespace dtile::passes
