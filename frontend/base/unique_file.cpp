// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files by the system's own calls.
#include "frontend/base/unique_file.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dtile {

namespace {

llvm::Error lastError() {
  return llvm::createStringError(std::error_code(errno, std::generic_category()).message());
}

} // namespace

template <typename Use> llvm::Error UniqueFile::findName(Use use) {
  // Short, whatever the file is to be called: names have 255 bytes at most.
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string name = folder_.empty() ? "" : folder_ + "/";
    name += ".dtile-" + llvm::utohexstr(llvm::sys::Process::GetRandomNumber(), /*LowerCase=*/true) +
            ".tmp";
    // Before it is there: a signal may come at any time.
    llvm::sys::RemoveFileOnSignal(name);
    if (use(name)) {
      name_ = std::move(name);
      return llvm::Error::success();
    }
    const int error = errno;
    llvm::sys::DontRemoveFileOnSignal(name);
    errno = error;
    if (error != EEXIST)
      break;
  }
  return lastError();
}

llvm::Expected<UniqueFile> UniqueFile::create(llvm::StringRef folder, unsigned mode) {
  UniqueFile file(folder.str(), -1);
#ifdef O_TMPFILE
  file.fd_ =
      ::open(folder.empty() ? "." : file.folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
  // It gets its name by way of /proc.
  if (file.fd_ >= 0 && ::access("/proc/self/fd", X_OK) == 0)
    return file;
  if (file.fd_ >= 0)
    ::close(std::exchange(file.fd_, -1));
#endif
  if (llvm::Error error = file.findName([&](const std::string &name) {
        file.fd_ = ::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode);
        return file.fd_ >= 0;
      }))
    return error;
  return file;
}

UniqueFile::UniqueFile(UniqueFile &&other) noexcept
    : folder_(std::move(other.folder_)), name_(std::move(other.name_)),
      fd_(std::exchange(other.fd_, -1)) {
  other.name_.clear();
}

UniqueFile::~UniqueFile() {
  removeName();
  if (fd_ >= 0)
    ::close(fd_);
}

void UniqueFile::removeName() {
  if (name_.empty())
    return;
  ::unlink(name_.c_str());
  llvm::sys::DontRemoveFileOnSignal(name_);
  name_.clear();
}

llvm::Error UniqueFile::write(llvm::StringRef bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return lastError();
    bytes = bytes.drop_front(size_t(count));
  }
  return llvm::Error::success();
}

llvm::Error UniqueFile::keep(const std::string &path) {
  // No link takes another's place, a new name does.
  if (name_.empty())
    if (llvm::Error error = findName([&](const std::string &name) {
          const std::string own = "/proc/self/fd/" + std::to_string(fd_);
          return ::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
        }))
      return error;
  if (::rename(name_.c_str(), path.c_str()) != 0)
    return lastError();
  llvm::sys::DontRemoveFileOnSignal(name_);
  name_.clear();
  // What a file system could not write it may say only now.
  return ::close(std::exchange(fd_, -1)) == 0 ? llvm::Error::success() : lastError();
}

} // namespace dtile
