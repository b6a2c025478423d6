// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Axes of a kernel's mesh, in its `ensures` and in tests that call it: coordinates, and which ranks
// are on an axis.
#include "backend/driver/testing/test_evaluator.h"

#include "frontend/ast/mesh.h"

namespace dtile::driver {

std::optional<std::vector<TestEvaluator::Axis>> TestEvaluator::evaluateAxes(SourceRange range) {
  const ast::MeshStmt *mesh = namedMesh();
  if (!mesh) {
    fail(range, "axes are those of a kernel's mesh, and known in its `ensures` and in tests that "
                "call it");
    return std::nullopt;
  }
  const llvm::ArrayRef<ast::MeshAxis> written = mesh->axes;
  // In a test, its ranks say the sizes.
  if (!clause_ && written.size() != mesh_.size()) {
    fail(range, "the mesh has " + llvm::Twine(written.size()) +
                    " axes: the ranks of the test say how many places each has, as in `ranks ((2, "
                    "4))`");
    return std::nullopt;
  }
  std::vector<Axis> axes(written.size());
  int64_t ranks = 1;
  for (size_t i = written.size(); i-- > 0;) {
    const auto places = clause_ ? evaluateUniformInt(*written[i].extent, "the size of an axis")
                                : std::optional(mesh_[i]);
    if (!places)
      return std::nullopt;
    axes[i] = {*places, ranks};
    if (*places < 1 || *places > ranks_ / ranks) {
      fail(range, "the axes of the mesh do not have as many places as there are ranks");
      return std::nullopt;
    }
    ranks *= *places;
  }
  if (ranks == ranks_)
    return axes;
  fail(range, "the axes of the mesh do not have as many places as there are ranks");
  return std::nullopt;
}

std::optional<size_t> TestEvaluator::axisNumber(llvm::StringRef name, SourceRange range) {
  if (const ast::MeshStmt *mesh = namedMesh())
    for (const auto [i, axis] : llvm::enumerate(mesh->axes))
      if (axis.name.name == name)
        return i;
  fail(range, "`" + name + "` is no axis of the mesh");
  return std::nullopt;
}

TestEvaluator::Result TestEvaluator::callOfAxis(const ast::CallExpr &e, const ast::NameExpr &axis) {
  const auto axes = evaluateAxes(e.range);
  const auto number = axes ? axisNumber(axis.name, axis.range) : std::nullopt;
  if (!number)
    return std::nullopt;
  const Axis &own = (*axes)[*number];
  const auto *callee = llvm::dyn_cast<ast::NameExpr>(e.callee);
  if (callee && callee->name == "num_ranks")
    return TestValue::number(ranks_, own.places);
  TestValue value = TestValue::number(ranks_, 0);
  for (int rank = 0; rank < ranks_; ++rank)
    value.arrays[rank] = share(Array::fromInts({}, {rank / own.stride % own.places}));
  return value;
}

TestEvaluator::Result TestEvaluator::rankAt(const ast::CallExpr &e) {
  const auto axes = evaluateAxes(e.range);
  if (!axes)
    return std::nullopt;
  std::vector<int64_t> ranks(ranks_);
  for (int rank = 0; rank < ranks_; ++rank)
    ranks[rank] = rank;
  for (const ast::Arg &arg : e.args) {
    const auto number = axisNumber(arg.label.name, arg.value->range);
    const auto places = number ? evaluateInts(*arg.value) : std::nullopt;
    if (!places)
      return std::nullopt;
    const Axis &axis = (*axes)[*number];
    for (int rank = 0; rank < ranks_; ++rank) {
      const int64_t place = (*places)[rank];
      if (place < 0 || place >= axis.places)
        return fail(arg.value->range, "`" + arg.label.name + "` has " + llvm::Twine(axis.places) +
                                          " places, and this is number " + llvm::Twine(place));
      ranks[rank] += (place - rank / axis.stride % axis.places) * axis.stride;
    }
  }
  TestValue value = TestValue::number(ranks_, 0);
  for (int rank = 0; rank < ranks_; ++rank)
    value.arrays[rank] = share(Array::fromInts({}, {ranks[rank]}));
  return value;
}

std::optional<std::vector<std::vector<int>>> TestEvaluator::groupsAlong(const ast::NameExpr *axis) {
  std::vector<std::vector<int>> groups;
  if (!axis) {
    std::vector<int> &all = groups.emplace_back();
    for (int rank = 0; rank < ranks_; ++rank)
      all.push_back(rank);
    return groups;
  }
  const auto axes = evaluateAxes(axis->range);
  const auto number = axes ? axisNumber(axis->name, axis->range) : std::nullopt;
  if (!number)
    return std::nullopt;
  const Axis &own = (*axes)[*number];
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank / own.stride % own.places != 0)
      continue;
    std::vector<int> &group = groups.emplace_back();
    for (int64_t place = 0; place < own.places; ++place)
      group.push_back(rank + int(place * own.stride));
  }
  return groups;
}

} // namespace dtile::driver
