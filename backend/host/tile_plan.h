// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the tiles of a body live on the host: computed where they are used, or in a buffer of the
// body's workspace. Buffers are shared by tiles that are never alive at once, and by a tile and the
// one that is computed from it in place (sums that a loop carries above all).
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace dtile::backend::host {

/// Buffers are aligned to this many bytes.
inline constexpr int64_t kBufferAlign = 64;

/// The plan of one body. Tiles that the body takes from outside are computed where they are used.
class TilePlan {
public:
  explicit TilePlan(ir::Block &body);

  /// Computed element by element inside the loop of its user; has no buffer.
  [[nodiscard]] bool isInlined(const ir::Value *tile) const;
  /// Byte offset of the tile's buffer in the workspace.
  [[nodiscard]] int64_t offset(const ir::Value *tile) const;
  /// The two share their memory (so that moving one to the other is nothing).
  [[nodiscard]] bool sameBuffer(const ir::Value *a, const ir::Value *b) const;
  /// Transfers that are not awaited may still read the buffer when it is written again.
  [[nodiscard]] bool mayBeInFlight(const ir::Value *tile) const;
  /// Some transfer reads a buffer of this body.
  [[nodiscard]] bool sendsFromBuffers() const { return sends_; }
  /// Size of all buffers.
  [[nodiscard]] int64_t bytes() const { return bytes_; }

private:
  /// Positions (numbers of ops in program order) between which an owner's memory holds it.
  struct Segment {
    unsigned begin, end;
    const ir::Value *owner;
  };
  /// Tiles in one buffer.
  struct Buffer {
    std::vector<const ir::Value *> members;
    std::vector<Segment> segments;
    int64_t bytes = 0;
    int64_t offset = 0;
    bool inFlight = false;
  };
  /// `to` may be computed in the memory of `from`, at this op.
  struct InPlace {
    const ir::Value *from, *to;
    unsigned at;
    int64_t weight;
  };

  void number(ir::Block &block, unsigned depth);
  void chooseInlined(ir::Block &block);
  [[nodiscard]] bool canInline(ir::Op &op);
  [[nodiscard]] bool loadStaysValid(ir::Op &load);
  [[nodiscard]] bool readsInPlace(const ir::Value *from, ir::Op &root);
  void collectRoots(const ir::Value *tile, llvm::SmallVectorImpl<ir::Op *> &roots);
  void addBuffers(ir::Block &block);
  void addLoopBuffers(ir::Op &op);
  void addBuffer(const ir::Value *tile, unsigned begin);
  void addUses(const ir::Value *tile, unsigned begin);
  void addSegment(const ir::Value *tile, unsigned begin, unsigned end);
  void addInPlace(const ir::Value *from, const ir::Value *to, const ir::Op &at);
  void findInPlace(ir::Block &block);
  void findReaders(const ir::Value *from, ir::Op &root);
  [[nodiscard]] unsigned readAt(const ir::Op &user, const ir::Value *tile) const;
  [[nodiscard]] const ir::Value *base(const ir::Value *tile) const;
  [[nodiscard]] bool conflict(unsigned a, unsigned b) const;
  [[nodiscard]] bool isAllowedTouch(const Segment &from, const Segment &to) const;
  void merge(unsigned a, unsigned b);
  void coalesce();
  void assignOffsets();

  llvm::DenseMap<const ir::Op *, unsigned> at_;
  llvm::DenseMap<const ir::Op *, unsigned> endOf_;
  llvm::DenseMap<const ir::Op *, unsigned> depth_;
  llvm::DenseMap<const ir::Value *, bool> inlined_;
  /// Inlined users read these many times: they need a buffer.
  llvm::DenseMap<const ir::Value *, bool> wanted_;
  llvm::DenseMap<const ir::Value *, const ir::Value *> aliases_;
  llvm::DenseMap<const ir::Value *, unsigned> bufferOf_;
  std::vector<Buffer> buffers_;
  std::vector<InPlace> inPlace_;
  unsigned end_ = 0;
  int64_t bytes_ = 0;
  bool sends_ = false;
};

/// Reshape that only adds or drops dimensions of size 1.
[[nodiscard]] bool isUnitReshape(const ir::Op &op);
/// A transfer that reads its tile operand while the body goes on.
[[nodiscard]] bool isAsynchronousSend(ir::OpKind kind);
/// Bytes of a tile in memory.
[[nodiscard]] int64_t tileBytes(ir::Type type);

} // namespace dtile::backend::host
