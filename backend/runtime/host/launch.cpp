// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call to launch, from the check of its arguments to its end on every local rank.
//
// Scratch that is zeroed at each launch: a rank zeroes its own copy before it arrives at the
// meeting of all ranks which such kernels have before their bodies, so no peer of this launch
// writes earlier. And nobody of an earlier launch writes later: there are at least two copies, so
// the copy was last used two launches ago, and each peer has ended that launch before it came to
// the previous launch's meeting, which this rank has passed.
#include "backend/runtime/host/launch.h"

#include "backend/runtime/arguments/launch_query.h"
#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/host/team.h"
#include "backend/runtime/launch_frame.h"
#include "backend/runtime/processor.h"
#include "backend/runtime/tuned_rows.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <tuple>

using namespace dtile::runtime;

namespace dtile::runtime {

void BodyOrder::set(int64_t count, uint64_t seed) {
  count_ = count;
  seed_ = seed;
  int bits = std::bit_width(uint64_t(std::max<int64_t>(count - 1, 1)));
  halfBits_ = (bits + 1) / 2;
}

int64_t BodyOrder::at(int64_t position) const {
  if (seed_ == 0)
    return position;
  // A Feistel network permutes [0, 4^halfBits); walking along its cycles stays a bijection of [0,
  // count).
  uint64_t mask = (uint64_t(1) << halfBits_) - 1;
  uint64_t value = uint64_t(position);
  do {
    uint64_t left = value >> halfBits_;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t mixed = (right + round * 0x9e3779b97f4a7c15u + seed_) * 0xbf58476d1ce4e5b9u;
      mixed ^= mixed >> 29;
      uint64_t next = left ^ (mixed * 0x94d049bb133111ebu >> 32 & mask);
      left = right;
      right = next;
    }
    value = left << halfBits_ | right;
  } while (value >= uint64_t(count_));
  return int64_t(value);
}

int64_t SpaceRun::take() {
  if (!hasMore())
    return -1;
  int64_t position = next.fetch_add(1, std::memory_order_relaxed);
  return position < count ? order.at(position) : -1;
}

namespace {

/// Records the first error of a prologue.
void refuse(dtile_launch &launch, dtile_status code, std::string message) {
  if (launch.error.ok())
    launch.error = {code, std::move(message)};
}

const dtile_param_desc &paramOf(const dtile_launch &launch, int32_t param) {
  return launch.kernel->desc->params[param];
}

const dtile_tensor *tensorOf(const dtile_launch &launch, int32_t param) {
  return launch.arguments[launch.kernel->argumentOf[size_t(param)]].tensor;
}

/// Whether the kernel is the one that `state` was made for, as far as its objects are concerned.
bool describes(const KernelState &state, const dtile_kernel_desc &desc) {
  auto same = [](const dtile_param_desc &a, const dtile_param_desc &b) {
    return std::tie(a.kind, a.mode, a.dtype, a.rank, a.flags, a.copies) ==
           std::tie(b.kind, b.mode, b.dtype, b.rank, b.flags, b.copies);
  };
  return std::equal(state.params.begin(), state.params.end(), desc.params,
                    desc.params + desc.nparams, same);
}

/// Room for the launch's frame and spaces; the memory is kept from launch to launch.
bool makeRoom(dtile_launch &launch) {
  const dtile_kernel_desc &desc = *launch.code;
  const int64_t frameBytes = roomOfFrame(desc.frame_bytes);
  if (launch.frameCapacity < frameBytes) {
    std::free(launch.frame);
    launch.frame = std::aligned_alloc(kFrameAlignment, size_t(frameBytes));
    launch.frameCapacity = launch.frame ? frameBytes : 0;
  }
  if (!launch.frame) {
    refuse(launch, DTILE_OUT_OF_MEMORY, "no memory for a launch's frame");
    return false;
  }
  std::memset(launch.frame, 0, size_t(frameBytes));
  if (launch.spaceCapacity < desc.nspaces) {
    launch.spaces = std::make_unique<SpaceRun[]>(size_t(desc.nspaces));
    launch.spaceCapacity = desc.nspaces;
  }
  return true;
}

void setUpSpaces(dtile_launch &launch, uint64_t seed) {
  const dtile_kernel_desc &desc = *launch.code;
  for (int32_t i = 0; i < desc.nspaces; ++i) {
    SpaceRun &space = launch.spaces[i];
    const dtile_space_desc &declared = desc.spaces[i];
    space.launch = &launch;
    space.desc = &declared;
    space.index = i;
    space.count = std::max<int64_t>(declared.count(launch.frame), 0);
    uint64_t bodySeed =
        seed == 0 || declared.ordered
            ? 0
            : seed + uint64_t(launch.rank * 131 + i) * 0x9e3779b97f4a7c15u + uint64_t(launch.epoch);
    space.order.set(space.count, bodySeed);
    space.next.store(0, std::memory_order_relaxed);
    space.left.store(space.count, std::memory_order_relaxed);
    space.limit = declared.ordered ? std::max(declared.programs, 1) : declared.programs;
    space.active = 0;
    space.queued = space.begun = space.ended = false;
  }
}

} // namespace

} // namespace dtile::runtime

const LaunchObject *dtile_launch::signalAt(const void *address) const {
  auto *cell = static_cast<const char *>(address);
  for (const LaunchObject &use : objects)
    if (use.object->signal && cell >= use.data && cell < use.data + use.object->cells * 8)
      return &use;
  return nullptr;
}

KernelState &HostTeam::kernelState(const dtile_kernel_desc &desc) {
  std::unique_ptr<KernelState> &state = kernels_[{&desc, desc.name}];
  if (state && describes(*state, desc))
    return *state;
  if (state)
    forget(*state);
  state = std::make_unique<KernelState>(desc);
  state->meetsAtEntry = (desc.flags & DTILE_KERNEL_ENTRY_BARRIER) != 0;
  for (const dtile_param_desc &param : state->params)
    state->meetsAtEntry |= isScratch(param) && (param.flags & DTILE_PARAM_ZERO) != 0;
  state->epoch.assign(size_t(localCount()), 0);
  return *state;
}

Status HostTeam::checkDescriptor(const dtile_kernel_desc *desc) const {
  if (!desc)
    return {DTILE_INVALID, "the kernel is null"};
  if (desc->abi_version != DTILE_ABI_VERSION)
    return {DTILE_INVALID, format("the kernel was compiled for version %u of the runtime's ABI, "
                                  "but this library has version %d: compile it again",
                                  desc->abi_version, DTILE_ABI_VERSION)};
  if (!desc->prologue)
    return {DTILE_INVALID, format("kernel `%s` has no code for processors: compile it with "
                                  "--target host, too, or make a team of GPUs",
                                  desc->name)};
  return checkProcessor(*desc, processorFeatures());
}

Status HostTeam::checkTensor(const KernelState &kernel, int32_t param, int32_t local,
                             const dtile_tensor *tensor, const dtile_tensor *first,
                             TensorSpan *span) const {
  const dtile_param_desc &declared = kernel.desc->params[param];
  auto invalid = [&](const std::string &text) {
    return Status{DTILE_INVALID, format("kernel `%s`, argument `%s`, rank %d: ",
                                        kernel.name.c_str(), declared.name, firstLocal() + local) +
                                     text};
  };
  if (Status status = measureTensor(declared, tensor, span); !status.ok())
    return invalid(status.message);
  if (span->elements == 0)
    return {};
  const bool isSymmetric = declared.mode == DTILE_MODE_SYMM;
  if (isSymmetric && !span->isContiguous)
    return invalid("a symmetric object must be row-major and contiguous, but has strides " +
                   shapeText(tensor->ndim, tensor->stride));
  const auto heap = reinterpret_cast<uint64_t>(heapOf(firstLocal() + local));
  if (span->begin < heap || span->begin >= heap + uint64_t(heapBytes())) {
    const std::string wrong =
        isSymmetric ? checkRegistered(firstLocal() + local, *span, first) : std::string();
    return wrong.empty() ? Status() : invalid(wrong);
  }
  const auto offset = int64_t(span->begin - heap);
  if (std::string wrong = callers_.check(offset, int64_t(span->end - span->begin)); !wrong.empty())
    return invalid(wrong);
  if (isSymmetric && first && first->data &&
      offset != static_cast<char *>(first->data) - heapOf(firstLocal()))
    return invalid("the object is at another offset of the symmetric heap than on the first rank");
  return {};
}

/// Kernels take different parameters to be different memory, unless both are only read.
Status HostTeam::checkOverlap(const KernelState &kernel, const std::vector<TensorSpan> &spans,
                              int32_t local) const {
  for (size_t i = 0; i < spans.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const dtile_param_desc &a = kernel.desc->params[i];
      const dtile_param_desc &b = kernel.desc->params[j];
      // What is no tensor argument, or is empty, has no memory.
      if ((a.mode == DTILE_MODE_IN && b.mode == DTILE_MODE_IN) || spans[i].begin >= spans[j].end ||
          spans[j].begin >= spans[i].end)
        continue;
      return {DTILE_INVALID,
              format("kernel `%s`, argument `%s`, rank %d: it overlaps `%s`; different parameters "
                     "are different memory unless both are `in`",
                     kernel.name.c_str(), a.name, firstLocal() + local, b.name)};
    }
  return {};
}

Status HostTeam::checkArguments(const KernelState &kernel, const dtile_arg *const *arguments,
                                int32_t nargs) const {
  if (Status status = checkCount(kernel, static_cast<const void *>(arguments), nargs); !status.ok())
    return status;
  for (int32_t local = 0; nargs > 0 && local < localCount(); ++local) {
    if (!arguments[local])
      return {DTILE_INVALID, format("the arguments of rank %d are null", firstLocal() + local)};
    std::vector<TensorSpan> spans(size_t(kernel.desc->nparams));
    for (int32_t i = 0; i < kernel.desc->nparams; ++i) {
      int32_t position = kernel.argumentOf[size_t(i)];
      if (position < 0 || kernel.desc->params[i].kind != DTILE_PARAM_TENSOR)
        continue;
      Status status = checkTensor(kernel, i, local, arguments[local][position].tensor,
                                  arguments[0][position].tensor, &spans[size_t(i)]);
      if (!status.ok())
        return status;
    }
    if (Status status = checkOverlap(kernel, spans, local); !status.ok())
      return status;
  }
  return {};
}

Status HostTeam::launch(const dtile_kernel_desc *desc, const dtile_arg *const *arguments,
                        int32_t nargs, int32_t count) {
  if (!broken_.ok())
    return brokenStatus();
  if (desc && desc->abi_version == DTILE_ABI_VERSION && desc->nalternatives > 0)
    desc = &alternativeOf(*desc, nargs > 0 && arguments ? arguments[0] : nullptr, nargs);
  Status status = checkDescriptor(desc);
  if (!status.ok())
    return status;
  if (count < 0)
    return {DTILE_INVALID, format("%d launches", count)};
  KernelState &kernel = kernelState(*desc);
  status = checkArguments(kernel, arguments, nargs);
  if (!status.ok() || count == 0)
    return status;

  ++callNumber_;
  isGraphKept_ = false;
  firstLaunches_ = true;
  for (dtile_launch &launch : launches_) {
    launch.kernel = &kernel;
    launch.arguments = nargs > 0 ? arguments[launch.local] : nullptr;
    launch.remaining = count - 1;
    takeCode(launch);
    // Nothing has begun: refusing leaves no trace.
    if (!prepare(launch)) {
      status = std::move(launch.error);
      // Other processes may have begun.
      return distributed() ? afterFailure(kernel, std::move(status)) : status;
    }
  }
  firstLaunches_ = false;
  bool meets = false;
  if (status = enterTurns(kernel, arguments, nargs, &meets); !status.ok())
    return distributed() ? afterFailure(kernel, std::move(status)) : status;
  for (dtile_launch &launch : launches_) {
    launch.meets = meets;
    enter(launch);
  }
  status = scheduler_->run(localCount());
  telemetry_->rest(!status.ok());
  return status.ok() ? status : afterFailure(kernel, std::move(status));
}

const dtile_kernel_desc &HostTeam::alternativeOf(const dtile_kernel_desc &family,
                                                 const dtile_arg *arguments, int32_t nargs) const {
  const dtile_kernel_desc &first = *family.alternatives[0];
  if (family.ntuned == 0 || !arguments || nargs != family.nparams)
    return first;
  // Arguments that do not fit are refused as any kernel's.
  for (int32_t i = 0; i < nargs; ++i)
    if (const dtile_param_desc &param = family.params[i];
        param.kind == DTILE_PARAM_TENSOR &&
        (!arguments[i].tensor || arguments[i].tensor->ndim != param.rank))
      return first;
  const auto size = [](const void *of, int32_t param, int32_t dim) {
    return static_cast<const dtile_arg *>(of)[param].tensor->size[dim];
  };
  const dtile_tuned_row *row =
      findTuned({family, processorName().c_str(), "", ranks(), size, arguments},
                /*agreedOnly=*/ranks() > 1);
  return row && row->variant < family.nalternatives ? *family.alternatives[row->variant] : first;
}

void HostTeam::takeCode(dtile_launch &launch) {
  const dtile_kernel_desc &desc = *launch.kernel->desc;
  launch.code = &desc;
  launch.protocol = 0;
  if (desc.ntuned == 0)
    return;
  // All ranks run the same code where they see each other.
  const bool isShared = launch.ranks > 1 && communicates(desc);
  const auto size = [](const void *of, int32_t param, int32_t dim) {
    return tensorOf(*static_cast<const dtile_launch *>(of), param)->size[dim];
  };
  const dtile_tuned_row *row =
      findTuned({desc, processorName().c_str(), "", launch.ranks, size, &launch}, isShared);
  if (!row)
    return;
  launch.code = row->code ? row->code : &desc;
  launch.protocol = row->protocol;
}

Status HostTeam::enterTurns(const KernelState &kernel, const dtile_arg *const *arguments,
                            int32_t nargs, bool *meets) {
  for (int32_t local = 0; nargs > 0 && local < localCount(); ++local) {
    TurnedMemory::Entry entry;
    if (Status status = turned_[size_t(local)].enter(
            kernel, arguments[local], heapOf(firstLocal() + local), firstLocal() + local,
            /*isCaptured=*/false, &entry);
        !status.ok())
      return status;
    *meets |= entry.meets;
  }
  return {};
}

bool HostTeam::prepare(dtile_launch &launch) {
  const dtile_kernel_desc &desc = *launch.code;
  launch.epoch = launch.kernel->epoch[size_t(launch.local)];
  launch.objects.clear();
  launch.error = {};
  if (trace_)
    trace_->launchBegins(launch);
  if (!makeRoom(launch))
    return false;
  if (desc.prologue(&launch, launch.frame) != 0)
    refuse(launch, DTILE_INVALID,
           format("kernel `%s` refused its arguments on rank %d", desc.name, launch.rank));
  if (!launch.error.ok() || !countExpected(launch))
    return false;
  for (const LaunchObject &use : launch.objects)
    if (use.object->zero)
      std::memset(use.data, 0, size_t(use.object->copyBytes));
  setUpSpaces(launch, scheduler_->seed());
  if (trace_)
    trace_->launchPrepared(launch);
  return true;
}

bool HostTeam::countExpected(dtile_launch &launch) {
  for (const LaunchObject &use : launch.objects) {
    const KernelObject &object = *use.object;
    if (!object.signal || !object.signal->expected)
      continue;
    CellCounts &counts = use.object->counts[size_t(launch.local)];
    for (int64_t cell = 0; cell < object.cells; ++cell) {
      int64_t expected = object.signal->expected(launch.frame, cell);
      if (expected < 0) {
        refuse(launch, DTILE_INVALID,
               format("kernel `%s`: cell %lld of signal `%s` expects %lld notifies",
                      launch.kernel->desc->name, static_cast<long long>(cell),
                      paramOf(launch, object.key.param).name, static_cast<long long>(expected)));
        return false;
      }
      counts.want[size_t(cell)] = counts.base[size_t(cell)] + uint64_t(expected);
    }
  }
  return true;
}

void HostTeam::enter(dtile_launch &launch) {
  telemetry_->launchBegins(launch.local, launch.kernel->name);
  KernelState &kernel = *launch.kernel;
  const bool meets = kernel.meetsAtEntry || launch.meets;
  // Later ones of the call are of the same objects.
  launch.meets = false;
  if (!meets)
    return scheduler_->begin(launch);
  if (distributed()) {
    Status status = meet("the start of a launch");
    if (!status.ok())
      return scheduler_->fail(std::move(status));
    return scheduler_->begin(launch);
  }
  {
    // No rank comes to the next launch's meeting before it has passed this one: a count is enough.
    std::lock_guard lock(kernel.barrierMutex);
    if (++kernel.entered < ranks())
      return;
    kernel.entered = 0;
  }
  for (dtile_launch &other : launches_)
    scheduler_->begin(other);
}

void HostTeam::settle(dtile_launch &launch) {
  quiet();
  for (const LaunchObject &use : launch.objects) {
    KernelObject &object = *use.object;
    ++object.turn[size_t(launch.local)];
    if (!object.signal)
      continue;
    CellCounts &counts = object.counts[size_t(launch.local)];
    if (object.signal->expected) {
      counts.base = counts.want;
      continue;
    }
    for (int64_t cell = 0; cell < object.cells; ++cell)
      counts.base[size_t(cell)] += counts.asked[size_t(cell)].exchange(0);
  }
  ++launch.kernel->epoch[size_t(launch.local)];
  telemetry_->launchEnds(launch.local);
  if (trace_)
    trace_->launchEnds(launch);
}

Status HostTeam::afterFailure(KernelState &kernel, Status failure) {
  if (trace_)
    trace_->closeOpen();
  telemetry_->fail(failure.code, failure.message);
  kernel.entered = 0;
  if (distributed()) {
    // Other processes are somewhere in the middle: this job cannot go on.
    return giveUp(std::move(failure));
  }
  for (TurnedMemory &turned : turned_)
    turned.restart();
  telemetry_->restart(0);
  // All ranks are here and none runs: begin again with signals at zero and ranks side by side.
  int64_t epoch = *std::max_element(kernel.epoch.begin(), kernel.epoch.end()) + 1;
  std::fill(kernel.epoch.begin(), kernel.epoch.end(), epoch);
  kernel.barriers.clear();
  for (auto &[key, object] : kernel.objects) {
    std::fill(object->turn.begin(), object->turn.end(), epoch);
    if (!object->signal)
      continue;
    for (int32_t local = 0; local < localCount(); ++local) {
      std::memset(heapOf(firstLocal() + local) + object->offset, 0, size_t(object->cells) * 8);
      CellCounts &counts = object->counts[size_t(local)];
      std::fill(counts.base.begin(), counts.base.end(), 0);
      std::fill(counts.want.begin(), counts.want.end(), 0);
      for (int64_t cell = 0; counts.asked && cell < object->cells; ++cell)
        counts.asked[size_t(cell)].store(0);
    }
  }
  return failure;
}

// ---- Called by prologues ----

int32_t dtile_rt_rank(dtile_launch *launch) { return launch->rank; }

int32_t dtile_rt_num_ranks(dtile_launch *launch) { return launch->ranks; }

int64_t dtile_rt_epoch(dtile_launch *launch) { return launch->epoch; }

int64_t dtile_rt_arg_dim(dtile_launch *launch, int32_t param, int32_t dim) {
  if (launch->unknownSize >= 0) {
    const uint32_t agreed =
        launch->family ? launch->family->params[launch->kernel->argumentOf[size_t(param)]].agreed
                       : paramOf(*launch, param).agreed;
    if ((agreed >> dim & 1) == 0)
      return launch->unknownSize;
  }
  return tensorOf(*launch, param)->size[dim];
}

int64_t dtile_rt_arg_stride(dtile_launch *launch, int32_t param, int32_t dim) {
  const dtile_tensor *tensor = tensorOf(*launch, param);
  if (launch->unknownSize < 0)
    return tensor->stride[dim];
  // Rows may lie otherwise on each rank, so they are taken as following each other.
  int64_t stride = 1;
  for (int32_t d = tensor->ndim - 1; d > dim; --d)
    if (__builtin_mul_overflow(stride, dtile_rt_arg_dim(launch, param, d), &stride))
      return INT64_MAX;
  return stride;
}

void *dtile_rt_arg_data(dtile_launch *launch, int32_t param) {
  const auto data = reinterpret_cast<uintptr_t>(tensorOf(*launch, param)->data);
  if (launch->unknownSize < 0)
    return reinterpret_cast<void *>(data);
  // Nothing is read there. A rank's tensor may begin anywhere, or be empty.
  constexpr uintptr_t kAligned = 4096;
  return reinterpret_cast<void *>(std::max(data / kAligned * kAligned, kAligned));
}

void dtile_rt_arg_scalar(dtile_launch *launch, int32_t param, void *out) {
  // Low bytes first, whatever the machine's order.
  uint64_t bits = launch->arguments[launch->kernel->argumentOf[size_t(param)]].scalar_bits;
  if (launch->unknownSize >= 0)
    bits = 1;
  switch (elementBytes(paramOf(*launch, param).dtype)) {
  case 1:
    *static_cast<uint8_t *>(out) = uint8_t(bits);
    return;
  case 2:
    *static_cast<uint16_t *>(out) = uint16_t(bits);
    return;
  case 4:
    *static_cast<uint32_t *>(out) = uint32_t(bits);
    return;
  default:
    *static_cast<uint64_t *>(out) = bits;
  }
}

int32_t dtile_rt_check_dim(dtile_launch *launch, int32_t param, int32_t dim, int64_t declared,
                           int64_t passed) {
  if (launch->query && launch->query->isOpen()) {
    launch->query->compare(param, dim, declared, passed);
    return 0;
  }
  if (declared == passed || launch->unknownSize >= 0)
    return 0;
  refuse(*launch, DTILE_INVALID,
         format("kernel `%s`, argument `%s`, rank %d: dimension %d has the size %lld, but the "
                "kernel wants %lld",
                launch->kernel->desc->name, paramOf(*launch, param).name, launch->rank, dim,
                static_cast<long long>(passed), static_cast<long long>(declared)));
  return 1;
}

void *dtile_rt_scratch(dtile_launch *launch, int32_t param, int32_t ndim, const int64_t *size) {
  if (launch->query) {
    if (Status status = launch->query->addObject(launch->rank, param, ndim, size); !status.ok()) {
      refuse(*launch, status.code, std::move(status.message));
      return nullptr;
    }
    return launch->query->anywhere();
  }
  if (launch->team)
    return launch->team->object(*launch, param, ndim, size);
  refuse(*launch, DTILE_INVALID, "this prologue is for processors, and the launch is on a device");
  return nullptr;
}

void *dtile_rt_signal(dtile_launch *launch, int32_t param, int32_t ndim, const int64_t *size) {
  return dtile_rt_scratch(launch, param, ndim, size);
}
