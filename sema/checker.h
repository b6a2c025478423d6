// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks one body: an instance of a kernel or function, or the value of a constant. The members are
// spread over the files of the folders beside this one by topic. Private to sema.
#pragma once

#include "frontend/base/elementwise.h"
#include "frontend/base/habits.h"
#include "sema/context.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dtile::sema {

/// What an index chooses of a dimension of a tile that is held: the position `at`, or, where that
/// is null, `length` positions from `lo`, which are known.
struct TilePart {
  TExpr *at = nullptr;
  int64_t lo = 0;
  int64_t length = 1;
};

/// What a call handler sees: `name<generics>[shape](args)`.
struct CallSite {
  llvm::StringRef name;
  SourceRange range;
  SourceRange nameRange;
  llvm::ArrayRef<ast::Arg> generics;
  /// Sizes in brackets, of `zeros<f32>[BM, BN]`.
  llvm::ArrayRef<ast::Expr *> shape;
  bool hasShape = false;
  llvm::ArrayRef<ast::Arg> args;
  bool hasArgs = false;
  /// `name.reference(args)`: of an `extern fn` the reference is wanted.
  bool isReference = false;
};

class Checker {
public:
  Checker(Context &context, ModuleInfo &module)
      : ctx(context), types(context.types), module(module), errorsBefore_(context.errors) {}

  Context &ctx;
  TypeTable &types;
  ModuleInfo &module;
  Scope scope;
  /// The instance whose body this is; at most one is set.
  KernelInstance *kernel = nullptr;
  FnInstance *fn = nullptr;
  /// Where statements go.
  TBlock *block = nullptr;
  /// SymbolRef nodes of the signature, renumbered once the symbols are solved.
  std::vector<TExpr *> symbolRefs;

  template <typename... Args> DiagBuilder report(SourceRange range, diag::Id id, Args &&...args) {
    return ctx.report(range, id, std::forward<Args>(args)...);
  }

  // ---- check_expressions.cpp: any expression. Never null; of Error type after reporting.
  TExpr *expr(const ast::Expr *e);
  /// An expression whose value is wanted: a region is loaded.
  TExpr *value(const ast::Expr *e);
  /// An i64 scalar: a position, size or rank.
  TExpr *position(const ast::Expr *e);
  /// A bool scalar.
  TExpr *condition(const ast::Expr *e);
  void reportCondition(SourceRange range, Type type);
  void reportUncalled(SourceRange range, llvm::StringRef name);
  /// A token or acquire.
  TExpr *token(const ast::Expr *e);
  TExpr *arithmetic(ast::BinaryOp op, TExpr *lhs, TExpr *rhs, SourceRange range,
                    SourceRange opRange);
  TExpr *unaryExpr(const ast::UnaryExpr *e);
  TExpr *binaryExpr(const ast::BinaryExpr *e);
  TExpr *conditionalExpr(const ast::ConditionalExpr *e);
  /// `whenTrue` where `chooser` (bool) holds; shapes are broadcast.
  TExpr *select(TExpr *chooser, TExpr *whenTrue, TExpr *whenFalse, SourceRange range);
  TExpr *shiftedRange(ast::BinaryOp op, TExpr *lhs, TExpr *rhs, SourceRange range,
                      SourceRange opRange);
  Symbol *lookup(llvm::StringRef name);
  void reportUnknown(SourceRange range, llvm::StringRef name, llvm::StringRef otherwise = {});
  bool isInParameters(SourceRange range) const;
  const ast::NameExpr *foreignModule(const ast::MemberExpr *e);
  bool noteHabit(DiagBuilder &message, SourceRange range, const habits::Word *word);
  bool reportForeignModule(const ast::MemberExpr *e);
  /// Where the body declares a local of this name after `place`; invalid when it does not.
  SourceRange laterDefinition(llvm::StringRef name, SourceLoc place) const;
  /// The symbol of `module.name` where `base` names a module; null when it does not. Sets `failed`
  /// after reporting.
  const Symbol *moduleMember(const ast::MemberExpr *e, bool &failed);
  TExpr *symbolValue(const Symbol &symbol, SourceRange range);

  // ---- constant_eval.cpp
  TExpr *intConst(int64_t value, SourceRange range, DType dtype = DType::I64,
                  bool adaptable = false);
  TExpr *floatConst(double value, SourceRange range, DType dtype, bool adaptable = false);
  TExpr *boolConst(bool value, SourceRange range);
  /// The folded node when every operand is constant, else null. Of Error type after reporting.
  TExpr *fold(ElementwiseOp op, llvm::ArrayRef<TExpr *> operands, SourceRange range);
  TExpr *foldCast(TExpr *operand, DType dtype, SourceRange range);
  /// An integer known at compile time, or nothing after reporting.
  std::optional<int64_t> constInt(const ast::Expr *e, llvm::StringRef what);
  TExpr *constValue(const Symbol &symbol, SourceRange range);
  std::optional<GenericValue> genericValue(const ast::Expr *e, GenericValue::Kind kind);

  // ---- region_notes.cpp
  /// What to write in place of a region with a length that is not known.
  void noteHowToCut(DiagBuilder &message, SourceRange region);

  // ---- conversions.cpp
  /// What stands for something wrong, once that was reported.
  Type errorType();
  TExpr *error(SourceRange range);
  TExpr *toValue(TExpr *e);
  /// `e` as the wanted type: literals adapt, i32 widens to i64, scalars splat, tiles broadcast.
  TExpr *convert(TExpr *e, Type wanted, SourceRange range);
  std::string dtypeSpelling(DType dtype) const;
  TExpr *adapted(TExpr *constant, DType dtype);
  /// A constant that takes the type wanted, as a float. Of Error type after reporting.
  TExpr *floatOf(TExpr *constant, DType dtype, bool adaptable);
  TExpr *cast(TExpr *e, DType dtype, SourceRange range);
  TExpr *shapedAs(TExpr *e, llvm::ArrayRef<int64_t> shape);
  bool broadcastShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b,
                      llvm::SmallVectorImpl<int64_t> &result);
  /// Gives both one element type; false after reporting.
  bool unifyDTypes(TExpr *&a, TExpr *&b, SourceRange opRange);
  bool unify(TExpr *&a, TExpr *&b, SourceRange opRange);
  TExpr *elementwise(ElementwiseOp op, llvm::ArrayRef<TExpr *> operands, SourceRange range);
  TExpr *builtin(BuiltinId id, llvm::ArrayRef<TExpr *> operands, Type type, SourceRange range,
                 llvm::ArrayRef<int64_t> ints = {});
  /// The type of a tile of this shape (a scalar for none), or Error after reporting that it is not
  /// possible.
  Type valueType(DType dtype, llvm::ArrayRef<int64_t> shape, SourceRange range);
  Type withDType(Type type, DType dtype);
  void reportDTypes(SourceRange range, const TExpr *a, const TExpr *b);

  // ---- check_types.cpp: what is written in angle brackets, annotations and shapes.
  std::optional<DType> dtypeNamed(llvm::StringRef name, SourceRange range);
  std::optional<DType> dtypeArg(const ast::Expr *e);
  /// The type of a value: dtype, tile, token …; Error after reporting.
  Type valueTypeRef(const ast::TypeRef &ref);
  /// Static sizes; false after reporting.
  bool staticSizes(llvm::ArrayRef<ast::Expr *> sizes, llvm::SmallVectorImpl<int64_t> &result);

  // ---- check_indexing.cpp: slices, ranges, members.
  TExpr *indexExpr(const ast::IndexExpr *e);
  TExpr *slice(TExpr *base, llvm::ArrayRef<ast::Expr *> indices, SourceRange range);
  bool isNewAxis(const ast::Expr *index);
  TExpr *sliceWithNewAxes(TExpr *base, llvm::ArrayRef<ast::Expr *> indices, SourceRange range);
  TExpr *sliceOf(TExpr *base, llvm::ArrayRef<IndexItem> items, SourceRange range);
  TExpr *gather(TExpr *base, llvm::ArrayRef<IndexItem> items, SourceRange range);
  bool checkConstantIndex(TExpr *base, unsigned dim, TExpr *index);
  bool indexItems(TExpr *base, llvm::ArrayRef<ast::Expr *> indices, SourceRange range,
                  llvm::SmallVectorImpl<IndexItem> &items, bool &isGather);
  bool gatherIndices(TExpr *base, llvm::MutableArrayRef<IndexItem> items, SourceRange range,
                     llvm::SmallVectorImpl<int64_t> &shape);
  TExpr *rangeExpr(const ast::RangeExpr *e, TExpr *base, unsigned dim);
  TExpr *makeRange(TExpr *lo, TExpr *limit, SourceRange range);
  TExpr *rangeMember(TExpr *rangeValue, RangeMemberKind member, SourceRange range);
  /// Positions of a block range as a tile, and those past its limit as -1 when `guarded`.
  TExpr *rangePositions(TExpr *rangeValue, bool guarded, SourceRange range);

  /// Positions `lo`, `lo + step` … before `hi`, as a tile; their number is static.
  TExpr *steppedPositions(const ast::StepExpr *e, TExpr *base, unsigned dim);

  // ---- check_tiles.cpp: parts of tiles, and tiles of two.
  TExpr *zeroOf(DType dtype, SourceRange range);
  TExpr *isAt(llvm::ArrayRef<int64_t> shape, unsigned dim, TExpr *index);
  TExpr *isIn(llvm::ArrayRef<int64_t> shape, unsigned dim, const TilePart &part, SourceRange range);
  TExpr *stepsAlong(llvm::ArrayRef<int64_t> shape, unsigned dim, SourceRange range);
  TExpr *reshaped(TExpr *tile, llvm::ArrayRef<int64_t> shape, SourceRange range);
  std::optional<TilePart> tileRange(const ast::Expr *index, int64_t size);
  std::optional<llvm::SmallVector<TilePart, 4>>
  tileParts(const TExpr *tile, llvm::ArrayRef<ast::Expr *> indices, SourceRange range);
  TExpr *movedAlong(TExpr *tile, unsigned dim, int64_t lo, int64_t length, SourceRange range);
  TExpr *partOf(TExpr *tile, llvm::ArrayRef<TilePart> parts, SourceRange range);
  TExpr *tileAt(TExpr *tile, llvm::ArrayRef<ast::Expr *> indices, SourceRange range);
  void assignElements(const ast::AssignStmt *s, const ast::IndexExpr *target, Symbol &symbol);
  TExpr *joined(const CallSite &site);
  bool isSplit(const ast::Expr *e) const;
  void letSplit(const ast::LetStmt *s);

  // ---- check_members.cpp
  TExpr *memberExpr(const ast::MemberExpr *e);
  bool readsNothingOf(const TExpr *base);
  void reportNoMember(const TExpr *base, const ast::Ident &member);
  TExpr *rangeChunk(TExpr *base, TExpr *number, TExpr *count, SourceRange range);
  bool checkPositive(const TExpr *count);
  TExpr *methodCall(const ast::MemberExpr *callee, const CallSite &site);
  TExpr *rangeMethod(TExpr *base, const CallSite &site);
  TExpr *regionMethod(TExpr *base, const CallSite &site);
  TExpr *dimSize(TExpr *base, unsigned dim, SourceRange range);
  TExpr *transposed(TExpr *tile, SourceRange range);

  // ---- check_calls.cpp: functions.
  TExpr *callExpr(const ast::Expr *e);
  TExpr *callSymbol(const Symbol &symbol, const CallSite &site);
  void reportUnknownFunction(SourceRange range, llvm::StringRef name);
  void checkArgsOnly(const CallSite &site);
  TExpr *callFn(const Symbol &symbol, const CallSite &site);
  FnInstance *fnInstance(const ast::FnDecl *decl, llvm::ArrayRef<GenericValue> values,
                         SourceRange call, bool isReference = false);
  /// The function of `name.reference`; null for any other member.
  const Symbol *referenceOf(const ast::MemberExpr *member);
  bool placeArgs(const ast::FnDecl *decl, const CallSite &site,
                 llvm::SmallVectorImpl<const ast::Expr *> &given);
  bool inferFnGenerics(const ast::FnDecl *decl, ModuleInfo &home, const CallSite &site,
                       llvm::ArrayRef<TExpr *> args, std::vector<GenericValue> &values);
  /// Checks the number of unlabelled arguments and that every label is known; false after
  /// reporting.
  bool checkArgs(const CallSite &site, unsigned least, unsigned most,
                 llvm::ArrayRef<llvm::StringRef> labels = {});
  static const ast::Expr *labelled(const CallSite &site, llvm::StringRef label);
  static const ast::Expr *positional(const CallSite &site, unsigned index);

  // ---- check_builtins.cpp: handlers of calls.def. One member a row.
#define CALL(HANDLER, NAME, SIGNATURE, DOC) TExpr *call##HANDLER(const CallSite &site);
#include "sema/calls/calls.def"
  TExpr *positionCall(const CallSite &site, BuiltinId id);
  TExpr *foldedCall(const CallSite &site, ElementwiseOp op, unsigned most);
  TExpr *syncCall(const CallSite &site, BuiltinId id);
  Type madeTile(const CallSite &site);
  TExpr *tileArg(const CallSite &site);
  /// check_scans.cpp
  const Symbol *functionGiven(const ast::Expr *e);
  bool scannedTiles(const CallSite &site, llvm::ArrayRef<const ast::Expr *> given,
                    llvm::SmallVectorImpl<TExpr *> &tiles);
  /// The tiles that a scan or reduction is of, and where its function stands; null when reported.
  const ast::Expr *tilesToJoin(const CallSite &site, llvm::SmallVectorImpl<TExpr *> &tiles);
  const Symbol *joinerNamed(const ast::Expr *function, llvm::ArrayRef<TExpr *> tiles);
  /// The instance that joins two groups of values of these types; null when reported.
  FnInstance *joinerOf(const Symbol &symbol, const ast::Expr *function,
                       llvm::ArrayRef<TExpr *> tiles, llvm::ArrayRef<Type> halves);
  TExpr *joined(const CallSite &site, FnInstance *callee, llvm::ArrayRef<TExpr *> tiles,
                unsigned axis);
  TExpr *withBitsFor(TExpr *literal, DType wanted);
  TExpr *mathCall(const CallSite &site, ElementwiseOp op, ElementTypes types);
  TExpr *reduction(const CallSite &site, BuiltinId id);
  TExpr *scan(const CallSite &site, BuiltinId id);
  std::optional<unsigned> axisArg(const CallSite &site, unsigned rank);
  /// The same of a tile, which need not name its only dimension.
  std::optional<unsigned> axisAlong(const CallSite &site, const TypeData &tile);
  bool noGenerics(const CallSite &site);
  bool noShape(const CallSite &site);
  std::optional<bool> isTf32Dot(const CallSite &site);

  // ---- check_communication.cpp
  TExpr *afterExpr(const ast::AfterExpr *e);
  /// Appends tokens to every read and asynchronous operation in `e`; how many there were.
  unsigned attachAfter(TExpr *e, TExpr *token);
  /// A region that is read after the token: a Load whose type is open until a value is wanted.
  TExpr *withToken(TExpr *region, TExpr *token, SourceRange range);
  TExpr *remoteExpr(const ast::RemoteExpr *e);
  TExpr *notifyBy(const CallSite &site, TExpr *cells, TExpr *count, llvm::ArrayRef<TExpr *> tokens);
  void afterArgs(const CallSite &site, llvm::SmallVectorImpl<TExpr *> &tokens);
  TExpr *signalCells(const ast::Expr *e, llvm::StringRef use);
  /// Tiles that name elements of a destination, and their common shape.
  struct Indexed {
    bool isGiven = false;
    llvm::SmallVector<IndexItem, 4> items;
    llvm::SmallVector<int64_t, 4> shape;
  };
  TExpr *indexedTarget(const ast::IndexExpr *e, Indexed &indexed);
  /// A region to write to. Where `indexed` is there, index tiles may stand in its brackets: then
  /// the object is given.
  TExpr *destination(const ast::Expr *e, llvm::StringRef use, Indexed *indexed = nullptr);
  TExpr *transferSource(const ast::Expr *e, llvm::SmallVectorImpl<TExpr *> &tokens);
  bool checkTransfer(TExpr *&source, TExpr *target, SourceRange range);
  TExpr *addInBlocks(const CallSite &site, const TExpr *source);
  bool isTurnedPut(const CallSite &site);
  TExpr *atomicCall(const CallSite &site, AtomicKind kind);
  std::optional<AtomicOrder> atomicOrder(const CallSite &site);
  /// `y[i] = x after t` where x reads nothing: the store itself is after t. Set to the expression
  /// that may be so.
  const ast::AfterExpr *allowPlainAfter = nullptr;
  llvm::SmallVector<TExpr *, 2> plainAfter;

  // ---- exchanged_dimensions.cpp
  /// Warns where a tile that ranges cut is stored by the same ranges in another order.
  void warnOfExchangedDimensions(const TExpr *target, const TExpr *value);

  // ---- check_memory_spaces.cpp: each false after reporting.
  bool checkWritable(const TExpr *region, SourceRange range);
  bool checkReadable(const TExpr *region, SourceRange range);
  bool checkSymmetric(const TExpr *object, SourceRange range);
  void checkParamSpace(const ast::Param &param, const KernelParam &checked);
  const ast::Param *rootParam(const TExpr *e) const;

  // ---- check_statements.cpp
  void statements(llvm::ArrayRef<ast::Stmt *> list);
  void statement(const ast::Stmt *s);
  /// Whether nothing is wrong with this body so far: what looks unused may be used where something
  /// is wrong.
  [[nodiscard]] bool isGood() const { return ctx.errors == errorsBefore_; }
  /// A nested block with names of its own.
  void nested(const ast::BlockStmt *body, TBlock &into);
  void letStmt(const ast::LetStmt *s);
  void varStmt(const ast::VarStmt *s);
  TExpr *asVariable(TExpr *e, const Symbol &symbol, SourceRange range);
  void assignStmt(const ast::AssignStmt *s);
  void letSeveral(const ast::LetStmt *s);
  TExpr *storedValue(const ast::AssignStmt *s, llvm::SmallVectorImpl<TExpr *> &after);
  void storeTo(const ast::AssignStmt *s, TExpr *target);
  void hoistIndices(TExpr *target);
  void refuseAssignment(const ast::AssignStmt *s, const Symbol &symbol);
  void assignVariable(const ast::AssignStmt *s, Symbol &symbol);
  void storeStmt(const ast::AssignStmt *s);
  void scatterStmt(const ast::AssignStmt *s, TExpr *base, llvm::ArrayRef<IndexItem> items);
  void exprStmt(const ast::ExprStmt *s);
  void forStmt(const ast::ForStmt *s);
  // check_arrivals.cpp
  /// The cells of `for i in arrivals(cells)`, or null for another loop.
  [[nodiscard]] static const ast::CallExpr *arrivalsOf(const ast::ForStmt *s);
  void arrivalsLoop(const ast::ForStmt *s, const ast::CallExpr *cells);
  void checkCarried(const TBlock &body, SourceRange loop);
  void checkUnordered(const TBlock &body);
  void whileStmt(const ast::WhileStmt *s);
  void ifStmt(const ast::IfStmt *s);
  void awaitStmt(const ast::AwaitStmt *s);
  void assumeStmt(const ast::AssumeStmt *s);
  void returnStmt(const ast::ReturnStmt *s);
  void yieldStmt(const ast::YieldStmt *s);
  /// Bounds and variable of `m in M by BM`.
  struct Iteration {
    TExpr *lo = nullptr;
    TExpr *hi = nullptr;
    int64_t blockLength = 0;
    Type type = nullptr;
    /// The places of an axis, as in `i in 0..num_ranks(local)`.
    [[nodiscard]] Coordinate coordinate() const;
  };
  // check_loops.cpp
  Iteration iteration(const ast::IterDim &dim);
  void warnOfDescent(const ast::RangeExpr &bounds, const TExpr *lo, const TExpr *hi);
  /// The innermost loop. `break` clears `goes`; both words clear each of `stays`, which what stands
  /// behind the statements in progress asks.
  struct Loop {
    bool isInside = false;
    bool isUnordered = false;
    Variable *goes = nullptr;
    llvm::SmallVector<Variable *, 2> stays;
  } around;
  void loopBody(const ast::BlockStmt *body, Variable *goes, bool isUnordered);
  bool leavesLoop(const ast::Stmt *s) const;
  void breakStmt(const ast::BreakStmt *s);
  void leavingStatement(const ast::Stmt *s, llvm::ArrayRef<ast::Stmt *> rest);
  void leavingIf(const ast::IfStmt *s, llvm::ArrayRef<ast::Stmt *> behindThen,
                 llvm::ArrayRef<ast::Stmt *> behindOtherwise);
  Variable *makeFlag(llvm::StringRef name, SourceRange range);
  TExpr *flagValue(Variable *flag, SourceRange range);
  void clearFlag(Variable *flag, SourceRange range);
  Symbol *declareLocal(const ast::Ident &name, Type type, bool isMutable);
  void leaveScope();
  TExpr *initialValue(const ast::Expr *e, const ast::TypeRef *type, bool isVar);
  TStmt *emit(TStmtKind kind, SourceRange range);
  /// What a call gives that made statement `s`; Error when it could not.
  TExpr *noValue(const TStmt *s, SourceRange range);

  // ---- check_returns.cpp: gives a function body one `return`, at its end.
  void checkFn(const ast::FnDecl *decl);
  void fnBody(const ast::BlockStmt *body);
  TExpr *defaultValue(const ast::Param &param, Type type);
  void returningBlocks(llvm::ArrayRef<llvm::ArrayRef<ast::Stmt *>> pieces,
                       llvm::ArrayRef<Variable *> results);
  void returningIf(const ast::IfStmt *choice, llvm::ArrayRef<llvm::ArrayRef<ast::Stmt *>> rest,
                   llvm::ArrayRef<Variable *> results);
  void returnValues(const ast::ReturnStmt *s, llvm::ArrayRef<Variable *> results);
  void makeResultVariables(SourceRange range, llvm::SmallVectorImpl<Variable *> &result);

  // ---- check_extern.cpp
  void checkExtern(const ast::FnDecl *decl);
  void externType(const ast::TypeRef &ref, Type type, llvm::StringRef name, bool fits);
  void externInstructions(const ast::FnDecl &decl, const ast::Instructions &one);

  // ---- check_declarations.cpp, check_signature.cpp, solve_sizes.cpp: signatures and bodies.
  void bindGenerics(llvm::ArrayRef<ast::GenericParam> generics,
                    llvm::ArrayRef<GenericValue> values);
  void checkKernel(const ast::KernelDecl *decl);
  void kernelSignature(const ast::KernelDecl *decl);
  void declareSizes(const ast::Expr *size);
  void kernelParam(const ast::Param &param, unsigned index);
  void solveSizes();
  void kernelPrologue(const ast::KernelDecl *decl);
  // ---- check_mesh.cpp: axes of ranks.
  /// An axis of the kernel's mesh.
  struct Axis {
    ast::Ident name;
    const ast::Expr *extent = nullptr;
  };
  void kernelMesh(const ast::KernelDecl *decl);
  void meshClauses();
  /// The number of the axis that is named; nothing after reporting.
  std::optional<size_t> axisNamed(llvm::StringRef name, SourceRange range);
  TExpr *axisExtent(size_t axis, SourceRange range);
  /// How far neighbours along the axis are apart.
  TExpr *axisStride(size_t axis, SourceRange range);
  TExpr *ownCoordinate(size_t axis, SourceRange range);
  TExpr *givenCoordinate(size_t axis, const ast::Expr *e);
  TExpr *rankAt(const CallSite &site);
  /// Of one argument that names an axis; nothing after reporting.
  std::optional<size_t> axisArgument(const CallSite &site);
  /// The coordinate that the result of arithmetic is.
  Coordinate coordinateOf(ast::BinaryOp op, const TExpr *lhs, const TExpr *rhs) const;

  // ---- check_clauses.cpp: what a launch is given.
  void kernelClauses(const ast::KernelDecl *decl);
  void clauseCondition(const ast::Expr *condition, const Clause &model);
  std::string clauseText(SourceRange range) const;
  const Symbol *tensorNamed(const ast::Expr *e);
  bool isSize(const ast::Expr *e);
  bool isAboutElements(const ast::Expr *e);
  void elementComparison(const ast::Expr *e, Clause clause);
  void elementsBetween(const ast::BinaryExpr &comparison, Clause clause);
  void numbersOfAllRanks(const ast::CallExpr &call, Clause clause);
  bool clauseTensor(const ast::Expr *e, Clause &clause);
  bool checkClauseTensor(SourceRange range, const Clause &clause);
  /// Of what is computed before bodies begin.
  void refuseMemory(const TExpr *value, diag::Id what);
  void kernelRole(const ast::Role *role, llvm::StringRef name, int afterAll,
                  llvm::ArrayRef<ast::Ident> joined);
  void spaceDims(const ast::OverClause *over, TSpace &space,
                 llvm::SmallVectorImpl<Iteration> &bounds);

  /// The axes of the kernel, the last of which changes from rank to rank.
  std::vector<Axis> mesh;
  /// The body's yields are for this `when all`; null where there is none.
  const ast::Role *yieldsTo = nullptr;
  bool sawYield = false;
  /// The last statement of the role's body, where a yield may stand.
  const ast::Stmt *allowedYield = nullptr;
  /// How deep the calls of functions nest that were seen.
  unsigned deepestCall = 0;

private:
  unsigned errorsBefore_;
};

/// Handlers by the name that is called; null for others.
using CallHandler = TExpr *(Checker::*)(const CallSite &);
[[nodiscard]] CallHandler callHandler(llvm::StringRef name);
/// The names in calls.def.
void forEachCall(llvm::function_ref<void(llvm::StringRef)> visit);
[[nodiscard]] llvm::StringRef operatorText(ast::BinaryOp op);

/// `inf` and `nan`: numbers that have names everywhere.
[[nodiscard]] bool isNumberName(llvm::StringRef name);
/// The name of an instance: the declaration's, then the values.
[[nodiscard]] std::string instanceName(llvm::StringRef name, llvm::ArrayRef<GenericValue> values);
[[nodiscard]] GenericValue::Kind genericKind(const ast::GenericParam &param);

// Checks of finished trees.
/// check_tokens.cpp: completion tokens are used exactly once on every path, acquires at least once.
void checkTokens(Context &context, const KernelInstance &kernel);
/// check_pairing.cpp: every signal is notified and waited on.
void checkPairing(Context &context, const KernelInstance &kernel);
/// unordered_reads.cpp: notes a read of what ranks send to each other that is after nothing, and
/// the transfer, if there are such.
void noteUnorderedRead(DiagBuilder &builder, const KernelInstance &kernel);
/// check_tests.cpp: the names in tests, benches and `ensures`.
void checkTests(Context &context, ModuleInfo &module);
void checkEnsures(Context &context, ModuleInfo &module, const ast::KernelDecl *kernel);

} // namespace dtile::sema
