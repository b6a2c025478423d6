// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// swap-operands: computes (b a)^T for a b, where a is loaded, and
//   - b is computed, or
//   - b is loaded and MN-major, of a type of which the instruction takes K-major tiles alone (where
//     a is MN-major as well, the larger of the two is multiplied from registers), or
//   - b is loaded, and only its rows are a multiple of the instruction's: products of 8 to 250 rows
//     have tiles of 16 to 256 rows that way, and 128 or 256 columns.
//
// Expects: inlined kernels, before stage-loads; facts of a machine whose warpgroups multiply.
// Produces: the loop sums the transposed product, whose first operand is what the second was; the
//   sum is transposed back after the loop, where it only changes which element is called which.
// Why: wgmma takes its first operand from registers, and its second one from shared memory alone
//   (PTX ISA, "wgmma.mma_async"). Weights of 8 bits that are converted, or scaled, are as a rule
//   the second operand: `dot(a[m, k], cast<bf16>(w[n, k]).T)`. In registers elements may come from
//   a tile of either order: `dot<tf32>(a[m, k], w[k, n])`.
// Leaves alone: sums that are more than sums of one product, and shapes that have no instruction
//   the other way round.
#include "ir/analysis/loop_positions.h"
#include "ir/analysis/row_gathers.h"
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Columns of an instruction are multiples of this, and at most that many.
constexpr int64_t kColumns = 16, kMostColumns = 256;

bool isTranspose(const Op &op) {
  return op.is(OpKind::Trans) && op.get(attr::perm) == llvm::ArrayRef<int64_t>({1, 0});
}

/// What makes an operand, before it is transposed.
const Op *sourceOf(const Value &operand) {
  const Op *op = operand.definingOp();
  return op && isTranspose(*op) ? op->operand(0)->definingOp() : op;
}

/// Whether an operand is a box of memory, as it is or transposed.
bool isBox(const Value &operand) {
  const Op *op = sourceOf(operand);
  return op && op->is(OpKind::Load);
}
/// The same, or rows of memory that are picked.
bool isLoaded(const Value &operand) {
  const Op *op = sourceOf(operand);
  return isBox(operand) || (op && gathersRows(*op));
}

/// Whether an operand is computed in a loop, from what that loads.
bool isComputedIn(const Value &operand, const Block &body) {
  const Op *op = operand.definingOp();
  return op && op->parentBlock() == &body && !isLoaded(operand);
}

/// Whether the second of two operands that are loaded is MN-major, which the instruction takes from
/// registers alone, and the first one is not or is smaller: pass stage-loads has it transposed. Two
/// groups share the rows, so that one multiplies while the other reads.
bool isMnMajorSecond(const Op &dot, const TargetFacts &facts) {
  const Value &a = *dot.operand(0), &b = *dot.operand(1);
  const llvm::ArrayRef<int64_t> shape = dot.result()->type().shape();
  const GroupProduct *product = facts.findGroupProduct(
      b.type().dtype(), a.type().dtype(), dot.result()->type().dtype(), dot.has(attr::precision));
  return isLoaded(a) && isLoaded(b) && !isTranspose(*b.definingOp()) &&
         (!isTranspose(*a.definingOp()) || shape[0] < shape[1]) && product &&
         !product->takesMnMajor && shape[1] % (2 * facts.groupRows) == 0;
}

/// How warpgroups share so many rows: 2 where one has them all or two have as many blocks each, 1
/// where two have to share the columns instead (which gives instructions of fewer columns), 0 where
/// there is no instruction.
int fitOfRows(int64_t rows, bool canShareColumns, const TargetFacts &facts) {
  const int64_t blocks = rows / facts.groupRows;
  if (rows % facts.groupRows != 0)
    return 0;
  return blocks == 1 || blocks % 2 == 0 ? 2 : int(canShareColumns);
}

/// Whether both operands are boxes of memory, and the columns of the product are better rows of an
/// instruction than its rows are. An instruction has more numbers of columns than of rows, so
/// tiles can be as high as the matrix needs: 308 rows are two tiles of 160, not three of 128.
bool hasRowsOfNone(const Op &dot, const TargetFacts &facts) {
  const llvm::ArrayRef<int64_t> shape = dot.result()->type().shape();
  const Value &a = *dot.operand(0), &b = *dot.operand(1);
  // Columns are shared where the operand that has them is K-major.
  return isBox(a) && isBox(b) &&
         fitOfRows(shape[0], isTranspose(*b.definingOp()), facts) <
             fitOfRows(shape[1], !isTranspose(*a.definingOp()), facts);
}

/// The only product of a loop, where it is added to a tile of the loop and that is all there is to
/// both; else null.
Op *onlySum(Op &loop) {
  Op *found = nullptr;
  for (Op &op : loop.body().ops()) {
    if (!op.is(OpKind::Dot))
      continue;
    if (found)
      return nullptr;
    found = &op;
  }
  if (!found)
    return nullptr;
  const Value *sum = found->operand(2), *result = found->result();
  const bool isSum = sum->argumentOf() == &loop.body() && sum->hasOneUse() && result->hasOneUse() &&
                     result->uses()[0].user == loop.body().terminator() &&
                     result->uses()[0].index + 1 == sum->index();
  return isSum ? found : nullptr;
}

/// Why the product of a loop is computed the other way round, as a remark says it; empty where it
/// is not, or warpgroups have no instruction for that.
llvm::StringRef whySwapped(const Op &dot, const Op &loop, const TargetFacts &facts) {
  const Type a = dot.operand(0)->type(), b = dot.operand(1)->type(), sum = dot.result()->type();
  const GroupProduct *product =
      facts.findGroupProduct(b.dtype(), a.dtype(), sum.dtype(), dot.has(attr::precision));
  if (!product || !isLoaded(*dot.operand(0)) || sum.shape()[1] % facts.groupRows != 0 ||
      sum.shape()[0] % kColumns != 0 || sum.shape()[0] > kMostColumns)
    return {};
  if (product->fromRegisters && isComputedIn(*dot.operand(1), loop.body()))
    return "what is computed is multiplied from registers";
  if (product->fromRegisters && isMnMajorSecond(dot, facts))
    return "the MN-major one is multiplied from registers";
  if (hasRowsOfNone(dot, facts))
    return "instructions have as many columns as it has rows";
  return {};
}

/// A tile transposed: what it was before it was, or what it repeats; else by an op.
Value *transposed(Builder &builder, Value *tile) {
  const Op *op = tile->definingOp();
  if (op && isTranspose(*op))
    return op->operand(0);
  const llvm::ArrayRef<int64_t> shape = tile->type().shape();
  const Type type = builder.types().tile({shape[1], shape[0]}, tile->type().dtype());
  if (op && op->is(OpKind::Splat))
    return builder.value(OpKind::Splat, {op->operand(0)}, type);
  return builder.value(OpKind::Trans, {tile}, type, {{attr::perm, std::vector<int64_t>{1, 0}}});
}

void swap(Op &loop, Op &dot) {
  Builder builder(loop.parentBlock()->module());
  const unsigned carried = dot.operand(2)->index() - 1;
  builder.setLoc(dot.loc());
  builder.setInsertionPoint(&loop);
  Value *start = transposed(builder, loop.operand(carried + 3));
  const Type type = start->type();
  loop.setOperand(carried + 3, start);
  loop.body().argument(carried + 1)->setType(type);

  builder.setInsertionPoint(&dot);
  const llvm::SmallVector<Op *, 2> before{dot.operand(0)->definingOp(),
                                          dot.operand(1)->definingOp()};
  Value *first = transposed(builder, dot.operand(1)), *second = transposed(builder, dot.operand(0));
  dot.setOperand(0, first);
  dot.setOperand(1, second);
  dot.result()->setType(type);
  for (Op *op : before)
    if (!op->result()->hasUses())
      op->erase();

  Value *sum = loop.result(carried);
  const llvm::SmallVector<Use, 2> uses(sum->uses());
  sum->setType(type);
  builder.setInsertionPoint(&loop);
  Op *back = transposed(builder, sum)->definingOp();
  back->moveAfter(&loop);
  for (const Use &use : uses)
    use.user->setOperand(use.index, back->result());
}

} // namespace

bool swapOperands(Module &module, PassContext &context) {
  bool changed = false;
  if (!context.facts || context.facts->groupRows == 0)
    return changed;
  for (Op *loop : loopsOfSpaces(module)) {
    Op *dot = loop->is(OpKind::For) ? onlySum(*loop) : nullptr;
    const llvm::StringRef why = dot ? whySwapped(*dot, *loop, *context.facts) : "";
    if (why.empty())
      continue;
    swap(*loop, *dot);
    context.remark(*dot, "its operands are swapped: " + llvm::Twine(why));
    changed = true;
  }
  return changed;
}

} // namespace dtile::passes
