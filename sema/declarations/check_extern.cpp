// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `extern fn`: what it may take and give, its instructions for targets, and its reference, which
// says what they compute.
#include "frontend/base/assembly.h"
#include "sema/checker.h"
#include "sema/tree/walk.h"

#include "llvm/ADT/StringSet.h"

namespace dtile::sema {

namespace {

std::string hole(llvm::StringRef name) { return ("{" + name + "}").str(); }

/// The name of the shape that parameters have; empty where there is none.
llvm::StringRef shapeOf(const ast::FnDecl &decl) {
  for (const ast::GenericParam &generic : decl.generics)
    if (genericKind(generic) == GenericValue::Kind::Shape)
      return generic.name.name;
  return "";
}

bool isShapedAs(const ast::TypeRef &type, llvm::StringRef shape) {
  if (type.shape.size() != 1)
    return false;
  const auto *name = llvm::dyn_cast<ast::NameExpr>(type.shape.front());
  return name != nullptr && !shape.empty() && name->name == shape;
}

bool isElementwise(const TExpr &e) {
  switch (e.kind) {
  case TExprKind::Const:
  case TExprKind::VarRef:
  case TExprKind::Elementwise:
  case TExprKind::Cast:
  case TExprKind::Splat:
  case TExprKind::BroadcastTile:
    return true;
  case TExprKind::Builtin:
    return e.builtin == BuiltinId::Zeros || e.builtin == BuiltinId::Full ||
           e.builtin == BuiltinId::Bitcast;
  default:
    return false;
  }
}

bool isElementwise(const TStmt &s) {
  switch (s.kind) {
  case TStmtKind::Let:
  case TStmtKind::Assign:
  case TStmtKind::For:
  case TStmtKind::While:
  case TStmtKind::If:
  case TStmtKind::Return:
    return true;
  default:
    return false;
  }
}

/// The first place of a function that is not elementwise, in the text of `fn` itself: calls stand
/// for what they call.
std::optional<SourceRange> firstForeign(const FnInstance &fn) {
  std::optional<SourceRange> found;
  const auto note = [&](SourceRange range) {
    if (!found)
      found = range;
  };
  walkBlock(
      fn.body,
      [&](const TStmt &s) {
        if (!isElementwise(s))
          note(s.range);
      },
      [&](const TExpr &e) {
        const bool isScan = e.kind == TExprKind::FnCall && !e.ints.empty();
        const bool isCall = e.kind == TExprKind::FnCall && e.callee != nullptr && !isScan;
        // An `extern fn` is checked by itself.
        const bool isFine =
            isCall ? e.callee->decl->isExtern || !firstForeign(*e.callee) : isElementwise(e);
        if (!isFine)
          note(e.range);
      });
  return found;
}

} // namespace

void Checker::checkExtern(const ast::FnDecl *decl) {
  // What did not parse has been said.
  if (decl->isBroken)
    return;
  if (decl->instructions.empty() && !ctx.hasForeignForm(decl->range))
    report(decl->name.range, diag::extern_without_instructions, decl->name.name);
  if (decl->body == nullptr)
    report(decl->name.range, diag::extern_without_reference, decl->name.name);
  const llvm::StringRef shape = shapeOf(*decl);
  for (const ast::GenericParam &generic : decl->generics)
    if (generic.name.name != shape)
      report(generic.range, diag::extern_generic, decl->name.name);
  for (auto [param, var] : llvm::zip(decl->params, fn->params))
    if (param.type != nullptr && param.mode == ast::ParamMode::Value)
      externType(*param.type, var->type, param.name.name,
                 !param.type->hasShape || isShapedAs(*param.type, shape));
  if (decl->results.size() != 1)
    report(decl->name.range, diag::extern_result, decl->name.name,
           std::to_string(decl->results.size()));
  else
    externType(*decl->results.front(), fn->results.front(), "result",
               shape.empty() ? !decl->results.front()->hasShape
                             : isShapedAs(*decl->results.front(), shape));
  llvm::StringSet<> targets;
  for (const ast::Instructions &one : decl->instructions)
    if (!targets.insert(one.target.name).second)
      report(one.target.range, diag::instructions_twice, decl->name.name, one.target.name);
    else
      externInstructions(*decl, one);
  if (const std::optional<SourceRange> place = firstForeign(*fn))
    report(*place, diag::reference_not_elementwise);
}

void Checker::externType(const ast::TypeRef &ref, Type type, llvm::StringRef name, bool fits) {
  if (type->kind == TypeKind::Error)
    return;
  if (!fits || !type->isValue())
    report(ref.range, diag::extern_value, name, typeText(type));
  else if (!hasRegisters(type->dtype))
    report(ref.range, diag::no_register, dtypeName(type->dtype));
}

void Checker::externInstructions(const ast::FnDecl &decl, const ast::Instructions &one) {
  // They are of another language, which was told.
  if (one.target.name.empty())
    return;
  const std::optional<Assembly> assembly = assemblyFromName(one.target.name);
  if (!assembly) {
    auto message =
        report(one.target.range, diag::unknown_instructions, one.target.name, assemblyNames());
    SpellingSuggestion suggestion(one.target.name);
    for (const Assembly known : allAssemblies())
      suggestion.consider(assemblyName(known));
    if (!suggestion.best().empty())
      message.note(one.target.range, diag::note_did_you_mean, suggestion.best())
          .fix(one.target.range, suggestion.best());
  }
  std::string names;
  for (const ast::Param &param : decl.params)
    names += (names.empty() ? "`" : ", `") + hole(param.name.name) + "`";
  bool givesResult = false;
  eachPiece(
      one.text, [](llvm::StringRef) {},
      [&](llvm::StringRef name) {
        givesResult |= name == "result";
        const bool isKnown =
            name == "result" || llvm::any_of(decl.params, [&](const ast::Param &param) {
              return param.name.name == name;
            });
        if (!isKnown)
          report(one.textRange, diag::unknown_operand, hole(name), "`" + hole("result") + "`",
                 decl.name.name, names.empty() ? "nothing" : names);
      });
  if (!givesResult)
    report(one.textRange, diag::instructions_without_result, hole("result"));
  if (!assembly)
    return;
  const std::string mnemonic = memoryMnemonic(*assembly, one.text);
  if (!mnemonic.empty())
    report(one.textRange, diag::instructions_touch_memory, mnemonic);
  else if (const std::string read = foreignRead(*assembly, one.text); !read.empty())
    report(one.textRange, diag::instructions_read_more, read);
}

} // namespace dtile::sema
