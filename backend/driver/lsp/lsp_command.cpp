// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec lsp`: the language server, for an editor that starts it.
#include "backend/driver/compile.h"
#include "backend/driver/lsp/lsp_proofs.h"
#include "editors/lsp/server.h"

#include <unistd.h>

namespace dtile::driver {

ExitCode runLsp(const Options &options) {
  lsp::ServerOptions server;
  server.sema = importOptions(options);
  server.version = DTILE_VERSION;
  server.prove = proveKernels;
  return lsp::serve(server, STDIN_FILENO, llvm::outs()) ? ExitCode::Ok : ExitCode::Failed;
}

} // namespace dtile::driver
