// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/unit/runtime/device/fake_device.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace dtile::test {

namespace {

using namespace runtime;

/// Of address space behind shared memory.
constexpr int64_t kSpareBytes = 64 << 20;

class FakeDevice final : public Device {
public:
  FakeDevice(FakeMachine &machine, int32_t ordinal) : machine_(machine) {
    facts_.ordinal = ordinal;
    facts_.name = "Fake";
    facts_.arch = machine.arch;
    facts_.major = 9;
    facts_.multiprocessors = machine.multiprocessors;
    facts_.sharedBytesPerProgram = machine.sharedBytes;
    facts_.parameterBytes = machine.parameterBytes;
    facts_.cooperative = true;
  }

  const DeviceFacts &facts() const override { return facts_; }
  int32_t fitness(const dtile_device_image &image) const override {
    return image.arch == facts_.arch ? 2 : image.arch == std::string("sm_80") ? 1 : 0;
  }

  Status within(const std::function<Status()> &call) override { return call(); }

  Status allocate(int64_t bytes, DeviceAddress *out) override {
    if (machine_.capturing)
      return {DTILE_UNAVAILABLE, "allocation while a stream is captured"};
    if (bytes > machine_.memory)
      return {DTILE_OUT_OF_MEMORY, "no memory"};
    machine_.memory -= bytes;
    int64_t rounded = (bytes + 255) / 256 * 256;
    void *memory = std::aligned_alloc(256, size_t(rounded));
    // Not zero at first, as on a device.
    if (machine_.isFilled)
      std::memset(memory, 0xcd, size_t(rounded));
    *out = reinterpret_cast<DeviceAddress>(memory);
    machine_.allocations[*out] = {bytes, facts_.ordinal};
    return {};
  }
  void release(DeviceAddress address) override {
    machine_.memory += machine_.allocations.at(address).first;
    machine_.allocations.erase(address);
    std::free(reinterpret_cast<void *>(address));
  }
  Status reach(const Device &) override { return {}; }

  Status allocateShared(int64_t *bytes, DeviceAddress *out, int *descriptor) override {
    *bytes = (*bytes + 4095) / 4096 * 4096;
    *descriptor = memfd_create("heap", MFD_CLOEXEC);
    if (*descriptor < 0 || ftruncate(*descriptor, *bytes) != 0)
      return {DTILE_OUT_OF_MEMORY, "no file"};
    return mapShared(*descriptor, *bytes, out);
  }
  Status mapShared(int descriptor, int64_t bytes, DeviceAddress *out) override {
    void *memory = mmap(nullptr, size_t(bytes + kSpareBytes), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mmap(memory, size_t(bytes), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED)
      return {DTILE_OUT_OF_MEMORY, "no mapping"};
    *out = reinterpret_cast<DeviceAddress>(memory);
    return {};
  }
  void releaseShared(DeviceAddress address, int64_t bytes) override {
    munmap(reinterpret_cast<void *>(address), size_t(bytes + kSpareBytes));
  }
  int64_t spareBehind(DeviceAddress) const override { return kSpareBytes; }
  Status findForeign(DeviceAddress address, ForeignMemory *out) override {
    for (const auto &[begin, file] : machine_.foreign)
      if (address >= begin && address < begin + DeviceAddress(file.second)) {
        *out = {begin, file.second, mappingAt(address)};
        return {};
      }
    return {DTILE_INVALID, "it is nobody's"};
  }
  uint64_t mappingAt(DeviceAddress address) override {
    for (const auto &[begin, file] : machine_.foreign)
      if (address >= begin && address < begin + DeviceAddress(file.second))
        return uint64_t(file.first) + 1;
    return 0;
  }
  Status mapForeign(const ForeignMemory &memory, DeviceAddress at) override {
    if (!machine_.fault.empty())
      return {DTILE_OUT_OF_MEMORY, machine_.fault};
    void *mapped = mmap(reinterpret_cast<void *>(at), size_t(memory.bytes), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, machine_.foreign.at(memory.begin).first, 0);
    return mapped == MAP_FAILED ? Status{DTILE_OUT_OF_MEMORY, "no mapping"} : Status();
  }
  void unmapForeign(DeviceAddress at, int64_t bytes) override {
    [[maybe_unused]] void *rest =
        mmap(reinterpret_cast<void *>(at), size_t(bytes), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  }

  Status allocatePinned(int64_t bytes, PinnedMemory *out) override {
    out->host = std::calloc(1, size_t(bytes));
    out->device = reinterpret_cast<DeviceAddress>(out->host);
    return {};
  }
  void releasePinned(const PinnedMemory &memory) override { std::free(memory.host); }
  Status pin(void *host, int64_t, PinnedMemory *out) override {
    *out = {host, reinterpret_cast<DeviceAddress>(host)};
    return {};
  }
  void unpin(const PinnedMemory &) override {}

  Status place(const void *address, PointerPlace *out) override {
    auto at = reinterpret_cast<DeviceAddress>(address);
    auto next = machine_.allocations.upper_bound(at);
    if (next != machine_.allocations.begin()) {
      auto &[begin, what] = *std::prev(next);
      if (at < begin + DeviceAddress(what.first))
        *out = {PointerPlace::Kind::Device, what.second};
    }
    return {};
  }

  Status createStream(StreamHandle *out) override {
    *out = new char;
    return {};
  }
  void destroyStream(StreamHandle stream) override { delete static_cast<char *>(stream); }
  Status zero(DeviceAddress address, int64_t bytes, StreamHandle) override {
    const DeviceAddress end = address + DeviceAddress(bytes);
    // Whole pages that are given back are zero when they are touched again.
    const DeviceAddress first = (address + 4095) / 4096 * 4096, last = end / 4096 * 4096;
    if (!machine_.isFilled && first < last &&
        madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED) == 0) {
      std::memset(reinterpret_cast<void *>(address), 0, first - address);
      std::memset(reinterpret_cast<void *>(last), 0, end - last);
      return {};
    }
    std::memset(reinterpret_cast<void *>(address), 0, size_t(bytes));
    return {};
  }
  Status copyIn(DeviceAddress to, const void *from, int64_t bytes, StreamHandle) override {
    std::memcpy(reinterpret_cast<void *>(to), from, size_t(bytes));
    return {};
  }
  Status copyOut(void *to, DeviceAddress from, int64_t bytes, StreamHandle) override {
    std::memcpy(to, reinterpret_cast<const void *>(from), size_t(bytes));
    return {};
  }
  Status synchronize(StreamHandle) override { return {}; }
  Status poll(StreamHandle, bool *done) override {
    *done = true;
    return {};
  }
  Status synchronizeAll() override { return {}; }
  Status isCapturing(StreamHandle, bool *capturing) override {
    *capturing = machine_.capturing;
    return {};
  }

  bool hasCopyEngine() const override { return machine_.hasCopyEngine; }
  Status copyAcross(const DeviceCopy &copy, StreamHandle stream) override {
    machine_.copies.push_back({copy, stream, machine_.launches.size()});
    for (int64_t row = 0; row < copy.rows; ++row)
      std::memcpy(reinterpret_cast<void *>(copy.to + DeviceAddress(row * copy.toPitch)),
                  reinterpret_cast<const void *>(copy.from + DeviceAddress(row * copy.fromPitch)),
                  size_t(copy.rowBytes));
    return {};
  }
  Status createEvent(EventHandle *out) override { return createStream(out); }
  void destroyEvent(EventHandle event) override { destroyStream(event); }
  Status follow(StreamHandle earlier, StreamHandle later, EventHandle) override {
    machine_.follows.emplace_back(earlier, later);
    return {};
  }

  Status load(const dtile_device_image &image, ModuleHandle *out) override {
    if (std::strcmp(static_cast<const char *>(image.data), "broken") == 0)
      return {DTILE_UNAVAILABLE, "the image is broken"};
    ++machine_.modules;
    *out = this;
    return {};
  }
  void unload(ModuleHandle) override { --machine_.modules; }
  Status find(ModuleHandle, const char *entry, int32_t, FunctionHandle *out) override {
    *out = const_cast<char *>(entry);
    return {};
  }
  Status residency(FunctionHandle, int32_t, int32_t, int32_t *out) override {
    *out = machine_.each;
    return {};
  }
  Status launch(const GridLaunch &launch, StreamHandle stream) override {
    if (!machine_.fault.empty())
      return {DTILE_UNAVAILABLE, machine_.fault};
    RecordedLaunch record;
    record.ordinal = facts_.ordinal;
    record.function = static_cast<const char *>(launch.function);
    record.programs = launch.programs;
    record.threads = launch.threads;
    record.cooperative = launch.cooperative;
    record.stream = stream;
    record.words = *static_cast<const dtile_device_launch *>(launch.parameters[0]);
    record.frame = launch.parameters[1];
    machine_.launches.push_back(record);
    if (machine_.kernel)
      machine_.kernel(record);
    return {};
  }
  bool tensorMap(const TensorMapShape &, void *) override { return false; }
  Status beginCapture(StreamHandle) override { return {}; }
  Status endCapture(StreamHandle, GraphHandle *) override { return {}; }
  Status replay(GraphHandle, StreamHandle) override { return {}; }
  void destroyGraph(GraphHandle) override {}

private:
  FakeMachine &machine_;
  DeviceFacts facts_;
};

class FakeDriver final : public DeviceDriver {
public:
  explicit FakeDriver(FakeMachine &machine) : machine_(machine) {}
  const char *target() const override { return "nvptx"; }
  int32_t count() const override { return machine_.devices; }
  Status open(int32_t ordinal, std::unique_ptr<Device> *out) override {
    *out = std::make_unique<FakeDevice>(machine_, ordinal);
    return {};
  }

private:
  FakeMachine &machine_;
};

} // namespace

FakeMachine::~FakeMachine() {
  for (auto &[begin, what] : allocations)
    std::free(reinterpret_cast<void *>(begin));
}

std::unique_ptr<DeviceDriver> makeFakeDriver(FakeMachine &machine) {
  return std::make_unique<FakeDriver>(machine);
}

} // namespace dtile::test
