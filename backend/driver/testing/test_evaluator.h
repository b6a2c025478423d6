// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates the bodies of tests straight from the syntax tree: SPMD over all ranks in lockstep, on
// arrays in this process. Private to the driver.
#pragma once

#include "backend/driver/execute/kernel_library.h"
#include "backend/driver/testing/test_values.h"
#include "backend/driver/testing/test_watchdog.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dtile::driver {

/// What the launches of a test gave, in order.
struct LaunchRecord {
  const sema::KernelInstance *kernel = nullptr;
  double seconds = 0;
  /// Values of the kernel's size symbols on rank 0, and bytes of that rank's arguments.
  std::vector<std::pair<std::string, int64_t>> sizes;
  int64_t bytes = 0;
  /// For each parameter that the launch writes, its arrays by rank; empty for the others.
  std::vector<std::vector<SharedArray>> written;
};

/// Runs one test on one number of ranks.
class TestEvaluator {
public:
  /// With `other`, what another executor's run of the same test gave, launches must give the same.
  TestEvaluator(Session &session, KernelLibrary &library, Executor &executor,
                const std::vector<LaunchRecord> *other = nullptr, llvm::StringRef otherName = {});

  /// Tells what is run from now on.
  void watch(TestWatchdog &watchdog) { watchdog_ = &watchdog; }
  /// The sizes of the axes of ranks, where the test says several.
  void onMesh(llvm::ArrayRef<int64_t> axes) { mesh_.assign(axes.begin(), axes.end()); }
  /// Runs the body; true when nothing failed. What failed is reported.
  bool run(const ast::BlockStmt &body);
  [[nodiscard]] const std::vector<LaunchRecord> &launches() const { return launches_; }

private:
  struct Variable {
    TestValue value;
    bool isMutable = false;
  };
  using Scope = std::map<std::string, Variable>;
  /// What `ensures` clauses see besides values.
  struct Clause {
    std::map<std::string, DType> types;
    const ast::MeshStmt *mesh = nullptr;
    std::string kernel;
    SourceRange callRange;
    /// In whose file its functions have their names.
    const ast::KernelDecl *decl = nullptr;
  };
  using Result = std::optional<TestValue>;

  // Statements (test_evaluator.cpp). False when the rest of the body cannot run.
  bool runBlock(const ast::BlockStmt &block);
  bool runStatement(const ast::Stmt &stmt);
  bool runLet(const ast::LetStmt &stmt);
  bool runVar(const ast::VarStmt &stmt);
  bool runAssign(const ast::AssignStmt &stmt);
  bool runIf(const ast::IfStmt &stmt);
  bool runFor(const ast::ForStmt &stmt);
  bool runWhile(const ast::WhileStmt &stmt);
  bool assignElements(const ast::IndexExpr &target, const TestValue &value);
  /// Runs `body` on some of the active ranks only.
  bool onRanks(const std::vector<char> &active, llvm::function_ref<bool()> body);
  void declare(const ast::Ident &name, TestValue value, bool isMutable);
  Variable *find(llvm::StringRef name);

  // Expectations (test_expectations.cpp).
  bool runExpect(const ast::ExpectStmt &stmt);
  bool expectFails(const ast::CallExpr &call);
  bool expectTrue(const ast::ExpectStmt &stmt);
  bool expectRelation(const ast::ExpectStmt &stmt, const ast::BinaryExpr &relation);
  void checkEnsures(const sema::KernelInstance &kernel, const ast::CallExpr &call, Scope names,
                    std::map<std::string, DType> types);

  // Expressions (test_expressions.cpp). Nothing after reporting.
  Result evaluate(const ast::Expr &e);
  Result evaluateName(const ast::NameExpr &e);
  Result evaluateUnary(const ast::UnaryExpr &e);
  Result evaluateBinary(const ast::BinaryExpr &e);
  Result evaluateConditional(const ast::ConditionalExpr &e);
  Result evaluateIndex(const ast::IndexExpr &e);
  bool isNewAxis(const ast::Expr *index);
  Sizes withNewAxes(llvm::ArrayRef<ast::Expr *> indices, llvm::ArrayRef<int64_t> kept);
  Result evaluateMember(const ast::MemberExpr &e);
  std::optional<std::vector<std::vector<AxisIndex>>>
  evaluateIndices(const TestValue &base, llvm::ArrayRef<ast::Expr *> indices);
  std::optional<DType> elementType(const ast::Expr &e);
  std::optional<std::vector<int64_t>> evaluateInts(const ast::Expr &e);
  std::optional<int64_t> evaluateUniformInt(const ast::Expr &e, llvm::StringRef what);
  /// The number that all active ranks have; nothing after reporting.
  std::optional<int64_t> requireUniform(SourceRange range, llvm::ArrayRef<int64_t> ints,
                                        llvm::StringRef what);
  std::optional<std::vector<Sizes>> evaluateSizes(llvm::ArrayRef<ast::Expr *> exprs);

  // Calls of functions (test_calls.cpp).
  /// A function call with its arguments evaluated.
  struct Call;
  Result evaluateCall(const ast::CallExpr &e);
  Result callBuiltin(const ast::CallExpr &e, llvm::StringRef name,
                     const ast::GenericExpr *generics);
  Result makeFilled(const ast::Expr &e, llvm::StringRef name, const ast::GenericExpr *generics,
                    llvm::ArrayRef<ast::Expr *> shape, llvm::ArrayRef<ast::Arg> args);
  Result makeRandom(const ast::Expr &e, DType dtype, llvm::ArrayRef<Sizes> sizes, Call &call);
  Result makeRandomReals(const ast::Expr &e, DType dtype, llvm::ArrayRef<Sizes> sizes, Call &call,
                         llvm::ArrayRef<int64_t> seeds);
  bool evaluateArguments(Call &call, llvm::ArrayRef<ast::Arg> args);
  /// Takes the label out of the call: its integer on each rank, or the default.
  std::optional<std::vector<int64_t>> takeInts(Call &call, llvm::StringRef label,
                                               int64_t otherwise);
  /// The same, where ranks must agree.
  std::optional<int64_t> takeInt(Call &call, llvm::StringRef label, int64_t otherwise);
  bool requireNoLabels(Call &call);
  bool requireCount(const Call &call, size_t least, size_t most);
  std::optional<std::vector<Sizes>> sizesFrom(const Call &call, size_t first, int64_t least = 0);
  Result callNumber(Call &call);
  Result callShape(Call &call);
  Result callElementwise(Call &call);
  Result callReduction(Call &call);
  Result callAlong(Call &call);
  Result callReference(Call &call);
  Result callAttention(Call &call);
  Result callCollective(Call &call, const ast::NameExpr *along);
  Result fromRank(Call &call, llvm::ArrayRef<std::vector<int>> groups);

  // Functions of the program (test_functions.cpp). Nothing after reporting.
  Result callFunction(const ast::CallExpr &e, const ast::FnDecl &fn,
                      const ast::GenericExpr *generics);
  std::optional<std::vector<sema::FunctionCall::Generic>>
  functionGenerics(const ast::FnDecl &fn, const ast::GenericExpr *generics);
  bool runFunction(const KernelCode &code, const ast::CallExpr &e, llvm::ArrayRef<TestValue> args,
                   llvm::ArrayRef<int> group, TestValue &result);

  // Axes of meshes (test_axes.cpp). Nothing after reporting.
  struct Axis {
    /// How many places it has, and how far apart the ranks at two places beside each other are.
    int64_t places = 1;
    int64_t stride = 1;
  };
  std::optional<std::vector<Axis>> evaluateAxes(SourceRange range);
  /// The mesh that axes are of: that of the kernel whose `ensures` are evaluated, or of the
  /// kernels that the test calls; null where there is none.
  [[nodiscard]] const ast::MeshStmt *namedMesh() const {
    return clause_ ? clause_->mesh : meshOfTest_;
  }
  std::optional<size_t> axisNumber(llvm::StringRef name, SourceRange range);
  /// `rank(local)` and `num_ranks(local)`.
  Result callOfAxis(const ast::CallExpr &e, const ast::NameExpr &axis);
  /// `rank(local: i)`
  Result rankAt(const ast::CallExpr &e);
  /// The ranks that differ in that axis alone, in its order; all of them where it is null.
  std::optional<std::vector<std::vector<int>>> groupsAlong(const ast::NameExpr *axis);

  // Launches (test_launches.cpp).
  /// A launch being put together.
  struct Launch;
  Result backToBack(const ast::CallExpr &e);
  Result callKernel(const ast::CallExpr &e, const ast::KernelDecl &kernel,
                    const ast::GenericExpr *generics);
  bool bindArguments(Launch &launch);
  bool bindAxes(Launch &launch);
  bool bindArgument(Launch &launch, const ast::Param &param, const ast::Expr &expr);
  bool instantiate(Launch &launch, const ast::GenericExpr *generics);
  std::optional<sema::GenericArgs> genericArgs(const ast::KernelDecl &kernel,
                                               const ast::GenericExpr *generics);
  bool convertArguments(Launch &launch);
  bool solveLaunchSizes(Launch &launch);
  bool checkRequired(Launch &launch);
  bool allocateOutputs(Launch &launch);
  bool checkAgreed(const Launch &launch, const RankArgs &args);
  bool runOnExecutor(Launch &launch);
  void compareWithOther(const Launch &launch);
  Result finishLaunch(Launch &launch);
  void promise(const Launch &launch, llvm::ArrayRef<TestValue> written);

  // Shared.
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] bool isActive(int rank) const { return active_[rank] != 0; }
  [[nodiscard]] bool allActive() const;
  /// The first active rank.
  [[nodiscard]] int leader() const;
  bool requireAllRanks(SourceRange range, llvm::StringRef what);
  std::nullopt_t fail(SourceRange range, const llvm::Twine &message);
  /// Errors of the code not_enough_memory have a diagnostic of their own.
  std::nullopt_t fail(SourceRange range, llvm::Error error);
  /// `fn` for each active rank, once for ranks whose operands are the same arrays.
  Result mapRanks(SourceRange range, llvm::ArrayRef<const TestValue *> operands,
                  llvm::function_ref<llvm::Expected<Array>(int rank)> fn);

  TestWatchdog *watchdog_ = nullptr;
  Session &session_;
  KernelLibrary &library_;
  Executor &executor_;
  /// Runs functions that the test itself calls; made when the first one is.
  std::unique_ptr<Executor> interpreter_;
  const std::vector<LaunchRecord> *other_;
  llvm::StringRef otherName_;
  int ranks_;
  std::vector<int64_t> mesh_;
  const ast::MeshStmt *meshOfTest_ = nullptr;
  std::vector<char> active_;
  std::vector<Scope> scopes_;
  const Clause *clause_ = nullptr;
  /// Where the report of a failed launch goes instead, inside of `fails(…)`.
  std::optional<std::string> *capture_ = nullptr;
  /// How often the next kernel that is called is launched.
  int repeat_ = 1;
  bool failed_ = false;
  /// A launch so far has multiplied as tf32.
  bool hasTf32_ = false;
  std::vector<LaunchRecord> launches_;
};

} // namespace dtile::driver
