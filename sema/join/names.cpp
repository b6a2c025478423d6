// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects names by walking declarations.
#include "sema/join/names.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/mesh.h"

namespace dtile::join {

namespace {

struct Collector : ast::Walker<Collector> {
  using Walker::visit;
  explicit Collector(Names &names) : names(names) {}

  void local(const ast::Ident &name) {
    names.local.insert(name.name);
    names.all.insert(name.name);
  }
  bool visit(const ast::NameExpr &e) {
    names.all.insert(e.name);
    return true;
  }
  void type(const ast::TypeRef *type) {
    if (type != nullptr)
      names.all.insert(type->name.name);
  }
  bool visit(const ast::LetStmt &s) {
    type(s.type);
    for (const ast::Ident &name : s.names)
      local(name);
    return true;
  }
  bool visit(const ast::VarStmt &s) {
    type(s.type);
    local(s.name);
    return true;
  }
  bool visit(const ast::ForStmt &s) {
    local(s.dim.name);
    return true;
  }
  void role(const ast::Role &role) {
    if (!role.name.name.empty())
      names.all.insert(role.name.name);
    if (role.over != nullptr)
      for (const ast::IterDim &dim : role.over->dims)
        local(dim.name);
    for (const ast::Ident &name : role.joined)
      local(name);
    if (role.whenAll != nullptr)
      this->role(*role.whenAll);
  }

  Names &names;
};

// Names in a shape, functions left out.
struct SizeCollector : ast::Walker<SizeCollector> {
  using Walker::visit;
  SizeCollector(Names &names, IsOfModule isOfModule) : names(names), isOfModule(isOfModule) {}
  bool visit(const ast::CallExpr &e) {
    if (ast::axisNamedBy(&e) == nullptr)
      for (const ast::Arg &arg : e.args)
        walk(arg.value);
    return false;
  }
  bool visit(const ast::NameExpr &e) {
    if (e.name != "W" && !names.top.contains(e.name) && !isOfModule(e.name)) {
      names.sizes.insert(e.name);
      names.top.insert(e.name);
    }
    return true;
  }
  Names &names;
  IsOfModule isOfModule;
};

template <typename Decl> Names collect(const Decl &decl, IsOfModule isOfModule) {
  Names names;
  Collector bodies(names);
  bodies.walk(static_cast<const ast::Decl *>(&decl));
  for (const ast::Role *role : decl.roles)
    bodies.role(*role);
  for (const ast::GenericParam &generic : decl.generics)
    names.top.insert(generic.name.name);
  for (const ast::Param &param : decl.params)
    names.top.insert(param.name.name);
  for (const ast::Stmt *stmt : decl.prologue)
    if (const auto *let = llvm::dyn_cast<ast::LetStmt>(stmt))
      for (const ast::Ident &name : let->names)
        names.top.insert(name.name);
  SizeCollector sizes(names, isOfModule);
  for (const ast::Param &param : decl.params)
    if (param.type != nullptr)
      for (const ast::Expr *size : param.type->shape)
        sizes.walk(size);
  for (const auto &name : names.top)
    names.all.insert(name.first());
  return names;
}

bool isSameArgs(llvm::ArrayRef<ast::Arg> a, llvm::ArrayRef<ast::Arg> b, const Values &values) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [&](const auto &pair) {
           const auto &[x, y] = pair;
           return x.label.name == y.label.name && isSame(x.value, y.value, values);
         });
}

} // namespace

llvm::StringSet<> namesIn(const ast::Role &role) {
  Names names;
  Collector collector(names);
  for (const ast::Role *one = &role; one != nullptr; one = one->whenAll) {
    collector.role(*one);
    if (one->over != nullptr) {
      collector.walk(one->over->programs);
      collector.walk(one->over->copyEngineIf);
      for (const ast::IterDim &dim : one->over->dims) {
        collector.walk(dim.domain);
        collector.walk(dim.step);
      }
    }
    collector.walk(static_cast<const ast::Stmt *>(one->body));
  }
  return names.all;
}

llvm::StringSet<> namesIn(const ast::Expr &e) {
  Names names;
  Collector(names).walk(&e);
  return names.all;
}

llvm::SmallVector<ast::Ident, 2> valueNamesIn(const ast::Expr &e) {
  struct Finder : ast::Walker<Finder> {
    using Walker::visit;
    bool visit(const ast::CallExpr &call) {
      if (ast::axisNamedBy(&call) == nullptr)
        for (const ast::Arg &arg : call.args)
          walk(arg.value);
      return false;
    }
    bool visit(const ast::NameExpr &name) {
      names.push_back({name.name, name.range});
      return true;
    }
    llvm::SmallVector<ast::Ident, 2> names;
  } finder;
  finder.walk(&e);
  return finder.names;
}

Names namesOf(const ast::KernelDecl &kernel, IsOfModule isOfModule) {
  return collect(kernel, isOfModule);
}
Names namesOf(const ast::PlanDecl &plan, IsOfModule isOfModule) {
  return collect(plan, isOfModule);
}

llvm::StringRef Fresh::make(llvm::StringRef wanted) {
  std::string name = wanted.str();
  for (unsigned i = 2; taken_.contains(name); ++i)
    name = (wanted + "_" + llvm::Twine(i)).str();
  taken_.insert(name);
  return arena_->copy(llvm::StringRef(name));
}

bool isSame(const ast::Expr *a, const ast::Expr *b, const Values &values) {
  if (a == nullptr || b == nullptr)
    return a == b;
  const auto *nameA = llvm::dyn_cast<ast::NameExpr>(a);
  const auto *nameB = llvm::dyn_cast<ast::NameExpr>(b);
  if (nameA != nullptr && nameB != nullptr && nameA->name == nameB->name)
    return true;
  if (nameA != nullptr)
    if (const ast::Expr *value = values.lookup(nameA->name))
      return isSame(value, b, values);
  if (nameB != nullptr)
    if (const ast::Expr *value = values.lookup(nameB->name))
      return isSame(a, value, values);
  if (a->kind != b->kind)
    return false;
  switch (a->kind) {
  case ast::NodeKind::IntLit:
    return llvm::cast<ast::IntLit>(a)->value == llvm::cast<ast::IntLit>(b)->value;
  case ast::NodeKind::UnaryExpr: {
    const auto *x = llvm::cast<ast::UnaryExpr>(a);
    const auto *y = llvm::cast<ast::UnaryExpr>(b);
    return x->op == y->op && isSame(x->operand, y->operand, values);
  }
  case ast::NodeKind::BinaryExpr: {
    const auto *x = llvm::cast<ast::BinaryExpr>(a);
    const auto *y = llvm::cast<ast::BinaryExpr>(b);
    return x->op == y->op && isSame(x->lhs, y->lhs, values) && isSame(x->rhs, y->rhs, values);
  }
  case ast::NodeKind::CallExpr: {
    const auto *x = llvm::cast<ast::CallExpr>(a);
    const auto *y = llvm::cast<ast::CallExpr>(b);
    if (const ast::NameExpr *axis = ast::axisNamedBy(x)) {
      const ast::NameExpr *other = ast::axisNamedBy(y);
      return other && axis->name == other->name && isSame(x->callee, y->callee, {});
    }
    return isSame(x->callee, y->callee, values) && isSameArgs(x->args, y->args, values);
  }
  case ast::NodeKind::MemberExpr: {
    const auto *x = llvm::cast<ast::MemberExpr>(a);
    const auto *y = llvm::cast<ast::MemberExpr>(b);
    return x->member.name == y->member.name && isSame(x->base, y->base, values);
  }
  case ast::NodeKind::IndexExpr: {
    const auto *x = llvm::cast<ast::IndexExpr>(a);
    const auto *y = llvm::cast<ast::IndexExpr>(b);
    return x->indices.size() == y->indices.size() && isSame(x->base, y->base, values) &&
           llvm::all_of(llvm::zip(x->indices, y->indices), [&](const auto &pair) {
             return isSame(std::get<0>(pair), std::get<1>(pair), values);
           });
  }
  case ast::NodeKind::RemoteExpr: {
    const auto *x = llvm::cast<ast::RemoteExpr>(a);
    const auto *y = llvm::cast<ast::RemoteExpr>(b);
    return isSame(x->base, y->base, values) && isSame(x->rank, y->rank, values);
  }
  case ast::NodeKind::RangeExpr: {
    const auto *x = llvm::cast<ast::RangeExpr>(a);
    const auto *y = llvm::cast<ast::RangeExpr>(b);
    return isSame(x->lo, y->lo, values) && isSame(x->hi, y->hi, values);
  }
  default:
    return false;
  }
}

} // namespace dtile::join
