// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Edits of a program that make a kernel wait for its peers' reads.
#pragma once

#include "frontend/ast/ast.h"
#include "frontend/base/diagnostics.h"

namespace dtile::driver {

/// A read of a peer's memory, and the signal that is to say that it is over.
struct PeerRead {
  std::string object;
  std::string signal;
  SourceLoc place;
};

/// A parameter for the signal, a notify behind the read, and a role that awaits it at the end;
/// nothing where the kernel has no roles, or the read is not found.
std::vector<FixIt> signalFix(const SourceManager &sources, const ast::KernelDecl &kernel,
                             const PeerRead &read);

} // namespace dtile::driver
