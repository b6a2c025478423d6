// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which words of a frame decide whether accesses move whole words.
#include "backend/gpu/whole_words.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ValueSymbolTable.h"
#include "llvm/Support/SourceMgr.h"

#include <gtest/gtest.h>

using namespace dtile::backend::gpu;

namespace {

/// Values are asked for by name. The frame has the words %data, %n, %m, %stride, at 0, 8, 16, 24.
class WholeWordsTest : public ::testing::Test {
protected:
  void parse(llvm::StringRef body) {
    const std::string text = "declare ptr @peer(ptr, ptr, i64)\n"
                             "declare i64 @llvm.smin.i64(i64, i64)\n"
                             "define void @k(ptr %frame, i64 %thread, i1 %is) {\n"
                             "entry:\n"
                             "  %data = load ptr, ptr %frame\n"
                             "  %at.n = getelementptr i8, ptr %frame, i64 8\n"
                             "  %n = load i64, ptr %at.n\n"
                             "  %at.m = getelementptr i8, ptr %frame, i64 16\n"
                             "  %m = load i64, ptr %at.m\n"
                             "  %at.stride = getelementptr i8, ptr %frame, i64 24\n"
                             "  %stride = load i64, ptr %at.stride\n" +
                             body.str() + "}\n";
    llvm::SMDiagnostic error;
    module_ = llvm::parseAssemblyString(text, error, context_);
    ASSERT_TRUE(module_) << error.getMessage().str();
    words_ = WholeWords();
  }

  llvm::Value *value(llvm::StringRef name) {
    return module_->getFunction("k")->getValueSymbolTable()->lookup(name);
  }

  bool require(llvm::StringRef name, unsigned zeros, llvm::StringRef stride = "stride") {
    WholeWords::Access access;
    access.inWords = value(name);
    access.multiples.push_back({value(name), zeros});
    access.stride = value(stride);
    return words_.require(
        {{0, value("data")}, {8, value("n")}, {16, value("m")}, {24, value("stride")}},
        module_->getFunction("peer"), access);
  }

  /// Low zeros of a word; -1: there is no rule for it.
  int zeros(int64_t offset) {
    const auto found = words_.rules().find(offset);
    return found == words_.rules().end() ? -1 : int(found->second.zeros);
  }

  llvm::LLVMContext context_;
  std::unique_ptr<llvm::Module> module_;
  WholeWords words_;
};

TEST_F(WholeWordsTest, ends_of_tiles_follow_from_the_length_of_rows) {
  parse("  %first = mul i64 %thread, 256\n"
        "  %left = sub i64 %n, %first\n"
        "  %count = call i64 @llvm.smin.i64(i64 %left, i64 256)\n"
        "  ret void\n");
  EXPECT_TRUE(require("count", 3));
  EXPECT_EQ(zeros(8), 3);
  EXPECT_EQ(zeros(16), -1);
  EXPECT_TRUE(words_.rules().find(24)->second.isOne);
}

TEST_F(WholeWordsTest, positions_of_loops_are_multiples_if_their_steps_are) {
  parse("  br label %loop\n"
        "loop:\n"
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
        "  %next = add i64 %i, 24\n"
        "  br i1 %is, label %loop, label %end\n"
        "end:\n"
        "  ret void\n");
  EXPECT_TRUE(require("i", 3));
  EXPECT_FALSE(require("i", 4));
}

TEST_F(WholeWordsTest, of_a_product_one_factor_suffices) {
  parse("  %rows = mul i64 %m, %n\n"
        "  %bytes = shl i64 %rows, 1\n"
        "  ret void\n");
  EXPECT_TRUE(require("bytes", 4));
  EXPECT_EQ(zeros(8), 3);
  EXPECT_EQ(zeros(16), -1);
}

TEST_F(WholeWordsTest, addresses_are_those_of_other_ranks) {
  parse("  %row = mul i64 %thread, %m\n"
        "  %here = getelementptr bfloat, ptr %data, i64 %row\n"
        "  %there = call ptr @peer(ptr %frame, ptr %here, i64 %thread)\n"
        "  %global = addrspacecast ptr %there to ptr addrspace(1)\n"
        "  %number = ptrtoint ptr addrspace(1) %global to i64\n"
        "  ret void\n");
  EXPECT_TRUE(require("number", 4));
  EXPECT_EQ(zeros(0), 4);
  EXPECT_EQ(zeros(16), 3);
}

TEST_F(WholeWordsTest, what_no_word_decides_leaves_no_rules) {
  parse("  %odd = urem i64 %n, 7\n"
        "  %sum = add i64 %m, %odd\n"
        "  %chosen = select i1 %is, i64 %n, i64 %thread\n"
        "  ret void\n");
  EXPECT_FALSE(require("sum", 3));
  EXPECT_FALSE(require("chosen", 3));
  EXPECT_FALSE(require("n", 3, "thread"));
  EXPECT_TRUE(words_.rules().empty());
}

TEST_F(WholeWordsTest, a_word_is_not_one_and_a_multiple) {
  parse("  ret void\n");
  EXPECT_FALSE(require("stride", 3));
  EXPECT_TRUE(require("n", 3));
  EXPECT_FALSE(require("m", 3, "n"));
  EXPECT_EQ(zeros(16), -1);
}

} // namespace
