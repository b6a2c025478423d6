// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Providers for processes are shared objects beside this library, so that it links no MPI.
// Environment:
//   DTILE_SHMEM_PROVIDER   the provider's file, instead of looking for it
//   DTILE_SHMEM_INDIRECT   1: send messages even where memory could be addressed (to test the
//   network's path)
#include "backend/runtime/job.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>
#include <vector>

namespace dtile::runtime {

namespace {

constexpr const char *kOpenshmem = "libdtile_shmem_openshmem.so";

/// Launchers of OpenSHMEM jobs set one of these.
constexpr const char *kJobVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK",
                                         "SHMEM_NPES", "DTILE_SHMEM_PROVIDER"};

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// Where the provider may be: beside this library, or in lib/ beside the program's folder.
std::vector<std::string> candidates() {
  std::vector<std::string> found;
  if (const char *named = std::getenv("DTILE_SHMEM_PROVIDER"))
    return {named};
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(&joinJob), &info) && info.dli_fname)
    found.push_back(folderOf(info.dli_fname) + "/" + kOpenshmem);
  char program[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length > 0) {
    std::string folder = folderOf(std::string(program, size_t(length)));
    found.push_back(folder + "/" + kOpenshmem);
    found.push_back(folder + "/../lib/" + kOpenshmem);
  }
  // As the system's loader looks for it.
  found.push_back(kOpenshmem);
  return found;
}

} // namespace

bool inJob() {
  return std::any_of(std::begin(kJobVariables), std::end(kJobVariables),
                     [](const char *name) { return std::getenv(name) != nullptr; });
}

Status joinJob(const dtile_team_options &options, dtile_shmem **out) {
  if (!inJob())
    return {DTILE_UNAVAILABLE, "this process belongs to no job; start it with oshrun, or use "
                               "dtile_team_create_threads"};
  void *library = nullptr;
  std::string tried;
  for (const std::string &path : candidates()) {
    // Open MPI's own plugins look for its symbols among the global ones.
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library)
      break;
    tried += "\n  " + std::string(dlerror());
  }
  if (!library)
    return {DTILE_UNAVAILABLE, "the OpenSHMEM provider cannot be opened; it is built where oshcc "
                               "is found:" +
                                   tried};
  auto open = reinterpret_cast<dtile_shmem_open_fn>(dlsym(library, DTILE_SHMEM_OPEN_SYMBOL));
  if (!open)
    return {DTILE_UNAVAILABLE, std::string("not a provider: ") + dlerror()};
  const char *indirect = std::getenv("DTILE_SHMEM_INDIRECT");
  dtile_shmem_config config = {.ranks = 0,
                               .heap_bytes = options.symmetric_bytes,
                               .indirect = indirect && std::strcmp(indirect, "1") == 0};
  char error[1024] = "";
  *out = open(DTILE_SHMEM_VERSION, &config, error, sizeof error);
  return *out ? Status() : Status{DTILE_UNAVAILABLE, error};
}

} // namespace dtile::runtime
