// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files, positions in them, and the text behind a position.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dtile {

/// A position in one of the loaded files: a global offset, so that it fits in 32 bits.
/// Zero is "no position".
struct SourceLoc {
  uint32_t offset = 0;

  [[nodiscard]] bool isValid() const { return offset != 0; }
  friend bool operator==(SourceLoc, SourceLoc) = default;
  friend auto operator<=>(SourceLoc, SourceLoc) = default;
};

/// A half-open range of source text, both ends in the same file.
struct SourceRange {
  SourceLoc begin;
  SourceLoc end;

  [[nodiscard]] bool isValid() const { return begin.isValid(); }
  friend bool operator==(SourceRange, SourceRange) = default;
};

/// Names one loaded file.
enum class FileId : uint32_t {};

/// A position as people read it. Line and column count from 1; columns count code points.
struct PresumedLoc {
  llvm::StringRef file;
  uint32_t line = 0;
  uint32_t column = 0;
};

/// Owns the text of every file that takes part in a compilation.
class SourceManager {
public:
  SourceManager();
  ~SourceManager();
  SourceManager(const SourceManager &) = delete;
  SourceManager &operator=(const SourceManager &) = delete;

  /// The largest file that is accepted, in bytes.
  static constexpr uint64_t kMaxFileBytes = 64ull << 20;

  /// Reads a file. Fails (with a message that says what to do) on directories, missing or
  /// unreadable files and files above kMaxFileBytes. A file already loaded is not read again.
  llvm::Expected<FileId> load(llvm::StringRef path);

  /// Adds text under a name (tests, standard input, the embedded standard library).
  FileId add(llvm::StringRef name, std::string text);

  [[nodiscard]] llvm::StringRef text(FileId file) const;
  [[nodiscard]] llvm::StringRef name(FileId file) const;
  [[nodiscard]] SourceLoc start(FileId file) const;
  [[nodiscard]] SourceLoc locAt(FileId file, uint32_t byteOffset) const;

  /// The file that holds a valid position.
  [[nodiscard]] FileId fileOf(SourceLoc loc) const;
  [[nodiscard]] uint32_t offsetInFile(SourceLoc loc) const;
  [[nodiscard]] PresumedLoc presumed(SourceLoc loc) const;
  /// The text of a range; empty when the range is invalid.
  [[nodiscard]] llvm::StringRef text(SourceRange range) const;
  /// The whole line (without its newline) on which a position stands.
  [[nodiscard]] llvm::StringRef lineText(SourceLoc loc) const;

private:
  struct File;
  std::vector<std::unique_ptr<File>> files_;
};

} // namespace dtile
