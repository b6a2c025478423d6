// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes keep what programs compute: random programs give the same results before and after, on the
// interpreter.
#include "random_program.h"
#include "tests/unit/interpret/interpreter_support.h"

#include "ir/transform/pipelines.h"

#include <cmath>

namespace dtile::passes {
namespace {

using interpret::testing::Program;

struct Outputs {
  std::vector<int64_t> integers = std::vector<int64_t>(64, 0);
  std::vector<double> floats = std::vector<double>(64, 0.0);
  std::string error;
};

Outputs execute(ir::Module &module) {
  Outputs outputs;
  std::vector<int64_t> in;
  std::vector<float> fin;
  for (int i = 0; i < 16; ++i) {
    in.push_back(i * i * i - 40 * i - 3);
    fin.push_back(float(i) * 0.75f - 4);
  }
  in[0] = std::numeric_limits<int64_t>::min();
  in[1] = std::numeric_limits<int64_t>::max();
  fin[0] = std::numeric_limits<float>::quiet_NaN();
  fin[1] = -std::numeric_limits<float>::infinity();
  fin[2] = -0.0f;
  interpret::Machine machine(module, 1);
  outputs.error = interpret::testing::text(
      machine.launch("k", {{interpret::testing::tensor(in), interpret::testing::tensor(fin),
                            interpret::testing::tensor(outputs.integers),
                            interpret::testing::tensor(outputs.floats)}}));
  return outputs;
}

/// Equal to the bit; a NaN is a NaN.
bool isSame(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

void expectSame(const Outputs &a, const Outputs &b) {
  EXPECT_EQ(a.error, b.error);
  EXPECT_EQ(a.integers, b.integers);
  for (size_t i = 0; i < a.floats.size(); ++i)
    EXPECT_TRUE(isSame(a.floats[i], b.floats[i]))
        << "floats[" << i << "]: " << a.floats[i] << " and " << b.floats[i];
}

struct PassEquivalence : ::testing::TestWithParam<const char *> {};

TEST_P(PassEquivalence, RandomProgramsComputeTheSame) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = dtile::testing::RandomProgram(seed).text();
    Program program(text);
    ASSERT_TRUE(program.module) << text;
    const Outputs before = execute(*program.module);
    ASSERT_EQ(before.error, "") << text;

    Diagnostics diagnostics(program.sources);
    PassContext context(diagnostics);
    const auto pipeline = parsePipeline(GetParam(), allPasses(), diagnostics);
    ASSERT_TRUE(pipeline);
    ASSERT_TRUE(PassManager({.verifyEach = true}).run(*program.module, *pipeline, context))
        << "seed " << seed << "\n"
        << text;
    expectSame(before, execute(*program.module));
    if (HasFailure()) {
      std::string after;
      llvm::raw_string_ostream os(after);
      ir::print(*program.module, os);
      FAIL() << "seed " << seed << "\n" << text << "\nafter " << GetParam() << ":\n" << after;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Passes, PassEquivalence,
    ::testing::Values("inline", "canonicalize", "cse", "licm", "dce", "licm,cse,canonicalize,dce",
                      "issue-early", "inline,canonicalize,cse,licm,dce,canonicalize,cse,dce"));

TEST(PassEquivalence, EveryLevelComputesTheSame) {
  for (const OptLevel level : {OptLevel::O0, OptLevel::O1, OptLevel::O2})
    for (uint64_t seed = 1000; seed < 1050; ++seed) {
      const std::string text = dtile::testing::RandomProgram(seed).text();
      Program program(text);
      ASSERT_TRUE(program.module) << text;
      const Outputs before = execute(*program.module);
      Diagnostics diagnostics(program.sources);
      PassContext context(diagnostics);
      const auto pipeline = parsePipeline(pipelineText(level), allPasses(), diagnostics);
      ASSERT_TRUE(PassManager({.verifyEach = true}).run(*program.module, *pipeline, context));
      expectSame(before, execute(*program.module));
      ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << text;
    }
}

} // namespace
} // namespace dtile::passes
