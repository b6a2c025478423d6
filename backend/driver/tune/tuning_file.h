// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of choices that were measured: what `dtilec tune` writes and `dtilec build --tuning` reads.
//
//   dtile tuning 1
//   # a comment
//   target nvptx sm_90a
//   machine NVIDIA H100 80GB HBM3
//   kernel gemm 0123456789abcdef
//   W=1 M=512 N=512 K=512 : BM=64 BN=128 BK=64 : 12.5 us instead of 14.0
//   end 1
//
// `target` and `machine` hold for what follows, `kernel` names an entry and the hash of what was
// tuned; the last line counts the choices, so that a file that was cut off is no file. Where the
// entry is a name for several kernels, constants begin with `alternative=NAME`.
#pragma once

#include "backend/driver/choose/choose.h"

#include <optional>
#include <string>
#include <vector>

namespace dtile::driver {

/// One line: a launch, and what was the fastest for it.
struct TunedChoice {
  SourceLoc loc;
  int64_t ranks = 1;
  /// Sizes by name, in the kernel's order.
  Constants sizes;
  /// Of a name for several kernels: which of them.
  std::string alternative;
  Constants constants;
  double microseconds = 0;
  /// By what the compiler would have chosen.
  double usually = 0;
};

/// The choices of one kernel on one machine.
struct TuningSection {
  SourceLoc loc;
  std::string target, arch, machine;
  /// The entry's name.
  std::string kernel;
  /// Of the kernel and of the values that were considered.
  std::string hash;
  std::vector<TunedChoice> choices;

  /// Whether both are of one kernel on one machine, whatever the hash.
  [[nodiscard]] bool isOf(const TuningSection &other) const {
    return target == other.target && arch == other.arch && machine == other.machine &&
           kernel == other.kernel;
  }
};

struct TuningFile {
  std::vector<TuningSection> sections;
};

/// The file of a path, or of a text that is loaded already; nothing after reporting.
[[nodiscard]] std::optional<TuningFile> readTuningFile(Session &session, llvm::StringRef path);
[[nodiscard]] std::optional<TuningFile> parseTuningFile(const SourceManager &sources, FileId file,
                                                        Diagnostics &diagnostics);

/// Puts a section's choices in place of those for the same launches, and of all where the hash is
/// another one. Sections and choices are kept in order.
void addToTuningFile(TuningFile &file, TuningSection section);

/// Adds sections to the file of a path (`-` is standard output) as it is now, or to `known` where
/// it is none. Processes that do so at once wait for each other.
[[nodiscard]] llvm::Error addToTuningFileAt(const std::string &path, TuningFile known,
                                            llvm::ArrayRef<TuningSection> sections);

/// `alternative=NAME BM=64`, as lines have it.
[[nodiscard]] std::string chosenText(const TunedChoice &choice);

/// The text of a file.
[[nodiscard]] std::string tuningFileText(const TuningFile &file);

} // namespace dtile::driver
