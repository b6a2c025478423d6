// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which documents are to be proved, when, and what is known so far.
#pragma once

#include "editors/lsp/proofs.h"

#include <chrono>

namespace dtile::lsp {

struct ProofOptions {
  bool areWanted = true;
  /// After the last change.
  std::chrono::milliseconds delay{300};
  /// Steps for each kernel.
  uint64_t work = 5'000'000;
};

/// One document is proved at a time, the one that waits for the longest first. What is known is of
/// one analysis, and goes with it.
class ProofQueue {
public:
  explicit ProofQueue(Prove prove) : prover_(std::move(prove)) {}
  void setOptions(const ProofOptions &options) { options_ = options; }

  /// An analysis is new: its kernels are proved after the delay, if it has no errors.
  void add(const std::string &path, std::shared_ptr<const Analysis> analysis);
  /// The document has changed or is closed.
  void remove(const std::string &path);
  /// Begins what is due, and takes results. The document of which something new is known, or
  /// nothing.
  std::string advance();

  /// Where results come from, and the time until something is due; -1 for neither.
  [[nodiscard]] int descriptor() const { return prover_.descriptor(); }
  [[nodiscard]] int millisecondsLeft() const;

  /// What is known of this analysis of a document; null where nothing is.
  [[nodiscard]] const Proofs *of(const std::string &path, const Analysis &analysis) const;
  /// A lens for each kernel: its verdict, or that there is none yet (CodeLens[]).
  [[nodiscard]] llvm::json::Value lenses(const std::string &path, const Analysis &analysis) const;

private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::shared_ptr<const Analysis> analysis;
    Clock::time_point due;
    bool hasBegun = false;
    Proofs proofs;
  };
  [[nodiscard]] std::map<std::string, Entry>::const_iterator next() const;

  Prover prover_;
  ProofOptions options_;
  std::map<std::string, Entry> entries_;
};

} // namespace dtile::lsp
