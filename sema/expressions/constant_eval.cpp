// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values known at compile time. Arithmetic on constants is folded as the tree is built, so that a
// size is static exactly when its node is a Const. Integers are kept sign-extended, floats as the
// bits of their type; literals keep their double until a type is wanted.
#include "frontend/base/check.h"
#include "sema/checker.h"

#include <cmath>
#include <limits>

namespace dtile::sema {

namespace {

double doubleOf(const TExpr *e) {
  if (isInteger(e->type->dtype) || e->type->dtype == DType::Bool)
    return double(int64_t(e->bits));
  return e->adaptable ? e->literal : loadAsDouble(e->type->dtype, &e->bits);
}

bool fitsDType(__int128 value, DType dtype) {
  const unsigned bits = dtypeBits(dtype);
  if (dtypeClass(dtype) == DTypeClass::UInt)
    return value >= 0 && value < (__int128(1) << bits);
  const __int128 limit = __int128(1) << (bits - 1);
  return value >= -limit && value < limit;
}

__int128 floorDiv(__int128 a, __int128 b) {
  const __int128 q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

std::optional<bool> compare(ElementwiseOp op, auto a, auto b) {
  switch (op) {
  case ElementwiseOp::Eq:
    return a == b;
  case ElementwiseOp::Ne:
    return a != b;
  case ElementwiseOp::Lt:
    return a < b;
  case ElementwiseOp::Le:
    return a <= b;
  case ElementwiseOp::Gt:
    return a > b;
  case ElementwiseOp::Ge:
    return a >= b;
  default:
    return std::nullopt;
  }
}

std::optional<__int128> foldInts(ElementwiseOp op, __int128 a, __int128 b) {
  switch (op) {
  case ElementwiseOp::Add:
    return a + b;
  case ElementwiseOp::Sub:
    return a - b;
  case ElementwiseOp::Mul:
    return a * b;
  case ElementwiseOp::Div:
    return floorDiv(a, b);
  case ElementwiseOp::Rem:
    return a - floorDiv(a, b) * b;
  case ElementwiseOp::Min:
    return std::min(a, b);
  case ElementwiseOp::Max:
    return std::max(a, b);
  case ElementwiseOp::And:
    return a & b;
  case ElementwiseOp::Or:
    return a | b;
  case ElementwiseOp::Xor:
    return a ^ b;
  case ElementwiseOp::Neg:
    return -a;
  case ElementwiseOp::Not:
    return ~a;
  case ElementwiseOp::Abs:
    return a < 0 ? -a : a;
  case ElementwiseOp::Shl:
    return b < 0 || b > 63 ? std::nullopt : std::optional(a << int(b));
  case ElementwiseOp::Shr:
    return b < 0 || b > 63 ? std::nullopt : std::optional(a >> int(b));
  default:
    return std::nullopt;
  }
}

std::optional<double> foldFloats(ElementwiseOp op, double a, double b) {
  switch (op) {
  case ElementwiseOp::Add:
    return a + b;
  case ElementwiseOp::Sub:
    return a - b;
  case ElementwiseOp::Mul:
    return a * b;
  case ElementwiseOp::Div:
    return a / b;
  case ElementwiseOp::Min:
    return std::fmin(a, b);
  case ElementwiseOp::Max:
    return std::fmax(a, b);
#define DTILE_Unary(KIND)                                                                          \
  case ElementwiseOp::KIND:                                                                        \
    return computeReal(UnaryOp::KIND, a);
#define DTILE_Binary(KIND)
#define ELEMENTWISE(KIND, NAME, ARITY, TYPES, CALL, DOC) DTILE_##ARITY(KIND)
#include "frontend/base/elementwise.def"
#undef DTILE_Unary
#undef DTILE_Binary
  case ElementwiseOp::Pow:
    return std::pow(a, b);
  case ElementwiseOp::Rem:
  case ElementwiseOp::And:
  case ElementwiseOp::Or:
  case ElementwiseOp::Xor:
  case ElementwiseOp::Shl:
  case ElementwiseOp::Shr:
  case ElementwiseOp::Eq:
  case ElementwiseOp::Ne:
  case ElementwiseOp::Lt:
  case ElementwiseOp::Le:
  case ElementwiseOp::Gt:
  case ElementwiseOp::Ge:
  case ElementwiseOp::Select:
    return std::nullopt;
  }
  DTILE_UNREACHABLE("unknown operation");
}

// A quotient of integers that is not exact, or what was computed from one.
bool isRounded(const TExpr *e) {
  return e->adaptable && isInteger(e->type->dtype) && e->literal != double(int64_t(e->bits));
}

// `1 / 2` with floats for its integers; empty where other things stand in it.
std::string withFloats(llvm::StringRef text) {
  if (text.find_first_not_of("0123456789 +-*/()") != llvm::StringRef::npos)
    return "";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    const bool endsNumber =
        llvm::isDigit(text[i]) && (i + 1 == text.size() || !llvm::isDigit(text[i + 1]));
    result += endsNumber ? ".0" : "";
  }
  return result;
}

bool isZero(const TExpr *e) { return e->kind == TExprKind::Const && e->bits == 0; }

} // namespace

TExpr *Checker::intConst(int64_t value, SourceRange range, DType dtype, bool adaptable) {
  TExpr *e = ctx.makeExpr(TExprKind::Const, types.scalar(dtype), range);
  e->bits = uint64_t(value);
  e->adaptable = adaptable;
  e->literal = double(value);
  return e;
}

TExpr *Checker::floatConst(double value, SourceRange range, DType dtype, bool adaptable) {
  TExpr *e = ctx.makeExpr(TExprKind::Const, types.scalar(dtype), range);
  storeFromDouble(dtype, &e->bits, value);
  e->adaptable = adaptable;
  e->literal = value;
  return e;
}

TExpr *Checker::boolConst(bool value, SourceRange range) {
  TExpr *e = ctx.makeExpr(TExprKind::Const, types.scalar(DType::Bool), range);
  e->bits = value ? 1 : 0;
  return e;
}

TExpr *Checker::fold(ElementwiseOp op, llvm::ArrayRef<TExpr *> operands, SourceRange range) {
  const DType dtype = operands.back()->type->dtype;
  const bool isDivision = op == ElementwiseOp::Div || op == ElementwiseOp::Rem;
  if (isDivision && isInteger(dtype) && isZero(operands[1])) {
    report(operands[1]->range, diag::division_by_zero);
    return error(range);
  }
  bool adaptable = op != ElementwiseOp::Select;
  for (const TExpr *operand : operands) {
    if (operand->kind != TExprKind::Const)
      return nullptr;
    adaptable &= operand->adaptable;
  }
  if (op == ElementwiseOp::Select) {
    TExpr *chosen = operands[operands[0]->bits ? 1 : 2];
    TExpr *copy = ctx.makeExpr(TExprKind::Const, chosen->type, range);
    copy->bits = chosen->bits;
    copy->adaptable = operands[1]->adaptable && operands[2]->adaptable;
    copy->literal = chosen->literal;
    return copy;
  }
  const TExpr *a = operands[0];
  const TExpr *b = operands.back();
  if (isFloat(dtype)) {
    if (std::optional<bool> answer = compare(op, doubleOf(a), doubleOf(b)))
      return boolConst(*answer, range);
    if (std::optional<double> value = foldFloats(op, doubleOf(a), doubleOf(b)))
      return floatConst(*value, range, dtype, adaptable);
    return nullptr;
  }
  const bool isU64 = dtype == DType::U64;
  const __int128 x = isU64 ? __int128(a->bits) : __int128(int64_t(a->bits));
  const __int128 y = isU64 ? __int128(b->bits) : __int128(int64_t(b->bits));
  if (std::optional<bool> answer = compare(op, x, y))
    return boolConst(*answer, range);
  if (dtype == DType::Bool) {
    if (op == ElementwiseOp::Not)
      return boolConst(!a->bits, range);
    std::optional<__int128> value = foldInts(op, x, y);
    return value ? boolConst(*value != 0, range) : nullptr;
  }
  std::optional<__int128> value = foldInts(op, x, y);
  if (!value)
    return nullptr;
  if (op == ElementwiseOp::Not && dtypeClass(dtype) == DTypeClass::UInt)
    *value &= (__int128(1) << dtypeBits(dtype)) - 1;
  if (!fitsDType(*value, dtype)) {
    report(range, diag::constant_overflow, dtypeName(dtype));
    return error(range);
  }
  TExpr *result = intConst(int64_t(*value), range, dtype, adaptable);
  const bool isInexact = op == ElementwiseOp::Div && x % y != 0;
  if (adaptable && (isInexact || isRounded(a) || isRounded(b)))
    result->literal = foldFloats(op, a->literal, b->literal).value_or(result->literal);
  return result;
}

TExpr *Checker::foldCast(TExpr *operand, DType dtype, SourceRange range) {
  if (operand->kind != TExprKind::Const)
    return nullptr;
  if (isFloat(dtype))
    return floatConst(doubleOf(operand), range, dtype);
  TExpr *result = ctx.makeExpr(TExprKind::Const, types.scalar(dtype), range);
  uint64_t bits = 0;
  if (isFloat(operand->type->dtype))
    storeFromDouble(dtype, &bits, doubleOf(operand));
  else if (dtype == DType::Bool)
    bits = operand->bits != 0;
  else
    storeFromInt(dtype, &bits, int64_t(operand->bits));
  result->bits = uint64_t(loadAsInt(dtype, &bits));
  return result;
}

TExpr *Checker::adapted(TExpr *constant, DType dtype) {
  const DType from = constant->type->dtype;
  if (isInteger(from) && isInteger(dtype)) {
    if (!fitsDType(int64_t(constant->bits), dtype)) {
      report(constant->range, diag::literal_does_not_fit, int64_t(constant->bits),
             dtypeName(dtype));
      return error(constant->range);
    }
    return intConst(int64_t(constant->bits), constant->range, dtype);
  }
  if (isFloat(dtype))
    return floatOf(constant, dtype, /*adaptable=*/false);
  report(constant->range, diag::literal_of_other_class, dtypeName(dtype));
  return error(constant->range);
}

TExpr *Checker::floatOf(TExpr *constant, DType dtype, bool adaptable) {
  if (!isRounded(constant))
    return floatConst(doubleOf(constant), constant->range, dtype, adaptable);
  auto message =
      report(constant->range, diag::rounded_quotient, int64_t(constant->bits), dtypeName(dtype));
  const std::string meant = withFloats(ctx.sources.text(constant->range));
  if (meant.empty())
    message.note(constant->range, diag::note_dtile_form,
                 "of floats it is `cast<f32>(a) / b`; `cast<f32>(a / b)` says that it is rounded");
  else
    message.fix(constant->range, meant);
  return error(constant->range);
}

std::optional<int64_t> Checker::constInt(const ast::Expr *e, llvm::StringRef what) {
  const auto *name = llvm::dyn_cast<ast::NameExpr>(e);
  const Symbol *symbol = name ? lookup(name->name) : nullptr;
  const bool isParameter = symbol && symbol->kind == Symbol::Kind::Param;
  if (kernel && name && !name->name.empty() && !symbol) {
    reportUnknown(e->range, name->name,
                  ("a compile-time parameter of a kernel is `kernel " + kernel->decl->name.name +
                   "<" + name->name + " = 64>(…)`")
                      .str());
    return std::nullopt;
  }
  TExpr *checked = value(e);
  if (checked->type->kind == TypeKind::Error)
    return std::nullopt;
  if (checked->kind == TExprKind::Const && isInteger(checked->type->dtype))
    return int64_t(checked->bits);
  auto message = report(e->range, diag::not_constant, what);
  if (isParameter && kernel)
    message.note(symbol->range, diag::note_dtile_form,
                 ("a parameter that is known at compile time is `kernel " +
                  kernel->decl->name.name + "<" + symbol->name + " = 64>(…)`")
                     .str());
  return std::nullopt;
}

TExpr *Checker::constValue(const Symbol &symbol, SourceRange range) {
  const auto *decl = llvm::cast<ast::ConstDecl>(symbol.decl);
  auto [found, isNew] = ctx.consts.try_emplace(decl);
  if (!isNew && found->second.state == ConstEntry::State::Evaluating) {
    report(range, diag::constant_cycle, symbol.name)
        .note(decl->name.range, diag::note_declared_here, symbol.name);
    return error(range);
  }
  if (isNew) {
    // The value is written in the scope of its own module.
    Checker home(ctx, *symbol.module);
    home.scope.push();
    TExpr *result = home.value(decl->value);
    if (decl->type) {
      const Type wanted = home.valueTypeRef(*decl->type);
      result = home.convert(result, wanted, decl->value->range);
    }
    if (result->type->kind != TypeKind::Error && result->kind != TExprKind::Const) {
      report(decl->value->range, diag::not_constant, "the value of a `const`");
      result = error(decl->value->range);
    }
    home.leaveScope();
    // The map may have grown meanwhile.
    ConstEntry &entry = ctx.consts[decl];
    entry.value = result;
    entry.state = ConstEntry::State::Done;
  }
  TExpr *copy = ctx.makeExpr(TExprKind::Const, types.error(), range);
  const TExpr *known = ctx.consts[decl].value;
  copy->type = known->type;
  copy->bits = known->bits;
  copy->adaptable = known->adaptable;
  copy->literal = known->literal;
  return copy;
}

std::optional<GenericValue> Checker::genericValue(const ast::Expr *e, GenericValue::Kind kind) {
  GenericValue result;
  result.kind = kind;
  if (kind == GenericValue::Kind::DType) {
    std::optional<DType> dtype = dtypeArg(e);
    if (!dtype)
      return std::nullopt;
    result.dtype = *dtype;
    return result;
  }
  if (kind == GenericValue::Kind::Shape) {
    report(e->range, diag::not_constant, "a shape follows from the arguments, and");
    return std::nullopt;
  }
  TExpr *checked = value(e);
  if (checked->type->kind == TypeKind::Error)
    return std::nullopt;
  const bool wantsBool = kind == GenericValue::Kind::Bool;
  const bool fits =
      wantsBool ? checked->type->dtype == DType::Bool : isInteger(checked->type->dtype);
  if (checked->kind != TExprKind::Const || !fits) {
    report(e->range, diag::not_constant,
           wantsBool ? "a compile-time bool" : "a compile-time integer");
    return std::nullopt;
  }
  result.intValue = int64_t(checked->bits);
  return result;
}

} // namespace dtile::sema
