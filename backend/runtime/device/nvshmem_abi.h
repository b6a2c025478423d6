// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of the ABI of NVSHMEM's host library that the runtime uses, declared by itself so that
// nothing of NVSHMEM is needed to build it. Names, sizes and values are those of NVSHMEM 3's
// headers; functions are opened by name.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtile::runtime::nvshmem {

// Structures begin with the version of their layout, 1, and their size.

/// By which processes find each other: nvshmemx_uniqueid_t.
struct UniqueId {
  int version = (1 << 16) + 128;
  char internal[124] = {};
};
static_assert(sizeof(UniqueId) == 128);

struct UniqueIdArguments {
  int version = (1 << 16) + 24;
  UniqueId *id = nullptr;
  int rank = -1, ranks = -1;
};
static_assert(sizeof(UniqueIdArguments) == 24);

struct InitArguments {
  int version = (1 << 16) + 128;
  UniqueIdArguments uniqueId;
  char content[96] = {};
};
static_assert(sizeof(InitArguments) == 128);

/// nvshmemx_init_attr_t.
struct InitAttributes {
  int version = (1 << 16) + 144;
  void *communicator = nullptr;
  InitArguments arguments;
};
static_assert(sizeof(InitAttributes) == 144);

/// NVSHMEMX_INIT_WITH_UNIQUEID
inline constexpr unsigned kInitWithUniqueId = 1u << 3;

// nvshmemx_init_status_t
inline constexpr int kIsInitialized = 2;
/// Processes share a GPU, which does not run their kernels side by side.
inline constexpr int kIsLimited = 3;

#define DTILE_NVSHMEM_FUNCTIONS                                                                    \
  FN(void, nvshmemx_vendor_get_version_info, (int *major, int *minor, int *patch))                 \
  FN(int, nvshmemx_get_uniqueid, (UniqueId *))                                                     \
  FN(int, nvshmemx_set_attr_uniqueid_args,                                                         \
     (int rank, int ranks, const UniqueId *, InitAttributes *))                                    \
  FN(int, nvshmemx_hostlib_init_attr, (unsigned flags, InitAttributes *))                          \
  FN(int, nvshmemx_init_status, ())                                                                \
  FN(void, nvshmemx_hostlib_finalize, ())                                                          \
  FN(int, nvshmem_my_pe, ())                                                                       \
  FN(int, nvshmem_n_pes, ())                                                                       \
  FN(void *, nvshmem_align, (size_t alignment, size_t bytes))                                      \
  FN(void, nvshmem_free, (void *))                                                                 \
  FN(void *, nvshmem_ptr, (const void *, int rank))                                                \
  FN(int, nvshmemx_buffer_register, (void *, size_t bytes))                                        \
  FN(int, nvshmemx_buffer_unregister, (void *))                                                    \
  FN(int, nvshmemx_cumodule_init, (void *module))                                                  \
  FN(int, nvshmemx_cumodule_finalize, (void *module))

/// The library's entry points.
struct Functions {
#define FN(RESULT, NAME, ARGUMENTS) RESULT(*NAME) ARGUMENTS = nullptr;
  DTILE_NVSHMEM_FUNCTIONS
#undef FN
};

} // namespace dtile::runtime::nvshmem
