// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files, positions, lines and columns.
#include "frontend/base/source_manager.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

namespace dtile {
namespace {

// A file of its own, removed at the end of the test.
class TemporaryFile {
public:
  explicit TemporaryFile(llvm::StringRef text) {
    int fd = -1;
    if (llvm::sys::fs::createTemporaryFile("source_manager", "dtile", fd, path))
      std::abort();
    llvm::raw_fd_ostream(fd, /*shouldClose=*/true) << text;
  }
  ~TemporaryFile() { llvm::sys::fs::remove(path); }
  llvm::SmallString<128> path;
};

PresumedLoc at(const SourceManager &sources, FileId file, uint32_t offset) {
  return sources.presumed(sources.locAt(file, offset));
}

TEST(SourceManager, LinesAndColumnsCountFromOne) {
  SourceManager sources;
  const FileId file = sources.add("a", "one\ntwo\n\nfour");
  EXPECT_EQ(at(sources, file, 0).line, 1u);
  EXPECT_EQ(at(sources, file, 0).column, 1u);
  EXPECT_EQ(at(sources, file, 3).line, 1u) << "the newline belongs to the line that it ends";
  EXPECT_EQ(at(sources, file, 4).line, 2u);
  EXPECT_EQ(at(sources, file, 8).line, 3u);
  EXPECT_EQ(at(sources, file, 9).line, 4u);
  EXPECT_EQ(at(sources, file, 13).column, 5u) << "the end of the file is a position";
}

TEST(SourceManager, ColumnsCountCodePoints) {
  SourceManager sources;
  const FileId file = sources.add("a", "é€😀x");
  EXPECT_EQ(at(sources, file, 2).column, 2u);
  EXPECT_EQ(at(sources, file, 5).column, 3u);
  EXPECT_EQ(at(sources, file, 9).column, 4u);
}

TEST(SourceManager, PositionsOfSeveralFilesAreApart) {
  SourceManager sources;
  const FileId a = sources.add("a", "aaa");
  const FileId empty = sources.add("empty", "");
  const FileId b = sources.add("b", "bb");
  EXPECT_EQ(sources.fileOf(sources.locAt(a, 3)), a);
  EXPECT_EQ(sources.fileOf(sources.locAt(empty, 0)), empty);
  EXPECT_EQ(sources.fileOf(sources.locAt(b, 0)), b);
  EXPECT_EQ(sources.offsetInFile(sources.locAt(b, 2)), 2u);
  EXPECT_TRUE(sources.start(a).isValid()) << "zero is no position";
}

TEST(SourceManager, TextOfRangesAndLines) {
  SourceManager sources;
  const FileId file = sources.add("a", "let x = 1;\r\nlet y = 2;");
  EXPECT_EQ(sources.text({sources.locAt(file, 4), sources.locAt(file, 5)}), "x");
  EXPECT_EQ(sources.text(SourceRange{}), "");
  EXPECT_EQ(sources.lineText(sources.locAt(file, 4)), "let x = 1;");
  EXPECT_EQ(sources.lineText(sources.locAt(file, 22)), "let y = 2;");
}

TEST(SourceManager, AFileIsReadOnceUnderAllItsNames) {
  const TemporaryFile file("const X = 1;\n");
  SourceManager sources;
  auto first = sources.load(file.path);
  ASSERT_TRUE(bool(first));
  EXPECT_EQ(sources.text(*first), "const X = 1;\n");
  llvm::SmallString<128> detour = llvm::sys::path::parent_path(file.path);
  llvm::sys::path::append(detour, ".", llvm::sys::path::filename(file.path));
  auto second = sources.load(detour);
  ASSERT_TRUE(bool(second));
  EXPECT_EQ(*first, *second);
}

std::string loadError(llvm::StringRef path) {
  SourceManager sources;
  auto file = sources.load(path);
  return file ? "" : llvm::toString(file.takeError());
}

TEST(SourceManager, ErrorsOfLoadingSayWhatToDo) {
  EXPECT_NE(loadError("/nowhere/x.dtile").find("check the spelling"), std::string::npos);
  EXPECT_NE(loadError("/tmp").find("it is a directory"), std::string::npos);
  EXPECT_NE(loadError("").find("empty"), std::string::npos);
}

TEST(SourceManager, FilesAboveTheLimitAreRefused) {
  const TemporaryFile file("");
  int fd = -1;
  ASSERT_FALSE(llvm::sys::fs::openFileForWrite(file.path, fd));
  ASSERT_FALSE(llvm::sys::fs::resize_file(fd, SourceManager::kMaxFileBytes + 1));
  llvm::raw_fd_ostream closeIt(fd, /*shouldClose=*/true);
  EXPECT_NE(loadError(file.path).find("at most 64 MiB"), std::string::npos);
}

} // namespace
} // namespace dtile
