// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The scalars that callers of a kernel may leave out: `eps: f32 = 1e-6`.
#pragma once

#include "backend/ndarray/ndarray.h"
#include "sema/tree/typed_ast.h"

#include <optional>

namespace dtile::driver {

/// What stands for a scalar that is not given, of the parameter's type and without dimensions;
/// nothing where callers have to give it.
[[nodiscard]] std::optional<ndarray::NDArray> defaultArgument(const sema::KernelParam &param);

} // namespace dtile::driver
