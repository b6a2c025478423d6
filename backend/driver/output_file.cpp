// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that appear whole or not at all: a temporary in the same folder, then a rename.
#include "backend/driver/output_file.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace dtile::driver {

namespace {

namespace fs = llvm::sys::fs;

llvm::Error cannotWrite(llvm::StringRef path, const std::string &why) {
  return llvm::createStringError("cannot write `" + path.str() + "`: " + why);
}

// A link is written through, and devices and pipes have no folder to rename in.
bool writesInPlace(const fs::file_status &status) {
  return fs::exists(status) && status.type() != fs::file_type::regular_file;
}

llvm::Error writeThrough(llvm::StringRef path, llvm::StringRef bytes) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error, fs::CD_OpenExisting);
  if (!error) {
    os << bytes;
    os.close();
    error = os.error();
    os.clear_error();
  }
  return error ? cannotWrite(path, error.message()) : llvm::Error::success();
}

} // namespace

llvm::Error writeFile(llvm::StringRef path, llvm::StringRef bytes) {
  if (path == "-") {
    llvm::outs() << bytes;
    return llvm::Error::success();
  }
  fs::file_status status;
  // A missing file is what is expected.
  (void)fs::status(path, status);
  if (status.type() == fs::file_type::directory_file)
    return cannotWrite(path, "it is a directory; give the name of a file");
  if (writesInPlace(status))
    return writeThrough(path, bytes);
  llvm::SmallString<256> target(path);
  // The file that a link names is replaced, not the link.
  if (fs::exists(status))
    (void)fs::real_path(path, target);
  auto temporary = fs::TempFile::create(target + ".%%%%%%.tmp", status.permissions() ==
                                                fs::perms_not_known ||
                                                !fs::exists(status)
                                            ? fs::all_read | fs::all_write
                                            : status.permissions());
  if (!temporary)
    return cannotWrite(path, llvm::toString(temporary.takeError()) +
                                 "; check that the folder exists and is writable");
  std::error_code error;
  {
    llvm::raw_fd_ostream os(temporary->FD, /*shouldClose=*/false);
    os << bytes;
    os.flush();
    error = os.error();
    os.clear_error();
  }
  if (error) {
    llvm::consumeError(temporary->discard());
    return cannotWrite(path, error.message());
  }
  if (llvm::Error failed = temporary->keep(target))
    return cannotWrite(path, llvm::toString(std::move(failed)));
  return llvm::Error::success();
}

} // namespace dtile::driver
