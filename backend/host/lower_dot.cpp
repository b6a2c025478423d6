// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tile.dot as a register-blocked product.
//
// A is made dense in the type of the sums (rows of K, or rows of M when it comes transposed). Of B,
// one panel of all K rows and as many columns as a few vector registers hold is packed at a time,
// and all rows of A pass over it while it is in the first-level cache. Sums stay in registers along
// K and are added to the result's buffer, which is the accumulator's (tile_plan.h).
#include "backend/host/lower_body.h"
#include "backend/host/tile_loops.h"

#include "frontend/base/check.h"

#include "llvm/IR/Intrinsics.h"

namespace dtile::backend::host {

using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// A matrix in memory, with rows `ld` elements apart and adjacent columns.
struct Matrix {
  llvm::Value *data;
  llvm::Value *ld;
  DType type;
  int64_t rows, columns;
  /// Rows are the columns of the operand.
  bool transposed;
};

/// The shape of a kernel that runs in registers.
struct Blocking {
  /// Elements of a vector.
  unsigned lanes;
  /// Vectors across a panel.
  unsigned vectors;
  /// Rows of A at a time.
  unsigned rows;

  [[nodiscard]] unsigned columns() const { return lanes * vectors; }
};

/// The largest power of two that divides `size`, up to `limit`.
unsigned powerDividing(int64_t size, unsigned limit) {
  unsigned power = 1;
  while (2 * power <= limit && size % (2 * power) == 0)
    power *= 2;
  return power;
}

Blocking chooseBlocking(const VectorUnit &unit, unsigned elementBytes, int64_t m, int64_t n) {
  Blocking blocking;
  blocking.lanes = powerDividing(n, unit.bytes / elementBytes);
  blocking.vectors = n % (2 * blocking.lanes) == 0 ? 2 : 1;
  // One register for an element of A, and a panel's row.
  const unsigned most = (unit.registers - 1 - blocking.vectors) / blocking.vectors;
  const unsigned limit = std::min(most, 14u);
  blocking.rows = std::min<int64_t>(limit, m);
  // A divisor of M wastes nothing, if it is large enough to hide the latency of the sums.
  for (unsigned rows = blocking.rows; rows * blocking.vectors >= 8 && rows >= 4; --rows)
    if (m % rows == 0) {
      blocking.rows = rows;
      break;
    }
  return blocking;
}

/// Emits one tile.dot.
class DotEmitter {
public:
  DotEmitter(BodyLowering &body, Op &op, DType sumType)
      : body_(body), b(body.builder()), op_(op), sumType_(sumType),
        sum_(computeType(b.getContext(), sumType)), sumBytes_(dtypeBytes(sumType)),
        m_(op.operand(0)->type().shape()[0]), k_(op.operand(0)->type().shape()[1]),
        n_(op.operand(1)->type().shape()[1]),
        blocking_(chooseBlocking(body.host().vectors, sumBytes_, m_, n_)),
        isTf32_(op.has(ir::attr::precision)) {}

  /// Adds the product to the dense m x n array at `sums`.
  void emit(llvm::Value *sums, llvm::function_ref<Matrix(Value *)> matrix);

private:
  [[nodiscard]] llvm::StringRef typeOf(const Matrix &from) const {
    return isTf32_ ? "tf32" : dtypeName(from.type);
  }
  [[nodiscard]] llvm::Value *makeDense(const Matrix &a);
  void multiplyPanels(const Matrix &right);
  void packPanel(const Matrix &from, llvm::Value *panelIndex);
  void packTransposed(const Matrix &from, llvm::Value *panelIndex);
  void multiply(llvm::Value *panelIndex, llvm::Value *firstRow, unsigned rows);
  void step(llvm::Value *k, unsigned unrolled, unsigned rows,
            llvm::MutableArrayRef<llvm::Value *> sums);
  [[nodiscard]] llvm::Value *load(const Matrix &from, llvm::Value *row, llvm::Value *column,
                                  unsigned lanes);
  [[nodiscard]] llvm::Value *at(llvm::Value *base, llvm::Value *index) {
    return b.CreateInBoundsGEP(sum_, base, index);
  }
  [[nodiscard]] llvm::Value *times(llvm::Value *x, int64_t factor) {
    return b.CreateMul(x, b.getInt64(factor));
  }
  [[nodiscard]] llvm::Value *plus(llvm::Value *x, int64_t summand) {
    return summand == 0 ? x : b.CreateAdd(x, b.getInt64(summand));
  }
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 16>
  transpose(llvm::SmallVector<llvm::Value *, 16> rows);

  BodyLowering &body_;
  llvm::IRBuilder<> &b;
  Op &op_;
  DType sumType_;
  llvm::Type *sum_;
  unsigned sumBytes_;
  int64_t m_, k_, n_;
  Blocking blocking_;
  /// Operands are rounded as machines that multiply tf32 do.
  bool isTf32_;
  llvm::Value *sums_ = nullptr;
  llvm::Value *panel_ = nullptr;
  llvm::Value *dense_ = nullptr;
  /// The first of the rows that are being multiplied.
  llvm::Value *aStrip_ = nullptr;
  /// Distances of neighbours in `dense_`.
  int64_t aRow_ = 0, aColumn_ = 0;
};

void DotEmitter::emit(llvm::Value *sums, llvm::function_ref<Matrix(Value *)> matrix) {
  Matrix a = matrix(op_.operand(0));
  Matrix right = matrix(op_.operand(1));
  llvm::Value *dense = makeDense(a);
  llvm::Value *panel = body_.scratch(k_ * blocking_.columns() * sumBytes_);
  aRow_ = a.transposed ? 1 : k_;
  aColumn_ = a.transposed ? m_ : 1;
  std::string name;
  llvm::raw_string_ostream(name) << "dtile.dot." << dtypeName(sumType_) << "." << m_ << "x" << k_
                                 << (a.transposed ? "t" : "") << "." << typeOf(right) << "." << k_
                                 << "x" << n_ << (right.transposed ? "t" : "");
  llvm::Type *p = b.getPtrTy();
  auto *type = llvm::FunctionType::get(b.getVoidTy(), {p, p, p, b.getInt64Ty(), p}, false);
  llvm::Function *product = body_.host().shared(b, name, type, [&](llvm::Function *function) {
    for (unsigned i : {0, 1, 4})
      function->getArg(i)->addAttr(llvm::Attribute::NoAlias);
    sums_ = function->getArg(0);
    dense_ = function->getArg(1);
    Matrix from = right;
    from.data = function->getArg(2);
    from.ld = function->getArg(3);
    panel_ = function->getArg(4);
    multiplyPanels(from);
  });
  b.CreateCall(product, {sums, dense, right.data, right.ld, panel});
}

void DotEmitter::multiplyPanels(const Matrix &right) {
  body_.loop(b.getInt64(n_ / blocking_.columns()), "panels", [&](llvm::Value *panel) {
    if (right.transposed)
      packTransposed(right, panel);
    else
      packPanel(right, panel);
    const int64_t whole = m_ / blocking_.rows;
    body_.loop(b.getInt64(whole), "strips", [&](llvm::Value *strip) {
      multiply(panel, times(strip, blocking_.rows), blocking_.rows);
    });
    if (m_ % blocking_.rows != 0)
      multiply(panel, b.getInt64(whole * blocking_.rows), m_ % blocking_.rows);
  });
}

/// Elements of a matrix in the type of the sums.
llvm::Value *DotEmitter::load(const Matrix &from, llvm::Value *row, llvm::Value *column,
                              unsigned lanes) {
  llvm::Type *element = memoryType(b.getContext(), from.type);
  llvm::Value *offset = b.CreateAdd(b.CreateMul(row, from.ld), column);
  llvm::Value *memory =
      b.CreateAlignedLoad(laneType(element, lanes), b.CreateGEP(element, from.data, offset),
                          llvm::Align(dtypeBytes(from.type)));
  Arith &arith = body_.arith();
  llvm::Value *value = arith.cast(from.type, sumType_, arith.fromMemory(from.type, memory));
  return isTf32_ ? arith.roundToTf32(value) : value;
}

llvm::Value *DotEmitter::makeDense(const Matrix &a) {
  auto *known = llvm::dyn_cast<llvm::ConstantInt>(a.ld);
  if (!isTf32_ && a.type == sumType_ && known && known->getSExtValue() == a.columns)
    return a.data;
  llvm::Value *dense = body_.scratch(a.rows * a.columns * sumBytes_);
  std::string name;
  llvm::raw_string_ostream(name) << "dtile.dense." << dtypeName(sumType_) << "." << typeOf(a) << "."
                                 << a.rows << "x" << a.columns;
  llvm::Type *p = b.getPtrTy();
  auto *type = llvm::FunctionType::get(b.getVoidTy(), {p, p, b.getInt64Ty()}, false);
  llvm::Function *copy = body_.host().shared(b, name, type, [&](llvm::Function *function) {
    function->getArg(0)->addAttr(llvm::Attribute::NoAlias);
    Matrix from = a;
    from.data = function->getArg(1);
    from.ld = function->getArg(2);
    const unsigned lanes = powerDividing(a.columns, 16);
    body_.loop(b.getInt64(a.rows), "dense", [&](llvm::Value *row) {
      body_.loop(b.getInt64(a.columns / lanes), "dense.row", [&](llvm::Value *step) {
        llvm::Value *column = times(step, lanes);
        llvm::Value *place = at(function->getArg(0), b.CreateAdd(times(row, a.columns), column));
        b.CreateAlignedStore(load(from, row, column, lanes), place, llvm::Align(sumBytes_));
      });
    });
  });
  b.CreateCall(copy, {dense, a.data, a.ld});
  return dense;
}

void DotEmitter::packPanel(const Matrix &from, llvm::Value *panelIndex) {
  llvm::Value *first = times(panelIndex, blocking_.columns());
  body_.loop(b.getInt64(k_), "pack", [&](llvm::Value *k) {
    for (unsigned v = 0; v < blocking_.vectors; ++v) {
      llvm::Value *part = load(from, k, plus(first, v * blocking_.lanes), blocking_.lanes);
      llvm::Value *place = at(panel_, plus(times(k, blocking_.columns()), v * blocking_.lanes));
      b.CreateAlignedStore(part, place, llvm::Align(sumBytes_));
    }
  });
}

/// Rows become columns, by halves: blocks of `width` swap their off-diagonal neighbours.
llvm::SmallVector<llvm::Value *, 16>
DotEmitter::transpose(llvm::SmallVector<llvm::Value *, 16> rows) {
  const unsigned n = rows.size();
  for (unsigned width = n / 2; width > 0; width /= 2) {
    llvm::SmallVector<llvm::Value *, 16> next(n);
    llvm::SmallVector<int, 16> upper, lower;
    for (unsigned lane = 0; lane < n; ++lane) {
      const bool right = (lane & width) != 0;
      upper.push_back(int(right ? n + lane - width : lane));
      lower.push_back(int(right ? n + lane : lane + width));
    }
    for (unsigned r = 0; r < n; ++r) {
      if (r & width)
        continue;
      next[r] = b.CreateShuffleVector(rows[r], rows[r + width], upper);
      next[r + width] = b.CreateShuffleVector(rows[r], rows[r + width], lower);
    }
    rows = next;
  }
  return rows;
}

void DotEmitter::packTransposed(const Matrix &from, llvm::Value *panelIndex) {
  const unsigned columns = blocking_.columns();
  const unsigned size = std::min(blocking_.lanes, powerDividing(k_, blocking_.lanes));
  llvm::Value *first = times(panelIndex, columns);
  body_.loop(b.getInt64(columns / size), "pack", [&](llvm::Value *columnBlock) {
    llvm::Value *column = times(columnBlock, size);
    body_.loop(b.getInt64(k_ / size), "pack.row", [&](llvm::Value *rowBlock) {
      llvm::Value *k = times(rowBlock, size);
      llvm::SmallVector<llvm::Value *, 16> rows;
      for (unsigned i = 0; i < size; ++i)
        rows.push_back(load(from, plus(b.CreateAdd(first, column), i), k, size));
      if (size > 1)
        rows = transpose(rows);
      for (unsigned i = 0; i < size; ++i) {
        llvm::Value *place = at(panel_, b.CreateAdd(times(plus(k, i), columns), column));
        b.CreateAlignedStore(rows[i], place, llvm::Align(sumBytes_));
      }
    });
  });
}

/// One row of the panel, times one element of each row of A.
void DotEmitter::step(llvm::Value *k, unsigned unrolled, unsigned rows,
                      llvm::MutableArrayRef<llvm::Value *> sums) {
  const unsigned vectors = blocking_.vectors;
  const unsigned lanes = blocking_.lanes;
  llvm::Type *vector = laneType(sum_, lanes);
  llvm::SmallVector<llvm::Value *, 4> right;
  for (unsigned v = 0; v < vectors; ++v) {
    llvm::Value *place =
        at(panel_, plus(times(k, blocking_.columns()), unrolled * blocking_.columns() + v * lanes));
    right.push_back(b.CreateAlignedLoad(vector, place, llvm::Align(sumBytes_)));
  }
  for (unsigned r = 0; r < rows; ++r) {
    llvm::Value *offset = plus(times(k, aColumn_), unrolled * aColumn_ + r * aRow_);
    llvm::Value *left = b.CreateAlignedLoad(sum_, at(aStrip_, offset), llvm::Align(sumBytes_));
    left = body_.arith().broadcast(left, lanes);
    for (unsigned v = 0; v < vectors; ++v) {
      llvm::Value *&sum = sums[r * vectors + v];
      if (isFloat(sumType_))
        sum = b.CreateIntrinsic(llvm::Intrinsic::fmuladd, {vector}, {left, right[v], sum});
      else
        sum = b.CreateAdd(sum, b.CreateMul(left, right[v]));
    }
  }
}

void DotEmitter::multiply(llvm::Value *panelIndex, llvm::Value *firstRow, unsigned rows) {
  const unsigned vectors = blocking_.vectors;
  llvm::Type *vector = laneType(sum_, blocking_.lanes);
  aStrip_ = at(dense_, times(firstRow, aRow_));
  llvm::Value *corner =
      at(sums_, b.CreateAdd(times(firstRow, n_), times(panelIndex, blocking_.columns())));
  llvm::SmallVector<llvm::Value *, 32> places;
  llvm::SmallVector<llvm::Value *, 32> sums;
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned v = 0; v < vectors; ++v) {
      places.push_back(at(corner, b.getInt64(r * n_ + v * blocking_.lanes)));
      sums.push_back(b.CreateAlignedLoad(vector, places.back(), llvm::Align(sumBytes_)));
    }

  const unsigned unroll = powerDividing(k_, 4);
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *inside = body_.block("multiply");
  llvm::BasicBlock *after = body_.block("multiply.end");
  b.CreateBr(inside);
  b.SetInsertPoint(inside);
  llvm::PHINode *k = b.CreatePHI(b.getInt64Ty(), 2);
  k->addIncoming(b.getInt64(0), before);
  llvm::SmallVector<llvm::PHINode *, 32> state;
  for (llvm::Value *&sum : sums) {
    state.push_back(b.CreatePHI(vector, 2));
    state.back()->addIncoming(sum, before);
    sum = state.back();
  }
  for (unsigned u = 0; u < unroll; ++u)
    step(k, u, rows, sums);
  llvm::Value *next = b.CreateNSWAdd(k, b.getInt64(unroll));
  k->addIncoming(next, inside);
  for (auto [phi, sum] : llvm::zip_equal(state, sums))
    phi->addIncoming(sum, inside);
  llvm::Instruction *branch = b.CreateCondBr(b.CreateICmpSLT(next, b.getInt64(k_)), inside, after);
  // Unrolled as far as registers and the decoder like it.
  llvm::MDNode *disable = llvm::MDNode::get(
      b.getContext(), llvm::MDString::get(b.getContext(), "llvm.loop.unroll.disable"));
  llvm::MDNode *loop = llvm::MDNode::getDistinct(b.getContext(), {nullptr, disable});
  loop->replaceOperandWith(0, loop);
  branch->setMetadata(llvm::LLVMContext::MD_loop, loop);
  b.SetInsertPoint(after);
  for (auto [place, sum] : llvm::zip_equal(places, sums))
    b.CreateAlignedStore(sum, place, llvm::Align(sumBytes_));
}

/// The load from which a tile is computed in place, past a transposition.
Value *behindTranspose(const TilePlan &plan, Value *tile, bool &transposed) {
  Op *op = tile->definingOp();
  if (!plan.isInlined(tile) || !op || !op->is(OpKind::Trans) || op->get(ir::attr::perm)[0] != 1)
    return tile;
  transposed = !transposed;
  return behindTranspose(plan, op->operand(0), transposed);
}

} // namespace

void BodyLowering::lowerDot(Op &op) {
  Value *result = op.result();
  const DType type = result->type().dtype();
  const DType sumType = accumulatorType(type);
  beforeWrite(result);
  llvm::Value *sums = buffer(result);
  if (sumType != type)
    sums = scratch(result->type().elements() * dtypeBytes(sumType));
  if (sumType != type || !plan_.sameBuffer(op.operand(2), result))
    materialize(op.operand(2), sums, sumType);

  auto matrix = [&](Value *operand) -> Matrix {
    bool transposed = false;
    Value *tile = behindTranspose(plan_, operand, transposed);
    llvm::ArrayRef<int64_t> shape = tile->type().shape();
    Matrix m{nullptr, b.getInt64(shape[1]), tile->type().dtype(), shape[0], shape[1], transposed};
    Op *load = tile->definingOp();
    if (!plan_.isInlined(tile) || !load || !load->is(OpKind::Load)) {
      m.data = address(tile);
      return m;
    }
    // Read where it is when all of it exists, in rows; else from a copy with zeros.
    View source = view(load->operand(0));
    llvm::Value *direct = b.CreateAnd(views_.containsBox(source, shape),
                                      b.CreateICmpEQ(source.dims[1].stride, b.getInt64(1)));
    llvm::Value *copy = scratch(tileBytes(tile->type()));
    when(b.CreateNot(direct), "edge", [&] { materialize(tile, copy); });
    m.data = b.CreateSelect(direct, source.data, copy);
    m.ld = b.CreateSelect(direct, source.dims[0].stride, m.ld);
    return m;
  };
  DotEmitter(*this, op, sumType).emit(sums, matrix);
  if (sumType == type)
    return;
  // Sums that were kept wider are rounded once.
  const int64_t elements = result->type().elements();
  const unsigned lanes = powerDividing(elements, 16);
  loop(b.getInt64(elements / lanes), "round", [&](llvm::Value *i) {
    llvm::Value *first = b.CreateMul(i, b.getInt64(lanes));
    llvm::Type *wide = memoryType(context(), sumType);
    llvm::Type *narrow = memoryType(context(), type);
    llvm::Value *sum = b.CreateAlignedLoad(laneType(wide, lanes), b.CreateGEP(wide, sums, first),
                                           llvm::Align(dtypeBytes(sumType)));
    b.CreateAlignedStore(arith_.toMemory(type, arith_.round(type, sum)),
                         b.CreateGEP(narrow, buffer(result), first), llvm::Align(dtypeBytes(type)));
  });
}

} // namespace dtile::backend::host
