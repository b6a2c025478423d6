// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a launch that cannot go on says: who waits where, for what, and how far it has come.
#include "backend/runtime/text/report.h"

#include "backend/runtime/host/team.h"
#include "backend/runtime/text/print_text.h"

#include <algorithm>
#include <tuple>
#include <vector>

using namespace dtile::runtime;

namespace dtile::runtime {

std::string bodyText(const dtile_task &task) {
  const SpaceRun &space = *task.space;
  const dtile_space_desc &desc = *space.desc;
  const dtile_launch &launch = *space.launch;
  BodyPlace place{launch.rank, launch.kernel->name, desc.name, {}, {}};
  int64_t position[DTILE_MAX_RANK] = {};
  if (desc.ndims > 0)
    desc.position(launch.frame, task.linear, position);
  place.vars.assign(desc.vars, desc.vars + desc.ndims);
  place.position.assign(position, position + desc.ndims);
  return place.text();
}

std::string siteText(const dtile_site &site) {
  return format("%s:%d:%d", site.file, site.line, site.column);
}

std::string fillHoles(const char *message, int32_t nargs, const int64_t *args) {
  std::string text;
  for (const char *at = message; *at; ++at) {
    bool hole = at[0] == '{' && at[1] >= '0' && at[1] <= '9' && at[2] == '}';
    if (!hole || at[1] - '0' >= nargs) {
      text += *at;
      continue;
    }
    text += std::to_string(args[at[1] - '0']);
    at += 2;
  }
  return text;
}

std::string cellText(const LaunchObject &use, const char *name, const void *cell) {
  int64_t number = (static_cast<const char *>(cell) - use.data) / 8;
  const ObjectKey &key = use.object->key;
  int64_t position[DTILE_MAX_RANK];
  for (int32_t d = key.ndim - 1; d >= 0; --d) {
    int64_t size = std::max<int64_t>(key.size[size_t(d)], 1);
    position[d] = number % size;
    number /= size;
  }
  return name + (key.ndim > 0 ? shapeText(key.ndim, position) : std::string());
}

namespace {

constexpr size_t kShownWaiters = 20;

/// One line of the report: bodies of one rank and space that wait at one place for one thing.
struct Waiter {
  const dtile_task *task;
  size_t bodies = 1;
};

auto orderOf(const dtile_task &task) {
  const SpaceRun &space = *task.space;
  return std::tuple(space.launch->rank, space.index, task.site->line, task.site->column,
                    task.outcome == Outcome::WaitsForCell ? reinterpret_cast<uintptr_t>(task.cell)
                                                          : uintptr_t(0));
}

std::string waiterText(HostTeam &team, const Waiter &waiter) {
  const dtile_task &task = *waiter.task;
  const dtile_launch &launch = *task.space->launch;
  std::string text = siteText(*task.site) + ": " + bodyText(task);
  if (waiter.bodies > 1)
    text += format(" and %zu more bodies", waiter.bodies - 1);
  text += waiter.bodies > 1 ? " wait" : " waits";
  if (task.outcome == Outcome::WaitsAtBarrier)
    return text + " at the barrier for " + team.missingAt(*task.barrier, task.generation);
  const LaunchObject *use = launch.signalAt(task.cell);
  uint64_t seen = team.readCell(task.cell);
  uint64_t base = 0;
  std::string cell = task.site->what;
  if (use) {
    auto number = size_t((reinterpret_cast<const char *>(task.cell) - use->data) / 8);
    base = use->object->counts[size_t(launch.local)].base[number];
    cell = cellText(*use, launch.kernel->desc->params[use->object->key.param].name, task.cell);
  }
  return text + format(" for `%s`: wants %llu, has seen %llu", cell.c_str(),
                       static_cast<unsigned long long>(task.wanted - base),
                       static_cast<unsigned long long>(seen - base));
}

} // namespace

} // namespace dtile::runtime

std::string HostTeam::deadlockReport() {
  std::vector<const dtile_task *> blocked;
  for (const dtile_task &task : scheduler_->tasks())
    if (task.state == TaskState::Blocked)
      blocked.push_back(&task);
  std::sort(blocked.begin(), blocked.end(), [](const dtile_task *a, const dtile_task *b) {
    return std::pair(orderOf(*a), a->linear) < std::pair(orderOf(*b), b->linear);
  });
  std::vector<Waiter> waiters;
  for (const dtile_task *task : blocked) {
    if (!waiters.empty() && orderOf(*waiters.back().task) == orderOf(*task))
      ++waiters.back().bodies;
    else
      waiters.push_back({task});
  }
  std::string text =
      distributed() ? format("timeout: rank %d could not go on for %d ms; %zu of its bodies wait",
                             firstLocal(), timeoutMs_, blocked.size())
                    : format("deadlock: %s left, and %s",
                             blocked.size() == 1 ? "one body is"
                                                 : format("%zu bodies are", blocked.size()).c_str(),
                             blocked.size() == 1 ? "it waits" : "all of them wait");
  for (size_t i = 0; i < waiters.size() && i < kShownWaiters; ++i)
    text += "\n  " + waiterText(*this, waiters[i]);
  if (waiters.size() > kShownWaiters)
    text += format("\n  and %zu more places", waiters.size() - kShownWaiters);
  for (const dtile_launch &launch : launches_)
    for (int32_t i = 0; launch.spacesLeft > 0 && i < launch.kernel->desc->nspaces; ++i)
      if (!launch.spaces[i].begun)
        text += format("\n  rank %d, kernel `%s`, role `%s` has not begun: it comes after all of "
                       "`%s`",
                       launch.rank, launch.kernel->name.c_str(), launch.spaces[i].desc->name,
                       launch.kernel->desc->spaces[launch.spaces[i].desc->after_all].name);
  return text;
}
