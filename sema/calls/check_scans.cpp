// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `scan(x, f, axis: k)`: a call of f along an axis.
#include "sema/checker.h"
#include "sema/declarations/tensor_functions.h"

namespace dtile::sema {

namespace {

/// Of how many tiles at once running results are taken.
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

bool Checker::scannedTiles(llvm::ArrayRef<const ast::Expr *> given,
                           llvm::SmallVectorImpl<TExpr *> &tiles) {
  for (const ast::Expr *one : given) {
    TExpr *tile = value(one);
    if (tile->type->kind == TypeKind::Error)
      return false;
    if (tile->type->kind != TypeKind::Tile) {
      auto message = report(tile->range, diag::type_mismatch, "a tile", typeText(tile->type));
      if (tile->type->kind == TypeKind::Scalar && isInteger(tile->type->dtype))
        message.note(tile->range, diag::note_dtile_form,
                     "an axis is labelled: `scan(x, f, axis: 0)`");
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

TExpr *Checker::callScan(const CallSite &site) {
  if (!checkArgs(site, 2, kMostScanned + 1, {"axis"}) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  llvm::SmallVector<const ast::Expr *, 4> given;
  while (const ast::Expr *one = positional(site, unsigned(given.size())))
    given.push_back(one);
  const ast::Expr *function = given.pop_back_val();
  llvm::SmallVector<TExpr *, 4> tiles;
  if (!scannedTiles(given, tiles))
    return error(site.range);
  const std::optional<unsigned> axis = axisAlong(site, *tiles.front()->type);
  if (!axis)
    return error(site.range);
  const llvm::StringRef name = ctx.sources.text(function->range);
  const unsigned errorsBefore = ctx.errors;
  const Symbol *symbol = functionGiven(function);
  if (!symbol) {
    // A module without it was reported, and so was what the parser has put a name in place of.
    const auto *form = llvm::dyn_cast<ast::NameExpr>(function);
    if (ctx.errors != errorsBefore || (form && form->name.empty()))
      return error(site.range);
    report(function->range, diag::type_mismatch, joinerText(tiles), "`" + name.str() + "`");
    return error(site.range);
  }
  const auto *decl = llvm::cast<ast::FnDecl>(symbol->decl);
  llvm::SmallVector<TExpr *, 8> args(tiles.begin(), tiles.end());
  args.append(tiles.begin(), tiles.end());
  const auto refuse = [&] {
    report(function->range, diag::type_mismatch, joinerText(tiles), "`" + name.str() + "`")
        .note(decl->name.range, diag::note_declared_here, decl->name.name);
    return error(site.range);
  };
  if (isTensorFunction(*decl) || decl->params.size() != args.size())
    return refuse();
  CallSite call;
  call.name = name;
  call.range = call.nameRange = function->range;
  std::vector<GenericValue> values;
  if (!inferFnGenerics(decl, *symbol->module, call, args, values))
    return error(site.range);
  FnInstance *callee = fnInstance(decl, values, function->range, /*isReference=*/false);
  if (!callee)
    return error(site.range);
  const auto hasType = [](Type type, const TExpr *tile) { return type == tile->type; };
  const bool fits =
      callee->results.size() == tiles.size() && llvm::equal(callee->results, tiles, hasType) &&
      llvm::equal(callee->params, args,
                  [](const auto &param, const TExpr *arg) { return param->type == arg->type; });
  if (!fits)
    return refuse();
  std::vector<FnInstance *> &callees = kernel ? kernel->callees : fn->callees;
  if (!llvm::is_contained(callees, callee))
    callees.push_back(callee);
  const Type type = tiles.size() == 1 ? callee->results[0] : types.voidType();
  TExpr *result = ctx.makeExpr(TExprKind::FnCall, type, site.range);
  result->callee = callee;
  result->operands.append(tiles.begin(), tiles.end());
  result->ints.push_back(*axis);
  return result;
}

} // namespace dtile::sema
