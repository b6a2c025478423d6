// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds, reads and parses what a file imports.
#pragma once

#include "sema/names/scope.h"
#include "sema/sema.h"

namespace dtile::sema {

class Context;

/// One parsed file and the names that it declares.
struct ModuleInfo {
  const ast::Module *tree = nullptr;
  /// The same, with its overlaps in place of the kernels that they become.
  const ast::Module *written = nullptr;
  FileId file{};
  std::string path;
  llvm::StringMap<Symbol> names;
};

/// Parses the root file and everything that it imports into `context.modules`, root first, and
/// declares the names of each. Missing files, circles and repeated names are reported.
void loadModules(Context &context, FileId root);

} // namespace dtile::sema
