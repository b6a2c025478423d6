// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu/bodies/memory: neighbours of a tile at addresses that are no multiples of
// their size, in whole words.
#pragma once

#include "backend/gpu/bodies/tile_info.h"
#include "backend/gpu/device.h"

namespace dtile::backend::gpu {

/// `bytes` bytes, 8 or 16, from any address: the one or two words of that size that hold them,
/// moved by what the address is past the first, a multiple of an element's bytes. No word is read
/// of which no byte is asked for.
[[nodiscard]] llvm::Value *loadShifted(llvm::IRBuilder<> &b, llvm::Value *address, unsigned bytes,
                                       unsigned elementBytes);

/// The same of a run of which only bytes `begin` to before `end` (i32) exist: no word is read of
/// which none does, but 16 bytes from `zeros` instead; and what does not exist is 0.
[[nodiscard]] llvm::Value *loadShiftedPart(llvm::IRBuilder<> &b, llvm::Value *address,
                                           unsigned bytes, unsigned elementBytes,
                                           llvm::Value *begin, llvm::Value *end,
                                           llvm::Value *zeros);

/// How many lanes that follow each other have runs that follow each other: a power of two, 1 where
/// none do.
[[nodiscard]] unsigned neighbouringLanes(const TileInfo &info, TileInfo::Run run);

/// What a lane stores of the runs of 16 bytes of neighbouring lanes, which begin anywhere: an
/// aligned word. The first of these lanes has no lane before it, and nobody has the end of the last
/// one's run.
struct ShiftedRun {
  /// 16 bytes, and their place.
  llvm::Value *word, *address;
  /// i1: the run does not begin at such a place.
  llvm::Value *isShifted;
  /// i32: so many of the bytes are the lane's before.
  llvm::Value *ofLaneBefore;
};

/// `run`: this lane's 16 bytes; `address`: where they begin. All lanes of the warp take part, of a
/// device that hasShuffleUp.
[[nodiscard]] ShiftedRun shiftRun(llvm::IRBuilder<> &b, const Device &device, llvm::Value *run,
                                  llvm::Value *address, unsigned elementBytes);

} // namespace dtile::backend::gpu
