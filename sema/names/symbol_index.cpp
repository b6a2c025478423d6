// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declares what files declare, then follows the scopes of each body. What is not resolved is a
// built-in name, or wrong; both have no occurrence.
#include "sema/names/symbol_index.h"

#include "frontend/ast/ast_visitor.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopedHashTable.h"
#include "llvm/ADT/StringMap.h"

namespace dtile::sema {

class SymbolIndex::Builder : public ast::Walker<Builder> {
public:
  using ast::Walker<Builder>::visit;

  Builder(SymbolIndex &index, const Program &program) : index_(index), program_(program) {}

  void run() {
    for (const Program::ModuleFile &module : program_.modules())
      declareModule(module);
    for (const Program::ModuleFile &module : program_.modules()) {
      top_ = &modules_[module.file];
      for (const ast::Decl *decl : module.tree->decls)
        body(decl);
    }
    llvm::stable_sort(index_.occurrences_, [](const Occurrence &a, const Occurrence &b) {
      return a.range.begin < b.range.begin;
    });
    // What declares by being used is seen as both.
    auto &all = index_.occurrences_;
    all.erase(std::unique(all.begin(), all.end(),
                          [](const Occurrence &a, const Occurrence &b) {
                            return a.range == b.range && a.definition == b.definition;
                          }),
              all.end());
  }

  // ---- Expressions

  bool visit(const ast::NameExpr &e) {
    use(e.name, e.range);
    return false;
  }

  bool visit(const ast::MemberExpr &e) {
    if (const Module *module = moduleOf(e.base)) {
      walk(e.base);
      if (const auto it = module->names.find(e.member.name); it != module->names.end())
        occur(e.member.range, it->second);
      return false;
    }
    return true;
  }

  bool visit(const ast::CallExpr &e) {
    walk(e.callee);
    arguments(e.args, target(e.callee));
    return false;
  }

  bool visit(const ast::GenericExpr &e) {
    walk(e.base);
    arguments(e.args, target(e.base));
    return false;
  }

  // ---- Statements

  bool visit(const ast::LetStmt &s) {
    type(s.type);
    walk(s.value);
    for (const ast::Ident &name : s.names)
      declare(NameKind::Let, name, s.range);
    return false;
  }

  bool visit(const ast::VarStmt &s) {
    type(s.type);
    walk(s.value);
    declare(NameKind::Var, s.name, s.range);
    return false;
  }

  bool visit(const ast::BlockStmt &s) {
    const Block block(*this, s.range);
    for (const ast::Stmt *statement : s.statements)
      walk(statement);
    return false;
  }

  bool visit(const ast::ForStmt &s) {
    const Block block(*this, s.range);
    dimension(s.dim);
    walk(static_cast<const ast::Stmt *>(s.body));
    return false;
  }

private:
  struct Module {
    llvm::StringMap<unsigned> names;
  };
  /// What labels of a call can name.
  struct Labels {
    llvm::StringMap<unsigned> names;
    const Module *home = nullptr;
  };
  using Scopes = llvm::ScopedHashTable<llvm::StringRef, unsigned>;

  /// A stretch of text with names of its own.
  class Block {
  public:
    Block(Builder &builder, SourceRange range)
        : builder_(builder), names_(builder.scopes_), outerEnd_(builder.end_) {
      builder.end_ = range.end;
    }
    ~Block() { builder_.end_ = outerEnd_; }
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;

  private:
    Builder &builder_;
    Scopes::ScopeTy names_;
    SourceLoc outerEnd_;
  };

  // ---- Definitions

  unsigned define(NameKind kind, const ast::Ident &name, SourceRange whole, SourceRange visible,
                  llvm::StringRef doc = "") {
    index_.definitions_.push_back({kind, name.name, name.range, whole, visible, decl_, doc, {}});
    const unsigned number = unsigned(index_.definitions_.size() - 1);
    occur(name.range, number);
    return number;
  }

  void occur(SourceRange range, unsigned definition) {
    if (range.isValid())
      index_.occurrences_.push_back({range, definition});
  }

  /// From here to the end of the block.
  void declare(NameKind kind, const ast::Ident &name, SourceRange whole) {
    if (!name.name.empty())
      scopes_.insert(name.name, define(kind, name, whole, {whole.end, end_}));
  }

  void use(llvm::StringRef name, SourceRange range) {
    if (const std::optional<unsigned> found = lookup(name))
      occur(range, *found);
  }

  std::optional<unsigned> lookup(llvm::StringRef name) {
    if (scopes_.count(name))
      return scopes_.lookup(name);
    const auto it = top_->names.find(name);
    return it == top_->names.end() ? std::nullopt : std::optional(it->second);
  }

  void declareModule(const Program::ModuleFile &module) {
    top_ = &modules_[module.file];
    for (const ast::Decl *decl : module.tree->decls) {
      decl_ = decl;
      ast::visitDecl(*decl, [&](const auto &node) { declareTop(module, node); });
    }
  }

  void addTopLevel(const Program::ModuleFile &module, NameKind kind, const ast::Ident &name,
                   llvm::StringRef doc) {
    if (name.name.empty())
      return;
    const unsigned number = define(kind, name, decl_->range, {}, doc);
    index_.ofDecl_[decl_] = number;
    // A second declaration of a name is a mistake; the first counts.
    if (top_->names.try_emplace(name.name, number).second)
      index_.members_[module.file].push_back(number);
  }

  void addParameters(llvm::ArrayRef<ast::GenericParam> generics,
                     llvm::ArrayRef<ast::Param> params) {
    Labels &labels = labels_[decl_];
    labels.home = top_;
    for (const ast::GenericParam &generic : generics)
      if (!generic.name.name.empty())
        labels.names.try_emplace(generic.name.name, define(NameKind::Generic, generic.name,
                                                           generic.range, decl_->range));
    for (const ast::Param &param : params)
      if (!param.name.name.empty())
        labels.names.try_emplace(param.name.name,
                                 define(NameKind::Param, param.name, param.range, decl_->range));
  }

  void declareTop(const Program::ModuleFile &module, const ast::ImportDecl &d) {
    addTopLevel(module, NameKind::Module, d.alias, "");
    if (const auto it = index_.ofDecl_.find(&d); it != index_.ofDecl_.end())
      index_.definitions_[it->second].file = program_.importedFile(&d);
  }
  void declareTop(const Program::ModuleFile &module, const ast::ConstDecl &d) {
    addTopLevel(module, NameKind::Const, d.name, d.doc);
  }
  void declareTop(const Program::ModuleFile &module, const ast::FnDecl &d) {
    addTopLevel(module, NameKind::Fn, d.name, d.doc);
    addParameters(d.generics, d.params);
  }
  void declareTop(const Program::ModuleFile &module, const ast::KernelDecl &d) {
    addTopLevel(module, NameKind::Kernel, d.name, d.doc);
    addParameters(d.generics, d.params);
  }
  void declareTop(const Program::ModuleFile &module, const ast::PlanDecl &d) {
    addTopLevel(module, NameKind::Plan, d.name, d.doc);
    addParameters(d.generics, d.params);
  }
  void declareTop(const Program::ModuleFile &module, const ast::OverlapDecl &d) {
    addTopLevel(module, NameKind::Overlap, d.name, d.doc);
    addParameters(d.generics, d.params);
  }
  // Nobody can name them.
  void declareTop(const Program::ModuleFile &, const ast::TestDecl &) {}
  void declareTop(const Program::ModuleFile &, const ast::BenchDecl &) {}

  // ---- What others declare

  /// The module that an expression names; null for other things.
  const Module *moduleOf(const ast::Expr *e) {
    const auto *name = llvm::dyn_cast_or_null<ast::NameExpr>(e);
    const auto found = name ? lookup(name->name) : std::nullopt;
    if (!found || index_.definitions_[*found].kind != NameKind::Module)
      return nullptr;
    const std::optional<FileId> file = index_.definitions_[*found].file;
    const auto it = file ? modules_.find(*file) : modules_.end();
    return it == modules_.end() ? nullptr : &it->second;
  }

  /// The declaration that a callee names; null where it is built in, or none.
  const ast::Decl *target(const ast::Expr *e) {
    if (const auto *generic = llvm::dyn_cast_or_null<ast::GenericExpr>(e))
      return target(generic->base);
    std::optional<unsigned> found;
    if (const auto *name = llvm::dyn_cast_or_null<ast::NameExpr>(e)) {
      found = lookup(name->name);
    } else if (const auto *member = llvm::dyn_cast_or_null<ast::MemberExpr>(e)) {
      if (const Module *module = moduleOf(member->base))
        if (const auto it = module->names.find(member->member.name); it != module->names.end())
          found = it->second;
    }
    if (!found)
      return nullptr;
    const Definition &definition = index_.definitions_[*found];
    const auto known = index_.ofDecl_.find(definition.decl);
    const bool isDeclaration = known != index_.ofDecl_.end() && known->second == *found;
    return isDeclaration ? definition.decl : nullptr;
  }

  void arguments(llvm::ArrayRef<ast::Arg> args, const ast::Decl *callee) {
    const auto it = callee ? labels_.find(callee) : labels_.end();
    const Labels *labels = it == labels_.end() ? nullptr : &it->second;
    for (const ast::Arg &arg : args) {
      if (labels && !arg.label.name.empty()) {
        if (const auto named = labels->names.find(arg.label.name); named != labels->names.end())
          occur(arg.label.range, named->second);
        else if (arg.label.name == kAlternativeLabel && alternative(*labels, arg.value))
          continue;
      }
      walk(arg.value);
    }
  }

  /// A pin of one of several kernels names it as the callee's file does.
  bool alternative(const Labels &labels, const ast::Expr *value) {
    const auto *name = llvm::dyn_cast_or_null<ast::NameExpr>(value);
    if (!name)
      return false;
    const auto it = labels.home->names.find(name->name);
    if (it == labels.home->names.end())
      return false;
    occur(name->range, it->second);
    return true;
  }

  // ---- Parts of declarations

  void type(const ast::TypeRef *type) {
    if (!type)
      return;
    use(type->name.name, type->name.range);
    for (const ast::Expr *size : type->shape)
      walk(size);
  }

  void dimension(const ast::IterDim &dim) {
    walk(dim.domain);
    walk(dim.step);
    if (!dim.name.name.empty())
      declare(NameKind::Index, dim.name, dim.name.range);
  }

  void over(const ast::OverClause *over) {
    if (!over)
      return;
    for (const ast::IterDim &dim : over->dims)
      dimension(dim);
    walk(over->programs);
    walk(over->copyEngineIf);
  }

  void role(const ast::Role *role) {
    for (; role; role = role->whenAll) {
      const Block block(*this, role->range);
      if (!role->name.name.empty())
        define(NameKind::Role, role->name, role->range, {});
      for (const ast::Ident &name : role->joined)
        declare(NameKind::Let, name, name.range);
      over(role->over);
      walk(static_cast<const ast::Stmt *>(role->body));
    }
  }

  /// Sizes that signatures bind: names of shapes that nothing else declares. They are seen in all
  /// of the declaration.
  struct Sizes : ast::Walker<Sizes> {
    using ast::Walker<Sizes>::visit;
    explicit Sizes(Builder &builder) : builder(builder) {}
    bool visit(const ast::NameExpr &e) {
      if (e.name != "W" && !e.name.empty() && !builder.lookup(e.name))
        builder.scopes_.insert(e.name, builder.define(NameKind::Size, {e.name, e.range}, e.range,
                                                      builder.decl_->range));
      return true;
    }
    bool visit(const ast::CallExpr &e) {
      for (const ast::Arg &arg : e.args)
        walk(arg.value);
      return false;
    }
    Builder &builder;
  };

  void signature(llvm::ArrayRef<ast::GenericParam> generics, llvm::ArrayRef<ast::Param> params,
                 bool bindsSizes) {
    for (const auto &[name, number] : byPlace(labels_[decl_]))
      scopes_.insert(name, number);
    for (const ast::GenericParam &generic : generics) {
      type(generic.type);
      walk(generic.defaultValue);
    }
    if (bindsSizes)
      for (const ast::Param &param : params)
        if (param.type)
          for (const ast::Expr *size : param.type->shape)
            Sizes(*this).walk(size);
    for (const ast::Param &param : params) {
      type(param.type);
      walk(param.init);
    }
  }

  static std::vector<std::pair<llvm::StringRef, unsigned>> byPlace(const Labels &labels) {
    std::vector<std::pair<llvm::StringRef, unsigned>> result;
    for (const auto &entry : labels.names)
      result.emplace_back(entry.first(), entry.second);
    llvm::sort(result, llvm::less_second());
    return result;
  }

  void body(const ast::Decl *decl) {
    decl_ = decl;
    const Block block(*this, decl->range);
    ast::visitDecl(*decl, [this](const auto &node) { contents(node); });
  }

  void contents(const ast::ImportDecl &) {}
  void contents(const ast::ConstDecl &d) {
    type(d.type);
    walk(d.value);
  }
  void contents(const ast::FnDecl &d) {
    signature(d.generics, d.params, /*bindsSizes=*/false);
    for (const ast::TypeRef *result : d.results)
      type(result);
    walk(static_cast<const ast::Stmt *>(d.body));
  }
  template <typename Kernel> void kernel(const Kernel &d) {
    signature(d.generics, d.params, /*bindsSizes=*/true);
    for (const ast::Stmt *clause : d.clauses)
      walk(clause);
    for (const ast::Stmt *statement : d.prologue)
      walk(statement);
    for (const ast::Role *each : d.roles)
      role(each);
    for (const ast::ExpectStmt *promise : d.ensures)
      walk(static_cast<const ast::Stmt *>(promise));
  }
  void contents(const ast::KernelDecl &d) {
    kernel(d);
    for (const ast::Ident &alternative : d.alternatives)
      use(alternative.name, alternative.range);
  }
  void contents(const ast::PlanDecl &d) {
    kernel(d);
    for (const ast::Expr *alternative : d.alternatives)
      walk(alternative);
  }
  void graph(const ast::OverlapDecl &d) {
    signature(d.generics, d.params, /*bindsSizes=*/true);
    for (const ast::Stmt *clause : d.clauses)
      walk(clause);
    for (const ast::OverlapStep &step : d.steps) {
      walk(step.value);
      for (const ast::Ident &name : step.names)
        if (step.isLet)
          scopes_.insert(name.name, define(NameKind::Let, name, step.range, decl_->range));
        else
          use(name.name, name.range);
    }
    for (const ast::ExpectStmt *promise : d.ensures)
      walk(static_cast<const ast::Stmt *>(promise));
  }
  void contents(const ast::OverlapDecl &d) {
    if (d.kernel == nullptr)
      return graph(d);
    walk(d.kernel);
    // Parameters of the kernel are those of the overlap, too; others come from plans' arguments.
    if (const ast::Decl *kernel = target(d.kernel))
      if (const auto labels = labels_.find(kernel); labels != labels_.end())
        for (const auto &[name, number] : byPlace(labels->second))
          if (index_.definitions_[number].kind == NameKind::Param)
            scopes_.insert(name, number);
    for (const ast::OverlapJoin &join : d.joins) {
      use(join.tensor.name, join.tensor.range);
      const auto *plan = llvm::dyn_cast_or_null<ast::CallExpr>(join.plan);
      for (const ast::Arg &arg : plan ? plan->args : llvm::ArrayRef<ast::Arg>())
        if (const auto *name = llvm::dyn_cast_or_null<ast::NameExpr>(arg.value))
          if (!lookup(name->name))
            scopes_.insert(name->name, define(NameKind::Param, {name->name, name->range},
                                              name->range, decl_->range));
      walk(join.plan);
    }
  }
  void contents(const ast::TestDecl &d) { block(d); }
  void contents(const ast::BenchDecl &d) { block(d); }
  template <typename Test> void block(const Test &d) {
    for (const ast::Expr *ranks : d.ranks)
      walk(ranks);
    walk(static_cast<const ast::Stmt *>(d.body));
  }

  SymbolIndex &index_;
  const Program &program_;
  std::map<FileId, Module> modules_;
  llvm::DenseMap<const ast::Decl *, Labels> labels_;
  Module *top_ = nullptr;
  const ast::Decl *decl_ = nullptr;
  Scopes scopes_;
  SourceLoc end_;
};

SymbolIndex::SymbolIndex(const Program &program) { Builder(*this, program).run(); }

const Occurrence *SymbolIndex::at(SourceLoc loc) const {
  const auto after = llvm::partition_point(
      occurrences_, [&](const Occurrence &each) { return each.range.begin <= loc; });
  // A cursor after a name is at it, unless another name begins there.
  if (after == occurrences_.begin() || !loc.isValid())
    return nullptr;
  const Occurrence &found = *std::prev(after);
  return loc <= found.range.end ? &found : nullptr;
}

void SymbolIndex::forEachVisible(SourceLoc loc,
                                 llvm::function_ref<void(const Definition &)> visit) const {
  for (const Definition &definition : llvm::reverse(definitions_))
    if (definition.visible.isValid() && definition.visible.begin <= loc &&
        loc <= definition.visible.end)
      visit(definition);
}

void SymbolIndex::forEachMember(FileId module,
                                llvm::function_ref<void(const Definition &)> visit) const {
  if (const auto it = members_.find(module); it != members_.end())
    for (unsigned number : it->second)
      visit(definitions_[number]);
}

const Definition *SymbolIndex::of(const ast::Decl *decl) const {
  const auto it = ofDecl_.find(decl);
  return it == ofDecl_.end() ? nullptr : &definitions_[it->second];
}

} // namespace dtile::sema
