// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints messages: for people, with the source line, a caret and fix-its; for tools, as JSON.
#include "frontend/base/diagnostics.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Unicode.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace dtile {

namespace {

using llvm::raw_ostream;

constexpr unsigned kTabStop = 8;
// Lines wider than this are shown as a window around the caret.
constexpr unsigned kMaxWidth = 160;
constexpr unsigned kGutter = 5;

// A source line as a terminal shows it, with the column at which each byte begins.
struct RenderedLine {
  std::string text;
  // Columns of each byte of the source line, and one more for its end; from 0.
  std::vector<unsigned> columns;
  // Where in `text` each source byte begins, and one more for its end.
  std::vector<size_t> places;
};

// Bytes of the code point that starts a non-empty text, or 0 where it is no valid UTF-8.
unsigned codePointLength(llvm::StringRef text) {
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data());
  const unsigned length = llvm::getNumBytesForUTF8(*begin);
  if (length > text.size() || !llvm::isLegalUTF8Sequence(begin, begin + length))
    return 0;
  return length;
}

// Expands tabs, and spells out what a terminal cannot show.
RenderedLine renderLine(llvm::StringRef line) {
  RenderedLine result;
  unsigned column = 0;
  while (!line.empty()) {
    unsigned length = codePointLength(line);
    std::string shown;
    unsigned width = 0;
    if (line.front() == '\t') {
      width = kTabStop - column % kTabStop;
      shown.assign(width, ' ');
    } else if (length == 0) {
      length = 1;
      shown = llvm::formatv("<{0:X-2}>", uint8_t(line.front())).str();
      width = shown.size();
    } else {
      const llvm::StringRef character = line.take_front(length);
      const int wide = llvm::sys::unicode::columnWidthUTF8(character);
      if (wide >= 0) {
        shown = character.str();
        width = unsigned(wide);
      } else {
        for (char c : character)
          shown += llvm::formatv("<{0:X-2}>", uint8_t(c)).str();
        width = shown.size();
      }
    }
    result.columns.insert(result.columns.end(), length, column);
    result.places.insert(result.places.end(), length, result.text.size());
    result.text += shown;
    column += width;
    line = line.drop_front(length);
  }
  result.columns.push_back(column);
  result.places.push_back(result.text.size());
  return result;
}

// The part of a long line that is worth showing, as byte offsets in it. Ends are code points.
std::pair<size_t, size_t> windowAround(llvm::StringRef line, size_t caret) {
  constexpr size_t kBefore = kMaxWidth / 2;
  if (line.size() <= kMaxWidth)
    return {0, line.size()};
  auto isContinuation = [&](size_t at) {
    return at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80;
  };
  size_t begin = caret > kBefore ? caret - kBefore : 0;
  // Binary junk may hold any number of continuation bytes: look only a character's length ahead.
  for (int i = 0; i < 3 && isContinuation(begin); ++i)
    ++begin;
  size_t end = std::min(begin + kMaxWidth, line.size());
  for (int i = 0; i < 3 && isContinuation(end); ++i)
    ++end;
  return {begin, end};
}

class TextPrinter {
public:
  TextPrinter(const SourceManager &sources, ColorMode color, raw_ostream &os)
      : sources_(sources), os_(os), color_(color == ColorMode::Always) {}

  void print(const Diagnostic &diagnostic) {
    printHead(diagnostic.range, diagnostic.severity, diagnostic.message,
              diagInfo(diagnostic.id).code);
    printSnippets(diagnostic);
    for (const DiagNote &note : diagnostic.notes) {
      printHead(note.range, Severity::Note, note.message, {});
      // A note about the very place of the message needs no second look at it.
      if (note.range.isValid() && note.range != diagnostic.range)
        printSnippet(note.range, {});
    }
  }

  void printCounts(unsigned errors, unsigned warnings) {
    if (errors == 0 && warnings == 0)
      return;
    auto counted = [](unsigned count, llvm::StringRef what) {
      return (llvm::Twine(count) + " " + what + (count == 1 ? "" : "s")).str();
    };
    if (warnings != 0)
      os_ << counted(warnings, "warning") << (errors != 0 ? " and " : "");
    if (errors != 0)
      os_ << counted(errors, "error");
    os_ << " generated\n";
  }

private:
  enum class Style : uint8_t { Plain, Bold, Error, Warning, Note, Remark, Caret, Fix };

  // Prints text in a style; colours only where asked for.
  void styled(Style style, llvm::StringRef text) {
    static constexpr llvm::StringLiteral kCodes[] = {"",           "\x1b[1m",    "\x1b[1;31m",
                                                     "\x1b[1;35m", "\x1b[1;36m", "\x1b[1;34m",
                                                     "\x1b[1;32m", "\x1b[32m"};
    if (color_ && style != Style::Plain)
      os_ << kCodes[size_t(style)] << text << "\x1b[0m";
    else
      os_ << text;
  }

  void printHead(SourceRange range, Severity severity, llvm::StringRef message,
                 std::string_view code) {
    if (range.isValid()) {
      const PresumedLoc at = sources_.presumed(range.begin);
      styled(Style::Bold,
             (at.file + ":" + llvm::Twine(at.line) + ":" + llvm::Twine(at.column) + ": ").str());
    }
    switch (severity) {
    case Severity::Note:
      styled(Style::Note, "note: ");
      break;
    case Severity::Remark:
      styled(Style::Remark, "remark: ");
      break;
    case Severity::Warning:
      styled(Style::Warning, "warning: ");
      break;
    case Severity::Error:
      styled(Style::Error, "error: ");
      break;
    }
    styled(severity == Severity::Note ? Style::Plain : Style::Bold, message);
    if (!code.empty())
      os_ << " [" << llvm::StringRef(code) << ']';
    os_ << '\n';
  }

  // The message's own line, and each other line that a fix-it touches.
  void printSnippets(const Diagnostic &diagnostic) {
    if (!diagnostic.range.isValid())
      return;
    auto lineOf = [&](SourceLoc loc) {
      return std::pair(sources_.fileOf(loc), sources_.presumed(loc).line);
    };
    const auto ownLine = lineOf(diagnostic.range.begin);
    std::vector<const FixIt *> here;
    std::vector<const FixIt *> elsewhere;
    for (const FixIt &fix : diagnostic.fixes)
      if (fix.range.isValid())
        (lineOf(fix.range.begin) == ownLine ? here : elsewhere).push_back(&fix);
    printSnippet(diagnostic.range, here);
    for (const FixIt *fix : elsewhere)
      printSnippet({}, {fix});
  }

  void printGutter(std::optional<unsigned> line) {
    if (line)
      os_ << llvm::formatv("{0,5} | ", *line);
    else
      os_.indent(kGutter) << " | ";
  }

  // One source line, the marked range under it (where there is one), and the fix-its under that;
  // above it the lines that they insert there.
  void printSnippet(SourceRange range, const std::vector<const FixIt *> &fixes) {
    const SourceLoc anchor = range.isValid() ? range.begin : fixes.front()->range.begin;
    const PresumedLoc at = sources_.presumed(anchor);
    const llvm::StringRef whole = sources_.lineText(anchor);
    const llvm::StringRef fileText = sources_.text(sources_.fileOf(anchor));
    const size_t lineBegin = size_t(whole.data() - fileText.data());
    const size_t caret = std::min(sources_.offsetInFile(anchor) - lineBegin, whole.size());
    const auto [first, last] = windowAround(whole, caret);
    const RenderedLine line = renderLine(whole.slice(first, last));
    const llvm::StringRef head = first > 0 ? "..." : "";
    // The column of a global position on this line, clamped to what is shown.
    auto columnOf = [&, first = first, last = last](SourceLoc loc) -> unsigned {
      const uint64_t offset = sources_.offsetInFile(loc);
      const size_t inLine = offset < lineBegin ? 0 : size_t(offset - lineBegin);
      return unsigned(head.size()) + line.columns[std::clamp(inLine, first, last) - first];
    };
    std::vector<const FixIt *> below;
    for (const FixIt *fix : fixes) {
      const bool isLineAbove = fix->range.begin == fix->range.end &&
                               llvm::StringRef(fix->text).ends_with("\n") &&
                               sources_.offsetInFile(fix->range.begin) == lineBegin;
      if (isLineAbove)
        printAdded(fix->text);
      else
        below.push_back(fix);
    }
    printGutter(at.line);
    os_ << head << line.text << (last < whole.size() ? "..." : "") << '\n';
    if (range.isValid()) {
      const unsigned begin = columnOf(range.begin);
      const unsigned end = std::max(columnOf(range.end), begin + 1);
      printGutter(std::nullopt);
      os_.indent(begin);
      styled(Style::Caret, "^" + std::string(end - begin - 1, '~'));
      os_ << '\n';
    }
    printFixes(std::move(below), columnOf);
  }

  void printAdded(llvm::StringRef text) {
    llvm::SmallVector<llvm::StringRef> lines;
    text.trim('\n').split(lines, '\n');
    for (llvm::StringRef added : lines) {
      os_.indent(kGutter) << " + ";
      styled(Style::Fix, renderLine(added).text);
      os_ << '\n';
    }
  }

  // New text stands where it would go; text of several lines below, after `+`.
  template <typename ColumnOf>
  void printFixes(std::vector<const FixIt *> fixes, ColumnOf columnOf) {
    llvm::sort(fixes, [](const FixIt *a, const FixIt *b) {
      return std::tie(a->range.begin, a->text) < std::tie(b->range.begin, b->text);
    });
    unsigned column = 0;
    bool lineOpen = false;
    for (const FixIt *fix : fixes) {
      if (llvm::StringRef(fix->text).contains('\n'))
        continue;
      const unsigned at = columnOf(fix->range.begin);
      // What does not fit beside the one before gets a line of its own.
      if (lineOpen && at < column + 1) {
        os_ << '\n';
        lineOpen = false;
      }
      if (!lineOpen) {
        printGutter(std::nullopt);
        column = 0;
      }
      os_.indent(at - column);
      const std::string shown = fix->text.empty()
                                    ? std::string(std::max(1u, columnOf(fix->range.end) - at), '-')
                                    : fix->text;
      styled(Style::Fix, shown);
      column = at + unsigned(std::max(0, llvm::sys::unicode::columnWidthUTF8(shown)));
      lineOpen = true;
    }
    if (lineOpen)
      os_ << '\n';
    for (const FixIt *fix : fixes)
      if (llvm::StringRef(fix->text).contains('\n'))
        printAdded(fix->text);
  }

  const SourceManager &sources_;
  raw_ostream &os_;
  bool color_;
};

llvm::StringRef severityName(Severity severity) {
  switch (severity) {
  case Severity::Note:
    return "note";
  case Severity::Remark:
    return "remark";
  case Severity::Warning:
    return "warning";
  case Severity::Error:
    return "error";
  }
  return "";
}

// Text that may hold bytes of a broken file, as JSON allows.
std::string jsonText(llvm::StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
}

// The members that give a place; none for messages about no place.
void jsonPlace(llvm::json::OStream &json, const SourceManager &sources, SourceRange range) {
  if (!range.isValid())
    return;
  const PresumedLoc begin = sources.presumed(range.begin);
  const PresumedLoc end = sources.presumed(range.end);
  json.attribute("file", jsonText(begin.file));
  json.attribute("line", begin.line);
  json.attribute("column", begin.column);
  json.attribute("endLine", end.line);
  json.attribute("endColumn", end.column);
}

void jsonDiagnostic(llvm::json::OStream &json, const SourceManager &sources,
                    const Diagnostic &diagnostic) {
  json.object([&] {
    json.attribute("code", llvm::StringRef(diagInfo(diagnostic.id).code));
    json.attribute("severity", severityName(diagnostic.severity));
    jsonPlace(json, sources, diagnostic.range);
    json.attribute("message", jsonText(diagnostic.message));
    json.attributeArray("notes", [&] {
      for (const DiagNote &note : diagnostic.notes)
        json.object([&] {
          jsonPlace(json, sources, note.range);
          json.attribute("message", jsonText(note.message));
        });
    });
    json.attributeArray("fixes", [&] {
      for (const FixIt &fix : diagnostic.fixes)
        json.object([&] {
          jsonPlace(json, sources, fix.range);
          json.attribute("text", jsonText(fix.text));
        });
    });
  });
}

} // namespace

void printDiagnostics(const Diagnostics &diagnostics, DiagnosticForm form, ColorMode color,
                      raw_ostream &os) {
  const SourceManager &sources = diagnostics.sources();
  switch (form) {
  case DiagnosticForm::Text: {
    TextPrinter printer(sources, color, os);
    for (const Diagnostic &diagnostic : diagnostics.all())
      printer.print(diagnostic);
    printer.printCounts(diagnostics.errorCount(), diagnostics.warningCount());
    return;
  }
  case DiagnosticForm::Json: {
    llvm::json::OStream json(os, /*IndentSize=*/2);
    json.array([&] {
      for (const Diagnostic &diagnostic : diagnostics.all())
        jsonDiagnostic(json, sources, diagnostic);
    });
    os << '\n';
    return;
  }
  }
}

} // namespace dtile
