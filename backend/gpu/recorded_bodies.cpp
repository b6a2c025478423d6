// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records what BodyTime says of a body, and runs it for bodies spread over the space.
#include "backend/gpu/recorded_bodies.h"

#include "backend/gpu/paired_bodies.h"
#include "frontend/base/check.h"
#include "ir/core/op_classes.h"
#include "ir/core/tile_order.h"
#include "ir/model/body_time.h"
#include "ir/model/launch_sizes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::backend::gpu {

namespace {

/// Bodies whose times stand for all of a space.
constexpr int64_t kSampledBodies = 5;

} // namespace

RecordedBodies::RecordedBodies(ir::Op &space, llvm::ArrayRef<ir::Value *> sizes,
                               const TargetFacts &machine, model::BodyFacts &facts) {
  model::Arithmetic &a = arithmetic_;
  for (ir::Value *size : sizes)
    sizes_.push_back(a.input(*size, model::kLaunchLevel));
  const int32_t positions = a.beginLevel(), load = a.beginLevel();
  DTILE_CHECK(positions == kPositionLevel && load == kLoadLevel, "levels are begun in order");
  for (unsigned d = 0; d < ir::spaceDims(space); ++d) {
    Dimension &made = dimensions_.emplace_back();
    made.first = a.number(*space.operand(3 * d));
    made.end = a.number(*space.operand(3 * d + 1));
    made.step = a.number(*space.operand(3 * d + 2));
    made.position = a.input(*space.body().argument(d), kPositionLevel);
  }
  together_ = a.input(kLoadLevel);
  running_ = a.input(kLoadLevel);
  model::TimeDomain domain(a);
  model::BodyTime<model::TimeDomain> time(domain, machine, together_, running_, &facts);
  time_ = time.bodyTime(space.body());
  latency_ = time.latency(space.body());
  shared_ = time.sharedTime(space.body());
  remoteBytes_ = time.remoteBytes(space.body());
  pairedTime_ = time_;
  if (mayPairBodies(space))
    pairedTime_ = model::BodyTime<model::TimeDomain>(domain, machine, together_, running_, &facts,
                                                     /*isPaired=*/true)
                      .bodyTime(space.body());
  unaligned_ = movesParts_ = a.real(0);
  ir::walk(space, [&](ir::Op &op) {
    const bool isByTma = ir::comesVia(op, ir::LoadPath::Tma);
    const bool isOfTile = (op.is(ir::OpKind::Load) && op.result()->type().isTile()) ||
                          (op.is(ir::OpKind::Store) && op.operand(0)->type().isTile());
    if (!isByTma && !isOfTile)
      return;
    model::Slot &any = isByTma ? unaligned_ : movesParts_;
    any = domain.larger(any, domain.byRowStart(op, {.anywhere = 1}));
  });
  words_ = a.initial();
}

void RecordedBodies::setLaunch(llvm::ArrayRef<int64_t> sizes, int64_t ranks, int64_t rank) {
  for (auto [slot, size] : llvm::zip_equal(sizes_, sizes))
    words_[size_t(slot)].integer = size;
  words_[size_t(arithmetic_.ranks())].integer = ranks;
  words_[size_t(arithmetic_.rank())].integer = rank;
  arithmetic_.run(model::kLaunchLevel, words_.data());
  arithmetic_.run(model::kRankLevel, words_.data());
}

std::optional<llvm::SmallVector<int64_t, 4>> RecordedBodies::counts() const {
  llvm::SmallVector<int64_t, 4> made;
  for (const Dimension &dimension : dimensions_) {
    if (!dimension.first || !dimension.end || !dimension.step)
      return std::nullopt;
    made.push_back(model::blockCount(integer(*dimension.first), integer(*dimension.end),
                                     integer(*dimension.step)));
  }
  return made;
}

bool RecordedBodies::isUnaligned() const { return real(unaligned_) != 0; }

bool RecordedBodies::movesParts() const { return real(movesParts_) != 0; }

BodyMeans RecordedBodies::means(llvm::ArrayRef<int64_t> counts, double together, double running,
                                bool isPaired) {
  int64_t bodies = 1;
  for (const int64_t count : counts)
    bodies *= count;
  const int64_t samples = std::min(bodies, kSampledBodies);
  if (samples == 0)
    return {};
  words_[size_t(together_)].real = together;
  words_[size_t(running_)].real = running;
  double weight = 0, latency = 0, shared = 0, remote = 0;
  for (int64_t i = 0; i < samples; ++i) {
    int64_t body = bodies / samples * i + (bodies / samples) / 2;
    for (size_t d = counts.size(); d-- > 0; body /= counts[d]) {
      const Dimension &dimension = dimensions_[d];
      words_[size_t(dimension.position)].integer =
          integer(*dimension.first) + body % counts[d] * integer(*dimension.step);
    }
    arithmetic_.run(kPositionLevel, words_.data());
    arithmetic_.run(kLoadLevel, words_.data());
    weight += real(isPaired ? pairedTime_ : time_);
    latency += real(latency_);
    shared += real(shared_);
    remote += real(remoteBytes_);
  }
  return {std::max<int64_t>(int64_t(weight / double(samples)), 1),
          int64_t(latency / double(samples)), int64_t(shared / double(samples)),
          remote / double(samples)};
}

} // namespace dtile::backend::gpu
