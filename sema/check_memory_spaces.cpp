// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which objects may be read, written and reached from other ranks.
#include "sema/checker.h"

namespace dtile::sema {

namespace {

// The place of `in`, `symm` … of a parameter: between its name and its type.
SourceRange modeRange(const ast::Param &param) {
  return {param.name.range.end, param.type->range.begin};
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
    message.note(param->range, diag::note_declared_here, param->name.name)
        .fix(modeRange(*param), ": inout ");
  return false;
}

bool Checker::checkReadable(const TExpr *region, SourceRange range) {
  if (region->type->readable)
    return true;
  const ast::Param *param = rootParam(region);
  auto message = report(range, diag::read_of_output, param ? param->name.name : "the object");
  if (param && param->type)
    message.note(param->range, diag::note_declared_here, param->name.name)
        .fix(modeRange(*param), ": inout ");
  return false;
}

bool Checker::checkSymmetric(const TExpr *object, SourceRange range) {
  if (object->type->space == Space::Symm)
    return true;
  const ast::Param *param = rootParam(object);
  auto message = report(range, diag::remote_needs_symm, param ? param->name.name : "the object");
  if (param && param->type)
    message.note(param->range, diag::note_declared_here, param->name.name)
        .fix(modeRange(*param), ": symm ");
  return false;
}

void Checker::checkParamSpace(const ast::Param &param, const KernelParam &checked) {
  const bool isSymm =
      param.mode == ast::ParamMode::Symm || param.mode == ast::ParamMode::ScratchSymm;
  if (checked.type->kind == TypeKind::Signal && !isSymm)
    report(param.range, diag::signal_not_symm, param.name.name)
        .fix(modeRange(param), ": symm ");
  if (checked.type->kind == TypeKind::Tile)
    report(param.range, diag::tensor_needs_mode, param.name.name).fix(modeRange(param), ": in ");
  if (param.init && param.mode != ast::ParamMode::ScratchSymm)
    report(param.init->range, diag::initial_value_of_argument, param.name.name);
}

} // namespace dtile::sema
