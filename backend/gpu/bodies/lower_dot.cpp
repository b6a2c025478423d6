// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of tiles: by matrix instructions of the warps where the pass infer-layouts chose one
// (attribute `matrix`), else element by element. Either way the operands stand in shared memory
// while they are multiplied, unless they are in the instruction's registers already.
#include "backend/gpu/bodies/lower_copied.h"

#include "frontend/base/check.h"

#include "llvm/IR/Intrinsics.h"

namespace dtile::backend::gpu {

using ir::Layout;
using ir::LayoutBits;
using ir::Op;
using ir::OpKind;

namespace {

const MatrixProduct *findProduct(const TargetFacts &facts, const Op &dot) {
  if (!dot.hasAttr("matrix"))
    return nullptr;
  for (const MatrixProduct &product : facts.products)
    if (product.name == dot.strAttr("matrix"))
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
  return tile.exchangeBits == 0 || findProduct(gpu_.device.facts(), dot);
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

// Element by element.

void BodyLowering::multiplyByElements(Op &op) {
  ir::Value *a = op.operand(0), *c = op.operand(2);
  const ir::Type type = op.result()->type();
  const TileInfo &to = info(type);
  const int64_t depth = a->type().shape()[1];
  // Narrow sums are kept wide until the end.
  const DType dtype = accumulatorType(type.dtype());
  // Both operands side by side; of each a row is what is read together.
  SharedTile tiles[2];
  int64_t bytes = 0;
  for (unsigned i : {0u, 1u}) {
    if (std::optional<SharedTile> copied = copiedOperand(op.operand(i));
        copied && readsShared(op, *copied)) {
      tiles[i] = *copied;
      continue;
    }
    const TileInfo &from = info(op.operand(i)->type());
    tiles[i] = sharedTile(op.operand(i)->type().dtype(), {&from}, from.longestRun().dim, true);
    bytes += tiles[i].bytes;
  }
  // Threads of layouts that reach past the tile read past it.
  for (unsigned i : {0u, 1u})
    bytes += (to.extent(i) - to.shape[i]) * tiles[i].strides[i];
  llvm::Value *base = bytes > 0 ? sharedScratch(bytes) : nullptr;
  bool isWritten = false;
  for (unsigned i : {0u, 1u}) {
    if (tiles[i].base)
      continue;
    tiles[i].base = base;
    base = b.CreateConstGEP1_64(b.getInt8Ty(), base, uint64_t(tiles[i].bytes));
    writeShared(tiles[i], info(op.operand(i)->type()), registers(op.operand(i)));
    isWritten = true;
  }
  if (isWritten)
    programBarrier();

  // Where this thread's rows of the one and columns of the other begin.
  llvm::Value *begin[2];
  for (unsigned i : {0u, 1u})
    begin[i] = b.CreateGEP(
        b.getInt8Ty(), tiles[i].base,
        b.CreateMul(threadPosition(to.layout, i), b.getInt32(uint32_t(tiles[i].strides[i]))));
  Registers sums = registers(c, to.layout);
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *inside = block("dot"), *after = block("dot.end");
  b.CreateBr(inside);
  b.SetInsertPoint(inside);
  llvm::PHINode *k = b.CreatePHI(b.getInt32Ty(), 2, "k");
  k->addIncoming(b.getInt32(0), before);
  llvm::SmallVector<llvm::PHINode *> carried;
  for (llvm::Value *&sum : sums) {
    llvm::PHINode *phi = b.CreatePHI(sum->getType(), 2);
    phi->addIncoming(sum, before);
    carried.push_back(phi);
    sum = phi;
  }
  int64_t steps = 1;
  while (steps < 4 && depth % (steps * 2) == 0 && int64_t(to.size()) * steps < 128)
    steps *= 2;
  for (int64_t step = 0; step < steps; ++step) {
    std::map<int32_t, llvm::Value *> lines[2];
    auto element = [&](unsigned i, int32_t at) {
      llvm::Value *&known = lines[i][at];
      if (known)
        return known;
      const DType from = tiles[i].dtype;
      llvm::Value *row = b.CreateGEP(b.getInt8Ty(), begin[i],
                                     b.CreateMul(k, b.getInt32(uint32_t(tiles[i].strides[1 - i]))));
      llvm::Value *address = b.CreateConstGEP1_64(
          b.getInt8Ty(), row, uint64_t(step * tiles[i].strides[1 - i] + at * tiles[i].strides[i]));
      known =
          b.CreateAlignedLoad(memoryType(context(), from), address, llvm::Align(dtypeBytes(from)));
      return known = arith_.cast(from, dtype, arith_.fromMemory(from, known));
    };
    for (unsigned slot = 0; slot < to.size(); ++slot) {
      const Layout::Position at = to.at(slot);
      llvm::Value *x = element(0, at[0]), *y = element(1, at[1]);
      if (isFloat(dtype))
        sums[slot] = b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, sums[slot]});
      else
        sums[slot] =
            arith_.binary(OpKind::Add, dtype, sums[slot], arith_.binary(OpKind::Mul, dtype, x, y));
    }
  }
  llvm::Value *next = b.CreateAdd(k, b.getInt32(uint32_t(steps)));
  k->addIncoming(next, b.GetInsertBlock());
  for (auto [phi, sum] : llvm::zip_equal(carried, sums))
    phi->addIncoming(sum, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, b.getInt32(uint32_t(depth))), inside, after);
  b.SetInsertPoint(after);
  sharedRead();
  for (llvm::Value *&sum : sums)
    sum = arith_.round(type.dtype(), sum);
  setRegisters(op.result(), std::move(sums));
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
      : body_(body), b(body.b), op_(op), product_(product) {
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
  void readFirst(CopiedLoop &loop);

private:
  void prepare(unsigned i);
  /// Writes operands that other threads read to shared memory.
  void stage();
  void readStep(int64_t k);
  void keepStep(CopiedLoop &loop);
  void readAhead(CopiedLoop &loop, int64_t k, int64_t next);
  [[nodiscard]] llvm::ArrayRef<llvm::Value *> words(unsigned i, Layout::Position at);
  void readAtom(MatrixOperand &operand, const Layout::Position &at,
                llvm::SmallVectorImpl<llvm::Value *> &words);
  [[nodiscard]] bool loadsSquares(const MatrixOperand &operand) const;
  /// Reads the atom at a position, or that and the next (`apart` positions further).
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 4>
  readSquares(MatrixOperand &operand, const Layout::Position &at, int32_t apart);
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
};

void MatrixLowering::prepare(unsigned i) {
  MatrixOperand &operand = operands_[i];
  ir::Value *tile = op_.operand(i);
  operand.depthDim = i == 0 ? 1 : 0;
  operand.atom = fragment(i == 0 ? product_.fragmentA : product_.fragmentB);
  operand.info = &body_.info(tile->type());
  operand.shared = body_.copiedOperand(tile);
  if (operand.shared) {
    operand.isCopied = true;
    return;
  }
  const Op *convert = tile->definingOp();
  if (!convert || !convert->is(OpKind::Convert) || !body_.isStagedByDot(*convert)) {
    operand.registers = Registers(body_.registers(tile));
    return;
  }
  const TileInfo &from = body_.info(convert->operand(0)->type());
  operand.shared = body_.sharedTile(tile->type().dtype(), {&from, operand.info},
                                    from.longestRun().dim, /*padded=*/true);
  const unsigned lineDim = 1 - operand.depthDim;
  const int64_t past = body_.linesRead(op_, i) - operand.info->extent(lineDim);
  operand.shared->bytes += std::max<int64_t>(0, past) * operand.shared->strides[lineDim];
}

bool MatrixLowering::loadsSquares(const MatrixOperand &operand) const {
  if (!body_.gpu_.device.loadsMatrices())
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
MatrixLowering::readSquares(MatrixOperand &operand, const Layout::Position &at, int32_t apart) {
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
    thread = tile.exchanged(b, thread);
  }
  llvm::Value *address = tile.address(b, operand.thread[apart != 0],
                                      at[0] * tile.strides[0] + at[1] * tile.strides[1]);
  return body_.gpu_.device.loadMatrices(b, address, count, !isAlong);
}

/// Atoms of two squares are read in pairs: the first bit of a register's number behind the atom's
/// that leads across the sum says where the other one is.
int32_t MatrixLowering::pairDistance(const MatrixOperand &operand) const {
  if (operand.atom.registers() / perWord() != 2)
    return 0;
  for (uint32_t index = operand.atom.registers(); index < operand.info->layout.registers();
       index *= 2)
    if (const int32_t distance = operand.info->layout.at(index)[1 - operand.depthDim])
      return distance;
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
    offset += (position[d] + at[d]) * tile.strides[d];
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
  if (!operand.shared || !loadsSquares(operand)) {
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
    return keep(at, readSquares(operand, at, 0));
  const llvm::SmallVector<llvm::Value *, 4> words = readSquares(operand, first, apart);
  keep(first, llvm::ArrayRef(words).take_front(2));
  keep(second, llvm::ArrayRef(words).drop_front(2));
}

llvm::ArrayRef<llvm::Value *> MatrixLowering::words(unsigned i, Layout::Position at) {
  MatrixOperand &operand = operands_[i];
  if (!operand.words.contains(at))
    readWords(i, at);
  return operand.words[at];
}

void MatrixLowering::stage() {
  // What goes through shared memory, side by side.
  int64_t bytes = 0;
  for (MatrixOperand &operand : operands_)
    if (operand.shared && !operand.isCopied)
      bytes += int64_t(llvm::alignTo(operand.shared->bytes, 128));
  if (bytes == 0)
    return;
  isStaged_ = true;
  llvm::Value *base = body_.sharedScratch(bytes);
  int64_t used = 0;
  for (auto [i, operand] : llvm::enumerate(operands_)) {
    if (!operand.shared || operand.isCopied)
      continue;
    operand.shared->base = b.CreateConstGEP1_64(b.getInt8Ty(), base, uint64_t(used));
    used += int64_t(llvm::alignTo(operand.shared->bytes, 128));
    ir::Value *source = op_.operand(unsigned(i))->definingOp()->operand(0);
    body_.writeShared(*operand.shared, body_.info(source->type()), body_.registers(source));
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

void MatrixLowering::keepStep(CopiedLoop &loop) {
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

void MatrixLowering::readFirst(CopiedLoop &loop) {
  readStep(0);
  keepStep(loop);
}

/// The last step comes behind the turn to the next iteration, and each behind the loads of the
/// next: `next` is 0 with the last.
void MatrixLowering::readAhead(CopiedLoop &loop, int64_t k, int64_t next) {
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
      operand.shared = body_.copiedOperand(op_.operand(i));
      for (auto it = operand.words.begin(); it != operand.words.end();)
        it = it->first[operand.depthDim] == k ? std::next(it) : operand.words.erase(it);
    }
  }
  readStep(next);
}

void MatrixLowering::run() {
  stage();
  const ir::Type type = op_.result()->type();
  const TileInfo &to = body_.info(type);
  const Layout atom = fragment(product_.fragmentSum);
  Registers sums = body_.registers(op_.operand(2), to.layout);
  const int64_t depth = op_.operand(0)->type().shape()[1];
  const auto all = unsigned(atoms_.size()) * unsigned(depth / product_.depth);
  CopiedLoop *loop = body_.copiesDuring(op_);
  const bool readsAhead = loop && loop->readsAhead(op_);
  // Copies are on their way before the end.
  const unsigned spread = readsAhead ? all - unsigned(atoms_.size()) : std::max(1u, all * 3 / 4);
  unsigned done = 0;
  for (int64_t k = 0; k < depth; k += product_.depth) {
    if (readsAhead)
      readAhead(*loop, k, (k + product_.depth) % depth);
    else
      for (MatrixOperand &operand : operands_)
        operand.words.clear();
    for (uint32_t first : atoms_) {
      const Layout::Position at = to.layout.at(first);
      llvm::SmallVector<llvm::Value *, 4> some;
      for (unsigned i = 0; i < atom.registers(); ++i) {
        const int32_t slot = to.slots[first + i];
        some.push_back(slot >= 0 ? sums[slot] : body_.arith_.zero(type.dtype()));
      }
      body_.gpu_.device.multiply(b, product_, words(0, {at[0], int32_t(k)}),
                                 words(1, {int32_t(k), at[1]}), some);
      for (unsigned i = 0; i < atom.registers(); ++i)
        if (const int32_t slot = to.slots[first + i]; slot >= 0)
          sums[slot] = some[i];
      if (loop)
        loop->duringProduct(++done, spread);
    }
  }
  if (readsAhead)
    keepStep(*loop);
  if (isStaged_)
    body_.sharedRead();
  body_.setRegisters(op_.result(), std::move(sums));
}

void BodyLowering::readFirstWords(Op &dot) {
  const MatrixProduct *product = findProduct(gpu_.device.facts(), dot);
  MatrixLowering(*this, dot, *product).readFirst(*copiedLoops_.lookup(dot.parentOp()));
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
