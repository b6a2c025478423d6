// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the model takes loads to bring from memory.
#include "ir/model/streams.h"

#include "ir/core/text_format.h"

#include "gtest/gtest.h"

using namespace dtile;
using namespace dtile::ir;

namespace {

/// A kernel over blocks of 64 rows and 128 columns of x, with this body.
class Kernel {
public:
  explicit Kernel(const std::string &body) {
    const std::string text = R"(
kernel @f {
  %M = launch.dim {dim = 0, param = 0} : index
  %N = launch.dim {dim = 1, param = 0} : index
  %x = param @x %M, %N {mode = "in", param = 0} : view<f32, 2>
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %c4 = const {value = 4} : index
  %c64 = const {value = 64} : index
  %c128 = const {value = 128} : index
  space @main %c0, %M, %c64, %c0, %N, %c128 {vars = ["m", "n"]} (%m: index, %n: index) {
)" + body + "yield\n  }\n  return\n}\n";
    module_ = parseModule(sources_.add("a.dtir", text), sources_, types_, diagnostics_);
    EXPECT_TRUE(module_);
  }
  [[nodiscard]] llvm::SmallVector<model::Stream, 2> streams() {
    llvm::SmallVector<model::Stream, 2> streams;
    walk(module_->body(), [&](Op &op) {
      if (op.is(OpKind::Load))
        streams.push_back(model::streamOf(op));
    });
    return streams;
  }
  [[nodiscard]] size_t firstReads() {
    size_t count = 0;
    walk(module_->body(), [&](Op &op) {
      if (op.is(OpKind::Space))
        count = model::firstReads(op).size();
    });
    return count;
  }

private:
  SourceManager sources_;
  TypeContext types_;
  Diagnostics diagnostics_{sources_};
  std::unique_ptr<Module> module_;
};

/// A loop over `bounds` that loads rows from `row` on, and columns from `column` on.
std::string loop(const std::string &bounds, const std::string &position, const std::string &more,
                 const std::string &row, const std::string &column) {
  return "for " + bounds + " (%" + position + ": index) {\n" + more + "%v_" + position +
         " = view.tile %x, " + row + ", %M, " + column +
         ", %N {dims = \"rr\", lens = [64, 128]} : view<f32, 2>\n%l_" + position + " = load %v_" +
         position + " : tile<64x128xf32>\nyield\n}\n";
}

TEST(Streams, WindowsBringTheirNewRows) {
  Kernel kernel(loop("%c0, %c4, %c1", "j", "%r = add %m, %j : index\n", "%r", "%n"));
  EXPECT_EQ(kernel.streams()[0].share, 1.0 / 64);
}

TEST(Streams, OtherArithmeticMayMoveByAnything) {
  Kernel kernel(loop("%c0, %c4, %c1", "j", "%s = mul %j, %c64 : index\n%r = add %m, %s : index\n",
                     "%r", "%n"));
  EXPECT_EQ(kernel.streams()[0].share, 1);
}

TEST(Streams, TilesThatDoNotOverlapAreNew) {
  Kernel kernel(loop("%c0, %M, %c64", "j", "%r = add %m, %j : index\n", "%r", "%n"));
  EXPECT_EQ(kernel.streams()[0].share, 1);
}

TEST(Streams, WhatAllBodiesOfARowReadIsCached) {
  Kernel kernel(loop("%c0, %N, %c128", "j", "", "%m", "%j"));
  EXPECT_EQ(kernel.streams()[0].share, 0);
}

TEST(Streams, LaterLoopsReadAgain) {
  const auto rows = [](const std::string &bounds, const std::string &position) {
    const std::string column = "%c_" + position;
    return loop(bounds, position, column + " = add %" + position + ", %n : index\n", "%m", column);
  };
  Kernel again(rows("%c0, %N, %c128", "i") + rows("%c0, %N, %c128", "j"));
  const auto streams = again.streams();
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_FALSE(streams[0].isReread);
  EXPECT_TRUE(streams[1].isReread);
  EXPECT_EQ(streams[1].share, 1);
  EXPECT_EQ(again.firstReads(), 1u);
  // Other positions are other tiles.
  Kernel apart(rows("%c0, %N, %c128", "i") + rows("%c64, %N, %c128", "j"));
  EXPECT_FALSE(apart.streams()[1].isReread);
}

} // namespace
