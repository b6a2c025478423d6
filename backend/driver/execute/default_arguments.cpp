// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/driver/execute/default_arguments.h"

#include <cstring>

namespace dtile::driver {

std::optional<ndarray::NDArray> defaultArgument(const sema::KernelParam &param) {
  const sema::TExpr *constant = param.defaultValue;
  if (!constant || constant->kind != sema::TExprKind::Const)
    return std::nullopt;
  // Bits of a constant are those of its type, in the lowest bytes.
  ndarray::NDArray value(param.type->dtype, {});
  std::memcpy(value.data(), &constant->bits, value.bytes());
  return value;
}

} // namespace dtile::driver
