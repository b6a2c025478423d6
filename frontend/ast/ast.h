// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The syntax tree: what was written, nothing resolved. Nodes live in an Arena and are never freed
// singly; pointers between them do not own. Every node starts with its kind and range. Strings
// point into the source text (SourceManager outlives the tree).
#pragma once

#include "frontend/base/source_manager.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/Casting.h"

#include <cstdint>

namespace dtile::ast {

enum class NodeKind : uint8_t {
#define DECL(NAME) NAME,
#define STMT(NAME) NAME,
#define EXPR(NAME) NAME,
#include "frontend/ast/ast_nodes.def"
};
[[nodiscard]] llvm::StringRef nodeKindName(NodeKind kind);

/// What all nodes have.
struct Node {
  NodeKind kind;
  SourceRange range;
  Node(NodeKind kind, SourceRange range) : kind(kind), range(range) {}
};

struct Expr : Node {
  using Node::Node;
  static bool classof(const Node *n) {
    return n->kind >= NodeKind::IntLit && n->kind <= NodeKind::ErrorExpr;
  }
};
struct Stmt : Node {
  using Node::Node;
  static bool classof(const Node *n) {
    return n->kind >= NodeKind::LetStmt && n->kind <= NodeKind::BlockStmt;
  }
};
struct Decl : Node {
  using Node::Node;
  /// It did not parse as written, so what else seems wrong in it may be an echo.
  bool isBroken = false;
  static bool classof(const Node *n) {
    return n->kind >= NodeKind::ImportDecl && n->kind <= NodeKind::BenchDecl;
  }
};

/// Gives a node its kind and its classof.
#define DTILE_AST_NODE(NAME, BASE)                                                                 \
  explicit NAME(SourceRange range) : BASE(NodeKind::NAME, range) {}                                \
  static bool classof(const Node *n) { return n->kind == NodeKind::NAME; }

/// A name where it is declared or a keyword-like label, with its place.
struct Ident {
  llvm::StringRef name;
  SourceRange range;
};

// ---- Expressions ----

/// `42`, `0xff`, `1_000`. Values above the 64-bit range were reported by the parser.
struct IntLit : Expr {
  DTILE_AST_NODE(IntLit, Expr)
  uint64_t value = 0;
};
/// `1.5`, `2e-2`.
struct FloatLit : Expr {
  DTILE_AST_NODE(FloatLit, Expr)
  double value = 0;
};
/// `true`, `false`.
struct BoolLit : Expr {
  DTILE_AST_NODE(BoolLit, Expr)
  bool value = false;
};
/// `"text"`, escapes resolved (in the arena).
struct StringLit : Expr {
  DTILE_AST_NODE(StringLit, Expr)
  llvm::StringRef value;
};
/// A name; `module.name` is a MemberExpr of a NameExpr. Type names (`f32`) in type arguments too.
struct NameExpr : Expr {
  DTILE_AST_NODE(NameExpr, Expr)
  llvm::StringRef name;
};
enum class UnaryOp : uint8_t { Neg, Not, BitNot };
struct UnaryExpr : Expr {
  DTILE_AST_NODE(UnaryExpr, Expr)
  UnaryOp op = UnaryOp::Neg;
  Expr *operand = nullptr;
};
/// From weakest to tightest: `~=`(expect only) | `||` | `&&` | `== != < <= > >=` | `|` | `^` | `&`
/// | `<< >>` |
/// `+ -` | `* / %`. `&` also joins tokens.
enum class BinaryOp : uint8_t {
  Approx,
  LogOr,
  LogAnd,
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  BitOr,
  BitXor,
  BitAnd,
  Shl,
  Shr,
  Add,
  Sub,
  Mul,
  Div,
  Rem
};
struct BinaryExpr : Expr {
  DTILE_AST_NODE(BinaryExpr, Expr)
  BinaryOp op = BinaryOp::Add;
  SourceRange opRange;
  Expr *lhs = nullptr;
  Expr *rhs = nullptr;
};
/// One argument: `x`, or `after: x` with a label (name empty when there is none).
struct Arg {
  Ident label;
  Expr *value = nullptr;
};
/// `callee(args)`. The callee is a NameExpr, a MemberExpr (method) or a GenericExpr.
struct CallExpr : Expr {
  DTILE_AST_NODE(CallExpr, Expr)
  Expr *callee = nullptr;
  llvm::ArrayRef<Arg> args;
};
/// `name<f32, BM = 64>`, always followed by a call or a shape: `cast<f32>(x)`, `zeros<f32>[BM, BN]`
/// (an IndexExpr of a GenericExpr), `random<bf16>[M, K](seed: 1)` (a CallExpr of that).
struct GenericExpr : Expr {
  DTILE_AST_NODE(GenericExpr, Expr)
  Expr *base = nullptr;
  llvm::ArrayRef<Arg> args;
};
/// `base[indices]`. An index is an expression or a RangeExpr (`:` has neither end).
struct IndexExpr : Expr {
  DTILE_AST_NODE(IndexExpr, Expr)
  Expr *base = nullptr;
  llvm::ArrayRef<Expr *> indices;
};
/// `base.member`.
struct MemberExpr : Expr {
  DTILE_AST_NODE(MemberExpr, Expr)
  Expr *base = nullptr;
  Ident member;
};
/// `base@rank`; rank is a name, a number or parenthesized. Of `base@(local: i)` it is the call
/// `rank(local: i)`.
struct RemoteExpr : Expr {
  DTILE_AST_NODE(RemoteExpr, Expr)
  Expr *base = nullptr;
  Expr *rank = nullptr;
  /// The call whose labels are axes; null of a plain rank.
  [[nodiscard]] const CallExpr *coordinates() const;
};
/// `value after token`: the read of `value` is ordered after `token`. Binds tighter than
/// arithmetic.
struct AfterExpr : Expr {
  DTILE_AST_NODE(AfterExpr, Expr)
  Expr *value = nullptr;
  Expr *token = nullptr;
};
/// `lo..hi`, `lo..`, `..hi`, `:`; in indices and after `in`.
struct RangeExpr : Expr {
  DTILE_AST_NODE(RangeExpr, Expr)
  Expr *lo = nullptr;
  Expr *hi = nullptr;
};
/// `lo..hi by step` as an index.
struct StepExpr : Expr {
  DTILE_AST_NODE(StepExpr, Expr)
  RangeExpr *whole = nullptr;
  Expr *step = nullptr;
};
/// `if c then a else b` as an expression: `c ? a : b`.
struct ConditionalExpr : Expr {
  DTILE_AST_NODE(ConditionalExpr, Expr)
  Expr *condition = nullptr;
  Expr *whenTrue = nullptr;
  Expr *whenFalse = nullptr;
};
/// Stands where an expression did not parse (already reported).
struct ErrorExpr : Expr {
  DTILE_AST_NODE(ErrorExpr, Expr)
};

// ---- Types ----

/// How a parameter is passed and where it lives.
enum class ParamMode : uint8_t { Value, In, Out, InOut, Symm, ScratchSymm };

/// A type as written: `bf16`, `T[M, K]`, `signal[W]`, `token`, `dtype`. No node kinds: types stand
/// only in parameters, results and annotations.
struct TypeRef {
  SourceRange range;
  /// `bf16`, `T`, `signal`, `token`, `acquire`, `bool`, `range`… ; null when absent.
  Ident name;
  /// Sizes in brackets; `hasShape` tells `T[]`-less from scalar.
  llvm::ArrayRef<Expr *> shape;
  bool hasShape = false;
};

// ---- Statements ----

/// `let x = e;`, `let x: T = e;`, `let (a, b) = f();`
struct LetStmt : Stmt {
  DTILE_AST_NODE(LetStmt, Stmt)
  llvm::ArrayRef<Ident> names;
  TypeRef *type = nullptr;
  Expr *value = nullptr;
};
/// `var x = e;`
struct VarStmt : Stmt {
  DTILE_AST_NODE(VarStmt, Stmt)
  Ident name;
  TypeRef *type = nullptr;
  Expr *value = nullptr;
};
/// `target = e;`, `target += e;`. The target is a NameExpr or an IndexExpr (a store).
struct AssignStmt : Stmt {
  DTILE_AST_NODE(AssignStmt, Stmt)
  Expr *target = nullptr;
  /// Set for compound assignment.
  bool isCompound = false;
  BinaryOp op = BinaryOp::Add;
  SourceRange opRange;
  Expr *value = nullptr;
  /// `c[m, n] = e after t;` is an AfterExpr value; nothing else is needed here.
};
struct ExprStmt : Stmt {
  DTILE_AST_NODE(ExprStmt, Stmt)
  Expr *value = nullptr;
};
struct BlockStmt : Stmt {
  DTILE_AST_NODE(BlockStmt, Stmt)
  llvm::ArrayRef<Stmt *> statements;
};
/// One dimension of an `over` or the head of a `for`: `m in M by BM`, `hop in 0..W`, `i in N`.
/// Without `by` the variable is one position, with it a range of `step` positions.
struct IterDim {
  Ident name;
  /// A size (from 0), or a RangeExpr.
  Expr *domain = nullptr;
  Expr *step = nullptr;
};
struct ForStmt : Stmt {
  DTILE_AST_NODE(ForStmt, Stmt)
  IterDim dim;
  /// `for k in K by BK unordered`: the iterations may run in any order.
  bool isUnordered = false;
  BlockStmt *body = nullptr;
};
struct WhileStmt : Stmt {
  DTILE_AST_NODE(WhileStmt, Stmt)
  Expr *condition = nullptr;
  BlockStmt *body = nullptr;
};
/// `if c { } else if d { } else { }`; `otherwise` is a BlockStmt or an IfStmt.
struct IfStmt : Stmt {
  DTILE_AST_NODE(IfStmt, Stmt)
  Expr *condition = nullptr;
  BlockStmt *then = nullptr;
  Stmt *otherwise = nullptr;
};
/// `break;`, or `continue;`
struct BreakStmt : Stmt {
  DTILE_AST_NODE(BreakStmt, Stmt)
  bool isContinue = false;
};
/// `return e;`, `return (a, b);`
struct ReturnStmt : Stmt {
  DTILE_AST_NODE(ReturnStmt, Stmt)
  llvm::ArrayRef<Expr *> values;
};
/// `yield t;` to `when all`.
struct YieldStmt : Stmt {
  DTILE_AST_NODE(YieldStmt, Stmt)
  llvm::ArrayRef<Expr *> values;
};
struct AwaitStmt : Stmt {
  DTILE_AST_NODE(AwaitStmt, Stmt)
  Expr *token = nullptr;
};
/// `expect a ~= b rtol 1e-2 atol 1e-3;`, `expect x == y;`, `expect fails CODE k(…);`, and `ensures
/// …;` in kernels.
struct ExpectStmt : Stmt {
  DTILE_AST_NODE(ExpectStmt, Stmt)
  Expr *condition = nullptr;
  Expr *rtol = nullptr;
  Expr *atol = nullptr;
  bool isEnsures = false;
};

/// `requires root < W, sorted(starts);`: what callers owe. Only at the head of kernels.
struct RequiresStmt : Stmt {
  DTILE_AST_NODE(RequiresStmt, Stmt)
  llvm::ArrayRef<Expr *> conditions;
};
/// `node: W / L`: an axis of a mesh, and how many places it has.
struct MeshAxis {
  Ident name;
  Expr *extent = nullptr;
};
/// `mesh (node: W / L, local: L);`: how a kernel numbers its ranks; the last axis changes from rank
/// to rank. Only at the head of kernels.
struct MeshStmt : Stmt {
  DTILE_AST_NODE(MeshStmt, Stmt)
  llvm::ArrayRef<MeshAxis> axes;
};
/// `assume slot < CAP because "…";`: what is true, and the compiler cannot show.
struct AssumeStmt : Stmt {
  DTILE_AST_NODE(AssumeStmt, Stmt)
  Expr *condition = nullptr;
  llvm::StringRef because;
};

// ---- Declarations ----

/// A compile-time parameter: `T: dtype = bf16`, `BM = 128`, `const HIDDEN`, `N: i64`.
struct GenericParam {
  SourceRange range;
  Ident name;
  /// Null where nothing is written: an integer.
  TypeRef *type = nullptr;
  /// Null when the user must give it.
  Expr *defaultValue = nullptr;
};
/// `shard: in T[M / W, K]`, `taken: scratch symm i32[E] = 0`, `alpha: f32`.
struct Param {
  SourceRange range;
  Ident name;
  ParamMode mode = ParamMode::Value;
  TypeRef *type = nullptr;
  /// `= 0` of scratch objects.
  Expr *init = nullptr;
};
/// `over (m in M by BM, …) ordered programs(8)`, `over (…) copy_engine(ENGINE)`.
struct OverClause {
  SourceRange range;
  llvm::ArrayRef<IterDim> dims;
  bool ordered = false;
  Expr *programs = nullptr;
  bool copyEngine = false;
  /// Null where it stands without a condition.
  Expr *copyEngineIf = nullptr;
};
/// `role comm over (…) { … }`, and what follows it: `when all (sent) over (…) { … }`.
/// A kernel without roles has one unnamed role.
struct Role {
  SourceRange range;
  Ident name;
  OverClause *over = nullptr;
  BlockStmt *body = nullptr;
  /// `when all (names)`: null when absent. Its own `over` may be null (one body).
  Role *whenAll = nullptr;
  /// For a `when all`: the names that the yields bind.
  llvm::ArrayRef<Ident> joined;
};
/// `import "path";`, `import collectives.all_gather as ag;`
struct ImportDecl : Decl {
  DTILE_AST_NODE(ImportDecl, Decl)
  /// Dotted form joined by '/', or the string as written.
  llvm::StringRef path;
  bool isString = false;
  SourceRange pathRange;
  /// The name that the module has here.
  Ident alias;
};
struct ConstDecl : Decl {
  DTILE_AST_NODE(ConstDecl, Decl)
  llvm::StringRef doc;
  Ident name;
  TypeRef *type = nullptr;
  Expr *value = nullptr;
};
/// `nvptx("rcp.approx.ftz.f32 {result}, {x};")`: what an `extern fn` is on one kind of machine.
struct Instructions {
  SourceRange range;
  Ident target;
  /// Lines, with line ends between them.
  llvm::StringRef text;
  SourceRange textRange;
};
/// `fn name<generics>(x: f32[N], k: i64) -> f32 { … }`, or
/// `extern fn name(x: f32) -> f32 = nvptx("…") | amdgpu("…") { … }`, whose body is the reference.
struct FnDecl : Decl {
  DTILE_AST_NODE(FnDecl, Decl)
  llvm::StringRef doc;
  Ident name;
  llvm::ArrayRef<GenericParam> generics;
  llvm::ArrayRef<Param> params;
  llvm::ArrayRef<TypeRef *> results;
  bool isExtern = false;
  llvm::ArrayRef<Instructions> instructions;
  /// Null where an `extern fn` has none.
  BlockStmt *body = nullptr;
};
/// `kernel name<generics>(x: in T[N]) { … }`, or, with alternatives and nothing below them,
/// `kernel name<generics>(x: in T[N]) = one | other;`.
struct KernelDecl : Decl {
  DTILE_AST_NODE(KernelDecl, Decl)
  llvm::StringRef doc;
  Ident name;
  llvm::ArrayRef<GenericParam> generics;
  llvm::ArrayRef<Param> params;
  /// Kernels of which each launch runs one.
  llvm::ArrayRef<Ident> alternatives;
  /// What stands first and is about launches: RequiresStmt, MeshStmt and AssumeStmt.
  llvm::ArrayRef<Stmt *> clauses;
  /// Statements before the first role, run once a rank (lets only).
  llvm::ArrayRef<Stmt *> prologue;
  llvm::ArrayRef<Role *> roles;
  llvm::ArrayRef<ExpectStmt *> ensures;
  /// Made of a function over tensors, to check that by itself: who calls it pairs its signals.
  bool isOfFunction = false;
};
/// `plan name<generics>(params) { over (…) { put(…); } }`: movement without signals, for an overlap
/// to join with a kernel.
struct PlanDecl : Decl {
  DTILE_AST_NODE(PlanDecl, Decl)
  llvm::StringRef doc;
  Ident name;
  llvm::ArrayRef<GenericParam> generics;
  llvm::ArrayRef<Param> params;
  /// RequiresStmt.
  llvm::ArrayRef<Stmt *> clauses;
  llvm::ArrayRef<Stmt *> prologue;
  /// Its spaces; the name is empty where none is written.
  llvm::ArrayRef<Role *> roles;
  llvm::ArrayRef<ExpectStmt *> ensures;
  /// `= push | pull;`: names of plans, in place of all the above.
  llvm::ArrayRef<Expr *> alternatives;
};
/// `a <- all_gather(shard)`: `plan` is a CallExpr.
struct OverlapJoin {
  SourceRange range;
  /// A parameter of the kernel.
  Ident tensor;
  /// `->`: the kernel makes what the plan takes.
  bool isProducer = false;
  Expr *plan = nullptr;
};
/// `let h = gemm(x, w);`, `y = reduce_scatter(h);`, `(y, z) = split(h);`
struct OverlapStep {
  SourceRange range;
  /// Without it, names are of outputs.
  bool isLet = false;
  llvm::ArrayRef<Ident> names;
  Expr *value = nullptr;
};
/// `overlap name = kernel with { joins };`, or `overlap name<generics>(params) { steps }`.
struct OverlapDecl : Decl {
  DTILE_AST_NODE(OverlapDecl, Decl)
  llvm::StringRef doc;
  Ident name;
  /// A name, a member of a module, or a GenericExpr of these. Null in the second form, which has
  /// all that stands below `clauses`.
  Expr *kernel = nullptr;
  llvm::ArrayRef<OverlapJoin> joins;
  /// A MeshStmt; in the second form RequiresStmt, too.
  llvm::ArrayRef<Stmt *> clauses;
  llvm::ArrayRef<GenericParam> generics;
  llvm::ArrayRef<Param> params;
  llvm::ArrayRef<OverlapStep> steps;
  llvm::ArrayRef<ExpectStmt *> ensures;
};
/// `test "name" ranks (1, 2, 4) { … }`
struct TestDecl : Decl {
  DTILE_AST_NODE(TestDecl, Decl)
  llvm::StringRef name;
  SourceRange nameRange;
  llvm::ArrayRef<Expr *> ranks;
  BlockStmt *body = nullptr;
};
/// `bench "name" ranks (8) { … }`
struct BenchDecl : Decl {
  DTILE_AST_NODE(BenchDecl, Decl)
  llvm::StringRef name;
  SourceRange nameRange;
  llvm::ArrayRef<Expr *> ranks;
  BlockStmt *body = nullptr;
};

/// Operators and modes as written; empty for ParamMode::Value.
[[nodiscard]] llvm::StringRef spelling(UnaryOp op);
[[nodiscard]] llvm::StringRef spelling(BinaryOp op);
[[nodiscard]] llvm::StringRef spelling(ParamMode mode);

/// One file.
struct Module {
  FileId file{};
  /// Comment at the top of the file (`//!` lines), for tools.
  llvm::StringRef doc;
  llvm::ArrayRef<Decl *> decls;
};

/// Owns nodes and their arrays.
class Arena {
public:
  template <typename T> T *make(SourceRange range) { return new (alloc_.Allocate<T>()) T(range); }
  template <typename T> T *makePlain() { return new (alloc_.Allocate<T>()) T(); }
  template <typename T> llvm::ArrayRef<T> copy(llvm::ArrayRef<T> items) {
    return items.copy(alloc_);
  }
  llvm::StringRef copy(llvm::StringRef text) { return text.copy(alloc_); }

private:
  llvm::BumpPtrAllocator alloc_;
};

} // namespace dtile::ast
