// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Meshes of the command line and of tests, and what they say of a kernel's axes.
#pragma once

#include "backend/driver/session.h"
#include "sema/tree/typed_ast.h"

#include "llvm/ADT/StringMap.h"

#include <optional>
#include <vector>

namespace dtile::driver {

/// The sizes of `--mesh`, whose product is the number of ranks; nothing after reporting.
[[nodiscard]] std::optional<std::vector<int64_t>> parseMesh(Session &session, llvm::StringRef text);

/// "2x4".
[[nodiscard]] std::string meshText(llvm::ArrayRef<int64_t> axes);

/// Whether a kernel's mesh, if it has one, has as many axes; false after reporting.
[[nodiscard]] bool hasAxes(Session &session, const ast::KernelDecl &kernel,
                           llvm::ArrayRef<int64_t> axes);

/// Gives scalars that are sizes of a kernel's axes (`mesh (node: W / L, local: L)`: L) their values
/// where `scalars` has none. False after reporting, where the kernel's axes are of other number or
/// sizes. A kernel without a mesh takes any.
[[nodiscard]] bool fitMesh(Session &session, const sema::KernelInstance &kernel,
                           llvm::ArrayRef<int64_t> axes, llvm::StringMap<int64_t> &scalars);

} // namespace dtile::driver
