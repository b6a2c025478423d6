// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What test functions take, as test_builtins.def writes it.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace dtile::sema {

/// One way to call a test function: `(x, axis: k, keep: false) -> array`.
struct TestForm {
  unsigned least = 0;
  /// With `…` any number follows.
  bool isOpen = false;
  llvm::SmallVector<llvm::StringRef, 3> labels;

  [[nodiscard]] bool fits(unsigned count, llvm::ArrayRef<llvm::StringRef> given) const;
};

/// The signature of a test function; empty of all other names.
[[nodiscard]] llvm::StringRef testSignature(llvm::StringRef name);
/// The forms of a signature, which commas outside of parentheses divide.
[[nodiscard]] llvm::SmallVector<TestForm, 2> testForms(llvm::StringRef signature);

} // namespace dtile::sema
