// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: tiles that one loop of a body leaves in shared memory for later ones
// (pass keep-rows). A thread reads there what it has written itself, so nobody meets for it.
#pragma once

#include "backend/gpu/bodies/tile_info.h"
#include "ir/core/ir.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace dtile::backend::gpu {

class BodyLowering;

class RowBuffers {
public:
  /// The buffers of a space, beside which the shared memory of its bodies begins (until it is
  /// released): of all loads that have the same number.
  RowBuffers(BodyLowering &body, ir::Op &space);
  [[nodiscard]] bool empty() const { return buffers_.empty(); }

  /// The words of a load's tile in a buffer, one for each run of registers.
  struct Place {
    /// Of this thread's first word.
    llvm::Value *address;
    /// i1: there is room for it.
    llvm::Value *exists;
    /// From a word to the next.
    int64_t step;
    /// An earlier loop has put it there; else this load does.
    bool isFilled;
  };
  /// Nothing where the load has no buffer.
  [[nodiscard]] std::optional<Place> place(ir::Op &load);

private:
  struct Buffer {
    llvm::Value *base;
    /// Bytes of a thread's word, and of a tile.
    int64_t word, tile;
  };

  BodyLowering &body_;
  llvm::DenseMap<int64_t, Buffer> buffers_;
};

} // namespace dtile::backend::gpu
