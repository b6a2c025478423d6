// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of tiles: by matrix instructions of the warps where the pass infer-layouts chose one
// (attribute `matrix`), else element by element (element_product.cpp). Either way operands stand in
// shared memory while they are multiplied, unless they are in the instruction's registers already.
#include "backend/gpu/bodies/multistage_loop.h"

#include "frontend/base/check.h"
#include "ir/analysis/shared_memory_plan.h"

namespace dtile::backend::gpu {

using ir::Layout;
using ir::LayoutBits;
using ir::Op;
using ir::OpKind;

namespace {

const MatrixProduct *findProduct(const TargetFacts &facts, const Op &dot) {
  if (!dot.has(ir::attr::matrix))
    return nullptr;
  for (const MatrixProduct &product : facts.products)
    if (product.name == dot.get(ir::attr::matrix))
      return &product;
  return nullptr;
}

Layout fragment(llvm::StringRef text) {
  std::optional<Layout> layout = Layout::parse(text, 2);
  DTILE_CHECK(layout.has_value(), "a fragment in the machine's facts");
  return *layout;
}

} // namespace

llvm::SmallVector<llvm::Value *, 4> Device::loadMatrices(llvm::IRBuilder<> &, llvm::Value *,
                                                         unsigned, bool) const {
  DTILE_UNREACHABLE("a device that loads matrices says how");
}

llvm::Value *Device::roundToTf32(llvm::IRBuilder<> &b, llvm::Value *value) const {
  return Arith(b).roundToTf32(value);
}

void BodyLowering::lowerDot(Op &op) {
  if (const MatrixProduct *product = findProduct(gpu_.device.facts(), op))
    return multiplyByMatrices(op, *product);
  multiplyByElements(op);
}

bool BodyLowering::readsShared(const Op &dot, const SharedTile &tile) const {
  return tile.swizzleBits == 0 || findProduct(gpu_.device.facts(), dot);
}

bool BodyLowering::isStagedByDot(const Op &convert) {
  const ir::Value *tile = convert.result();
  if (!stagesOperands() || !tile->hasOneUse() || convert.operand(0)->type() == tile->type())
    return false;
  const Op &user = *tile->uses()[0].user;
  if (!user.is(OpKind::Dot) || tile->uses()[0].index > 1 ||
      !findProduct(gpu_.device.facts(), user) || user.parentBlock() != convert.parentBlock())
    return false;
  const TileInfo &from = info(convert.operand(0)->type()), &to = info(tile->type());
  return !withinThreads(from, to) && !staysWithinWarps(from, to);
}

// By matrix instructions.

namespace {

/// An operand on its way into an instruction's registers.
struct MatrixOperand {
  /// The dimension that is summed over.
  unsigned depthDim = 0;
  Layout atom;
  /// Where it stands in shared memory, or nothing where `registers` holds the fragments.
  std::optional<SharedTile> shared;
  /// It is there already.
  bool isCopied = false;
  /// What it is rearranged from, through shared memory.
  ir::Value *source = nullptr;
  /// Bits of positions that say where in `shared` an element is: of a block, those below its size.
  PositionBits within{~0, ~0, 0, 0};
  /// This thread's part of where it reads; the second, where it reads two atoms at once.
  llvm::Value *thread[2] = {};
  /// Of the layout of fragments.
  const TileInfo *info = nullptr;
  Registers registers;
  /// Words of each atom, by the position of its first element.
  std::map<Layout::Position, llvm::SmallVector<llvm::Value *, 4>> words;
};

} // namespace

/// Lowers one product.
class MatrixLowering {
public:
  MatrixLowering(BodyLowering &body, Op &op, const MatrixProduct &product)
      : body_(body), b(body.b), op_(op), product_(product),
        whole_(ProductBlocks::whole(op.result()->type().shape(), op.operand(0)->type().shape()[1])),
        blocks_(whole_) {
    const TileInfo &to = body.info(op.result()->type());
    const unsigned registers = fragment(product.fragmentSum).registers();
    // An atom that begins past the end has no registers inside.
    for (uint32_t first = 0; first < to.layout.registers(); first += registers)
      if (to.slots[first] >= 0)
        atoms_.push_back(first);
    for (unsigned i : {0u, 1u})
      prepare(i);
  }
  void run();
  /// Reads the operands of the first step, before the loop that the product is in.
  void readFirst(MultistageLoop &loop);

private:
  void prepare(unsigned i);
  /// Where the part of an operand stands that a block of this size needs, without an address.
  [[nodiscard]] SharedTile placeOf(unsigned i, const ProductBlocks &blocks) const;
  /// Of what goes through shared memory, side by side.
  [[nodiscard]] int64_t stagedBytes(const ProductBlocks &blocks) const;
  void chooseBlocks();
  /// Writes operands that other threads read to shared memory, as far as the block needs them that
  /// begins at these rows and columns, and this depth.
  void stage(const Layout::Position &from, int64_t depth);
  /// Multiplies the operands' steps at a depth, for a block of the sums.
  void multiply(const Layout::Position &from, int64_t k, Registers &sums);
  void readStep(int64_t k);
  void keepStep(MultistageLoop &loop);
  void readAhead(MultistageLoop &loop, int64_t k, int64_t next);
  [[nodiscard]] llvm::ArrayRef<llvm::Value *> words(unsigned i, Layout::Position at);
  void readAtom(MatrixOperand &operand, const Layout::Position &at,
                llvm::SmallVectorImpl<llvm::Value *> &words);
  [[nodiscard]] bool loadsMatrices8x8(const MatrixOperand &operand) const;
  /// Reads the atom at a position, or that and the next (`apart` positions further).
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 4>
  readMatrices8x8(MatrixOperand &operand, const Layout::Position &at, int32_t apart);
  /// How far apart atoms are that can be read at once, or 0.
  [[nodiscard]] int32_t pairDistance(const MatrixOperand &operand) const;
  void readWords(unsigned i, const Layout::Position &at);
  void readRuns(MatrixOperand &operand, const Layout::Position &at,
                llvm::SmallVectorImpl<llvm::Value *> &words);
  /// In this thread: the place of a position of the atom at `at`.
  [[nodiscard]] llvm::Value *sharedAddress(MatrixOperand &operand, Layout::Position position,
                                           const Layout::Position &at);
  /// What instructions take is 32-bit words, and f64 by themselves.
  [[nodiscard]] llvm::Type *wordType() const {
    return product_.a == DType::F64 ? b.getDoubleTy() : static_cast<llvm::Type *>(b.getInt32Ty());
  }
  [[nodiscard]] unsigned perWord() const { return std::max(1u, 4 / dtypeBytes(product_.a)); }

  BodyLowering &body_;
  llvm::IRBuilder<> &b;
  Op &op_;
  const MatrixProduct &product_;
  MatrixOperand operands_[2];
  /// First registers of the sums' atoms.
  llvm::SmallVector<uint32_t> atoms_;
  bool isStaged_ = false;
  ProductBlocks whole_, blocks_;
  /// Instructions so far.
  unsigned done_ = 0;
};

void MatrixLowering::prepare(unsigned i) {
  MatrixOperand &operand = operands_[i];
  ir::Value *tile = op_.operand(i);
  operand.depthDim = i == 0 ? 1 : 0;
  operand.atom = fragment(i == 0 ? product_.fragmentA : product_.fragmentB);
  operand.info = &body_.info(tile->type());
  operand.shared = body_.asyncOperand(tile);
  if (operand.shared) {
    operand.isCopied = true;
    return;
  }
  const Op *convert = tile->definingOp();
  if (!convert || !convert->is(OpKind::Convert) || !body_.isStagedByDot(*convert)) {
    operand.registers = Registers(body_.registers(tile));
    return;
  }
  operand.source = convert->operand(0);
  operand.shared = placeOf(i, blocks_);
}

SharedTile MatrixLowering::placeOf(unsigned i, const ProductBlocks &blocks) const {
  const MatrixOperand &operand = operands_[i];
  const TileInfo &from = body_.info(operand.source->type());
  const DType dtype = operand.source->type().dtype();
  const unsigned fastest = from.longestRun().dim, lineDim = 1 - operand.depthDim;
  const PositionBits fixed = blocks.fixed(i, whole_);
  if (fixed == PositionBits{}) {
    SharedTile tile = body_.sharedTile(dtype, {&from, operand.info}, fastest, /*padded=*/true);
    const int64_t past = body_.linesRead(op_, i) - operand.info->extent(lineDim);
    tile.bytes += std::max<int64_t>(0, past) * tile.strides[lineDim];
    return tile;
  }
  const TilePiece written(from, fixed, {}), read(*operand.info, fixed, {});
  SharedTile tile = body_.sharedTile(dtype, {&written.info, &read.info}, fastest, /*padded=*/true);
  if (fixed[lineDim] == 0) {
    const int64_t past = body_.linesRead(op_, i) - read.info.extent(lineDim);
    tile.bytes += std::max<int64_t>(0, past) * tile.strides[lineDim];
  }
  return tile;
}

int64_t MatrixLowering::stagedBytes(const ProductBlocks &blocks) const {
  int64_t bytes = 0;
  for (unsigned i : {0u, 1u})
    if (operands_[i].source)
      bytes += int64_t(llvm::alignTo(uint64_t(placeOf(i, blocks).bytes), ir::kScratchAlignBytes));
  return bytes;
}

void MatrixLowering::chooseBlocks() {
  // A block has whole instructions of all warps; those of one stand in its registers.
  const TileInfo &to = body_.info(op_.result()->type());
  ProductBlocks least{product_.rows, product_.columns, product_.depth};
  for (const Layout::Position &way : to.layout.bits(LayoutBits::Warp)) {
    least.rows = std::max<int64_t>(least.rows, 2 * way[0]);
    least.columns = std::max<int64_t>(least.columns, 2 * way[1]);
  }
  blocks_ = gpu::chooseBlocks(to, whole_, least, body_.gpu_.sharedRoom(),
                              [&](const ProductBlocks &blocks) { return stagedBytes(blocks); });
  if (blocks_ == whole_)
    return;
  for (unsigned i : {0u, 1u}) {
    if (!operands_[i].source)
      continue;
    operands_[i].shared = placeOf(i, blocks_);
    operands_[i].within = {int32_t((i == 0 ? blocks_.rows : blocks_.depth) - 1),
                           int32_t((i == 0 ? blocks_.depth : blocks_.columns) - 1), 0, 0};
  }
}

bool MatrixLowering::loadsMatrices8x8(const MatrixOperand &operand) const {
  if (!body_.gpu_.device.hasLdmatrix())
    return false;
  // Rows of 16 bytes along the summed dimension; of two-byte elements they may lie across it.
  const SharedTile &tile = *operand.shared;
  const bool isAlong = tile.fastest == operand.depthDim;
  const unsigned other = 1 - tile.fastest;
  return (isAlong || perWord() == 2) && tile.strides[other] % 16 == 0;
}

/// Fragments of NVIDIA's kind are squares of 8 rows of 16 bytes: register bits past a word's choose
/// the square.
llvm::SmallVector<llvm::Value *, 4>
MatrixLowering::readMatrices8x8(MatrixOperand &operand, const Layout::Position &at, int32_t apart) {
  const SharedTile &tile = *operand.shared;
  const unsigned depthDim = operand.depthDim, lineDim = 1 - depthDim;
  const bool isAlong = tile.fastest == depthDim;
  unsigned count = operand.atom.registers() / perWord();
  if (apart != 0)
    count *= 2;
  if (llvm::Value *&thread = operand.thread[apart != 0]; !thread) {
    // This lane's row of a square: along the other dimension, or of the sum's when across.
    llvm::Value *lane = b.CreateAnd(body_.thread(), b.getInt32(31));
    llvm::Value *row = b.CreateAnd(lane, b.getInt32(7));
    thread = b.CreateMul(row, b.getInt32(uint32_t(tile.strides[isAlong ? lineDim : depthDim])));
    // Its square.
    unsigned bit = 3;
    const auto choose = [&](int64_t distance) {
      llvm::Value *isSet = b.CreateAnd(b.CreateLShr(lane, bit++), b.getInt32(1));
      thread = b.CreateAdd(thread, b.CreateMul(isSet, b.getInt32(uint32_t(distance))));
    };
    for (unsigned index = perWord(); index < operand.atom.registers(); index *= 2) {
      const Layout::Position way = operand.atom.at(index);
      choose(way[depthDim] * tile.strides[depthDim] + way[lineDim] * tile.strides[lineDim]);
    }
    if (apart != 0)
      choose(apart * tile.strides[lineDim]);
    // Warps begin where their layout says.
    for (unsigned d : {0u, 1u})
      thread = b.CreateAdd(thread, b.CreateMul(body_.warpPosition(operand.info->layout, d),
                                               b.getInt32(uint32_t(tile.strides[d]))));
    thread = tile.swizzled(b, thread);
  }
  int64_t offset = 0;
  for (unsigned d : {0u, 1u})
    offset += (at[d] & operand.within[d]) * tile.strides[d];
  llvm::Value *address = tile.address(b, operand.thread[apart != 0], offset);
  return body_.gpu_.device.loadMatrices(b, address, count, !isAlong);
}

/// Atoms of two squares are read in pairs: the first bit of a register's number after the atom's
/// that leads across the sum says where the other one is.
int32_t MatrixLowering::pairDistance(const MatrixOperand &operand) const {
  if (operand.atom.registers() / perWord() != 2)
    return 0;
  for (uint32_t index = operand.atom.registers(); index < operand.info->layout.registers();
       index *= 2)
    if (const int32_t distance = operand.info->layout.at(index)[1 - operand.depthDim])
      return distance & operand.within[1 - operand.depthDim];
  return 0;
}

/// Words that are neighbours in shared memory, as many at once as its rows are aligned for.
void MatrixLowering::readRuns(MatrixOperand &operand, const Layout::Position &at,
                              llvm::SmallVectorImpl<llvm::Value *> &words) {
  const SharedTile &tile = *operand.shared;
  const unsigned bytes = dtypeBytes(product_.a);
  const int64_t stride = tile.strides[1 - operand.depthDim];
  const int64_t aligned = stride & -stride;
  const auto most = unsigned(std::min<int64_t>(aligned, 16) / bytes);
  const unsigned run =
      std::max(perWord(), std::min(operand.atom.contiguous(operand.depthDim), most));
  const unsigned count = run / perWord();
  llvm::Type *type = count == 1 ? wordType() : llvm::FixedVectorType::get(wordType(), count);
  for (unsigned index = 0; index < operand.atom.registers(); index += run) {
    llvm::Value *loaded =
        b.CreateAlignedLoad(type, sharedAddress(operand, operand.atom.at(index), at),
                            llvm::Align(uint64_t(run) * bytes));
    if (count == 1)
      words.push_back(loaded);
    else
      for (unsigned i = 0; i < count; ++i)
        words.push_back(b.CreateExtractElement(loaded, uint64_t(i)));
  }
}

llvm::Value *MatrixLowering::sharedAddress(MatrixOperand &operand, Layout::Position position,
                                           const Layout::Position &at) {
  const SharedTile &tile = *operand.shared;
  if (!operand.thread[0])
    operand.thread[0] = body_.sharedThread(tile, operand.info->layout);
  int64_t offset = 0;
  for (unsigned d : {0u, 1u})
    offset += (position[d] + (at[d] & operand.within[d])) * tile.strides[d];
  return tile.address(b, operand.thread[0], offset);
}

void MatrixLowering::readAtom(MatrixOperand &operand, const Layout::Position &at,
                              llvm::SmallVectorImpl<llvm::Value *> &words) {
  if (operand.shared && operand.shared->fastest == operand.depthDim)
    return readRuns(operand, at, words);
  const DType dtype = op_.operand(unsigned(&operand - operands_))->type().dtype();
  llvm::Type *element = memoryType(b.getContext(), dtype);
  llvm::SmallVector<llvm::Value *, 16> values;
  for (unsigned index = 0; index < operand.atom.registers(); ++index) {
    Layout::Position position = operand.atom.at(index);
    if (operand.shared) {
      values.push_back(b.CreateAlignedLoad(element, sharedAddress(operand, position, at),
                                           llvm::Align(dtypeBytes(dtype))));
    } else {
      for (unsigned d : {0u, 1u})
        position[d] += at[d];
      // An instruction may have more rows than the tile.
      const unsigned lineDim = 1 - operand.depthDim;
      const bool exists = position[lineDim] < operand.info->shape[lineDim];
      llvm::Value *value = exists ? operand.registers[BodyLowering::slotOf(*operand.info, position)]
                                  : body_.arith_.zero(dtype);
      values.push_back(body_.arith_.toMemory(dtype, value));
    }
    if (values.size() == perWord())
      words.push_back(
          b.CreateBitCast(body_.packed(element, std::exchange(values, {})), wordType()));
  }
}

void MatrixLowering::readWords(unsigned i, const Layout::Position &at) {
  MatrixOperand &operand = operands_[i];
  const auto keep = [&](const Layout::Position &position, llvm::ArrayRef<llvm::Value *> words) {
    llvm::SmallVector<llvm::Value *, 4> &kept = operand.words[position];
    kept.assign(words.begin(), words.end());
    // The instruction would cut off what is too long.
    if (product_.isTf32)
      for (llvm::Value *&word : kept)
        word = b.CreateBitCast(
            body_.gpu_.device.roundToTf32(b, b.CreateBitCast(word, b.getFloatTy())), wordType());
  };
  if (!operand.shared || !loadsMatrices8x8(operand)) {
    llvm::SmallVector<llvm::Value *, 4> words;
    readAtom(operand, at, words);
    return keep(at, words);
  }
  const unsigned lineDim = 1 - operand.depthDim;
  const int32_t apart = pairDistance(operand);
  Layout::Position first = at, second = at;
  first[lineDim] &= ~apart;
  second[lineDim] |= apart;
  if (apart == 0 || second[lineDim] >= operand.info->shape[lineDim])
    return keep(at, readMatrices8x8(operand, at, 0));
  const llvm::SmallVector<llvm::Value *, 4> words = readMatrices8x8(operand, first, apart);
  keep(first, llvm::ArrayRef(words).take_front(2));
  keep(second, llvm::ArrayRef(words).drop_front(2));
}

llvm::ArrayRef<llvm::Value *> MatrixLowering::words(unsigned i, Layout::Position at) {
  MatrixOperand &operand = operands_[i];
  if (!operand.words.contains(at))
    readWords(i, at);
  return operand.words[at];
}

void MatrixLowering::stage(const Layout::Position &from, int64_t depth) {
  const int64_t bytes = stagedBytes(blocks_);
  if (bytes == 0)
    return;
  isStaged_ = true;
  llvm::Value *base = body_.sharedScratch(bytes);
  int64_t used = 0;
  for (unsigned i : {0u, 1u}) {
    MatrixOperand &operand = operands_[i];
    if (!operand.source)
      continue;
    operand.shared->base = b.CreateConstGEP1_64(b.getInt8Ty(), base, uint64_t(used));
    used += int64_t(llvm::alignTo(uint64_t(operand.shared->bytes), ir::kScratchAlignBytes));
    const TileInfo &source = body_.info(operand.source->type());
    const PositionBits fixed = blocks_.fixed(i, whole_);
    if (fixed == PositionBits{}) {
      body_.writeShared(*operand.shared, source, body_.registers(operand.source));
      continue;
    }
    PositionBits at{};
    at[1 - operand.depthDim] = from[i];
    at[operand.depthDim] = int32_t(depth);
    body_.writePiece(*operand.shared, TilePiece(source, fixed, at),
                     body_.registers(operand.source));
  }
  body_.programBarrier();
}

void MatrixLowering::readStep(int64_t k) {
  for (uint32_t first : atoms_) {
    const Layout::Position at = body_.info(op_.result()->type()).layout.at(first);
    for (unsigned i : {0u, 1u})
      (void)words(i, i == 0 ? Layout::Position{at[0], int32_t(k)}
                            : Layout::Position{int32_t(k), at[1]});
  }
}

void MatrixLowering::keepStep(MultistageLoop &loop) {
  for (unsigned i : {0u, 1u})
    for (auto &[at, words] : operands_[i].words) {
      if (at[operands_[i].depthDim] != 0)
        continue;
      auto &places = loop.ahead[{i, at}];
      while (places.size() < words.size())
        places.push_back(body_.stackSlot(wordType(), "word"));
      for (auto [word, place] : llvm::zip_equal(words, places))
        b.CreateStore(word, place);
    }
}

void MatrixLowering::readFirst(MultistageLoop &loop) {
  readStep(0);
  keepStep(loop);
}

/// The last step comes after the turn to the next iteration, and each after the loads of the
/// next: `next` is 0 with the last.
void MatrixLowering::readAhead(MultistageLoop &loop, int64_t k, int64_t next) {
  if (k == 0)
    for (auto &[place, words] : loop.ahead) {
      llvm::SmallVector<llvm::Value *, 4> &known = operands_[place.first].words[place.second];
      known.clear();
      for (llvm::Value *word : words)
        known.push_back(b.CreateLoad(wordType(), word));
    }
  if (next == 0) {
    loop.turn();
    for (unsigned i : {0u, 1u}) {
      MatrixOperand &operand = operands_[i];
      operand.shared = body_.asyncOperand(op_.operand(i));
      for (auto it = operand.words.begin(); it != operand.words.end();)
        it = it->first[operand.depthDim] == k ? std::next(it) : operand.words.erase(it);
    }
  }
  readStep(next);
}

void MatrixLowering::multiply(const Layout::Position &from, int64_t k, Registers &sums) {
  const TileInfo &to = body_.info(op_.result()->type());
  const Layout atom = fragment(product_.fragmentSum);
  const int64_t depth = op_.operand(0)->type().shape()[1];
  const auto all = unsigned(atoms_.size()) * unsigned(depth / product_.depth);
  MultistageLoop *loop = body_.copiesDuring(op_);
  const bool readsAhead = loop && loop->readsAhead(op_);
  // Copies are on their way before the end.
  const unsigned spread = readsAhead ? all - unsigned(atoms_.size()) : std::max(1u, all * 3 / 4);
  if (readsAhead)
    readAhead(*loop, k, (k + product_.depth) % depth);
  else
    for (MatrixOperand &operand : operands_)
      operand.words.clear();
  for (uint32_t first : atoms_) {
    const Layout::Position at = to.layout.at(first);
    if ((at[0] & -blocks_.rows) != from[0] || (at[1] & -blocks_.columns) != from[1])
      continue;
    llvm::SmallVector<llvm::Value *, 4> some;
    for (unsigned i = 0; i < atom.registers(); ++i) {
      const int32_t slot = to.slots[first + i];
      some.push_back(slot >= 0 ? sums[slot] : body_.arith_.zero(op_.result()->type().dtype()));
    }
    body_.gpu_.device.multiply(b, product_, words(0, {at[0], int32_t(k)}),
                               words(1, {int32_t(k), at[1]}), some);
    for (unsigned i = 0; i < atom.registers(); ++i)
      if (const int32_t slot = to.slots[first + i]; slot >= 0)
        sums[slot] = some[i];
    if (loop)
      loop->duringProduct(++done_, spread);
  }
  if (readsAhead && k + product_.depth == depth)
    keepStep(*loop);
}

void MatrixLowering::run() {
  chooseBlocks();
  const TileInfo &to = body_.info(op_.result()->type());
  Registers sums = body_.registers(op_.operand(2), to.layout);
  const int64_t depth = op_.operand(0)->type().shape()[1];
  for (int64_t row = 0; row < to.shape[0]; row += blocks_.rows)
    for (int64_t column = 0; column < to.shape[1]; column += blocks_.columns)
      for (int64_t slice = 0; slice < depth; slice += blocks_.depth) {
        const Layout::Position from{int32_t(row), int32_t(column)};
        stage(from, slice);
        for (int64_t k = slice; k < std::min(slice + blocks_.depth, depth); k += product_.depth)
          multiply(from, k, sums);
        if (isStaged_)
          body_.sharedRead();
      }
  body_.setRegisters(op_.result(), std::move(sums));
}

void BodyLowering::readFirstWords(Op &dot) {
  const MatrixProduct *product = findProduct(gpu_.device.facts(), dot);
  MatrixLowering(*this, dot, *product).readFirst(*multistageLoops_.lookup(dot.parentOp()));
}

int64_t BodyLowering::linesRead(const Op &dot, unsigned operand) {
  const int64_t lines = dot.operand(operand)->type().shape()[operand];
  const MatrixProduct *product = findProduct(gpu_.device.facts(), dot);
  if (!product)
    return lines;
  // The last fragment of which there is anything, in the last warp.
  const Layout atom = fragment(operand == 0 ? product->fragmentA : product->fragmentB);
  const TileInfo &all = info(dot.operand(operand)->type());
  int64_t last = 0;
  for (uint32_t first = 0; first < all.layout.registers(); first += atom.registers())
    if (llvm::any_of(llvm::ArrayRef(all.slots).slice(first, atom.registers()),
                     [](int32_t slot) { return slot >= 0; }))
      last = std::max<int64_t>(last, all.layout.at(first)[operand]);
  for (const Layout::Position &way : all.layout.bits(LayoutBits::Warp))
    last += way[operand];
  return std::max(lines, last + atom.box()[operand]);
}

bool BodyLowering::hasRoomToReadAhead(const Op &dot) {
  // Of a thread's registers; beside them are addresses.
  constexpr int64_t kMost = 208;
  const MatrixProduct *product = findProduct(gpu_.device.facts(), dot);
  if (!product || dot.operand(0)->type().shape()[1] < 2 * product->depth)
    return false;
  const int64_t steps = dot.operand(0)->type().shape()[1] / product->depth;
  int64_t words = 0;
  for (unsigned i : {0u, 1u}) {
    const TileInfo &operand = info(dot.operand(i)->type());
    words += operand.size() * int64_t(dtypeBytes(product->a)) / 4 / steps;
  }
  return info(dot.result()->type()).size() + 2 * words <= kMost;
}

void BodyLowering::multiplyByMatrices(Op &op, const MatrixProduct &product) {
  MatrixLowering(*this, op, product).run();
}

} // namespace dtile::backend::gpu
