// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far the polynomials of backend/llvm/math.cpp are from the true values, in units in the last
// place. The bounds are those that math.h states.
#include "host_support.h"

#include <bit>

namespace dtile::backend::host::testing {
namespace {

constexpr int64_t kCount = 1 << 16;

double worstError(const std::string &op, double (*exact)(double), uint32_t step) {
  const std::string n = std::to_string(kCount);
  Program program("kernel @k {\n  %n = const {value = " + n +
                  "} : index\n  %c0 = const {value = 0} : index\n"
                  "  %c = const {value = 256} : index\n"
                  "  %a = param @a %n {param = 0, mode = \"in\"} : view<f32, 1>\n"
                  "  %t = param @t %n {param = 1, mode = \"out\"} : view<f32, 1>\n"
                  "  space @main %c0, %n, %c {vars = [\"i\"]} (%i: index) {\n"
                  "    %v = view.tile %a, %i, %n {dims = \"r\", lens = [256]} : view<f32, 1>\n"
                  "    %w = view.tile %t, %i, %n {dims = \"r\", lens = [256]} : view<f32, 1>\n"
                  "    %x = load %v : tile<256xf32>\n    %y = " +
                  op +
                  " %x : tile<256xf32>\n"
                  "    store %y, %w\n    yield\n  }\n  return\n}\n");
  auto code = llvm::cantFail(jit(*program.module, {}));
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  options.ranks = 1;
  options.workers = 1;
  dtile_team *team = nullptr;
  EXPECT_EQ(dtile_team_create_threads(&options, &team), DTILE_OK);
  std::vector<float> in(kCount);
  std::vector<float> out(kCount);
  dtile_tensor tensors[2] = {{in.data(), DTILE_F32, 1, {kCount}, {1}},
                             {out.data(), DTILE_F32, 1, {kCount}, {1}}};
  dtile_arg args[2];
  args[0].tensor = &tensors[0];
  args[1].tensor = &tensors[1];
  const dtile_arg *lists[] = {args};
  double worst = 0;
  for (uint64_t bits = 0; bits < uint64_t(1) << 32;) {
    for (float &x : in) {
      x = std::bit_cast<float>(uint32_t(bits));
      bits += step;
    }
    EXPECT_EQ(dtile_launch_all(team, code->find("k"), lists, 2), DTILE_OK);
    for (int64_t i = 0; i < kCount; ++i) {
      const double wanted = exact(double(in[i]));
      const float nearest = float(wanted);
      if (std::isnan(nearest) || std::isinf(nearest)) {
        const bool same = std::isnan(nearest) ? std::isnan(out[i]) : out[i] == nearest;
        EXPECT_TRUE(same) << op << "(" << in[i] << ") is " << out[i] << ", not " << wanted;
        if (!same)
          return 1e9;
        continue;
      }
      const double unit = std::max(std::ldexp(1.0, std::ilogb(nearest) - 23), 0x1p-149);
      const double error =
          nearest == 0 ? std::fabs(out[i]) / 0x1p-149 : std::fabs(double(out[i]) - wanted) / unit;
      worst = std::max(worst, std::isnan(error) ? 1e9 : error);
    }
  }
  dtile_team_destroy(team);
  return worst;
}

TEST(HostMath, FunctionsStayWithinTheirBounds) {
  // Every 4093rd float; all of them take minutes and give the same to two digits.
  const uint32_t step = 4093;
  const std::tuple<const char *, double (*)(double), double> kBounds[] = {
      {"exp", std::exp, 1.1},   {"exp2", std::exp2, 1.1}, {"log", std::log, 1},
      {"log2", std::log2, 1.4}, {"tanh", std::tanh, 1.5}, {"erf", std::erf, 1.2},
      {"atan", std::atan, 2.8},
  };
  for (auto [name, exact, bound] : kBounds) {
    const double worst = worstError(name, exact, step);
    EXPECT_LE(worst, bound) << name;
    std::printf("%s: %.3f ulp\n", name, worst);
  }
}

} // namespace
} // namespace dtile::backend::host::testing
