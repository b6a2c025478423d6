// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types, annotations and static sizes.
#include "sema/checker.h"

namespace dtile::sema {

std::optional<DType> Checker::dtypeNamed(llvm::StringRef name, SourceRange range) {
  // Nothing else can have such a name.
  if (std::optional<DType> dtype = dtypeFromName(name))
    return dtype;
  // What stands here was told.
  if (name.empty())
    return std::nullopt;
  if (const Symbol *symbol = lookup(name)) {
    if (symbol->kind == Symbol::Kind::Generic && symbol->value.kind == GenericValue::Kind::DType)
      return symbol->value.dtype;
    auto message = report(range, diag::not_a_type, name);
    message.note(symbol->range, diag::note_declared_here, symbol->name);
    // `kernel k<T>`
    const bool isInteger =
        symbol->kind == Symbol::Kind::Generic && symbol->value.kind == GenericValue::Kind::Int;
    if (isInteger)
      message.note(symbol->range, diag::note_dtile_form,
                   ("an element type is `" + symbol->name + ": dtype`").str());
    return std::nullopt;
  }
  SpellingSuggestion suggestion(name);
  scope.forEachName([&](llvm::StringRef n) {
    const Symbol *symbol = scope.lookup(n);
    if (symbol->kind == Symbol::Kind::Generic && symbol->value.kind == GenericValue::Kind::DType)
      suggestion.consider(n);
  });
#define DTYPE(ID, NAME, BITS, CLASS) suggestion.consider(NAME);
#include "frontend/base/dtypes.def"
  auto message = report(range, diag::unknown_type, name);
  if (name == "tf32") {
    message.note(range, diag::note_tf32);
    return std::nullopt;
  }
  const llvm::StringRef meant = habits::elementType(name);
  if (const habits::Word *word = habits::findTypeName(name))
    message.note(range, diag::note_dtile_form, word->advice);
  else if (!meant.empty())
    message.note(range, diag::note_did_you_mean, meant).fix(range, meant);
  else if (!suggestion.best().empty())
    message.note(range, diag::note_did_you_mean, suggestion.best()).fix(range, suggestion.best());
  return std::nullopt;
}

std::optional<DType> Checker::dtypeArg(const ast::Expr *e) {
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(e))
    return dtypeNamed(name->name, e->range);
  if (const auto *member = llvm::dyn_cast<ast::MemberExpr>(e);
      member && reportForeignModule(member))
    return std::nullopt;
  if (e->kind != ast::NodeKind::ErrorExpr)
    report(e->range, diag::not_a_type, ctx.sources.text(e->range));
  return std::nullopt;
}

bool Checker::staticSizes(llvm::ArrayRef<ast::Expr *> sizes,
                          llvm::SmallVectorImpl<int64_t> &result) {
  bool good = true;
  for (const ast::Expr *size : sizes) {
    // `S` of `fn f<S: shape>(x: f32[S])` is all of its sizes.
    const auto *name = llvm::dyn_cast<ast::NameExpr>(size);
    const Symbol *symbol = name ? scope.lookup(name->name) : nullptr;
    if (symbol && symbol->kind == Symbol::Kind::Generic &&
        symbol->value.kind == GenericValue::Kind::Shape) {
      result.append(symbol->value.sizes.begin(), symbol->value.sizes.end());
      continue;
    }
    std::optional<int64_t> known = constInt(size, "the size of a tile");
    good &= known.has_value();
    result.push_back(known.value_or(1));
    if (known && *known <= 0) {
      report(size->range, diag::tile_size_not_positive, *known);
      good = false;
    }
  }
  return good;
}

Type Checker::valueTypeRef(const ast::TypeRef &ref) {
  const llvm::StringRef name = ref.name.name;
  if (name.empty())
    return errorType();
  if (!lookup(name) && !ref.hasShape) {
    if (name == "token")
      return types.token();
    if (name == "acquire")
      return types.acquire();
    if (name == "range")
      return types.range(kDynamic);
  }
  std::optional<DType> dtype = dtypeNamed(name, ref.name.range);
  llvm::SmallVector<int64_t, 4> sizes;
  const bool sizesGood = staticSizes(ref.shape, sizes);
  if (!dtype || !sizesGood)
    return errorType();
  return valueType(*dtype, sizes, ref.range);
}

} // namespace dtile::sema
