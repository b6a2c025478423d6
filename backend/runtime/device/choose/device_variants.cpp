// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The variants of a kernel on a device: which of its images can run there, and which one a launch
// takes.
//
// The choice is the smallest estimated time. Each variant's prologue runs without side effects and
// leaves the sizes in a frame; the variant's own weights say how long its bodies take, and
// device_programs.h when the launch ends.
//
// Ranks may launch with different sizes, and still have to choose variants that look alike to each
// other (dtile_device_image.protocol). So the protocol is chosen first, from what all ranks know
// alike: the sizes that the shapes of symmetric objects determine (dtile_param_desc.agreed), and
// the number of ranks. Sizes that may differ are taken as small and as large there (kUnknownSizes),
// tensors as contiguous and aligned, and the rank as 0: the protocol is that of the variant whose
// time is nowhere far from the fastest one's. Then each rank chooses among the variants of that
// protocol by its own sizes.
//
// What was measured on such a device (dtile_tuned_row) goes before what is estimated, in both
// steps.
#include "backend/runtime/device/choose/device_programs.h"
#include "backend/runtime/device/device_team.h"
#include "backend/runtime/device/packed_image.h"
#include "backend/runtime/tuned_rows.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

namespace dtile::runtime {

namespace {

constexpr double kRefused = std::numeric_limits<double>::infinity();
/// The time of a variant that is not among those to choose from.
constexpr double kNotAsked = -1;

/// The first of the least times; of refused ones, if there are no others.
size_t leastOf(const std::vector<double> &times) {
  size_t least = times.size();
  for (size_t i = 0; i < times.size(); ++i)
    if (times[i] != kNotAsked && (least == times.size() || times[i] < times[least]))
      least = i;
  return least == times.size() ? 0 : least;
}

Status loadModule(Device &device, const dtile_device_image &image, LoadedModule *out) {
  if (image.packed_bytes == 0)
    return device.load(image, &out->handle);
  out->bytes = std::make_unique<char[]>(size_t(image.bytes));
  if (!unpackImage(image, out->bytes.get()))
    return {DTILE_INVALID, "its code is damaged"};
  dtile_device_image unpacked = image;
  unpacked.data = out->bytes.get();
  unpacked.packed_bytes = 0;
  return device.load(unpacked, &out->handle);
}

/// "sm_90a (nvptx), gfx942 (amdgpu)".
std::string archList(const dtile_kernel_desc &desc) {
  std::vector<std::string> names;
  for (int32_t i = 0; i < desc.nimages; ++i) {
    std::string name = format("%s (%s)", desc.images[i].arch, desc.images[i].target);
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// The best image for a device of each variant, in order. Empty: none is for the device.
std::vector<const dtile_device_image *> imagesFor(const Device &device,
                                                  const dtile_kernel_desc &desc) {
  const dtile_device_image *best = nullptr;
  for (int32_t i = 0; i < desc.nimages; ++i)
    if (const int32_t fitness = device.fitness(desc.images[i]);
        fitness > 0 && (!best || fitness > device.fitness(*best)))
      best = &desc.images[i];
  std::vector<const dtile_device_image *> found;
  for (int32_t i = 0; best && i < desc.nimages; ++i) {
    const dtile_device_image &image = desc.images[i];
    // Variants were chosen together for one architecture.
    if (std::strcmp(image.arch, best->arch) == 0 && device.fitness(image) == device.fitness(*best))
      found.push_back(&image);
  }
  std::sort(found.begin(), found.end(), [](const auto *a, const auto *b) {
    return std::pair(a->variant, a) < std::pair(b->variant, b);
  });
  return found;
}

Status checkImage(const Device &device, const dtile_kernel_desc &desc,
                  const dtile_device_image &image) {
  const DeviceFacts &facts = device.facts();
  if (image.device_abi_version != DTILE_DEVICE_ABI_VERSION)
    return {DTILE_INVALID, format("kernel `%s` was compiled for version %u of the device ABI, but "
                                  "this library has version %d: compile it again",
                                  desc.name, image.device_abi_version, DTILE_DEVICE_ABI_VERSION)};
  if (image.shared_bytes > facts.sharedBytesPerProgram)
    return {DTILE_INVALID,
            format("kernel `%s` wants %d bytes of shared memory a program, but GPU %d has %lld: "
                   "use smaller tiles",
                   desc.name, image.shared_bytes, facts.ordinal,
                   static_cast<long long>(facts.sharedBytesPerProgram))};
  if (const int64_t bytes = dtile_device_parameter_bytes(image.frame_bytes);
      bytes > facts.parameterBytes)
    return {DTILE_INVALID,
            format("kernel `%s` has %lld bytes of parameters, but the driver of GPU %d takes %lld: "
                   "update the driver, or pass fewer tensors",
                   desc.name, static_cast<long long>(bytes), facts.ordinal,
                   static_cast<long long>(facts.parameterBytes))};
  return {};
}

/// How a launch's programs are shared among its spaces, and when it ends.
struct Plan {
  /// Negated, how many programs it needs where that is more than can be resident.
  int32_t programs = 0;
  /// Programs of a cluster, which share the loops of bodies, or loads where they are `paired`.
  int32_t cluster = 1;
  bool paired = false;
  /// A bit a space: bodies of its last round are divided.
  uint32_t divided = 0;
  int32_t first[DTILE_DEVICE_MAX_SPACES + 1] = {};
  double nanoseconds = 0;
};

/// What a plan takes as given.
struct Assumed {
  /// Programs that run at once, where bodies do not say it.
  int64_t running = 0;
  bool mayDivide = true;
};

/// How tiles are moved in a launch: a dtile_loading.
int64_t loadingOf(const dtile_device_image &image, const void *frame) {
  return image.loading ? image.loading(frame) : int64_t{DTILE_WHOLE_WORDS};
}

/// Whether tiles are moved in parts of words, and no function of the image is for that.
bool lacksFunction(const dtile_device_image &image, const void *frame) {
  return !image.entries[DTILE_LAUNCH_COPIED] && loadingOf(image, frame) != DTILE_WHOLE_WORDS;
}

/// Programs that can be resident at once in a launch.
int64_t residentOf(const LoadedImage &variant, const void *frame) {
  return loadingOf(*variant.image, frame) == DTILE_WHOLE_WORDS ? variant.resident
                                                               : variant.residentInParts;
}

/// For which of an image's functions a launch is.
dtile_launch_kind kindOf(const dtile_device_image &image, const void *frame, const Plan &plan,
                         const dtile_device_launch &words) {
  if (loadingOf(image, frame) != DTILE_WHOLE_WORDS)
    return DTILE_LAUNCH_COPIED;
  if (plan.paired || words.divided != 0)
    return DTILE_LAUNCH_SHARED;
  return plan.cluster > 1 ? DTILE_LAUNCH_SPLIT : DTILE_LAUNCH_PLAIN;
}

class LaunchPlanner {
public:
  /// `engine`: the spaces whose transfers to other ranks the copy engine makes, a bit each.
  LaunchPlanner(const dtile_kernel_desc &desc, const LoadedImage &variant, int64_t multiprocessors,
                const void *frame, uint32_t engine = 0)
      : desc_(desc), variant_(variant), image_(*variant.image), multiprocessors_(multiprocessors),
        frame_(frame), engine_(engine) {
    for (int32_t s = 0; s < desc.nspaces; ++s)
      bodies_[s] = std::max<int64_t>(image_.counts[s](frame), 0);
  }

  /// The plan that is estimated to end first.
  [[nodiscard]] Plan best() {
    Plan best = alone();
    if (best.programs > 0)
      for (int32_t parts = 2; parts <= DTILE_MOST_PARTS; ++parts) {
        const Plan other = plan(parts, variant_.inClusters[parts]);
        if (other.programs > 0 && other.nanoseconds < best.nanoseconds)
          best = other;
      }
    best.nanoseconds += image_.launch_time;
    return best;
  }

private:
  using PerSpace = int64_t[DTILE_DEVICE_MAX_SPACES];

  /// Programs for what stays on this rank of a space that leaves transfers to the copy engine.
  [[nodiscard]] int32_t ownPrograms(int32_t s) const {
    double own = 0;
    const int64_t step = std::max<int64_t>(bodies_[s] / kSeenBodies, 1);
    for (int64_t body = 0; body < bodies_[s]; body += step)
      if (image_.remote_bytes[s](frame_, body, 1, 1) == 0)
        own += double(step) * double(image_.weights[s](frame_, body, 1, 1));
    return int32_t(std::clamp(own / kOwnNanoseconds, 1.0, double(kMostOwnPrograms)));
  }

  [[nodiscard]] int64_t loading() const { return loadingOf(image_, frame_); }
  [[nodiscard]] bool inWholeWords() const { return loading() == DTILE_WHOLE_WORDS; }

  void fill(PerSpace &out, int64_t (*const *of)(const void *, int64_t, int64_t, int64_t),
            dtile_device_load load) const {
    for (int32_t s = 0; s < desc_.nspaces; ++s)
      out[s] = dtile_mean_weight(of[s], frame_, bodies_[s], load.together, load.running);
  }

  /// Without clusters of programs that share sums.
  [[nodiscard]] Plan alone() {
    const int64_t resident = residentOf(variant_, frame_);
    const Plan first = plan(1, resident);
    const int64_t bodies = std::accumulate(bodies_, bodies_ + desc_.nspaces, int64_t{0});
    if (first.divided == 0 || first.programs <= bodies)
      return first;
    // More programs run than bodies were counted.
    const Plan divided = plan(1, resident, {.running = first.programs});
    const Plan whole = plan(1, resident, {.mayDivide = false});
    return divided.nanoseconds < whole.nanoseconds ? divided : whole;
  }

  /// With clusters of so many programs; no programs where these cannot be.
  [[nodiscard]] Plan plan(int32_t parts, int64_t most, Assumed assumed = {}) {
    const auto resident = int32_t(std::min<int64_t>(most, DTILE_DEVICE_PARTS));
    Plan plan;
    plan.cluster = parts;
    PerSpace bodies = {}, weights = {}, latencies = {}, shared = {}, remote = {};
    std::copy(bodies_, bodies_ + desc_.nspaces, bodies);
    dtile_device_space spaces[DTILE_DEVICE_MAX_SPACES];
    std::copy(image_.spaces, image_.spaces + desc_.nspaces, spaces);
    const bool divides = std::any_of(spaces, spaces + desc_.nspaces,
                                     [](const dtile_device_space &s) { return s.divide > 0; });
    const bool mayDivide = divides && assumed.mayDivide && parts == 1 &&
                           resident <= DTILE_DEVICE_PARTIAL_PROGRAMS && inWholeWords();
    for (int32_t s = 0; s < desc_.nspaces && !mayDivide; ++s)
      spaces[s].divide = 0;
    // What runs at once decides how long bodies take.
    if (parts > 1 &&
        !dtile_share_loops(desc_.nspaces, spaces, parts, shared, resident, bodies, weights))
      return {};
    if (parts > 1 && loading() == DTILE_UNSTAGED)
      return {};
    // Threads that load have filled the ring long after TMA would, and take no bodies in turn.
    if (parts > 1 && !inWholeWords() &&
        std::accumulate(bodies, bodies + desc_.nspaces, int64_t{0}) > resident)
      return {};
    const dtile_device_load load =
        assumed.running > 0 ? dtile_load_of(1, &assumed.running, resident, multiprocessors_)
                            : dtile_load_of(desc_.nspaces, bodies, resident, multiprocessors_);
    fill(weights, image_.weights, load);
    fill(latencies, image_.latencies, load);
    for (int32_t s = 0; s < desc_.nspaces; ++s)
      latencies[s] = dtile_uncovered_latency(&spaces[s], weights[s], latencies[s], load.together);
    double bytes[DTILE_DEVICE_MAX_SPACES] = {};
    if (image_.link_rate > 0)
      fill(remote, image_.remote_bytes, load);
    std::copy(remote, remote + desc_.nspaces, bytes);
    for (int32_t s = 0; s < desc_.nspaces; ++s)
      if ((engine_ >> unsigned(s) & 1) != 0 && spaces[s].pinned == 0)
        spaces[s].pinned = ownPrograms(s);
    dtile_leave_to_engine(desc_.nspaces, spaces, engine_, bodies_, bytes, image_.link_rate, weights,
                          latencies);
    dtile_share_link(desc_.nspaces, spaces, bodies_, bytes, image_.link_rate, load.running,
                     latencies, weights);
    if (parts > 1) {
      fill(shared, image_.shared, load);
      std::copy(bodies_, bodies_ + desc_.nspaces, bodies);
      dtile_share_loops(desc_.nspaces, spaces, parts, shared, resident, bodies, weights);
    } else if (mayDivide) {
      fill(shared, image_.shared, load);
      for (int32_t s = 0; s < desc_.nspaces; ++s)
        dtile_add_unshared(&spaces[s], weights[s], shared[s]);
    }
    plan.programs = dtile_share_programs(desc_.nspaces, spaces, bodies, weights, latencies,
                                         resident, plan.first);
    if (parts > 1)
      plan.programs = plan.programs < 0 ? 0
                                        : dtile_align_to_clusters(desc_.nspaces, spaces, parts,
                                                                  resident, bodies, plan.first);
    if (plan.programs > 0) {
      plan.nanoseconds =
          dtile_launch_time(desc_.nspaces, spaces, bodies, weights, latencies, plan.first);
      plan.divided =
          dtile_divided_spaces(desc_.nspaces, spaces, bodies, weights, latencies, plan.first);
      if (parts == 1 && image_.paired && inWholeWords())
        pair(plan, {spaces, bodies, weights, latencies}, load);
    }
    if (image_.link_rate == 0)
      return plan;
    double all = 0;
    for (int32_t s = 0; s < desc_.nspaces; ++s)
      if (bodies_[s] > 0)
        all += double(bodies_[s]) * bytes[s];
    plan.nanoseconds = std::max(plan.nanoseconds, all / image_.link_rate);
    return plan;
  }

  /// What the spaces of a launch are estimated by.
  struct Estimated {
    const dtile_device_space *spaces;
    int64_t *bodies, *weights, *latencies;
  };

  /// Lets two programs of the first space share loads, where the launch ends earlier so.
  void pair(Plan &plan, Estimated of, dtile_device_load load) const {
    // The programs of other spaces keep their number; whole clusters are launched.
    const int32_t others = plan.programs - plan.first[1];
    const auto room = int64_t(variant_.inClusters[2]) - (others + others % 2);
    const int64_t paired = image_.paired(frame_);
    const int64_t weight =
        dtile_mean_weight(image_.paired_weight, frame_, bodies_[0], load.together, load.running);
    const auto alone = double(of.weights[0] + of.latencies[0]);
    const double more = double(of.spaces[0].divide) / alone;
    const int32_t programs = dtile_pair_programs(paired, room, bodies_[0], plan.first[1], more,
                                                 alone / double(weight + of.latencies[0]),
                                                 double(image_.pair_time) / alone);
    if (programs == 0)
      return;
    // Pairs are divided as programs are.
    plan.divided &= ~1u;
    plan.divided |= uint32_t(dtile_divides(paired / 2, programs / 2, more));
    plan.paired = true;
    plan.cluster = 2;
    plan.programs = programs + others + others % 2;
    const int32_t moved = programs - plan.first[1];
    for (int32_t s = 1; s <= desc_.nspaces; ++s)
      plan.first[s] += moved;
    of.bodies[0] = paired;
    of.weights[0] = weight;
    plan.nanoseconds = dtile_launch_time(desc_.nspaces, of.spaces, of.bodies, of.weights,
                                         of.latencies, plan.first) +
                       image_.pair_time;
  }

  const dtile_kernel_desc &desc_;
  const LoadedImage &variant_;
  const dtile_device_image &image_;
  int64_t multiprocessors_;
  const void *frame_;
  uint32_t engine_;
  PerSpace bodies_ = {};
  /// Bodies that are looked at of a space that leaves transfers to the copy engine, and of what
  /// stays with programs, what one takes beside a launch, and how many there are at most.
  static constexpr int64_t kSeenBodies = 1024;
  static constexpr double kOwnNanoseconds = 20'000;
  static constexpr int64_t kMostOwnPrograms = 8;
};

} // namespace

Status DeviceTeam::loadVariants(DeviceKernel &kernel, int32_t local) {
  const dtile_kernel_desc &desc = *kernel.state.desc;
  DeviceRank &rank = *locals_[size_t(local)];
  const DeviceFacts &facts = rank.device->facts();
  const auto images = imagesFor(*rank.device, desc);
  if (images.empty())
    return {DTILE_INVALID,
            format("kernel `%s` was compiled for %s, but GPU %d is %s (%s): compile it for %s too",
                   desc.name, archList(desc).c_str(), facts.ordinal, facts.arch.c_str(),
                   facts.name.c_str(), facts.arch.c_str())};
  LoadedKernel &loaded = kernel.loaded[size_t(local)];
  Status failure;
  for (const dtile_device_image *image : images) {
    LoadedImage variant;
    Status status = checkImage(*rank.device, desc, *image);
    if (status.ok())
      status = loadImage(desc, local, *image, &variant);
    if (status.ok())
      loaded.variants.push_back(variant);
    else if (failure.ok())
      failure = std::move(status);
  }
  return loaded.variants.empty() ? failure : Status();
}

Status DeviceTeam::loadImage(const dtile_kernel_desc &desc, int32_t local,
                             const dtile_device_image &image, LoadedImage *out) {
  DeviceRank &rank = *locals_[size_t(local)];
  Device &device = *rank.device;
  out->image = &image;
  if (Status status = checkProvider(image); !status.ok()) {
    status.message =
        format("kernel `%s` was compiled for the shmem provider `%s`", desc.name, image.shmem) +
        status.message;
    return status;
  }
  if (Status status = checkMapped(desc, image); !status.ok())
    return status;
  auto inWords = [&](Status status) {
    status.message = format("kernel `%s` cannot be loaded on GPU %d (%s): ", desc.name,
                            device.facts().ordinal, device.facts().name.c_str()) +
                     status.message;
    return status;
  };
  // Kernels and variants of one file share an image.
  LoadedModule &module = modules_[{device.facts().ordinal, storedBytes(image),
                                   hashBytes(image.data, storedBytes(image))}];
  if (!module.handle)
    if (Status status = loadModule(device, image, &module); !status.ok())
      return inWords(std::move(status));
  if (std::strcmp(image.shmem, kPeerToPeer) != 0 && !module.isAttached) {
    if (Status status = provider_->attach(module.handle); !status.ok())
      return inWords(std::move(status));
    module.isAttached = true;
  }
  // As many programs as the function allows that allows fewest, of those that a launch may take.
  int32_t each = INT32_MAX, inParts = INT32_MAX;
  for (int32_t kind = 0; kind < DTILE_LAUNCH_KINDS; ++kind) {
    int32_t its = 0;
    FunctionHandle &function = out->functions[kind];
    if (!image.entries[kind])
      continue;
    Status status = device.find(module.handle, image.entries[kind], image.shared_bytes, &function);
    if (status.ok())
      status = device.residency(function, image.threads, image.shared_bytes, &its);
    if (!status.ok())
      return inWords(std::move(status));
    int32_t &fewest = kind == DTILE_LAUNCH_COPIED ? inParts : each;
    fewest = std::min(fewest, its);
  }
  inParts = std::min(inParts, image.entries[DTILE_LAUNCH_COPIED] ? INT32_MAX : each);
  const auto onDevice = [&](int32_t programs) {
    return int64_t(programs) * device.facts().multiprocessors / rank.sharers;
  };
  out->resident = onDevice(each);
  out->residentInParts = onDevice(inParts);
  // Ranks that share a GPU may leave no processors beside each other.
  const bool shares =
      image.paired || std::any_of(image.spaces, image.spaces + desc.nspaces,
                                  [](const dtile_device_space &s) { return s.exchange > 0; });
  // The last function has what the others have, and more.
  const FunctionHandle last = out->functions[DTILE_LAUNCH_COPIED]
                                  ? out->functions[DTILE_LAUNCH_COPIED]
                                  : out->functions[DTILE_LAUNCH_SHARED];
  for (int32_t size = 2; shares && rank.sharers == 1 && size <= DTILE_MOST_PARTS; ++size)
    out->inClusters[size] =
        int64_t(size) * device.clusters(last, image.threads, image.shared_bytes, size);
  if (std::min(out->resident, out->residentInParts) > 0)
    return {};
  return {
      DTILE_INVALID,
      format("kernel `%s` cannot be resident on GPU %d: a program of %d threads and %d bytes "
             "of shared memory does not fit%s; use smaller tiles%s",
             desc.name, device.facts().ordinal, image.threads, image.shared_bytes,
             std::min(each, inParts) > 0 ? format(" %d times at once", rank.sharers).c_str() : "",
             rank.sharers > 1 ? " or fewer ranks a GPU" : "")};
}

Status DeviceTeam::agreeOnVariants(const DeviceKernel &kernel) {
  const dtile_kernel_desc &desc = *kernel.state.desc;
  if (desc.configuration == 0 || ranks_ == 1 || !communicates(desc))
    return {};
  // What the choice depends on besides sizes: the variants that fit, and the devices.
  const auto hashOf = [&](size_t local) {
    uint64_t hash = desc.configuration ^ uint64_t(locals_[local]->device->facts().multiprocessors);
    for (const LoadedImage &variant : kernel.loaded[local].variants) {
      hash = (hash ^ uint64_t(variant.image->variant)) * 0x100000001b3u;
      hash = (hash ^ uint64_t(variant.resident)) * 0x100000001b3u;
      hash = (hash ^ uint64_t(variant.residentInParts)) * 0x100000001b3u;
    }
    return hash;
  };
  const uint64_t first = hashOf(0);
  for (size_t local = 1; local < locals_.size(); ++local)
    if (hashOf(local) != first)
      return {
          DTILE_INVALID,
          format("kernel `%s` leaves constants to the compiler, and GPU %d (%s) is another kind "
                 "than GPU %d (%s): pin the constants, or make teams of one kind",
                 desc.name, locals_[local]->device->facts().ordinal,
                 locals_[local]->device->facts().name.c_str(), locals_[0]->device->facts().ordinal,
                 locals_[0]->device->facts().name.c_str())};
  return agree(first, launchText(desc.name, "its variants, which are those of one object on GPUs "
                                            "of one kind")
                          .c_str());
}

Status DeviceTeam::runPrologue(DeviceKernel &kernel, int32_t local, const LoadedImage &variant,
                               const dtile_arg *arguments, DeviceLaunch &device, void *frame) {
  DeviceRank &rank = *locals_[size_t(local)];
  dtile_launch &launch = rank.launch;
  launch.kernel = &kernel.state;
  launch.ranks = ranks_;
  launch.arguments = arguments;
  launch.device = &device;
  launch.error = {};
  const bool refused = variant.image->prologue(&launch, frame) != 0;
  launch.device = nullptr;
  if (!launch.error.ok())
    return std::move(launch.error);
  if (refused)
    return {DTILE_INVALID, format("kernel `%s` refused its arguments on rank %d",
                                  kernel.state.desc->name, rank.rank)};
  return {};
}

double DeviceTeam::estimate(DeviceKernel &kernel, int32_t local, const LoadedImage &variant,
                            const dtile_arg *arguments, int64_t unknownSize,
                            const dtile_kernel_desc *family) {
  DeviceRank &rank = *locals_[size_t(local)];
  const auto frame = makeFrame(variant.image->frame_bytes);
  if (!frame)
    return kRefused;
  DeviceLaunch device = {this, &kernel, /*capturing=*/false, /*isEstimate=*/true, 0, {}};
  dtile_launch &launch = rank.launch;
  const int32_t own = launch.rank;
  launch.rank = unknownSize >= 0 ? 0 : own;
  launch.unknownSize = unknownSize;
  launch.family = family;
  const Status status = runPrologue(kernel, local, variant, arguments, device, frame.get());
  launch.rank = own;
  launch.unknownSize = -1;
  launch.family = nullptr;
  if (!status.ok() || lacksFunction(*variant.image, frame.get()))
    return kRefused;
  const Plan plan = LaunchPlanner(*kernel.state.desc, variant, rank.device->facts().multiprocessors,
                                  frame.get(), expectedEngine(kernel, local, variant, frame.get()))
                        .best();
  return plan.programs < 0 ? kRefused : plan.nanoseconds;
}

std::optional<size_t> DeviceTeam::measuredVariant(const DeviceKernel &kernel, int32_t local,
                                                  const dtile_arg *arguments,
                                                  bool agreedOnly) const {
  const dtile_kernel_desc &desc = *kernel.state.desc;
  if (desc.ntuned == 0)
    return std::nullopt;
  struct Arguments {
    const KernelState &state;
    const dtile_arg *passed;
  };
  const Arguments given = {kernel.state, arguments};
  const auto size = [](const void *of, int32_t param, int32_t dim) {
    const auto *from = static_cast<const Arguments *>(of);
    return from->passed[from->state.argumentOf[size_t(param)]].tensor->size[dim];
  };
  const std::vector<LoadedImage> &variants = kernel.loaded[size_t(local)].variants;
  const dtile_tuned_row *row =
      findTuned({desc, locals_[size_t(local)]->device->facts().name.c_str(),
                 variants.front().image->arch, ranks_, size, &given},
                agreedOnly);
  for (size_t i = 0; row && i < variants.size(); ++i)
    if (variants[i].image->variant == row->variant)
      return i;
  // It does not fit this device.
  return std::nullopt;
}

size_t DeviceTeam::chooseVariant(DeviceKernel &kernel, int32_t local, const dtile_arg *arguments) {
  const std::vector<LoadedImage> &variants = kernel.loaded[size_t(local)].variants;
  if (variants.size() == 1)
    return 0;
  const auto measured = [&](bool agreedOnly) {
    return measuredVariant(kernel, local, arguments, agreedOnly);
  };
  const auto timesOf = [&](int64_t unknownSize, const int32_t *protocol) {
    std::vector<double> times;
    for (const LoadedImage &variant : variants) {
      const bool isAsked = !protocol || variant.image->protocol == *protocol;
      times.push_back(isAsked ? estimate(kernel, local, variant, arguments, unknownSize)
                              : kNotAsked);
    }
    return times;
  };
  const auto best = [&](const int32_t *protocol) {
    return leastOf(timesOf(/*unknownSize=*/-1, protocol));
  };
  const auto bestForAll = [&] {
    std::vector<double> worst(variants.size(), 0);
    for (const int64_t size : kUnknownSizes) {
      const std::vector<double> times = timesOf(size, nullptr);
      const double least = times[leastOf(times)];
      for (size_t i = 0; i < times.size() && least < kRefused; ++i)
        worst[i] = std::max(worst[i], times[i] / std::max(least, 1.0));
    }
    return leastOf(worst);
  };
  const bool isOneProtocol =
      std::all_of(variants.begin(), variants.end(), [&](const LoadedImage &variant) {
        return variant.image->protocol == variants.front().image->protocol;
      });
  const std::optional<size_t> own = measured(/*agreedOnly=*/false);
  if (isOneProtocol || ranks_ == 1)
    return own ? *own : best(nullptr);
  const std::optional<size_t> common = measured(/*agreedOnly=*/true);
  const int32_t protocol = variants[common ? *common : bestForAll()].image->protocol;
  if (own && variants[*own].image->protocol == protocol)
    return *own;
  return best(&protocol);
}

Status DeviceTeam::cannotBeResident(const DeviceKernel &kernel, int32_t local,
                                    const LoadedImage &variant, const void *frame,
                                    int32_t programs) const {
  const DeviceRank &rank = *locals_[size_t(local)];
  return {DTILE_INVALID,
          format("kernel `%s` needs %d programs at once on rank %d, but only %lld can be resident "
                 "on GPU %d%s: pin fewer programs%s",
                 kernel.state.desc->name, -programs, rank.rank,
                 static_cast<long long>(residentOf(variant, frame)), rank.device->facts().ordinal,
                 rank.sharers > 1 ? format(", which %d ranks share", rank.sharers).c_str() : "",
                 rank.sharers > 1 ? " or let fewer ranks share a GPU" : "")};
}

Status DeviceTeam::checkBodies(const DeviceKernel &kernel, int32_t local,
                               const LoadedImage &variant, const void *frame) const {
  if (lacksFunction(*variant.image, frame))
    return {DTILE_INVALID,
            format("kernel `%s` has tensors on rank %d whose rows are not multiples of 16 bytes, "
                   "or do not begin at one, and none of its variants for such fits GPU %d: pin "
                   "constants that fit it",
                   kernel.state.desc->name, locals_[size_t(local)]->rank,
                   locals_[size_t(local)]->device->facts().ordinal)};
  // Kernels number bodies in 32 bits.
  constexpr int64_t kMost = INT32_MAX;
  const dtile_kernel_desc &desc = *kernel.state.desc;
  for (int32_t s = 0; s < desc.nspaces; ++s)
    if (const int64_t bodies = variant.image->counts[s](frame); bodies > kMost)
      return {DTILE_INVALID,
              format("kernel `%s` would run %lld bodies on rank %d, but a launch on a GPU has at "
                     "most %lld: give its space larger blocks",
                     desc.name, static_cast<long long>(bodies), locals_[size_t(local)]->rank,
                     static_cast<long long>(kMost))};
  return {};
}

Status DeviceTeam::tryVariant(DeviceKernel &kernel, int32_t local, const LoadedImage &variant,
                              const dtile_arg *arguments) {
  const auto frame = makeFrame(variant.image->frame_bytes);
  if (!frame)
    return {DTILE_OUT_OF_MEMORY, "no memory for a launch's frame"};
  DeviceLaunch device = {
      this, &kernel, /*capturing=*/false, /*isEstimate=*/true, variant.image->protocol, {}};
  if (Status status = runPrologue(kernel, local, variant, arguments, device, frame.get());
      !status.ok())
    return status;
  if (Status status = checkBodies(kernel, local, variant, frame.get()); !status.ok())
    return status;
  const int32_t programs =
      LaunchPlanner(*kernel.state.desc, variant,
                    locals_[size_t(local)]->device->facts().multiprocessors, frame.get())
          .best()
          .programs;
  return programs < 0 ? cannotBeResident(kernel, local, variant, frame.get(), programs) : Status();
}

Status DeviceTeam::prepareVariant(DeviceKernel &kernel, int32_t local, const dtile_arg *arguments,
                                  bool capturing, PreparedLaunch &prepared) {
  const dtile_kernel_desc &desc = *kernel.state.desc;
  DeviceRank &rank = *locals_[size_t(local)];
  const LoadedKernel &loaded = kernel.loaded[size_t(local)];
  const LoadedImage &variant = loaded.variants[prepared.variant];
  prepared.frame = makeFrame(variant.image->frame_bytes);
  if (!prepared.frame)
    return {DTILE_OUT_OF_MEMORY, "no memory for a launch's frame"};
  DeviceLaunch device = {this, &kernel, capturing, /*isEstimate=*/false, variant.image->protocol,
                         {}};
  Status status = runPrologue(kernel, local, variant, arguments, device, prepared.frame.get());
  prepared.objects = std::move(device.objects);
  if (status.ok())
    status = checkBodies(kernel, local, variant, prepared.frame.get());
  if (!status.ok())
    return status;
  dtile_device_launch &words = prepared.launch;
  if (status = listTransfers(kernel, local, variant, device, prepared); !status.ok())
    return status;
  const int64_t multiprocessors = rank.device->facts().multiprocessors;
  const Plan plan =
      LaunchPlanner(desc, variant, multiprocessors, prepared.frame.get(), words.engine).best();
  std::copy(std::begin(plan.first), std::end(plan.first), words.first_program);
  prepared.cluster = plan.cluster;
  int32_t programs = plan.programs;
  if (programs < 0)
    return cannotBeResident(kernel, local, variant, prepared.frame.get(), programs);
  // Without bodies one program moves the counters on.
  if (programs == 0) {
    programs = 1;
    std::fill(words.first_program + 1, words.first_program + DTILE_DEVICE_MAX_SPACES + 1, 1);
  }
  for (int32_t s = desc.nspaces + 1; s <= DTILE_DEVICE_MAX_SPACES; ++s)
    words.first_program[s] = programs;
  words.team = reinterpret_cast<dtile_device_team *>(rank.team);
  words.kernel = reinterpret_cast<dtile_device_kernel *>(loaded.counters);
  words.rank = rank.rank;
  words.num_ranks = ranks_;
  words.programs = programs;
  words.paired = plan.paired;
  // Programs wait for each other there, so all of them must have begun.
  const bool mayWait = !plainLaunches_ && rank.device->facts().cooperative;
  if (plan.divided != 0 && mayWait)
    if (status = makePartials(kernel, local, capturing); !status.ok())
      return status;
  words.partials = reinterpret_cast<uint64_t *>(loaded.partials);
  words.divided = words.partials && mayWait ? plan.divided : 0;
  prepared.function = variant.functions[kindOf(*variant.image, prepared.frame.get(), plan, words)];
  if (logsLaunches_)
    logLaunch(kernel, local, *variant.image, plan.nanoseconds, prepared);
  words.flags = kernel.flags;
  words.kernel_id = kernel.id + prepared.variant;
  std::copy(rank.shift.begin(), rank.shift.end(), words.shift);
  return {};
}

Status DeviceTeam::makePartials(DeviceKernel &kernel, int32_t local, bool capturing) {
  LoadedKernel &loaded = kernel.loaded[size_t(local)];
  if (loaded.partials != 0 || capturing)
    return {};
  int64_t bytes = 0;
  for (const LoadedImage &variant : loaded.variants)
    bytes = std::max(bytes, variant.image->partial_bytes *
                                std::min<int64_t>(variant.resident, DTILE_DEVICE_PARTIAL_PROGRAMS));
  // A flag a place.
  bytes = DTILE_DEVICE_PARTIAL_PLACES *
          (bytes + int64_t(sizeof(uint64_t)) * DTILE_DEVICE_PARTIAL_PROGRAMS);
  const Status status = locals_[size_t(local)]->arena.allocate(bytes, &loaded.partials);
  return status.code == DTILE_OUT_OF_MEMORY ? Status() : status;
}

void DeviceTeam::logLaunch(const DeviceKernel &kernel, int32_t local,
                           const dtile_device_image &image, double nanoseconds,
                           const PreparedLaunch &prepared) const {
  const dtile_kernel_desc &desc = *kernel.state.desc;
  const dtile_device_launch &launch = prepared.launch;
  const EngineWork &engine = prepared.engine;
  std::string line =
      format("dtile: rank %d launches `%s`", locals_[size_t(local)]->rank, desc.name);
  if (image.constants && *image.constants)
    line += format(" with %s", image.constants);
  for (int32_t s = 0; s < desc.nspaces; ++s)
    line += format("%s %d", s == 0 ? ", programs of its spaces:" : " +",
                   launch.first_program[s + 1] - launch.first_program[s]);
  if (!engine.copies().empty())
    line += format(", %zu copies of %lld bytes by the copy engine", engine.copies().size(),
                   static_cast<long long>(engine.bytes()));
  else if (!engine.refusal().empty())
    line += format(", no copy engine (%s)", engine.refusal().c_str());
  if (prepared.cluster > 1)
    line +=
        format(", clusters of %d%s", prepared.cluster, launch.paired ? " that share loads" : "");
  if (launch.divided != 0)
    line += ", a last round of divided bodies";
  std::fprintf(stderr, "%s, estimated %.1f us\n", line.c_str(), nanoseconds / 1e3);
}

} // namespace dtile::runtime
