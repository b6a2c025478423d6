// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The language server: what an editor asks over the Language Server Protocol.
#pragma once

#include "editors/lsp/proofs.h"

#include "llvm/Support/raw_ostream.h"

#include <string>

namespace dtile::lsp {

struct ServerOptions {
  /// Where imports are looked for, and the library.
  sema::Options sema;
  std::string version;
  /// Checks kernels; may be empty.
  Prove prove;
};

/// Answers the client whose messages come from `input`, until it ends the session or the stream
/// ends. Whether the session ended as the protocol wants it: asked to shut down, then to exit.
[[nodiscard]] bool serve(const ServerOptions &options, int input, llvm::raw_ostream &output);

} // namespace dtile::lsp
