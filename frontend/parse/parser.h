// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text to syntax tree. The only directory that sees ANTLR; no exception leaves it.
#pragma once

#include "frontend/ast/ast.h"
#include "frontend/base/diagnostics.h"

namespace dtile::parse {

/// Bounds that keep hostile input harmless.
struct Limits {
  /// Nesting of expressions and blocks; above, E0105.
  unsigned maxDepth = 256;
  /// Syntax errors reported a file.
  unsigned maxErrors = 100;
};

/// Parses a loaded file. Always gives a module: what parsed of it, with errors reported (E01xx).
ast::Module *parse(FileId file, const SourceManager &sources, ast::Arena &arena,
                   Diagnostics &diagnostics, const Limits &limits = {});

} // namespace dtile::parse
