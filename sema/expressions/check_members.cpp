// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What follows a dot: members and methods of ranges, regions and tiles, names of modules.
#include "sema/checker.h"

namespace dtile::sema {

namespace {

std::optional<RangeMemberKind> rangeMemberKind(llvm::StringRef name) {
  if (name == "lo")
    return RangeMemberKind::Lo;
  if (name == "hi")
    return RangeMemberKind::Hi;
  if (name == "len")
    return RangeMemberKind::Len;
  if (name == "count")
    return RangeMemberKind::Count;
  if (name == "index")
    return RangeMemberKind::Index;
  if (name == "limit")
    return RangeMemberKind::Limit;
  return std::nullopt;
}

constexpr llvm::StringLiteral kRangeMembers[] = {"lo",    "hi",     "len",    "count", "index",
                                                 "limit", "blocks", "chunks", "chunk"};
constexpr llvm::StringLiteral kRegionMembers[] = {"T",     "rows", "cols", "chunk",
                                                  "shard", "size", "dim"};

} // namespace

TExpr *Checker::rangeMember(TExpr *rangeValue, RangeMemberKind member, SourceRange range) {
  const int64_t length = rangeValue->type->shape[0];
  if (member == RangeMemberKind::Len && length != kDynamic)
    return intConst(length, range);
  if (rangeValue->kind == TExprKind::MakeRange) {
    if (member == RangeMemberKind::Lo)
      return rangeValue->operands[0];
    if (member == RangeMemberKind::Limit)
      return rangeValue->operands[1];
  }
  TExpr *result = ctx.makeExpr(TExprKind::RangeMember, types.scalar(DType::I64), range);
  result->operands.push_back(rangeValue);
  result->member = member;
  return result;
}

TExpr *Checker::transposed(TExpr *tile, SourceRange range) {
  if (tile->type->kind == TypeKind::Error)
    return error(range);
  if (tile->type->kind != TypeKind::Tile || tile->type->rank() < 2) {
    report(range, diag::cannot_transpose, typeText(tile->type));
    return error(range);
  }
  llvm::SmallVector<int64_t, 4> shape(tile->type->shape);
  llvm::SmallVector<int64_t, 4> order;
  for (unsigned i = 0; i < shape.size(); ++i)
    order.push_back(i);
  std::swap(shape[0], shape[1]);
  std::swap(order[0], order[1]);
  return builtin(BuiltinId::Trans, {tile}, types.tile(tile->type->dtype, shape), range, order);
}

void Checker::reportNoMember(const TExpr *base, const ast::Ident &member) {
  SpellingSuggestion suggestion(member.name);
  if (base->type->kind == TypeKind::Range)
    for (llvm::StringRef name : kRangeMembers)
      suggestion.consider(name);
  if (base->type->kind == TypeKind::Region)
    for (llvm::StringRef name : kRegionMembers)
      suggestion.consider(name);
  auto message = report(member.range, diag::unknown_member, typeText(base->type), member.name);
  const bool isReduction = member.name == "max" && base->type->kind == TypeKind::Scalar;
  if (!isReduction && noteHabit(message, member.range, habits::findMember(member.name)))
    return;
  if (base->type->kind == TypeKind::Token && member.name == "wait") {
    message.note(member.range, diag::note_dtile_form, "`await t;` waits for a transfer");
    return;
  }
  if (callHandler(member.name)) {
    const bool takesTwo = member.name == "min" || member.name == "max" || member.name == "pow";
    const std::string advice = ("it is a function: `" + member.name + "(" +
                                ctx.sources.text(base->range) + (takesTwo ? ", …)`" : ")`"))
                                   .str();
    message.note(member.range, diag::note_dtile_form, advice);
    return;
  }
  // What is a function elsewhere may be a member there, too: `y[n].atomic_add(1)`.
  if (const habits::Word *function = habits::findName(member.name)) {
    message.note(member.range, diag::note_dtile_form, function->advice);
    return;
  }
  if (!suggestion.best().empty())
    message.note(member.range, diag::note_did_you_mean, suggestion.best())
        .fix(member.range, suggestion.best());
}

TExpr *Checker::memberExpr(const ast::MemberExpr *e) {
  bool failed = false;
  if (const Symbol *symbol = moduleMember(e, failed))
    return symbolValue(*symbol, e->range);
  if (failed)
    return error(e->range);
  TExpr *base = expr(e->base);
  const llvm::StringRef name = e->member.name;
  if (name != "T" && readsNothingOf(base))
    return error(e->range);
  switch (base->type->kind) {
  case TypeKind::Error:
    return base;
  case TypeKind::Range:
    if (std::optional<RangeMemberKind> member = rangeMemberKind(name))
      return rangeMember(base, *member, e->range);
    break;
  case TypeKind::Region:
    if (name == "T")
      return transposed(toValue(base), e->range);
    if (name == "rows" && base->type->rank() >= 1)
      return makeRange(intConst(0, e->range), dimSize(base, 0, e->range), e->range);
    if (name == "cols" && base->type->rank() >= 2)
      return makeRange(intConst(0, e->range), dimSize(base, 1, e->range), e->range);
    break;
  case TypeKind::Tile:
    if (name == "T")
      return transposed(base, e->range);
    break;
  default:
    break;
  }
  reportNoMember(base, e->member);
  return error(e->range);
}

// Whether the tokens of `x after t` are lost: what follows the dot reads no memory.
bool Checker::readsNothingOf(const TExpr *base) {
  if (base->type->kind != TypeKind::Region || base->kind != TExprKind::Load)
    return false;
  report(base->range, diag::after_orders_nothing);
  return true;
}

TExpr *Checker::methodCall(const ast::MemberExpr *callee, const CallSite &site) {
  TExpr *base = expr(callee->base);
  if (!noGenerics(site) || !noShape(site))
    return error(site.range);
  // A part of `x after t` is a part of x, after t.
  if (base->type->kind == TypeKind::Region && base->kind == TExprKind::Load) {
    TExpr *part = regionMethod(base->operands[0], site);
    if (!part || part->type->kind != TypeKind::Region) {
      readsNothingOf(base);
      return error(site.range);
    }
    for (TExpr *t : llvm::drop_begin(base->operands))
      part = withToken(part, t, site.range);
    return part;
  }
  TExpr *result = nullptr;
  if (base->type->kind == TypeKind::Range)
    result = rangeMethod(base, site);
  else if (base->type->kind == TypeKind::Region)
    result = regionMethod(base, site);
  if (result)
    return result;
  if (base->type->kind != TypeKind::Error)
    reportNoMember(base, callee->member);
  for (const ast::Arg &arg : site.args) {
    // `x.to(f16)`: what the note says of the method is all that there is to say.
    const auto *name = llvm::dyn_cast<ast::NameExpr>(arg.value);
    if (!name || !dtypeFromName(name->name))
      (void)expr(arg.value);
  }
  return error(site.range);
}

// Null for a name that is no method.
TExpr *Checker::rangeMethod(TExpr *base, const CallSite &site) {
  const bool isChunk = site.name == "chunk";
  if (site.name != "blocks" && site.name != "chunks" && !isChunk)
    return nullptr;
  if (!checkArgs(site, isChunk ? 2 : 1, isChunk ? 2 : 1))
    return error(site.range);
  TExpr *first = position(site.args[0].value);
  TExpr *last = isChunk ? position(site.args[1].value) : first;
  if (first->type->kind == TypeKind::Error || last->type->kind == TypeKind::Error)
    return error(site.range);
  if (!checkPositive(last))
    return error(site.range);
  if (isChunk)
    return rangeChunk(base, first, last, site.range);
  // `chunks(C)`: C chunks cover what the range's limit covers.
  const Type i64 = types.scalar(DType::I64);
  TExpr *size = first;
  if (site.name == "chunks")
    size = builtin(BuiltinId::Blocks,
                   {rangeMember(base, RangeMemberKind::Limit, site.range), first}, i64, site.range);
  TExpr *result = ctx.makeExpr(TExprKind::RangeBlocks, types.range(kDynamic), site.range);
  result->operands = {base, size};
  return result;
}

TExpr *Checker::rangeChunk(TExpr *base, TExpr *number, TExpr *count, SourceRange range) {
  TExpr *result = ctx.makeExpr(TExprKind::RangeChunk, types.range(kDynamic), range);
  result->operands = {base, number, count};
  return result;
}

// A number of blocks or chunks, or a size of one, that is known must make sense.
bool Checker::checkPositive(const TExpr *count) {
  if (count->kind != TExprKind::Const || int64_t(count->bits) > 0)
    return true;
  report(count->range, diag::step_not_positive, int64_t(count->bits));
  return false;
}

// Null for a name that is no method.
TExpr *Checker::regionMethod(TExpr *base, const CallSite &site) {
  const bool isSize = site.name == "size" || site.name == "dim";
  const bool isChunk = site.name == "chunk";
  if (!isSize && !isChunk && site.name != "shard")
    return nullptr;
  if (!checkArgs(site, isChunk ? 2 : 1, isChunk ? 2 : 1))
    return error(site.range);
  if (isSize) {
    std::optional<int64_t> dim = constInt(site.args[0].value, "the number of a dimension");
    if (!dim)
      return error(site.range);
    if (*dim < 0 || *dim >= int64_t(base->type->rank())) {
      report(site.args[0].value->range, diag::axis_out_of_range, *dim, base->type->rank());
      return error(site.range);
    }
    return dimSize(base, unsigned(*dim), site.range);
  }
  if (base->type->rank() == 0) {
    report(site.range, diag::cannot_index, typeText(base->type));
    return error(site.range);
  }
  TExpr *number = position(site.args[0].value);
  TExpr *count = isChunk ? position(site.args[1].value)
                         : builtin(BuiltinId::NumRanks, {}, types.scalar(DType::I64), site.range);
  if (number->type->kind == TypeKind::Error || count->type->kind == TypeKind::Error)
    return error(site.range);
  if (!checkPositive(count))
    return error(site.range);
  TExpr *rows = makeRange(intConst(0, site.range), dimSize(base, 0, site.range), site.range);
  llvm::SmallVector<IndexItem, 4> items(base->type->rank());
  items[0] = {IndexItem::Kind::Range, rangeChunk(rows, number, count, site.range)};
  return sliceOf(base, items, site.range);
}

} // namespace dtile::sema
