// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the checker finds out about the kernels of a document. It runs in a process of its own: that
// can be ended at any moment, where a newer text comes, and whatever happens to it, the server goes
// on.
#pragma once

#include "editors/lsp/publisher.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <functional>
#include <sys/types.h>

namespace dtile::lsp {

/// One kernel, checked.
struct KernelProof {
  /// Its name.
  SourceRange place;
  /// The verdict in a line.
  std::string title;
  /// All that the verdict rests on.
  std::string details;
  /// Waits, and how many notifies each waits for.
  struct Wait {
    SourceLoc place;
    std::string count;
  };
  std::vector<Wait> waits;
};

using ProofSink = llvm::function_ref<void(const KernelProof &, const Diagnostics &)>;
/// Checks the kernels of an analysis that has a program, the one at its last edit first, with at
/// most `work` steps each, and tells `sink` of each.
using Prove = std::function<void(const Analysis &analysis, uint64_t work, ProofSink sink)>;

/// What is known so far of a document's kernels, as the protocol has it.
struct Proofs {
  FileMessages messages;
  /// CodeLens[], InlayHint[]. The data of a hint is where its wait begins (Position).
  llvm::json::Array lenses;
  llvm::json::Array hints;
  /// As fixesOf() gives them (fixes.h).
  llvm::json::Array fixes;
  bool isComplete = false;
  /// The process did not end as it should.
  bool hasFailed = false;
};

/// One process that checks one version of one document.
class Prover {
public:
  explicit Prover(Prove prove) : prove_(std::move(prove)) {}
  ~Prover() { cancel(); }
  Prover(const Prover &) = delete;
  Prover &operator=(const Prover &) = delete;

  /// Whether there is anybody to ask.
  [[nodiscard]] bool canProve() const { return bool(prove_); }
  /// Begins; what runs is ended. False where no process could be made.
  bool start(const std::string &document, std::shared_ptr<const Analysis> analysis, uint64_t work);
  void cancel();
  [[nodiscard]] bool isRunning() const { return pipe_ >= 0; }
  /// What is checked now.
  [[nodiscard]] const std::string &document() const { return document_; }
  /// Where its results come from; -1 where nothing runs.
  [[nodiscard]] int descriptor() const { return pipe_; }
  /// Takes what has come. True where there is something new in `proofs`.
  bool poll(Proofs &proofs);

private:
  [[noreturn]] void runChild(const Analysis &analysis, uint64_t work, int output) const;
  void finish();

  Prove prove_;
  std::string document_;
  pid_t process_ = -1;
  int pipe_ = -1;
  std::string received_;
};

} // namespace dtile::lsp
