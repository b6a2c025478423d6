// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads what Linux says of memory.
#include "frontend/base/memory_limit.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>

namespace dtile {

namespace {

constexpr uint64_t kNoLimit = UINT64_MAX;
/// Asking takes a tenth of a millisecond.
constexpr uint64_t kSmall = uint64_t(32) << 20;

std::string contents(const llvm::Twine &path) {
  // Files of /proc have no size.
  auto buffer = llvm::MemoryBuffer::getFileAsStream(path);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

/// "max", and what cannot be read, is no limit.
uint64_t number(const llvm::Twine &path) {
  uint64_t value = 0;
  return llvm::StringRef(contents(path)).trim().getAsInteger(10, value) ? kNoLimit : value;
}

uint64_t left(uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; }

uint64_t leftOnMachine() {
  const std::string text = contents("/proc/meminfo");
  const llvm::StringRef line = llvm::StringRef(text).split("MemAvailable:").second.ltrim();
  uint64_t kilobytes = 0;
  return line.take_while(llvm::isDigit).getAsInteger(10, kilobytes) ? kNoLimit : kilobytes << 10;
}

/// The process's control group and those around it. Pages of files are given back when asked for.
uint64_t leftInGroup() {
  const std::string own = contents("/proc/self/cgroup");
  llvm::StringRef group = llvm::StringRef(own).split("0::").second.split('\n').first;
  uint64_t least = kNoLimit;
  while (true) {
    const std::string folder = "/sys/fs/cgroup" + group.rtrim('/').str();
    const uint64_t limit = number(folder + "/memory.max");
    if (limit != kNoLimit) {
      const uint64_t used = number(folder + "/memory.current");
      const std::string stat = contents(folder + "/memory.stat");
      uint64_t files = 0;
      if (llvm::StringRef(stat)
              .split("\ninactive_file ")
              .second.take_while(llvm::isDigit)
              .getAsInteger(10, files))
        files = 0;
      least = std::min(least, left(limit, left(used == kNoLimit ? 0 : used, files)));
    }
    const size_t slash = group.rtrim('/').rfind('/');
    if (slash == llvm::StringRef::npos)
      return least;
    group = group.take_front(slash);
  }
}

/// `ulimit -v` and `ulimit -d`.
uint64_t leftByLimits() {
  auto soft = [](int what) {
    rlimit limit{};
    return ::getrlimit(what, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? kNoLimit
                                                                             : limit.rlim_cur;
  };
  const uint64_t space = soft(RLIMIT_AS);
  const uint64_t data = soft(RLIMIT_DATA);
  if (space == kNoLimit && data == kNoLimit)
    return kNoLimit;
  // Pages: of all, resident, shared, of code, of nothing, of data.
  const std::string text = contents("/proc/self/statm");
  llvm::SmallVector<llvm::StringRef, 8> fields;
  llvm::SplitString(text, fields);
  auto used = [&](size_t field) {
    uint64_t pages = 0;
    if (field < fields.size())
      (void)fields[field].getAsInteger(10, pages);
    return pages * uint64_t(::sysconf(_SC_PAGESIZE));
  };
  return std::min(left(space, used(0)), left(data, used(5)));
}

} // namespace

uint64_t availableMemory() { return std::min({leftOnMachine(), leftInGroup(), leftByLimits()}); }

std::string bytesText(uint64_t bytes) {
  if (bytes < 1'000'000'000)
    return llvm::formatv("{0:f1} MB", double(bytes) * 1e-6).str();
  return llvm::formatv("{0:f1} GB", double(bytes) * 1e-9).str();
}

llvm::Error checkMemory(uint64_t bytes) {
  if (bytes < kSmall)
    return llvm::Error::success();
  const uint64_t there = availableMemory();
  if (bytes <= there)
    return llvm::Error::success();
  return llvm::createStringError("it takes " + bytesText(bytes) + " of memory, and " +
                                 bytesText(there) + " are left");
}

} // namespace dtile
