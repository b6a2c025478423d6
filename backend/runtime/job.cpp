// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Providers for processes are shared objects beside this library, so that it links no MPI.
// Environment:
//   DTILE_SHMEM_PROVIDER   the provider's file, instead of looking for it
//   DTILE_SHMEM_INDIRECT   1: send messages even where memory could be addressed (to test the
//   network's path)
#include "backend/runtime/job.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <unistd.h>
#include <vector>

namespace dtile::runtime {

namespace {

constexpr const char *kOpenshmem = "libdtile_shmem_openshmem.so";

/// Launchers of OpenSHMEM jobs set one of these.
constexpr const char *kJobVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK",
                                         "SHMEM_NPES", "DTILE_SHMEM_PROVIDER"};

/// The folder of an absolute path; "" of any other, which would mean the current folder or one
/// below it: code is never opened from there.
std::string folderOf(const std::string &path) {
  return path.starts_with('/') ? path.substr(0, path.rfind('/')) : std::string();
}

/// The file that this code was loaded from, a shared object or the program, as the kernel of the
/// system knows it; "" where that is not to be found out. Not dladdr's name: of the program that is
/// argv[0], which whoever started it chose, and which without a folder was looked up in PATH.
std::string fileOfThisCode() {
  std::ifstream maps("/proc/self/maps");
  const auto here = reinterpret_cast<uintptr_t>(&joinJob);
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2 || here < begin || here >= end)
      continue;
    const size_t path = line.find('/');
    return path == std::string::npos ? std::string() : line.substr(path);
  }
  return {};
}

/// Where the provider may be: beside this library, or in lib/ beside the program's folder.
std::vector<std::string> candidates() {
  if (const char *named = std::getenv("DTILE_SHMEM_PROVIDER"))
    return {named};
  std::vector<std::string> found;
  const auto add = [&](const std::string &folder, const std::string &below) {
    const std::string path = folder + below + kOpenshmem;
    if (!folder.empty() && std::find(found.begin(), found.end(), path) == found.end())
      found.push_back(path);
  };
  add(folderOf(fileOfThisCode()), "/");
  char program[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  // One that fills the buffer may have been cut.
  if (length > 0 && size_t(length) < sizeof program) {
    const std::string folder = folderOf(std::string(program, size_t(length)));
    add(folder, "/");
    add(folder, "/../lib/");
  }
  // As the system's loader looks for it.
  found.emplace_back(kOpenshmem);
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
                               .indirect = indirect && std::strcmp(indirect, "1") == 0,
                               .timeout_ms = options.wait_timeout_ms};
  char error[1024] = "";
  *out = open(DTILE_SHMEM_VERSION, &config, error, sizeof error);
  return *out ? Status() : Status{DTILE_UNAVAILABLE, error};
}

} // namespace dtile::runtime
