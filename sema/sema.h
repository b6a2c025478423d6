// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Syntax trees to checked programs.
#pragma once

#include "frontend/base/diagnostics.h"
#include "sema/tree/typed_ast.h"

#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace dtile::sema {

/// The label that pins one of several kernels: `all_reduce<alternative = two_shot>(x)`.
inline constexpr llvm::StringLiteral kAlternativeLabel = "alternative";

/// Values of compile-time parameters by name, for an instance asked for by the user or a test.
struct GenericArgs {
  std::vector<std::pair<std::string, GenericValue>> named;
  /// Values of choices, which names of instances do not show.
  std::vector<std::pair<std::string, GenericValue>> chosen;
};

/// A compile-time parameter that a kernel leaves to the compiler: `BM = auto`.
struct Choice {
  /// What the kernel's text uses it for.
  enum class Use : uint8_t {
    /// The step of a dimension of a tile space.
    Block,
    /// The step of a loop.
    Loop,
    /// The step of a loop over ranks.
    Ranks,
    /// A number of programs.
    Programs,
    /// Whether movement and computation overlap (1), or one follows the other (0).
    Order,
    Other,
  };
  std::string name;
  SourceRange range;
  /// The values of `auto(64, 128)`; empty where any will do.
  std::vector<int64_t> allowed;
  Use use = Use::Other;
  /// No other choice is a step of a space of which this is one: it may cut a list.
  bool isAlone = true;
  /// Other ranks see what it is: by the shapes of symmetric objects and signals, or by what a role
  /// sends. All ranks must choose it alike.
  bool isShared = false;
  /// Steps of spaces: it cuts no innermost dimension beside others, so that a block may be one row.
  bool isOuter = false;
  /// The kernel multiplies tiles, for which there are instructions of some shapes.
  bool multiplies = true;
};

/// A call of a function by a test, with values for its arguments.
struct FunctionCall {
  struct Arg {
    ast::Ident label;
    SourceRange range;
    DType dtype = DType::F32;
    /// None of a number.
    std::vector<int64_t> sizes;
    /// A number that takes the type that is wanted.
    bool isLiteral = false;
    double real = 0;
    int64_t integer = 0;
    friend bool operator<(const Arg &a, const Arg &b) {
      return std::tie(a.dtype, a.sizes, a.isLiteral, a.real, a.integer) <
             std::tie(b.dtype, b.sizes, b.isLiteral, b.real, b.integer);
    }
  };
  struct Generic {
    ast::Ident label;
    GenericValue value;
    SourceRange range;
  };
  SourceRange range;
  ast::Expr *callee = nullptr;
  std::vector<Generic> generics;
  std::vector<Arg> args;
  /// In the file that declares this; null: in the root file.
  const ast::Decl *of = nullptr;
};

/// Plans with which an overlap could be joined, and is not.
struct LeftOut {
  std::string label;
  std::string why;
};

struct Options {
  /// Where `import` looks after the importing file's folder; the standard library last.
  std::vector<std::string> importPaths;
  /// Files that are part of the program, by the path that an import makes
  /// (`collectives/all_gather.dtile`); looked through last.
  std::vector<std::pair<std::string, std::string>> embeddedFiles;
  /// Texts that stand for files, by path, as an editor has them; the files need not exist. Imports
  /// find them where they would find the file.
  std::vector<std::pair<std::string, std::string>> openFiles;
  /// Reads the files and checks nothing: for whom wants to know what names mean, no more.
  bool onlyNames = false;
};

/// A file with everything that it imports, checked. Instances are made on demand and cached.
class Program {
public:
  ~Program();

  /// Loads and checks `file`: declarations, every body (kernels and functions with generics that
  /// have no default are checked with stand-in values), tests. Errors are in `diagnostics`; never
  /// null.
  static std::unique_ptr<Program> analyze(FileId file, SourceManager &sources,
                                          Diagnostics &diagnostics, const Options &options);

  [[nodiscard]] const ast::Module &rootModule() const;
  /// Kernels of the root file that have code, in order.
  [[nodiscard]] llvm::ArrayRef<const ast::KernelDecl *> kernels() const;
  /// Those that are names for several (`kernel all_reduce(…) = one_shot | two_shot;`), in order.
  [[nodiscard]] llvm::ArrayRef<const ast::KernelDecl *> families() const;
  /// The kernels that one is a name for; itself where it has code.
  [[nodiscard]] llvm::SmallVector<const ast::KernelDecl *, 4>
  alternatives(const ast::KernelDecl *kernel) const;
  /// Of a kernel that an overlap is with some plans: the name for all of them; null for others.
  [[nodiscard]] const ast::KernelDecl *familyOfJoined(const ast::KernelDecl *kernel) const;
  /// The kernel that an overlap is joined to as an author would write it; `isApart`: as it is where
  /// movement and computation follow each other. Other kernels are what they are.
  [[nodiscard]] const ast::KernelDecl *written(const ast::KernelDecl *kernel, bool isApart) const;
  /// Combinations of plans that are no alternatives of the kernel or name that an overlap is.
  [[nodiscard]] llvm::ArrayRef<LeftOut> leftOut(const ast::KernelDecl *kernel) const;
  /// What callers launch `family` by, whose alternative has this instance: `all_reduce_bf16`.
  [[nodiscard]] std::string familyName(const ast::KernelDecl *family,
                                       const KernelInstance &alternative) const;
  [[nodiscard]] llvm::ArrayRef<const ast::TestDecl *> tests() const;
  [[nodiscard]] llvm::ArrayRef<const ast::BenchDecl *> benches() const;
  /// A kernel visible in the root file, also through imports (`ag.kernel` as "ag.kernel"); null
  /// when there is none.
  [[nodiscard]] const ast::KernelDecl *findKernel(llvm::StringRef name) const;
  /// The function that an expression names (`f`, `math.silu`) in the file that declares `of`, or in
  /// the root file; null for all else.
  [[nodiscard]] const ast::FnDecl *findFunction(const ast::Expr *callee,
                                                const ast::Decl *of = nullptr) const;
  /// A named integer constant visible in the root file.
  [[nodiscard]] std::optional<int64_t> findConst(llvm::StringRef name) const;

  /// The instance for these values; generics not given take their defaults. Null after reporting (a
  /// missing value points to `callSite`). Of a name for several kernels, that of the first.
  const KernelInstance *instantiate(const ast::KernelDecl *kernel, const GenericArgs &args,
                                    SourceRange callSite, Diagnostics &diagnostics);
  /// The same for values that need not be right: null, and nothing is reported, where they are not.
  const KernelInstance *tryInstantiate(const ast::KernelDecl *kernel, const GenericArgs &args);
  /// A kernel without sizes that gives what the call does: its inputs are the arguments that are no
  /// literals, its outputs the results, numbers as tensors of one element. Null after reporting.
  const KernelInstance *instantiateCall(const ast::FnDecl &fn, const FunctionCall &call,
                                        Diagnostics &diagnostics);
  /// What a kernel leaves to the compiler, in order.
  [[nodiscard]] std::vector<Choice> choices(const ast::KernelDecl *kernel) const;
  /// What instantiate would need: dtype generics and const generics of a kernel that the shapes and
  /// types of tensor arguments determine (`src: in T[TOKENS, HIDDEN]` gives T and HIDDEN).
  /// Arguments are those of all tensor and scalar parameters but out, scratch and signals, in
  /// order; unknown ones stay unset.
  struct ArgShape {
    std::optional<DType> dtype;
    std::vector<int64_t> sizes;
  };
  GenericArgs inferGenerics(const ast::KernelDecl *kernel, llvm::ArrayRef<ArgShape> args,
                            int64_t numRanks, GenericArgs given) const;
  /// All function instances that these kernels call, callees first.
  [[nodiscard]] std::vector<const FnInstance *>
  functions(llvm::ArrayRef<const KernelInstance *> kernels) const;

  /// Paths of every file that was read (for depfiles), root first.
  [[nodiscard]] std::vector<std::string> files() const;
  /// Paths where imports were looked for before they were found: a file that comes to be there
  /// makes another program of the same text.
  [[nodiscard]] llvm::ArrayRef<std::string> absentFiles() const;

  /// Every file that takes part, root first, as it is written: overlaps are not joined.
  struct ModuleFile {
    FileId file{};
    std::string path;
    const ast::Module *tree = nullptr;
  };
  [[nodiscard]] std::vector<ModuleFile> modules() const;
  /// The local variables of all bodies that were checked, also of those with mistakes: one for each
  /// instance of a body, in the order of the checks.
  [[nodiscard]] llvm::ArrayRef<const Variable *> variables() const;
  /// The file that an import of one of them names, or nothing where it was not found.
  [[nodiscard]] std::optional<FileId> importedFile(const ast::ImportDecl *import) const;

  /// Modules that overlaps of the root file brought along, by the names that they have there.
  struct Import {
    std::string name;
    std::string path;
  };
  [[nodiscard]] std::vector<Import> addedImports() const;

private:
  Program();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace dtile::sema
