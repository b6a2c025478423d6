// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values: arithmetic, tiles, loads and calls.
#include "frontend/base/check.h"
#include "ir/core/op_classes.h"
#include "ir/from_ast/existing_elements.h"
#include "ir/from_ast/lowering.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::ir {

using sema::BuiltinId;
using sema::ElementwiseOp;
using sema::TExpr;
using sema::TExprKind;

namespace {

/// The op of an elementwise operation; comparisons are `cmp`.
OpKind opOf(ElementwiseOp op) {
  switch (op) {
#define ELEMENTWISE(NAME, TEXT, ARITY, TYPES, CALL, DOC)                                           \
  case ElementwiseOp::NAME:                                                                        \
    return OpKind::NAME;
#include "frontend/base/elementwise.def"
  case ElementwiseOp::Select:
    return OpKind::Select;
  case ElementwiseOp::Eq:
  case ElementwiseOp::Ne:
  case ElementwiseOp::Lt:
  case ElementwiseOp::Le:
  case ElementwiseOp::Gt:
  case ElementwiseOp::Ge:
    return OpKind::Cmp;
  }
  DTILE_UNREACHABLE("unknown elementwise operation");
}

/// The predicate of a comparison; empty for other operations.
llvm::StringRef predicateOf(ElementwiseOp op) {
  constexpr std::pair<ElementwiseOp, llvm::StringLiteral> kPredicates[] = {
      {ElementwiseOp::Eq, "eq"}, {ElementwiseOp::Ne, "ne"}, {ElementwiseOp::Lt, "lt"},
      {ElementwiseOp::Le, "le"}, {ElementwiseOp::Gt, "gt"}, {ElementwiseOp::Ge, "ge"}};
  for (const auto &[kind, text] : kPredicates)
    if (kind == op)
      return text;
  return "";
}

/// Touches memory or may do more: not to be evaluated twice, or where the program does not ask for
/// it.
bool hasOwnEffects(const TExpr &expr) {
  constexpr TExprKind kEffects[] = {TExprKind::Load,      TExprKind::Gather, TExprKind::Atomic,
                                    TExprKind::FnCall,    TExprKind::Put,    TExprKind::Get,
                                    TExprKind::ReduceAdd, TExprKind::Wait};
  return llvm::is_contained(kEffects, expr.kind);
}

bool hasEffects(const TExpr &expr) {
  return hasOwnEffects(expr) ||
         llvm::any_of(expr.operands, [](const TExpr *operand) { return hasEffects(*operand); }) ||
         llvm::any_of(expr.indices, [](const sema::IndexItem &item) {
           return item.value && hasEffects(*item.value);
         });
}

bool isScalarBool(const TExpr &expr) {
  return expr.type->kind == sema::TypeKind::Scalar && expr.type->dtype == DType::Bool;
}

/// The one bool that decides for a whole value, a tile perhaps; null where elements have their own.
const TExpr *singleCondition(const TExpr &chooser) {
  const TExpr *one = chooser.kind == TExprKind::Splat ? chooser.operands[0] : &chooser;
  return isScalarBool(*one) ? one : nullptr;
}

/// A product without accumulator.
bool isPlainDot(const TExpr &expr) {
  return expr.kind == TExprKind::Builtin && expr.builtin == BuiltinId::Dot &&
         expr.operands.size() == 2;
}

} // namespace

void Lowering::appendValues(llvm::ArrayRef<TExpr *> exprs, Values &values) {
  for (const TExpr *expr : exprs)
    values.push_back(value(*expr));
}

Lowered Lowering::lower(const TExpr &expr) {
  if (!hasOwnEffects(expr))
    return evaluate(expr);
  if (auto it = evaluated_.find(&expr); it != evaluated_.end())
    return it->second;
  Lowered result = evaluate(expr);
  evaluated_[&expr] = result;
  return result;
}

Lowered Lowering::evaluate(const TExpr &expr) {
  const At at(builder_, expr.range);
  const auto single = [](Value *value) {
    Lowered result;
    result.value = value;
    return result;
  };
  const auto ranged = [](RangeParts range) {
    Lowered result;
    result.range = range;
    return result;
  };
  switch (expr.kind) {
  case TExprKind::Const:
    return single(constant(expr));
  case TExprKind::VarRef: {
    auto it = environment_.find(expr.var);
    DTILE_CHECK(it != environment_.end(), "variable `" + expr.var->name + "` has no value");
    return it->second;
  }
  case TExprKind::ParamRef:
    return params_[expr.param];
  case TExprKind::SymbolRef:
    return single(symbols_[expr.symbol]);
  case TExprKind::LaunchDim:
    return single(launchDim(expr.param, expr.dim));
  case TExprKind::Elementwise: {
    const GivenCoordinates *coordinates = givenCoordinates(expr);
    Lowered result = single(elementwise(expr));
    result.coordinates = coordinates;
    return result;
  }
  case TExprKind::Cast:
    return single(cast(expr));
  case TExprKind::Splat:
    return single(builder_.value(OpKind::Splat, {value(*expr.operands[0])}, typeOf(expr.type)));
  case TExprKind::BroadcastTile:
    return single(broadcast(expr));
  case TExprKind::Builtin:
    return single(builtin(expr));
  case TExprKind::FnCall: {
    const Values parts = call(expr);
    llvm::ArrayRef<Value *> rest = parts;
    return expr.callee->results.size() == 1 ? fromParts(expr.callee->results.front(), rest)
                                            : Lowered();
  }
  case TExprKind::Slice:
    return slice(expr);
  case TExprKind::Remote:
    return remote(expr);
  case TExprKind::Load:
    return single(load(expr));
  case TExprKind::Gather:
    return single(gather(expr));
  case TExprKind::MakeRange:
    return ranged(makeRange(expr));
  case TExprKind::RangeShift:
    return ranged(shiftRange(expr));
  case TExprKind::RangeMember:
    return single(rangeMember(expr));
  case TExprKind::RangeBlocks:
    return ranged(blocksOfRange(expr));
  case TExprKind::RangeChunk:
    return ranged(chunkOfRange(expr));
  case TExprKind::RegionSize:
    return single(regionSize(expr));
  case TExprKind::Put:
    return single(put(expr));
  case TExprKind::Get:
    return single(get(expr));
  case TExprKind::ReduceAdd:
    return single(reduceAdd(expr));
  case TExprKind::Atomic:
    return single(atomic(expr));
  case TExprKind::Wait:
    return single(wait(expr));
  case TExprKind::TokenDone:
    return single(builder_.value(OpKind::TokenDone, {}));
  case TExprKind::TokenJoin: {
    Values operands;
    appendValues(expr.operands, operands);
    return single(builder_.value(OpKind::TokenJoin, operands, typeOf(expr.type)));
  }
  }
  DTILE_UNREACHABLE("unknown expression");
}

// Scalars and elementwise operations.

Attr Lowering::constantAttribute(const TExpr &expr) {
  const DType dtype = expr.type->dtype;
  if (dtype == DType::Bool)
    return (expr.bits & 1) != 0;
  if (isFloat(dtype))
    return loadAsDouble(dtype, &expr.bits);
  return loadAsInt(dtype, &expr.bits);
}

Value *Lowering::constant(const TExpr &expr) {
  return builder_.value(OpKind::Const, {}, typeOf(expr.type),
                        {{attr::value, constantAttribute(expr)}});
}

Value *Lowering::elementwise(const TExpr &expr) {
  const TExpr &first = *expr.operands[0];
  if (expr.op == ElementwiseOp::Add && expr.type->kind == sema::TypeKind::Tile) {
    const TExpr &second = *expr.operands[1];
    // A sum with a product is one operation, which accumulates.
    if (isPlainDot(second) && second.type == expr.type)
      return dot(second, value(first));
    if (isPlainDot(first) && first.type == expr.type)
      return dot(first, value(second));
  }
  if ((expr.op == ElementwiseOp::And || expr.op == ElementwiseOp::Or) && isScalarBool(expr) &&
      hasEffects(*expr.operands[1]))
    return shortCircuit(expr);
  if (expr.op == ElementwiseOp::Select &&
      (hasEffects(*expr.operands[1]) || hasEffects(*expr.operands[2])))
    if (const TExpr *condition = singleCondition(first))
      return chooseLazily(*condition, *expr.operands[1], *expr.operands[2]);

  Values operands;
  appendValues(expr.operands, operands);
  if (const llvm::StringRef predicate = predicateOf(expr.op); !predicate.empty())
    return builder_.cmp(predicate, operands[0], operands[1]);
  return builder_.value(opOf(expr.op), operands);
}

const GivenCoordinates *Lowering::givenCoordinates(const TExpr &rank) {
  if (rank.coordinates.empty())
    return nullptr;
  GivenCoordinates &given = coordinates_.emplace_back();
  for (const sema::GivenCoordinate &coordinate : rank.coordinates) {
    given.axes.push_back(coordinate.axis.str());
    given.operands.append({value(*coordinate.place), value(*coordinate.places)});
  }
  return &given;
}

Value *Lowering::shortCircuit(const TExpr &expr) {
  const bool isAnd = expr.op == ElementwiseOp::And;
  Value *condition = value(*expr.operands[0]);
  Op *op = builder_.op(OpKind::If, {condition}, {builder_.types().scalar(DType::Bool)});
  const auto outside = evaluated_;
  for (bool first : {true, false}) {
    const InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(op->body(first ? 0 : 1));
    Value *result = first == isAnd ? value(*expr.operands[1]) : builder_.constBool(first);
    builder_.op(OpKind::Yield, {result});
    evaluated_ = outside;
  }
  return op->result();
}

Value *Lowering::chooseLazily(const TExpr &condition, const TExpr &whenTrue,
                              const TExpr &whenFalse) {
  Op *op = builder_.op(OpKind::If, {value(condition)}, {typeOf(whenTrue.type)});
  const auto outside = evaluated_;
  for (bool first : {true, false}) {
    const InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(op->body(first ? 0 : 1));
    builder_.op(OpKind::Yield, {value(first ? whenTrue : whenFalse)});
    evaluated_ = outside;
  }
  return op->result();
}

Value *Lowering::cast(const TExpr &expr) {
  Value *operand = value(*expr.operands[0]);
  const Type to = typeOf(expr.type);
  return operand->type() == to ? operand : builder_.value(OpKind::Cast, {operand}, to);
}

Value *Lowering::zero(Type type) {
  const DType dtype = type.elementOrIndex();
  Value *scalar = dtype == DType::Bool ? builder_.constBool(false)
                  : isFloat(dtype)     ? builder_.constFloat(dtype, 0)
                                       : builder_.constInt(dtype, 0);
  return type.isTile() ? builder_.value(OpKind::Splat, {scalar}, type) : scalar;
}

// Tiles.

Value *Lowering::broadcast(const TExpr &expr) {
  Value *tile = value(*expr.operands[0]);
  const Type to = typeOf(expr.type);
  llvm::SmallVector<int64_t, 4> shape(tile->type().shape());
  if (shape.size() < to.rank()) {
    shape.insert(shape.begin(), to.rank() - shape.size(), 1);
    tile =
        builder_.value(OpKind::Reshape, {tile}, builder_.types().tile(shape, tile->type().dtype()));
  }
  return tile->type() == to ? tile : builder_.value(OpKind::Broadcast, {tile}, to);
}

Value *Lowering::reduce(const TExpr &expr, OpKind kind, llvm::StringRef name) {
  Value *tile = value(*expr.operands[0]);
  int64_t axis = 0;
  if (!expr.ints.empty()) {
    axis = expr.ints.front();
  } else if (tile->type().rank() > 1) {
    // All elements: as one row.
    tile = builder_.value(OpKind::Reshape, {tile},
                          builder_.types().tile({tile->type().elements()}, tile->type().dtype()));
  }
  return builder_.value(kind, {tile}, typeOf(expr.type),
                        {{attr::axis, axis}, {attr::kind, name.str()}});
}

Value *Lowering::take(const TExpr &expr) {
  Value *tile = value(*expr.operands[0]), *index = value(*expr.operands[1]);
  if (dtypeBytes(index->type().dtype()) < kLeastPositionBytes)
    index = builder_.value(OpKind::Cast, {index},
                           builder_.types().tile(index->type().shape(), DType::I32));
  return builder_.value(OpKind::Take, {tile, index}, typeOf(expr.type),
                        {{attr::axis, expr.ints.front()}});
}

Value *Lowering::scan(const TExpr &expr, llvm::StringRef name) {
  const int64_t axis = expr.ints.empty() ? 0 : expr.ints.front();
  return builder_.value(OpKind::Scan, {value(*expr.operands[0])}, {},
                        {{attr::axis, axis}, {attr::kind, name.str()}});
}

Value *Lowering::builtin(const TExpr &expr) {
  switch (expr.builtin) {
  case BuiltinId::Rank:
    return builder_.value(OpKind::Rank, {});
  case BuiltinId::NumRanks:
    return builder_.value(OpKind::NumRanks, {});
  case BuiltinId::Epoch:
    return builder_.value(OpKind::Epoch, {});
  case BuiltinId::Dot:
    return dot(expr, expr.operands.size() > 2 ? value(*expr.operands[2]) : nullptr);
  case BuiltinId::Zeros:
    return zero(typeOf(expr.type));
  case BuiltinId::Full:
    return builder_.value(OpKind::Splat, {value(*expr.operands[0])}, typeOf(expr.type));
  case BuiltinId::Iota: {
    const Type type = typeOf(expr.type);
    if (isInteger(type.dtype()))
      return builder_.value(OpKind::Iota, {}, type);
    Value *counted = builder_.value(OpKind::Iota, {}, builder_.types().withDType(type, DType::I32));
    return builder_.value(OpKind::Cast, {counted}, type);
  }
  case BuiltinId::Trans:
    return builder_.value(OpKind::Trans, {value(*expr.operands[0])}, typeOf(expr.type),
                          {{attr::perm, std::vector<int64_t>(expr.ints.begin(), expr.ints.end())}});
  case BuiltinId::Reshape: {
    Value *tile = value(*expr.operands[0]);
    const Type to = typeOf(expr.type);
    return tile->type() == to ? tile : builder_.value(OpKind::Reshape, {tile}, to);
  }
  case BuiltinId::ReduceSum:
    return reduce(expr, OpKind::Reduce, "sum");
  case BuiltinId::ReduceMax:
    return reduce(expr, OpKind::Reduce, "max");
  case BuiltinId::ReduceMin:
    return reduce(expr, OpKind::Reduce, "min");
  case BuiltinId::ReduceProd:
    return reduce(expr, OpKind::Reduce, "prod");
  case BuiltinId::ReduceAny:
    return reduce(expr, OpKind::Reduce, "any");
  case BuiltinId::ReduceAll:
    return reduce(expr, OpKind::Reduce, "all");
  case BuiltinId::ArgMax:
    return reduce(expr, OpKind::ArgReduce, "max");
  case BuiltinId::ArgMin:
    return reduce(expr, OpKind::ArgReduce, "min");
  case BuiltinId::CumSum:
    return scan(expr, "sum");
  case BuiltinId::CumMax:
    return scan(expr, "max");
  case BuiltinId::Bitcast:
    return builder_.value(OpKind::Bitcast, {value(*expr.operands[0])}, typeOf(expr.type));
  case BuiltinId::Take:
    return take(expr);
  case BuiltinId::Blocks:
    return builder_.ceilDiv(value(*expr.operands[0]), value(*expr.operands[1]));
  case BuiltinId::Quiet:
  case BuiltinId::Fence:
  case BuiltinId::Barrier:
    sync(expr.builtin);
    return nullptr;
  }
  DTILE_UNREACHABLE("unknown builtin");
}

// Memory.

Value *Lowering::load(const TExpr &expr) {
  Values operands = {value(*expr.operands[0])};
  appendTokens(expr, operands);
  return builder_.value(OpKind::Load, operands, typeOf(expr.type));
}

void Lowering::appendIndexTiles(llvm::ArrayRef<sema::IndexItem> indices,
                                llvm::ArrayRef<int64_t> shape, Values &values) {
  for (const sema::IndexItem &item : indices) {
    Value *index = value(*item.value);
    if (!index->type().isTile())
      index = builder_.value(OpKind::Splat, {index},
                             builder_.types().tile(shape, index->type().elementOrIndex()));
    values.push_back(index);
  }
}

// Index tiles of elements that are written. Positions that were read past a limit are none: their
// zeros would all be place 0.
void Lowering::appendPlaces(llvm::ArrayRef<sema::IndexItem> indices, llvm::ArrayRef<int64_t> shape,
                            Values &values) {
  const size_t first = values.size();
  appendIndexTiles(indices, shape, values);
  for (Value *&index : llvm::MutableArrayRef(values).drop_front(first))
    if (Value *exists = existingElements(builder_, index)) {
      const Type wide = builder_.types().tile(index->type().shape(), DType::I64);
      Value *nowhere = builder_.value(OpKind::Splat, {builder_.constIndex(-1)}, wide);
      if (index->type() != wide)
        index = builder_.value(OpKind::Cast, {index}, wide);
      index = builder_.value(OpKind::Select, {exists, index, nowhere});
    }
}

Value *Lowering::gather(const TExpr &expr) {
  Values operands = {value(*expr.operands[0])};
  appendIndexTiles(expr.indices, expr.type->shape, operands);
  const size_t beforeTokens = operands.size();
  appendTokens(expr, operands);
  return builder_.value(OpKind::Gather, operands, typeOf(expr.type),
                        {{attr::ntok, int64_t(operands.size() - beforeTokens)}});
}

Lowering::Values Lowering::call(const TExpr &expr) {
  if (!expr.ints.empty())
    return expr.steps.empty() ? scanBy(expr) : reduceBy(expr);
  Values operands;
  for (const TExpr *operand : expr.operands)
    appendParts(operand->type, lower(*operand), operands);
  return callOf(*expr.callee, operands);
}

Lowering::Values Lowering::callOf(const sema::FnInstance &callee,
                                  llvm::ArrayRef<Value *> operands) {
  llvm::SmallVector<Type, 2> results;
  for (sema::Type type : callee.results)
    appendTypes(type, results);
  Op *op = builder_.op(OpKind::Call, operands, results);
  op->set(attr::callee, callee.name);
  return Values(op->results());
}

} // namespace dtile::ir
