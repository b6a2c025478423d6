// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What bodies print: the same lines from the interpreter, from processors and from GPUs, as often.
#include "host_support.h"
#include "kernel_text.h"

#include <algorithm>
#include <functional>

namespace dtile::backend::host::testing {
namespace {

/// Bodies print in any order.
std::vector<std::string> sortedLines(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::vector<std::string> sorted(lines.begin(), lines.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::vector<std::string> printedBy(const std::function<std::string()> &run) {
  ::testing::internal::CaptureStderr();
  const std::string failure = run();
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(failure, "");
  return sortedLines(text);
}

/// The lines of a kernel by the interpreter, which others print as well.
std::vector<std::string> expectSameLines(const std::string &text, int ranks,
                                         const std::vector<Tensor> &tensors, int launches = 1) {
  SCOPED_TRACE(text);
  Program program(text);
  if (!program.module)
    return {};
  std::vector<Tensor> copies = tensors;
  std::vector<std::string> wanted =
      printedBy([&] { return runInterpreted(*program.module, ranks, copies, launches); });
  EXPECT_FALSE(wanted.empty());
#ifdef DTILE_EMULATED_GPU
  copies = tensors;
  (void)printedBy([&] { return runEmulated(*program.module, ranks, copies, launches, {}); });
  EXPECT_EQ(sortedLines(takePrinted()), wanted);
#else
  copies = tensors;
  EXPECT_EQ(printedBy([&] { return runCompiled(*program.module, ranks, copies, {}, launches); }),
            wanted);
#endif
  return wanted;
}

std::string tileText(llvm::ArrayRef<int64_t> sizes, DType dtype) {
  std::string text = "tile<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + dtypeName(dtype).str() + ">";
}

constexpr DType kTypes[] = {
#define DTYPE(KIND, ...) DType::KIND,
#include "frontend/base/dtypes.def"
#undef DTYPE
};

TEST(HostPrint, TilesOfEveryType) {
  const std::vector<std::vector<int64_t>> shapes = {{5},    {8},      {9},        {200},
                                                    {3, 7}, {24, 40}, {9, 2, 10}, {1, 12}};
  for (const DType dtype : kTypes) {
    KernelText text;
    std::vector<Tensor> tensors;
    for (const std::vector<int64_t> &sizes : shapes) {
      const std::string number = std::to_string(tensors.size());
      text.param("a" + number, "in", dtype, sizes);
      text.line("%x" + number + " = load %a" + number + " : " + tileText(sizes, dtype));
      text.line("print %x" + number + " {message = \"tile " + number + "\"}");
      tensors.push_back(random(dtype, sizes, unsigned(tensors.size())));
    }
    EXPECT_EQ(expectSameLines(text.single(), 1, tensors).size(), shapes.size());
  }
}

TEST(HostPrint, ScalarsOfEveryType) {
  for (const DType dtype : kTypes) {
    KernelText text;
    text.param("a", "in", dtype, {4});
    text.line("%two = const {value = 2} : index");
    text.line("%three = const {value = 3} : index");
    text.line("%at = view.slice %a, %two {dims = \"i\"} : view<" + dtypeName(dtype).str() + ", 0>");
    text.line("%x = load %at : " + dtypeName(dtype).str());
    text.line("print %x {message = \"scalar\"}");
    text.line("print %three {message = \"number\"}");
    text.line("print {message = \"here\"}");
    const std::vector<std::string> lines =
        expectSameLines(text.single(), 2, {random(dtype, {4}, 5, 2)});
    EXPECT_EQ(lines.size(), 6u);
  }
}

TEST(HostPrint, BodiesSayWhereTheyAre) {
  KernelText text;
  text.param("a", "in", DType::I32, {48, 32}).param("t", "out", DType::I32, {48, 32});
  for (const char *number : {"0", "1", "2", "3", "12", "16"})
    text.head(std::string("%c") + number + " = const {value = " + number + "} : index");
  for (const char *view : {"a", "t"})
    text.line(std::string("%") + view + "v = view.tile %" + view + ", %i, %" + view + "_0, %j, %" +
              view + "_1 {dims = \"rr\", lens = [12, 16]} : view<i32, 2>");
  text.line("%x = load %av : tile<12x16xi32>");
  text.line("%sum = for %c0, %c3, %c1, %x : tile<12x16xi32> (%k: index, %s: tile<12x16xi32>) {");
  text.line("  %next = add %s, %x : tile<12x16xi32>");
  text.line("  print %k {message = \"k\"}");
  text.line("  print %next {message = \"sum\"}");
  text.line("  yield %next");
  text.line("}");
  text.line("store %sum, %tv");
  const std::vector<std::string> lines = expectSameLines(
      text.over("%c0, %a_0, %c12, %c0, %a_1, %c16", "\"m\", \"n\"", "%i: index, %j: index"), 2,
      {random(DType::I32, {48, 32}, 7, 2), zeros(DType::I32, {48, 32}, 2)}, 2);
  // Two launches of two ranks, with 8 bodies that print 6 lines each.
  EXPECT_EQ(lines.size(), 192u);
  EXPECT_EQ(llvm::StringRef(lines.front()).substr(0, 46),
            "rank 0, kernel `k`, role `main` (m = 0, n = 0)");
}

TEST(HostPrint, SumsOfProducts) {
  KernelText text;
  text.param("a", "in", DType::BF16, {32, 32}).param("b", "in", DType::BF16, {32, 32});
  text.param("t", "out", DType::F32, {32, 32});
  text.line("%zero = const {value = 0.0} : f32");
  text.line("%c = tile.splat %zero : tile<32x32xf32>");
  text.line("%x = load %a : tile<32x32xbf16>");
  text.line("%y = load %b : tile<32x32xbf16>");
  text.line("%sum = tile.dot %x, %y, %c : tile<32x32xf32>");
  text.line("print %x {message = \"factor\"}");
  text.line("print %sum {message = \"sum\"}");
  text.line("store %sum, %t");
  // Whole numbers, whose sums are the same in any order.
  const Tensor factor =
      filled(DType::BF16, {32, 32}, 1, [](int64_t i) { return double(i % 7 - i % 5); });
  expectSameLines(text.single(), 1, {factor, factor, zeros(DType::F32, {32, 32})});
}

} // namespace
} // namespace dtile::backend::host::testing
