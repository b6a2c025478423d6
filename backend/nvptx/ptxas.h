// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's assembler, a program of the CUDA toolkit that may or may not be on this machine.
#pragma once

#include "backend/gpu/gpu_target.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dtile::backend::nvptx {

/// What it made, and what it said.
struct Assembled {
  std::string cubin;
  std::string messages;
};

/// What became of one entry of a text.
struct AssembledEntry {
  /// Empty where the text is one piece, of all its entries.
  std::string entry;
  Assembled made;
  /// Why nothing was made: it would have taken too long, or more registers than there are.
  std::string whyNot;
};

/// Its path: in PATH, in $CUDA_HOME, or where toolkits are usually installed; empty where there is
/// none.
[[nodiscard]] std::string findPtxas();

/// Assembles PTX for an architecture. An error holds its messages.
llvm::Expected<Assembled> runPtxas(llvm::StringRef ptx, llvm::StringRef arch);

/// Assembles each entry of PTX by a process of its own, as many at once as there are processors.
/// That one takes too long, or too many registers, is no error.
llvm::Expected<std::vector<AssembledEntry>> assembleEntries(llvm::StringRef ptx,
                                                            llvm::StringRef arch);

/// The numbers in what `ptxas -v` says, one a kernel.
[[nodiscard]] std::vector<gpu::KernelStats> parseStats(llvm::StringRef messages);

} // namespace dtile::backend::nvptx
