// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// stage-loads: multi-stage staging of the operands of products.
//
// Expects: inlined kernels behind the other schedule passes; facts of a machine whose copy engine
//   moves boxes of tensors to shared memory and whose groups of warps multiply what lies there.
// Produces: for a loop that only adds products of two windows to a tile: attribute `stages` on the
//   loop, `swizzle` (bytes) on its loads, `groups` (of warps, one above the other) on the product
//   and on the space, and `threads` on the kernel. The back end splits the bodies of such a space:
//   one warp issues the copies, as many stages ahead as there are, and the groups multiply.
// Why: the matrix units have to be fed from copies that were started long before.
// Leaves alone: operands that the copy engine would not read as the views say (a limit inside of
//   the tensor, where that is not known to make no difference), with a remark.
#include "ir/analysis/communication.h"
#include "ir/analysis/polynomial.h"
#include "ir/analysis/target_facts.h"
#include "ir/analysis/tensor_box.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

#include <array>

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Most stages that pay: copies that far ahead hide any latency.
constexpr int64_t kMostStages = 8;
constexpr int64_t kFewestStages = 2;
/// The widest and the narrowest box along its innermost dimension, in bytes.
constexpr int64_t kSwizzleBytes = 128;
constexpr int64_t kFewestSwizzleBytes = 32;
/// Bytes of the summed dimension that one instruction takes.
constexpr int64_t kDepthBytes = 32;
/// Bytes that a row in shared memory is longer than its elements, at most.
constexpr int64_t kRowPadding = 32;
/// Most rows, and columns, of a box.
constexpr int64_t kMostBoxRows = 256;

/// A product in a loop, and where its operands come from.
struct Candidate {
  Op *loop = nullptr;
  Op *dot = nullptr;
  /// Of the first and of the second operand.
  Op *loads[2] = {};
  /// The dimension that is summed over is the load's first one, and its last one is the sum's.
  bool isAcross[2] = {};

  [[nodiscard]] unsigned rowDim(unsigned operand) const { return isAcross[operand] ? 1 : 0; }
  [[nodiscard]] int64_t rows(unsigned operand) const {
    return loads[operand]->result()->type().shape()[rowDim(operand)];
  }
  [[nodiscard]] int64_t depth(unsigned operand) const {
    return loads[operand]->result()->type().shape()[1 - rowDim(operand)];
  }
};

/// Stages the loops of one space.
class LoadStager {
public:
  LoadStager(Op &space, PassContext &context, const TargetFacts &facts)
      : space_(space), context_(context), facts_(facts) {}
  bool run();

private:
  void find(Block &block);
  void consider(Op &dot);
  [[nodiscard]] const GroupProduct *productOf(const Candidate &candidate) const {
    const Op &dot = *candidate.dot;
    return facts_.findGroupProduct(dot.operand(0)->type().dtype(), dot.operand(1)->type().dtype(),
                                   dot.result()->type().dtype(), dot.hasAttr("precision"));
  }
  [[nodiscard]] bool hasProduct(const Candidate &candidate);
  [[nodiscard]] bool isOrderedByBody(const Candidate &candidate);
  [[nodiscard]] bool mapsRight(const Candidate &candidate);
  [[nodiscard]] bool mapsRight(const Candidate &candidate, unsigned operand, const TensorBox &box);
  [[nodiscard]] bool isExact(const TensorBox &box, unsigned dim);
  using Tiles = llvm::SmallPtrSet<const Value *, 8>;
  [[nodiscard]] bool staysApart(Value *tile, unsigned dim, const Polynomial &room, Tiles &seen);
  [[nodiscard]] bool isStoredWithin(Value *view, unsigned dim, const Polynomial &room);
  [[nodiscard]] int64_t groupsOf(const Candidate &candidate);
  [[nodiscard]] int64_t outputBytes(const Candidate &candidate);
  void refuse(const Op &op, const llvm::Twine &why);
  Polynomial polynomial(Value *value) { return polys_.of(value, environment_); }

  Op &space_;
  PassContext &context_;
  const TargetFacts &facts_;
  Polynomials polys_;
  Polynomials::Environment environment_;
  llvm::SmallVector<Candidate, 2> candidates_;
};

void LoadStager::refuse(const Op &op, const llvm::Twine &why) {
  context_.remark(op, "operands of this product are not staged: " + why);
}

/// Loops whose bodies run as often in each thread: not under conditions.
void LoadStager::find(Block &block) {
  for (Op &op : block.ops()) {
    if (op.is(OpKind::Dot))
      consider(op);
    if (op.is(OpKind::For))
      find(op.body());
  }
}

/// The load that gives a tile, as it is or transposed.
Op *loadOf(Value *operand, bool &isTransposed) {
  Op *op = operand->definingOp();
  isTransposed = op && op->is(OpKind::Trans) &&
                 op->intsAttr("perm") == llvm::ArrayRef<int64_t>({1, 0}) &&
                 op->result()->hasOneUse();
  if (isTransposed)
    op = op->operand(0)->definingOp();
  return op && op->is(OpKind::Load) && op->result()->hasOneUse() ? op : nullptr;
}

/// Bytes of a box along its innermost dimension.
int64_t swizzleOf(Type tile) {
  const int64_t bytes = tile.shape()[1] * int64_t(dtypeBytes(tile.dtype()));
  return std::min(kSwizzleBytes, bytes & -bytes);
}

void LoadStager::consider(Op &dot) {
  Op *loop = dot.parentOp();
  if (!loop || !loop->is(OpKind::For))
    return;
  // The tile that the loop carries: added to, and nothing else.
  Block &body = loop->body();
  Value *sum = dot.operand(2);
  bool isCarried = sum->argumentOf() == &body && sum->hasOneUse() && dot.result()->hasOneUse() &&
                   dot.result()->uses()[0].user == body.terminator() &&
                   dot.result()->uses()[0].index + 1 == sum->index();
  Candidate candidate{loop, &dot};
  for (unsigned i : {0u, 1u}) {
    bool isTransposed = false;
    candidate.loads[i] = loadOf(dot.operand(i), isTransposed);
    candidate.isAcross[i] = isTransposed == (i == 0);
    isCarried &= candidate.loads[i] && candidate.loads[i]->parentBlock() == &body;
  }
  if (!isCarried)
    return refuse(dot, "it is not a sum of products of two loads that a loop carries");
  if (!hasProduct(candidate) || groupsOf(candidate) == 0)
    return refuse(dot, "groups of warps have no instruction for its types and sizes");
  if (!mapsRight(candidate))
    return refuse(dot, "an operand ends inside of its tensor, or is not one box of it");
  if (llvm::any_of(candidates_, [&](const Candidate &c) { return c.loop == loop; }))
    return refuse(dot, "its loop has another one whose operands are");
  if (isOrderedByBody(candidate))
    return refuse(dot, "its body writes what they read, or waits for something else before");
  candidates_.push_back(candidate);
}

/// Whether there is an instruction for the types and sizes of a product, and its operands are
/// boxes.
bool LoadStager::hasProduct(const Candidate &candidate) {
  const GroupProduct *product = productOf(candidate);
  const bool isAcross = candidate.isAcross[0] || candidate.isAcross[1];
  if (!product || (isAcross && !product->isAcross))
    return false;
  for (unsigned i : {0u, 1u}) {
    const Type tile = candidate.loads[i]->result()->type();
    const int64_t depthBytes = candidate.depth(i) * int64_t(dtypeBytes(tile.dtype()));
    if (depthBytes % kDepthBytes != 0 || swizzleOf(tile) < kFewestSwizzleBytes ||
        candidate.rows(i) % (i == 0 ? facts_.groupRows : 16) != 0 ||
        candidate.rows(i) > kMostBoxRows || tile.shape()[0] > kMostBoxRows)
      return false;
  }
  return true;
}

/// Whether the copies would have to wait for something that the body does itself: they are issued
/// by a thread that sees only the waits that the loads are after.
bool LoadStager::isOrderedByBody(const Candidate &candidate) {
  bool isOrdered = false;
  // What stands behind the loop comes before it only where another loop is around both.
  bool isBefore = true;
  const bool isNested = !candidate.loop->parentOp()->is(OpKind::Space);
  walk(space_.body(), [&](Op &op) {
    isBefore &= &op != candidate.loop || isNested;
    isOrdered |= isBefore && (op.is(OpKind::Await) || op.is(OpKind::Barrier));
    if (Value *written = writtenView(op))
      for (Op *load : candidate.loads)
        isOrdered |= mayAlias(written, load->operand(0));
  });
  for (Op *load : candidate.loads)
    for (Value *after : load->operands().drop_front())
      isOrdered |= !after->type().isAcquire();
  return isOrdered;
}

/// How many groups share the rows.
int64_t LoadStager::groupsOf(const Candidate &candidate) {
  const llvm::ArrayRef<int64_t> shape = candidate.dot->result()->type().shape();
  const int64_t blocks = shape[0] / facts_.groupRows;
  const int64_t groups = std::min<int64_t>(blocks, 2);
  // Each thread keeps its share of the sums in registers, and needs some for itself.
  int64_t registers = shape[0] * shape[1] / (groups * facts_.groupThreads);
  // Sums of a few products have registers of their own.
  if (productOf(candidate)->isShort)
    registers +=
        facts_.groupRows * std::min(shape[1], TargetFacts::kShortColumns) / facts_.groupThreads;
  return blocks % groups == 0 && registers <= 192 ? groups : 0;
}

/// Whether a box's dimension ends where the tensor does.
bool LoadStager::isExact(const TensorBox &box, unsigned dim) {
  Value *limit = box.dims[dim].limit;
  return !limit || polynomial(limit) == polynomial(box.object->operand(dim));
}

/// Whether the copy engine gives zeros where the views do, or something else only where nobody
/// sees it: rows past a limit become rows of the sum that are not stored.
bool LoadStager::mapsRight(const Candidate &candidate) {
  for (auto [i, load] : llvm::enumerate(candidate.loads)) {
    const std::optional<TensorBoxes> source = tensorBoxes(load->operand(0));
    if (!source || !llvm::all_of(source->boxes, [&, operand = i](const TensorBox &box) {
          return mapsRight(candidate, unsigned(operand), box);
        }))
      return false;
  }
  return true;
}

bool LoadStager::mapsRight(const Candidate &candidate, unsigned operand, const TensorBox &box) {
  // Rows of the tile have to be neighbours in memory.
  if (box.dims.size() > 5 || box.dims.back().viewDim != 1u)
    return false;
  for (auto [d, dim] : llvm::enumerate(box.dims)) {
    if (!dim.viewDim || isExact(box, d))
      continue;
    if (*dim.viewDim != candidate.rowDim(operand) || dim.firsts.size() != 1)
      return false;
    const Polynomial room = polynomial(dim.limit) - polynomial(dim.firsts[0]);
    Value *sum = candidate.loop->result(candidate.dot->result()->uses()[0].index);
    Tiles seen;
    if (!staysApart(sum, operand, room, seen))
      return false;
  }
  return true;
}

/// What a loop makes of a tile that it carries: its argument, and its result.
std::array<Value *, 2> carriedAs(const Use &use) {
  const bool isNext = use.user->is(OpKind::Yield);
  Op &loop = isNext ? *use.user->parentOp() : *use.user;
  const unsigned number = isNext ? use.index : use.index - 3;
  return {loop.body().argument(number + 1), loop.result(number)};
}

/// Whether positions from `room` on along a dimension of the tile reach nothing: every use is
/// elementwise, or stores no more than `room` of them. Loops carry them on.
bool LoadStager::staysApart(Value *tile, unsigned dim, const Polynomial &room, Tiles &seen) {
  if (!seen.insert(tile).second)
    return true;
  for (const Use &use : tile->uses()) {
    Op &user = *use.user;
    const bool isCarried =
        user.is(OpKind::For) || (user.is(OpKind::Yield) && user.parentOp()->is(OpKind::For));
    if (isCarried) {
      for (Value *next : carriedAs(use))
        if (!staysApart(next, dim, room, seen))
          return false;
      continue;
    }
    const bool isStore =
        user.is(OpKind::Store) || user.is(OpKind::Put) || user.is(OpKind::ReduceAdd);
    if (isStore && use.index == 0) {
      if (!isStoredWithin(user.operand(1), dim, room))
        return false;
      continue;
    }
    const bool isElementwise = OpKind::Add <= user.kind() && user.kind() <= OpKind::Cast;
    if (!isElementwise || !staysApart(user.result(), dim, room, seen))
      return false;
  }
  return true;
}

bool LoadStager::isStoredWithin(Value *view, unsigned dim, const Polynomial &room) {
  Op *op = view->definingOp();
  if (!op || !op->is(OpKind::ViewTile))
    return false;
  // The window's operands of the view's dimension number `dim`.
  unsigned operand = 1;
  unsigned position = 0;
  for (char letter : op->strAttr("dims")) {
    if (letter == 'r' && position == dim)
      return polynomial(op->operand(operand + 1)) - polynomial(op->operand(operand)) == room;
    operand += letter == 'r' ? 2 : letter == 'i' ? 1 : 0;
    position += letter != 'i';
  }
  return false;
}

/// Bytes of an element of what is stored of a tile, at most.
int64_t storedBytes(const Value *tile) {
  int64_t bytes = 0;
  for (const Use &use : tile->uses()) {
    const bool isStored = use.user->hasEffect(Write | RemoteWrite);
    if (isStored)
      bytes = std::max<int64_t>(bytes, dtypeBytes(tile->type().dtype()));
    else if (use.user->is(OpKind::For) ||
             (use.user->is(OpKind::Yield) && use.user->parentOp()->is(OpKind::For)))
      bytes = std::max(bytes, storedBytes(carriedAs(use)[1]));
    else if (use.user->numResults() == 1 && use.user->result()->type().isTile())
      bytes = std::max(bytes, storedBytes(use.user->result()));
  }
  return bytes;
}

/// Shared memory that storing the result takes besides: the tile, its rows spread over the banks.
int64_t LoadStager::outputBytes(const Candidate &candidate) {
  const llvm::ArrayRef<int64_t> shape = candidate.dot->result()->type().shape();
  const int64_t bytes =
      storedBytes(candidate.loop->result(candidate.dot->result()->uses()[0].index));
  // Layouts count in powers of two.
  return shape[0] * (int64_t(llvm::PowerOf2Ceil(uint64_t(shape[1]))) * bytes + kRowPadding);
}

bool LoadStager::run() {
  find(space_.body());
  if (candidates_.empty())
    return false;
  int64_t stageBytes = 0;
  int64_t reserved = 0;
  const int64_t groups = groupsOf(candidates_[0]);
  for (const Candidate &candidate : candidates_) {
    if (groupsOf(candidate) != groups) {
      refuse(*candidate.dot, "another product of the space has another height");
      return false;
    }
    int64_t bytes = 0;
    for (Op *load : candidate.loads)
      bytes += load->result()->type().elements() * dtypeBytes(load->result()->type().dtype());
    stageBytes = std::max(stageBytes, bytes);
    reserved = std::max(reserved, outputBytes(candidate));
  }
  const int64_t room = facts_.sharedBytes - TargetFacts::kReservedSharedBytes - reserved;
  const int64_t stages = std::min(kMostStages, room / stageBytes);
  if (stages < kFewestStages) {
    refuse(*candidates_[0].dot, "two stages do not fit in shared memory");
    return false;
  }
  for (const Candidate &candidate : candidates_) {
    for (Op *load : candidate.loads)
      load->setAttr("swizzle", swizzleOf(load->result()->type()));
    candidate.loop->setAttr("stages", stages);
    candidate.dot->setAttr("groups", groups);
    context_.remark(*candidate.loop, "operands are staged " + llvm::Twine(stages) +
                                         " deep and multiplied by " + llvm::Twine(groups) +
                                         " groups of warps");
  }
  space_.setAttr("groups", groups);
  return true;
}

} // namespace

bool stageLoads(Module &module, PassContext &context) {
  const TargetFacts *facts = context.facts;
  if (!facts || facts->groupRows == 0)
    return false;
  bool changed = false;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    int64_t groups = 0;
    for (Op &op : kernel.body().ops())
      if (op.is(OpKind::Space) && LoadStager(op, context, *facts).run())
        groups = std::max(groups, op.intAttr("groups"));
    if (groups != 0)
      kernel.setAttr("threads", groups * facts->groupThreads);
    changed |= groups != 0;
  }
  return changed;
}

} // namespace dtile::passes
