// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowering of hand-built checked trees, and the proofs that leave run-time checks out.
#include "ir/core/builder.h"
#include "ir/core/text_format.h"
#include "ir/from_ast/lower.h"
#include "ir/from_ast/prove_sizes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <deque>

using namespace dtile;
using namespace dtile::sema;
using testing::HasSubstr;
using testing::Not;

namespace {

/// Builds checked trees; owns them.
class Tree {
public:
  Type scalar(DType dtype) { return type({TypeKind::Scalar, dtype}); }
  Type i64() { return scalar(DType::I64); }
  Type tile(DType dtype, std::initializer_list<int64_t> shape) {
    return type({TypeKind::Tile, dtype, shape});
  }
  Type range(int64_t length) { return type({TypeKind::Range, DType::I64, {length}}); }
  Type token() { return type({TypeKind::Token}); }
  Type region(DType dtype, std::initializer_list<int64_t> shape, bool isRemote = false) {
    TypeData data{TypeKind::Region, dtype, shape};
    data.remote = isRemote;
    return type(data);
  }

  Variable *variable(const char *name, Type type) {
    return &variables_.emplace_back(Variable{name, type, {}, true});
  }
  TExpr *expr(TExprKind kind, Type type, std::initializer_list<TExpr *> operands = {}) {
    TExpr &made = exprs_.emplace_back();
    made.kind = kind;
    made.type = type;
    made.operands = operands;
    return &made;
  }
  TExpr *constant(int64_t value) {
    TExpr *made = expr(TExprKind::Const, i64());
    made->bits = uint64_t(value);
    return made;
  }
  TExpr *use(Variable *variable) {
    TExpr *made = expr(TExprKind::VarRef, variable->type);
    made->var = variable;
    return made;
  }
  TExpr *param(unsigned position, Type type) {
    TExpr *made = expr(TExprKind::ParamRef, type);
    made->param = position;
    return made;
  }
  TExpr *symbol(unsigned number) {
    TExpr *made = expr(TExprKind::SymbolRef, i64());
    made->symbol = number;
    return made;
  }
  TExpr *launchDim(unsigned param, unsigned dim) {
    TExpr *made = expr(TExprKind::LaunchDim, i64());
    made->param = param;
    made->dim = dim;
    return made;
  }
  TExpr *binary(ElementwiseOp op, TExpr *a, TExpr *b, Type type = nullptr) {
    TExpr *made = expr(TExprKind::Elementwise, type ? type : a->type, {a, b});
    made->op = op;
    return made;
  }
  TExpr *builtin(BuiltinId id, Type type, std::initializer_list<TExpr *> operands = {}) {
    TExpr *made = expr(TExprKind::Builtin, type, operands);
    made->builtin = id;
    return made;
  }
  TExpr *slice(Type type, TExpr *of, std::initializer_list<IndexItem> indices) {
    TExpr *made = expr(TExprKind::Slice, type, {of});
    made->indices = indices;
    return made;
  }
  static IndexItem at(TExpr *value) { return {IndexItem::Kind::Index, value}; }
  static IndexItem along(TExpr *value) { return {IndexItem::Kind::Range, value}; }
  static IndexItem all() { return {}; }

  TStmt *stmt(TStmtKind kind) {
    TStmt &made = stmts_.emplace_back();
    made.kind = kind;
    return &made;
  }
  TStmt *bind(TStmtKind kind, Variable *variable, TExpr *value) {
    TStmt *made = stmt(kind);
    made->vars = {variable};
    made->values = {value};
    return made;
  }
  TStmt *store(TExpr *target, TExpr *value) {
    TStmt *made = stmt(TStmtKind::Store);
    made->target = target;
    made->values = {value};
    return made;
  }
  TStmt *eval(TExpr *value) {
    TStmt *made = stmt(TStmtKind::Eval);
    made->values = {value};
    return made;
  }

private:
  Type type(const TypeData &data) {
    for (const TypeData &known : types_)
      if (known.kind == data.kind && known.dtype == data.dtype && known.shape == data.shape &&
          known.remote == data.remote)
        return &known;
    return &types_.emplace_back(data);
  }
  std::deque<TypeData> types_;
  std::deque<Variable> variables_;
  std::deque<TExpr> exprs_;
  std::deque<TStmt> stmts_;
};

class LoweringTest : public testing::Test, protected Tree {
protected:
  /// The text of the lowered kernel; well-formed.
  std::string lower(const KernelInstance &kernel) {
    ir::lowerKernel(kernel, module_);
    for (const std::string &problem : ir::verify(module_))
      ADD_FAILURE() << problem;
    std::string text;
    llvm::raw_string_ostream os(text);
    ir::print(module_, os);
    return text;
  }

  /// A kernel with parameters src and dst, tensors of N f32 (dst symmetric), and one body.
  KernelInstance copyKernel(TBlock body) {
    KernelInstance kernel;
    kernel.name = "copy";
    kernel.symbols.push_back({"N", {}, launchDim(0, 0)});
    kernel.params.push_back({"src", {}, ast::ParamMode::In, vector(), {symbol(0)}});
    kernel.params.push_back({"dst", {}, ast::ParamMode::Symm, vector(), {symbol(0)}});
    TSpace space;
    space.name = "main";
    space.body = std::move(body);
    kernel.spaces.push_back(std::move(space));
    return kernel;
  }
  Type vector(bool isRemote = false) { return region(DType::F32, {kDynamic}, isRemote); }
  TExpr *peersDst() {
    return expr(TExprKind::Remote, vector(true), {param(1, vector()), constant(1)});
  }
  TStmt *put(TExpr *from, TExpr *to) {
    TStmt *await = stmt(TStmtKind::Await);
    await->after = {expr(TExprKind::Put, token(), {from, to})};
    return await;
  }
  TExpr *makeRange(TExpr *lo, TExpr *limit, int64_t length) {
    TExpr *made = expr(TExprKind::MakeRange, range(length), {lo, limit});
    made->ints = {length};
    return made;
  }

  ir::TypeContext types_;
  ir::Module module_{types_};
};

TEST_F(LoweringTest, PassedSizesAreCheckedAgainstDeclaredOnes) {
  const std::string text = lower(copyKernel({}));
  EXPECT_THAT(text, HasSubstr("%N = launch.dim {dim = 0, param = 0}"));
  EXPECT_THAT(text, HasSubstr("launch.check %N, %0 {dim = 0, param = 1}"));
  EXPECT_THAT(text, Not(HasSubstr("launch.check %N, %N")));
}

TEST_F(LoweringTest, PutOfWholeObjectsOfOneSizeNeedsNoCheck) {
  EXPECT_THAT(lower(copyKernel({put(param(0, vector()), peersDst())})), Not(HasSubstr("assert")));
}

TEST_F(LoweringTest, PutOfBlocksNeedsNoCheck) {
  KernelInstance kernel = copyKernel({});
  Variable *m = variable("m", range(128));
  kernel.spaces[0].dims.push_back({m, constant(0), symbol(0), 128});
  const Type window = region(DType::F32, {128});
  kernel.spaces[0].body = {
      put(slice(window, param(0, vector()), {along(use(m))}),
          slice(region(DType::F32, {128}, true), peersDst(), {along(use(m))}))};
  const std::string text = lower(kernel);
  EXPECT_THAT(text, HasSubstr("view.tile %src, %m, %N {dims = \"r\", lens = [128]}"));
  EXPECT_THAT(text, Not(HasSubstr("assert")));
}

TEST_F(LoweringTest, PutOfMovedRangesIsCheckedWhereTheEndIsNotPlain) {
  KernelInstance kernel = copyKernel({});
  Variable *n = variable("n", i64());
  kernel.spaces[0].dims.push_back({n, constant(0), symbol(0), 1});
  TExpr *rows = makeRange(constant(0), use(n), kDynamic);
  TExpr *moved = expr(TExprKind::RangeShift, range(kDynamic), {rows, constant(5)});
  kernel.spaces[0].body = {put(slice(vector(), param(0, vector()), {along(moved)}),
                               slice(vector(true), peersDst(), {along(rows)}))};
  EXPECT_THAT(lower(kernel),
              HasSubstr("\"put: {0} positions of `src` into {1} of `dst`, dimension 0 (rank {2}, "
                        "peer {3})\""));
}

TEST_F(LoweringTest, PutPastTheEndOfTheTargetIsCheckedWithRankAndPeer) {
  Variable *n = variable("n", i64());
  KernelInstance kernel = copyKernel({});
  kernel.spaces[0].dims.push_back({n, constant(0), constant(9), 1});
  TExpr *count = makeRange(constant(0), use(n), kDynamic);
  kernel.spaces[0].body = {put(slice(vector(), param(0, vector()), {along(count)}),
                               slice(vector(true), peersDst(), {along(count)}))};
  const std::string text = lower(kernel);
  EXPECT_THAT(text, testing::ContainsRegex("view.slice %src, %[0-9]+, %n .dims = \"r\""));
  EXPECT_THAT(text, HasSubstr("\"put past the end of `dst`: the range ends at {0}, the dimension "
                              "at {1} (rank {2}, peer {3})\""));
  // The same range on both sides has the same size.
  EXPECT_THAT(text, Not(HasSubstr("positions of")));
}

TEST_F(LoweringTest, MixedRangesAreCutBeforeWindowsAreTaken) {
  const Type matrix = region(DType::F32, {kDynamic, kDynamic, kDynamic});
  KernelInstance kernel;
  kernel.name = "mixed";
  for (unsigned d = 0; d < 3; ++d)
    kernel.symbols.push_back({std::string(1, "ABC"[d]), {}, launchDim(0, d)});
  kernel.params.push_back({"x", {}, ast::ParamMode::In, matrix, {symbol(0), symbol(1), symbol(2)}});
  Variable *m = variable("m", range(64));
  TSpace space;
  space.name = "main";
  space.dims.push_back({m, constant(0), symbol(2), 64});
  TExpr *rows = makeRange(constant(1), constant(3), kDynamic);
  Variable *part = variable("part", region(DType::F32, {kDynamic, 64}));
  space.body = {
      bind(TStmtKind::Let, part,
           slice(part->type, param(0, matrix), {at(constant(2)), along(rows), along(use(m))}))};
  kernel.spaces.push_back(space);
  const std::string text = lower(kernel);
  EXPECT_THAT(text, HasSubstr("{dims = \"ira\"} : view<f32, 2>"));
  EXPECT_THAT(text, HasSubstr("{dims = \"ar\", lens = [64]} : view<f32, 2>"));
}

TEST_F(LoweringTest, LoopCarriesAssignedVariablesAndFusesProducts) {
  KernelInstance kernel = copyKernel({});
  const Type square = tile(DType::F32, {8, 8});
  Variable *acc = variable("acc", square);
  Variable *inner = variable("inner", i64());
  Variable *k = variable("k", i64());
  TExpr *product = builtin(BuiltinId::Dot, square, {builtin(BuiltinId::Zeros, square), use(acc)});
  TStmt *loop = stmt(TStmtKind::For);
  loop->vars = {k};
  loop->lo = constant(0);
  loop->hi = symbol(0);
  loop->body = {bind(TStmtKind::Let, inner, constant(1)),
                bind(TStmtKind::Assign, inner, binary(ElementwiseOp::Add, use(inner), use(k))),
                bind(TStmtKind::Assign, acc, binary(ElementwiseOp::Add, use(acc), product))};
  kernel.spaces[0].body = {bind(TStmtKind::Let, acc, builtin(BuiltinId::Zeros, square)), loop};
  const std::string text = lower(kernel);
  EXPECT_THAT(text, testing::ContainsRegex("%acc_[0-9]+ = for %[0-9]+, %N, %[0-9]+, %acc : "
                                           "tile<8x8xf32> .%k: index, %acc_[0-9]+: tile<8x8xf32>"));
  EXPECT_THAT(text, testing::ContainsRegex("tile.dot %[0-9]+, %acc_[0-9]+, %acc_[0-9]+ "));
}

TEST_F(LoweringTest, BranchesGiveTheVariablesThatEitherAssigns) {
  KernelInstance kernel = copyKernel({});
  Variable *n = variable("n", i64());
  Variable *a = variable("a", i64());
  Variable *b = variable("b", i64());
  kernel.spaces[0].dims.push_back({n, constant(0), constant(9), 1});
  TStmt *branch = stmt(TStmtKind::If);
  branch->condition = binary(ElementwiseOp::Lt, use(n), constant(3), scalar(DType::Bool));
  branch->body = {bind(TStmtKind::Assign, a, constant(10))};
  branch->otherwise = {bind(TStmtKind::Assign, b, use(a))};
  kernel.spaces[0].body = {bind(TStmtKind::Let, a, use(n)), bind(TStmtKind::Let, b, use(n)), branch,
                           bind(TStmtKind::Let, n, binary(ElementwiseOp::Add, use(a), use(b)))};
  const std::string text = lower(kernel);
  EXPECT_THAT(text, testing::ContainsRegex("yield %a_1, %n\n"));
  EXPECT_THAT(text, testing::ContainsRegex("yield %n, %n\n"));
  EXPECT_THAT(text, testing::ContainsRegex("add %a, %b"));
}

TEST_F(LoweringTest, ConditionsWithLoadsAreEvaluatedOnlyWhereNeeded) {
  KernelInstance kernel = copyKernel({});
  Variable *n = variable("n", i64());
  Variable *c = variable("c", scalar(DType::Bool));
  kernel.spaces[0].dims.push_back({n, constant(0), constant(9), 1});
  const Type f32 = scalar(DType::F32);
  TExpr *loaded =
      expr(TExprKind::Load, f32, {slice(region(DType::F32, {}), param(0, vector()), {at(use(n))})});
  TExpr *positive = binary(ElementwiseOp::Gt, loaded, loaded, c->type);
  TExpr *below = binary(ElementwiseOp::Lt, use(n), constant(3), c->type);
  kernel.spaces[0].body = {bind(TStmtKind::Let, c, binary(ElementwiseOp::And, below, positive))};
  EXPECT_THAT(lower(kernel), testing::ContainsRegex("%c = if %[0-9]+ : bool"));
}

TEST_F(LoweringTest, FunctionsTakeRangesApart) {
  FnInstance function;
  function.name = "middle";
  Variable *r = variable("r", range(16));
  function.params = {r};
  function.results = {i64()};
  TExpr *index = expr(TExprKind::RangeMember, i64(), {use(r)});
  index->member = RangeMemberKind::Index;
  TStmt *end = stmt(TStmtKind::Return);
  end->values = {index};
  function.body = {end};
  ir::lowerFunction(function, module_);
  EXPECT_TRUE(ir::verify(module_).empty());
  std::string text;
  llvm::raw_string_ostream os(text);
  ir::print(module_, os);
  EXPECT_THAT(text, HasSubstr("func @middle {inline_hint = true} (%r: index, %r.limit: index, "
                              "%r.index: index)"));
  EXPECT_THAT(text, HasSubstr("return %r.index"));
}

class SizesTest : public testing::Test {
protected:
  SizesTest() { builder_.setInsertionPointToEnd(module_.body()); }
  ir::Value *launchDim(int64_t dim) {
    return builder_.value(ir::OpKind::LaunchDim, {}, {},
                          {{ir::attr::dim, dim}, {ir::attr::param, int64_t(0)}});
  }
  ir::Value *rank() { return builder_.value(ir::OpKind::Rank, {}); }
  ir::Value *numRanks() { return builder_.value(ir::OpKind::NumRanks, {}); }
  ir::TypeContext types_;
  ir::Module module_{types_};
  ir::Builder builder_{module_};
};

TEST_F(SizesTest, EqualComputationsOfEqualValuesAreTheSame) {
  ir::Value *n = launchDim(0);
  EXPECT_TRUE(ir::sameValue(builder_.mul(n, numRanks()), builder_.mul(launchDim(0), numRanks())));
  EXPECT_FALSE(ir::sameValue(builder_.mul(n, numRanks()), builder_.mul(launchDim(1), numRanks())));
  EXPECT_FALSE(ir::sameValue(n, rank()));
}

TEST_F(SizesTest, BlocksOfRanksEndInsideTheWhole) {
  ir::Value *n = launchDim(0);
  ir::Value *whole = builder_.mul(numRanks(), n);
  EXPECT_TRUE(ir::endsInside(builder_.add(builder_.mul(rank(), n), n), whole));
  ir::Value *peer = builder_.rem(builder_.add(rank(), builder_.constIndex(1)), numRanks());
  EXPECT_TRUE(ir::endsInside(builder_.add(n, builder_.mul(n, peer)), whole));
  // Part of a block.
  ir::Value *part = builder_.min(launchDim(1), n);
  EXPECT_TRUE(ir::endsInside(builder_.add(builder_.mul(rank(), n), part), whole));
  // Blocks of M / W end inside of any M.
  ir::Value *block = builder_.div(n, numRanks());
  EXPECT_TRUE(ir::endsInside(builder_.add(builder_.mul(rank(), block), block), n));
  EXPECT_FALSE(ir::endsInside(builder_.add(builder_.mul(rank(), n), block), n));
  // One past the last rank does not.
  ir::Value *next = builder_.add(rank(), builder_.constIndex(1));
  EXPECT_FALSE(ir::endsInside(builder_.add(builder_.mul(next, n), n), whole));
  EXPECT_FALSE(ir::endsInside(builder_.add(builder_.mul(rank(), n), launchDim(1)), whole));
  EXPECT_TRUE(ir::endsInside(builder_.constIndex(8), builder_.constIndex(8)));
  EXPECT_FALSE(ir::endsInside(builder_.constIndex(9), builder_.constIndex(8)));
}

TEST_F(SizesTest, DifferencesMayBeNegative) {
  ir::Value *n = launchDim(0);
  EXPECT_TRUE(ir::isNonNegative(builder_.add(n, builder_.mul(rank(), n))));
  EXPECT_TRUE(ir::isNonNegative(builder_.ceilDiv(n, builder_.constIndex(4))));
  EXPECT_FALSE(ir::isNonNegative(builder_.value(ir::OpKind::Neg, {n})));
  EXPECT_FALSE(ir::isNonNegative(builder_.sub(n, builder_.constIndex(1))));
  EXPECT_TRUE(
      ir::isNonNegative(builder_.rem(builder_.sub(rank(), builder_.constIndex(1)), numRanks())));
  EXPECT_TRUE(ir::isNonNegative(builder_.max(builder_.sub(n, rank()), builder_.constIndex(0))));
}

} // namespace
