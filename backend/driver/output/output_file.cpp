// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that appear whole or not at all: temporaries in the same folder, then renames.
#include "backend/driver/output/output_file.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <climits>
#include <unistd.h>

namespace dtile::driver {

namespace {

namespace fs = llvm::sys::fs;

llvm::Error cannotWrite(llvm::StringRef path, const std::string &why) {
  return llvm::createStringError("cannot write `" + path.str() + "`: " + why);
}

// Devices and pipes have no folder to rename in.
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

std::string realPath(llvm::StringRef path) {
  std::string named = path.str();
  // Links may lead to links; as many as the system follows.
  for (int i = 0; i < 40; ++i) {
    const std::string folder = llvm::sys::path::parent_path(named).str();
    llvm::SmallString<256> whole;
    // A folder that is not there is a mistake that opening finds.
    if (fs::real_path(folder.empty() ? "." : folder, whole))
      return named;
    llvm::sys::path::append(whole, llvm::sys::path::filename(named));
    named = whole.str().str();
    char to[PATH_MAX];
    const ssize_t length = ::readlink(named.c_str(), to, sizeof(to));
    if (length < 0)
      break;
    const llvm::StringRef link(to, size_t(length));
    if (llvm::sys::path::is_absolute(link)) {
      named = link.str();
    } else {
      llvm::sys::path::remove_filename(whole);
      llvm::sys::path::append(whole, link);
      named = whole.str().str();
    }
  }
  return named;
}

llvm::Error OutputFiles::add(llvm::StringRef path, llvm::StringRef bytes) {
  if (path == "-") {
    if (std::exchange(usesStandardOutput_, true))
      return llvm::createStringError("standard output is the place of two outputs; give one of "
                                     "them the name of a file");
    llvm::outs() << bytes;
    return llvm::Error::success();
  }
  if (path.empty())
    return llvm::createStringError("the name of an output is empty; give the name of a file");
  fs::file_status status;
  // That the file is missing is what is expected.
  (void)fs::status(path, status);
  if (status.type() == fs::file_type::directory_file)
    return cannotWrite(path, "it is a folder; give the name of a file");
  if (fs::exists(status) && status.type() != fs::file_type::regular_file)
    return writeThrough(path, bytes);
  if (fs::exists(status) && fs::access(path, fs::AccessMode::Write))
    return cannotWrite(path, "it is write-protected; make it writable or choose another name");
  // The file that a link names is replaced, not the link.
  std::string target = realPath(path);
  if (llvm::any_of(pending_, [&](const Pending &file) { return file.target == target; }))
    return cannotWrite(path, "it is the name of two outputs");
  const unsigned mode =
      fs::exists(status) ? unsigned(status.permissions()) : unsigned(fs::all_read | fs::all_write);
  auto temporary = UniqueFile::create(llvm::sys::path::parent_path(target), mode);
  if (!temporary)
    return cannotWrite(path, llvm::toString(temporary.takeError()) +
                                 "; check that the folder exists and is writable");
  if (llvm::Error error = temporary->write(bytes))
    return cannotWrite(path, llvm::toString(std::move(error)) +
                                 "; free some space or choose another folder");
  pending_.push_back({std::move(*temporary), path.str(), std::move(target)});
  return llvm::Error::success();
}

llvm::Error OutputFiles::commit() {
  std::vector<std::string> made;
  llvm::Error failure = llvm::Error::success();
  for (Pending &file : pending_) {
    if (failure)
      break;
    if (llvm::Error error = file.temporary.keep(file.target))
      failure = llvm::joinErrors(std::move(failure),
                                 cannotWrite(file.path, llvm::toString(std::move(error))));
    else
      made.push_back(file.target);
  }
  pending_.clear();
  if (failure)
    for (const std::string &path : made)
      (void)fs::remove(path);
  return failure;
}

llvm::Error writeFile(llvm::StringRef path, llvm::StringRef bytes) {
  OutputFiles files;
  if (llvm::Error error = files.add(path, bytes))
    return error;
  return files.commit();
}

} // namespace dtile::driver
