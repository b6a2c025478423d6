// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontend/base/scratch_file.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dtile {

namespace {

llvm::Error cannot(llvm::StringRef what) {
  return llvm::createStringError("cannot " + what + " a temporary file: " +
                                 std::error_code(errno, std::generic_category()).message());
}

/// The folder for temporary files.
std::string folder() {
  const std::optional<std::string> named = llvm::sys::Process::GetEnv("TMPDIR");
  return named && !named->empty() ? *named : "/tmp";
}

} // namespace

llvm::Expected<ScratchFile> ScratchFile::create(llvm::StringRef bytes) {
  ScratchFile file;
  // Programs that are started have it as well: it stays open in them, under the same number.
  file.fd_ = ::memfd_create("dtile", 0);
  file.path_ = "/proc/self/fd/" + std::to_string(file.fd_);
  if (file.fd_ < 0 || ::access(file.path_.c_str(), R_OK | W_OK) != 0) {
    if (file.fd_ >= 0)
      ::close(file.fd_);
    do {
      file.path_ = folder() + "/dtile-" +
                   llvm::utohexstr(llvm::sys::Process::GetRandomNumber(), /*LowerCase=*/true);
      file.fd_ = ::open(file.path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    } while (file.fd_ < 0 && errno == EEXIST);
    if (file.fd_ < 0)
      return cannot("make");
    file.hasName_ = true;
    llvm::sys::RemoveFileOnSignal(file.path_);
  }
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.fd_, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR)
      return cannot("write");
    bytes = bytes.drop_front(count < 0 ? 0 : size_t(count));
  }
  return file;
}

ScratchFile::ScratchFile(ScratchFile &&other) noexcept
    : path_(std::move(other.path_)), hasName_(std::exchange(other.hasName_, false)),
      fd_(std::exchange(other.fd_, -1)) {}

ScratchFile::~ScratchFile() {
  if (hasName_) {
    ::unlink(path_.c_str());
    llvm::sys::DontRemoveFileOnSignal(path_);
  }
  if (fd_ >= 0)
    ::close(fd_);
}

llvm::Expected<std::string> ScratchFile::contents() const {
  // Some replace the file, so it is asked for by its name.
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return cannot("read");
  std::string text;
  char bytes[1 << 16];
  ssize_t count = 0;
  while ((count = ::read(fd, bytes, sizeof(bytes))) > 0 || (count < 0 && errno == EINTR))
    if (count > 0)
      text.append(bytes, size_t(count));
  const int error = errno;
  ::close(fd);
  errno = error;
  if (count < 0)
    return cannot("read");
  return text;
}

} // namespace dtile
