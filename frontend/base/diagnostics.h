// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is said to users: typed rows in diagnostics.def, reported with a place, notes and fix-its.
#pragma once

#include "frontend/base/source_manager.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <string_view>
#include <vector>

namespace dtile {

enum class Severity : uint8_t { Note, Remark, Warning, Error };

namespace diag {
/// One enumerator a row of diagnostics.def.
enum Id : uint16_t {
#define DIAG(ID, CODE, SEVERITY, TEXT) ID,
#include "frontend/base/diagnostics.def"
  kCount
};
} // namespace diag

/// The table row behind an id.
struct DiagInfo {
  std::string_view name;
  /// "E0301"; notes share the code "" of the error that they follow.
  std::string_view code;
  Severity severity;
  /// The text, with holes {0}, {1} …
  std::string_view text;
};
[[nodiscard]] const DiagInfo &diagInfo(diag::Id id);

/// A textual argument of a message, made from strings and integers.
struct DiagArg {
  std::string text;
  DiagArg(llvm::StringRef s) : text(s.str()) {}
  DiagArg(const std::string &s) : text(s) {}
  DiagArg(const char *s) : text(s) {}
  DiagArg(std::string_view s) : text(s) {}
  template <typename I>
    requires std::is_integral_v<I>
  DiagArg(I value) : text(std::to_string(value)) {}
};

/// Replace the text of `range` by `text`; an empty range inserts.
struct FixIt {
  SourceRange range;
  std::string text;
};

struct DiagNote {
  SourceRange range;
  std::string message;
};

/// One finished message.
struct Diagnostic {
  diag::Id id;
  Severity severity;
  SourceRange range;
  std::string message;
  std::vector<DiagNote> notes;
  std::vector<FixIt> fixes;
};

class Diagnostics;

/// Adds notes and fix-its to the message just reported. Lives no longer than the statement.
class DiagBuilder {
public:
  DiagBuilder(Diagnostics &engine, size_t index) : engine_(engine), index_(index) {}
  template <typename... Args> DiagBuilder &note(SourceRange range, diag::Id id, Args &&...args) {
    return addNote(range, id, {DiagArg(std::forward<Args>(args))...});
  }
  DiagBuilder &fix(SourceRange range, llvm::StringRef text);

private:
  DiagBuilder &addNote(SourceRange range, diag::Id id, const std::vector<DiagArg> &args);
  Diagnostics &engine_;
  size_t index_;
};

/// Collects messages. Printing is separate (diagnostic_printer.h), so that order and form
/// are decided once.
class Diagnostics {
public:
  explicit Diagnostics(const SourceManager &sources) : sources_(sources) {}

  template <typename... Args> DiagBuilder report(SourceRange range, diag::Id id, Args &&...args) {
    return add(range, id, {DiagArg(std::forward<Args>(args))...});
  }
  template <typename... Args> DiagBuilder report(SourceLoc loc, diag::Id id, Args &&...args) {
    return report(SourceRange{loc, loc}, id, std::forward<Args>(args)...);
  }

  /// Errors are dropped (but counted) after this many; 0 is no limit.
  void setErrorLimit(unsigned limit) { errorLimit_ = limit; }
  void setWarningsAsErrors(bool on) { warningsAsErrors_ = on; }

  [[nodiscard]] bool hasErrors() const { return errors_ != 0; }
  [[nodiscard]] unsigned errorCount() const { return errors_; }
  [[nodiscard]] unsigned warningCount() const { return warnings_; }
  [[nodiscard]] const std::vector<Diagnostic> &all() const { return all_; }
  [[nodiscard]] const SourceManager &sources() const { return sources_; }
  /// Takes over the messages of another, in their order.
  void append(const Diagnostics &other);
  /// Sorts by place (stable), and drops exact repeats (the same id, place and text).
  void sortAndUnique();
  void removeIf(llvm::function_ref<bool(const Diagnostic &)> isOut);
  void clear();

private:
  friend class DiagBuilder;
  DiagBuilder add(SourceRange range, diag::Id id, const std::vector<DiagArg> &args);
  const SourceManager &sources_;
  std::vector<Diagnostic> all_;
  unsigned errors_ = 0;
  unsigned warnings_ = 0;
  unsigned errorLimit_ = 0;
  bool warningsAsErrors_ = false;
};

enum class DiagnosticForm : uint8_t { Text, Json };
enum class ColorMode : uint8_t { Never, Always };

/// Prints every message: the clang form with carets, notes and fix-its, or one JSON array
/// (objects with code, severity, file, line, column, endLine, endColumn, message, notes, fixes).
void printDiagnostics(const Diagnostics &diagnostics, DiagnosticForm form, ColorMode color,
                      llvm::raw_ostream &os);

} // namespace dtile
