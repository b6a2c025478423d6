// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which kernel takes parts of what memory in turn.
#include "backend/runtime/turned_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dtile::runtime {
namespace {

using ::testing::HasSubstr;

/// A kernel of an input and a buffer of f32 of which it takes halves in turn, or does not.
struct Kernel {
  explicit Kernel(const char *name, int32_t copies = 2) {
    params[1].copies = copies;
    desc.name = name;
    desc.nparams = 2;
    desc.params = params;
    state.desc = &desc;
    state.name = name;
    state.argumentOf = {0, 1};
  }
  Kernel(const Kernel &) = delete;
  dtile_param_desc params[2] = {
      {"x", DTILE_PARAM_TENSOR, DTILE_MODE_SYMM, DTILE_F32, 1, 0, 1},
      {"box", DTILE_PARAM_TENSOR, DTILE_MODE_SYMM, DTILE_F32, 2, 0, 2},
  };
  dtile_kernel_desc desc = {};
  KernelState state;
};

struct TurnedMemoryTest : testing::Test {
  std::vector<float> heap = std::vector<float>(1000);
  TurnedMemory turned;
  bool isLaunched = true;

  /// Launches with a buffer of 2 times `half` elements, `first` elements into the heap.
  std::string claim(const Kernel &kernel, int64_t first, int64_t half, int32_t rank = 3) {
    dtile_tensor x = {}, box = {};
    x.data = box.data = heap.data() + first;
    x.dtype = box.dtype = DTILE_F32;
    x.ndim = 1;
    x.size[0] = 1;
    box.ndim = 2;
    box.size[0] = 2;
    box.size[1] = half;
    dtile_arg arguments[2] = {};
    arguments[0].tensor = &x;
    arguments[1].tensor = &box;
    Status status = turned.check(kernel.state, arguments, heap.data(), rank);
    if (status.ok() && isLaunched)
      turned.claim(kernel.state, arguments, heap.data());
    return status.message;
  }
};

TEST_F(TurnedMemoryTest, IsOfTheFirstKernel) {
  Kernel a("a"), b("b");
  EXPECT_EQ(claim(a, 100, 50), "");
  EXPECT_EQ(claim(a, 100, 50), "");
  const std::string refused = claim(b, 100, 50);
  EXPECT_THAT(refused, HasSubstr("kernel `b`, argument `box`, rank 3"));
  EXPECT_THAT(refused, HasSubstr("kernel `a` does so"));
  EXPECT_EQ(claim(a, 100, 50), "");
}

TEST_F(TurnedMemoryTest, CountsEveryByte) {
  Kernel a("a"), b("b");
  EXPECT_EQ(claim(a, 100, 50), "");
  EXPECT_EQ(claim(b, 200, 50), "");
  EXPECT_EQ(claim(b, 0, 50), "");
  EXPECT_NE(claim(b, 199, 1), "");
  EXPECT_NE(claim(b, 99, 1), "");
  EXPECT_NE(claim(b, 50, 200), "");
  EXPECT_EQ(claim(b, 150, 0), "");
}

// Another place or other sizes: parts of one lie in parts of the other.
TEST_F(TurnedMemoryTest, IsCutInOneWay) {
  Kernel a("a");
  EXPECT_EQ(claim(a, 100, 50), "");
  EXPECT_THAT(claim(a, 100, 25), HasSubstr("has cut this memory into other parts"));
  EXPECT_NE(claim(a, 100, 51), "");
  EXPECT_NE(claim(a, 120, 10), "");
  EXPECT_EQ(claim(a, 100, 50), "");
  EXPECT_EQ(claim(a, 200, 25), "");
}

TEST_F(TurnedMemoryTest, IsNotOfWhoWasRefused) {
  Kernel a("a"), b("b"), again("b");
  isLaunched = false;
  EXPECT_EQ(claim(a, 100, 50), "");
  isLaunched = true;
  EXPECT_EQ(claim(b, 100, 50), "");
  EXPECT_THAT(claim(again, 100, 50), HasSubstr("another build of kernel `b` does so"));
}

TEST_F(TurnedMemoryTest, LetsOthersBe) {
  Kernel a("a"), plain("plain", 1);
  EXPECT_EQ(claim(plain, 100, 50), "");
  EXPECT_EQ(claim(a, 100, 50), "");
  EXPECT_EQ(claim(plain, 100, 50), "");
}

TEST_F(TurnedMemoryTest, IsFreeAgain) {
  Kernel a("a"), b("b"), c("c");
  EXPECT_EQ(claim(a, 100, 50), "");
  EXPECT_FALSE(turned.release(0, 400));
  EXPECT_NE(claim(b, 100, 50), "");
  EXPECT_TRUE(turned.release(400, 800));
  EXPECT_EQ(claim(b, 100, 50), "");
  turned.forget(a.state);
  EXPECT_NE(claim(c, 100, 50), "");
  turned.forget(b.state);
  EXPECT_EQ(claim(c, 100, 50), "");
}

} // namespace
} // namespace dtile::runtime
