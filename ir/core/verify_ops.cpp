// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier's rules for one op by itself: how its types agree and what its attributes may say.
// Rules about an op's surroundings are in verifier.cpp.
#include "ir/core/op_classes.h"
#include "ir/core/op_rows.h"

#include "ir/core/tile_order.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace dtile::ir {

namespace {

using llvm::StringRef;

std::string isNot(StringRef what, Type is, StringRef wanted) {
  return (what + " is " + is.str() + ", not " + wanted).str();
}

/// "1 operand", "2 operands".
std::string count(size_t n, StringRef what) {
  return std::to_string(n) + " " + what.str() + (n == 1 ? "" : "s");
}

std::string isNot(StringRef what, Type is, Type wanted) { return isNot(what, is, wanted.str()); }

bool isOneOf(StringRef word, StringRef words) {
  llvm::SmallVector<StringRef, 8> list;
  words.split(list, ' ');
  return llvm::is_contained(list, word);
}

std::string checkWord(const Op &op, AttrKey<std::string> key, StringRef words) {
  if (isOneOf(op.get(key), words))
    return "";
  return ("attribute `" + key.name + "` is \"" + op.get(key) + "\", not one of " + words).str();
}

/// `dim`, `axis` and the like.
std::string checkDimension(const Op &op, AttrKey<int64_t> key, unsigned rank) {
  const int64_t dim = op.get(key);
  if (dim >= 0 && dim < int64_t(rank))
    return "";
  return ("attribute `" + key.name + "` is " + llvm::Twine(dim) + ", and the operand has " +
          count(rank, "dimension"))
      .str();
}

std::string checkResult(const Op &op, Type wanted) {
  if (op.result()->type() == wanted)
    return "";
  return isNot("result", op.result()->type(), wanted);
}

bool isBool(Type type) { return !type.isIndex() && type.dtype() == DType::Bool; }
bool isFloatLike(Type type) { return !type.isIndex() && isFloat(type.dtype()); }
/// Whether a type is one element of a dtype; a single i64 is an index.
bool isElement(Type type, DType dtype) {
  return (type.isIndex() || type.isScalar()) && type.elementOrIndex() == dtype;
}
bool isIntegral(Type type) { return type.isIndex() || isInteger(type.dtype()); }

// Elementwise.

std::string sameOperands(const Op &op, unsigned from = 0) {
  for (unsigned i = from + 1; i < op.numOperands(); ++i)
    if (op.operand(i)->type() != op.operand(from)->type())
      return isNot("operand " + std::to_string(i), op.operand(i)->type(),
                   op.operand(from)->type().str() + " like operand " + std::to_string(from));
  return "";
}

std::string checkNumber(const Op &op) {
  if (isBool(op.operand(0)->type()))
    return isNot("operand 0", op.operand(0)->type(), "a number");
  return sameOperands(op);
}

std::string checkFloat(const Op &op) {
  if (!isFloatLike(op.operand(0)->type()))
    return isNot("operand 0", op.operand(0)->type(), "a float");
  return sameOperands(op);
}

std::string checkBits(const Op &op, bool allowsBool) {
  const Type type = op.operand(0)->type();
  if (!isIntegral(type) && !(allowsBool && isBool(type)))
    return isNot("operand 0", type, allowsBool ? "an integer or bool" : "an integer");
  return sameOperands(op);
}

/// Whether the element type keeps all bits of an integer; a u64 is written as the i64 of its bits.
bool isInRange(DType dtype, int64_t value) {
  alignas(8) char element[8] = {};
  storeFromInt(dtype, element, value);
  return loadAsInt(dtype, element) == value;
}

// The attribute `key` is a value of the result's type.
std::string checkValueOfResult(const Op &op, llvm::StringRef key) {
  const Type type = op.result()->type();
  const Attr &value = *op.attr(key);
  const auto *integer = std::get_if<int64_t>(&value);
  bool fits = false;
  if (isBool(type))
    fits = std::holds_alternative<bool>(value);
  else if (isFloatLike(type))
    fits = std::holds_alternative<double>(value);
  else
    fits = integer && isInRange(type.elementOrIndex(), *integer);
  return fits ? "" : "attribute `" + key.str() + "` does not fit " + type.str();
}

std::string checkConst(const Op &op) {
  const Type type = op.result()->type();
  if (!type.isIndex() && !type.isScalar())
    return isNot("result", type, "an index or scalar");
  return checkValueOfResult(op, "value");
}

bool hasShapeOf(Type type, Type like) {
  return type.isTile() == like.isTile() && (!type.isTile() || type.shape() == like.shape());
}

std::string checkCmp(const Op &op) {
  if (std::string problem = checkWord(op, attr::pred, "eq ne lt le gt ge"); !problem.empty())
    return problem;
  const Type result = op.result()->type();
  const bool isValue = result.isScalar() || result.isTile();
  if (!isValue || !isBool(result) || !hasShapeOf(result, op.operand(0)->type()))
    return isNot("result", result, "bool in the shape of operand 0");
  return sameOperands(op);
}

std::string checkSelect(const Op &op) {
  const Type condition = op.operand(0)->type();
  if (!isBool(condition))
    return isNot("operand 0", condition, "bool");
  if (condition.isTile() && !hasShapeOf(condition, op.operand(1)->type()))
    return isNot("operand 0", condition, "bool, or a tile of bool in the shape of operand 1");
  if (std::string problem = sameOperands(op, 1); !problem.empty())
    return problem;
  return checkResult(op, op.operand(1)->type());
}

std::string checkCast(const Op &op) {
  const Type from = op.operand(0)->type(), to = op.result()->type();
  if (!to.isIndex() && !to.isScalar() && !to.isTile())
    return isNot("result", to, "an index, scalar or tile");
  return hasShapeOf(to, from) ? "" : isNot("result", to, "of the shape of " + from.str());
}

std::string checkBitcast(const Op &op) {
  const Type from = op.operand(0)->type(), to = op.result()->type();
  if (std::string problem = checkCast(op); !problem.empty())
    return problem;
  const DType given = from.elementOrIndex(), wanted = to.elementOrIndex();
  if (given == DType::Bool)
    return isNot("operand 0", from, "of numbers");
  if (wanted == DType::Bool || dtypeBits(given) != dtypeBits(wanted))
    return isNot("result", to, "of numbers of " + std::to_string(dtypeBits(given)) + " bits");
  return "";
}

// Tiles.

std::string checkTileResult(const Op &op) {
  if (!op.result()->type().isTile())
    return isNot("result", op.result()->type(), "a tile");
  return "";
}

std::string checkSplat(const Op &op) {
  if (std::string problem = checkTileResult(op); !problem.empty())
    return problem;
  const Type from = op.operand(0)->type(), to = op.result()->type();
  if (from.isTile() || from.elementOrIndex() != to.dtype())
    return isNot("operand 0", from, "a " + dtypeName(to.dtype()).str());
  return "";
}

std::string checkIota(const Op &op) {
  const Type type = op.result()->type();
  if (!type.isTile() || type.rank() != 1 || !isInteger(type.dtype()))
    return isNot("result", type, "a tile of integers with one dimension");
  return "";
}

std::string checkBroadcast(const Op &op) {
  if (std::string problem = checkTileResult(op); !problem.empty())
    return problem;
  const Type from = op.operand(0)->type(), to = op.result()->type();
  bool fits = from.rank() == to.rank() && from.dtype() == to.dtype();
  for (unsigned i = 0; fits && i < from.rank(); ++i)
    fits = from.shape()[i] == to.shape()[i] || from.shape()[i] == 1;
  return fits ? "" : isNot("result", to, "a broadcast of " + from.str());
}

std::string checkReshape(const Op &op) {
  if (std::string problem = checkTileResult(op); !problem.empty())
    return problem;
  const Type from = op.operand(0)->type(), to = op.result()->type();
  const bool fits = from.elements() == to.elements() && from.dtype() == to.dtype();
  return fits ? "" : isNot("result", to, "the elements of " + from.str());
}

std::string checkTrans(const Op &op) {
  if (std::string problem = checkTileResult(op); !problem.empty())
    return problem;
  const Type from = op.operand(0)->type(), to = op.result()->type();
  const llvm::ArrayRef<int64_t> perm = op.get(attr::perm);
  llvm::SmallVector<bool, 4> seen(from.rank(), false);
  for (const int64_t dim : perm) {
    if (dim < 0 || dim >= int64_t(from.rank()) || seen[dim])
      return "attribute `perm` is not a permutation of the dimensions";
    seen[dim] = true;
  }
  if (perm.size() != from.rank())
    return "attribute `perm` is not a permutation of the dimensions";
  bool fits = to.rank() == from.rank() && to.dtype() == from.dtype();
  for (unsigned i = 0; fits && i < from.rank(); ++i)
    fits = to.shape()[i] == from.shape()[perm[i]];
  return fits ? "" : isNot("result", to, "operand 0 permuted");
}

std::string checkConvert(const Op &op) {
  const Type from = op.operand(0)->type(), to = op.result()->type();
  const bool fits = to.isTile() && hasShapeOf(to, from) && to.dtype() == from.dtype();
  return fits ? "" : isNot("result", to, from.str() + " in some layout");
}

/// Whether `to` is `from` without dimension `axis` and with element type `dtype`.
bool isReduced(Type from, int64_t axis, DType dtype, Type to) {
  if (from.rank() == 1)
    return isElement(to, dtype);
  if (!to.isTile() || to.dtype() != dtype)
    return false;
  llvm::SmallVector<int64_t, 4> shape(from.shape());
  shape.erase(shape.begin() + axis);
  return to.shape() == llvm::ArrayRef(shape);
}

std::string checkReduce(const Op &op) {
  const Type from = op.operand(0)->type();
  if (std::string problem = checkWord(op, attr::kind, "sum max min prod any all"); !problem.empty())
    return problem;
  if (std::string problem = checkDimension(op, attr::axis, from.rank()); !problem.empty())
    return problem;
  if (isOneOf(op.get(attr::kind), "any all") != isBool(from))
    return isNot("operand 0", from, isBool(from) ? "of numbers" : "of bool");
  if (!isReduced(from, op.get(attr::axis), from.dtype(), op.result()->type()))
    return isNot("result", op.result()->type(), "operand 0 without the axis");
  return "";
}

std::string checkArgReduce(const Op &op) {
  const Type from = op.operand(0)->type();
  if (std::string problem = checkWord(op, attr::kind, "max min"); !problem.empty())
    return problem;
  if (std::string problem = checkDimension(op, attr::axis, from.rank()); !problem.empty())
    return problem;
  if (isBool(from))
    return isNot("operand 0", from, "of numbers");
  if (!isReduced(from, op.get(attr::axis), DType::I32, op.result()->type()))
    return isNot("result", op.result()->type(), "i32 in the shape of operand 0 without the axis");
  return "";
}

std::string checkScan(const Op &op) {
  if (std::string problem = checkWord(op, attr::kind, "sum max"); !problem.empty())
    return problem;
  if (isBool(op.operand(0)->type()))
    return isNot("operand 0", op.operand(0)->type(), "of numbers");
  return checkDimension(op, attr::axis, op.operand(0)->type().rank());
}

std::string checkTake(const Op &op) {
  const Type tile = op.operand(0)->type(), index = op.operand(1)->type();
  if (std::string problem = checkDimension(op, attr::axis, tile.rank()); !problem.empty())
    return problem;
  if (!isInteger(index.dtype()) || dtypeBytes(index.dtype()) < kLeastPositionBytes)
    return isNot("operand 1", index, "a tile of integers of 32 or 64 bits");
  llvm::SmallVector<int64_t, 4> taken(index.shape());
  if (taken.size() == tile.rank())
    taken[size_t(op.get(attr::axis))] = tile.shape()[size_t(op.get(attr::axis))];
  if (llvm::ArrayRef<int64_t>(taken) != tile.shape())
    return "operand 1 is of other sizes than operand 0 in a dimension that is not `axis`";
  const Type result = op.result()->type();
  if (!result.isTile() || result.shape() != index.shape() || result.dtype() != tile.dtype())
    return "result is " + result.str() + ", not elements of operand 0 in the shape of operand 1";
  return "";
}

std::string checkDot(const Op &op) {
  const Type a = op.operand(0)->type(), b = op.operand(1)->type(), c = op.operand(2)->type();
  if (a.rank() != 2 || b.rank() != 2 || c.rank() != 2)
    return "operands are not three tiles of two dimensions";
  if (a.shape()[1] != b.shape()[0] || a.shape()[0] != c.shape()[0] || b.shape()[1] != c.shape()[1])
    return "operands " + a.str() + ", " + b.str() + " and " + c.str() + " are not MxK, KxN and MxN";
  if (isBool(a) || dtypeClass(a.dtype()) != dtypeClass(b.dtype()) ||
      dtypeClass(a.dtype()) != dtypeClass(c.dtype()))
    return "operands " + a.str() + ", " + b.str() + " and " + c.str() +
           " are not all floats or all integers of one signedness";
  if (op.has(attr::precision)) {
    if (std::string problem = checkWord(op, attr::precision, "tf32"); !problem.empty())
      return problem;
    if (a.dtype() != DType::F32 || b.dtype() != DType::F32 || c.dtype() != DType::F32)
      return "attribute `precision` is for f32, and operands are " + a.str() + ", " + b.str() +
             " and " + c.str();
  }
  return checkResult(op, c);
}

// Views and signals.

/// Counts the letters of `dims`; false when there are others.
bool countDims(StringRef dims, unsigned &positions, unsigned &ranges, unsigned &wholes) {
  positions = dims.count('i');
  ranges = dims.count('r');
  wholes = dims.count('a');
  return positions + ranges + wholes == dims.size();
}

std::string checkSlice(const Op &op, TypeKind kind) {
  const Type from = op.operand(0)->type(), to = op.result()->type();
  const StringRef dims = op.get(attr::dims);
  unsigned positions = 0, ranges = 0, wholes = 0;
  if (!countDims(dims, positions, ranges, wholes))
    return ("attribute `dims` is \"" + dims + "\", not made of i, r and a").str();
  if (dims.size() != from.rank())
    return ("attribute `dims` is \"" + dims + "\", but " + from.str() + " has " +
            count(from.rank(), "dimension"))
        .str();
  const unsigned wanted = 1 + positions + 2 * ranges;
  if (op.numOperands() != wanted)
    return "has " + count(op.numOperands(), "operand") + ", and `dims` asks for " +
           std::to_string(wanted);
  if (to.kind() != kind || to.rank() != ranges + wholes || to.isRemote() != from.isRemote() ||
      (kind == TypeKind::View && to.dtype() != from.dtype()))
    return isNot("result", to,
                 "a part of " + from.str() + " with " + count(ranges + wholes, "dimension"));
  return "";
}

std::string checkViewTile(const Op &op) {
  if (std::string problem = checkSlice(op, TypeKind::View); !problem.empty())
    return problem;
  const llvm::ArrayRef<int64_t> lens = op.get(attr::lens);
  if (lens.size() != op.get(attr::dims).count('r'))
    return "attribute `lens` has not one length for each `r` of `dims`";
  if (llvm::any_of(lens, [](int64_t len) { return len <= 0 || len > kMaxTileElements; }))
    return "attribute `lens` has a length that no tile has";
  return "";
}

std::string checkViewSelect(const Op &op) {
  const Type condition = op.operand(0)->type();
  const Type a = op.operand(1)->type(), b = op.operand(2)->type();
  if (!condition.isScalar() || !isBool(condition))
    return isNot("operand 0", condition, "a bool");
  if (a != b)
    return isNot("operand 2", b, a);
  if (a.isRemote())
    return isNot("operand 1", a, "a view of this rank");
  return checkResult(op, a);
}

std::string checkAt(const Op &op) {
  const Type from = op.operand(0)->type(), to = op.result()->type();
  const bool fits = to.kind() == from.kind() && to.rank() == from.rank() && to.isRemote() &&
                    (from.isSignal() || to.dtype() == from.dtype());
  if (!fits)
    return isNot("result", to, "the remote form of " + from.str());
  const size_t axes = op.has(attr::axes) ? op.get(attr::axes).size() : 0;
  const bool isCounted = op.numOperands() == 2 + 2 * axes;
  return isCounted ? "" : "needs a coordinate and a size for each of its axes";
}

std::string checkViewReshape(const Op &op) {
  const Type from = op.operand(0)->type(), to = op.result()->type();
  const bool fits = to.isView() && to.dtype() == from.dtype() &&
                    to.rank() == op.numOperands() - 1 && to.isRemote() == from.isRemote();
  return fits ? "" : isNot("result", to, "a view of the elements with one dimension a size");
}

// Memory.

/// Whether a scalar or tile has the element type and rank of a view.
bool fitsView(Type value, Type view) {
  if (!value.isTile())
    return view.rank() == 0 && isElement(value, view.dtype());
  return value.rank() == view.rank() && value.dtype() == view.dtype();
}

std::string checkLoad(const Op &op) {
  const Type view = op.operand(0)->type(), to = op.result()->type();
  if (!fitsView(to, view))
    return isNot("result", to, "what " + view.str() + " holds");
  const bool isRow = !op.has(attr::row_buffer) || op.get(attr::row_buffer).size() == 3;
  return isRow ? "" : "attribute `row_buffer` is not a buffer, a dimension and a number of tiles";
}

std::string checkStore(const Op &op) {
  const Type value = op.operand(0)->type(), view = op.operand(1)->type();
  return fitsView(value, view) ? "" : isNot("operand 0", value, "what " + view.str() + " holds");
}

/// Operands of gather, scatter and atomic: `fixed` ones, then `values` more, then `ntok` tokens.
std::string checkTrailingTokens(const Op &op, unsigned fixed, unsigned values) {
  const int64_t tokens = op.getOr(attr::ntok, 0);
  if (tokens < 0 || tokens > op.numOperands() ||
      op.numOperands() != fixed + values + uint64_t(tokens))
    return "has " + count(op.numOperands(), "operand") + ", not " + std::to_string(fixed + values) +
           " and the " + count(size_t(tokens), "token") + " of `ntok`";
  for (unsigned i = fixed + values; i < op.numOperands(); ++i)
    if (const Type type = op.operand(i)->type(); !type.isToken() && !type.isAcquire())
      return isNot("operand " + std::to_string(i), type, "a token or acquire");
  return "";
}

std::string checkIndexTiles(const Op &op, unsigned first, Type view, Type value) {
  if (!value.isTile() || value.dtype() != view.dtype())
    return isNot("value", value, "a tile of " + dtypeName(view.dtype()).str());
  if (view.rank() == 0)
    return "view has no dimension to index";
  if (std::string problem = checkTrailingTokens(op, first, view.rank()); !problem.empty())
    return problem;
  for (unsigned i = first; i < first + view.rank(); ++i)
    if (const Type type = op.operand(i)->type();
        !type.isTile() || !isInteger(type.dtype()) || type.shape() != value.shape())
      return isNot("operand " + std::to_string(i), type,
                   "a tile of integers in the shape of " + value.str());
  return "";
}

/// A gather of rows: one index tile, for the first dimension.
std::string checkRows(const Op &op) {
  const Type view = op.operand(0)->type(), value = op.result()->type();
  if (!value.isTile() || value.dtype() != view.dtype() || value.rank() != view.rank())
    return isNot("result", value,
                 "a tile of " + dtypeName(view.dtype()).str() + " of as many dimensions as " +
                     view.str());
  if (std::string problem = checkTrailingTokens(op, 1, 1); !problem.empty())
    return problem;
  if (view.isRemote())
    return isNot("operand 0", view, "a view of this rank");
  const Type rows = op.operand(1)->type();
  if (!rows.isTile() || !isInteger(rows.dtype()) || rows.rank() != 1 ||
      rows.shape()[0] != value.shape()[0])
    return isNot("operand 1", rows, "a tile of integers, one for each row of " + value.str());
  return "";
}

std::string checkAtomicScatter(const Op &op) {
  if (std::string problem = checkWord(op, attr::kind, "add min max and or exch cas");
      !problem.empty())
    return problem;
  const Type value = op.operand(1)->type();
  if (op.get(attr::kind) == "cas" && (op.numOperands() < 3 || op.operand(2)->type() != value))
    return "has no desired tile of the type of the expected one";
  if (op.result()->type() != value)
    return isNot("result", op.result()->type(), value.str());
  return checkIndexTiles(op, firstIndexTile(op), op.operand(0)->type(), value);
}

std::string checkAtomic(const Op &op) {
  if (std::string problem = checkWord(op, attr::kind, "add min max and or exch cas");
      !problem.empty())
    return problem;
  const Type view = op.operand(0)->type();
  if (view.rank() != 0)
    return isNot("operand 0", view, "a view of one element");
  const unsigned values = op.get(attr::kind) == "cas" ? 2 : 1;
  if (std::string problem = checkTrailingTokens(op, 1, values); !problem.empty())
    return problem;
  for (unsigned i = 1; i <= values; ++i)
    if (const Type type = op.operand(i)->type(); !isElement(type, view.dtype()))
      return isNot("operand " + std::to_string(i), type, dtypeName(view.dtype()));
  if (isOneOf(op.get(attr::kind), "and or") && isFloat(view.dtype()))
    return isNot("operand 0", view, "of integers or bool");
  const Type result = op.result()->type();
  if (!isElement(result, view.dtype()))
    return isNot("result", result, dtypeName(view.dtype()));
  return "";
}

// Communication.

std::string checkPut(const Op &op) {
  const Type from = op.operand(0)->type(), to = op.operand(1)->type();
  if (from.isView() ? from.rank() == to.rank() && from.dtype() == to.dtype() : fitsView(from, to))
    return "";
  return isNot("operand 0", from, "what " + to.str() + " holds");
}

std::string checkGet(const Op &op) {
  const Type from = op.operand(0)->type(), to = op.operand(1)->type();
  if (to.isRemote())
    return isNot("operand 1", to, "local");
  if (from.rank() == to.rank() && from.dtype() == to.dtype())
    return "";
  return isNot("operand 1", to, "as " + from.str() + " in rank and element");
}

std::string checkReduceAdd(const Op &op) {
  const Type value = op.operand(0)->type();
  if (isBool(value))
    return isNot("operand 0", value, "a number");
  return checkStore(op);
}

std::string checkWait(const Op &op) {
  if (op.operand(0)->type().isRemote())
    return isNot("operand 0", op.operand(0)->type(), "local");
  return "";
}

std::string checkTokenJoin(const Op &op) {
  const bool isLinear = op.numOperands() == 0 || llvm::any_of(op.operands(), [](const Value *v) {
                          return v->type().isToken();
                        });
  const Type result = op.result()->type();
  if (isLinear ? result.isToken() : result.isAcquire())
    return "";
  return isNot("result", result, isLinear ? "token" : "acquire");
}

// Control and kernels.

std::string checkCondition(const Op &op) {
  const Type type = op.operand(0)->type();
  if (type.isScalar() && isBool(type))
    return "";
  return isNot("operand 0", type, "bool");
}

std::string checkPrint(const Op &op) {
  if (op.numOperands() > 1)
    return "has more than one value";
  if (op.numOperands() == 0)
    return "";
  const Type type = op.operand(0)->type();
  if (type.isScalar() || type.isIndex() || type.isTile())
    return "";
  return isNot("operand 0", type, "a scalar or tile");
}

/// Descriptors of kernels hold these in 32 bits.
std::string checkPositive(const Op &op, AttrKey<int64_t> key) {
  const int64_t value = op.getOr(key, 1);
  if (value < 1)
    return ("attribute `" + key.name + "` is less than 1").str();
  if (value > INT32_MAX)
    return ("attribute `" + key.name + "` does not fit 32 bits").str();
  return "";
}

std::string checkPosition(const Op &op, AttrKey<int64_t> key) {
  if (op.get(key) < 0)
    return ("attribute `" + key.name + "` is negative").str();
  if (op.get(key) > INT32_MAX)
    return ("attribute `" + key.name + "` does not fit 32 bits").str();
  return "";
}

std::string checkParam(const Op &op) {
  if (std::string problem = checkPosition(op, attr::param); !problem.empty())
    return problem;
  const Type type = op.result()->type();
  if (!type.isView() || type.isRemote() || type.rank() != op.numOperands())
    return isNot("result", type, "a local view with one dimension an operand");
  const bool isScratch = op.get(attr::mode) == ParamMode::Scratch;
  if (!isScratch && (op.get(attr::zero) || op.has(attr::copies)))
    return "attributes `zero` and `copies` are for scratch parameters";
  return checkPositive(op, attr::copies);
}

std::string checkSignalParam(const Op &op) {
  const Type type = op.result()->type();
  if (!type.isSignal() || type.isRemote() || type.rank() != op.numOperands())
    return isNot("result", type, "a local signal with one dimension an operand");
  return checkPosition(op, attr::param);
}

std::string checkScalarParam(const Op &op) {
  const Type type = op.result()->type();
  if (!type.isIndex() && !type.isScalar())
    return isNot("result", type, "an index or scalar");
  if (op.has(attr::default_value))
    if (std::string problem = checkValueOfResult(op, "default_value"); !problem.empty())
      return problem;
  return checkPosition(op, attr::param);
}

std::string checkLaunchDim(const Op &op) {
  if (std::string problem = checkPosition(op, attr::param); !problem.empty())
    return problem;
  return checkPosition(op, attr::dim);
}

std::string checkLaunchRequire(const Op &op) {
  if (op.has(attr::names) && op.get(attr::names).size() + 1 != op.numOperands())
    return "attribute `names` has not one name for each trailing operand";
  for (const Value *value : op.operands())
    if (!value->type().isScalar() && !value->type().isIndex())
      return "operands are scalars";
  if (op.get(attr::replicated) && (op.numOperands() != 2 || !op.operand(1)->type().isIndex()))
    return "of a size that all ranks pass alike it has not two operands, the second an index";
  return checkCondition(op);
}

/// The order of tiles, as ir/core/tile_order.h reads it.
std::string checkSchedule(const Op &op) {
  const size_t dims = spaceDims(op);
  for (const auto &key : {attr::order, attr::group, attr::rotate, attr::start})
    if (op.has(key) && op.get(key).size() != dims)
      return ("attribute `" + key.name + "` has not one entry for each dimension").str();
  if (op.has(attr::order)) {
    llvm::SmallVector<int64_t, 4> sorted(op.get(attr::order));
    llvm::sort(sorted);
    for (size_t i = 0; i < dims; ++i)
      if (sorted[i] != int64_t(i))
        return "attribute `order` is not a permutation of the dimensions";
  }
  if (op.has(attr::rotate) &&
      llvm::any_of(op.get(attr::rotate), [](int64_t by) { return by < -1 || by > 1; }))
    return "attribute `rotate` has an entry that is not -1, 0 or 1";
  if (op.has(attr::group) &&
      llvm::any_of(op.get(attr::group), [](int64_t blocks) { return blocks < 0; }))
    return "attribute `group` has a negative entry";
  return "";
}

std::string checkSpace(const Op &op) {
  const size_t dims = spaceDims(op);
  if (op.numOperands() != 3 * dims && op.numOperands() != 4 * dims)
    return "has " + count(op.numOperands(), "operand") + ", not three or four for each of `vars`";
  if (std::string problem = checkPositive(op, attr::programs); !problem.empty())
    return problem;
  return checkSchedule(op);
}

std::string checkElementwise(const Op &op, ElementTypes types) {
  switch (types) {
  case ElementTypes::Number:
    return checkNumber(op);
  case ElementTypes::Float:
    return checkFloat(op);
  case ElementTypes::Bits:
    return checkBits(op, true);
  case ElementTypes::Integer:
    return checkBits(op, false);
  }
  return "";
}

} // namespace

std::string checkTypes(const Op &op) {
  switch (op.kind()) {
#define ELEMENTWISE(KIND, TEXT, ARITY, TYPES, CALL, DOC)                                           \
  case OpKind::KIND:                                                                               \
    return checkElementwise(op, ElementTypes::TYPES);
#include "frontend/base/elementwise.def"
  case OpKind::Const:
    return checkConst(op);
  case OpKind::Cmp:
    return checkCmp(op);
  case OpKind::Select:
    return checkSelect(op);
  case OpKind::Cast:
    return checkCast(op);
  case OpKind::Bitcast:
    return checkBitcast(op);
  case OpKind::Extern:
  case OpKind::Asm:
    return checkInstructions(op);
  case OpKind::Splat:
    return checkSplat(op);
  case OpKind::Iota:
    return checkIota(op);
  case OpKind::Broadcast:
    return checkBroadcast(op);
  case OpKind::Reshape:
    return checkReshape(op);
  case OpKind::Trans:
    return checkTrans(op);
  case OpKind::Convert:
    return checkConvert(op);
  case OpKind::Reduce:
    return checkReduce(op);
  case OpKind::ArgReduce:
    return checkArgReduce(op);
  case OpKind::Scan:
    return checkScan(op);
  case OpKind::Take:
    return checkTake(op);
  case OpKind::Dot:
    return checkDot(op);
  case OpKind::ViewSlice:
    return checkSlice(op, TypeKind::View);
  case OpKind::ViewTile:
    return checkViewTile(op);
  case OpKind::ViewSelect:
    return checkViewSelect(op);
  case OpKind::ViewAt:
  case OpKind::SigAt:
    return checkAt(op);
  case OpKind::ViewDim:
  case OpKind::SigDim:
    return checkDimension(op, attr::dim, op.operand(0)->type().rank());
  case OpKind::ViewReshape:
    return checkViewReshape(op);
  case OpKind::SigSlice:
    return checkSlice(op, TypeKind::Signal);
  case OpKind::Load:
    return checkLoad(op);
  case OpKind::Store:
    return checkStore(op);
  case OpKind::Gather:
    return gathersRows(op) ? checkRows(op)
                           : checkIndexTiles(op, 1, op.operand(0)->type(), op.result()->type());
  case OpKind::Scatter:
    return checkIndexTiles(op, 2, op.operand(1)->type(), op.operand(0)->type());
  case OpKind::Atomic:
    return checkAtomic(op);
  case OpKind::AtomicScatter:
    return checkAtomicScatter(op);
  case OpKind::MemoryFence:
    return checkWord(op, attr::kind, "acquire release");
  case OpKind::ReduceAddScatter:
    return checkIndexTiles(op, 2, op.operand(1)->type(), op.operand(0)->type());
  case OpKind::Put:
  case OpKind::PutSignal:
    return checkPut(op);
  case OpKind::Get:
    return checkGet(op);
  case OpKind::ReduceAdd:
    return checkReduceAdd(op);
  case OpKind::Wait:
    return checkWait(op);
  case OpKind::Poll:
    return isBool(op.result()->type()) ? "" : isNot("result", op.result()->type(), "a bool");
  case OpKind::TokenJoin:
    return checkTokenJoin(op);
  case OpKind::Print:
    return checkPrint(op);
  case OpKind::If:
  case OpKind::Condition:
  case OpKind::Assert:
    return checkCondition(op);
  case OpKind::LaunchRequire:
    return checkLaunchRequire(op);
  case OpKind::LaunchElements:
    return checkLaunchElements(op);
  case OpKind::LaunchDim:
  case OpKind::LaunchCheck:
    return checkLaunchDim(op);
  case OpKind::Param:
    return checkParam(op);
  case OpKind::ScalarParam:
    return checkScalarParam(op);
  case OpKind::SignalParam:
    return checkSignalParam(op);
  case OpKind::Space:
    return checkSpace(op);
  case OpKind::Rank:
  case OpKind::NumRanks:
  case OpKind::Epoch:
  case OpKind::Notify:
  case OpKind::TokenDone:
  case OpKind::Await:
  case OpKind::Quiet:
  case OpKind::Fence:
  case OpKind::Barrier:
  case OpKind::For:
  case OpKind::While:
  case OpKind::Yield:
  case OpKind::Call:
  case OpKind::Return:
  case OpKind::Func:
  case OpKind::Kernel:
    return "";
  }
  return "";
}

} // namespace dtile::ir
