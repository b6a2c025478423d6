// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tests compare between executors: machines that multiply tf32 round operands, others do not.
#include "backend/driver/execute/executor.h"
#include "backend/driver/testing/test_evaluator.h"

#include "ir/core/builder.h"

#include "gtest/gtest.h"

namespace dtile::driver {
namespace {

/// Interprets with products of tf32 as those of f32, and, where asked, sums that are too large.
class ExactExecutor : public Executor {
public:
  ExactExecutor(const Options &options, int ranks, bool isWrong)
      : inner_(makeInterpreterExecutor(options, ranks)), isWrong_(isWrong) {}
  [[nodiscard]] llvm::StringRef name() const override { return "exact"; }
  [[nodiscard]] int ranks() const override { return inner_->ranks(); }
  llvm::Expected<LoadedKernel *> load(const KernelCode &code) override {
    std::unique_ptr<ir::Module> &module = modules_.emplace_back(ir::cloneModule(*code.module));
    ir::walk(module->body(), [&](ir::Op &op) {
      if (op.is(ir::OpKind::Dot))
        op.remove(ir::attr::precision);
      if (isWrong_ && op.is(ir::OpKind::Const) && op.has(ir::attr::value) &&
          op.result()->type().isScalar() && op.result()->type().dtype() == DType::F32)
        op.setAttr("value", 10.0);
    });
    return inner_->load({code.instance, module.get(), code.hostCode, code.deviceCode});
  }
  void reset() override { inner_->reset(); }

private:
  std::unique_ptr<Executor> inner_;
  std::vector<std::unique_ptr<ir::Module>> modules_;
  bool isWrong_;
};

/// Runs the only test of a program on the interpreter, then exactly; whether nothing failed.
bool agrees(llvm::StringRef text, bool isWrong) {
  const Options options;
  Session session(options);
  const auto program = analyzeFile(session, session.sources.add("test.dtile", text.str()));
  if (!program)
    return false;
  KernelLibrary library(session, *program);
  const ast::BlockStmt &body = *program->tests().front()->body;
  const auto interpreter = makeInterpreterExecutor(options, 1);
  TestEvaluator first(session, library, *interpreter);
  EXPECT_TRUE(first.run(body));
  ExactExecutor exact(options, 1, isWrong);
  const bool fine = TestEvaluator(session, library, exact, &first.launches(), "interp").run(body);
  session.forget();
  return fine;
}

/// All operands are nearly half a step of tf32 above one.
std::string program(llvm::StringRef dot) {
  return "kernel product(a: in f32[32, 64], b: in f32[64, 32], c: out f32[32, 32])"
         " over (once in 0..1) {\n"
         "    var acc = zeros<f32>[32, 32];\n"
         "    acc += " +
         dot.str() +
         "(a[:, :], b[:, :]);\n    c[:, :] = acc;\n}\n"
         "kernel copy(a: in f32[32, 32], c: out f32[32, 32]) over (once in 0..1) {\n"
         "    c[:, :] = a[:, :];\n}\n"
         "test \"a product\" {\n"
         "    let c = copy(product(full<f32>[32, 64](1.00048), full<f32>[64, 32](1.00048)));\n"
         "    expect c == c;\n}\n";
}

TEST(Executors, ProductsOfTf32MayBeExact) { EXPECT_TRUE(agrees(program("dot<tf32>"), false)); }

TEST(Executors, OtherDifferencesAreReported) {
  EXPECT_FALSE(agrees(program("dot<tf32>"), true));
  EXPECT_FALSE(agrees(program("dot"), true));
  EXPECT_TRUE(agrees(program("dot"), false));
}

// Where there are fewer GPUs than ranks, programs of all ranks have to run at once.
TEST(Executors, TestsTakeVariantsThatEightRanksOfOneGpuCanRun) {
  Options options;
  options.target = "nvptx";
  Session session(options);
  const auto program = analyzeFile(session, session.sources.add("test.dtile", R"(
kernel pass<BM = auto, P = auto>(
    a: in f32[M, 64], b: scratch symm f32[M, 64], out: out f32[M, 64],
    here: symm signal[blocks(M, BM)],
) {
    role send over (m in M by BM) programs(P) {
        let gone = put(a[m, :], b@((rank() + 1) % num_ranks())[m, :]);
        notify(here@((rank() + 1) % num_ranks())[m.index], after: gone);
    }
    role keep over (m in M by BM) { out[m, :] = b[m, :] after wait(here[m.index]); }
}
)"));
  ASSERT_TRUE(program);
  KernelLibrary library(session, *program);
  const ast::KernelDecl &kernel = *program->kernels().front();
  for (int call = 0; call < 4; ++call) {
    const Constants chosen = library.chooseFor(kernel, {});
    ASSERT_EQ(chosen.size(), 2u);
    EXPECT_EQ(chosen[1].first, "P");
    EXPECT_LE(chosen[1].second, 8);
  }
  session.forget();
}

} // namespace
} // namespace dtile::driver
