// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Solves sizes such as `N`, `N / 2` or `W * E + 1` for the one generic in them.
#include "sema/declarations/infer.h"

#include "sema/checker.h"
#include "sema/declarations/choices.h"

namespace dtile::sema {

std::optional<size_t> GenericInference::indexOf(llvm::StringRef name) const {
  for (auto [i, generic] : llvm::enumerate(generics_))
    if (generic.name.name == name)
      return i;
  return std::nullopt;
}

bool GenericInference::set(llvm::StringRef name, GenericValue value) {
  std::optional<size_t> index = indexOf(name);
  if (!index || genericKind(generics_[*index]) != value.kind)
    return false;
  values_[*index] = value;
  return true;
}

std::optional<GenericValue::Kind> GenericInference::kindOf(llvm::StringRef name) const {
  const std::optional<size_t> index = indexOf(name);
  return index ? std::optional(genericKind(generics_[*index])) : std::nullopt;
}

bool GenericInference::takeGiven(Checker &caller, llvm::ArrayRef<ast::Arg> given,
                                 llvm::StringRef name, SourceRange nameRange) {
  size_t next = 0;
  for (const ast::Arg &arg : given) {
    std::optional<size_t> index = next;
    if (!arg.label.name.empty())
      index = indexOf(arg.label.name);
    if (!index || *index >= generics_.size()) {
      const SourceRange place = arg.label.name.empty() ? arg.value->range : arg.label.range;
      auto message = context_.report(
          place, arg.label.name.empty() ? diag::too_many_generics : diag::unknown_generic, name,
          arg.label.name.empty() ? std::to_string(generics_.size()) : arg.label.name.str());
      SpellingSuggestion suggestion(arg.label.name);
      for (const ast::GenericParam &generic : generics_)
        suggestion.consider(generic.name.name);
      if (!suggestion.best().empty())
        message.note(place, diag::note_did_you_mean, suggestion.best())
            .fix(place, suggestion.best());
      return false;
    }
    std::optional<GenericValue> value =
        caller.genericValue(arg.value, genericKind(generics_[*index]));
    if (!value)
      return false;
    values_[*index] = value;
    next = *index + 1;
  }
  return true;
}

void GenericInference::unifyDType(llvm::StringRef name, DType dtype) {
  std::optional<size_t> index = indexOf(name);
  if (!index || values_[*index] || genericKind(generics_[*index]) != GenericValue::Kind::DType)
    return;
  values_[*index] = GenericValue{.kind = GenericValue::Kind::DType, .dtype = dtype};
}

// Names in a size without a known value; those that are no generic count for more than can be
// solved.
unsigned GenericInference::countUnknown(const ast::Expr *e, int64_t numRanks) {
  if (const auto *binary = llvm::dyn_cast<ast::BinaryExpr>(e))
    return countUnknown(binary->lhs, numRanks) + countUnknown(binary->rhs, numRanks);
  if (llvm::isa<ast::NameExpr>(e)) {
    std::optional<size_t> index = indexOf(llvm::cast<ast::NameExpr>(e)->name);
    if (index && !values_[*index])
      return 1;
  }
  return evaluate(e, numRanks) ? 0 : 2;
}

std::optional<int64_t> GenericInference::evaluate(const ast::Expr *e, int64_t numRanks) {
  switch (e->kind) {
  case ast::NodeKind::IntLit:
    return int64_t(llvm::cast<ast::IntLit>(e)->value);
  case ast::NodeKind::NameExpr: {
    const llvm::StringRef name = llvm::cast<ast::NameExpr>(e)->name;
    if (std::optional<size_t> index = indexOf(name))
      return values_[*index] ? std::optional(values_[*index]->intValue) : std::nullopt;
    auto constant = home_.names.find(name);
    if (constant != home_.names.end() && constant->second.kind == Symbol::Kind::Const) {
      const TExpr *value = Checker(context_, home_).constValue(constant->second, e->range);
      if (value->type->kind == TypeKind::Scalar && isInteger(value->type->dtype))
        return int64_t(value->bits);
      return std::nullopt;
    }
    if (name == "W" && numRanks > 0)
      return numRanks;
    return std::nullopt;
  }
  case ast::NodeKind::BinaryExpr: {
    const auto *binary = llvm::cast<ast::BinaryExpr>(e);
    const std::optional<int64_t> a = evaluate(binary->lhs, numRanks);
    const std::optional<int64_t> b = evaluate(binary->rhs, numRanks);
    int64_t result = 0;
    if (!a || !b)
      return std::nullopt;
    switch (binary->op) {
    case ast::BinaryOp::Add:
      return __builtin_add_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
    case ast::BinaryOp::Sub:
      return __builtin_sub_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
    case ast::BinaryOp::Mul:
      return __builtin_mul_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
    case ast::BinaryOp::Div:
      return *a < 0 || *b <= 0 ? std::nullopt : std::optional(*a / *b);
    default:
      return std::nullopt;
    }
  }
  default:
    return std::nullopt;
  }
}

void GenericInference::unifySize(const ast::Expr *size, int64_t known, int64_t numRanks) {
  if (known < 0 || countUnknown(size, numRanks) != 1)
    return;
  // Undoes the operators around the one unknown, from outside in.
  while (const auto *binary = llvm::dyn_cast<ast::BinaryExpr>(size)) {
    const bool isLeft = countUnknown(binary->lhs, numRanks) == 1;
    const std::optional<int64_t> other = evaluate(isLeft ? binary->rhs : binary->lhs, numRanks);
    if (!other)
      return;
    switch (binary->op) {
    case ast::BinaryOp::Add:
      known -= *other;
      break;
    case ast::BinaryOp::Sub:
      known = isLeft ? known + *other : *other - known;
      break;
    case ast::BinaryOp::Mul:
      if (*other == 0 || known % *other != 0)
        return;
      known /= *other;
      break;
    case ast::BinaryOp::Div:
      if (!isLeft || __builtin_mul_overflow(known, *other, &known))
        return;
      break;
    default:
      return;
    }
    size = isLeft ? binary->lhs : binary->rhs;
  }
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(size))
    set(name->name, GenericValue{.kind = GenericValue::Kind::Int, .intValue = known});
}

bool GenericInference::unifyShape(llvm::ArrayRef<ast::Expr *> sizes,
                                  llvm::ArrayRef<int64_t> known) {
  const auto isShape = [&](const ast::Expr *size) {
    const auto *name = llvm::dyn_cast<ast::NameExpr>(size);
    return name && kindOf(name->name) == GenericValue::Kind::Shape;
  };
  const auto *rest = llvm::find_if(sizes, isShape);
  if (rest == sizes.end()) {
    if (sizes.size() != known.size())
      return false;
    for (auto [size, value] : llvm::zip(sizes, known))
      unifySize(size, value);
    return true;
  }
  const size_t before = size_t(rest - sizes.begin());
  const size_t behind = sizes.size() - before - 1;
  if (known.size() < before + behind)
    return false;
  for (auto [size, value] : llvm::zip(sizes.take_front(before), known))
    unifySize(size, value);
  for (auto [size, value] : llvm::zip(sizes.take_back(behind), known.take_back(behind)))
    unifySize(size, value);
  const llvm::ArrayRef<int64_t> middle = known.drop_front(before).drop_back(behind);
  std::optional<GenericValue> &value = values_[*indexOf(llvm::cast<ast::NameExpr>(*rest)->name)];
  // A scalar is repeated where another argument has dimensions.
  if (!value || value->sizes.empty())
    value =
        GenericValue{.kind = GenericValue::Kind::Shape, .sizes = {middle.begin(), middle.end()}};
  return true;
}

bool GenericInference::finish(llvm::StringRef name, const ast::Ident &declared, SourceRange place,
                              std::vector<GenericValue> &result) {
  // A default may use the generics before it.
  Checker home(context_, home_);
  home.scope.push();
  bool good = true;
  for (auto [i, generic] : llvm::enumerate(generics_)) {
    const GenericValue::Kind kind = genericKind(generic);
    if (!values_[i] && isChoice(home_, generic))
      values_[i] = unchosenValue(context_, home_, generic);
    else if (!values_[i] && generic.defaultValue)
      values_[i] = home.genericValue(generic.defaultValue, kind);
    else if (!values_[i])
      context_.report(place, diag::missing_generic, name, generic.name.name)
          .note(generic.range, diag::note_declared_here, generic.name.name);
    good &= values_[i].has_value();
    Symbol symbol;
    symbol.kind = Symbol::Kind::Generic;
    symbol.name = generic.name.name;
    symbol.range = generic.name.range;
    symbol.value = values_[i].value_or(GenericValue{.kind = kind, .intValue = 1});
    home.scope.declare(symbol);
    result.push_back(symbol.value);
  }
  return good;
}

} // namespace dtile::sema
