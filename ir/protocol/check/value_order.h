// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which reads an operation comes after because it uses what they gave, or because they decide
// whether it happens. Private to ir/protocol.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace dtile::protocol {

/// A read that an operation depends on.
struct ValueSource {
  const ir::Op *read = nullptr;
  /// Through a variable of a loop: every execution of the read so far counts, not only the last.
  bool isCarried = false;
};

/// Whether where or whether an operation touches memory, or which cells, comes from what was read.
[[nodiscard]] bool hasPlaceFromData(const ir::Op &op);
/// The same, but for conditions around it.
[[nodiscard]] bool hasRegionFromData(const ir::Op &op);

/// Whether any of its operands, or whether it happens, comes from what was read.
[[nodiscard]] bool isMadeFromData(const ir::Op &op);

/// The sources of each operation of a module, found when first asked for.
class ValueOrder {
public:
  [[nodiscard]] const llvm::SmallVector<ValueSource, 2> &sourcesOf(const ir::Op &op);
  /// Whether it is after a token that the bodies of another space have yielded.
  [[nodiscard]] bool isAfterSpace(const ir::Op &op);

private:
  llvm::DenseMap<const ir::Op *, llvm::SmallVector<ValueSource, 2>> known_;
  llvm::DenseMap<const ir::Op *, bool> afterSpace_;
};

} // namespace dtile::protocol
