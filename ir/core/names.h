// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The names that the text form gives to values. Private to ir/core.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace dtile::ir {

/// Names every value under one module-level op: hints made unique, numbers for the rest. Text that
/// was printed with these names and read back gets the same names again.
class NameTable {
public:
  explicit NameTable(const Op &function) { add(function); }

  /// The name without its `%`; `?` for a value from elsewhere.
  [[nodiscard]] llvm::StringRef name(const Value *value) const;

private:
  void add(const Op &op);
  void add(const Value *value);
  std::string unique(llvm::StringRef hint);
  llvm::DenseMap<const Value *, std::string> names_;
  /// Names in use, and for the stem of such a name the next number to try.
  llvm::StringMap<unsigned> taken_;
  unsigned nextNumber_ = 0;
};

} // namespace dtile::ir
