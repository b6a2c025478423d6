// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overlaps as the kernels that they are joined to, for an author to read and to take over.
#include "backend/driver/explain/explain_joined.h"

#include "backend/driver/compile.h"
#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/source_printer.h"
#include "frontend/format/format.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"

#include <filesystem>

namespace dtile::driver {

namespace {

// Names that declarations mention.
struct Mentions : ast::Walker<Mentions> {
  using Walker::visit;
  bool visit(const ast::NameExpr &e) {
    names.insert(e.name);
    return true;
  }
  llvm::StringSet<> names;
};

llvm::StringRef nameOf(const ast::Decl &decl) {
  if (const auto *constant = llvm::dyn_cast<ast::ConstDecl>(&decl))
    return constant->name.name;
  if (const auto *function = llvm::dyn_cast<ast::FnDecl>(&decl))
    return function->name.name;
  if (const auto *import = llvm::dyn_cast<ast::ImportDecl>(&decl))
    return import->alias.name;
  return {};
}

// What the root file has to say so that kernels mean the same: constants and functions may need
// others.
llvm::SmallPtrSet<const ast::Decl *, 16> neededBy(const ast::Module &module, Mentions &mentions) {
  llvm::SmallPtrSet<const ast::Decl *, 16> needed;
  for (bool changed = true; changed;) {
    changed = false;
    for (const ast::Decl *decl : module.decls) {
      const llvm::StringRef name = nameOf(*decl);
      if (name.empty() || !mentions.names.contains(name) || !needed.insert(decl).second)
        continue;
      mentions.walk(decl);
      changed = true;
    }
  }
  return needed;
}

// How the root file imports a module that stands at `path`.
std::string importOf(const sema::Program::Import &import, llvm::StringRef root) {
  llvm::StringRef path = import.path;
  std::string text = "import \"";
  if (path.consume_front("<stdlib>/"))
    text += path.str();
  else
    text += std::filesystem::path(import.path)
                .lexically_relative(std::filesystem::path(root.str()).parent_path())
                .generic_string();
  return text + "\" as " + import.name + ";\n";
}

/// The names for kernels that are among these, as text that the checker takes: all of them say what
/// they compute.
llvm::SmallVector<const ast::KernelDecl *, 2>
familiesOf(const sema::Program &program, llvm::ArrayRef<const ast::KernelDecl *> kernels) {
  llvm::SmallVector<const ast::KernelDecl *, 2> found;
  for (const ast::KernelDecl *kernel : kernels)
    if (const ast::KernelDecl *family = program.familyOfJoined(kernel);
        family && !llvm::is_contained(found, family) &&
        llvm::all_of(program.alternatives(family), [&](const ast::KernelDecl *one) {
          return llvm::is_contained(kernels, one) && !one->ensures.empty();
        }))
      found.push_back(family);
  return found;
}

} // namespace

void explainJoined(Session &session, llvm::StringRef path) {
  const auto program = analyzeFile(session, path);
  if (!program)
    return;
  const auto kernels = selectKernels(session, *program);
  Mentions mentions;
  for (const ast::KernelDecl *kernel : kernels)
    mentions.walk(static_cast<const ast::Decl *>(kernel));
  const ast::Module &module = program->rootModule();
  const auto needed = neededBy(module, mentions);
  // As an author writes it, in the order that is pinned.
  const auto written = [&](const ast::KernelDecl *kernel) {
    const sema::GenericArgs pins = constantsFor(session, *kernel);
    return program->written(kernel, llvm::any_of(program->choices(kernel), [&](const auto &choice) {
                              return choice.use == sema::Choice::Use::Order &&
                                     llvm::any_of(pins.named, [&](const auto &pin) {
                                       return pin.first == choice.name && pin.second.intValue == 0;
                                     });
                            }));
  };
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const sema::Program::Import &import : program->addedImports())
    if (mentions.names.contains(import.name))
      os << importOf(import, session.sources.name(module.file));
  for (const ast::Decl *decl : module.decls)
    if (needed.contains(decl))
      ast::printSource(decl, os);
  for (const ast::KernelDecl *kernel : kernels)
    ast::printSource(written(kernel), os);
  for (const ast::KernelDecl *family : familiesOf(*program, kernels)) {
    // Without what no text says: the order.
    ast::KernelDecl name = *family;
    name.generics = name.generics.take_while([&](const ast::GenericParam &one) {
      return llvm::any_of(written(kernels.front())->generics, [&](const ast::GenericParam &other) {
        return other.name.name == one.name.name;
      });
    });
    ast::printSource(&name, os);
  }
  const FileId file = session.sources.add("<joined>", text);
  const auto formatted = format::formatFile(file, session.sources, session.diagnostics);
  if (formatted)
    llvm::outs() << *formatted;
}

} // namespace dtile::driver
