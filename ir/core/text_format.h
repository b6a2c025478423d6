// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The IR's text form, both directions: what is printed parses to the same module.
#pragma once

#include "frontend/base/diagnostics.h"
#include "ir/core/ir.h"

#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace dtile::ir {

/// Prints a module, or one op with its regions.
void print(Module &module, llvm::raw_ostream &os);
void print(const Op &op, llvm::raw_ostream &os);

/// Reads a module; null after reporting at least one diagnostic (E08xx). The result is not verified.
std::unique_ptr<Module> parseModule(FileId file, const SourceManager &sources, TypeContext &types,
                                    Diagnostics &diagnostics);

/// Checks the invariants listed at the top of verifier.cpp and in ir/README.md. Returns one message a
/// violation, each with the offending op printed; empty when the module is well-formed.
std::vector<std::string> verify(Module &module);

} // namespace dtile::ir
