// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the measured choice of a kernel for a launch.
#include "backend/runtime/tuned_rows.h"

#include <cstring>

namespace dtile::runtime {

bool communicates(const dtile_kernel_desc &desc) {
  return std::any_of(desc.params, desc.params + desc.nparams, [](const dtile_param_desc &param) {
    return param.kind == DTILE_PARAM_SIGNAL || param.mode == DTILE_MODE_SYMM ||
           param.mode == DTILE_MODE_SCRATCH;
  });
}

int32_t chooseTuned(const std::vector<TunedPoint> &rows, const std::vector<int64_t> &sizes,
                    const std::vector<bool> &counts) {
  const auto counted = [&](const std::vector<int64_t> &all) {
    std::vector<int64_t> left;
    for (size_t s = 0; s < all.size(); ++s)
      if (counts[s])
        left.push_back(all[s]);
    return left;
  };
  const auto others = [&](const TunedPoint &row) {
    double product = 1;
    for (size_t s = 0; s < row.sizes.size(); ++s)
      if (!counts[s])
        product *= double(row.sizes[s]);
    return product;
  };
  std::vector<TunedPoint> points;
  std::vector<size_t> origins;
  for (size_t i = 0; i < rows.size(); ++i) {
    TunedPoint point{rows[i].variant, counted(rows[i].sizes)};
    size_t at = 0;
    while (at < points.size() && points[at].sizes != point.sizes)
      ++at;
    if (at == points.size()) {
      points.push_back(std::move(point));
      origins.push_back(i);
    } else if (others(rows[i]) > others(rows[origins[at]])) {
      points[at] = std::move(point);
      origins[at] = i;
    }
  }
  const int32_t found = chooseTuned(points, counted(sizes));
  return found < 0 ? -1 : int32_t(origins[size_t(found)]);
}

const dtile_tuned_row *findTuned(const TunedLaunch &launch, bool agreedOnly) {
  const dtile_kernel_desc &desc = launch.desc;
  std::vector<const dtile_tuned_row *> rows;
  std::vector<TunedPoint> points;
  for (int32_t i = 0; i < desc.ntuned; ++i) {
    const dtile_tuned_row &row = desc.tuned[i];
    if (row.ranks != launch.ranks || std::strcmp(row.arch, launch.arch) != 0 ||
        std::strcmp(row.machine, launch.machine) != 0)
      continue;
    rows.push_back(&row);
    points.push_back({row.variant, {row.sizes, row.sizes + desc.ntuned_sizes}});
  }
  if (rows.empty())
    return nullptr;
  std::vector<int64_t> sizes;
  std::vector<bool> counts;
  for (int32_t s = 0; s < desc.ntuned_sizes; ++s) {
    const dtile_tuned_size &size = desc.tuned_sizes[s];
    sizes.push_back(launch.size(launch.arguments, size.param, size.dim));
    counts.push_back(!agreedOnly || (desc.params[size.param].agreed >> size.dim & 1) != 0);
  }
  const int32_t found = chooseTuned(points, sizes, counts);
  return found < 0 ? nullptr : rows[size_t(found)];
}

} // namespace dtile::runtime
