// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splits a file into statements, lays out each, and joins the lines: blocks, blank lines, comments.
#include "frontend/format/format.h"

#include "frontend/format/items.h"
#include "frontend/format/layout.h"
#include "frontend/parse/parser.h"

#include <algorithm>
#include <optional>

namespace dtile::format {

namespace {

class Formatter {
public:
  explicit Formatter(std::vector<Item> items) : items_(std::move(items)) {}

  std::string run() {
    while (next_ < items_.size())
      formatUnit();
    alignComments();
    return join();
  }

private:
  // Formats what starts at the next item: a comment, a statement, the head of a block, or its end.
  void formatUnit() {
    const size_t begin = next_;
    if (items_[begin].kind == Kind::CloseBrace)
      --depth_;
    size_t end = endOfUnit(begin);
    if (hasOneLineBlock(begin, end) &&
        isTooLong(layOut(items_, begin, end, depth_ * kIndent, Breaking::AsWritten))) {
      expandBlocks(begin, end);
      end = endOfUnit(begin);
    }
    std::vector<Line> lines = layOut(items_, begin, end, depth_ * kIndent, Breaking::WhereNeeded);
    lines.front().blankBefore = wantsBlank(begin);
    if (depth_ == 0 && items_[begin].kind != Kind::CloseBrace)
      ++declarations_;
    for (Line &line : lines)
      line.declaration = declarations_;
    lines_.insert(lines_.end(), lines.begin(), lines.end());
    next_ = end;
    noteEnd(begin, end);
  }

  // After the last item of the unit, comments on its line included.
  size_t endOfUnit(size_t begin) {
    if (isComment(items_[begin]))
      return begin + 1 < items_.size() && items_[begin].kind == Kind::BlockComment &&
                     items_[begin + 1].newlines == 0
                 ? endOfStatement(begin + 1)
                 : begin + 1;
    return endOfStatement(begin);
  }

  size_t endOfStatement(size_t begin) {
    size_t i = begin;
    unsigned brackets = 0;
    for (; i < items_.size(); ++i) {
      const Item &item = items_[i];
      if (opens(item.kind))
        ++brackets;
      else if (closes(item.kind))
        --brackets;
      const bool endsHere = (item.kind == Kind::Semicolon && brackets == 0 && !inInline_) ||
                            (item.kind == Kind::OpenBrace && !item.isInline) ||
                            (item.kind == Kind::CloseBrace && !continues(i));
      if (item.kind == Kind::OpenBrace && item.isInline)
        inInline_ = true;
      if (item.kind == Kind::CloseBrace)
        inInline_ = false;
      if (endsHere)
        break;
      // What ends a block joins what goes on after it.
      if (item.kind == Kind::CloseBrace)
        items_[i + 1].breakBefore = false;
      if (i + 1 < items_.size() && items_[i + 1].kind == Kind::CloseBrace &&
          !items_[i + 1].isInline) {
        // The text may miss a semicolon only where it does not parse.
        break;
      }
    }
    inInline_ = false;
    i = std::min(i + 1, items_.size());
    while (i < items_.size() && isComment(items_[i]) && items_[i].newlines == 0)
      ++i;
    return i;
  }

  // `} else`, `} when all`
  bool continues(size_t close) const {
    return close + 1 < items_.size() && items_[close + 1].kind == Kind::Keyword &&
           (items_[close + 1].text == "else" || items_[close + 1].text == "when");
  }

  static bool isOneLineBlock(const Item &item, size_t index) {
    return item.kind == Kind::OpenBrace && item.isInline && item.partner > index + 1;
  }

  bool hasOneLineBlock(size_t begin, size_t end) const {
    for (size_t i = begin; i < end; ++i)
      if (isOneLineBlock(items_[i], i))
        return true;
    return false;
  }

  // Gives up the one-line blocks of a unit.
  void expandBlocks(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      if (isOneLineBlock(items_[i], i)) {
        items_[i].isInline = false;
        items_[items_[i].partner].isInline = false;
      }
  }

  // ---- Between units ----

  void noteEnd(size_t begin, size_t end) {
    size_t last = end - 1;
    while (last > begin && isComment(items_[last]))
      --last;
    lastKind_ = items_[last].kind;
    afterOpenBrace_ = lastKind_ == Kind::OpenBrace;
    if (afterOpenBrace_)
      ++depth_;
    if (depth_ == 0) {
      afterComment_ = isComment(items_[last]);
      afterDoc_ = afterComment_ && items_[last].isDoc && items_[last].text.starts_with("///");
      if (!afterComment_ && items_[begin].kind != Kind::CloseBrace)
        declaration_ = items_[begin].text;
      else if (!afterComment_)
        declaration_ = "}";
    }
  }

  bool wantsBlank(size_t begin) const {
    const Item &item = items_[begin];
    if (begin == 0 || afterOpenBrace_ || item.kind == Kind::CloseBrace)
      return false;
    const bool had = item.newlines > 1;
    if (depth_ > 0)
      return had;
    if (afterDoc_ && !isComment(item))
      return false;
    if (afterComment_)
      return had;
    // Declarations stand apart, but for lists of imports and of constants.
    const bool isList = (declaration_ == "import" || declaration_ == "const") &&
                        (isComment(item) || item.text == declaration_);
    return had || !isList;
  }

  // ---- Lines ----

  // Comments at the ends of neighbouring lines.
  struct CommentGroup {
    size_t begin;
    size_t end;
    // Where all begin, and what then is the width of the longest line.
    unsigned column;
    unsigned width;
    // Where they begin in the source, if all begin in one column there.
    std::optional<unsigned> source;
    bool fits() const { return width <= kMaxColumns; }
  };

  CommentGroup commentsFrom(size_t begin) const {
    CommentGroup group{begin, begin, 0, 0, lines_[begin].commentColumn};
    unsigned longest = 0;
    for (; group.end < lines_.size() && !lines_[group.end].comment.empty() &&
           (group.end == begin || !lines_[group.end].blankBefore);
         ++group.end) {
      const Line &line = lines_[group.end];
      group.column = std::max(group.column, line.width() + 2);
      longest = std::max(longest, columnsOf(line.comment));
      if (group.source != line.commentColumn)
        group.source = std::nullopt;
    }
    group.width = group.column + longest;
    return group;
  }

  // Comments at the ends of neighbouring lines stand below each other where they fit, and so do
  // groups of them that the author put into one column of a declaration.
  void alignComments() {
    std::vector<CommentGroup> groups;
    for (size_t i = 0; i < lines_.size(); ++i)
      if (!lines_[i].comment.empty()) {
        groups.push_back(commentsFrom(i));
        i = groups.back().end - 1;
      }
    for (size_t i = 0; i < groups.size(); ++i)
      if (groups[i].source && groups[i].fits())
        joinColumn(groups, i);
    for (const CommentGroup &group : groups)
      for (size_t k = group.begin; k < group.end; ++k) {
        Line &line = lines_[k];
        line.text.append(group.fits() ? group.column - line.width() : 2, ' ');
        line.text += line.comment;
      }
  }

  // Moves the groups of one column of the source, of which `first` is the first, to one column.
  void joinColumn(std::vector<CommentGroup> &groups, size_t first) const {
    const std::optional<unsigned> source = groups[first].source;
    const unsigned declaration = lines_[groups[first].begin].declaration;
    std::vector<CommentGroup *> joined;
    unsigned column = 0;
    unsigned longest = 0;
    for (size_t i = first; i < groups.size() && lines_[groups[i].begin].declaration == declaration;
         ++i) {
      CommentGroup &group = groups[i];
      if (group.source != source || !group.fits())
        continue;
      joined.push_back(&group);
      column = std::max(column, group.column);
      longest = std::max(longest, group.width - group.column);
    }
    for (CommentGroup *group : joined) {
      group->source = std::nullopt;
      if (column + longest <= kMaxColumns) {
        group->width += column - group->column;
        group->column = column;
      }
    }
  }

  std::string join() const {
    std::string text;
    for (const Line &line : lines_) {
      if (line.blankBefore)
        text += '\n';
      text.append(line.indent, ' ');
      text += line.text;
      text += '\n';
    }
    return text;
  }

  std::vector<Item> items_;
  std::vector<Line> lines_;
  size_t next_ = 0;
  unsigned depth_ = 0;
  unsigned declarations_ = 0;
  bool inInline_ = false;
  // About the unit before.
  Kind lastKind_ = Kind::Semicolon;
  bool afterOpenBrace_ = false;
  bool afterComment_ = false;
  bool afterDoc_ = false;
  llvm::StringRef declaration_;
};

} // namespace

std::optional<std::string> formatFile(FileId file, const SourceManager &sources,
                                      Diagnostics &diagnostics) {
  const unsigned errorsBefore = diagnostics.errorCount();
  ast::Arena arena;
  parse::parse(file, sources, arena, diagnostics);
  if (diagnostics.errorCount() != errorsBefore)
    return std::nullopt;
  // Lexical errors were reported, of which there are none.
  Diagnostics unused(sources);
  const std::vector<parse::Token> tokens = parse::tokenize(file, sources, unused);
  return Formatter(makeItems(sources.text(file), tokens)).run();
}

} // namespace dtile::format
