// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who touched which part of an object last. Private to ir/protocol.
#pragma once

#include "ir/interpret/observer.h"
#include "ir/interpret/values.h"
#include "ir/protocol/check/clock.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <string>

namespace dtile::protocol {

/// One access as the shadow of its place keeps it.
struct Record {
  ThreadId thread = 0;
  /// The event of the thread that it belongs to.
  uint32_t time = 0;
  const ir::Op *op = nullptr;
  /// The body that does it, or that issued the operation that does.
  uint32_t body = 0;
  int32_t launch = 0;
  interpret::AccessKind kind = interpret::AccessKind::Read;
  /// How many operations and waits with a number its body had when it came to it.
  uint32_t sequence = 0;
  /// An asynchronous operation does it.
  bool isSent = false;
  /// What happened before it.
  ClockRef clock;
};

/// A part of an object that was always touched as a whole.
struct Cell {
  /// The last write, and atomic updates since.
  llvm::SmallVector<Record, 1> writers;
  /// Reads since the last write.
  llvm::SmallVector<Record, 2> readers;
  /// From how many on they are thinned out.
  uint32_t manyWriters = kFewRecords;
  uint32_t manyReaders = kFewRecords;
  static constexpr uint32_t kFewRecords = 16;
  /// The last two launches that touched it, or -1.
  int32_t lastLaunch = -1;
  int32_t launchBefore = -1;
};

/// Rows [row, rowEnd) and in each the bytes [col, colEnd).
struct Box {
  int64_t row = 0;
  int64_t rowEnd = 0;
  int64_t col = 0;
  int64_t colEnd = 0;
};

/// A parameter's memory on one rank, as rows of its last dimension.
class ShadowObject {
public:
  /// `param` as a launch has bound it.
  ShadowObject(const ir::Op &param, const interpret::ViewVal &view);

  const ir::Op &param;
  int rank;
  /// The caller's, who may write it before a launch and read it after it; else the kernel's own.
  bool isCallers;
  bool isZeroed;

  [[nodiscard]] const char *base() const { return base_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  /// Whether it is bound to the same memory, cut in the same way.
  [[nodiscard]] bool isSame(const interpret::ViewVal &view) const;
  /// Forgets all accesses.
  void clear() { rows_.clear(); }

  /// What atomics have passed on, by their element's place.
  std::map<const char *, ClockRef> released;

  /// Calls fn for each box of what exists of a view.
  void forEachBox(const interpret::ViewVal &view, llvm::function_ref<void(const Box &)> fn) const;
  /// All of it, where there are no gaps between its rows.
  [[nodiscard]] Box whole() const { return {0, (bytes_ + pitch_ - 1) / pitch_, 0, pitch_}; }
  /// Calls fn for each cell of a box, made where there was none.
  void forEachCell(const Box &box, llvm::function_ref<void(const Box &, Cell &)> fn);
  /// "a[1, 0..64, 0..32]".
  [[nodiscard]] std::string regionText(const Box &box) const;

private:
  using Columns = std::map<int64_t, std::pair<int64_t, Cell>>;
  struct Rows {
    int64_t end = 0;
    Columns columns;
  };
  void splitAt(int64_t row);
  static void splitAt(Columns &columns, int64_t col);

  const char *base_;
  int64_t bytes_ = 0;
  /// Bytes from row to row.
  int64_t pitch_ = 1;
  int64_t elementBytes_ = 1;
  llvm::SmallVector<int64_t, 6> sizes_;
  std::map<int64_t, Rows> rows_;
};

} // namespace dtile::protocol
