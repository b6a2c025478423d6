// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: words of 16 bytes that lie across two such words.
#pragma once

#include "backend/gpu/device.h"
#include "ir/analysis/shared_memory_plan.h"

namespace dtile::backend::gpu {

/// Parts of 4 bytes (i32) of a word of 16 bytes.
inline constexpr unsigned kParts = 4;
inline constexpr int64_t kPartBytes = ir::kSharedWordBytes / kParts;
using WordParts = llvm::SmallVector<llvm::Value *, kParts>;
using TwoWords = llvm::SmallVector<llvm::Value *, 2 * kParts>;

/// The parts of the words at two addresses of shared memory (i32), which are multiples of 16.
[[nodiscard]] TwoWords loadWords(llvm::IRBuilder<> &b, llvm::Value *first, llvm::Value *second);

/// Of two words, the one that begins `first` parts and so many `bits` (i32, below 32) after the
/// first.
[[nodiscard]] WordParts across(llvm::IRBuilder<> &b, llvm::ArrayRef<llvm::Value *> parts,
                               unsigned first, llvm::Value *bits);

/// Of two words, the one that begins `bytes` (i32, below 16) after the first.
[[nodiscard]] WordParts across(llvm::IRBuilder<> &b, TwoWords parts, llvm::Value *bytes);

/// Ones (i32) in the first `bytes` (i32) bytes of a part; none where that is below 0.
[[nodiscard]] llvm::Value *firstBytes(llvm::IRBuilder<> &b, llvm::Value *bytes);

/// The word as a vector.
[[nodiscard]] llvm::Value *wordOf(llvm::IRBuilder<> &b, llvm::ArrayRef<llvm::Value *> parts);

} // namespace dtile::backend::gpu
