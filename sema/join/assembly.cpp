// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects what stages bring, and makes one kernel of it.
#include "sema/join/assembly.h"

#include "sema/join/make.h"

#include "frontend/ast/mesh.h"
#include "frontend/ast/source_printer.h"

#include <algorithm>

namespace dtile::join {

/// Overlaps of overlaps may double what they have at each step.
constexpr size_t kMaxRoles = 256;

std::optional<size_t> Assembly::genericOf(const ast::Arg &arg, size_t place,
                                          llvm::ArrayRef<ast::GenericParam> declared,
                                          llvm::StringRef name) {
  if (!arg.label.name.empty())
    place = size_t(llvm::find_if(declared,
                                 [&](const ast::GenericParam &one) {
                                   return one.name.name == arg.label.name;
                                 }) -
                   declared.begin());
  if (place < declared.size())
    return place;
  if (arg.label.name.empty())
    joint.diags.report(arg.value->range, diag::too_many_generics, name, declared.size());
  else
    joint.diags.report(arg.label.range, diag::unknown_generic, name, arg.label.name);
  return std::nullopt;
}

void Assembly::give(llvm::MutableArrayRef<ast::GenericParam> params, llvm::ArrayRef<ast::Arg> given,
                    llvm::ArrayRef<ast::GenericParam> declared, llvm::StringRef name) {
  for (const auto &[i, arg] : llvm::enumerate(given))
    if (const std::optional<size_t> number = genericOf(arg, i, declared, name))
      params[*number].defaultValue = Rewriter(joint.arena).expr(arg.value);
}

void Assembly::addGenerics(const Stage &stage, Importer &importer) {
  llvm::SmallVector<ast::GenericParam, 8> copies;
  for (const ast::GenericParam &one : stage.plan->generics)
    copies.push_back(importer.generic(one));
  give(copies, stage.generics, stage.plan->generics, stage.plan->name.name);
  // What follows from others is no parameter any more.
  for (const auto &[written, copy] : llvm::zip(stage.plan->generics, copies))
    if (!joint.values.contains(nameIn(stage, written.name.name)))
      generics.push_back(copy);
  for (const ast::Ident &name : openTypes(*stage.plan))
    if (const llvm::StringRef text = nameIn(stage, name.name); !joint.values.contains(text))
      generics.push_back(elementType({text, name.range}));
}

// `T: dtype = f32`
ast::GenericParam Assembly::elementType(const ast::Ident &name) {
  ast::GenericParam generic;
  generic.range = name.range;
  generic.name = name;
  generic.type = joint.arena.makePlain<ast::TypeRef>();
  generic.type->range = name.range;
  generic.type->name = {"dtype", name.range};
  generic.defaultValue = Make{joint.arena, name.range}.name("f32");
  return generic;
}

void Assembly::addHead(llvm::StringRef of, llvm::ArrayRef<ast::Stmt *> ofLaunch,
                       llvm::ArrayRef<ast::Stmt *> lets, Importer &importer) {
  for (const ast::Stmt *one : ofLaunch)
    if (ast::Stmt *clause = importer.stmt(one); !isMeshAgain(*clause, of))
      clauses.push_back(clause);
  for (const ast::Stmt *one : lets)
    prologue.push_back(importer.stmt(one));
}

namespace {

bool isSameMesh(const ast::MeshStmt &a, const ast::MeshStmt &b) {
  return a.axes.size() == b.axes.size() &&
         llvm::all_of(llvm::zip(a.axes, b.axes), [](const auto &pair) {
           const auto &[x, y] = pair;
           return x.name.name == y.name.name && textOf(x.extent) == textOf(y.extent);
         });
}

} // namespace

/// What is joined has one mesh: it is said once, and others that are the same add nothing.
bool Assembly::isMeshAgain(const ast::Stmt &clause, llvm::StringRef of) const {
  const auto *mesh = llvm::dyn_cast<ast::MeshStmt>(&clause);
  if (!mesh)
    return false;
  for (const ast::Stmt *one : clauses)
    if (const auto *said = llvm::dyn_cast<ast::MeshStmt>(one)) {
      if (!isSameMesh(*said, *mesh))
        joint.diags.report(mesh->range, diag::join_of_mesh, of)
            .note(said->range, diag::note_declared_here, "mesh");
      return true;
    }
  return false;
}

void Assembly::addRole(const Stage &stage, const ast::Role &written, ast::Role *role) {
  const ast::Ident &name = written.name.name.empty() ? stage.plan->name : written.name;
  role->name = {roleNames.make(name.name), name.range};
  bodies.push_back({role, stage.source->isKernel ? nullptr : &stage});
}

void Assembly::publish(const ast::Param &param, const ast::Param &written, bool isJoined) {
  Published tensor;
  tensor.name = param.name.name;
  tensor.shape = param.type ? param.type->shape : llvm::ArrayRef<ast::Expr *>();
  tensor.written = written.name.name;
  tensor.range = written.range;
  tensor.isJoined = isJoined;
  published.push_back(tensor);
}

// Compile-time parameters of roles that are gone.
void Assembly::dropUnused(size_t kept) {
  Fresh used(joint.arena);
  for (const Body &body : bodies)
    used.take(namesIn(*body.role));
  for (const ast::Param &param : params)
    if (param.type != nullptr) {
      used.take(param.type->name.name);
      for (const ast::Expr *size : param.type->shape)
        used.take(namesIn(*size));
    }
  for (const ast::Stmt *one : prologue)
    used.take(namesIn(*llvm::cast<ast::LetStmt>(one)->value));
  for (size_t i = generics.size(); i-- > kept;)
    if (!used.isTaken(generics[i].name.name))
      generics.erase(generics.begin() + ptrdiff_t(i));
}

ast::KernelDecl *Assembly::finish(const ast::Ident &name, llvm::StringRef doc, SourceRange range,
                                  size_t kept) {
  if (bodies.size() > kMaxRoles) {
    joint.diags.report(name.range, diag::too_many_roles, name.name, kMaxRoles);
    return nullptr;
  }
  llvm::SmallVector<ast::Param, 4> signals;
  if (!deriveSignals(joint, published, prologue, bodies, signals))
    return nullptr;
  dropUnused(kept);
  ast::Arena &arena = joint.arena;
  auto *kernel = arena.make<ast::KernelDecl>(range);
  kernel->doc = doc;
  kernel->name = name;
  kernel->generics = arena.copy(llvm::ArrayRef<ast::GenericParam>(generics));
  // Kernels and plans end with theirs, and so does what is made of them.
  std::stable_partition(params.begin(), params.end(), [](const ast::Param &one) {
    return one.mode != ast::ParamMode::Value || one.init == nullptr;
  });
  params.append(signals);
  kernel->params = arena.copy(llvm::ArrayRef<ast::Param>(params));
  kernel->clauses = arena.copy(llvm::ArrayRef<ast::Stmt *>(clauses));
  kernel->prologue = arena.copy(llvm::ArrayRef<ast::Stmt *>(prologue));
  llvm::SmallVector<ast::Role *, 4> roles;
  for (const Body &body : bodies)
    roles.push_back(body.role);
  kernel->roles = arena.copy(llvm::ArrayRef<ast::Role *>(roles));
  kernel->ensures = arena.copy(llvm::ArrayRef<ast::ExpectStmt *>(ensures));
  return kernel;
}

std::function<bool(llvm::StringRef)> isOfModule(const Home &home) {
  return [&home](llvm::StringRef name) {
    return home.qualified && home.qualified(name, {}) != nullptr;
  };
}

bool isJoinable(Joint &joint, const PlanSource &source) {
  const ast::PlanDecl &plan = *source.plan;
  if (source.isKernel)
    return true;
  for (const ast::Param &param : plan.params)
    if (isSignal(param)) {
      joint.diags.report(param.range, diag::signal_param_in_plan);
      return false;
    }
  return true;
}

bool checkAxes(Joint &joint, llvm::ArrayRef<ast::Stmt *> clauses) {
  const ast::MeshStmt *mesh = ast::meshIn(clauses);
  bool isGood = true;
  for (const Stage &stage : joint.stages) {
    const llvm::StringRef along = stage.source->along;
    if (along.empty())
      continue;
    if (mesh == nullptr) {
      joint.diags.report(stage.source->alongRange, diag::along_no_mesh, along);
      isGood = false;
      continue;
    }
    std::string names;
    for (const ast::MeshAxis &axis : mesh->axes)
      names += (names.empty() ? "`" : ", `") + axis.name.name.str() + "`";
    const bool isAxis = llvm::any_of(
        mesh->axes, [&](const ast::MeshAxis &axis) { return axis.name.name == along; });
    if (!isAxis)
      joint.diags.report(stage.source->alongRange, diag::along_unknown, along, names)
          .note(mesh->range, diag::note_declared_here, "mesh");
    isGood &= isAxis;
  }
  return isGood;
}

bool isSignal(const ast::Param &param) {
  return param.type != nullptr && param.type->name.name == "signal";
}

llvm::StringRef nameIn(const Stage &stage, llvm::StringRef name) {
  const auto found = stage.renames.find(name);
  return found == stage.renames.end() ? name : found->second;
}

} // namespace dtile::join
