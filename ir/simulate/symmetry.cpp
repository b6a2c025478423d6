// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lists the ways in which ranks of a cluster may be alike: any of the mesh's axes, or hosts as
// wholes, or the ranks of one host as they are numbered.
#include "ir/simulate/symmetry.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::simulate {

namespace {

/// Bit i: the ranks along axis i are all on one host, or all on hosts of their own, so that from
/// each the others are as far away. An axis of 16 ranks over hosts of 8 is none: some have their
/// neighbour beside them, and some on another host.
unsigned evenAxes(llvm::ArrayRef<int64_t> sizes, const Cluster &cluster) {
  unsigned even = 0;
  int64_t apart = 1;
  for (size_t i = sizes.size(); i-- > 0; apart *= sizes[i])
    if (cluster.perHost % (apart * sizes[i]) == 0 || apart % cluster.perHost == 0)
      even |= 1u << i;
  return even;
}

} // namespace

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
  for (const auto &sizes : divisions) {
    const unsigned even = evenAxes(sizes, cluster);
    for (unsigned folded = 1; folded < 1u << sizes.size(); ++folded) {
      if ((byHosts && folded != 1) || (folded & ~even) != 0)
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
  }
  llvm::stable_sort(found,
                    [](const Symmetry &a, const Symmetry &b) { return a.count() < b.count(); });
  return found;
}

} // namespace dtile::simulate
