// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the checker said of mutants, and what happened when they ran.
#pragma once

#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace dtile::bench {

enum class Verdict : uint8_t {
  /// The mistake makes no program, or a pass refuses it.
  NotBuilt,
  Refused,
  Undecided,
  Checked,
  Proved
};
enum class Truth : uint8_t { Right, WrongAlways, Unsafe };

struct Result {
  std::string file;
  std::string kernel;
  /// None for the program as it stands.
  std::vector<std::string> mutations;
  std::vector<std::string> kinds;
  Verdict verdict = Verdict::NotBuilt;
  Truth truth = Truth::Right;
  /// Another mistake has made the same program.
  bool isSame = false;
  int64_t runs = 0;
  double checkSeconds = 0;
  /// A hash of the program's text.
  uint64_t program = 0;
  /// The checker's first message, and what a run has shown.
  std::string message;
  std::string evidence;

  [[nodiscard]] bool isCounted() const { return verdict != Verdict::NotBuilt && !isSame; }
  [[nodiscard]] bool isFalseAccept() const {
    return isCounted() && truth == Truth::Unsafe && verdict != Verdict::Refused;
  }
  /// Accepted and unsafe, or refused though every run was right.
  [[nodiscard]] bool isStrange() const {
    return isFalseAccept() ||
           (isCounted() && verdict == Verdict::Refused && truth != Truth::Unsafe);
  }
};

/// One line.
[[nodiscard]] std::string toJson(const Result &result);

/// Results of a run of this program, with those that a file of lines had before.
class Results {
public:
  /// An empty path keeps none.
  explicit Results(const std::string &path);
  [[nodiscard]] bool has(const Result &result) const;
  void add(Result result);
  /// The programs that mistakes have made of a kernel.
  [[nodiscard]] std::set<uint64_t> programsOf(const Result &base) const;
  /// The matrix, by kind of mistake.
  void print(llvm::raw_ostream &os) const;
  /// A mutant was proved or checked, and failed in a run; or a right program was refused.
  [[nodiscard]] bool hasFailed() const;

private:
  std::string path_;
  std::vector<Result> all_;
  std::set<std::string> known_;
};

} // namespace dtile::bench
