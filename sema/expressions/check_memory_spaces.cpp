// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which objects may be read, written and reached from other ranks.
#include "sema/checker.h"

namespace dtile::sema {

namespace {

// The place of `in`, `symm` … of a parameter, or where it would stand.
SourceRange modeRange(const SourceManager &sources, const ast::Param &param) {
  const SourceLoc begin = param.name.range.end;
  const llvm::StringRef between = sources.text(SourceRange{begin, param.type->range.begin});
  const size_t first = between.find_first_not_of(": \t\r\n");
  if (first == llvm::StringRef::npos)
    return {param.type->range.begin, param.type->range.begin};
  return {{begin.offset + unsigned(first)}, {begin.offset + unsigned(between.rtrim().size())}};
}

// Gives a parameter another mode.
void fixMode(const SourceManager &sources, DiagBuilder &message, const ast::Param &param,
             llvm::StringRef mode) {
  const SourceRange place = modeRange(sources, param);
  message.fix(place, place.begin == place.end ? (mode + " ").str() : mode.str());
}

} // namespace

const ast::Param *Checker::rootParam(const TExpr *e) const {
  while (e->kind == TExprKind::Slice || e->kind == TExprKind::Remote ||
         e->kind == TExprKind::Load || e->kind == TExprKind::Gather)
    e = e->operands[0];
  if (e->kind != TExprKind::ParamRef || !kernel)
    return nullptr;
  return &kernel->decl->params[e->param];
}

bool Checker::checkWritable(const TExpr *region, SourceRange range) {
  if (region->type->writable)
    return true;
  const ast::Param *param = rootParam(region);
  auto message = report(range, diag::write_to_input, param ? param->name.name : "the object");
  if (param && param->type)
    fixMode(ctx.sources, message.note(param->range, diag::note_declared_here, param->name.name),
            *param, "inout");
  return false;
}

bool Checker::checkReadable(const TExpr *region, SourceRange range) {
  if (region->type->readable)
    return true;
  const ast::Param *param = rootParam(region);
  auto message = report(range, diag::read_of_output, param ? param->name.name : "the object");
  if (param && param->type)
    fixMode(ctx.sources, message.note(param->range, diag::note_declared_here, param->name.name),
            *param, "inout");
  return false;
}

bool Checker::checkSymmetric(const TExpr *object, SourceRange range) {
  if (object->type->space == Space::Symm)
    return true;
  const ast::Param *param = rootParam(object);
  auto message = report(range, diag::remote_needs_symm, param ? param->name.name : "the object");
  if (param && param->type)
    fixMode(ctx.sources, message.note(param->range, diag::note_declared_here, param->name.name),
            *param, "symm");
  return false;
}

void Checker::checkParamSpace(const ast::Param &param, const KernelParam &checked) {
  const bool isSymm =
      param.mode == ast::ParamMode::Symm || param.mode == ast::ParamMode::ScratchSymm;
  if (checked.type->kind == TypeKind::Signal && !isSymm) {
    auto message = report(param.range, diag::signal_not_symm, param.name.name);
    fixMode(ctx.sources, message, param, "symm");
  }
  if (param.init && param.mode != ast::ParamMode::ScratchSymm)
    report(param.init->range, diag::initial_value_of_argument, param.name.name)
        .note(param.init->range, diag::note_dtile_form,
              ("a number that never changes is `const " + param.name.name.upper() + " = " +
               ctx.sources.text(param.init->range) + ";` before the kernel")
                  .str());
}

} // namespace dtile::sema
