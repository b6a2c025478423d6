// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checked program: one tree an instance of a kernel or function, generics replaced by their
// values, names resolved, conversions explicit. Consumed by ir/from_ast. Nodes live in the
// Program's arena.
#pragma once

#include "frontend/ast/ast.h"
#include "sema/tree/types.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/SmallVector.h"

#include <string>
#include <vector>

namespace dtile::sema {

enum class TExprKind : uint8_t {
#define TEXPR(NAME, DOC) NAME,
#include "sema/tree/typed_nodes.def"
};
enum class TStmtKind : uint8_t {
#define TSTMT(NAME, DOC) NAME,
#include "sema/tree/typed_nodes.def"
};
/// Builtin functions that have no node of their own, a row of builtins.def each.
enum class BuiltinId : uint8_t {
#define BUILTIN(ID, NAME, SIGNATURE, DOC) ID,
#include "sema/tree/builtins.def"
};
/// The rows of elementwise.def, comparisons and a choice.
enum class ElementwiseOp : uint8_t {
#define ELEMENTWISE(KIND, NAME, ARITY, TYPES, CALL, DOC) KIND,
#include "frontend/base/elementwise.def"
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  Select
};
enum class RangeMemberKind : uint8_t { Lo, Hi, Len, Count, Index, Limit };
enum class AtomicKind : uint8_t { Add, Min, Max, And, Or, Exch, Cas };
/// What an atomic orders of its body: nothing, what is after it, what is before it, or both.
enum class AtomicOrder : uint8_t { Relaxed, Acquire, Release, AcqRel };

struct FnInstance;

/// A number that is known to count along an axis of the kernel's mesh.
struct Coordinate {
  /// The number of the axis, from 1; 0 of other numbers.
  uint8_t axis = 0;
  /// The axis has such a place, whatever the sizes.
  bool isInside = false;
};

/// A local variable of an instance.
struct Variable {
  std::string name;
  Type type;
  SourceRange range;
  /// `var`: may be assigned.
  bool isMutable = false;
  Coordinate coordinate;
};

struct TExpr;
/// A coordinate that may be outside of its axis, and the size of the axis.
struct GivenCoordinate {
  llvm::StringRef axis;
  const TExpr *place = nullptr;
  const TExpr *places = nullptr;
};

/// One index of a slice.
struct IndexItem {
  enum class Kind : uint8_t {
    /// One position (scalar), or in a Gather an index tile.
    Index,
    /// A range value.
    Range,
    /// `:`
    All,
  } kind = Kind::All;
  TExpr *value = nullptr;
};

struct TExpr {
  TExprKind kind;
  Type type;
  SourceRange range;
  llvm::SmallVector<TExpr *, 2> operands;
  // Which of these is set is said in typed_nodes.def.
  uint64_t bits = 0;
  Variable *var = nullptr;
  unsigned param = 0;
  unsigned symbol = 0;
  unsigned dim = 0;
  ElementwiseOp op = ElementwiseOp::Add;
  BuiltinId builtin{};
  RangeMemberKind member = RangeMemberKind::Lo;
  AtomicKind atomic = AtomicKind::Add;
  AtomicOrder atomicOrder = AtomicOrder::Relaxed;
  FnInstance *callee = nullptr;
  llvm::SmallVector<FnInstance *, 0> steps;
  llvm::SmallVector<IndexItem, 0> indices;
  llvm::SmallVector<int64_t, 0> ints;
  TExpr *signal = nullptr;
  TExpr *count = nullptr;
  /// Sema's own: a Const that still takes the type wanted (a literal, or computed from such), and
  /// its value before it is rounded: to the type of a float, or down as a quotient of integers.
  bool adaptable = false;
  double literal = 0;
  /// Sema's own: along which axis it counts; and of how many places an axis has, its number from 1.
  Coordinate coordinate;
  uint8_t extentOf = 0;
  /// Of a rank that `rank(axis: place)` names: the coordinates that it is -1 for if one is outside.
  llvm::SmallVector<GivenCoordinate, 0> coordinates;
};

struct TStmt;
using TBlock = std::vector<TStmt *>;
struct TStmt {
  TStmtKind kind;
  SourceRange range;
  llvm::SmallVector<Variable *, 1> vars;
  TExpr *target = nullptr;
  llvm::SmallVector<TExpr *, 1> values;
  llvm::SmallVector<TExpr *, 1> after;
  llvm::SmallVector<IndexItem, 2> indices;
  BuiltinId builtin{};
  TExpr *lo = nullptr;
  TExpr *hi = nullptr;
  TExpr *step = nullptr;
  /// For: 0 when the variable is one position, else the static length of its range (step is this
  /// length).
  int64_t blockLength = 0;
  /// For: `arrivals(s[:])`; the body begins with an `await` of a wait for the iteration's cell.
  bool isArrivals = false;
  TExpr *condition = nullptr;
  TBlock body;
  TBlock otherwise;
  std::string message;
  std::string because;
};

/// The value of a compile-time parameter.
struct GenericValue {
  enum class Kind : uint8_t { Int, DType, Bool, Shape } kind = Kind::Int;
  int64_t intValue = 0;
  DType dtype = DType::F32;
  /// Shape: any number of sizes, none for scalars.
  std::vector<int64_t> sizes = {};
  friend bool operator==(const GenericValue &, const GenericValue &) = default;
};

/// A size name of a kernel signature (M, N, K …), bound by the arguments.
struct SizeSymbol {
  std::string name;
  SourceRange range;
  /// Its value from LaunchDim nodes, constants, W and earlier symbols.
  TExpr *solution = nullptr;
};

struct KernelParam {
  std::string name;
  SourceRange range;
  ast::ParamMode mode = ast::ParamMode::Value;
  /// Region, Signal or Scalar.
  Type type = nullptr;
  /// Declared sizes, i64, in terms of symbols and constants.
  std::vector<TExpr *> sizes;
  /// Scratch with `= 0`.
  bool zeroed = false;
  /// Of a scalar that callers may leave out: a Const; else null.
  TExpr *defaultValue = nullptr;
};

/// One dimension of a tile space.
struct SpaceDim {
  /// A scalar i64, or a Range of static length `step`.
  Variable *var = nullptr;
  TExpr *lo = nullptr;
  TExpr *hi = nullptr;
  /// 1 for scalar dimensions.
  int64_t step = 1;
};

struct TSpace {
  std::string name;
  SourceRange range;
  std::vector<SpaceDim> dims;
  bool ordered = false;
  int64_t programs = 0;
  bool copyEngine = false;
  TBlock body;
  /// Number of the space that must have ended, or -1; and the variables bound to its joined yields.
  int afterAll = -1;
  std::vector<Variable *> joined;
};

/// One thing that is required of a launch, or assumed.
struct Clause {
  enum class Kind : uint8_t {
    /// `condition`, of sizes, W and scalars.
    Launch,
    /// Of all elements of the input `param`, compared by `predicate` with `bound`.
    Bound,
    /// Of all elements, compared with elements of the input `other`.
    Between,
    /// All ranks together have each number below `bound` once, among the elements before those
    /// positions of the last dimension that the input `other` has.
    EachOnce,
    /// Elements do not get smaller.
    Sorted,
    /// No two elements are equal.
    Distinct,
    /// All ranks have the same.
    Replicated,
    /// The sum of the elements, compared.
    Sum,
    /// The element at `position`, compared.
    Element
  } kind = Kind::Launch;
  SourceRange range;
  /// As it is written.
  std::string text;
  /// It is assumed, for this reason; else callers owe it.
  bool isAssumed = false;
  std::string because;
  TExpr *condition = nullptr;
  /// Of Launch: `condition` is a size instead, which all ranks pass alike.
  bool isReplicated = false;
  unsigned param = 0;
  /// eq ne lt le gt ge
  std::string predicate;
  TExpr *bound = nullptr;
  std::vector<TExpr *> position;
  /// EachOnce: how many elements of each list count. Between: of each dimension of `other` the
  /// dimension of `param` whose position it is, or -1 for the number of the rank; and the dimension
  /// that numbers the rank whose `other` it is, or -1.
  unsigned other = 0;
  std::vector<int64_t> at;
  int64_t peer = -1;
};
[[nodiscard]] llvm::StringRef clauseKindName(Clause::Kind kind);

struct KernelInstance {
  /// Unique in the program: `entry`, with a number where that is taken.
  std::string name;
  /// What callers launch: the kernel's own name for its default instance, else with the values:
  /// `ag_gemm_f32_64_64_32_512`. Values that the compiler has chosen are not part of it.
  std::string entry;
  const ast::KernelDecl *decl = nullptr;
  std::vector<GenericValue> generics;
  std::vector<KernelParam> params;
  std::vector<SizeSymbol> symbols;
  std::vector<Clause> clauses;
  /// Lets before the roles.
  TBlock prologue;
  std::vector<TSpace> spaces;
  /// Functions that its bodies call, each once.
  std::vector<FnInstance *> callees;
};

struct FnInstance {
  std::string name;
  const ast::FnDecl *decl = nullptr;
  std::vector<GenericValue> generics;
  std::vector<Variable *> params;
  /// Constants for arguments that callers leave out; null where they may not.
  std::vector<TExpr *> defaults;
  std::vector<Type> results;
  TBlock body;
  /// Functions that the body calls, each once.
  std::vector<FnInstance *> callees;
  /// Of an `extern fn`: targets may run its instructions in place of the body, the reference.
  bool hasInstructions = false;
};

} // namespace dtile::sema
