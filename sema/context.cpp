// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Owns the nodes of typed programs.
#include "sema/context.h"

#include <algorithm>

namespace dtile::sema {

const ast::KernelDecl *Context::bodyOf(const ast::KernelDecl *kernel,
                                       llvm::ArrayRef<GenericValue> values) const {
  const auto found = orders.find(kernel);
  if (found == orders.end())
    return kernel;
  return values.back().intValue != 0 ? found->second.overlapped : found->second.apart;
}

bool Context::hasForeignForm(SourceRange range) const {
  const auto *found = std::lower_bound(
      foreignForms.data(), foreignForms.data() + foreignForms.size(), range.begin.offset);
  return found != foreignForms.data() + foreignForms.size() && *found < range.end.offset;
}

TExpr *Context::makeExpr(TExprKind kind, Type type, SourceRange range) {
  auto *e = new (exprs_.Allocate()) TExpr{};
  e->kind = kind;
  e->type = type;
  e->range = range;
  return e;
}

TStmt *Context::makeStmt(TStmtKind kind, SourceRange range) {
  auto *s = new (stmts_.Allocate()) TStmt{};
  s->kind = kind;
  s->range = range;
  return s;
}

Variable *Context::makeVariable(llvm::StringRef name, Type type, SourceRange range,
                                bool isMutable) {
  auto *variable = new (variables_.Allocate()) Variable{name.str(), type, range, isMutable};
  variables.push_back(variable);
  return variable;
}

void Context::unsay(const Diagnostics &where) {
  for (const Diagnostic &d : where.all())
    said_.erase(sayingOf(d.range, d.id));
  for (auto &[decl, instances] : fns) {
    llvm::SmallVector<std::string, 4> bad;
    for (const auto &entry : instances)
      if (entry.second.state == InstanceEntry<FnInstance>::State::Bad)
        bad.push_back(entry.first().str());
    for (const std::string &key : bad)
      instances.erase(key);
  }
}

std::string Context::uniqueName(const std::string &wanted) {
  const unsigned uses = usedNames_[wanted]++ + keptNames_.count(wanted);
  return uses == 0 ? wanted : uniqueName(wanted + "_" + std::to_string(uses + 1));
}

std::string Context::takeName(const std::string &wanted) {
  if (!keptNames_.erase(wanted))
    return uniqueName(wanted);
  ++usedNames_[wanted];
  return wanted;
}

void Context::addCallers(DiagBuilder &builder) {
  // A long chain of calls says no more than its two ends.
  constexpr size_t kMaxShown = 4;
  size_t shown = 0;
  for (auto frame = frames.rbegin(); frame != frames.rend() && shown < kMaxShown; ++frame) {
    if (!frame->call.isValid())
      break;
    builder.note(frame->call, diag::note_in_instance, frame->name);
    ++shown;
  }
}

} // namespace dtile::sema
