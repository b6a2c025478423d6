// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel of the host target: the functions around bodies (backend/launch), and the bodies.
#include "backend/host/host_module.h"

namespace dtile::backend::host {

std::unique_ptr<launch::HostCode> lowerKernel(HostModule &module, ir::Op &kernel) {
  Frame frame(kernel);
  auto body = [&](ir::Op &space, llvm::StringRef name, launch::HostCode::Space &code) {
    const LoweredBody lowered = lowerBody(module, frame, space, name);
    code.body = lowered.function;
    code.workspaceBytes = lowered.workspaceBytes;
  };
  return std::make_unique<launch::HostCode>(launch::lowerHostCode(module, frame, body));
}

} // namespace dtile::backend::host
