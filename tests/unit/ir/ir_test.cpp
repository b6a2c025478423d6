// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The IR's data structures: uses, edits, copies, types; and what only the C++ API can break.
#include "ir/core/builder.h"
#include "ir/core/text_format.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dtile::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

/// A function `f` of two index values to build in.
struct IrTest : testing::Test {
  TypeContext types;
  Module module{types};
  Builder builder{module};
  Op *function = nullptr;
  Value *x = nullptr;
  Value *y = nullptr;

  IrTest() {
    builder.setInsertionPointToEnd(module.body());
    function = builder.op(OpKind::Func, {});
    function->set(attr::name, "f");
    x = function->body().addArgument(types.index(), "x");
    y = function->body().addArgument(types.index(), "y");
    builder.setInsertionPointToEnd(function->body());
  }

  std::string text() {
    std::string text;
    llvm::raw_string_ostream os(text);
    print(module, os);
    return text;
  }

  /// Every use is listed once, at its value.
  void expectConsistentUses() {
    llvm::DenseMap<const Value *, unsigned> counts;
    walk(module.body(), [&](Op &op) {
      for (unsigned i = 0; i < op.numOperands(); ++i) {
        ++counts[op.operand(i)];
        const auto isThis = [&](const Use &use) { return use.user == &op && use.index == i; };
        EXPECT_EQ(llvm::count_if(op.operand(i)->uses(), isThis), 1);
      }
    });
    for (const auto &[value, count] : counts)
      EXPECT_EQ(value->uses().size(), count);
  }
};

TEST_F(IrTest, UsesFollowEveryEdit) {
  Value *sum = builder.add(x, x);
  Op *call = builder.op(OpKind::Call, {x, sum, x, y, x});
  call->set(attr::callee, "f");
  expectConsistentUses();
  EXPECT_THAT(x->uses(), SizeIs(5));

  call->removeOperand(2);
  expectConsistentUses();
  EXPECT_THAT(call->operands(), ElementsAre(x, sum, y, x));

  call->setOperand(0, y);
  call->addOperand(sum);
  expectConsistentUses();

  call->setOperands(call->operands().drop_front(3));
  EXPECT_THAT(call->operands(), ElementsAre(x, sum));
  expectConsistentUses();

  x->replaceAllUsesWith(y);
  EXPECT_FALSE(x->hasUses());
  EXPECT_THAT(call->operands(), ElementsAre(y, sum));
  expectConsistentUses();

  call->erase();
  EXPECT_FALSE(sum->hasUses());
  EXPECT_THAT(y->uses(), SizeIs(2));
  expectConsistentUses();
}

TEST_F(IrTest, ErasingAnOpDropsWhatItsRegionsUse) {
  Op *loop = builder.op(OpKind::For, {x, y, x});
  Value *position = loop->body().addArgument(types.index());
  builder.setInsertionPointToEnd(loop->body());
  Op *inner = builder.add(position, y)->definingOp();
  builder.op(OpKind::Yield, {});
  loop->erase();
  EXPECT_FALSE(x->hasUses());
  EXPECT_FALSE(y->hasUses());
  EXPECT_EQ(inner->parentBlock(), nullptr);
  EXPECT_TRUE(function->body().empty());
}

TEST_F(IrTest, AWalkMayEraseWhatItVisits) {
  for (int i = 0; i < 3; ++i) {
    Op *branch = builder.op(OpKind::If, {builder.constBool(true)});
    const InsertionGuard guard(builder);
    for (unsigned region : {0u, 1u}) {
      builder.setInsertionPointToEnd(branch->body(region));
      builder.op(OpKind::Yield, {});
    }
  }
  unsigned visited = 0;
  walk(function->body(), [&](Op &op) {
    ++visited;
    if (op.is(OpKind::If))
      op.erase();
  });
  // The constants and the branches, but not what went with these.
  EXPECT_EQ(visited, 6u);
}

TEST_F(IrTest, MovingKeepsTheRestInOrder) {
  Op *a = builder.op(OpKind::Quiet, {});
  Op *b = builder.op(OpKind::Fence, {});
  Op *c = builder.op(OpKind::Barrier, {});
  c->moveBefore(a);
  a->moveAfter(b);
  a->moveAfter(a);
  std::vector<OpKind> order;
  for (Op &op : function->body().ops())
    order.push_back(op.kind());
  EXPECT_THAT(order, ElementsAre(OpKind::Barrier, OpKind::Fence, OpKind::Quiet));
  b->moveToEnd(function->body());
  EXPECT_EQ(function->body().terminator(), b);
}

TEST_F(IrTest, AttributesAreSortedAndTyped) {
  Op *op = builder.op(OpKind::Quiet, {});
  op->set(attr::stages, 1);
  op->set(attr::awaited, true);
  op->set(attr::names, std::vector<std::string>{});
  op->set(attr::stages, 2);
  EXPECT_THAT(op->attrs(), SizeIs(3));
  EXPECT_EQ(op->attrs()[0].name, "awaited");
  EXPECT_EQ(op->get(attr::stages), 2);
  EXPECT_EQ(op->getOr(attr::batch, 7), 7);
  EXPECT_TRUE(op->get(attr::awaited));
  EXPECT_FALSE(op->get(attr::ordered));
  // An empty list reads as either kind.
  EXPECT_TRUE(op->get(attr::names).empty());
  EXPECT_TRUE(op->get(AttrKey<std::vector<int64_t>>{"names"}).empty());
  op->remove(attr::awaited);
  EXPECT_FALSE(op->has(attr::awaited));
}

TEST_F(IrTest, EnumerationsAreStringsInTheText) {
  Op *op = builder.op(OpKind::Quiet, {});
  op->set(attr::via, LoadPath::Threads);
  EXPECT_EQ(op->get(AttrKey<std::string>{"via"}), "threads");
  EXPECT_EQ(op->get(attr::via), LoadPath::Threads);
  for (const ParamMode mode :
       {ParamMode::In, ParamMode::Out, ParamMode::InOut, ParamMode::Symm, ParamMode::Scratch})
    EXPECT_EQ(enumFromText<ParamMode>(enumText(mode)), mode);
  EXPECT_EQ(enumFromText<LoadPath>("by magic"), std::nullopt);
}

TEST_F(IrTest, EqualTypesAreOneType) {
  EXPECT_EQ(types.tile({4, 8}, DType::F32), types.tile({4, 8}, DType::F32));
  EXPECT_NE(types.tile({4, 8}, DType::F32), types.tile({8, 4}, DType::F32));
  EXPECT_NE(types.view(DType::F32, 2, false), types.view(DType::F32, 2, true));
  EXPECT_EQ(types.scalar(DType::I64), types.index());
  EXPECT_EQ(types.withDType(types.tile({4}, DType::F32), DType::Bool).str(), "tile<4xbool>");
  EXPECT_EQ(types.tile({4, 8}, DType::F32).elements(), 32);
  EXPECT_EQ(types.index().elementOrIndex(), DType::I64);
}

TEST_F(IrTest, TheBuilderInfersWhatTheRowSays) {
  Value *less = builder.cmp("lt", x, y);
  EXPECT_EQ(less->type(), types.scalar(DType::Bool));
  EXPECT_EQ(builder.value(OpKind::Select, {less, x, y})->type(), types.index());
  Value *done = builder.value(OpKind::TokenDone, {});
  EXPECT_TRUE(done->type().isToken());
  EXPECT_TRUE(builder.value(OpKind::TokenJoin, {done})->type().isToken());
  Value *tile = builder.value(OpKind::Iota, {}, types.tile({8}, DType::I32));
  EXPECT_EQ(builder.cmp("eq", tile, tile)->type().str(), "tile<8xbool>");
}

TEST_F(IrTest, CopiesAreDeepAndMapped) {
  Op *loop = builder.op(OpKind::For, {x, y, x, y}, {types.index()});
  Value *position = loop->body().addArgument(types.index(), "i");
  Value *carried = loop->body().addArgument(types.index(), "acc");
  {
    const InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(loop->body());
    builder.op(OpKind::Yield, {builder.add(position, carried)});
  }
  Value *other = builder.constIndex(5);
  ValueMap map;
  map[x] = other;
  Op *copy = cloneOp(builder, *loop, map);
  builder.op(OpKind::Return, {copy->result()});
  EXPECT_THAT(copy->operands(), ElementsAre(other, y, other, y));
  EXPECT_EQ(map[loop->result()], copy->result());
  EXPECT_EQ(map[position], copy->body().argument(0));
  EXPECT_NE(copy->body().argument(1), carried);
  EXPECT_THAT(verify(module), testing::IsEmpty()) << text();
  expectConsistentUses();
}

// What text cannot say, because the reader refuses it.

TEST_F(IrTest, UsesBelowTheirDefinitionOnly) {
  Op *sum = builder.add(x, y)->definingOp();
  Op *product = builder.mul(x, y)->definingOp();
  builder.op(OpKind::Return, {});
  sum->setOperand(0, product->result());
  EXPECT_THAT(verify(module),
              ElementsAre(HasSubstr("`add` uses operand 0 where it is not defined")));
}

TEST_F(IrTest, ValuesDoNotLeaveTheirRegion) {
  Op *loop = builder.op(OpKind::For, {x, y, x});
  Value *position = loop->body().addArgument(types.index());
  {
    const InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(loop->body());
    builder.op(OpKind::Yield, {});
  }
  builder.op(OpKind::Return, {position});
  EXPECT_THAT(verify(module),
              ElementsAre(HasSubstr("`return` uses operand 0 where it is not defined")));
}

TEST_F(IrTest, ValuesDoNotCrossFunctions) {
  builder.op(OpKind::Return, {});
  builder.setInsertionPointToEnd(module.body());
  Op *other = builder.op(OpKind::Func, {});
  other->set(attr::name, "g");
  builder.setInsertionPointToEnd(other->body());
  builder.op(OpKind::Return, {x});
  EXPECT_THAT(verify(module),
              ElementsAre(HasSubstr("`return` uses operand 0 where it is not defined: return %?")));
}

TEST_F(IrTest, AModuleHoldsFunctionsOnly) {
  builder.op(OpKind::Return, {});
  builder.setInsertionPointToEnd(module.body());
  builder.value(OpKind::Rank, {});
  EXPECT_THAT(verify(module),
              ElementsAre(HasSubstr("`rank` stands outside of functions and kernels")));
}

TEST_F(IrTest, TheVerifierSurvivesWhatBreaksRows) {
  // Too few operands, missing and mistyped attributes, results that do not fit.
  builder.op(OpKind::Add, {x}, {types.index()});
  builder.op(OpKind::Cmp, {x, y}, {types.index()});
  Op *slice = builder.op(OpKind::ViewSlice, {x}, {types.index()});
  slice->setAttr("dims", int64_t(3));
  builder.op(OpKind::Kernel, {});
  builder.op(OpKind::Space, {x});
  builder.op(OpKind::Param, {}, {types.token()});
  builder.op(OpKind::Return, {});
  EXPECT_THAT(verify(module),
              ElementsAre(HasSubstr("`add` has 1 operand, not 2"),
                          HasSubstr("`cmp` has no attribute `pred`"),
                          HasSubstr("`view.slice` attribute `dims` is not a string"),
                          HasSubstr("`kernel` has no attribute `name`"),
                          HasSubstr("`space` has no attribute `name`"),
                          HasSubstr("`param` has no attribute `param`")));
}

TEST_F(IrTest, ViolationsAreCappedInNumber) {
  for (int i = 0; i < 100; ++i)
    builder.op(OpKind::Add, {x}, {types.index()});
  builder.op(OpKind::Return, {});
  EXPECT_THAT(verify(module), SizeIs(kMaxViolations));
}

TEST_F(IrTest, OneOpPrintsWithTheNamesOfItsFunction) {
  builder.value(OpKind::Rank, {});
  Value *sum = builder.add(x, builder.value(OpKind::NumRanks, {}));
  std::string text;
  llvm::raw_string_ostream os(text);
  print(*sum->definingOp(), os);
  EXPECT_EQ(text, "%2 = add %x, %1 : index\n");
}

TEST(IrText, LocationsPrintAndAreRead) {
  SourceManager sources;
  TypeContext types;
  Diagnostics diagnostics(sources);
  const FileId file = sources.add("a.dtir", "func @f {\n  quiet\n  return\n}\n");
  auto module = parseModule(file, sources, types, diagnostics);
  ASSERT_TRUE(module);
  std::string text;
  llvm::raw_string_ostream os(text);
  print(*module, os, {.locations = true});
  EXPECT_EQ(text, "version 1\nfunc @f {\n  quiet loc(2:3)\n  return loc(3:3)\n} loc(1:1)\n");
  EXPECT_TRUE(parseModule(sources.add("b.dtir", text), sources, types, diagnostics));
}

TEST(IrText, DepthIsLimited) {
  SourceManager sources;
  TypeContext types;
  Diagnostics diagnostics(sources);
  std::string text = "func @f (%x: index) {\n";
  for (int i = 0; i < 100'000; ++i)
    text += "for %x, %x, %x (%i" + std::to_string(i) + ": index) {\n";
  EXPECT_FALSE(parseModule(sources.add("a.dtir", text), sources, types, diagnostics));
  ASSERT_EQ(diagnostics.errorCount(), 1u);
  EXPECT_EQ(diagnostics.all().front().id, diag::ir_too_deep);
}

} // namespace
} // namespace dtile::ir
