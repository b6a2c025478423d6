// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lays out statements: indents what the author broke, aligns parameters, and breaks what is too
// long. Layout is a pure function of the breaks, and adding breaks ends when all lines fit or
// cannot be broken; so formatting the output again finds nothing to do.
#include "frontend/format/layout.h"

#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <optional>

namespace dtile::format {

unsigned Line::width() const {
  // Of a comment of several lines, the last one counts.
  const size_t newline = text.rfind('\n');
  if (newline == std::string::npos)
    return indent + columnsOf(text);
  return columnsOf(llvm::StringRef(text).drop_front(newline + 1));
}

namespace {

// Deeper than this, what continues a bracket is indented instead of aligned after it.
constexpr unsigned kMaxAlignment = 40;

class Layout {
public:
  Layout(std::vector<Item> &items, size_t begin, size_t end, unsigned indent)
      : items_(items), begin_(begin), end_(end), indent_(indent) {}

  std::vector<Line> run(Breaking breaking) {
    findParameters();
    alignParameters();
    place();
    // Each round adds a break.
    while (breaking == Breaking::WhereNeeded && addBreak()) {
      alignParameters();
      place();
    }
    return std::move(lines_);
  }

private:
  struct Opened {
    bool isBroken;
    // Of the line on which the bracket stands.
    unsigned lineIndent;
    // After the bracket.
    unsigned column;
  };

  // ---- Placing ----

  void place() {
    lines_.clear();
    opened_.clear();
    columns_.assign(end_ - begin_, 0);
    depths_.assign(end_ - begin_, 0);
    expression_ = 0;
    unsigned column = 0;
    for (size_t i = begin_; i < end_; ++i) {
      Item &item = items_[i];
      const bool startsLine = i == begin_ || item.breakBefore;
      if (closes(item.kind) && !opened_.empty()) {
        const Opened opened = opened_.pop_back_val();
        if (startsLine)
          column = startLine(opened.isBroken ? opened.lineIndent : opened.column, i);
      } else if (startsLine) {
        column = startLine(i == begin_ ? indent_ : indentFor(i), i);
      }
      if (item.kind == Kind::LineComment && !startsLine) {
        lines_.back().comment = item.text;
        lines_.back().commentColumn = item.sourceColumn;
        continue;
      }
      Line &line = lines_.back();
      unsigned spaces = item.padding;
      if (!startsLine && item.spaceBefore)
        ++spaces;
      line.text.append(spaces, ' ');
      columns_[i - begin_] = column + spaces;
      depths_[i - begin_] = unsigned(opened_.size());
      line.text += item.text;
      line.lastItem = i;
      column = line.width();
      if (opens(item.kind))
        opened_.push_back({isBrokenBehind(items_, i), line.indent, column});
      if (item.kind == Kind::Assign && opened_.empty() &&
          !(i + 1 < end_ && items_[i + 1].breakBefore))
        expression_ = column + 1;
    }
  }

  unsigned startLine(unsigned indent, size_t item) {
    Line line;
    line.indent = indent;
    line.firstItem = item;
    line.lastItem = item;
    lines_.push_back(line);
    return indent;
  }

  unsigned indentFor(size_t i) const {
    const Item &item = items_[i];
    // A comment ended the line of the head.
    if (item.kind == Kind::OpenBrace)
      return indent_;
    if (opened_.empty()) {
      // `& put(…)` stands so that the operands are below each other.
      const unsigned aligned = unsigned(item.text.size()) + 1;
      if (item.kind == Kind::Infix && expression_ > indent_ + kIndent + aligned &&
          expression_ <= kMaxAlignment)
        return expression_ - aligned;
      return indent_ + kIndent;
    }
    const Opened &inner = opened_.back();
    if (!inner.isBroken)
      return inner.column <= kMaxAlignment ? inner.column : inner.lineIndent + kIndent;
    // The mesh in front of joins is no continuation of anything.
    const bool goesOn = item.kind == Kind::Infix || item.kind == Kind::Tight ||
                        (item.kind == Kind::Keyword && !opens(items_[i - 1].kind));
    return inner.lineIndent + (goesOn ? 2 * kIndent : kIndent);
  }

  // ---- Parameters ----

  // The brackets of the parameter list, in the header of a kernel or function.
  void findParameters() {
    const llvm::StringRef word = items_[begin_].text;
    const bool isGraph = word == "overlap" && begin_ + 2 < end_ && items_[begin_ + 2].text != "=";
    if (word != "kernel" && word != "fn" && word != "extern" && word != "plan" && !isGraph)
      return;
    for (size_t i = begin_; i < end_; ++i) {
      if (items_[i].kind == Kind::GenericOpen)
        i = items_[i].partner;
      else if (items_[i].kind == Kind::Open && items_[i].partner < end_) {
        parameters_ = i;
        return;
      }
    }
  }

  // Calls back with the first item of each parameter.
  template <typename Callback> void eachParameter(Callback callback) {
    const size_t close = items_[*parameters_].partner;
    bool isFirst = true;
    for (size_t i = *parameters_ + 1; i < close; ++i) {
      if (isComment(items_[i]))
        continue;
      if (isFirst)
        callback(i);
      isFirst = items_[i].kind == Kind::Comma;
      if (opens(items_[i].kind))
        i = items_[i].partner;
    }
  }

  // Where each parameter has a line, colons stand below each other, and types after short modes.
  void alignParameters() {
    if (!parameters_)
      return;
    bool isTable = true;
    unsigned name = 0;
    unsigned mode = 0;
    eachParameter([&](size_t i) {
      isTable &= items_[i].breakBefore && i + 2 < end_ && items_[i + 1].kind == Kind::Colon &&
                 !items_[i + 1].breakBefore;
      name = std::max(name, columnsOf(items_[i].text));
      if (i + 2 < end_ && isShortMode(items_[i + 2]))
        mode = std::max(mode, unsigned(items_[i + 2].text.size()));
    });
    if (!isTable)
      return;
    eachParameter([&](size_t i) {
      items_[i + 1].padding = name - columnsOf(items_[i].text);
      if (isShortMode(items_[i + 2]) && i + 3 < end_)
        items_[i + 3].padding = mode - unsigned(items_[i + 2].text.size());
    });
  }

  static bool isShortMode(const Item &item) {
    return item.kind == Kind::Keyword && item.text != "scratch";
  }

  // ---- Breaking ----

  bool addBreak() {
    for (const Line &line : lines_)
      if (line.width() > kMaxColumns && line.text.find('\n') == std::string::npos &&
          breakLine(line))
        return true;
    return false;
  }

  bool breakLine(const Line &line) {
    // A parameter list that does not fit becomes a table.
    if (parameters_ && *parameters_ >= line.firstItem && *parameters_ < line.lastItem &&
        !isBrokenBehind(items_, *parameters_)) {
      eachParameter([&](size_t i) {
        // After a comment the author's choice stands.
        items_[i].breakBefore |= !isComment(items_[i - 1]);
      });
      items_[*parameters_ + 1].breakBefore = true;
      items_[items_[*parameters_].partner].breakBefore = true;
      return true;
    }
    // The outermost place that fits, and of those the last one.
    std::optional<size_t> best;
    for (size_t i = line.firstItem + 1; i <= line.lastItem; ++i) {
      if (!mayBreak(i) || items_[i].breakBefore || columnBefore(i) > kMaxColumns)
        continue;
      if (!best || rank(i) <= rank(*best))
        best = i;
    }
    if (!best)
      return false;
    items_[*best].breakBefore = true;
    if (opens(items_[*best - 1].kind))
      items_[items_[*best - 1].partner].breakBefore = true;
    return true;
  }

  // The width of the line if the item went to the next one.
  unsigned columnBefore(size_t i) const {
    return columns_[i - begin_] - items_[i].padding - (items_[i].spaceBefore ? 1 : 0);
  }

  bool mayBreak(size_t i) const {
    const Item &item = items_[i];
    const Item &before = items_[i - 1];
    if (before.kind == Kind::Comma || opens(before.kind))
      return !closes(item.kind);
    if (before.kind == Kind::Assign)
      return true;
    if (item.kind == Kind::Infix)
      return item.text != ".." && !item.sticksToBefore;
    return item.kind == Kind::Keyword && item.text == "over";
  }

  // Lower is better: by depth, breaks after opening brackets after all others, and those after
  // `=` last.
  unsigned rank(size_t i) const {
    const unsigned depth = depths_[i - begin_];
    if (items_[i - 1].kind == Kind::Assign)
      return 3000 + depth;
    if (opens(items_[i - 1].kind))
      return 1000 + depth;
    return depth;
  }

  std::vector<Item> &items_;
  const size_t begin_;
  const size_t end_;
  const unsigned indent_;
  std::vector<Line> lines_;
  llvm::SmallVector<Opened, 8> opened_;
  // Of each item: where it stands, and in how many brackets.
  std::vector<unsigned> columns_;
  std::vector<unsigned> depths_;
  // Where the expression after `=` starts; 0 when there is none on that line.
  unsigned expression_ = 0;
  std::optional<size_t> parameters_;
};

} // namespace

std::vector<Line> layOut(std::vector<Item> &items, size_t begin, size_t end, unsigned indent,
                         Breaking breaking) {
  return Layout(items, begin, end, indent).run(breaking);
}

bool isTooLong(const std::vector<Line> &lines) {
  return std::any_of(lines.begin(), lines.end(),
                     [](const Line &line) { return line.width() > kMaxColumns; });
}

} // namespace dtile::format
