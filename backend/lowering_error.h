// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What code generation says of a program that it has no code for.
#pragma once

#include "frontend/base/source_manager.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <system_error>

namespace dtile::backend {

/// A program asks for what a target cannot do, at a place of it. As text it begins with the place.
class LoweringError : public llvm::ErrorInfo<LoweringError> {
public:
  static inline char ID = 0;
  LoweringError(SourceLoc loc, std::string place, std::string what)
      : loc(loc), what(std::move(what)), place_(std::move(place)) {}
  void log(llvm::raw_ostream &os) const override { os << place_ << what; }
  [[nodiscard]] std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }

  const SourceLoc loc;
  const std::string what;

private:
  std::string place_;
};

} // namespace dtile::backend
