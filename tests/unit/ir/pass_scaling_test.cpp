// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading, verifying, passes and printing are near linear: large modules take well under a second
// here, and would take minutes if one of them were quadratic. The limit is wide, for slow machines
// and sanitizers.
#include "ir/core/text_format.h"
#include "ir/transform/pipelines.h"

#include "gtest/gtest.h"

#include <chrono>

namespace dtile::passes {
namespace {

constexpr unsigned kOps = 50'000;
constexpr double kSeconds = 15;

std::string kernel(const std::string &body) {
  return "kernel @k {\n"
         "  %S = launch.dim {dim = 0, param = 0} : index\n"
         "  %p = param @p %S {mode = \"out\", param = 0} : view<i64, 1>\n"
         "  %q = param @q %S {mode = \"symm\", param = 1} : view<i64, 1>\n"
         "  %c0 = const {value = 0} : index\n"
         "  %c1 = const {value = 1} : index\n"
         "  space @s %c0, %S, %c1 {vars = [\"i\"]} (%i: index) {\n" +
         body + "    yield\n  }\n  return\n}\n";
}

std::string storeOf(const std::string &value) {
  return "    %at = view.slice %p, %i {dims = \"i\"} : view<i64, 0>\n    store " + value +
         ", %at\n";
}

void expectFast(const std::string &text) {
  const auto start = std::chrono::steady_clock::now();
  SourceManager sources;
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  const auto module = ir::parseModule(sources.add("a.dtir", text), sources, types, diagnostics);
  ASSERT_TRUE(module);
  ASSERT_TRUE(ir::verify(*module, diagnostics));
  PassContext context(diagnostics);
  const auto pipeline = parsePipeline(pipelineText(OptLevel::O2), allPasses(), diagnostics);
  ASSERT_TRUE(pipeline);
  EXPECT_TRUE(PassManager({}).run(*module, *pipeline, context));
  std::string printed;
  llvm::raw_string_ostream os(printed);
  ir::print(*module, os);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), kSeconds);
}

TEST(PassScaling, AChainOfDifferentOps) {
  std::string body;
  std::string last = "%i";
  for (unsigned n = 0; n < kOps; ++n) {
    const std::string name = "%v" + std::to_string(n);
    body += "    " + name + " = " + (n % 2 ? "mul " : "xor ") + last + ", %S : index\n";
    last = name;
  }
  expectFast(kernel(body + storeOf(last)));
}

TEST(PassScaling, ManyUsesOfOneValue) {
  std::string body;
  for (unsigned n = 0; n < kOps; ++n)
    body += "    %v" + std::to_string(n) + " = add %i, %c0 : index\n";
  for (unsigned n = 0; n < kOps / 10; ++n)
    body += "    %w" + std::to_string(n) + " = min %S, %v" + std::to_string(n) + " : index\n";
  expectFast(kernel(body + storeOf("%v7")));
}

TEST(PassScaling, ManyLoops) {
  std::string body;
  std::string last = "%i";
  for (unsigned n = 0; n < kOps / 5; ++n) {
    const std::string id = std::to_string(n);
    body += "    %r" + id + " = for %c0, %S, %c1, " + last + " : index (%k" + id + ": index, %a" +
            id + ": index) {\n      %x" + id + " = mul %S, %S : index\n      %y" + id +
            " = xor %a" + id + ", %x" + id + " : index\n      yield %y" + id + "\n    }\n";
    last = "%r" + id;
  }
  expectFast(kernel(body + storeOf(last)));
}

TEST(PassScaling, AChainOfTokens) {
  std::string body = "    %t0 = token.done : token\n";
  for (unsigned n = 1; n < kOps / 3; ++n) {
    const std::string id = std::to_string(n);
    body += "    %s" + id + " = put %p, %q : token\n    %t" + id + " = token.join %t" +
            std::to_string(n - 1) + ", %s" + id + " : token\n";
  }
  expectFast(kernel(body + "    await %t" + std::to_string(kOps / 3 - 1) + "\n"));
}

TEST(PassScaling, ManyCalls) {
  std::string text;
  for (unsigned n = 0; n < kOps / 10; ++n) {
    const std::string id = std::to_string(n);
    text += "func @f" + id + " (%x: index) {\n  %y = mul %x, %x : index\n";
    if (n > 0)
      text += "  %z = call @f" + std::to_string(n - 1) + " %y : index\n  return %z\n}\n";
    else
      text += "  return %y\n}\n";
  }
  const std::string call = "    %z = call @f" + std::to_string(kOps / 10 - 1) + " %i : index\n";
  expectFast(text + kernel(call + storeOf("%z")));
}

} // namespace
} // namespace dtile::passes
