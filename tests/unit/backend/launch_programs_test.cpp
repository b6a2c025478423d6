// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long bodies are estimated to take in a launch, and the programs that spaces get for it: code
// for a device and its host side, by the runtime on a driver of host memory.
#include "backend/launch/package.h"
#include "backend/runtime/device/device_team.h"
#include "frontend/base/diagnostics.h"
#include "ir/core/text_format.h"
#include "ir/transform/pipelines.h"
#include "tests/unit/runtime/device/fake_device.h"

#include "llvm/Support/raw_ostream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <sstream>
#include <sys/mman.h>

namespace dtile::backend {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;

/// Memory of a device that nobody touches.
class Untouched {
public:
  Untouched(test::FakeMachine &machine, int64_t bytes, int32_t ordinal)
      : machine_(machine), bytes_(size_t(bytes)),
        data_(
            mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    machine_.allocations[runtime::DeviceAddress(data_)] = {bytes, ordinal};
  }
  ~Untouched() {
    machine_.allocations.erase(runtime::DeviceAddress(data_));
    munmap(data_, bytes_);
  }
  Untouched(const Untouched &) = delete;
  [[nodiscard]] void *data() const { return data_; }

private:
  test::FakeMachine &machine_;
  size_t bytes_;
  void *data_;
};

/// A tensor argument.
struct Tensor {
  dtile_dtype dtype;
  std::vector<int64_t> sizes;
};

/// One kernel, compiled for a device as `dtilec build` does, from the IR behind -O2.
class LaunchPrograms : public testing::Test {
protected:
  void compile(const std::string &text, const std::string &arch = "sm_90a") {
    const Target &target = *findTarget("nvptx");
    Diagnostics diagnostics(sources_);
    module_ = ir::parseModule(sources_.add("test.dtir", text), sources_, types_, diagnostics);
    ASSERT_TRUE(module_) << report(diagnostics);
    const auto pipeline = passes::parsePipeline(passes::devicePipelineText(*target.facts(arch)),
                                                passes::allPasses(), diagnostics);
    ASSERT_TRUE(pipeline) << report(diagnostics);
    passes::PassContext context(diagnostics);
    context.facts = target.facts(arch);
    ASSERT_TRUE(passes::PassManager({}).run(*module_, *pipeline, context)) << report(diagnostics);
    TargetOptions options;
    options.arch = arch;
    options.assemble = false;
    auto loaded = launch::load(target, *module_, options);
    ASSERT_TRUE(bool(loaded)) << llvm::toString(loaded.takeError());
    loaded_ = std::move(*loaded);
    kernel_ = loaded_->find("k");
    ASSERT_TRUE(kernel_);
    machine_.arch = arch;
  }

  /// Launches the kernel on all of a team's ranks.
  void launch(int32_t ranks, const std::vector<Tensor> &tensors) {
    machine_.devices = ranks;
    machine_.multiprocessors = 132;
    machine_.each = each_;
    machine_.sharedBytes = 227 << 10;
    machine_.memory = int64_t(1) << 40;
    machine_.isFilled = false;
    machine_.launches.clear();
    runtime::DeviceTeamConfig config;
    config.ordinals.resize(size_t(ranks));
    std::iota(config.ordinals.begin(), config.ordinals.end(), 0);
    config.symmetricBytes = int64_t(2) << 30;
    config.timeoutMs = 500;
    team_.reset();
    memory_.clear();
    const runtime::Status made =
        runtime::DeviceTeam::create(test::makeFakeDriver(machine_), std::move(config), &team_);
    ASSERT_TRUE(made.ok()) << made.message;
    std::vector<std::vector<dtile_tensor>> passed;
    std::vector<std::vector<dtile_arg>> arguments;
    passed.resize(size_t(ranks));
    arguments.resize(size_t(ranks));
    std::vector<const dtile_arg *> pointers;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      for (const Tensor &tensor : tensors)
        passed[size_t(rank)].push_back(place(tensor, rank));
      for (const dtile_tensor &tensor : passed[size_t(rank)])
        arguments[size_t(rank)].emplace_back().tensor = &tensor;
      pointers.push_back(arguments[size_t(rank)].data());
    }
    const runtime::Status status =
        team_->launch(kernel_, pointers.data(), int32_t(tensors.size()), 1);
    ASSERT_TRUE(status.ok()) << status.message;
    ASSERT_EQ(machine_.launches.size(), size_t(ranks));
  }

  [[nodiscard]] std::vector<int32_t> programs(int32_t rank = 0) const {
    const int32_t *first = machine_.launches[size_t(rank)].words.first_program;
    std::vector<int32_t> result;
    for (int32_t s = 0; s < kernel_->nspaces; ++s)
      result.push_back(first[s + 1] - first[s]);
    return result;
  }
  [[nodiscard]] int64_t weight(int32_t space, int64_t body, int32_t rank = 0) const {
    return kernel_->images[0].weights[space](machine_.launches[size_t(rank)].frame, body, 1, 132);
  }
  [[nodiscard]] int64_t latency(int32_t space, int64_t body) const {
    return kernel_->images[0].latencies[space](machine_.launches[0].frame, body, 1, 132);
  }
  [[nodiscard]] int64_t bodies(int32_t space) const {
    return kernel_->images[0].counts[space](machine_.launches[0].frame);
  }

  /// Programs that a processor holds.
  int32_t each_ = 1;

private:
  dtile_tensor place(const Tensor &tensor, int32_t rank) {
    dtile_tensor made = {};
    made.dtype = tensor.dtype;
    made.ndim = int32_t(tensor.sizes.size());
    int64_t stride = 1;
    for (size_t d = tensor.sizes.size(); d-- > 0; stride *= tensor.sizes[d]) {
      made.size[d] = tensor.sizes[d];
      made.stride[d] = stride;
    }
    const int64_t bytes = std::max<int64_t>(8 * stride, 8);
    memory_.push_back(std::make_unique<Untouched>(machine_, bytes, rank));
    made.data = memory_.back()->data();
    return made;
  }
  static std::string report(const Diagnostics &diagnostics) {
    std::string text;
    llvm::raw_string_ostream os(text);
    printDiagnostics(diagnostics, DiagnosticForm::Text, ColorMode::Never, os);
    return text;
  }

  SourceManager sources_;
  ir::TypeContext types_;
  std::unique_ptr<ir::Module> module_;
  std::unique_ptr<launch::LoadedKernels> loaded_;
  const dtile_kernel_desc *kernel_ = nullptr;
  test::FakeMachine machine_;
  std::vector<std::unique_ptr<Untouched>> memory_;
  std::unique_ptr<runtime::DeviceTeam> team_;
};

std::string input(const std::string &name) {
  std::ifstream file(std::string(DTILE_TEST_INPUTS) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A layer of M rows: each rank has M / ranks of them and ffn / ranks columns of weights.
std::vector<Tensor> layer(int32_t ranks, int64_t rows, int64_t hidden, int64_t ffn) {
  return {{DTILE_BF16, {rows / ranks, hidden}},
          {DTILE_BF16, {ffn / ranks, hidden}},
          {DTILE_BF16, {rows, ffn / ranks}}};
}

TEST_F(LaunchPrograms, BodiesWeighWhatTheyMoveAndMultiplyInThisLaunch) {
  ASSERT_NO_FATAL_FAILURE(compile(input("ag_gemm.dtir")));
  ASSERT_NO_FATAL_FAILURE(launch(4, layer(4, 8192, 4096, 12288)));
  ASSERT_EQ(bodies(0), 64);
  ASSERT_EQ(bodies(1), 768);
  // 128 rows of 4096 two-byte numbers at 44 GB/s; none to the own rank, which is hop 0.
  EXPECT_EQ(weight(0, 16), (128 * 4096 * 2) / 44);
  EXPECT_EQ(weight(0, 63), (128 * 4096 * 2) / 44);
  EXPECT_EQ(weight(0, 0), 16);
  EXPECT_EQ(weight(0, 15, /*rank=*/3), 16);
  // 64 rounds, in which 128 rows by 256 columns are multiplied to a depth of 64, and four
  // instructions are issued; the tile from registers.
  const Timing &timing = findMachine("h200")->timing;
  const double inRound = timing.tmaRound + 4 * timing.groupIssue;
  const double products = 128 * 256 * 64 / timing.groupRate * (1 + timing.groupHalfColumns / 256);
  const double round = products + inRound;
  const double once = timing.tmaLoop + 128 * 256 * 2 / timing.storeRate;
  EXPECT_THAT(weight(1, 0), AllOf(Ge(64 * round + once - 1), Le(64 * round + once + 1)));
  EXPECT_EQ(weight(1, 767), weight(1, 0));
  // Half the depth, half the time; a chunk of fewer rows.
  ASSERT_NO_FATAL_FAILURE(launch(4, layer(4, 8000, 2048, 12288)));
  EXPECT_EQ(weight(0, 17), (128 * 2048 * 2) / 44);
  EXPECT_EQ(weight(0, 31), ((2000 - 15 * 128) * 2048 * 2) / 44);
  EXPECT_THAT(weight(1, 0), AllOf(Ge(32 * round + once - 1), Le(32 * round + once + 1)));
  // Rows that begin at multiples of 16 bytes: 132 programs read 384 of 128 bytes in a round. Of
  // those that are chosen from two tensors (128) the launch does not know where they begin.
  ASSERT_NO_FATAL_FAILURE(launch(4, layer(4, 8192, 4088, 12288)));
  const double lines = 132 * (256 * timing.cacheRows16 + 128);
  const double unaligned = lines * 128 / timing.cacheRate + inRound;
  EXPECT_THAT(weight(1, 0), AllOf(Ge(64 * unaligned + once - 1), Le(64 * unaligned + once + 1)));
}

TEST_F(LaunchPrograms, ProgramsOfALayerFollowItsSizes) {
  ASSERT_NO_FATAL_FAILURE(compile(input("ag_gemm.dtir")));
  ASSERT_NO_FATAL_FAILURE(launch(4, layer(4, 8192, 4096, 12288)));
  // 768 tiles in six waves.
  for (int32_t rank = 0; rank < 4; ++rank)
    EXPECT_THAT(programs(rank), ElementsAre(8, 124, 0));
  ASSERT_NO_FATAL_FAILURE(launch(4, layer(4, 8192, 8192, 28672)));
  EXPECT_THAT(programs(), ElementsAre(10, 122, 0));
}

/// A space of N bodies. Behind %i, its position: 4096 elements of %x as %from, of %y as %to.
std::string kernelOf(const std::string &body) {
  return R"(kernel @k {
  %N = launch.dim {dim = 0, param = 0} : index
  %zero = const {value = 0} : index
  %one = const {value = 1} : index
  %ten = const {value = 10} : index
  %e = epoch : index
  %x = param @x %N {mode = "in", param = 0} : view<f32, 1>
  %y = param @y %N {mode = "out", param = 1} : view<f32, 1>
  %s = signal_param @s {param = 2} : signal<0> {
    yield %N
  }
  space @s %zero, %N, %one {vars = ["i"]} (%i: index) {
    %from = view.tile %x, %i, %N {dims = "r", lens = [4096]} : view<f32, 1>
    %to = view.tile %y, %i, %N {dims = "r", lens = [4096]} : view<f32, 1>
)" + body +
         "    yield\n  }\n  return\n}\n";
}
const std::vector<Tensor> kVectors = {{DTILE_F32, {5000}}, {DTILE_F32, {5000}}};
/// Reads and writes 16 KiB of own memory. No other body reads the same, so that 132 programs share
/// what memory gives.
const char *const kCopy = "%t = load %from : tile<4096xf32>\n store %t, %to\n";
constexpr double kStoreTime = 16384 / 36.0;
constexpr double kCopyTime = 16384.0 * 132 / 4200 + kStoreTime;
/// What a body that loads tiles takes to begin, in kernels without products.
constexpr int64_t kBegin = 60;

// The last space waits for all ranks, whatever its products have waited for: on programs that are
// done.
TEST_F(LaunchPrograms, SpacesThatOnlyWaitNeedNone) {
  ASSERT_NO_FATAL_FAILURE(compile(input("ag_grouped_gemm.dtir")));
  const std::vector<Tensor> tensors = {
      {DTILE_BF16, {2048, 4096}}, {DTILE_I32, {17408}},          {DTILE_I32, {136}},
      {DTILE_I32, {136, 2}},      {DTILE_BF16, {8, 7168, 4096}}, {DTILE_BF16, {17408, 7168}}};
  ASSERT_NO_FATAL_FAILURE(launch(4, tensors));
  ASSERT_EQ(programs().size(), 3u);
  EXPECT_THAT(programs()[1], Ge(100));
  EXPECT_EQ(programs()[0] + programs()[1], 132);
  EXPECT_EQ(programs()[2], 0);
}

TEST_F(LaunchPrograms, RoundsOfLoopsAreThoseOfTheBody) {
  ASSERT_NO_FATAL_FAILURE(
      compile(kernelOf(std::string("for %zero, %i, %one (%k: index) {\n") + kCopy + "yield\n}\n")));
  ASSERT_NO_FATAL_FAILURE(launch(1, kVectors));
  EXPECT_EQ(weight(0, 100), kBegin + int64_t(100 * kCopyTime));
  EXPECT_EQ(weight(0, 4999), kBegin + int64_t(4999 * kCopyTime));
  EXPECT_EQ(weight(0, 0), kBegin);
}

TEST_F(LaunchPrograms, LatencyIsThatOfCopiesNotifiesAndWaits) {
  const Timing &timing = findMachine("h200")->timing;
  const auto kMemory = int64_t(timing.memoryLatency), kNotify = int64_t(timing.notifyLatency);
  // Each round of a loop waits for what it loads, and the body for the first of all.
  ASSERT_NO_FATAL_FAILURE(
      compile(kernelOf(std::string("for %zero, %i, %one (%k: index) {\n") + kCopy + "yield\n}\n")));
  ASSERT_NO_FATAL_FAILURE(launch(1, kVectors));
  EXPECT_EQ(latency(0, 100), (100 + 1) * kMemory);
  // One copy is behind the other, and a notify waits until both have landed.
  const std::string notify = R"(
    %a = put %from, %to : token
    %b = put %from, %to, %a : token
    notify %s, %b
)";
  ASSERT_NO_FATAL_FAILURE(compile(kernelOf(notify)));
  ASSERT_NO_FATAL_FAILURE(launch(1, kVectors));
  EXPECT_EQ(latency(0, 100), 2 * kMemory + kNotify);
  // In a loop each round waits, but for rounds that do nothing else: they notify at once.
  ASSERT_NO_FATAL_FAILURE(
      compile(kernelOf("for %zero, %ten, %one (%k: index) {\n" + notify + "yield\n}\n")));
  ASSERT_NO_FATAL_FAILURE(launch(1, kVectors));
  EXPECT_EQ(latency(0, 100), 10 * (2 * kMemory + kNotify));
  ASSERT_NO_FATAL_FAILURE(
      compile(kernelOf("for %zero, %ten, %one (%k: index) {\nnotify %s\nyield\n}\n")));
  ASSERT_NO_FATAL_FAILURE(launch(1, kVectors));
  EXPECT_EQ(latency(0, 100), kNotify);
  ASSERT_NO_FATAL_FAILURE(compile(kernelOf("%here = wait %s, %zero : acquire\n")));
  ASSERT_NO_FATAL_FAILURE(launch(1, kVectors));
  EXPECT_EQ(latency(0, 100), kMemory);
}

TEST_F(LaunchPrograms, RowsThatAreNotifiedGetMorePrograms) {
  // 32 would fill the way to other devices, if they did not wait for each row to land. Each round
  // waits, so more send: half of all.
  each_ = 3;
  ASSERT_NO_FATAL_FAILURE(compile(input("rows_and_sums.dtir")));
  ASSERT_NO_FATAL_FAILURE(launch(2, {{DTILE_BF16, {4096, 5120}}, {DTILE_BF16, {4096, 5120}}}));
  EXPECT_EQ(programs()[0], each_ * 132 / 2);
}

TEST_F(LaunchPrograms, RoundsThatMemorySaysAreGuessed) {
  ASSERT_NO_FATAL_FAILURE(compile(kernelOf(std::string(R"(
    %at = view.slice %x, %i {dims = "i"} : view<f32, 0>
    %v = load %at : f32
    %n = cast %v : index
    for %zero, %n, %one (%k: index) {
)") + kCopy + "yield\n}\n")));
  ASSERT_NO_FATAL_FAILURE(launch(1, kVectors));
  EXPECT_EQ(weight(0, 100), kBegin + int64_t(32 * kCopyTime));
}

TEST_F(LaunchPrograms, RoundsThatMemorySaysAreAsManyAsTheKernelAllows) {
  const std::string read = R"(
    %at = view.slice %n, %i {dims = "i"} : view<i32, 0>
    %v = load %at : i32
    %limit = cast %v : index
    for %zero, %limit, %one (%k: index) {
)";
  const std::string kernel = kernelOf(read + kCopy + "yield\n}\n");
  // A third vector of counts; what is said of them, and that nothing is.
  const auto counts = [&](const std::string &clause) {
    std::string text = kernel;
    const size_t space = text.find("space @");
    text.insert(text.rfind('\n', space) + 1,
                "%n = param @n %N {mode = \"in\", param = 3} : view<i32, 1>\n" + clause);
    return text;
  };
  std::vector<Tensor> tensors = kVectors;
  tensors.push_back({DTILE_I32, {5000}});
  ASSERT_NO_FATAL_FAILURE(compile(counts("")));
  ASSERT_NO_FATAL_FAILURE(launch(1, tensors));
  EXPECT_EQ(weight(0, 100), kBegin + int64_t(32 * kCopyTime));
  ASSERT_NO_FATAL_FAILURE(compile(
      counts("launch.elements %n, %ten {kind = \"all\", pred = \"le\", text = \"n <= 10\"}\n")));
  ASSERT_NO_FATAL_FAILURE(launch(1, tensors));
  EXPECT_EQ(weight(0, 100), kBegin + int64_t(10 * kCopyTime));
}

TEST_F(LaunchPrograms, RoundsThatReplaysChangeAreGuessed) {
  ASSERT_NO_FATAL_FAILURE(
      compile(kernelOf(std::string("for %zero, %e, %one (%k: index) {\n") + kCopy + "yield\n}\n")));
  ASSERT_NO_FATAL_FAILURE(launch(1, kVectors));
  EXPECT_EQ(weight(0, 100), kBegin + int64_t(32 * kCopyTime));
}

TEST_F(LaunchPrograms, BranchesWeighWhatIsTaken) {
  ASSERT_NO_FATAL_FAILURE(
      compile(kernelOf(std::string("%b = cmp %i, %ten {pred = \"lt\"} : bool\nif %b {\n") + kCopy +
                       "yield\n} {\nyield\n}\n")));
  ASSERT_NO_FATAL_FAILURE(launch(1, kVectors));
  EXPECT_EQ(weight(0, 9), kBegin + int64_t(kCopyTime));
  EXPECT_EQ(weight(0, 10), kBegin);
}

} // namespace
} // namespace dtile::backend
