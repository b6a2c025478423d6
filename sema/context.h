// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the checks of one program share: its modules, types, nodes, instances and messages. Private
// to sema.
#pragma once

#include "sema/names/module_loader.h"
#include "sema/names/scope.h"
#include "sema/sema.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

namespace dtile::sema {

/// The largest tile, in elements.
constexpr int64_t kMaxTileElements = int64_t(1) << 24;
constexpr unsigned kMaxTileRank = 4;
constexpr unsigned kMaxTensorRank = 8;
/// Launches count the programs of a space in 32 bits.
constexpr int64_t kMaxPrograms = INT32_MAX;
/// Calls of functions nest at most this deep: all are expanded.
constexpr unsigned kMaxCallDepth = 256;

/// An instance of a function or kernel, and how far its check has come.
template <typename T> struct InstanceEntry {
  enum class State : uint8_t { Checking, Good, Bad } state = State::Checking;
  /// Asked for, rather than standing in for all instances.
  bool isReal = false;
  /// Functions: how deep its calls nest.
  unsigned depth = 1;
  std::unique_ptr<T> instance;
};

/// The value of a `const`.
struct ConstEntry {
  enum class State : uint8_t { Evaluating, Done } state = State::Evaluating;
  TExpr *value = nullptr;
};

class Context {
public:
  Context(SourceManager &sources, const Options &options)
      : sources(sources), options(options), muted(sources) {}

  /// Reports once a place and message: a body is checked for each set of values, its mistakes are
  /// said once. Adds by which calls the body was reached.
  template <typename... Args> DiagBuilder report(SourceRange range, diag::Id id, Args &&...args) {
    const bool isError = diagInfo(id).severity == Severity::Error;
    errors += isError ? 1 : 0;
    const bool isNew = (isError || warningsOn) && said_.insert(sayingOf(range, id)).second;
    DiagBuilder builder = (isNew ? *diags : muted).report(range, id, std::forward<Args>(args)...);
    if (isNew)
      addCallers(builder);
    return builder;
  }

  /// Takes back what was said in `where`, and forgets the functions that were found bad, so that
  /// whoever needs them is told.
  void unsay(const Diagnostics &where);

  TExpr *makeExpr(TExprKind kind, Type type, SourceRange range);
  TStmt *makeStmt(TStmtKind kind, SourceRange range);
  Variable *makeVariable(llvm::StringRef name, Type type, SourceRange range, bool isMutable);
  /// A name for an IR symbol that no other instance has, and that is kept for none.
  std::string uniqueName(const std::string &wanted);
  /// Keeps a name for the kernel that takes it: what callers of a file's kernels write does not
  /// depend on what modules call theirs.
  void keepName(llvm::StringRef name) { keptNames_.insert(name); }
  /// The wanted name where it was kept and nobody has taken it yet, else uniqueName.
  std::string takeName(const std::string &wanted);

  SourceManager &sources;
  Options options;
  /// Where messages go now.
  Diagnostics *diags = nullptr;
  /// Where repeats go.
  Diagnostics muted;
  bool warningsOn = true;
  /// Where syntax of another language was told in a text, in order: what it leaves wrong is no
  /// mistake of its own.
  std::vector<uint32_t> foreignForms;
  [[nodiscard]] bool hasForeignForm(SourceRange range) const;

  /// Errors so far, repeats included: tells whether a check failed.
  unsigned errors = 0;

  /// Spellings are compared with every visible name: for the first mistakes only, so that time
  /// stays linear.
  unsigned suggestionsLeft = 200;

  TypeTable types;
  ast::Arena arena;
  /// Of all instances, also of those with mistakes, in the order of their checks.
  std::vector<const Variable *> variables;
  /// Root first.
  std::vector<std::unique_ptr<ModuleInfo>> modules;
  /// Where imports were looked for in vain before they were found.
  std::vector<std::string> absentFiles;
  llvm::DenseMap<const ast::ConstDecl *, ConstEntry> consts;
  llvm::DenseMap<const ast::Decl *, llvm::StringMap<InstanceEntry<KernelInstance>>> kernels;
  llvm::DenseMap<const ast::Decl *, llvm::StringMap<InstanceEntry<FnInstance>>> fns;
  /// What imports name, where that was found.
  llvm::DenseMap<const ast::ImportDecl *, const ModuleInfo *> imported;
  /// The kernels' modules, for instances asked for later.
  llvm::DenseMap<const ast::Decl *, ModuleInfo *> moduleOf;

  /// Kernels that an overlap is, one for each combination of plans, and the name for all of them.
  llvm::DenseMap<const ast::KernelDecl *, const ast::KernelDecl *> familyOfJoined;
  /// Of kernels that overlaps are: how they are when movement and computation overlap, and when one
  /// follows the other. Their last compile-time parameter says which.
  struct Orders {
    const ast::KernelDecl *overlapped = nullptr;
    const ast::KernelDecl *apart = nullptr;
  };
  llvm::DenseMap<const ast::KernelDecl *, Orders> orders;
  /// The roles of a kernel with these compile-time parameters, and the rest.
  [[nodiscard]] const ast::KernelDecl *bodyOf(const ast::KernelDecl *kernel,
                                              llvm::ArrayRef<GenericValue> values) const;
  /// What is no alternative of a kernel that an overlap is.
  llvm::DenseMap<const ast::KernelDecl *, std::vector<LeftOut>> leftOut;

  /// Instances that are being checked, outermost first; `call` is where it was asked for, invalid
  /// for the check of a declaration by itself.
  struct Frame {
    std::string name;
    SourceRange call;
    const ast::Decl *decl;
  };
  std::vector<Frame> frames;

private:
  /// A place and a message.
  using Saying = std::pair<uint64_t, unsigned>;
  static Saying sayingOf(SourceRange range, diag::Id id) {
    return {uint64_t(range.begin.offset) << 32 | range.end.offset, unsigned(id)};
  }
  void addCallers(DiagBuilder &builder);

  llvm::DenseSet<Saying> said_;
  llvm::StringMap<unsigned> usedNames_;
  llvm::StringSet<> keptNames_;
  llvm::SpecificBumpPtrAllocator<TExpr> exprs_;
  llvm::SpecificBumpPtrAllocator<TStmt> stmts_;
  llvm::SpecificBumpPtrAllocator<Variable> variables_;
};

/// Sets a member for as long as it lives.
template <typename T> class Restore {
public:
  Restore(T &place, T value) : place_(place), old_(std::move(place)) { place_ = std::move(value); }
  ~Restore() { place_ = std::move(old_); }
  Restore(const Restore &) = delete;
  Restore &operator=(const Restore &) = delete;

private:
  T &place_;
  T old_;
};

} // namespace dtile::sema
