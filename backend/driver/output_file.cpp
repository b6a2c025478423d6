// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that appear whole or not at all: temporaries in the same folder, then renames.
#include "backend/driver/output_file.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/raw_ostream.h"

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

// Gives the file its bytes, or discards it.
llvm::Error fill(fs::TempFile &temporary, llvm::StringRef path, llvm::StringRef bytes) {
  llvm::raw_fd_ostream os(temporary.FD, /*shouldClose=*/false);
  os << bytes;
  os.flush();
  const std::error_code error = os.error();
  os.clear_error();
  if (!error)
    return llvm::Error::success();
  llvm::consumeError(temporary.discard());
  return cannotWrite(path, error.message() + "; free some space or choose another folder");
}

} // namespace

OutputFiles::~OutputFiles() {
  for (Pending &file : pending_)
    llvm::consumeError(file.temporary.discard());
}

llvm::Error OutputFiles::add(llvm::StringRef path, llvm::StringRef bytes) {
  if (path == "-") {
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
  llvm::SmallString<256> target(path);
  // The file that a link names is replaced, not the link.
  if (fs::exists(status))
    (void)fs::real_path(path, target);
  if (llvm::any_of(pending_, [&](const Pending &file) { return file.target == target; }))
    return cannotWrite(path, "it is the name of two outputs");
  const unsigned mode =
      fs::exists(status) ? unsigned(status.permissions()) : unsigned(fs::all_read | fs::all_write);
  auto temporary = fs::TempFile::create(target + ".%%%%%%.tmp", mode);
  if (!temporary)
    return cannotWrite(path, llvm::toString(temporary.takeError()) +
                                 "; check that the folder exists and is writable");
  if (llvm::Error error = fill(*temporary, path, bytes))
    return error;
  pending_.push_back({std::move(*temporary), path.str(), target.str().str()});
  return llvm::Error::success();
}

llvm::Error OutputFiles::commit() {
  std::vector<std::string> made;
  llvm::Error failure = llvm::Error::success();
  for (Pending &file : pending_) {
    if (failure) {
      llvm::consumeError(file.temporary.discard());
      continue;
    }
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
