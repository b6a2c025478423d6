// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// AllGather-GEMM from C++: each rank has some rows of A and all of B, and gets A · Bᵀ whole. The
// kernel is compiled ahead of time from ag_gemm.dtile; ag_gemm.h is what dtilec generated. Started
// alone, this process drives all ranks (consumer [RANKS]); started by oshrun, it is one of them.
#include "ag_gemm.h"

#include <dtile/dtile.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

// Nothing needs to divide anything.
constexpr int64_t kRowsPerRank = 77;
constexpr int64_t kN = 130;
constexpr int64_t kK = 50;

void check(dtile_status status, const char *what) {
  if (status == DTILE_OK)
    return;
  std::fprintf(stderr, "%s: %s\n", what, dtile_last_error());
  std::exit(1);
}

/// The kernel's element type, by default: the upper half of an f32, to nearest even.
using Bf16 = uint16_t;

Bf16 toBf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  return Bf16((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

float fromBf16(Bf16 value) { return std::bit_cast<float>(uint32_t(value) << 16); }

/// Row-major.
dtile_tensor matrix(std::vector<Bf16> &data, int64_t rows, int64_t columns) {
  dtile_tensor tensor = {};
  tensor.data = data.data();
  tensor.dtype = DTILE_BF16;
  tensor.ndim = 2;
  tensor.size[0] = rows;
  tensor.size[1] = columns;
  tensor.stride[0] = columns;
  tensor.stride[1] = 1;
  return tensor;
}

// Inputs that any rank can compute, so that each can check all of the result.
Bf16 valueOfA(int64_t row, int64_t k) { return toBf16(float((row * 7 + k * 3) % 11) / 11 - 0.4f); }
Bf16 valueOfB(int64_t n, int64_t k) { return toBf16(float((n * 5 + k * 2) % 13) / 13 - 0.6f); }

/// What one rank passes to the kernel and gets from it.
struct Rank {
  std::vector<Bf16> shard, b, c;
  dtile_tensor tensors[3];
  dtile_arg args[ag_gemm_num_args];

  Rank(int64_t rank, int64_t ranks)
      : shard(kRowsPerRank * kK), b(kN * kK), c(size_t(ranks) * kRowsPerRank * kN) {
    for (int64_t i = 0; i < kRowsPerRank * kK; ++i)
      shard[size_t(i)] = valueOfA(rank * kRowsPerRank + i / kK, i % kK);
    for (int64_t i = 0; i < kN * kK; ++i)
      b[size_t(i)] = valueOfB(i / kK, i % kK);
    tensors[0] = matrix(shard, kRowsPerRank, kK);
    tensors[1] = matrix(b, kN, kK);
    tensors[2] = matrix(c, ranks * kRowsPerRank, kN);
    args[ag_gemm_arg_shard].tensor = &tensors[0];
    args[ag_gemm_arg_b].tensor = &tensors[1];
    args[ag_gemm_arg_c].tensor = &tensors[2];
  }

  /// The largest difference to a plain loop in double, as a part of the largest value.
  double error() const {
    double worst = 0, largest = 0;
    for (size_t i = 0; i < c.size(); ++i) {
      double sum = 0;
      for (int64_t k = 0; k < kK; ++k)
        sum += double(fromBf16(valueOfA(int64_t(i) / kN, k))) *
               double(fromBf16(valueOfB(int64_t(i) % kN, k)));
      worst = std::fmax(worst, std::fabs(sum - double(fromBf16(c[i]))));
      largest = std::fmax(largest, std::fabs(sum));
    }
    return worst / largest;
  }
};

// Half of the last of bf16's eight bits, and a little for sums in f32.
constexpr double kTolerance = 1.0 / 256 * 1.01;

} // namespace

int main(int argc, char **argv) {
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  options.ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  dtile_team *team = nullptr;
  // UNAVAILABLE: this process belongs to no job, so its threads are the ranks.
  dtile_status status = dtile_team_create_env(&options, &team);
  if (status == DTILE_UNAVAILABLE)
    status = dtile_team_create_threads(&options, &team);
  check(status, "creating the team");

  int32_t ranks = dtile_team_size(team);
  int32_t first = dtile_team_first_local(team);
  std::vector<Rank> local;
  std::vector<const dtile_arg *> args;
  local.reserve(size_t(dtile_team_local_count(team)));
  for (int32_t i = 0; i < dtile_team_local_count(team); ++i)
    args.push_back(local.emplace_back(first + i, ranks).args);

  // Again and again: signals need no reset.
  for (int launch = 0; launch < 3; ++launch)
    check(dtile_launch_all(team, &dtile_kernel_ag_gemm, args.data(), ag_gemm_num_args), "ag_gemm");

  bool right = true;
  for (size_t i = 0; i < local.size(); ++i) {
    double error = local[i].error();
    right &= error < kTolerance;
    std::printf("rank %d of %d: %s, largest error %.1e\n", first + int32_t(i), ranks,
                error < kTolerance ? "right" : "WRONG", error);
  }
  std::fflush(stdout);
  dtile_team_destroy(team);
  return right ? 0 : 1;
}
