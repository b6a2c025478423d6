// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lists the ways in which ranks of a cluster may be alike: any of the mesh's axes, or hosts as
// wholes, or the ranks of one host as they are numbered.
#include "ir/simulate/symmetry.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::simulate {

std::vector<Symmetry> Symmetry::candidates(const Cluster &cluster, bool byHosts) {
  const int64_t hosts = cluster.ranks / cluster.perHost;
  std::vector<llvm::SmallVector<int64_t, 4>> divisions;
  if (hosts == 1)
    divisions.push_back({cluster.ranks});
  else
    divisions.push_back({hosts, cluster.perHost});
  if (!byHosts && !llvm::is_contained(divisions, cluster.axes))
    divisions.push_back(cluster.axes);
  std::vector<Symmetry> found;
  for (const auto &sizes : divisions)
    for (unsigned folded = 1; folded < 1u << sizes.size(); ++folded) {
      if (byHosts && folded != 1)
        continue;
      llvm::SmallVector<Axis, 4> axes;
      bool isUseful = true;
      for (const auto [i, size] : llvm::enumerate(sizes)) {
        axes.push_back({.size = size, .isFolded = (folded >> i & 1) != 0});
        isUseful &= !axes.back().isFolded || size > 1;
      }
      if (isUseful)
        found.emplace_back(std::move(axes));
    }
  llvm::stable_sort(found,
                    [](const Symmetry &a, const Symmetry &b) { return a.count() < b.count(); });
  return found;
}

} // namespace dtile::simulate
