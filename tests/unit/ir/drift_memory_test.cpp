// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pass bound-drift proves a kernel once, also where it comes again under another name.
#include "ir/core/text_format.h"
#include "ir/transform/pass.h"

#include "gtest/gtest.h"

using namespace dtile;
using namespace dtile::ir;

namespace {

/// A kernel that sends what it gets to a rank.
std::string kernel(const std::string &name, int rank) {
  return "kernel @" + name + " {\n  %S = launch.dim {dim = 0, param = 0} : index\n" +
         "  %to = const {value = " + std::to_string(rank) + R"(} : index
  %x = param @x %S {mode = "in", param = 0} : view<f32, 1>
  %box = param @box %S {mode = "scratch", param = 1} : view<f32, 1>
  space @main {vars = []} {
    %there = view.at %box, %to : view<f32, 1, remote>
    %sent = put %x, %there : token
    await %sent
    yield
  }
  return
}
)";
}

class DriftMemoryTest : public testing::Test {
protected:
  /// Whether ranks meet before each launch of the kernel.
  bool meets(const std::string &text) {
    const auto module = parseModule(sources_.add("a.dtir", text), sources_, types_, diagnostics_);
    EXPECT_TRUE(module);
    passes::PassContext context(diagnostics_);
    context.driftMemory = &memory_;
    passes::boundDrift(*module, context);
    return module->body().ops().front().get(attr::entry_barrier);
  }

  SourceManager sources_;
  TypeContext types_;
  Diagnostics diagnostics_{sources_};
  passes::DriftMemory memory_;
};

TEST_F(DriftMemoryTest, KnowsAKernelByWhatItDoes) {
  EXPECT_TRUE(meets(kernel("first", 0)));
  EXPECT_EQ(memory_.size(), 1u);
  EXPECT_TRUE(meets(kernel("second", 0)));
  EXPECT_EQ(memory_.size(), 1u);
  EXPECT_TRUE(meets(kernel("first", 1)));
  EXPECT_EQ(memory_.size(), 2u);
}

TEST_F(DriftMemoryTest, GivesWhatWasAdded) {
  passes::DriftAnswer answer;
  answer.isBounded = true;
  answer.needed = {{0, 1}};
  EXPECT_EQ(memory_.find("k"), std::nullopt);
  memory_.add("k", answer);
  EXPECT_EQ(memory_.find("k"), answer);
  EXPECT_EQ(memory_.find("other"), std::nullopt);
}

} // namespace
