// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `scan(x, f, axis: k)` and `reduce(x, f, axis: k)`: calls of f along an axis.
#include "sema/checker.h"
#include "sema/declarations/tensor_functions.h"

namespace dtile::sema {

namespace {

/// Of how many tiles at once one function joins the elements.
constexpr unsigned kMostScanned = 8;

/// How a function is written that joins so many values of these types.
std::string joinerText(llvm::ArrayRef<TExpr *> tiles) {
  const auto listed = [&](llvm::StringRef name) {
    std::string list;
    for (auto [i, tile] : llvm::enumerate(tiles))
      list += (i == 0 ? "" : ", ") + (name.empty() ? "" : (name + llvm::Twine(i) + ": ").str()) +
              dtypeName(tile->type->dtype).str() + "[S]";
    return list;
  };
  const std::string results = tiles.size() == 1 ? listed("") : "(" + listed("") + ")";
  return "`fn f<S: shape>(" + listed("x") + ", " + listed("y") + ") -> " + results + "`";
}

/// Whether it stands for any number of sizes.
bool isOfAnyShape(const ast::GenericParam &param) {
  return genericKind(param) == GenericValue::Kind::Shape;
}

} // namespace

/// The function that an argument names; null where it names none.
const Symbol *Checker::functionGiven(const ast::Expr *e) {
  bool failed = false;
  if (const auto *member = llvm::dyn_cast<ast::MemberExpr>(e)) {
    const Symbol *symbol = moduleMember(member, failed);
    return symbol && symbol->kind == Symbol::Kind::Fn ? symbol : nullptr;
  }
  const auto *name = llvm::dyn_cast<ast::NameExpr>(e);
  const auto found = name ? module.names.find(name->name) : module.names.end();
  if (found == module.names.end() || found->second.kind != Symbol::Kind::Fn)
    return nullptr;
  found->second.used = true;
  return &found->second;
}

bool Checker::scannedTiles(const CallSite &site, llvm::ArrayRef<const ast::Expr *> given,
                           llvm::SmallVectorImpl<TExpr *> &tiles) {
  for (const ast::Expr *one : given) {
    TExpr *tile = value(one);
    if (tile->type->kind == TypeKind::Error)
      return false;
    if (tile->type->kind != TypeKind::Tile) {
      auto message = report(tile->range, diag::type_mismatch, "a tile", typeText(tile->type));
      if (tile->type->kind == TypeKind::Scalar && isInteger(tile->type->dtype))
        message.note(tile->range, diag::note_dtile_form,
                     "an axis is labelled: `" + site.name.str() + "(x, f, axis: 0)`");
      return false;
    }
    if (!tiles.empty() && !llvm::equal(tile->type->shape, tiles.front()->type->shape)) {
      report(tile->range, diag::shape_mismatch, shapeText(tiles.front()->type->shape),
             shapeText(tile->type->shape))
          .note(tiles.front()->range, diag::note_has_type, typeText(tiles.front()->type));
      return false;
    }
    tiles.push_back(tile);
  }
  return true;
}

const ast::Expr *Checker::tilesToJoin(const CallSite &site, llvm::SmallVectorImpl<TExpr *> &tiles) {
  if (!checkArgs(site, 2, kMostScanned + 1, {"axis"}) || !noGenerics(site) || !noShape(site))
    return nullptr;
  llvm::SmallVector<const ast::Expr *, 4> given;
  while (const ast::Expr *one = positional(site, unsigned(given.size())))
    given.push_back(one);
  const ast::Expr *function = given.pop_back_val();
  return scannedTiles(site, given, tiles) ? function : nullptr;
}

const Symbol *Checker::joinerNamed(const ast::Expr *function, llvm::ArrayRef<TExpr *> tiles) {
  const unsigned errorsBefore = ctx.errors;
  const Symbol *symbol = functionGiven(function);
  // A module without it was reported, and so was what the parser has put a name in place of.
  const auto *form = llvm::dyn_cast<ast::NameExpr>(function);
  if (!symbol && ctx.errors == errorsBefore && (!form || !form->name.empty()))
    report(function->range, diag::type_mismatch, joinerText(tiles),
           "`" + ctx.sources.text(function->range).str() + "`");
  return symbol;
}

FnInstance *Checker::joinerOf(const Symbol &symbol, const ast::Expr *function,
                              llvm::ArrayRef<TExpr *> tiles, llvm::ArrayRef<Type> halves) {
  const auto *decl = llvm::cast<ast::FnDecl>(symbol.decl);
  const llvm::StringRef name = ctx.sources.text(function->range);
  const auto refuse = [&]() -> FnInstance * {
    report(function->range, diag::type_mismatch, joinerText(tiles), "`" + name.str() + "`")
        .note(decl->name.range, diag::note_declared_here, decl->name.name);
    return nullptr;
  };
  const bool ofSmaller = halves.front() != tiles.front()->type;
  if (isTensorFunction(*decl) || decl->params.size() != 2 * halves.size() ||
      (ofSmaller && llvm::none_of(decl->generics, isOfAnyShape)))
    return refuse();
  // Stand-ins: only their types matter.
  llvm::SmallVector<TExpr *, 8> args;
  for (auto [tile, type] : llvm::zip_equal(tiles, halves))
    args.push_back(ctx.makeExpr(tile->kind, type, tile->range));
  args.append(args.begin(), args.begin() + ptrdiff_t(halves.size()));
  CallSite call;
  call.name = name;
  call.range = call.nameRange = function->range;
  std::vector<GenericValue> values;
  if (!inferFnGenerics(decl, *symbol.module, call, args, values))
    return nullptr;
  FnInstance *callee = fnInstance(decl, values, function->range, /*isReference=*/false);
  if (!callee)
    return nullptr;
  const bool fits = llvm::equal(callee->results, halves) &&
                    llvm::equal(callee->params, args, [](const auto &param, const TExpr *arg) {
                      return param->type == arg->type;
                    });
  if (!fits)
    return refuse();
  std::vector<FnInstance *> &callees = kernel ? kernel->callees : fn->callees;
  if (!llvm::is_contained(callees, callee))
    callees.push_back(callee);
  return callee;
}

TExpr *Checker::callScan(const CallSite &site) {
  llvm::SmallVector<TExpr *, 4> tiles;
  const ast::Expr *function = tilesToJoin(site, tiles);
  if (!function)
    return error(site.range);
  const std::optional<unsigned> axis = axisAlong(site, *tiles.front()->type);
  const Symbol *symbol = axis ? joinerNamed(function, tiles) : nullptr;
  if (!symbol)
    return error(site.range);
  llvm::SmallVector<Type, 4> whole;
  for (const TExpr *tile : tiles)
    whole.push_back(tile->type);
  FnInstance *callee = joinerOf(*symbol, function, tiles, whole);
  return callee ? joined(site, callee, tiles, *axis) : error(site.range);
}

TExpr *Checker::callReduce(const CallSite &site) {
  llvm::SmallVector<TExpr *, 4> tiles;
  const ast::Expr *function = tilesToJoin(site, tiles);
  if (!function)
    return error(site.range);
  std::optional<unsigned> axis = 0;
  if (labelled(site, "axis"))
    axis = axisArg(site, tiles.front()->type->rank());
  const Symbol *symbol = axis ? joinerNamed(function, tiles) : nullptr;
  if (!symbol)
    return error(site.range);
  if (!labelled(site, "axis")) {
    // All elements: as one long dimension.
    int64_t elements = 1;
    for (const int64_t size : tiles.front()->type->shape)
      elements *= size;
    for (TExpr *&tile : tiles)
      tile = reshaped(tile, {elements}, site.range);
  }
  llvm::SmallVector<int64_t, 4> shape(tiles.front()->type->shape);
  int64_t length = shape[*axis];
  llvm::SmallVector<FnInstance *, 8> steps;
  do {
    length = llvm::divideCeil(length, 2);
    shape[*axis] = length;
    if (length == 1)
      shape.erase(shape.begin() + *axis);
    llvm::SmallVector<Type, 4> halves;
    for (const TExpr *tile : tiles)
      halves.push_back(valueType(tile->type->dtype, shape, site.range));
    FnInstance *callee = joinerOf(*symbol, function, tiles, halves);
    if (!callee)
      return error(site.range);
    steps.push_back(callee);
  } while (length > 1);
  TExpr *result = joined(site, steps.back(), tiles, *axis);
  result->steps.append(steps.begin(), steps.end());
  return result;
}

TExpr *Checker::joined(const CallSite &site, FnInstance *callee, llvm::ArrayRef<TExpr *> tiles,
                       unsigned axis) {
  const Type type = tiles.size() == 1 ? callee->results[0] : types.voidType();
  TExpr *result = ctx.makeExpr(TExprKind::FnCall, type, site.range);
  result->callee = callee;
  result->operands.append(tiles.begin(), tiles.end());
  result->ints.push_back(axis);
  return result;
}

} // namespace dtile::sema
