// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// infer-layouts: says which thread holds which element of each tile.
//
// Expects: inlined kernels, after all passes that change what tiles there are; facts of a machine
//   whose programs are many threads (without any: 32 lanes, no matrix instructions).
// Produces: a layout in the type of every tile; `tile.convert` where elements change threads;
//   attribute `matrix` on products that matrix instructions compute, whose operands are converted
//   to their fragments; attribute `threads` on kernels. Tiles that kernels compute outside of
//   spaces are computed in each space that uses them.
// Why: back ends only follow the types; what is decided here can be read, and tested from text.
//   Where elements cannot change warps, memory is accessed in what lanes can have for each other.
// How: tiles that meet in elementwise ops, in loops and in sums of products have one layout, which
//   is the product's if there is one, else what a neighbour (a reduction, a broadcast …) suggests,
//   else rows of neighbours in memory. Larger tiles choose first.
#include "ir/analysis/communication.h"
#include "ir/core/builder.h"
#include "ir/core/op_classes.h"
#include "ir/machine/target_facts.h"
#include "ir/transform/access_layout.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <map>

namespace dtile::passes {

using namespace dtile::ir;

namespace {

/// From this many elements of sums or other tiles on, a program has twice the threads.
constexpr int64_t kLargeTile = 128 * 128;
constexpr int64_t kFewThreads = 128;
constexpr int64_t kManyThreads = 256;
/// Rows of a sum from which on a matrix instruction is better than none, though it has more.
constexpr int64_t kFewestRows = 4;
/// Ops that are rather done once more than that their result changes threads.
constexpr unsigned kMostRecomputed = 12;
/// Registers of a tile that each thread rather loads by itself than gets from others.
constexpr unsigned kMostReloaded = 4;

/// Whether an op reads neighbours of memory into a tile.
bool readsTile(const Op &op) {
  return (op.is(OpKind::Load) || gathersRows(op)) && op.result()->type().isTile();
}

/// The layout that the operand of a reshape or broadcast has to have for the result to have
/// `layout`, where it can.
std::optional<Layout> operandLayoutFor(const Op &op, const Layout &layout) {
  const llvm::ArrayRef<int64_t> from = op.operand(0)->type().shape();
  const llvm::ArrayRef<int64_t> to = op.result()->type().shape();
  if (op.is(OpKind::Reshape))
    return layout.reshaped(to, from);
  Layout collapsed = layout;
  for (unsigned d = 0; d < to.size(); ++d)
    if (from[d] == 1 && to[d] != 1)
      collapsed = collapsed.collapsed(d);
  return collapsed.withoutRegisterCopies();
}

/// Tiles that have one layout.
struct LayoutClass {
  llvm::SmallVector<Value *, 8> members;
  std::optional<Layout> layout;
  /// A load's result or what a store takes, by itself: it may differ from what it is converted to.
  bool isBoundary = false;
  bool hasProduct = false;
  [[nodiscard]] Type type() const { return members.front()->type(); }
};

/// The layouts of one kernel.
class LayoutInference {
public:
  LayoutInference(Op &kernel, PassContext &context)
      : kernel_(kernel), context_(context), facts_(context.facts),
        builder_(kernel.parentBlock()->module()) {}
  void run();

private:
  void sinkTiles();
  Value *sink(Value *tile, Op &space, ValueMap &map);
  void chooseThreads();
  void separateMemory();
  void convertOperand(Op &op, unsigned operand);
  void unite();
  void uniteOp(Op &op);
  void unite(Value *a, Value *b) {
    if (a->type().isTile())
      tiles_.unionSets(a, b);
  }
  void unite(llvm::ArrayRef<Value *> a, llvm::ArrayRef<Value *> b) {
    for (auto [x, y] : llvm::zip_equal(a, b))
      unite(x, y);
  }
  void makeClasses();
  [[nodiscard]] LayoutClass &classOf(Value *tile) {
    return classes_.find(tiles_.getLeaderValue(tile))->second;
  }

  void chooseProducts();
  void followToLoad(Value &operand);
  [[nodiscard]] int64_t runOf(const Op &dot, unsigned operand) const;
  [[nodiscard]] const MatrixProduct *productFor(const Op &dot, const Layout *sums = nullptr) const;
  [[nodiscard]] const MatrixProduct *productFor(const Op &dot, const Layout *sums,
                                                bool isTf32) const;
  [[nodiscard]] llvm::SmallVector<int, 4> warpsOf(Op &dot, const MatrixProduct &product);
  [[nodiscard]] bool feedsProduct(Op &dot);
  void chooseRest();
  [[nodiscard]] std::optional<Layout> suggestion(const LayoutClass &tiles);
  [[nodiscard]] std::optional<Layout> suggestion(Value *tile);
  [[nodiscard]] Layout rows(const LayoutClass &tiles);
  void setTypes();
  void convertShapes();
  [[nodiscard]] llvm::SmallVector<Op *> conversions();
  void removeConversions();
  [[nodiscard]] bool canRecompute(Value *tile, const Layout &layout, unsigned &ops);
  [[nodiscard]] Value *recompute(Value *tile, const Layout &layout);
  void recomputeConversions();

  [[nodiscard]] LayoutThreads threads() const {
    return {unsigned(lanes_), unsigned(threads_ / lanes_)};
  }
  [[nodiscard]] Type withLayout(Type type, const Layout &layout) {
    return builder_.types().tile(type.shape(), type.dtype(), &layout);
  }
  [[nodiscard]] Value *converted(Op &before, Value *tile, const Layout &layout);
  template <typename Fn> void eachOp(Fn &&fn) {
    for (Op &space : kernel_.body().ops())
      if (space.is(OpKind::Space))
        walk(space.body(), fn);
  }

  Op &kernel_;
  PassContext &context_;
  const TargetFacts *facts_;
  Builder builder_;
  int64_t threads_ = kFewThreads;
  int64_t lanes_ = 32;
  llvm::EquivalenceClasses<Value *> tiles_;
  llvm::MapVector<Value *, LayoutClass> classes_;
  llvm::SmallVector<Op *, 8> dots_;
  /// Loads, and what they give in another layout.
  llvm::SmallVector<std::pair<Op *, Value *>, 4> reloaded_;
};

// Tiles of the kernel's own region.

Value *LayoutInference::sink(Value *tile, Op &space, ValueMap &map) {
  if (Value *known = map.lookup(tile))
    return known;
  Op &op = *tile->definingOp();
  for (Value *operand : op.operands())
    if (operand->type().isTile())
      sink(operand, space, map);
  cloneOp(builder_, op, map);
  return map.lookup(tile);
}

void LayoutInference::sinkTiles() {
  llvm::SmallVector<Op *> outside;
  for (Op &op : kernel_.body().ops())
    if (op.numResults() == 1 && op.result()->type().isTile())
      outside.push_back(&op);
  if (outside.empty())
    return;
  for (Op &space : kernel_.body().ops()) {
    if (!space.is(OpKind::Space))
      continue;
    ValueMap map;
    builder_.setInsertionPointToStart(space.body());
    walk(space.body(), [&](Op &op) {
      for (unsigned i = 0; i < op.numOperands(); ++i) {
        const Op *source = op.operand(i)->definingOp();
        if (op.operand(i)->type().isTile() && source && source->parentBlock() == &kernel_.body())
          op.setOperand(i, sink(op.operand(i), space, map));
      }
    });
  }
  for (Op *op : llvm::reverse(outside))
    if (!op->result()->hasUses())
      op->erase();
}

// Threads.

void LayoutInference::chooseThreads() {
  if (facts_ && facts_->lanes > 0)
    lanes_ = facts_->lanes;
  threads_ = kernel_.getOr(attr::threads, 0);
  if (threads_ != 0)
    return;
  int64_t most = 0;
  eachOp([&](Op &op) {
    for (Value *result : op.results())
      if (result->type().isTile())
        most = std::max(most, result->type().elements());
  });
  threads_ = most >= kLargeTile ? kManyThreads : kFewThreads;
  kernel_.set(attr::threads, threads_);
}

// Classes.

void LayoutInference::convertOperand(Op &op, unsigned operand) {
  Value *tile = op.operand(operand);
  builder_.setInsertionPoint(&op);
  builder_.setLoc(op.loc());
  op.setOperand(operand, builder_.value(OpKind::Convert, {tile}, tile->type()));
}

/// Puts conversions around accesses of memory and before products, so that they can differ from
/// what is computed.
void LayoutInference::separateMemory() {
  llvm::SmallVector<Op *> loads, stores;
  eachOp([&](Op &op) {
    switch (op.kind()) {
    case OpKind::Load:
    case OpKind::Gather:
      if (readsTile(op))
        loads.push_back(&op);
      break;
    case OpKind::Store:
    case OpKind::Put:
    case OpKind::PutSignal:
    case OpKind::ReduceAdd:
      // A deferred one goes through shared memory as it is.
      if (op.operand(0)->type().isTile() && !op.get(attr::epilogue))
        stores.push_back(&op);
      break;
    case OpKind::Dot:
      dots_.push_back(&op);
      break;
    default:
      break;
    }
  });
  for (Op *load : loads) {
    Value *tile = load->result();
    const llvm::SmallVector<Use, 2> uses(tile->uses());
    builder_.setInsertionPoint(load);
    builder_.setLoc(load->loc());
    Op *convert = builder_.op(OpKind::Convert, {tile}, {tile->type()});
    convert->moveAfter(load);
    for (const Use &use : uses)
      use.user->setOperand(use.index, convert->result());
  }
  for (Op *store : stores)
    convertOperand(*store, 0);
  for (Op *dot : dots_)
    if (productFor(*dot))
      for (unsigned i : {0u, 1u})
        convertOperand(*dot, i);
}

void LayoutInference::uniteOp(Op &op) {
  switch (op.kind()) {
  case OpKind::For: {
    Op &yield = *op.body().terminator();
    unite(op.operands().drop_front(3), op.results());
    unite(op.body().arguments().drop_front(), op.results());
    return unite(yield.operands(), op.results());
  }
  case OpKind::While: {
    llvm::ArrayRef<Value *> passed = op.body(0).terminator()->operands().drop_front();
    unite(op.operands(), op.body(0).arguments());
    unite(op.body(1).terminator()->operands(), op.body(0).arguments());
    unite(passed, op.body(1).arguments());
    return unite(passed, op.results());
  }
  case OpKind::If:
    for (unsigned i : {0u, 1u})
      unite(op.body(i).terminator()->operands(), op.results());
    return;
  case OpKind::Dot:
    return unite(op.operand(2), op.result());
  case OpKind::Scan:
    return unite(op.operand(0), op.result());
  case OpKind::Take:
    return unite(op.operand(1), op.result());
  case OpKind::Gather:
  case OpKind::Scatter:
  case OpKind::AtomicScatter:
  case OpKind::ReduceAddScatter: {
    // Numbers of rows are where convertShapes wants them.
    if (gathersRows(op))
      return;
    Value *tile = op.operand(firstIndexTile(op));
    if (op.result() && op.result()->type().isTile())
      unite(op.result(), tile);
    for (Value *operand : op.operands())
      if (operand->type().isTile())
        unite(operand, tile);
    return;
  }
  default:
    break;
  }
  // Elementwise: whatever has the shape of the result.
  if (!isElementwise(op.kind()) || !op.result()->type().isTile())
    return;
  for (Value *operand : op.operands())
    unite(operand, op.result());
}

void LayoutInference::unite() {
  auto add = [&](Value *value) {
    if (value->type().isTile())
      tiles_.insert(value);
  };
  eachOp([&](Op &op) {
    for (Value *result : op.results())
      add(result);
    for (unsigned i = 0; i < op.numRegions(); ++i)
      for (Value *argument : op.body(i).arguments())
        add(argument);
  });
  eachOp([&](Op &op) { uniteOp(op); });
}

void LayoutInference::makeClasses() {
  auto add = [&](Value *value) {
    if (value->type().isTile())
      classes_[tiles_.getLeaderValue(value)].members.push_back(value);
  };
  eachOp([&](Op &op) {
    for (Value *result : op.results())
      add(result);
    for (unsigned i = 0; i < op.numRegions(); ++i)
      for (Value *argument : op.body(i).arguments())
        add(argument);
  });
  for (auto &[leader, tiles] : classes_) {
    if (tiles.members.size() != 1)
      continue;
    const Op *op = leader->definingOp();
    tiles.isBoundary =
        op && (readsTile(*op) || (op->is(OpKind::Convert) && leader->hasOneUse() &&
                                  leader->uses()[0].user->hasEffect(ir::Write | ir::RemoteWrite)));
  }
}

// Products.

/// The matrix instruction for a product, where its shape is made of whole ones; the last rows may
/// be fewer. Products of tf32 are as well in f32, where a machine has no instruction for less.
/// Where the sum's layout is known, it has to be one that the instruction leaves.
const MatrixProduct *LayoutInference::productFor(const Op &dot, const Layout *sums) const {
  const MatrixProduct *product = productFor(dot, sums, dot.has(attr::precision));
  return product || !dot.has(attr::precision) ? product : productFor(dot, sums, false);
}

/// Whether a layout is made of an instruction's sums.
bool repeats(const Layout &layout, const MatrixProduct &product) {
  const Layout atom = *Layout::parse(product.fragmentSum, 2);
  const auto registers = atom.bits(LayoutBits::Register), has = layout.bits(LayoutBits::Register);
  return layout.bits(LayoutBits::Lane) == atom.bits(LayoutBits::Lane) &&
         has.size() >= registers.size() && has.take_front(registers.size()) == registers;
}

const MatrixProduct *LayoutInference::productFor(const Op &dot, const Layout *sums,
                                                 bool isTf32) const {
  if (!facts_)
    return nullptr;
  const Type a = dot.operand(0)->type(), b = dot.operand(1)->type(), sum = dot.result()->type();
  const int64_t rows = sum.shape()[0];
  const MatrixProduct *padded = nullptr;
  for (const MatrixProduct &product : facts_->products) {
    if (product.a != a.dtype() || product.b != b.dtype() || product.sum != sum.dtype() ||
        product.isTf32 != isTf32 || sum.shape()[1] % product.columns != 0 ||
        a.shape()[1] % product.depth != 0 || (sums && !repeats(*sums, product)))
      continue;
    if (rows % product.rows == 0)
      return &product;
    if (rows >= kFewestRows && (!padded || product.rows < padded->rows))
      padded = &product;
  }
  return padded;
}

/// Whether what becomes of a sum is an operand of a product: then a warp should have whole rows.
bool LayoutInference::feedsProduct(Op &dot) {
  return llvm::any_of(dots_, [&](Op *other) {
    const Op *convert = other->operand(0)->definingOp();
    return convert && convert->is(OpKind::Convert) &&
           tiles_.isEquivalent(convert->operand(0), dot.result());
  });
}

/// The dimension that each bit of a warp's number leads along.
llvm::SmallVector<int, 4> LayoutInference::warpsOf(Op &dot, const MatrixProduct &product) {
  const llvm::ArrayRef<int64_t> shape = dot.result()->type().shape();
  const int64_t groups = dot.getOr(attr::warpgroups, 0);
  bool onlyRows = groups != 0 || feedsProduct(dot);
  // And so should the product that it feeds.
  for (Op *other : dots_)
    if (const Op *convert = dot.operand(0)->definingOp();
        convert && convert->is(OpKind::Convert) &&
        tiles_.isEquivalent(convert->operand(0), other->result()))
      onlyRows = true;
  const int64_t atoms[] = {product.rows, product.columns};
  int64_t each[] = {shape[0], shape[1]};
  // Where there are rows for one warp only, the others had nothing to do.
  onlyRows &= groups != 0 || each[0] >= 2 * atoms[0];
  llvm::SmallVector<int, 4> dims;
  const int64_t ofGroup = dot.get(attr::by_columns) ? facts_->groupThreads / lanes_ : 0;
  for (int64_t have = 1; have < threads_ / lanes_; have *= 2) {
    auto hasRoom = [&](int dim) { return each[dim] >= 2 * atoms[dim]; };
    int dim = each[0] >= each[1] ? 0 : 1;
    if (onlyRows)
      dim = have == ofGroup ? 1 : 0;
    else if (!hasRoom(dim))
      dim = 1 - dim;
    dims.push_back(hasRoom(dim) ? dim : -1);
    if (hasRoom(dim))
      each[dim] = (each[dim] + 1) / 2;
  }
  return dims;
}

/// How many neighbours of an operand along the sum's dimension a thread reads at once, where a
/// product has no matrix instruction.
int64_t LayoutInference::runOf(const Op &dot, unsigned operand) const {
  const Value &tile = *dot.operand(operand);
  const bool isAlongSum = isRowMajor(tile) == (operand == 1);
  return isAlongSum ? std::min<int64_t>(accessElements(facts_, dtypeBytes(tile.type().dtype())), 4)
                    : 1;
}

/// What is only moved between a load and an operand in registers has that one's layout: threads
/// read what they multiply.
void LayoutInference::followToLoad(Value &operand) {
  Value *tile = &operand;
  for (Op *op = tile->definingOp(); op && (op->is(OpKind::Convert) || op->is(OpKind::Trans));
       op = tile->definingOp()) {
    const Layout layout = *classOf(tile).layout;
    tile = op->operand(0);
    LayoutClass &before = classOf(tile);
    if (before.layout || before.members.size() != 1 || before.isBoundary || !tile->hasOneUse())
      return;
    // A transposition of two dimensions is its own inverse.
    before.layout = op->is(OpKind::Trans) ? layout.permuted(op->get(attr::perm)) : layout;
  }
}

void LayoutInference::chooseProducts() {
  // Groups of warps have their sums where their instruction leaves them: others follow.
  llvm::SmallVector<Op *, 8> byRank;
  for (const bool ofGroups : {true, false})
    llvm::copy_if(dots_, std::back_inserter(byRank),
                  [&](const Op *dot) { return dot->has(attr::warpgroups) == ofGroups; });
  for (Op *dot : byRank) {
    LayoutClass &sums = classOf(dot->result());
    const MatrixProduct *product = productFor(*dot);
    if (sums.layout || !product)
      continue;
    const Layout atom = *Layout::parse(product->fragmentSum, 2);
    sums.layout = repeatedLayout(atom, dot->result()->type().shape(), warpsOf(*dot, *product));
    sums.hasProduct = true;
  }
  for (Op *dot : dots_) {
    LayoutClass &sums = classOf(dot->result());
    // Two products of one sum may be of different instructions whose sums' fragments agree.
    const MatrixProduct *product = productFor(*dot, sums.layout ? &*sums.layout : nullptr);
    if (!product) {
      if (!sums.layout)
        sums.layout =
            outerProductLayout(sums.type().shape(), threads(), {runOf(*dot, 0), runOf(*dot, 1)});
      sums.hasProduct = true;
      continue;
    }
    dot->set(attr::matrix, product->name.str());
    const Layout sumAtom = *Layout::parse(product->fragmentSum, 2);
    for (unsigned i : {0u, 1u}) {
      const Layout atom = *Layout::parse(i == 0 ? product->fragmentA : product->fragmentB, 2);
      classOf(dot->operand(i)).layout =
          operandLayout(*sums.layout, sumAtom, atom, i, dot->operand(0)->type().shape()[1]);
    }
    if (dot->get(attr::awaited))
      followToLoad(*dot->operand(0));
    if (!dot->has(attr::warpgroups))
      context_.remark(*dot, "computed by matrix instructions " + llvm::Twine(product->name));
  }
}

// The rest.

/// What a tile's definition or a use says its layout is, when the tile at the other end has one.
std::optional<Layout> LayoutInference::suggestion(Value *tile) {
  const auto known = [&](Value *other) { return classOf(other).layout; };
  if (Op *op = tile->definingOp()) {
    switch (op->kind()) {
    case OpKind::Convert:
    case OpKind::Trans:
    case OpKind::Reshape:
    case OpKind::Reduce:
    case OpKind::ArgReduce:
      if (std::optional<Layout> from = known(op->operand(0))) {
        if (op->is(OpKind::Convert))
          return from;
        if (op->is(OpKind::Trans))
          return from->permuted(op->get(attr::perm));
        if (op->is(OpKind::Reshape))
          if (auto layout = from->reshaped(op->operand(0)->type().shape(), tile->type().shape()))
            return layout;
        if (op->is(OpKind::Reduce) || op->is(OpKind::ArgReduce))
          return from->withoutDim(unsigned(op->get(attr::axis))).withoutRegisterCopies();
      }
      break;
    default:
      break;
    }
  }
  for (const Use &use : tile->uses()) {
    Op &user = *use.user;
    if (user.numResults() != 1 || !user.result()->type().isTile())
      continue;
    const Type type = user.result()->type();
    if (user.is(OpKind::Broadcast) || user.is(OpKind::Reshape)) {
      if (std::optional<Layout> layout = known(user.result()))
        if (auto before = operandLayoutFor(user, *layout))
          return before;
    } else if (user.is(OpKind::Convert)) {
      if (std::optional<Layout> layout = known(user.result()))
        return layout;
    } else if (user.is(OpKind::Trans)) {
      if (std::optional<Layout> layout = known(user.result())) {
        llvm::SmallVector<int64_t, 4> inverse(type.rank());
        for (auto [to, from] : llvm::enumerate(user.get(attr::perm)))
          inverse[from] = int64_t(to);
        return layout->permuted(inverse);
      }
    }
  }
  return std::nullopt;
}

std::optional<Layout> LayoutInference::suggestion(const LayoutClass &tiles) {
  for (Value *tile : tiles.members)
    if (std::optional<Layout> layout = suggestion(tile))
      if (layout->covers(tile->type().shape()) && layout->isSimple())
        return layout;
  return std::nullopt;
}

/// Bytes of the narrowest elements of a class that come from memory or go there; 0 if none do.
unsigned narrowestAccess(const LayoutClass &tiles) {
  unsigned bytes = 0;
  auto consider = [&](Value *tile) {
    const unsigned each = dtypeBytes(tile->type().dtype());
    bytes = bytes == 0 ? each : std::min(bytes, each);
  };
  for (Value *tile : tiles.members) {
    const Op *op = tile->definingOp();
    if (op && (op->is(OpKind::Load) || op->is(OpKind::Gather) || op->is(OpKind::Convert)))
      consider(tile);
    for (const Use &use : tile->uses())
      if (use.user->is(OpKind::Convert) || use.user->hasEffect(ir::Write))
        consider(tile);
  }
  return bytes;
}

/// Rows of neighbours, as wide as the narrowest elements that come from memory or go there.
Layout LayoutInference::rows(const LayoutClass &tiles) {
  unsigned bytes = narrowestAccess(tiles);
  if (bytes == 0)
    bytes = dtypeBytes(tiles.type().dtype());
  llvm::SmallVector<unsigned, 4> order;
  for (unsigned d = tiles.type().rank(); d-- > 0;)
    order.push_back(d);
  return blockedLayout(tiles.type().shape(), order, accessElements(facts_, bytes), threads());
}

void LayoutInference::chooseRest() {
  // Larger ones first, what is computed before what is moved, and of those as large as others what
  // comes from memory or goes there: positions follow.
  std::multimap<std::tuple<bool, int64_t, bool>, LayoutClass *> order;
  for (auto &[leader, tiles] : classes_)
    if (!tiles.layout)
      order.insert(
          {{tiles.isBoundary, -tiles.type().elements(), narrowestAccess(tiles) == 0}, &tiles});
  for (auto &[rank, tiles] : order) {
    std::optional<Layout> layout = suggestion(*tiles);
    if (layout && tiles->isBoundary)
      layout = accessLayout(*tiles->members.front(), *layout, facts_);
    tiles->layout = layout ? *layout : rows(*tiles);
  }
}

// The result.

void LayoutInference::setTypes() {
  for (auto &[leader, tiles] : classes_)
    for (Value *tile : tiles.members)
      tile->setType(withLayout(tile->type(), *tiles.layout));
}

Value *LayoutInference::converted(Op &before, Value *tile, const Layout &layout) {
  if (*tile->type().layout() == layout)
    return tile;
  builder_.setInsertionPoint(&before);
  builder_.setLoc(before.loc());
  return builder_.value(OpKind::Convert, {tile}, withLayout(tile->type(), layout));
}

/// Where a gather of rows wants their numbers: each thread has those of its elements.
Layout numbersFor(const Op &gather) {
  Layout rows = *gather.result()->type().layout();
  for (unsigned d = gather.result()->type().rank(); --d > 0;)
    rows = rows.withoutDim(d);
  return rows.withoutRegisterCopies();
}

/// Ops that change shapes get their operands in the layout that the result's follows from, or the
/// result as it follows from the operand's.
void LayoutInference::convertShapes() {
  llvm::SmallVector<Op *> ops;
  eachOp([&](Op &op) {
    if (op.is(OpKind::Broadcast) || op.is(OpKind::Trans) || op.is(OpKind::Reshape) ||
        op.is(OpKind::Reduce) || op.is(OpKind::ArgReduce) || gathersRows(op))
      ops.push_back(&op);
  });
  for (Op *op : ops) {
    if (op->is(OpKind::Gather)) {
      op->setOperand(1, converted(*op, op->operand(1), numbersFor(*op)));
      continue;
    }
    Value *from = op->operand(0), *to = op->result();
    if (!to->type().isTile())
      continue;
    std::optional<Layout> natural;
    const Layout &layout = *from->type().layout();
    if (op->is(OpKind::Broadcast)) {
      op->setOperand(0, converted(*op, from, *operandLayoutFor(*op, *to->type().layout())));
      continue;
    }
    if (op->is(OpKind::Trans))
      natural = layout.permuted(op->get(attr::perm));
    else if (op->is(OpKind::Reshape))
      natural = layout.reshaped(from->type().shape(), to->type().shape());
    else
      natural = layout.withoutDim(unsigned(op->get(attr::axis))).withoutRegisterCopies();
    // A reshape that no layout follows goes through memory by itself.
    if (!natural || *natural == *to->type().layout())
      continue;
    const Type type = to->type();
    const llvm::SmallVector<Use, 2> uses(to->uses());
    to->setType(withLayout(type, *natural));
    builder_.setInsertionPoint(op);
    builder_.setLoc(op->loc());
    Op *convert = builder_.op(OpKind::Convert, {to}, {type});
    convert->moveAfter(op);
    for (const Use &use : uses)
      use.user->setOperand(use.index, convert->result());
  }
}

llvm::SmallVector<Op *> LayoutInference::conversions() {
  llvm::SmallVector<Op *> converts;
  eachOp([&](Op &op) {
    if (op.is(OpKind::Convert))
      converts.push_back(&op);
  });
  return converts;
}

/// Of several conversions in a row only the last matters, and none where nothing changes.
void LayoutInference::removeConversions() {
  const llvm::SmallVector<Op *> converts = conversions();
  for (Op *op : converts) {
    while (Op *source = op->operand(0)->definingOp()) {
      if (!source->is(OpKind::Convert))
        break;
      op->setOperand(0, source->operand(0));
    }
    if (op->operand(0)->type() == op->result()->type())
      op->result()->replaceAllUsesWith(op->operand(0));
  }
  for (Op *op : llvm::reverse(converts))
    if (!op->result()->hasUses())
      op->erase();
}

/// Elementwise, and of an instruction or two.
bool isCheap(const Op &op) {
  if (!isElementwise(op.kind()))
    return false;
  const bool isDivision = op.is(OpKind::Div) || op.is(OpKind::Rem) || op.is(OpKind::Pow);
  const bool isFunction = op.kind() >= OpKind::Exp && op.kind() <= OpKind::Ceil;
  return !isDivision && !isFunction && !op.is(OpKind::Asm);
}

/// Whether a tile follows by a few simple ops, which all threads can do in any layout, from
/// positions, scalars and a few elements of memory.
bool LayoutInference::canRecompute(Value *tile, const Layout &layout, unsigned &ops) {
  const Op *op = tile->definingOp();
  if (!op || ++ops > kMostRecomputed || !layout.isSimple() || !layout.covers(tile->type().shape()))
    return false;
  if (op->is(OpKind::Iota) || op->is(OpKind::Splat))
    return true;
  if (op->is(OpKind::Load))
    return comesVia(*op, LoadPath::Scalars) ||
           ((op->numOperands() == 1 || isLoadOfInput(*op)) && !op->operand(0)->type().isRemote() &&
            !isStagedLoad(*op) && layout.registers() <= kMostReloaded);
  if (op->is(OpKind::Reshape) || op->is(OpKind::Broadcast)) {
    const std::optional<Layout> from = operandLayoutFor(*op, layout);
    return from && canRecompute(op->operand(0), *from, ops);
  }
  if (!isCheap(*op))
    return false;
  return llvm::all_of(op->operands(), [&](Value *operand) {
    return !operand->type().isTile() || canRecompute(operand, layout, ops);
  });
}

Value *LayoutInference::recompute(Value *tile, const Layout &layout) {
  Op &op = *tile->definingOp();
  for (auto &[load, again] : reloaded_)
    if (load == &op && *again->type().layout() == layout)
      return again;
  ValueMap map;
  for (Value *operand : op.operands())
    if (operand->type().isTile()) {
      const bool isShaped = op.is(OpKind::Reshape) || op.is(OpKind::Broadcast);
      map[operand] = recompute(operand, isShaped ? *operandLayoutFor(op, layout) : layout);
    }
  Op *same = cloneOp(builder_, op, map);
  same->result()->setType(withLayout(tile->type(), layout));
  // Memory is read where it was.
  if (op.is(OpKind::Load)) {
    same->moveAfter(&op);
    reloaded_.emplace_back(&op, same->result());
  }
  return same->result();
}

/// Masks, a scale of each row and the like are computed where they are wanted, rather than sent
/// there through shared memory.
void LayoutInference::recomputeConversions() {
  for (Op *convert : conversions()) {
    Value *tile = convert->operand(0);
    const Layout &to = *convert->result()->type().layout();
    const Layout &from = *tile->type().layout();
    const auto staysIn = [&](LayoutBits which) { return from.bits(which) == to.bits(which); };
    unsigned ops = 0;
    if ((staysIn(LayoutBits::Lane) && staysIn(LayoutBits::Warp)) || !canRecompute(tile, to, ops))
      continue;
    builder_.setInsertionPoint(convert);
    builder_.setLoc(convert->loc());
    convert->result()->replaceAllUsesWith(recompute(tile, to));
    convert->erase();
    // What nobody needs any more.
    for (Op *op = tile->definingOp(); op && !op->result()->hasUses();) {
      Op *before = op->numOperands() > 0 ? op->operand(0)->definingOp() : nullptr;
      op->erase();
      op = before && before->numResults() == 1 && before->result()->type().isTile() ? before
                                                                                    : nullptr;
    }
  }
}

void LayoutInference::run() {
  sinkTiles();
  chooseThreads();
  separateMemory();
  unite();
  makeClasses();
  chooseProducts();
  chooseRest();
  setTypes();
  convertShapes();
  removeConversions();
  recomputeConversions();
}

} // namespace

bool inferLayouts(Module &module, PassContext &context) {
  // Programs of one thread have no layouts.
  if (context.facts && context.facts->lanes == 0)
    return false;
  bool changed = false;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    LayoutInference(kernel, context).run();
    changed = true;
  }
  return changed;
}

} // namespace dtile::passes
