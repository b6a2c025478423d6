// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels written by hand against kernel_abi.h, as the host code generator would write them.
#pragma once

#include "backend/runtime/dtile.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dtile::test {

/// A team of threads that ends with the scope. Null when it could not be made.
struct TeamDeleter {
  void operator()(dtile_team *team) const { dtile_team_destroy(team); }
};
using Team = std::unique_ptr<dtile_team, TeamDeleter>;
Team makeTeam(int ranks, int workers = 2, uint64_t seed = 0, int64_t symmetricBytes = 16 << 20);

/// A row-major tensor over memory that outlives it.
template <typename T> dtile_dtype dtypeOf();
template <> inline dtile_dtype dtypeOf<int64_t>() { return DTILE_I64; }
template <> inline dtile_dtype dtypeOf<int32_t>() { return DTILE_I32; }
template <> inline dtile_dtype dtypeOf<float>() { return DTILE_F32; }
template <typename T> dtile_tensor tensor(T *data, std::vector<int64_t> size) {
  dtile_tensor t = {
      .data = data, .dtype = dtypeOf<T>(), .ndim = int32_t(size.size()), .size = {}, .stride = {}};
  int64_t stride = 1;
  for (size_t d = size.size(); d-- > 0;) {
    t.size[d] = size[d];
    t.stride[d] = stride;
    stride *= size[d];
  }
  return t;
}

/// A contiguous region.
dtile_region region(void *data, int32_t dtype, std::vector<int64_t> size, int32_t rank = -1);

/// Arguments for every rank: tensors kept alive beside the array of pointers that a launch wants.
class Arguments {
public:
  explicit Arguments(int ranks) : tensors_(size_t(ranks)), args_(size_t(ranks)) {}
  void add(int rank, const dtile_tensor &tensor);
  void addScalar(int rank, uint64_t bits);
  const dtile_arg *const *data();
  int32_t count() const { return int32_t(args_.empty() ? 0 : args_[0].size()); }

private:
  std::vector<std::vector<std::unique_ptr<dtile_tensor>>> tensors_;
  std::vector<std::vector<dtile_arg>> args_;
  std::vector<const dtile_arg *> pointers_;
};

/// y of every rank = x of the left neighbour, through scratch and one signal.
extern const dtile_kernel_desc kNeighbourPut;
/// y[W * N] of every rank = x[N] of all, by pushes; a role that sends and a role that waits. Safe
/// back to back.
extern const dtile_kernel_desc kAllGather;

/// What every frame of these kernels begins with.
struct FrameHead {
  int64_t rank = 0;
  int64_t ranks = 0;
  int64_t epoch = 0;
};
void fillHead(dtile_launch *launch, FrameHead &head);

} // namespace dtile::test
