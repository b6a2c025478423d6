// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The built-in functions that compute: handlers of calls.def.
#include "sema/checker.h"

#include <array>

namespace dtile::sema {

CallHandler callHandler(llvm::StringRef name) {
  static const llvm::StringMap<CallHandler> handlers = [] {
    llvm::StringMap<CallHandler> table;
#define CALL(HANDLER, NAME, SIGNATURE, DOC) table[NAME] = &Checker::call##HANDLER;
#include "sema/calls/calls.def"
    return table;
  }();
  return handlers.lookup(name);
}

void forEachCall(llvm::function_ref<void(llvm::StringRef)> visit) {
#define CALL(HANDLER, NAME, SIGNATURE, DOC) visit(NAME);
#include "sema/calls/calls.def"
}

bool Checker::noGenerics(const CallSite &site) {
  if (site.generics.empty())
    return true;
  report(site.generics[0].value->range, diag::too_many_generics, site.name, "0");
  return false;
}

bool Checker::noShape(const CallSite &site) {
  if (!site.hasShape)
    return true;
  report(site.range, diag::takes_no_sizes, site.name);
  return false;
}

TExpr *Checker::positionCall(const CallSite &site, BuiltinId id) {
  if (!checkArgs(site, 0, 0) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  return builtin(id, {}, types.scalar(DType::I64), site.range);
}

TExpr *Checker::callRank(const CallSite &site) {
  if (site.args.empty())
    return positionCall(site, BuiltinId::Rank);
  if (!noGenerics(site) || !noShape(site))
    return error(site.range);
  if (!site.args[0].label.name.empty())
    return rankAt(site);
  const std::optional<size_t> axis = axisArgument(site);
  return axis ? ownCoordinate(*axis, site.range) : error(site.range);
}

TExpr *Checker::callNumRanks(const CallSite &site) {
  if (site.args.empty())
    return positionCall(site, BuiltinId::NumRanks);
  if (!noGenerics(site) || !noShape(site))
    return error(site.range);
  const std::optional<size_t> axis = axisArgument(site);
  return axis ? axisExtent(*axis, site.range) : error(site.range);
}

TExpr *Checker::callEpoch(const CallSite &site) { return positionCall(site, BuiltinId::Epoch); }

TExpr *Checker::callBlockCount(const CallSite &site) {
  if (!checkArgs(site, 2, 2) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *total = position(site.args[0].value);
  TExpr *size = position(site.args[1].value);
  if (total->type->kind == TypeKind::Error || size->type->kind == TypeKind::Error ||
      !checkPositive(size))
    return error(site.range);
  if (total->kind == TExprKind::Const && size->kind == TExprKind::Const) {
    const int64_t n = int64_t(total->bits);
    const int64_t d = int64_t(size->bits);
    return intConst(n / d + (n % d > 0 ? 1 : 0), site.range, DType::I64, /*adaptable=*/true);
  }
  return builtin(BuiltinId::Blocks, {total, size}, types.scalar(DType::I64), site.range);
}

// ---- Making tiles ----

// The tile type that `name<D>[sizes]` asks for; Error after reporting.
Type Checker::madeTile(const CallSite &site) {
  DType dtype = DType::F32;
  bool good = true;
  if (site.generics.size() > 1) {
    report(site.generics[1].value->range, diag::too_many_generics, site.name, "1");
    good = false;
  }
  if (!site.generics.empty()) {
    std::optional<DType> given = dtypeArg(site.generics[0].value);
    good &= given.has_value();
    dtype = given.value_or(dtype);
  }
  if (!site.hasShape) {
    report(site.range, diag::needs_sizes, site.name);
    return errorType();
  }
  llvm::SmallVector<int64_t, 4> sizes;
  if (!staticSizes(site.shape, sizes) || !good)
    return errorType();
  return valueType(dtype, sizes, site.range);
}

TExpr *Checker::callZeros(const CallSite &site) {
  // The message about `zeros(64)` says where sizes stand.
  if (!checkArgs(site, 0, 0))
    return error(site.range);
  const Type type = madeTile(site);
  if (type->kind == TypeKind::Error)
    return error(site.range);
  return builtin(BuiltinId::Zeros, {}, type, site.range);
}

TExpr *Checker::callFull(const CallSite &site) {
  const bool argsGood = checkArgs(site, 1, 1);
  Type type = madeTile(site);
  if (!argsGood || type->kind == TypeKind::Error)
    return error(site.range);
  TExpr *element = value(site.args[0].value);
  if (element->type->kind == TypeKind::Error)
    return element;
  // Without an element type, the value's own.
  if (site.generics.empty() && !element->adaptable)
    type = withDType(type, element->type->dtype);
  element = convert(element, types.scalar(type->dtype), element->range);
  if (element->type->kind == TypeKind::Error)
    return element;
  return builtin(BuiltinId::Full, {element}, type, site.range);
}

TExpr *Checker::callIota(const CallSite &site) {
  if (!checkArgs(site, 1, 1) || !noShape(site))
    return error(site.range);
  std::optional<DType> given;
  if (!site.generics.empty()) {
    given = dtypeArg(site.generics[0].value);
    if (!given)
      return error(site.range);
  }
  TExpr *length = toValue(expr(site.args[0].value));
  if (length->type->kind == TypeKind::Error)
    return error(site.range);
  if (length->type->kind == TypeKind::Range) {
    TExpr *positions = rangePositions(length, /*guarded=*/false, site.range);
    const bool isGood = positions->type->kind != TypeKind::Error;
    return given && isGood ? cast(positions, *given, site.range) : positions;
  }
  if (length->kind != TExprKind::Const || !isInteger(length->type->dtype)) {
    report(length->range, diag::not_constant, "the size of a tile");
    return error(site.range);
  }
  const DType dtype = given.value_or(DType::I32);
  if (dtype == DType::Bool) {
    report(site.range, diag::operator_not_defined, "iota", "bool");
    return error(site.range);
  }
  const Type type = valueType(dtype, {int64_t(length->bits)}, site.range);
  return type->kind == TypeKind::Error ? error(site.range)
                                       : builtin(BuiltinId::Iota, {}, type, site.range);
}

// ---- Shapes ----

TExpr *Checker::tileArg(const CallSite &site) {
  TExpr *tile = value(site.args[0].value);
  if (tile->type->kind == TypeKind::Scalar) {
    report(tile->range, diag::type_mismatch, "a tile", typeText(tile->type));
    return error(site.range);
  }
  return tile;
}

TExpr *Checker::callReshape(const CallSite &site) {
  if (!checkArgs(site, 1, 1) || !noGenerics(site))
    return error(site.range);
  TExpr *tile = tileArg(site);
  if (!site.hasShape) {
    report(site.range, diag::needs_sizes, site.name);
    return error(site.range);
  }
  llvm::SmallVector<int64_t, 4> sizes;
  if (!staticSizes(site.shape, sizes) || tile->type->kind == TypeKind::Error)
    return error(site.range);
  const Type type = valueType(tile->type->dtype, sizes, site.range);
  if (type->kind == TypeKind::Error)
    return error(site.range);
  int64_t before = 1;
  int64_t after = 1;
  for (int64_t size : tile->type->shape)
    before *= size;
  for (int64_t size : sizes)
    after *= size;
  if (before != after) {
    report(site.range, diag::bad_reshape, shapeText(tile->type->shape), before, shapeText(sizes),
           after);
    return error(site.range);
  }
  return builtin(BuiltinId::Reshape, {tile}, type, site.range);
}

TExpr *Checker::callExpand(const CallSite &site) {
  if (!checkArgs(site, 1, 1, {"axis"}) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *tile = tileArg(site);
  if (tile->type->kind == TypeKind::Error)
    return tile;
  std::optional<unsigned> axis = axisArg(site, tile->type->rank() + 1);
  if (!axis)
    return error(site.range);
  llvm::SmallVector<int64_t, 5> shape(tile->type->shape.begin(), tile->type->shape.end());
  shape.insert(shape.begin() + *axis, 1);
  const Type type = valueType(tile->type->dtype, shape, site.range);
  return type->kind == TypeKind::Error ? error(site.range)
                                       : builtin(BuiltinId::Reshape, {tile}, type, site.range);
}

TExpr *Checker::callPermute(const CallSite &site) {
  if (!checkArgs(site, 2, 1 + kMaxTileRank) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *tile = tileArg(site);
  if (tile->type->kind == TypeKind::Error)
    return tile;
  llvm::SmallVector<int64_t, 4> order;
  llvm::SmallVector<int64_t, 4> shape;
  llvm::SmallVector<bool, 4> seen(tile->type->rank(), false);
  bool good = site.args.size() == tile->type->rank() + 1;
  for (const ast::Arg &arg : site.args.drop_front()) {
    std::optional<int64_t> dim = constInt(arg.value, "the number of a dimension");
    if (!dim)
      return error(site.range);
    good = good && *dim >= 0 && *dim < int64_t(seen.size()) && !seen[*dim];
    if (!good)
      break;
    seen[*dim] = true;
    order.push_back(*dim);
    shape.push_back(tile->type->shape[*dim]);
  }
  if (!good) {
    report(site.range, diag::bad_permutation, tile->type->rank());
    return error(site.range);
  }
  return builtin(BuiltinId::Trans, {tile}, types.tile(tile->type->dtype, shape), site.range, order);
}

TExpr *Checker::callCast(const CallSite &site) {
  if (!checkArgs(site, 1, 1) || !noShape(site))
    return error(site.range);
  TExpr *operand = value(site.args[0].value);
  if (site.generics.size() != 1) {
    report(site.nameRange, diag::missing_generic, "cast", "T");
    return error(site.range);
  }
  std::optional<DType> dtype = dtypeArg(site.generics[0].value);
  if (!dtype || operand->type->kind == TypeKind::Error)
    return error(site.range);
  return cast(operand, *dtype, site.range);
}

static std::string bitsText(DType dtype) {
  const std::string name = "`" + dtypeName(dtype).str() + "`";
  return dtype == DType::Bool ? name : name + " of " + std::to_string(dtypeBits(dtype)) + " bits";
}

/// A literal has the bits of the type that is as wide as what is wanted.
TExpr *Checker::withBitsFor(TExpr *literal, DType wanted) {
  const unsigned bits = dtypeBits(wanted);
  if (isFloat(literal->type->dtype))
    return bits == 64 ? adapted(literal, DType::F64) : literal;
  const bool isNegative = int64_t(literal->bits) < 0;
  for (const DType dtype : isNegative ? std::array{DType::I8, DType::I16, DType::I32, DType::I64}
                                      : std::array{DType::U8, DType::U16, DType::U32, DType::U64})
    if (dtypeBits(dtype) == bits)
      return adapted(literal, dtype);
  return literal;
}

TExpr *Checker::callBitcast(const CallSite &site) {
  if (!checkArgs(site, 1, 1) || !noShape(site))
    return error(site.range);
  TExpr *operand = value(site.args[0].value);
  if (site.generics.size() != 1) {
    report(site.nameRange, diag::missing_generic, "bitcast", "T");
    return error(site.range);
  }
  const std::optional<DType> dtype = dtypeArg(site.generics[0].value);
  if (!dtype || operand->type->kind == TypeKind::Error)
    return error(site.range);
  if (operand->adaptable)
    operand = withBitsFor(operand, *dtype);
  if (operand->type->kind == TypeKind::Error)
    return operand;
  const DType from = operand->type->dtype;
  if (from == DType::Bool || *dtype == DType::Bool || dtypeBits(from) != dtypeBits(*dtype)) {
    report(site.range, diag::bitcast_width, bitsText(from), bitsText(*dtype))
        .note(site.range, diag::note_dtile_form,
              "values are converted by `cast<" + dtypeName(*dtype).str() + ">(x)`");
    return error(site.range);
  }
  if (from == *dtype)
    return operand;
  return builtin(BuiltinId::Bitcast, {operand}, withDType(operand->type, *dtype), site.range);
}

// ---- Elementwise ----

TExpr *Checker::mathCall(const CallSite &site, ElementwiseOp op, ElementTypes types) {
  if (!checkArgs(site, 1, 1) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *operand = value(site.args[0].value);
  if (operand->type->kind == TypeKind::Error)
    return operand;
  const DType dtype = operand->type->dtype;
  const bool takesIntegers = types == ElementTypes::Number;
  if (!takesIntegers && operand->adaptable && isInteger(dtype)) {
    operand = floatOf(operand, DType::F32, /*adaptable=*/true);
    if (operand->type->kind == TypeKind::Error)
      return operand;
  } else if (takesIntegers ? dtype == DType::Bool : !isFloat(dtype)) {
    auto message =
        report(site.range, diag::operator_not_defined, site.name, typeText(operand->type));
    const bool isRounding = op == ElementwiseOp::Ceil || op == ElementwiseOp::Floor;
    if (isInteger(dtype) && isRounding)
      message.note(site.range, diag::note_dtile_form,
                   "of integers `a / b` rounds down, and `blocks(a, b)` rounds up");
    else if (isInteger(dtype))
      message.fix({operand->range.begin, operand->range.begin}, "cast<f32>(")
          .fix({operand->range.end, operand->range.end}, ")");
    return error(site.range);
  }
  return elementwise(op, {operand}, site.range);
}

#define DTILE_Function(NAME, TYPES)                                                                \
  TExpr *Checker::call##NAME(const CallSite &site) {                                               \
    return mathCall(site, ElementwiseOp::NAME, ElementTypes::TYPES);                               \
  }
#define DTILE_Own(NAME, TYPES)
#define ELEMENTWISE(KIND, NAME, ARITY, TYPES, FORM, DOC) DTILE_##FORM(KIND, TYPES)
#include "frontend/base/elementwise.def"
#undef DTILE_Function
#undef DTILE_Own

// Two operands, or `most` of them, from the left.
TExpr *Checker::foldedCall(const CallSite &site, ElementwiseOp op, unsigned most) {
  if (!checkArgs(site, 2, most) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *result = value(site.args[0].value);
  for (const ast::Arg &arg : llvm::drop_begin(site.args)) {
    TExpr *next = value(arg.value);
    if (result->type->kind == TypeKind::Error || next->type->kind == TypeKind::Error ||
        !unify(result, next, site.range))
      return error(site.range);
    const DType dtype = result->type->dtype;
    if (dtype == DType::Bool || (op == ElementwiseOp::Pow && !isFloat(dtype))) {
      report(site.range, diag::operator_not_defined, site.name, typeText(result->type));
      return error(site.range);
    }
    result = elementwise(op, {result, next}, site.range);
  }
  return result;
}

TExpr *Checker::callPow(const CallSite &site) { return foldedCall(site, ElementwiseOp::Pow, 2); }

TExpr *Checker::callMin(const CallSite &site) {
  return positional(site, 1) ? foldedCall(site, ElementwiseOp::Min, site.args.size())
                             : reduction(site, BuiltinId::ReduceMin);
}

TExpr *Checker::callMax(const CallSite &site) {
  return positional(site, 1) ? foldedCall(site, ElementwiseOp::Max, site.args.size())
                             : reduction(site, BuiltinId::ReduceMax);
}

TExpr *Checker::callClamp(const CallSite &site) {
  if (!checkArgs(site, 3, 3) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *x = value(site.args[0].value);
  TExpr *lo = value(site.args[1].value);
  TExpr *hi = value(site.args[2].value);
  for (const TExpr *part : {x, lo, hi})
    if (part->type->kind == TypeKind::Error)
      return error(site.range);
  if (!unify(x, lo, site.range))
    return error(site.range);
  if (x->type->dtype == DType::Bool) {
    report(site.range, diag::operator_not_defined, site.name, typeText(x->type));
    return error(site.range);
  }
  TExpr *above = elementwise(ElementwiseOp::Max, {x, lo}, site.range);
  if (!unify(above, hi, site.range))
    return error(site.range);
  return elementwise(ElementwiseOp::Min, {above, hi}, site.range);
}

TExpr *Checker::callRelu(const CallSite &site) {
  if (!checkArgs(site, 1, 1) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *x = value(site.args[0].value);
  if (x->type->kind == TypeKind::Error)
    return x;
  if (x->type->dtype == DType::Bool) {
    report(site.range, diag::operator_not_defined, site.name, typeText(x->type));
    return error(site.range);
  }
  TExpr *zero = shapedAs(zeroOf(x->type->dtype, site.range), x->type->shape);
  return elementwise(ElementwiseOp::Max, {x, zero}, site.range);
}

TExpr *Checker::callWhere(const CallSite &site) {
  if (!checkArgs(site, 3, 3) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *chooser = value(site.args[0].value);
  TExpr *whenTrue = value(site.args[1].value);
  TExpr *whenFalse = value(site.args[2].value);
  for (const TExpr *part : {chooser, whenTrue, whenFalse})
    if (part->type->kind == TypeKind::Error)
      return error(site.range);
  if (chooser->type->dtype != DType::Bool) {
    reportCondition(chooser->range, chooser->type);
    return error(site.range);
  }
  return select(chooser, whenTrue, whenFalse, site.range);
}

// ---- Reductions ----

std::optional<unsigned> Checker::axisArg(const CallSite &site, unsigned rank) {
  const ast::Expr *given = labelled(site, "axis");
  if (!given) {
    report(site.range, diag::missing_label, site.name, "axis");
    return std::nullopt;
  }
  std::optional<int64_t> axis = constInt(given, "an axis");
  if (!axis)
    return std::nullopt;
  const int64_t counted = *axis < 0 ? *axis + rank : *axis;
  if (counted >= 0 && counted < int64_t(rank))
    return unsigned(counted);
  report(given->range, diag::axis_out_of_range, *axis, rank);
  return std::nullopt;
}

TExpr *Checker::reduction(const CallSite &site, BuiltinId id) {
  if (!checkArgs(site, 1, 1, {"axis", "keep"}) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *tile = tileArg(site);
  if (tile->type->kind == TypeKind::Error)
    return tile;
  const DType dtype = tile->type->dtype;
  const bool isLogical = id == BuiltinId::ReduceAny || id == BuiltinId::ReduceAll;
  if (isLogical != (dtype == DType::Bool)) {
    report(site.range, diag::operator_not_defined, site.name, typeText(tile->type));
    return error(site.range);
  }
  llvm::SmallVector<int64_t, 4> kept(tile->type->shape);
  unsigned axis = 0;
  if (labelled(site, "axis")) {
    std::optional<unsigned> given = axisArg(site, tile->type->rank());
    if (!given)
      return error(site.range);
    axis = *given;
    kept[axis] = 1;
  } else {
    // All elements: as one long dimension.
    int64_t elements = 1;
    for (int64_t &size : kept) {
      elements *= size;
      size = 1;
    }
    if (tile->type->rank() > 1)
      tile = builtin(BuiltinId::Reshape, {tile}, types.tile(dtype, {elements}), site.range);
  }
  llvm::SmallVector<int64_t, 4> shape(tile->type->shape);
  shape.erase(shape.begin() + axis);
  TExpr *result = builtin(id, {tile}, valueType(dtype, shape, site.range), site.range, {axis});
  const ast::Expr *keep = labelled(site, "keep");
  if (!keep)
    return result;
  TExpr *keeps = condition(keep);
  if (keeps->type->kind == TypeKind::Error)
    return keeps;
  if (keeps->kind != TExprKind::Const) {
    report(keep->range, diag::not_constant, "`keep:`");
    return error(site.range);
  }
  if (!keeps->bits)
    return result;
  if (result->type->kind == TypeKind::Scalar)
    return shapedAs(result, kept);
  return builtin(BuiltinId::Reshape, {result}, types.tile(dtype, kept), site.range);
}

std::optional<unsigned> Checker::axisAlong(const CallSite &site, const TypeData &tile) {
  return tile.rank() > 1 || labelled(site, "axis") ? axisArg(site, tile.rank()) : std::optional(0U);
}

TExpr *Checker::scan(const CallSite &site, BuiltinId id) {
  if (!checkArgs(site, 1, 1, {"axis"}) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *tile = tileArg(site);
  if (tile->type->kind == TypeKind::Error)
    return tile;
  if (tile->type->dtype == DType::Bool) {
    report(site.range, diag::operator_not_defined, site.name, typeText(tile->type));
    return error(site.range);
  }
  const std::optional<unsigned> axis = axisAlong(site, *tile->type);
  if (!axis)
    return error(site.range);
  Type type = tile->type;
  if (id == BuiltinId::ArgMax || id == BuiltinId::ArgMin) {
    llvm::SmallVector<int64_t, 4> shape(type->shape);
    shape.erase(shape.begin() + *axis);
    type = valueType(DType::I32, shape, site.range);
  }
  return builtin(id, {tile}, type, site.range, {*axis});
}

// `gather(t, i, axis: k)`: element (…, j, …) of the result is t[…, i[…, j, …], …].
TExpr *Checker::callGather(const CallSite &site) {
  if (!checkArgs(site, 2, 2, {"axis"}) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *tile = tileArg(site), *index = value(positional(site, 1));
  if (tile->type->kind == TypeKind::Error || index->type->kind == TypeKind::Error)
    return error(site.range);
  const std::optional<unsigned> axis = axisAlong(site, *tile->type);
  if (!axis)
    return error(site.range);
  const bool fits = index->type->kind == TypeKind::Tile && isInteger(index->type->dtype) &&
                    index->type->rank() == tile->type->rank() &&
                    llvm::all_of(llvm::seq<size_t>(0, tile->type->rank()), [&](size_t d) {
                      return d == *axis || index->type->shape[d] == tile->type->shape[d];
                    });
  if (!fits) {
    report(index->range, diag::gather_index, typeText(index->type), typeText(tile->type), *axis);
    return error(site.range);
  }
  const Type type = valueType(tile->type->dtype, index->type->shape, site.range);
  return builtin(BuiltinId::Take, {tile, index}, type, site.range, {*axis});
}

// The sum, times one over the number of elements.
TExpr *Checker::callMean(const CallSite &site) {
  TExpr *sum = reduction(site, BuiltinId::ReduceSum);
  if (sum->type->kind == TypeKind::Error)
    return sum;
  const DType dtype = sum->type->dtype;
  if (!isFloat(dtype)) {
    report(site.range, diag::operator_not_defined, site.name, typeText(sum->type));
    return error(site.range);
  }
  const TExpr *reduced = sum;
  while (reduced->kind != TExprKind::Builtin || reduced->builtin != BuiltinId::ReduceSum)
    reduced = reduced->operands[0];
  const int64_t count = reduced->operands[0]->type->shape[size_t(reduced->ints[0])];
  TExpr *divisor = floatConst(double(count), site.range, dtype);
  return elementwise(ElementwiseOp::Div, {sum, shapedAs(divisor, sum->type->shape)}, site.range);
}

TExpr *Checker::callSum(const CallSite &site) { return reduction(site, BuiltinId::ReduceSum); }
TExpr *Checker::callMaxOf(const CallSite &site) { return reduction(site, BuiltinId::ReduceMax); }
TExpr *Checker::callMinOf(const CallSite &site) { return reduction(site, BuiltinId::ReduceMin); }
TExpr *Checker::callProd(const CallSite &site) { return reduction(site, BuiltinId::ReduceProd); }
TExpr *Checker::callAny(const CallSite &site) { return reduction(site, BuiltinId::ReduceAny); }
TExpr *Checker::callAll(const CallSite &site) { return reduction(site, BuiltinId::ReduceAll); }
TExpr *Checker::callArgMax(const CallSite &site) { return scan(site, BuiltinId::ArgMax); }
TExpr *Checker::callArgMin(const CallSite &site) { return scan(site, BuiltinId::ArgMin); }
TExpr *Checker::callCumSum(const CallSite &site) { return scan(site, BuiltinId::CumSum); }
TExpr *Checker::callCumMax(const CallSite &site) { return scan(site, BuiltinId::CumMax); }

// ---- Matrix product ----

/// Bits after the point that tf32 keeps of f32.
constexpr int64_t kTf32Bits = 10;

// Whether the product is asked for as `dot<tf32>`; nothing after reporting. What stands there is no
// element type: no tile has it.
std::optional<bool> Checker::isTf32Dot(const CallSite &site) {
  if (site.generics.empty())
    return false;
  if (site.generics.size() > 1) {
    report(site.generics[1].value->range, diag::too_many_generics, site.name, "1");
    return std::nullopt;
  }
  const ast::Expr *given = site.generics[0].value;
  const auto *name = llvm::dyn_cast<ast::NameExpr>(given);
  if (name && name->name == "tf32")
    return true;
  if (given->kind != ast::NodeKind::ErrorExpr)
    report(given->range, diag::dot_precision, ctx.sources.text(given->range));
  return std::nullopt;
}

TExpr *Checker::callDot(const CallSite &site) {
  if (!checkArgs(site, 2, 2) || !noShape(site))
    return error(site.range);
  const std::optional<bool> isTf32 = isTf32Dot(site);
  TExpr *a = value(site.args[0].value);
  TExpr *b = value(site.args[1].value);
  if (!isTf32 || a->type->kind == TypeKind::Error || b->type->kind == TypeKind::Error)
    return error(site.range);
  const auto refuse = [&](diag::Id id, llvm::StringRef left, llvm::StringRef right) {
    report(site.range, id, left, right)
        .note(a->range, diag::note_has_type, typeText(a->type))
        .note(b->range, diag::note_has_type, typeText(b->type));
    return error(site.range);
  };
  // Matrices, or as many of both in stacks.
  const auto isOf = [](Type type) { return type->rank() == 2 || type->rank() == 3; };
  const llvm::ArrayRef<int64_t> rows = a->type->shape, columns = b->type->shape;
  const bool areStacks = rows.size() == 3 && columns.size() == 3;
  if (!isOf(a->type) || rows.size() != columns.size() || (areStacks && rows[0] != columns[0])) {
    auto message =
        report(site.range, diag::dot_shape_mismatch, shapeText(rows), shapeText(columns));
    message.note(a->range, diag::note_has_type, typeText(a->type))
        .note(b->range, diag::note_has_type, typeText(b->type));
    if (rows.size() > 2 || columns.size() > 2)
      message.note(site.range, diag::note_dtile_form,
                   "of stacks of matrices, [B, M, K] and [B, K, N], it gives [B, M, N]; "
                   "`x[None, :, :]` is a stack of one");
    return error(site.range);
  }
  const int64_t inner = rows.back(), outer = columns[columns.size() - 2];
  if (inner == columns.back() && inner != outer) {
    // The second operand has its rows where its columns belong.
    const std::string text = ctx.sources.text(b->range).str();
    const SourceLoc end = b->range.end;
    auto message =
        report(site.range, diag::dot_shape_mismatch, shapeText(rows), shapeText(columns));
    message.note(a->range, diag::note_has_type, typeText(a->type))
        .note(b->range, diag::note_has_type, typeText(b->type));
    if (areStacks)
      message.note(b->range, diag::note_did_you_mean, "permute(" + text + ", 0, 2, 1)");
    else
      message.note(b->range, diag::note_did_you_mean, text + ".T").fix({end, end}, ".T");
    return error(site.range);
  }
  if (inner != outer)
    return refuse(diag::dot_shape_mismatch, shapeText(rows), shapeText(columns));
  const DType left = a->type->dtype;
  const DType right = b->type->dtype;
  const bool bothF8 =
      dtypeBits(left) == 8 && dtypeBits(right) == 8 && isFloat(left) && isFloat(right);
  if (left != right && !bothF8) {
    reportDTypes(site.range, a, b);
    return error(site.range);
  }
  if (*isTf32 && (left != DType::F32 || right != DType::F32))
    return refuse(diag::dot_tf32_operands, dtypeName(left), dtypeName(right));
  DType result = DType::F32;
  if (left == DType::F64) {
    result = DType::F64;
  } else if (!isFloat(left)) {
    if (left == DType::Bool || dtypeBits(left) > 16) {
      report(site.range, diag::operator_not_defined, "dot", typeText(a->type));
      return error(site.range);
    }
    result = dtypeClass(left) == DTypeClass::UInt ? DType::U32 : DType::I32;
  }
  llvm::SmallVector<int64_t, 1> ints;
  if (*isTf32)
    ints.push_back(kTf32Bits);
  llvm::SmallVector<int64_t, 3> shape(rows);
  shape.back() = columns.back();
  const Type type = valueType(result, shape, site.range);
  return type->kind == TypeKind::Error ? error(site.range)
                                       : builtin(BuiltinId::Dot, {a, b}, type, site.range, ints);
}

} // namespace dtile::sema
