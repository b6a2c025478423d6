// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The IR's text form, both directions: what is printed parses to the same module.
#pragma once

#include "frontend/base/diagnostics.h"
#include "ir/core/ir.h"

#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace dtile::ir {

/// The first line of a printed module says it. It goes up where a reader of the version before
/// would misunderstand a text; what readers refuse by themselves, such as a new operation, does not
/// need that.
inline constexpr int64_t kTextVersion = 1;

/// What to print besides the program itself.
struct PrintOptions {
  /// Ends each op with ` loc(line:column)` where its position and the module's sources are known.
  bool locations = false;
  /// Prints `{...}` for each region: one line an op.
  bool elideRegions = false;
};

/// Prints a module, or one op with its regions. One op is printed with the names that it has in the
/// print of its whole function.
void print(Module &module, llvm::raw_ostream &os, PrintOptions options = {});
void print(const Op &op, llvm::raw_ostream &os, PrintOptions options = {});

/// Regions may nest this deep in the text form.
inline constexpr unsigned kMaxRegionDepth = 256;

/// Reads a module; null after reporting at least one diagnostic (E08xx). The result is not
/// verified, but each op has the operands, results, regions and attributes that its row asks for.
/// Positions are those of the text itself (`loc(…)` is read and dropped), and the module keeps
/// `sources`.
std::unique_ptr<Module> parseModule(FileId file, const SourceManager &sources, TypeContext &types,
                                    Diagnostics &diagnostics);

/// One broken invariant.
struct Violation {
  /// Null for the module itself.
  const Op *op = nullptr;
  std::string message;
};

/// Checks the invariants listed at the top of verifier.cpp and in ir/README.md; stops after
/// kMaxViolations. Never crashes on modules that the C++ API lets one build.
std::vector<Violation> findViolations(Module &module);
inline constexpr size_t kMaxViolations = 20;

/// The same as text. Returns one message a violation, each with the offending op printed; empty
/// when the module is well-formed.
std::vector<std::string> verify(Module &module);

/// The same as located diagnostics (E0820); true when the module is well-formed.
bool verify(Module &module, Diagnostics &diagnostics);

} // namespace dtile::ir
