// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From what an expression is to what is wanted: loads of regions, types of literals, widening,
// shapes.
#include "sema/checker.h"

namespace dtile::sema {

namespace {

bool isI32AndI64(DType a, DType b) {
  return (a == DType::I32 && b == DType::I64) || (a == DType::I64 && b == DType::I32);
}

// The wider of two types in which values of both make sense, for a suggestion.
DType widerOf(DType a, DType b) {
  if (isFloat(a) != isFloat(b))
    return isFloat(a) ? a : b;
  return dtypeBits(a) >= dtypeBits(b) ? a : b;
}

// The constant that a tile has everywhere.
TExpr *constantOf(TExpr *e) { return e->kind == TExprKind::Splat ? e->operands[0] : e; }

// `where(c, 1, 2)`
bool choosesConstants(const TExpr *e) {
  const auto isConstant = [](TExpr *one) {
    const TExpr *value = constantOf(one);
    return value->kind == TExprKind::Const && value->adaptable;
  };
  return e->kind == TExprKind::Elementwise && e->op == ElementwiseOp::Select &&
         isConstant(e->operands[1]) && isConstant(e->operands[2]);
}

} // namespace

Type Checker::errorType() {
  // What did not parse was reported by the parser: the body is no good all the same.
  ++ctx.errors;
  return types.error();
}

TExpr *Checker::error(SourceRange range) {
  return ctx.makeExpr(TExprKind::Const, errorType(), range);
}

Type Checker::valueType(DType dtype, llvm::ArrayRef<int64_t> shape, SourceRange range) {
  if (shape.empty())
    return types.scalar(dtype);
  if (shape.size() > kMaxTileRank) {
    report(range, diag::tile_rank_too_high, shape.size(), kMaxTileRank);
    return errorType();
  }
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size <= 0) {
      report(range, diag::tile_size_not_positive, size);
      return errorType();
    }
    if (__builtin_mul_overflow(elements, size, &elements) || elements > kMaxTileElements) {
      report(range, diag::tile_too_large, shapeText(shape), kMaxTileElements);
      return errorType();
    }
  }
  return types.tile(dtype, shape);
}

Type Checker::withDType(Type type, DType dtype) {
  return type->kind == TypeKind::Tile ? types.tile(dtype, type->shape) : types.scalar(dtype);
}

TExpr *Checker::toValue(TExpr *e) {
  if (e->type->kind != TypeKind::Region)
    return e;
  if (!checkReadable(e, e->range))
    return error(e->range);
  for (auto [dim, size] : llvm::enumerate(e->type->shape)) {
    if (size != kDynamic)
      continue;
    auto message = report(e->range, diag::dynamic_region_as_value, dim, shapeText(e->type->shape));
    noteHowToCut(message, e->range);
    return error(e->range);
  }
  const Type type = valueType(e->type->dtype, e->type->shape, e->range);
  if (type->kind == TypeKind::Error)
    return error(e->range);
  // `x after t` made the load already and left its type open.
  if (e->kind == TExprKind::Load) {
    e->type = type;
    return e;
  }
  TExpr *load = ctx.makeExpr(TExprKind::Load, type, e->range);
  load->operands.push_back(e);
  return load;
}

TExpr *Checker::cast(TExpr *e, DType dtype, SourceRange range) {
  if (e->type->dtype == dtype && !e->adaptable)
    return e;
  if (TExpr *folded = foldCast(e, dtype, range))
    return folded;
  TExpr *result = ctx.makeExpr(TExprKind::Cast, withDType(e->type, dtype), range);
  result->operands.push_back(e);
  return result;
}

void Checker::reportDTypes(SourceRange range, const TExpr *a, const TExpr *b) {
  const DType left = a->type->dtype;
  const DType right = b->type->dtype;
  auto message = report(range, diag::dtype_mismatch, dtypeName(left), dtypeName(right));
  message.note(a->range, diag::note_has_type, typeText(a->type));
  message.note(b->range, diag::note_has_type, typeText(b->type));
  if (left == DType::Bool || right == DType::Bool)
    return;
  const DType wanted = widerOf(left, right);
  const TExpr *narrow = wanted == left ? b : a;
  message.fix({narrow->range.begin, narrow->range.begin}, "cast<" + dtypeName(wanted).str() + ">(")
      .fix({narrow->range.end, narrow->range.end}, ")");
}

bool Checker::unifyDTypes(TExpr *&a, TExpr *&b, SourceRange opRange) {
  const DType left = a->type->dtype;
  const DType right = b->type->dtype;
  if (a->adaptable && b->adaptable) {
    // An integer literal beside a float one is a float literal.
    if (isFloat(left) && isInteger(right))
      b = floatOf(b, left, /*adaptable=*/true);
    else if (isFloat(right) && isInteger(left))
      a = floatOf(a, right, /*adaptable=*/true);
    return a->type->kind != TypeKind::Error && b->type->kind != TypeKind::Error;
  }
  if (left == right)
    return true;
  if (left != DType::Bool && right != DType::Bool) {
    if (a->adaptable) {
      a = adapted(a, right);
      return a->type->kind != TypeKind::Error;
    }
    if (b->adaptable) {
      b = adapted(b, left);
      return b->type->kind != TypeKind::Error;
    }
    if (isI32AndI64(left, right)) {
      a = cast(a, DType::I64, a->range);
      b = cast(b, DType::I64, b->range);
      return true;
    }
  }
  reportDTypes(opRange, a, b);
  return false;
}

bool Checker::broadcastShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b,
                             llvm::SmallVectorImpl<int64_t> &result) {
  const size_t rank = std::max(a.size(), b.size());
  result.assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return false;
    result[rank - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

TExpr *Checker::shapedAs(TExpr *e, llvm::ArrayRef<int64_t> shape) {
  if (shape.empty() || llvm::ArrayRef<int64_t>(e->type->shape) == shape)
    return e;
  const Type type = types.tile(e->type->dtype, shape);
  const bool isScalar = e->type->kind == TypeKind::Scalar;
  TExpr *result =
      ctx.makeExpr(isScalar ? TExprKind::Splat : TExprKind::BroadcastTile, type, e->range);
  result->operands.push_back(e);
  return result;
}

bool Checker::unify(TExpr *&a, TExpr *&b, SourceRange opRange) {
  if (!unifyDTypes(a, b, opRange))
    return false;
  if (a->type->kind == TypeKind::Scalar && b->type->kind == TypeKind::Scalar)
    return true;
  llvm::SmallVector<int64_t, 4> shape;
  if (!broadcastShape(a->type->shape, b->type->shape, shape)) {
    report(opRange, diag::shape_mismatch, shapeText(a->type->shape), shapeText(b->type->shape))
        .note(a->range, diag::note_has_type, typeText(a->type))
        .note(b->range, diag::note_has_type, typeText(b->type));
    return false;
  }
  if (valueType(a->type->dtype, shape, opRange)->kind == TypeKind::Error)
    return false;
  a = shapedAs(a, shape);
  b = shapedAs(b, shape);
  return true;
}

TExpr *Checker::elementwise(ElementwiseOp op, llvm::ArrayRef<TExpr *> operands, SourceRange range) {
  if (TExpr *folded = fold(op, operands, range))
    return folded;
  const bool isComparison = op >= ElementwiseOp::Eq && op <= ElementwiseOp::Ge;
  const Type type = operands.back()->type;
  TExpr *result = ctx.makeExpr(TExprKind::Elementwise,
                               isComparison ? withDType(type, DType::Bool) : type, range);
  result->op = op;
  result->operands.append(operands.begin(), operands.end());
  return result;
}

TExpr *Checker::builtin(BuiltinId id, llvm::ArrayRef<TExpr *> operands, Type type,
                        SourceRange range, llvm::ArrayRef<int64_t> ints) {
  TExpr *result = ctx.makeExpr(TExprKind::Builtin, type, range);
  result->builtin = id;
  result->operands.append(operands.begin(), operands.end());
  result->ints.append(ints.begin(), ints.end());
  return result;
}

// How this body writes an element type: as its one compile-time parameter that has this value,
// since other instances have another one.
std::string Checker::dtypeSpelling(DType dtype) const {
  llvm::StringRef found;
  unsigned count = 0;
  const auto look = [&](llvm::ArrayRef<ast::GenericParam> generics,
                        llvm::ArrayRef<GenericValue> values) {
    for (auto [generic, value] : llvm::zip(generics, values))
      if (value.kind == GenericValue::Kind::DType && value.dtype == dtype) {
        found = generic.name.name;
        ++count;
      }
  };
  if (kernel)
    look(kernel->decl->generics, kernel->generics);
  if (fn)
    look(fn->decl->generics, fn->generics);
  return (count == 1 ? found : dtypeName(dtype)).str();
}

TExpr *Checker::convert(TExpr *e, Type wanted, SourceRange range) {
  if (wanted->kind != TypeKind::Region)
    e = toValue(e);
  if (e->type == wanted || e->type->kind == TypeKind::Error)
    return e;
  if (wanted->kind == TypeKind::Error)
    return error(range);
  if (!wanted->isValue() || !e->type->isValue()) {
    report(range, diag::type_mismatch, typeText(wanted), typeText(e->type));
    return error(range);
  }
  const DType from = e->type->dtype;
  const DType to = wanted->dtype;
  if (from != to) {
    const bool widens = from == DType::I32 && to == DType::I64;
    if (e->adaptable && to != DType::Bool && from != DType::Bool) {
      e = adapted(e, to);
    } else if (widens) {
      e = cast(e, to, e->range);
    } else if (isFloat(to) == isFloat(from) && to != DType::Bool && choosesConstants(e)) {
      // Literals have the type that is wanted, also where one of two is chosen.
      TExpr *whenTrue = adapted(constantOf(e->operands[1]), to);
      TExpr *whenFalse = adapted(constantOf(e->operands[2]), to);
      for (const TExpr *part : {whenTrue, whenFalse})
        if (part->type->kind == TypeKind::Error)
          return error(range);
      e = select(e->operands[0], whenTrue, whenFalse, e->range);
    } else {
      auto message = report(range, diag::type_mismatch, typeText(wanted), typeText(e->type));
      if (isFloat(to) && isInteger(from) && choosesConstants(e))
        message.note(range, diag::note_dtile_form,
                     "numbers with a point make it a tile of floats: `where(c, 1.0, 2.0)`");
      else if (from != DType::Bool && to != DType::Bool)
        message.fix({range.begin, range.begin}, "cast<" + dtypeSpelling(to) + ">(")
            .fix({range.end, range.end}, ")");
      return error(range);
    }
    if (e->type->kind == TypeKind::Error)
      return e;
  }
  llvm::SmallVector<int64_t, 4> shape;
  const bool fits = broadcastShape(e->type->shape, wanted->shape, shape) &&
                    llvm::ArrayRef<int64_t>(shape) == llvm::ArrayRef<int64_t>(wanted->shape);
  if (!fits) {
    report(range, diag::type_mismatch, typeText(wanted), typeText(e->type));
    return error(range);
  }
  return shapedAs(e, wanted->shape);
}

} // namespace dtile::sema
