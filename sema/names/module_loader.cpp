// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows imports depth first: the importing file's folder, the import paths in order, then the
// embedded library. What an editor has open goes before the file on disk.
#include "sema/names/module_loader.h"

#include "frontend/base/habits.h"
#include "frontend/parse/parser.h"
#include "sema/context.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace dtile::sema {

namespace {

namespace path = llvm::sys::path;

class Loader {
public:
  Loader(Context &context, FileId root) : context_(context) {
    // An import that leads back to the root finds it, whatever its file holds.
    for (const auto &[openPath, text] : context.options.openFiles)
      if (openPath == context.sources.name(root))
        added_[openPath] = root;
  }

  ModuleInfo *load(FileId file) {
    if (ModuleInfo *known = byFile_.lookup(uint32_t(file)))
      return known;
    auto module = std::make_unique<ModuleInfo>();
    ModuleInfo *result = module.get();
    context_.modules.push_back(std::move(module));
    byFile_[uint32_t(file)] = result;
    result->file = file;
    result->path = context_.sources.name(file).str();
    result->tree = parse::parse(file, context_.sources, context_.arena, *context_.diags);
    open_.push_back({result, nullptr});
    result->written = result->tree;
    for (const ast::Decl *decl : result->tree->decls)
      declare(*result, decl);
    open_.pop_back();
    return result;
  }

private:
  struct OpenModule {
    ModuleInfo *module;
    const ast::ImportDecl *import;
  };

  void declare(ModuleInfo &module, const ast::Decl *decl) {
    Symbol symbol;
    symbol.decl = decl;
    symbol.module = &module;
    auto set = [&](Symbol::Kind kind, const ast::Ident &name) {
      symbol.kind = kind;
      symbol.name = name.name;
      symbol.range = name.range;
    };
    switch (decl->kind) {
    case ast::NodeKind::ImportDecl: {
      const auto *import = llvm::cast<ast::ImportDecl>(decl);
      set(Symbol::Kind::Module, import->alias);
      symbol.module = follow(module, import);
      if (symbol.module)
        context_.imported[import] = symbol.module;
      break;
    }
    case ast::NodeKind::ConstDecl:
      set(Symbol::Kind::Const, llvm::cast<ast::ConstDecl>(decl)->name);
      break;
    case ast::NodeKind::FnDecl:
      set(Symbol::Kind::Fn, llvm::cast<ast::FnDecl>(decl)->name);
      break;
    case ast::NodeKind::KernelDecl:
      set(Symbol::Kind::Kernel, llvm::cast<ast::KernelDecl>(decl)->name);
      break;
    case ast::NodeKind::PlanDecl:
      set(Symbol::Kind::Plan, llvm::cast<ast::PlanDecl>(decl)->name);
      break;
    case ast::NodeKind::OverlapDecl:
      set(Symbol::Kind::Overlap, llvm::cast<ast::OverlapDecl>(decl)->name);
      break;
    default:
      // Tests and benches have no name that others could use.
      return;
    }
    context_.moduleOf[decl] = &module;
    if (symbol.name.empty())
      return;
    auto [old, isNew] = module.names.try_emplace(symbol.name, symbol);
    if (!isNew)
      context_.report(symbol.range, diag::redefinition, symbol.name)
          .note(old->second.range, diag::note_declared_here, symbol.name);
  }

  // The module that an import names; null after reporting.
  ModuleInfo *follow(ModuleInfo &module, const ast::ImportDecl *import) {
    std::vector<std::string> looked;
    std::optional<FileId> file = find(module, import, looked);
    if (!file) {
      if (!looked.empty()) {
        auto error = context_.report(import->pathRange, diag::module_not_found, import->path);
        for (const std::string &place : looked)
          error.note(import->pathRange, diag::note_looked_for, place);
        if (habits::isModule(import->path))
          error.note(import->pathRange, diag::note_dtile_form,
                     "functions of other libraries are built in, or in `math`, and tests have "
                     "arrays: `dtilec explain math`");
      }
      return nullptr;
    }
    for (size_t i = 0; i < open_.size(); ++i) {
      if (open_[i].module->file != *file)
        continue;
      open_.back().import = import;
      auto error = context_.report(import->pathRange, diag::import_cycle);
      for (; i < open_.size(); ++i) {
        const std::string &next =
            i + 1 < open_.size() ? open_[i + 1].module->path : context_.sources.name(*file).str();
        error.note(open_[i].import->pathRange, diag::note_imports, open_[i].module->path, next);
      }
      return nullptr;
    }
    open_.back().import = import;
    return load(*file);
  }

  std::optional<FileId> find(ModuleInfo &module, const ast::ImportDecl *import,
                             std::vector<std::string> &looked) {
    const std::string name = import->isString ? import->path.str() : import->path.str() + ".dtile";
    if (path::is_absolute(name)) {
      context_.report(import->pathRange, diag::absolute_import, import->path);
      return std::nullopt;
    }
    llvm::SmallVector<std::string, 4> folders{path::parent_path(module.path).str()};
    folders.append(context_.options.importPaths.begin(), context_.options.importPaths.end());
    for (const std::string &folder : folders) {
      llvm::SmallString<128> candidate(folder);
      path::append(candidate, name);
      path::remove_dots(candidate, /*remove_dot_dot=*/true);
      looked.push_back(candidate.str().str());
      if (std::optional<FileId> open = findText(context_.options.openFiles, candidate, ""))
        return open;
      if (!llvm::sys::fs::is_regular_file(candidate)) {
        context_.absentFiles.push_back(looked.back());
        continue;
      }
      llvm::Expected<FileId> file = context_.sources.load(candidate);
      if (file)
        return *file;
      context_.report(import->pathRange, diag::unreadable_module, llvm::toString(file.takeError()));
      looked.clear();
      return std::nullopt;
    }
    return findEmbedded(name, looked);
  }

  std::optional<FileId> findEmbedded(const std::string &name, std::vector<std::string> &looked) {
    static constexpr llvm::StringLiteral kFolder = "<stdlib>/";
    if (std::optional<FileId> file = findText(context_.options.embeddedFiles, name, kFolder))
      return file;
    if (!context_.options.embeddedFiles.empty())
      looked.push_back(kFolder.str() + name);
    return std::nullopt;
  }

  // A file that is held as text, by its path; its name is that after `folder`.
  std::optional<FileId> findText(llvm::ArrayRef<std::pair<std::string, std::string>> files,
                                 llvm::StringRef wanted, llvm::StringRef folder) {
    for (const auto &[textPath, text] : files) {
      if (textPath != wanted)
        continue;
      const std::string name = folder.str() + textPath;
      auto [file, isNew] = added_.try_emplace(name, FileId{});
      if (isNew)
        file->second = context_.sources.add(name, text);
      return file->second;
    }
    return std::nullopt;
  }

  Context &context_;
  llvm::DenseMap<uint32_t, ModuleInfo *> byFile_;
  // Files that were added as text, by their names.
  llvm::StringMap<FileId> added_;
  // Modules whose imports are being followed, outermost first.
  std::vector<OpenModule> open_;
};

} // namespace

void loadModules(Context &context, FileId root) { Loader(context, root).load(root); }

} // namespace dtile::sema
