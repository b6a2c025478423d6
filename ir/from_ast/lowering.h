// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of lowering one kernel or function. Private to ir/from_ast; methods live in the
// lower_*.cpp file of their topic.
#pragma once

#include "ir/core/builder.h"
#include "sema/tree/typed_ast.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"

#include <deque>
#include <map>

namespace dtile::ir {

/// How many positions one dimension of a region has; kept beside the view so that sizes can be
/// compared, or shown to be equal, at compile time.
struct Extent {
  enum class Kind : uint8_t {
    /// All of an object's dimension.
    Whole,
    /// A range, cut to the dimension.
    Cut,
    /// A window of static length.
    Window,
  } kind = Kind::Whole;
  /// Whole: the size; where it is null the static length, or what the view says (`view`, `dim`).
  Value *size = nullptr;
  Value *view = nullptr;
  unsigned dim = 0;
  /// Cut, Window: where it is, and where it was before shifts.
  Value *first = nullptr;
  Value *limit = nullptr;
  Value *unshiftedFirst = nullptr;
  Value *unshiftedLimit = nullptr;
  /// Window, Whole: the static length, if there is one.
  int64_t length = sema::kDynamic;
  /// Cut, Window: the dimension that was sliced.
  const Extent *parent = nullptr;
};

/// A range's parts.
struct RangeParts {
  Value *first = nullptr;
  Value *limit = nullptr;
  /// The same before shifts.
  Value *unshiftedFirst = nullptr;
  Value *unshiftedLimit = nullptr;
  /// Static length or kDynamic.
  int64_t length = sema::kDynamic;
  /// The index, or where it is null: (indexPosition - indexOrigin) / indexStep, computed where it
  /// is wanted; 0 where these are null too, no origin is 0.
  Value *index = nullptr;
  Value *indexPosition = nullptr;
  Value *indexOrigin = nullptr;
  int64_t indexStep = 1;
};

/// The coordinates by which a rank is given that may be outside of their axes.
struct GivenCoordinates {
  std::vector<std::string> axes;
  /// For each axis the coordinate, then the axis's size.
  llvm::SmallVector<Value *, 4> operands;
};

/// A typed expression's value in IR.
struct Lowered {
  /// Scalar, tile, view, signal, token, acquire; null for ranges and void.
  Value *value = nullptr;
  /// Ranges.
  RangeParts range;
  /// Regions: one a dimension, or empty where nothing is known.
  llvm::SmallVector<const Extent *, 4> extents;
  /// Ranks: what a report says of one that does not exist.
  const GivenCoordinates *coordinates = nullptr;
};

/// Lowers one kernel or function.
class Lowering {
public:
  explicit Lowering(Module &module) : builder_(module) {}

  void kernel(const sema::KernelInstance &kernel);
  void function(const sema::FnInstance &function);

  /// Position of the first operand that is a token which the operation is after.
  static unsigned firstToken(const sema::TExpr &expr);

private:
  using TExpr = sema::TExpr;
  using TStmt = sema::TStmt;
  using Statements = llvm::ArrayRef<TStmt *>;
  using Variables = llvm::SmallSetVector<const sema::Variable *, 4>;
  using Values = llvm::SmallVector<Value *, 4>;

  /// What a slice does to one dimension.
  struct DimensionCut {
    enum class Kind : uint8_t { All, Position, Range, Window } kind = Kind::All;
    Values operands;
    /// What is left of it; null for positions, and where nobody asks.
    const Extent *extent = nullptr;
  };

  /// A copy whose sizes are checked.
  struct Copy {
    /// `put`, `get`, `reduce_add`.
    llvm::StringRef what;
    const sema::TypeData &sourceType;
    /// A region or a value.
    const Lowered &source;
    const sema::TypeData &targetType;
    const Lowered &target;
  };

  /// Gives ops the position of a node while it lives.
  class At {
  public:
    At(Builder &builder, SourceRange range) : builder_(builder), outer_(builder.loc()) {
      if (range.isValid())
        builder_.setLoc(range.begin);
    }
    ~At() { builder_.setLoc(outer_); }
    At(const At &) = delete;
    At &operator=(const At &) = delete;

  private:
    Builder &builder_;
    SourceLoc outer_;
  };

  // lower_declarations.cpp
  void symbols(const sema::KernelInstance &kernel);
  void scalarParameters(const sema::KernelInstance &kernel);
  void parameters(const sema::KernelInstance &kernel);
  void checkDeclaredSizes(const sema::KernelInstance &kernel);
  // lower_clauses.cpp
  void launchClauses(const sema::KernelInstance &kernel);
  void elementClauses(const sema::KernelInstance &kernel);
  void appendMentioned(const TExpr &condition, const sema::KernelInstance &kernel, Values &operands,
                       std::vector<std::string> &names);
  void tensorParameter(const sema::KernelParam &param, unsigned position);
  void space(const sema::KernelInstance &kernel, const sema::TSpace &space);
  Value *launchDim(unsigned param, unsigned dim);
  Type typeOf(sema::Type type);
  /// The IR types that stand for a type: three for a range, none for void.
  void appendTypes(sema::Type type, llvm::SmallVectorImpl<Type> &types);
  void appendParts(sema::Type type, const Lowered &value, Values &parts);
  /// The reverse of appendParts; takes what it needs from the front of `parts`.
  Lowered fromParts(sema::Type type, llvm::ArrayRef<Value *> &parts);
  /// Adds a variable's block arguments, with its name, and binds it to them.
  void bindToArguments(Block &block, const sema::Variable &variable);
  /// What an `extern fn` gives, by its reference or by instructions.
  Value *withInstructions(const sema::FnInstance &function, Block &block, Value *reference);

  // lower_statements.cpp
  /// The variables that a loop or branch assigns and that live outside it, in the order of their
  /// first assignments.
  llvm::ArrayRef<const sema::Variable *> carriedBy(const TStmt &stmt);
  void collectAssigned(Statements statements, Variables &assigned);
  void bind(const sema::Variable &variable, Lowered value);
  void rollBack(size_t mark);
  void appendCurrent(llvm::ArrayRef<const sema::Variable *> variables, Values &parts);
  void rebind(llvm::ArrayRef<const sema::Variable *> variables, llvm::ArrayRef<Value *> parts);
  void block(Statements statements);
  /// The body of a function or space; gives the values of the `return` or `yield` at its end.
  Values body(Statements statements);
  void statement(const TStmt &stmt);
  void let(const TStmt &stmt);
  void store(const TStmt &stmt);
  void scatter(const TStmt &stmt);
  void forLoop(const TStmt &stmt);
  void guarded(const TStmt &stmt, llvm::ArrayRef<const sema::Variable *> carried);
  void leftLoop(const TStmt &stmt);
  void bindLoopVariable(const TStmt &stmt, Value *position, Value *first, Value *limit);
  void whileLoop(const TStmt &stmt);
  void conditional(const TStmt &stmt);
  void sync(sema::BuiltinId builtin);
  /// Lowers, ahead of its first use, each token that several operations of a statement are after.
  void hoistSharedTokens(const TStmt &stmt);
  void hoistSharedTokens(llvm::ArrayRef<const TExpr *> exprs, llvm::ArrayRef<TExpr *> after);
  /// The tokens that an operation is after.
  void appendTokens(const TExpr &expr, Values &values);
  void appendTokens(llvm::ArrayRef<TExpr *> exprs, Values &values);

  // lower_expressions.cpp
  /// The value of an expression; one that has effects is evaluated once a statement.
  Lowered lower(const TExpr &expr);
  Lowered evaluate(const TExpr &expr);
  Value *value(const TExpr &expr) { return lower(expr).value; }
  void appendValues(llvm::ArrayRef<TExpr *> exprs, Values &values);
  Value *constant(const TExpr &expr);
  /// A Const, as attributes hold it.
  static Attr constantAttribute(const TExpr &expr);
  Value *elementwise(const TExpr &expr);
  const GivenCoordinates *givenCoordinates(const TExpr &rank);
  Value *shortCircuit(const TExpr &expr);
  Value *chooseLazily(const TExpr &condition, const TExpr &whenTrue, const TExpr &whenFalse);
  Value *cast(const TExpr &expr);
  Value *broadcast(const TExpr &expr);
  Value *builtin(const TExpr &expr);
  Value *dot(const TExpr &expr, Value *accumulator);
  Value *reduce(const TExpr &expr, OpKind kind, llvm::StringRef name);
  Value *take(const TExpr &expr);
  Value *scan(const TExpr &expr, llvm::StringRef name);
  Value *load(const TExpr &expr);
  Value *gather(const TExpr &expr);
  /// The index tiles of a gather or scatter, scalars repeated to their shape.
  void appendIndexTiles(llvm::ArrayRef<sema::IndexItem> indices, llvm::ArrayRef<int64_t> shape,
                        Values &values);
  void appendPlaces(llvm::ArrayRef<sema::IndexItem> indices, llvm::ArrayRef<int64_t> shape,
                    Values &values);
  Value *zero(Type type);
  /// The results of a call, as parts.
  Values call(const TExpr &expr);
  /// The values that an instance gives.
  Values callOf(const sema::FnInstance &callee, llvm::ArrayRef<Value *> operands);
  /// lower_scans.cpp: those along an axis.
  Values scanBy(const TExpr &expr);
  /// Those that are left of an axis.
  Values reduceBy(const TExpr &expr);
  /// i32, of a shape: position times a factor, plus an offset, along an axis.
  Value *placesAlong(llvm::ArrayRef<int64_t> shape, size_t axis, int64_t factor, int64_t offset);
  /// A tile without an axis of size 1.
  Value *withoutAxis(Value *tile, size_t axis);

  // lower_regions.cpp
  RangeParts range(const TExpr &expr) { return lower(expr).range; }
  RangeParts makeRange(const TExpr &expr);
  RangeParts shiftRange(const TExpr &expr);
  RangeParts blocksOfRange(const TExpr &expr);
  RangeParts chunkOfRange(const TExpr &expr);
  static RangeParts dynamicRange(Value *first, Value *limit);
  Value *rangeMember(const TExpr &expr);
  Value *rangeIndex(const RangeParts &range);
  /// Past the last position: a block's end or the limit, whichever is first.
  Value *rangeEnd(const RangeParts &range);
  Value *rangeCount(const RangeParts &range);
  Lowered slice(const TExpr &expr);
  Lowered sliceSignal(const TExpr &expr, const Lowered &base);
  Lowered sliceView(const TExpr &expr, const Lowered &base);
  Lowered remote(const TExpr &expr);
  Value *regionSize(const TExpr &expr);
  DimensionCut cutDimension(const sema::IndexItem &item, const Extent *parent);
  Value *emitSlice(OpKind kind, Value *view, llvm::ArrayRef<DimensionCut> cuts);
  const Extent *wholeExtent(Value *size);
  const Extent *extentOf(const Lowered &region, const sema::TypeData &type, unsigned dim);
  /// The size of a Whole extent.
  Value *sizeOf(const Extent &whole);
  /// The number of positions inside.
  Value *countInside(const Extent &extent);
  /// The same where the positions inside are known to end at `end`.
  Value *countUpTo(const Extent &extent, Value *end);
  Value *atLeastZero(Value *value);

  // lower_transfers.cpp
  Value *put(const TExpr &expr);
  Value *get(const TExpr &expr);
  Value *reduceAddScatter(const sema::TExpr &expr);
  Value *reduceAdd(const TExpr &expr);
  Value *atomic(const TExpr &expr);
  Value *wait(const TExpr &expr);
  /// Two regions that are copied have the same sizes: a check in the program unless it is plain.
  void assertSameSizes(const Copy &copy);
  void assertSameSize(const Copy &copy, unsigned dim);
  /// The target takes what is put: dynamic ranges end inside the object.
  void assertEndsInside(const Copy &copy, unsigned dim);
  void assertForCopy(const Copy &copy, Value *condition, const llvm::Twine &message,
                     llvm::ArrayRef<Value *> numbers);

  Builder builder_;
  llvm::DenseMap<const sema::Variable *, Lowered> environment_;
  /// What each binding replaced, so that a branch can be undone.
  std::vector<std::pair<const sema::Variable *, Lowered>> undo_;
  /// By loop or branch; nodes of a std::map stay where they are.
  std::map<const TStmt *, Variables> assigned_;
  /// By node; null where the token was awaited.
  llvm::DenseMap<const TExpr *, Value *> sharedTokens_;
  /// What has been evaluated in the current statement and must not be again, by node: the tree may
  /// reach one in two ways.
  llvm::DenseMap<const TExpr *, Lowered> evaluated_;
  std::vector<Lowered> params_;
  std::vector<Values> declaredSizes_;
  std::vector<Value *> symbols_;
  std::map<std::pair<unsigned, unsigned>, Value *> launchDims_;
  std::deque<Extent> extents_;
  std::deque<GivenCoordinates> coordinates_;
};

} // namespace dtile::ir
