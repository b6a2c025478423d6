/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * A libcuda.so.1 whose GPUs are host memory and whose kernels do nothing: how the runtime talks to
 * the driver can be tested where there is none. Everything that a test may want to see goes to
 * standard error, one line a call. Environment: FAKE_CUDA_GPUS, their number (2);
 * FAKE_CUDA_CAPABILITY, as 90; FAKE_CUDA_FAIL=NAME, a call that fails; FAKE_CUDA_CLUSTERS=1,
 * kernels run in clusters of programs, as many as there are processors for. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) int
typedef uint64_t Address;

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}
static int fails(const char *call) {
  const char *name = getenv("FAKE_CUDA_FAIL");
  return name && strcmp(name, call) == 0;
}

/* Contexts are device numbers and one. */
static __thread void *current;
static int device(void) { return (int)(intptr_t)current - 1; }

API cuInit(unsigned flags) { return fails("cuInit") ? 999 : 0; }
API cuDriverGetVersion(int *version) { return *version = 13000, 0; }
API cuGetErrorString(int error, const char **text) {
  *text = error == 2 ? "out of memory" : "it was to fail";
  return 0;
}
API cuDeviceGetCount(int *count) { return *count = number("FAKE_CUDA_GPUS", 2), 0; }
API cuDeviceGet(int *out, int ordinal) { return *out = ordinal, 0; }
API cuDeviceGetName(char *name, int bytes, int d) { return snprintf(name, bytes, "Fake"), 0; }
API cuDeviceGetAttribute(int *value, int attribute, int d) {
  const int capability = number("FAKE_CUDA_CAPABILITY", 90);
  switch (attribute) {
  case 16:
    return *value = 132, 0;
  case 75:
    return *value = capability / 10, 0;
  case 76:
    return *value = capability % 10, 0;
  case 97:
    return *value = 232448, 0;
  case 95:
  case 103:
    return *value = 1, 0;
  }
  return 1;
}
API cuDeviceCanAccessPeer(int *can, int a, int b) {
  return *can = !fails("cuDeviceCanAccessPeer"), 0;
}
API cuDevicePrimaryCtxRetain(void **context, int d) {
  return *context = (void *)(intptr_t)(d + 1), 0;
}
API cuDevicePrimaryCtxRelease_v2(int d) { return 0; }
API cuCtxGetCurrent(void **context) { return *context = current, 0; }
API cuCtxSetCurrent(void *context) { return current = context, 0; }
API cuCtxSynchronize(void) { return 0; }
API cuCtxEnablePeerAccess(void *context, unsigned flags) {
  fprintf(stderr, "GPU %d reaches GPU %d\n", device(), (int)(intptr_t)context - 1);
  return 0;
}

/* Memory, each allocation with its owner before it. */
typedef struct Allocation {
  struct Allocation *next;
  Address begin;
  size_t bytes;
  int owner;
} Allocation;
static Allocation *allocations;

API cuMemAlloc_v2(Address *out, size_t bytes) {
  if (fails("cuMemAlloc"))
    return 2;
  Allocation *one = malloc(sizeof *one);
  *one = (Allocation){allocations, (Address)malloc(bytes + 512), bytes, device()};
  one->begin = (one->begin + 511) / 512 * 512;
  memset((void *)one->begin, 0xcd, bytes);
  allocations = one;
  return *out = one->begin, 0;
}
API cuMemFree_v2(Address address) { return 0; }
API cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  return *out = calloc(1, bytes), flags != 3;
}
API cuMemFreeHost(void *memory) { return free(memory), 0; }
API cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) { return flags != 3; }
API cuMemHostUnregister(void *memory) { return 0; }
API cuMemHostGetDevicePointer_v2(Address *out, void *memory, unsigned flags) {
  return *out = (Address)memory, 0;
}
API cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void *stream) {
  return memset((void *)to, value, bytes), 0;
}
API cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *stream) {
  return memcpy((void *)to, from, bytes), 0;
}
API cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *stream) {
  return memcpy(to, (const void *)from, bytes), 0;
}
API cuMemcpyAsync(Address to, Address from, size_t bytes, void *stream) {
  fprintf(stderr, "GPU %d copies %zu bytes\n", device(), bytes);
  return memcpy((void *)to, (const void *)from, bytes), 0;
}
typedef struct {
  struct {
    size_t x, y;
    int type;
    void *host;
    Address device;
    void *array;
    size_t pitch;
  } from, to;
  size_t width, height;
} Copy2D;
API cuMemcpy2DAsync_v2(const Copy2D *copy, void *stream) {
  fprintf(stderr, "GPU %d copies %zu rows of %zu bytes\n", device(), copy->height, copy->width);
  for (size_t row = 0; row < copy->height; ++row)
    memcpy((char *)copy->to.device + row * copy->to.pitch,
           (const char *)copy->from.device + row * copy->from.pitch, copy->width);
  return copy->from.type != 4 || copy->to.type != 4;
}
/* Memory that processes share. */
static int files[64];
API cuMemGetAllocationGranularity(size_t *bytes, const void *property, int option) {
  return *bytes = 2 << 20, 0;
}
static int keepFile(Address *handle, int file) {
  for (int i = 1; i < 64; ++i)
    if (files[i] == 0)
      return files[i] = file, *handle = i, file < 0;
  return 2;
}
API cuMemCreate(Address *handle, size_t bytes, const void *property, unsigned long long flags) {
  const int file = memfd_create("fake", MFD_CLOEXEC);
  return ftruncate(file, bytes) != 0 || keepFile(handle, file);
}
API cuMemRelease(Address handle) { return close(files[handle]), files[handle] = 0; }
API cuMemExportToShareableHandle(void *out, Address handle, int type, unsigned long long flags) {
  return *(int *)out = dup(files[handle]), type != 1;
}
API cuMemImportFromShareableHandle(Address *handle, void *file, int type) {
  return keepFile(handle, dup((int)(intptr_t)file));
}
API cuMemAddressReserve(Address *out, size_t bytes, size_t align, Address at,
                        unsigned long long flags) {
  *out = (Address)mmap(0, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return 0;
}
API cuMemAddressFree(Address address, size_t bytes) { return 0; }
/* Which file is where; the last mappings are looked for first. */
static struct Mapping {
  Address begin;
  size_t bytes;
  int file;
  unsigned long long id;
} mappings[64];
static int mapped;
static struct Mapping *mappingAt(Address at) {
  for (int i = mapped; i-- > 0;)
    if (at >= mappings[i].begin && at < mappings[i].begin + mappings[i].bytes)
      return &mappings[i];
  return NULL;
}
API cuMemMap(Address at, size_t bytes, size_t offset, Address handle, unsigned long long flags) {
  if (mmap((void *)at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, files[handle],
           (off_t)offset) == MAP_FAILED ||
      mapped == 64)
    return 2;
  static unsigned long long id;
  mappings[mapped++] = (struct Mapping){at, bytes, dup(files[handle]), ++id};
  return 0;
}
API cuMemUnmap(Address at, size_t bytes) {
  struct Mapping *one = mappingAt(at);
  if (one)
    close(one->file), *one = mappings[--mapped];
  return munmap((void *)at, bytes);
}
API cuMemGetAddressRange_v2(Address *begin, size_t *bytes, Address at) {
  struct Mapping *one = mappingAt(at);
  if (one)
    return *begin = one->begin, *bytes = one->bytes, 0;
  for (Allocation *other = allocations; other; other = other->next)
    if (at >= other->begin && at < other->begin + other->bytes)
      return *begin = other->begin, *bytes = other->bytes, 0;
  return 1;
}
API cuMemRetainAllocationHandle(Address *handle, void *at) {
  struct Mapping *one = mappingAt((Address)at);
  return one ? keepFile(handle, dup(one->file)) : 1;
}
API cuPointerGetAttributes(unsigned count, int *attributes, void **values, Address address) {
  if (count == 1 && attributes[0] == 7) {
    struct Mapping *one = mappingAt(address);
    return *(unsigned long long *)values[0] = one ? one->id : 0, 0;
  }
  *(unsigned *)values[0] = 1;
  *(unsigned *)values[1] = 0;
  *(int *)values[2] = -1;
  for (Allocation *one = allocations; one; one = one->next)
    if (address >= one->begin && address < one->begin + one->bytes) {
      *(unsigned *)values[0] = 2;
      *(int *)values[2] = one->owner;
    }
  return count != 3 || attributes[0] != 2 || attributes[1] != 8 || attributes[2] != 9;
}
API cuMemSetAccess(Address at, size_t bytes, const void *access, size_t count) { return 0; }

/* Streams and graphs. */
typedef struct Stream {
  int capturing, captured;
} Stream;
API cuStreamCreate(void **out, unsigned flags) {
  return *out = calloc(1, sizeof(Stream)), flags != 1;
}
API cuStreamDestroy_v2(void *stream) { return free(stream), 0; }
API cuStreamSynchronize(void *stream) { return 0; }
API cuStreamQuery(void *stream) { return 0; }
API cuStreamIsCapturing(void *stream, int *state) {
  return *state = ((Stream *)stream)->capturing, 0;
}
API cuStreamBeginCapture_v2(void *stream, int mode) {
  *(Stream *)stream = (Stream){1, 0};
  // Relaxed: others of the thread may be captured beside it.
  return mode != 2;
}
API cuStreamEndCapture(void *stream, void **graph) {
  ((Stream *)stream)->capturing = 0;
  return *graph = stream, 0;
}
API cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags) {
  return *out = graph, 0;
}
API cuGraphLaunch(void *graph, void *stream) {
  fprintf(stderr, "replays %d launches\n", ((Stream *)graph)->captured);
  return 0;
}
API cuGraphDestroy(void *graph) { return 0; }
API cuGraphExecDestroy(void *graph) { return 0; }

API cuEventCreate(void **out, unsigned flags) { return *out = calloc(1, 8), flags != 2; }
API cuEventDestroy_v2(void *event) { return free(event), 0; }
API cuEventRecord(void *event, void *stream) { return *(void **)event = stream, 0; }
API cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  fprintf(stderr, "GPU %d: a stream follows another\n", device());
  return *(void **)event == stream || flags != 0;
}

/* Code. */
API cuModuleLoadDataEx(void **out, const void *image, unsigned count, int *options, void **values) {
  const char *target = strstr(image, ".target ");
  fprintf(stderr, "GPU %d loads %.15s\n", device(), target ? target : "machine code");
  if (!fails("cuModuleLoadDataEx"))
    return *out = strdup("module"), 0;
  snprintf(values[0], (size_t)values[1], "ptxas: line 1: it is not liked");
  return 218;
}
API cuModuleUnload(void *module) { return free(module), 0; }
API cuModuleGetFunction(void **out, void *module, const char *name) {
  return *out = strdup(name), 0;
}
API cuFuncSetAttribute(void *function, int attribute, int value) { return attribute != 8; }
API cuFuncLoad(void *function) { return 0; }
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, void *function, int threads,
                                                size_t shared) {
  return *out = 1, 0;
}
static int launch(const char *how, const char *name, unsigned programs, unsigned threads,
                  unsigned y, unsigned z, Stream *stream, void **parameters) {
  /* Rank and number of ranks follow two addresses. */
  const int32_t *words = (const int32_t *)parameters[0];
  if (fails("cuLaunchKernel"))
    return 701;
  if (stream && stream->capturing)
    ++stream->captured;
  fprintf(stderr, "%s of %s: rank %d of %d on GPU %d, %s programs, %u threads\n", how, name,
          words[4], words[5], device(),
          programs == 132  ? "132"
          : programs < 132 ? "fewer"
                           : "more",
          threads * y * z);
  return (uintptr_t)parameters[1] % 64 != 0;
}
API cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty,
                   unsigned tz, unsigned shared, void *stream, void **parameters, void **extra) {
  return launch("launch", f, x, threads, ty, tz, stream, parameters);
}
API cuLaunchCooperativeKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned threads,
                              unsigned ty, unsigned tz, unsigned shared, void *stream,
                              void **parameters) {
  return launch("cooperative launch", f, x, threads, ty, tz, stream, parameters);
}
typedef struct {
  int id, reserved;
  unsigned value[16];
} Attribute;
typedef struct {
  unsigned grid[3], block[3], shared;
  void *stream;
  const Attribute *attributes;
  unsigned count;
} Config;
/* Programs of a cluster, by the attribute of that number. */
static unsigned cluster(const Config *config) {
  for (unsigned i = 0; i < config->count; ++i)
    if (config->attributes[i].id == 4)
      return config->attributes[i].value[0];
  return 1;
}
API cuOccupancyMaxActiveClusters(int *out, void *function, const Config *config) {
  return *out = number("FAKE_CUDA_CLUSTERS", 0) ? (int)(132 / cluster(config)) : 0, 0;
}
API cuLaunchKernelEx(const Config *config, void *f, void **parameters, void **extra) {
  fprintf(stderr, "clusters of %u: ", cluster(config));
  return launch("launch", f, config->grid[0], config->block[0], config->block[1], config->block[2],
                config->stream, parameters);
}
API cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *data, const uint64_t *size,
                           const uint64_t *stride, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int promotion, int fill) {
  return memset(map, 7, 128), 0;
}
