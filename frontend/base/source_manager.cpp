// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads files and turns global offsets into files, lines and columns.
#include "frontend/base/source_manager.h"

#include "frontend/base/check.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace dtile {

struct SourceManager::File {
  std::string name;
  std::string text;
  // Global offset of the first byte.
  uint32_t start = 0;
  // Offsets in the file at which lines begin.
  std::vector<uint32_t> lineStarts;
  // Set for files that came from disk, so that one reached by two names is loaded once.
  std::optional<llvm::sys::fs::UniqueID> onDisk;

  // Index of the line that holds an offset.
  [[nodiscard]] size_t lineIndex(uint32_t offset) const {
    auto after = std::upper_bound(lineStarts.begin(), lineStarts.end(), offset);
    return static_cast<size_t>(after - lineStarts.begin()) - 1;
  }

  // The text of a line without its newline.
  [[nodiscard]] llvm::StringRef line(size_t index) const {
    const uint32_t begin = lineStarts[index];
    const size_t end = index + 1 < lineStarts.size() ? lineStarts[index + 1] - 1 : text.size();
    llvm::StringRef result = llvm::StringRef(text).slice(begin, end);
    result.consume_back("\r");
    return result;
  }
};

namespace {

std::vector<uint32_t> findLineStarts(llvm::StringRef text) {
  std::vector<uint32_t> starts{0};
  for (size_t at = text.find('\n'); at != llvm::StringRef::npos; at = text.find('\n', at + 1))
    starts.push_back(static_cast<uint32_t>(at + 1));
  return starts;
}

// Continuation bytes do not start a code point.
bool startsCodePoint(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

llvm::Error cannotLoad(llvm::StringRef path, const llvm::Twine &why) {
  return llvm::createStringError("cannot read `" + path + "`: " + why);
}

// What a file holds; where that is more than `limit`, some more than it. Devices have no end.
llvm::Expected<std::string> readUpTo(llvm::StringRef path, size_t limit) {
  namespace fs = llvm::sys::fs;
  constexpr size_t kBytesAtOnce = size_t(1) << 16;
  llvm::Expected<fs::file_t> file = fs::openNativeFileForRead(path);
  if (!file)
    return cannotLoad(path, llvm::toString(file.takeError()));
  // Nothing was written that closing could lose.
  const auto close = llvm::make_scope_exit([&] { std::ignore = fs::closeFile(*file); });
  std::string text;
  while (text.size() <= limit) {
    const size_t used = text.size();
    text.resize(used + kBytesAtOnce);
    llvm::Expected<size_t> count = fs::readNativeFile(*file, {&text[used], kBytesAtOnce});
    text.resize(used + (count ? *count : 0));
    if (count && *count != 0)
      continue;
    return count ? llvm::Expected<std::string>(std::move(text))
                 : cannotLoad(path, llvm::toString(count.takeError()));
  }
  return text;
}

} // namespace

SourceManager::SourceManager() = default;
SourceManager::~SourceManager() = default;

llvm::Expected<FileId> SourceManager::load(llvm::StringRef path) {
  namespace fs = llvm::sys::fs;
  if (path.empty())
    return llvm::createStringError("the path of a source file is empty; give the name of a file");
  fs::file_status status;
  if (std::error_code error = fs::status(path, status))
    return cannotLoad(path, error.message() + "; check the spelling of the path");
  if (status.type() == fs::file_type::directory_file)
    return cannotLoad(path, "it is a directory; give the name of a file in it");
  const fs::UniqueID id = status.getUniqueID();
  for (size_t i = 0; i < files_.size(); ++i)
    if (files_[i]->onDisk == id)
      return FileId(i);
  const uint64_t used = files_.empty() ? 1 : files_.back()->start + files_.back()->text.size() + 1;
  auto tooLarge = [&](uint64_t size) -> bool {
    return size > kMaxFileBytes || used + size + 1 > UINT32_MAX;
  };
  auto limitText = [] {
    return "at most " + std::to_string(kMaxFileBytes >> 20) + " MiB a file are accepted";
  };
  if (tooLarge(status.getSize()))
    return cannotLoad(path,
                      "it has " + std::to_string(status.getSize()) + " bytes; " + limitText());
  llvm::Expected<std::string> text = readUpTo(path, kMaxFileBytes);
  if (!text)
    return text.takeError();
  // Pipes and devices tell their size only now.
  if (tooLarge(text->size()))
    return cannotLoad(path, limitText());
  const FileId file = add(path, std::move(*text));
  files_.back()->onDisk = id;
  return file;
}

FileId SourceManager::add(llvm::StringRef name, std::string text) {
  auto file = std::make_unique<File>();
  const uint64_t start =
      files_.empty() ? 1 : uint64_t(files_.back()->start) + files_.back()->text.size() + 1;
  DTILE_CHECK(start + text.size() + 1 <= UINT32_MAX, "more than 4 GiB of source text");
  file->name = name.str();
  file->text = std::move(text);
  file->start = static_cast<uint32_t>(start);
  file->lineStarts = findLineStarts(file->text);
  files_.push_back(std::move(file));
  return FileId(files_.size() - 1);
}

llvm::StringRef SourceManager::text(FileId file) const { return files_[size_t(file)]->text; }
llvm::StringRef SourceManager::name(FileId file) const { return files_[size_t(file)]->name; }
SourceLoc SourceManager::start(FileId file) const { return {files_[size_t(file)]->start}; }

SourceLoc SourceManager::locAt(FileId file, uint32_t byteOffset) const {
  DTILE_CHECK(byteOffset <= files_[size_t(file)]->text.size(), "offset past the end of its file");
  return {files_[size_t(file)]->start + byteOffset};
}

FileId SourceManager::fileOf(SourceLoc loc) const {
  DTILE_CHECK(loc.isValid() && !files_.empty(), "no file holds an invalid position");
  auto after = std::upper_bound(
      files_.begin(), files_.end(), loc.offset,
      [](uint32_t offset, const std::unique_ptr<File> &file) { return offset < file->start; });
  const size_t index = static_cast<size_t>(after - files_.begin()) - 1;
  DTILE_CHECK(loc.offset - files_[index]->start <= files_[index]->text.size(),
              "position past the last file");
  return FileId(index);
}

uint32_t SourceManager::offsetInFile(SourceLoc loc) const {
  return loc.offset - files_[size_t(fileOf(loc))]->start;
}

PresumedLoc SourceManager::presumed(SourceLoc loc) const {
  const File &file = *files_[size_t(fileOf(loc))];
  const uint32_t offset = loc.offset - file.start;
  const size_t line = file.lineIndex(offset);
  const uint32_t begin = file.lineStarts[line];
  const llvm::StringRef before = llvm::StringRef(file.text).slice(begin, offset);
  const auto column = std::count_if(before.begin(), before.end(), startsCodePoint) + 1;
  return {file.name, static_cast<uint32_t>(line + 1), static_cast<uint32_t>(column)};
}

llvm::StringRef SourceManager::text(SourceRange range) const {
  if (!range.isValid())
    return {};
  const File &file = *files_[size_t(fileOf(range.begin))];
  return llvm::StringRef(file.text).slice(range.begin.offset - file.start,
                                          range.end.offset - file.start);
}

llvm::StringRef SourceManager::lineText(SourceLoc loc) const {
  const File &file = *files_[size_t(fileOf(loc))];
  return file.line(file.lineIndex(loc.offset - file.start));
}

} // namespace dtile
