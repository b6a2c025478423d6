/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * A libnvshmem_host.so.3 without GPUs: the functions that the runtime uses, which write down how
 * they were called, one line a call, in fake_nvshmem_log. Memory is the host's, and another rank's
 * is said to be so many TiB further. Environment: FAKE_NVSHMEM_VERSION, as 30405;
 * FAKE_NVSHMEM_FAIL, a function that fails; FAKE_NVSHMEM_STATUS, what is said after the start;
 * FAKE_NVSHMEM_RANKS_A_HOST: ranks of other hosts are not mapped. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef struct {
  int version;
  char internal[124];
} UniqueId;
typedef struct {
  int version;
  UniqueId *id;
  int rank, ranks;
} UniqueIdArguments;
typedef struct {
  int version;
  void *communicator;
  struct {
    int version;
    UniqueIdArguments id;
    char content[96];
  } arguments;
} Attributes;

API char fake_nvshmem_log[1 << 14];
static UniqueIdArguments place;
static int starts;

__attribute__((format(printf, 1, 2))) static void note(const char *text, ...) {
  size_t used = strlen(fake_nvshmem_log);
  va_list values;
  va_start(values, text);
  vsnprintf(fake_nvshmem_log + used, sizeof fake_nvshmem_log - used, text, values);
  va_end(values);
  strncat(fake_nvshmem_log, "\n", sizeof fake_nvshmem_log - strlen(fake_nvshmem_log) - 1);
}
static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}
static int fails(const char *call) {
  const char *name = getenv("FAKE_NVSHMEM_FAIL");
  return name && strcmp(name, call) == 0 ? 7 : 0;
}
static const char *variable(const char *name) {
  const char *text = getenv(name);
  return text ? text : "-";
}

API void nvshmemx_vendor_get_version_info(int *major, int *minor, int *patch) {
  const int version = number("FAKE_NVSHMEM_VERSION", 30405);
  *major = version / 10000, *minor = version / 100 % 100, *patch = version % 100;
}
API int nvshmemx_get_uniqueid(UniqueId *id) {
  note("get_uniqueid, layout %#x", (unsigned)id->version);
  strcpy(id->internal, "the job");
  return fails("get_uniqueid");
}
API int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, const UniqueId *id, Attributes *out) {
  out->arguments.id.id = (UniqueId *)id;
  out->arguments.id.rank = rank;
  out->arguments.id.ranks = ranks;
  return fails("set_attr");
}
API int nvshmemx_hostlib_init_attr(unsigned flags, Attributes *attributes) {
  if (starts++ == 0)
    place = attributes->arguments.id;
  note("init, flags %u, layouts %#x %#x %#x, rank %d of %d, id %s", flags,
       (unsigned)attributes->version, (unsigned)attributes->arguments.version,
       (unsigned)attributes->arguments.id.version, place.rank, place.ranks, place.id->internal);
  note("with NVLS off %s, transport %s, size %s", variable("NVSHMEM_DISABLE_NVLS"),
       variable("NVSHMEM_REMOTE_TRANSPORT"), variable("NVSHMEM_SYMMETRIC_SIZE"));
  return fails("init");
}
API int nvshmemx_init_status(void) { return starts ? number("FAKE_NVSHMEM_STATUS", 2) : 0; }
API void nvshmemx_hostlib_finalize(void) { --starts, note("finalize"); }
API int nvshmem_my_pe(void) { return place.rank; }
API int nvshmem_n_pes(void) { return place.ranks; }
API void *nvshmem_align(size_t alignment, size_t bytes) {
  note("align %zu, %zu bytes", alignment, bytes);
  if (fails("align"))
    return NULL;
  /* As it was left by somebody else. */
  return memset(aligned_alloc(alignment, bytes), 0xA5, bytes);
}
API void nvshmem_free(void *memory) {
  note("free");
  free(memory);
}
API void *nvshmem_ptr(const void *memory, int rank) {
  const int each = number("FAKE_NVSHMEM_RANKS_A_HOST", place.ranks);
  if ((fails("ptr") && rank != place.rank) || rank / each != place.rank / each)
    return NULL;
  return (char *)memory + ((int64_t)(rank - place.rank) << 40);
}
API int nvshmemx_buffer_register(void *memory, size_t bytes) {
  (void)memory;
  note("register %zu bytes", bytes);
  return fails("register");
}
API int nvshmemx_buffer_unregister(void *memory) {
  (void)memory;
  note("unregister");
  return 0;
}
API int nvshmemx_cumodule_init(void *module) {
  note("cumodule_init");
  return module ? fails("cumodule_init") : 8;
}
API int nvshmemx_cumodule_finalize(void *module) {
  note("cumodule_finalize");
  return module ? 0 : 8;
}
