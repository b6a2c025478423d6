// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// stage-loads: multi-stage staging of the operands of products.
//
// Expects: inlined kernels after the other schedule passes; facts of a machine whose TMA
//   moves boxes of tensors to shared memory and whose warpgroups multiply what lies there.
// Produces: for a loop that only adds products of two windows to a tile, or whose products follow
//   from each other (attention) or are scaled: attribute `stages` on the loop, `swizzle` (bytes) on
//   its loads, `zeroed` on those that end inside of their tensor, where that makes a difference,
//   `transposed` on MN-major ones of types of which the instruction takes only K-major tiles,
//   `warpgroups` (one above the other) on the products and on the space, `awaited` on products that
//   are used in their iteration, `via` `scalars` on loads of a few elements beside them (scales),
//   `resident` on products whose first operand is there before the loop, `agreed` on loads of
//   numbers from messages that loops follow from, and `threads` on the kernel. Tiles of inputs
//   that each iteration loads alike are loaded before the loop. The back end splits the bodies of
//   such a space: one warp issues the copies, as many stages ahead as there are, and the groups
//   multiply.
// Why: the matrix units have to be fed from copies that were started long before.
// Leaves alone: operands that are no boxes of a tensor, and loops that load more than operands,
//   boxes that are computed with (attribute `in_registers`) and a few scales, with a remark.
// How often a loop runs may follow from a number in a message (how many rows have arrived). By the
//   time that a role reads it, another may have told the sender that it can be overwritten. So the
//   warp that copies, which is ahead of all, reads it for all.
// TMA gives zeros only past the edge of a tensor. Where a view ends inside of it (a part of the
//   sum, the keys of one sequence), and that is not known to make no difference, the warpgroups
//   write zeros to what is past the limit: in the last iteration, as a rule.
// Rows that an index tile picks (pass gather-rows) are no boxes: warps beside the one that copies
//   find their numbers by themselves and fetch them, in words of 16 bytes, to where the engine
//   would put them.
#include "ir/analysis/algebra/polynomial.h"
#include "ir/analysis/boxes/box_starts.h"
#include "ir/analysis/boxes/tensor_box.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/dependence.h"
#include "ir/analysis/loop_positions.h"
#include "ir/analysis/row_gathers.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/constants.h"
#include "ir/core/op_classes.h"
#include "ir/machine/target_facts.h"
#include "ir/schedule/pipeline/operand_limits.h"
#include "ir/schedule/pipeline/staged_boxes.h"
#include "ir/schedule/pipeline/unsure_numbers.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Most elements that an iteration loads at once beside operands: a scale of each row or column.
constexpr int64_t kMostSmall = 512;
/// Most dimensions of a tensor that TMA knows.
constexpr size_t kMostTensorDims = 5;

/// A product in a loop, and where its operands come from.
struct StagedDot {
  Op *dot = nullptr;
  /// Of the first and of the second operand; the first may come from registers, and has none then.
  Op *loads[2] = {};
  /// The dimension that is summed over is the load's first one, and its last one is the sum's.
  bool isMnMajor[2] = {};

  [[nodiscard]] unsigned rowDim(unsigned operand) const { return isMnMajor[operand] ? 1 : 0; }
  /// Along the sum, and along the dimension that is summed over.
  [[nodiscard]] int64_t rows(unsigned operand) const {
    return dot->result()->type().shape()[operand];
  }
  [[nodiscard]] int64_t depth() const { return dot->operand(0)->type().shape()[1]; }
  /// Operands that copy warps transpose, as the product takes only K-major ones.
  [[nodiscard]] bool isTransposed(unsigned operand, const GroupProduct &product) const {
    return loads[operand] && isMnMajor[operand] && !product.takesMnMajor;
  }
};

/// A loop with products.
struct Candidate {
  Op *loop = nullptr;
  llvm::SmallVector<StagedDot, 2> dots;
  /// Its products are used in their iteration; else each is added to a tile of its own.
  bool isAwaited = false;
  /// Loads of the same in each iteration.
  llvm::SmallVector<Op *, 2> invariant;
  /// Loads of tiles that are computed with, which the groups read into registers.
  llvm::SmallVector<Op *, 2> read;
  /// Loads of a few elements, such as scales, and those of them that the warp that copies brings.
  llvm::SmallVector<Op *, 2> small;
  llvm::SmallVector<Op *, 2> scalars;
  /// Loads of numbers that the warp that copies passes to the groups.
  llvm::SmallSetVector<Op *, 2> passed;
  /// Numbers of the launch that have to be multiples of what boxes begin at multiples of.
  llvm::SmallSetVector<Value *, 2> wholes;
  /// Dimensions of loads along which TMA reads on past the view's limit.
  llvm::SmallMapVector<Op *, std::vector<int64_t>, 4> pastLimits;

  [[nodiscard]] bool gathers() const {
    return llvm::any_of(loads(), [](const Op *load) { return gathersRows(*load); });
  }
  [[nodiscard]] llvm::SmallVector<Op *, 4> loads() const {
    llvm::SmallVector<Op *, 4> all;
    for (const StagedDot &staged : dots)
      for (Op *load : staged.loads)
        if (load && !llvm::is_contained(all, load))
          all.push_back(load);
    all.append(read);
    return all;
  }
};

constexpr const char *kNoInstruction = "warpgroups have no instruction for its types and sizes";

/// What became of a product in the variants of its kernel.
struct Fate {
  const Op *dot = nullptr;
  bool isStaged = false;
  /// Why it is not, where its author can mend that.
  const char *why = nullptr;
};

/// By where products are written.
using Fates = std::vector<Fate>;

Fate &fateOf(Fates &fates, const Op &dot) {
  const auto found =
      llvm::find_if(fates, [&](const Fate &fate) { return fate.dot->loc() == dot.loc(); });
  return found != fates.end() ? *found : fates.emplace_back(Fate{&dot});
}

/// Stages the loops of one space.
class LoadStager {
public:
  LoadStager(Op &space, PassContext &context, const TargetFacts &facts, Fates &fates)
      : space_(space), context_(context), facts_(facts), fates_(fates) {}
  bool run();

private:
  void find(Block &block);
  void consider(Op &loop);
  /// Why the loop's operands cannot be staged, or null.
  [[nodiscard]] const char *judge(Candidate &candidate);
  [[nodiscard]] const char *judgeAsItIs(Candidate &candidate);
  [[nodiscard]] bool readsMnMajor(Candidate &candidate) const;
  [[nodiscard]] const char *judgeAwaited(Candidate &candidate);
  [[nodiscard]] const GroupProduct *productOf(const Op &dot) const {
    return facts_.findGroupProduct(dot.operand(0)->type().dtype(), dot.operand(1)->type().dtype(),
                                   dot.result()->type().dtype(), dot.has(attr::precision));
  }
  [[nodiscard]] bool transposes(const Candidate &candidate) const;
  [[nodiscard]] bool hasProduct(const StagedDot &staged) const;
  [[nodiscard]] bool isWalkedAlone(Candidate &candidate);
  [[nodiscard]] bool isOrderedByBody(const Candidate &candidate);
  [[nodiscard]] bool findsRows(const Candidate &candidate);
  [[nodiscard]] bool findLimits(Candidate &candidate);
  [[nodiscard]] static bool findStarts(Candidate &candidate);
  [[nodiscard]] bool canBeScalarLoad(const Candidate &candidate, Op &load);
  [[nodiscard]] int64_t groupsOf(const Candidate &candidate) const;
  [[nodiscard]] bool sharesColumns(const Candidate &candidate) const;
  [[nodiscard]] int64_t registersToSend() const;
  [[nodiscard]] static int64_t outputBytes(const Candidate &candidate);
  [[nodiscard]] bool isResident(const Candidate &candidate, const StagedDot &staged) const;
  void refuseNested();
  void refuseGathers();
  void refuse(const Op &op, const llvm::Twine &why);
  Polynomial polynomial(Value *value) { return polys_.of(value, environment_); }

  Op &space_;
  PassContext &context_;
  const TargetFacts &facts_;
  Fates &fates_;
  Polynomials polys_;
  Polynomials::Environment environment_;
  OperandLimits limits_;
  UnsureNumbers numbers_{space_};
  llvm::SmallVector<Candidate, 2> candidates_;
};

void LoadStager::refuse(const Op &op, const llvm::Twine &why) {
  context_.remark(op, "operands of this product are not staged: " + why);
}

/// Loops, in conditions as well.
void LoadStager::find(Block &block) {
  for (Op &op : block.ops()) {
    if (op.is(OpKind::For))
      consider(op);
    for (unsigned region = 0; region < op.numRegions(); ++region)
      find(op.body(region));
  }
}

/// Whether a tile is nothing but one of the two operands of products beside it.
bool isOperandOnly(const Op &tile) {
  const auto uses = tile.result()->uses();
  return !uses.empty() && llvm::all_of(uses, [&](const Use &use) {
    return use.user->is(OpKind::Dot) && use.index == uses[0].index && use.index < 2 &&
           use.user->parentBlock() == tile.parentBlock();
  });
}

bool readsTile(const Op &op) { return op.is(OpKind::Load) || gathersRows(op); }

/// The load that gives a tile, as it is or transposed.
Op *loadOf(Value *operand, bool &isTransposed) {
  Op *op = operand->definingOp();
  if (!op || !isOperandOnly(*op))
    return nullptr;
  isTransposed = op->is(OpKind::Trans) && op->get(attr::perm) == llvm::ArrayRef<int64_t>({1, 0});
  if (!isTransposed)
    return readsTile(*op) ? op : nullptr;
  Op *load = op->operand(0)->definingOp();
  return load && readsTile(*load) && load->result()->hasOneUse() ? load : nullptr;
}

/// Whether a product is added to the tile that the loop carries, and that is all there is to both.
bool isSum(const Op &dot, Block &body) {
  const Value *sum = dot.operand(2);
  const Value *result = dot.result();
  return sum->argumentOf() == &body && sum->hasOneUse() && result->hasOneUse() &&
         result->uses()[0].user == body.terminator() && result->uses()[0].index + 1 == sum->index();
}

/// Whether a load of a loop's body gives the same in each iteration: of an input, which nobody
/// writes.
bool isInvariant(Op &load) {
  PositionChain chain;
  bool isVarying = false;
  return isLoadOfInput(load) && followsFromPosition(load, chain, isVarying) && !isVarying;
}

/// Moves a load before its loop, and before those around it in which it is the same, too.
void hoist(Op &load) {
  for (Op *loop = load.parentOp(); loop->is(OpKind::For) && isInvariant(load);
       loop = load.parentOp()) {
    PositionChain chain;
    bool isVarying = false;
    (void)followsFromPosition(load, chain, isVarying);
    for (Op *op : chain)
      op->moveBefore(loop);
  }
}

void LoadStager::consider(Op &loop) {
  Candidate candidate;
  candidate.loop = &loop;
  for (Op &op : loop.body().ops()) {
    if (!op.is(OpKind::Dot))
      continue;
    StagedDot staged{&op};
    for (unsigned i : {0u, 1u}) {
      bool isTransposed = false;
      Op *load = loadOf(op.operand(i), isTransposed);
      if (!load || load->parentBlock() != &loop.body())
        continue;
      staged.loads[i] = load;
      staged.isMnMajor[i] = isTransposed == (i == 0);
    }
    candidate.dots.push_back(staged);
  }
  if (candidate.dots.empty())
    return;
  if (const char *why = judge(candidate)) {
    // Only products that are added up are sure to be faster staged.
    if (!candidate.isAwaited && why != kNoInstruction)
      fateOf(fates_, *candidate.dots.front().dot).why = why;
    return refuse(*candidate.dots.front().dot, why);
  }
  llvm::copy_if(candidate.small, std::back_inserter(candidate.scalars),
                [&](Op *load) { return canBeScalarLoad(candidate, *load); });
  candidates_.push_back(std::move(candidate));
}

const char *LoadStager::judge(Candidate &candidate) {
  if (Candidate other = candidate; readsMnMajor(other) && !judgeAsItIs(other)) {
    candidate = std::move(other);
    return nullptr;
  }
  return judgeAsItIs(candidate);
}

/// Has the groups read first operands into registers that they multiply only K-major from shared
/// memory: nobody has to transpose those. One group alone would wait for what it reads.
bool LoadStager::readsMnMajor(Candidate &candidate) const {
  bool reads = false;
  for (StagedDot &staged : candidate.dots) {
    const GroupProduct *product = productOf(*staged.dot);
    if (!product || !product->fromRegisters || !staged.isTransposed(0, *product) ||
        !canBeRead(staged.loads[0]->result()->type()) || gathersRows(*staged.loads[0]) ||
        staged.rows(0) % (2 * facts_.groupRows) != 0)
      continue;
    staged.loads[0] = nullptr;
    reads = true;
  }
  return reads;
}

const char *LoadStager::judgeAsItIs(Candidate &candidate) {
  candidate.isAwaited = llvm::any_of(candidate.dots, [&](const StagedDot &staged) {
    return !staged.loads[0] || !isSum(*staged.dot, candidate.loop->body());
  });
  if (candidate.isAwaited) {
    for (StagedDot &staged : candidate.dots)
      if (staged.loads[0] && isInvariant(*staged.loads[0]))
        staged.loads[0] = nullptr;
    if (const char *why = judgeAwaited(candidate))
      return why;
  }
  if (llvm::any_of(candidate.dots, [](const StagedDot &staged) { return !staged.loads[1]; }))
    return "its second operand is no load of its loop, or is used twice";
  if (!llvm::all_of(candidate.dots, [&](const StagedDot &staged) { return hasProduct(staged); }) ||
      groupsOf(candidate) == 0)
    return kNoInstruction;
  if (!findLimits(candidate))
    return "an operand is not one box of its tensor";
  if (!findStarts(candidate))
    return "an operand may begin elsewhere than at a multiple of 16 bytes of its rows";
  if (llvm::all_of(candidate.loads(), [](const Op *load) { return gathersRows(*load); }))
    return "both operands have gathered rows, so no operand is a TMA box";
  if (llvm::any_of(candidate.loads(), [](const Op *load) {
        return gathersRows(*load) && load->result()->type().dtype() == DType::F32;
      }))
    return "the rows that an index tile picks are of f32, which only TMA rounds to "
           "tf32";
  if (!findsRows(candidate))
    return "the rows that an index tile picks do not follow, element by element, from inputs and "
           "positions, or do not begin at whole words";
  if (isOrderedByBody(candidate))
    return "its body writes what they read, or waits for something else before";
  if (!isWalkedAlone(candidate))
    return "where they are, or how often, follows from tiles, or from what may change meanwhile";
  return nullptr;
}

/// All that such a loop loads is staged, the same in each iteration, or a few elements: nothing
/// else would be on its way while the groups multiply.
const char *LoadStager::judgeAwaited(Candidate &candidate) {
  constexpr const char *kNotOperands = "an iteration loads more than operands and scales, or "
                                       "waits, or has loops or conditions of its own";
  const llvm::SmallVector<Op *, 4> staged = candidate.loads();
  for (Op &op : candidate.loop->body().ops()) {
    if (op.numRegions() > 0 || op.hasEffect(Write | RemoteWrite | RemoteRead | Signal | Wait))
      return kNotOperands;
    if (!op.hasEffect(Read) || llvm::is_contained(staged, &op))
      continue;
    if (!op.is(OpKind::Load))
      return kNotOperands;
    if (op.result()->type().isTile() && isInvariant(op))
      candidate.invariant.push_back(&op);
    else if (op.result()->type().elements() <= kMostSmall)
      candidate.small.push_back(&op);
    else if (canBeRead(op.result()->type()))
      candidate.read.push_back(&op);
    else
      return kNotOperands;
  }
  return nullptr;
}

/// Whether there is an instruction for the types and sizes of a product, and its operands are
/// boxes.
bool LoadStager::hasProduct(const StagedDot &staged) const {
  const GroupProduct *product = productOf(*staged.dot);
  if (!product || (!staged.loads[0] && !product->fromRegisters))
    return false;
  for (unsigned i : {0u, 1u}) {
    const int64_t rows = staged.rows(i);
    const DType dtype = staged.dot->operand(i)->type().dtype();
    if (staged.depth() * int64_t(dtypeBytes(dtype)) % TargetFacts::kGroupDepthBytes != 0 ||
        rows % (i == 0 ? facts_.groupRows : 16) != 0 || rows > kMostBoxRows)
      return false;
    if (!staged.loads[i])
      continue;
    const Type tile = staged.loads[i]->result()->type();
    if (swizzleOf(tile) < kFewestSwizzleBytes || tile.shape()[0] > kMostBoxRows ||
        (staged.isTransposed(i, *product) && !canBeTransposed(*staged.loads[i])))
      return false;
  }
  return true;
}

bool LoadStager::transposes(const Candidate &candidate) const {
  return llvm::any_of(candidate.dots, [&](const StagedDot &staged) {
    const GroupProduct &product = *productOf(*staged.dot);
    return staged.isTransposed(0, product) || staged.isTransposed(1, product);
  });
}

namespace {

/// Whether a position is a multiple of `unit` and not negative: it counts loops from such a
/// position by such steps, or is a sum of such.
bool isWhole(Value *position, int64_t unit) {
  if (const std::optional<int64_t> number = constantOf(position))
    return *number >= 0 && *number % unit == 0;
  if (const Block *block = position->argumentOf()) {
    const Op *loop = block->parentOp();
    return loop->is(OpKind::For) && position == block->argument(0) &&
           isWhole(loop->operand(0), unit) && isWhole(loop->operand(2), unit);
  }
  const Op *op = position->definingOp();
  return op->is(OpKind::Add) && isWhole(op->operand(0), unit) && isWhole(op->operand(1), unit);
}

} // namespace

/// Whether warps can fetch the rows that index tiles pick: they know their numbers before the loop,
/// and where words of them begin, if the tensor's rows do.
bool LoadStager::findsRows(const Candidate &candidate) {
  const auto isKnown = [&](Value &value) {
    if (value.type().isTile())
      return !numbers_.isWritten(value.definingOp()->operand(0));
    return !dependsOn(
        &value, [&](const Value &from) { return from.type().isTile() || numbers_.isUnsure(from); });
  };
  const auto isBefore = [&](const Op &op) {
    for (const Op *around = candidate.loop; around; around = around->parentOp())
      if (op.parentBlock() == around->parentBlock())
        return true;
    return false;
  };
  return llvm::all_of(candidate.loads(), [&](Op *load) {
    if (!gathersRows(*load))
      return true;
    const std::optional<PickedRows> rows = matchPickedRows(*load);
    const Op *numbers = load->operand(1)->definingOp();
    if (!rows || facts_.asyncCopyBytes < kSharedWordBytes || !numbers || !isBefore(*numbers) ||
        !llvm::all_of(
            rows->slices, [&](const Op *slice) { return isBefore(*slice); }) ||
        !llvm::all_of(rows->bounds, [&](Value *bound) { return isKnown(*bound); }))
      return false;
    const int64_t elements = kSharedWordBytes / int64_t(dtypeBytes(load->result()->type().dtype()));
    return isWhole(rows->column, elements) &&
           polynomial(rows->columnLimit) == polynomial(rows->columns) &&
           isFoundByElement(load->operand(1), isKnown);
  });
}

/// Whether the warp that copies could walk the loop, and what is around it, by itself: without
/// tiles, and with the numbers that the groups have. Notes those that it has to pass to them.
bool LoadStager::isWalkedAlone(Candidate &candidate) {
  return !walksBy(*candidate.loop, candidate.loads(), [&](const Value &from) {
    if (from.type().isTile())
      return true;
    if (!numbers_.isUnsure(from))
      return false;
    if (!numbers_.canBePassed(from, *candidate.loop))
      return true;
    candidate.passed.insert(from.definingOp());
    return false;
  });
}

/// Whether the warp that copies can bring a load's few elements, too: it copies floats of 4 or 2
/// bytes, finds out where they are by itself, and needs none of them for that.
bool LoadStager::canBeScalarLoad(const Candidate &candidate, Op &load) {
  const Type type = load.result()->type();
  const DType dtype = type.elementOrIndex();
  const bool isHalf = type.isTile() && type.rank() == 1 && isFloat(dtype) && dtypeBytes(dtype) == 2;
  if (facts_.asyncCopyBytes == 0 || !(dtype == DType::F32 || isHalf) ||
      load.operand(0)->type().isRemote() || numbers_.isOrderedByWrites(load))
    return false;
  llvm::SmallVector<Op *, 4> loads = candidate.loads();
  loads.push_back(&load);
  return !walksBy(*candidate.loop, loads, [&](const Value &from) {
    return from.type().isTile() || numbers_.isUnsure(from) ||
           llvm::any_of(candidate.small, [&](const Op *small) { return small->result() == &from; });
  });
}

/// Whether the copies would have to wait for something that the body does itself: they are issued
/// by a thread that sees only the waits that the loads are after.
bool LoadStager::isOrderedByBody(const Candidate &candidate) {
  const llvm::SmallVector<Op *, 4> loads = candidate.loads();
  bool isOrdered = llvm::any_of(loads, [&](Op *load) { return numbers_.isOrderedByWrites(*load); });
  // What stands after the loop comes before it only where another loop is around both.
  bool isBefore = true;
  const bool isNested = candidate.loop->parentOp()->enclosing(OpKind::For) != nullptr;
  const bool mayChange = llvm::any_of(loads, [](Op *load) { return !isLoadOfInput(*load); });
  walk(space_.body(), [&](Op &op) {
    isBefore &= &op != candidate.loop || isNested;
    const bool acquires = op.is(OpKind::MemoryFence) && op.get(attr::kind) == "acquire";
    isOrdered |=
        isBefore && (op.is(OpKind::Await) || op.is(OpKind::Barrier) || (acquires && mayChange));
  });
  return isOrdered;
}

/// Registers that addresses at peers and cells take beside sums of a few products each: ptxas would
/// find none for them where two groups have all that there are.
int64_t LoadStager::registersToSend() const {
  constexpr int64_t kToSend = 16;
  bool sends = false;
  walk(space_.body(), [&](Op &op) { sends |= op.hasEffect(Signal | RemoteWrite); });
  return sends ? kToSend : 0;
}

/// Whether two groups share the columns, as they cannot share three blocks of rows. The second
/// operand is K-major then: each group multiplies every second block of 8 of its rows.
bool LoadStager::sharesColumns(const Candidate &candidate) const {
  const int64_t blocks = candidate.dots.front().rows(0) / facts_.groupRows;
  return blocks > 1 && blocks % 2 != 0 && !candidate.isAwaited &&
         llvm::all_of(candidate.dots, [&](const StagedDot &staged) {
           const int64_t columns = isInteger(staged.dot->operand(0)->type().dtype()) ? 16 : 8;
           return staged.rows(1) % (2 * columns) == 0 &&
                  (!staged.isMnMajor[1] || staged.isTransposed(1, *productOf(*staged.dot)));
         });
}

/// How many groups share the rows, or the columns; 0 where that is not a whole number of blocks
/// each, or threads had not the registers.
int64_t LoadStager::groupsOf(const Candidate &candidate) const {
  const int64_t rows = candidate.dots.front().rows(0);
  const int64_t blocks = rows / facts_.groupRows;
  const int64_t groups = std::min<int64_t>(blocks, 2);
  if (groups == 0 || (blocks % groups != 0 && !sharesColumns(candidate)))
    return 0;
  // Each thread keeps its share of the sums in registers, and needs some for itself.
  int64_t registers = 0;
  // What products are scaled before they are added to.
  for (Value *next : candidate.loop->body().terminator()->operands())
    if (next->type().isTile() && llvm::none_of(candidate.dots, [&](const StagedDot &staged) {
          return staged.dot->result() == next;
        }))
      registers += next->type().elements() / (groups * facts_.groupThreads);
  for (const StagedDot &staged : candidate.dots) {
    const int64_t columns = staged.rows(1);
    if (staged.rows(0) != rows)
      return 0;
    registers += rows * columns / (groups * facts_.groupThreads);
    // Sums of a few products have registers of their own.
    if (productOf(*staged.dot)->needsPromotion)
      registers += facts_.groupRows * std::min(columns, TargetFacts::kPromotedColumns) /
                       facts_.groupThreads +
                   (groups > 1 ? registersToSend() : 0);
    if (!staged.loads[0] && !isResident(candidate, staged))
      registers += rows * staged.depth() *
                   int64_t(dtypeBytes(staged.dot->operand(0)->type().dtype())) / 4 /
                   (groups * facts_.groupThreads);
  }
  return registers <= TargetFacts::kGroupRegisters ? groups : 0;
}

/// Whether all operands are boxes; notes along which dimensions zeros are needed that TMA does not
/// give.
bool LoadStager::findLimits(Candidate &candidate) {
  using IsUnseen = llvm::function_ref<bool(const TensorBox &, unsigned dim)>;
  const auto findOf = [&](Op *load, IsUnseen isUnseen) {
    const std::optional<TensorBoxes> source = tensorBoxes(load->operand(0));
    if (!source)
      return false;
    for (const TensorBox &box : source->boxes) {
      // Rows of the tile have to be neighbours in memory.
      if (box.dims.size() > kMostTensorDims || box.dims.back().viewDim != 1u)
        return false;
      for (auto [d, dim] : llvm::enumerate(box.dims)) {
        if (!dim.viewDim || limits_.isExact(box, unsigned(d)) || isUnseen(box, unsigned(d)))
          continue;
        auto &dims = candidate.pastLimits[load];
        if (!llvm::is_contained(dims, int64_t(*dim.viewDim)))
          dims.push_back(*dim.viewDim);
      }
    }
    return true;
  };
  for (const StagedDot &staged : candidate.dots)
    for (auto [i, load] : llvm::enumerate(staged.loads))
      // Rows past a limit become rows of the product.
      if (load && !gathersRows(*load) &&
          !findOf(load, [&, operand = unsigned(i)](const TensorBox &box, unsigned d) {
            return *box.dims[d].viewDim == staged.rowDim(operand) &&
                   limits_.isUnseen(box, d, *staged.dot->result(), operand);
          }))
        return false;
  return llvm::all_of(candidate.read, [&](Op *load) {
    return findOf(load, [](const TensorBox &, unsigned) { return false; });
  });
}

/// Whether TMA can read the boxes where they begin; notes what the launch has to find out for that.
bool LoadStager::findStarts(Candidate &candidate) {
  for (Op *load : candidate.loads()) {
    if (gathersRows(*load))
      continue;
    const auto bytes = int64_t(dtypeBytes(load->result()->type().dtype()));
    const TensorBoxes source = *tensorBoxes(load->operand(0));
    for (const TensorBox &box : source.boxes) {
      const auto wholes = wholesOfStart(box, kBoxStartBytes / bytes);
      if (!wholes)
        return false;
      candidate.wholes.insert(wholes->begin(), wholes->end());
    }
  }
  return true;
}

/// Whether the first operand of a product is there before the loop: then it waits in shared memory
/// and not in registers. (ptxas of CUDA 13.0 would give its registers to the first operand of
/// another product.)
bool LoadStager::isResident(const Candidate &candidate, const StagedDot &staged) const {
  Op *from = staged.dot->operand(0)->definingOp();
  return !staged.loads[0] && from &&
         (from->parentBlock() != &candidate.loop->body() ||
          llvm::is_contained(candidate.invariant, from)) &&
         from->enclosing(OpKind::Space) == &space_;
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

/// What storing a result takes: the epilogue warp's output tile, or what its elements go through to
/// the threads that store them.
int64_t LoadStager::outputBytes(const Candidate &candidate) {
  int64_t most = 0;
  for (Value *result : candidate.loop->results()) {
    // What is stored may be the sum of swapped operands, transposed.
    const bool isTransposed = result->hasOneUse() && result->uses()[0].user->is(OpKind::Trans);
    const Type type = isTransposed ? result->uses()[0].user->result()->type() : result->type();
    if (type.isTile() && type.rank() == 2)
      most = std::max(most, paddedSumBytes(type, storedBytes(result)));
  }
  return most;
}

/// A sum's slot is left an iteration later: a loop inside would have taken slots since.
void LoadStager::refuseNested() {
  const auto hasInner = [&](const Candidate &outer) {
    return llvm::any_of(candidates_, [&](const Candidate &inner) {
      const Op *around = inner.loop->parentOp();
      while (around && around != outer.loop)
        around = around->parentOp();
      return around == outer.loop;
    });
  };
  llvm::SmallVector<Candidate, 2> kept;
  for (const Candidate &candidate : candidates_)
    if (hasInner(candidate))
      refuse(*candidate.dots.front().dot, "there is a loop in its loop whose operands are");
    else
      kept.push_back(candidate);
  candidates_ = std::move(kept);
}

/// Where operands are kept, and tensors are not for TMA, one warp copies everything by
/// hand, and it knows no rows that are picked.
void LoadStager::refuseGathers() {
  const bool keeps = llvm::any_of(candidates_, [&](const Candidate &candidate) {
    return llvm::any_of(candidate.dots,
                        [&](const StagedDot &staged) { return isResident(candidate, staged); });
  });
  llvm::erase_if(candidates_, [&](const Candidate &candidate) {
    const bool isRefused = keeps && candidate.gathers();
    if (isRefused)
      refuse(*candidate.dots.front().dot, "its space has products whose first operand is there "
                                          "before the loop, beside which no rows are picked");
    return isRefused;
  });
  // The warps that transpose tiles would be those that gather rows.
  if (llvm::any_of(candidates_, [](const Candidate &candidate) { return candidate.gathers(); }))
    llvm::erase_if(candidates_, [&](const Candidate &candidate) {
      const bool isRefused = transposes(candidate);
      if (isRefused)
        refuse(*candidate.dots.front().dot, "its tiles have to be transposed, and its space "
                                            "gathers rows");
      return isRefused;
    });
}

bool LoadStager::run() {
  find(space_.body());
  refuseNested();
  refuseGathers();
  if (candidates_.empty())
    return false;
  StagedPlan plan;
  CopiedTiles copied;
  llvm::SmallPtrSet<const Value *, 2> residents;
  const int64_t groups = groupsOf(candidates_[0]);
  for (const Candidate &candidate : candidates_) {
    if (groupsOf(candidate) != groups) {
      refuse(*candidate.dots.front().dot, "another product of the space has another height");
      return false;
    }
    StageBytes stage;
    for (const Op *load : candidate.loads()) {
      stage.addBox(load->result()->type());
      if (gathersRows(*load))
        copied.gathered.push_back(load->result()->type().shape()[0]);
    }
    for (const Op *load : candidate.scalars)
      stage.addScalars(load->result()->type());
    copied.areTransposed |= transposes(candidate);
    copied.passesNumbers |= !candidate.passed.empty();
    plan.stage.unite(stage);
    plan.output = std::max(plan.output, outputBytes(candidate));
    for (const StagedDot &staged : candidate.dots)
      if (isResident(candidate, staged) && residents.insert(staged.dot->operand(0)).second)
        plan.addResident(staged.dot->operand(0)->type());
  }
  plan.controlEnd = StagedControl(controlBegin(space_), kMostStages, groups, copied).end;
  const int64_t stages = std::min(kMostStages, plan.stagesIn(sharedRoom(facts_)));
  if (stages < kFewestStages) {
    refuse(*candidates_[0].dots.front().dot, "two stages do not fit in shared memory");
    return false;
  }
  for (const Candidate &candidate : candidates_) {
    for (Op *load : candidate.loads()) {
      load->set(attr::via, gathersRows(*load) ? LoadPath::Rows : LoadPath::Tma);
      load->set(attr::swizzle, swizzleOf(load->result()->type()));
    }
    for (Op *load : candidate.read)
      load->set(attr::in_registers, true);
    for (const auto &[load, dims] : candidate.pastLimits)
      load->set(attr::zeroed, dims);
    for (Value *number : candidate.wholes)
      moveToLaunch(*number);
    for (Op *load : candidate.scalars)
      load->set(attr::via, LoadPath::Scalars);
    for (Op *number : candidate.passed)
      number->set(attr::agreed, true);
    for (Op *load : candidate.invariant)
      hoist(*load);
    candidate.loop->set(attr::stages, stages);
    for (const StagedDot &staged : candidate.dots) {
      fateOf(fates_, *staged.dot).isStaged = true;
      staged.dot->set(attr::warpgroups, groups);
      if (sharesColumns(candidate))
        staged.dot->set(attr::by_columns, true);
      for (const unsigned i : {0u, 1u})
        if (staged.isTransposed(i, *productOf(*staged.dot)))
          staged.loads[i]->set(attr::transposed, true);
      if (candidate.isAwaited)
        staged.dot->set(attr::awaited, true);
      if (isResident(candidate, staged))
        staged.dot->set(attr::resident, swizzleOf(staged.dot->operand(0)->type()));
    }
    context_.remark(*candidate.loop, "operands are staged " + llvm::Twine(stages) +
                                         " deep and multiplied by " + llvm::Twine(groups) +
                                         (groups == 1 ? " warpgroup" : " warpgroups"));
  }
  space_.set(attr::warpgroups, groups);
  return true;
}

} // namespace

bool stageLoads(Module &module, PassContext &context) {
  const TargetFacts *facts = context.facts;
  if (!facts || facts->groupRows == 0)
    return false;
  bool changed = false;
  Fates fates;
  llvm::SmallVector<const Op *, 2> inOrder;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    int64_t groups = 0;
    for (Op &op : kernel.body().ops()) {
      if (!op.is(OpKind::Space))
        continue;
      if (LoadStager(op, context, *facts, fates).run())
        groups = std::max(groups, op.get(attr::warpgroups));
      if (op.get(attr::ordered) && multiplies(op) &&
          llvm::none_of(inOrder, [&](const Op *other) { return other->loc() == op.loc(); }))
        inOrder.push_back(&op);
    }
    if (groups != 0)
      kernel.set(attr::threads, groups * facts->groupThreads);
    changed |= groups != 0;
  }
  for (const Op *space : inOrder)
    context.lose(*space, "one program multiplies all tiles of this space, one after the other, as "
                         "it is `ordered`: leave that out where bodies do not depend on each "
                         "other");
  for (const Fate &fate : fates)
    if (fate.why && !fate.isStaged)
      context.lose(*fate.dot, llvm::Twine("operands of this product are not staged for "
                                          "warpgroups: ") +
                                  fate.why);
  return changed;
}

} // namespace dtile::passes
