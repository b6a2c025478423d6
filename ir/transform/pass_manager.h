// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs passes by name: verification, printing, timing and bisection around each.
#pragma once

#include "ir/transform/pass.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <utility>

namespace dtile::passes {

/// A pass that a manager can run. The registry of all passes is in pipelines.h, above the libraries
/// that have them.
struct PassInfo {
  llvm::StringRef name;
  PassFunction run = nullptr;
  PassKind kind = PassKind::Simplify;
  llvm::StringRef description;
};

/// One pass of a pipeline with the options that are set while it runs.
struct PassStep {
  const PassInfo *pass = nullptr;
  std::vector<std::pair<std::string, int64_t>> options = {};
};
using Pipeline = std::vector<PassStep>;

/// Reads `inline,specialize(W=4 dim.0.1=512),cse`; spaces or commas between options. Nothing after
/// reporting a diagnostic.
std::optional<Pipeline> parsePipeline(llvm::StringRef text, llvm::ArrayRef<PassInfo> registry,
                                      Diagnostics &diagnostics);

struct PassManagerOptions {
  /// Names of passes, or `all`.
  std::vector<std::string> printBefore = {};
  std::vector<std::string> printAfter = {};
  /// Verify after each pass, not only after the last, and keep what is needed to show the module
  /// before the culprit.
  bool verifyEach = false;
  bool timePasses = false;
  /// Run only the first so many passes that may be left out (all but Lower and Check), and say
  /// which.
  std::optional<unsigned> bisect = {};
  /// Where module dumps, times and the reports of broken passes go; standard error when null.
  llvm::raw_ostream *out = nullptr;
};

/// Runs pipelines.
class PassManager {
public:
  explicit PassManager(PassManagerOptions options) : options_(std::move(options)) {}

  /// False when a pass reported an error or broke the module (which is reported, with its name).
  bool run(ir::Module &module, const Pipeline &pipeline, PassContext &context);

private:
  struct Time {
    llvm::StringRef pass;
    double seconds = 0;
  };
  bool runStep(ir::Module &module, const PassStep &step, PassContext &context);
  bool check(ir::Module &module, llvm::StringRef pass, const std::string &before,
             PassContext &context);
  void print(ir::Module &module, llvm::StringRef when, llvm::StringRef pass);
  bool isSkippedByBisect(const PassInfo &pass);
  /// Whether every pass to print around is one of the pipeline; reports the first that is not.
  bool checkPrinted(const Pipeline &pipeline, PassContext &context) const;
  void printTimes();
  [[nodiscard]] llvm::raw_ostream &out() const {
    return options_.out ? *options_.out : llvm::errs();
  }

  PassManagerOptions options_;
  std::vector<Time> times_;
  unsigned counted_ = 0;
};

} // namespace dtile::passes
