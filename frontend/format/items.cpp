// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Classifies tokens by their neighbours: unary or binary, keyword or name, which colon.
#include "frontend/format/items.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Unicode.h"

#include <algorithm>

namespace dtile::format {

unsigned columnsOf(llvm::StringRef text) {
  const int columns = llvm::sys::unicode::columnWidthUTF8(text);
  return columns >= 0 ? unsigned(columns) : unsigned(text.size());
}

bool isBrokenBehind(const std::vector<Item> &items, size_t open) {
  size_t i = open + 1;
  while (i < items.size() && isComment(items[i]) && !items[i].breakBefore)
    ++i;
  return i < items.size() && items[i].breakBefore && i < items[open].partner;
}

namespace {

using parse::TokenClass;

class Classifier {
public:
  Classifier(llvm::StringRef text, const std::vector<parse::Token> &tokens)
      : text_(text), tokens_(tokens) {}

  std::vector<Item> run() {
    items_.reserve(tokens_.size());
    uint32_t end = 0;
    uint32_t lineStart = 0;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const parse::Token &token = tokens_[i];
      Item item;
      item.text = text_.slice(token.begin, token.end);
      item.partner = uint32_t(i);
      const llvm::StringRef between = text_.slice(end, token.begin);
      item.newlines = uint32_t(between.count('\n'));
      item.sourceGap = uint32_t(between.size());
      if (item.newlines > 0)
        lineStart = end + uint32_t(between.rfind('\n')) + 1;
      item.sourceColumn = token.kind == TokenClass::LineComment
                              ? columnsOf(text_.slice(lineStart, token.begin))
                              : token.begin - lineStart;
      end = token.end;
      items_.push_back(item);
      classify(i);
    }
    for (size_t i = 0; i < items_.size(); ++i)
      if (items_[i].kind == Kind::OpenBrace)
        chooseInline(i);
    for (size_t i = 0; i < items_.size(); ++i)
      space(i);
    for (size_t i = 0; i < items_.size(); ++i)
      chooseBreak(i);
    alignAssignments();
    return std::move(items_);
  }

private:
  // ---- Kinds ----

  void classify(size_t i) {
    Item &item = items_[i];
    switch (tokens_[i].kind) {
    case TokenClass::LineComment:
    case TokenClass::DocComment:
    case TokenClass::ModuleComment:
      item.text = item.text.rtrim();
      item.kind = Kind::LineComment;
      item.isDoc = tokens_[i].kind != TokenClass::LineComment;
      return;
    case TokenClass::BlockComment:
      item.kind = Kind::BlockComment;
      return;
    case TokenClass::Name:
    case TokenClass::Number:
    case TokenClass::String:
    case TokenClass::Invalid:
      item.kind = Kind::Word;
      break;
    case TokenClass::Keyword:
      item.kind = item.text == "true" || item.text == "false" ? Kind::Word : Kind::Keyword;
      break;
    case TokenClass::ContextWord:
      item.kind = contextWord(i);
      break;
    case TokenClass::GenericOpen:
      item.kind = Kind::GenericOpen;
      break;
    case TokenClass::GenericClose:
      item.kind = Kind::GenericClose;
      break;
    case TokenClass::Operator:
      item.kind = isJoinArrow(i) ? Kind::Infix : operatorKind(item.text);
      item.sticksToBefore = isJoinArrow(i);
      break;
    case TokenClass::Punctuation:
      item.kind = punctuation(i);
      break;
    }
    bracket(i);
    before_ = i;
    hasBefore_ = true;
  }

  // The significant token before the one at hand ends an operand.
  bool endsOperand() const {
    if (!hasBefore_)
      return false;
    const Kind kind = items_[before_].kind;
    return kind == Kind::Word || kind == Kind::Close || kind == Kind::GenericClose ||
           kind == Kind::WholeColon;
  }
  llvm::StringRef textBefore() const { return hasBefore_ ? items_[before_].text : ""; }
  Kind kindBefore() const { return hasBefore_ ? items_[before_].kind : Kind::Semicolon; }

  // Where an operand just ended, a context word can only be a keyword.
  Kind contextWord(size_t i) const {
    const llvm::StringRef text = items_[i].text;
    const bool beforeWord =
        i + 1 < tokens_.size() &&
        (tokens_[i + 1].kind == TokenClass::Name || tokens_[i + 1].kind == TokenClass::ContextWord);
    const bool isMode = kindBefore() == Kind::Colon && beforeWord;
    const bool followsKeyword =
        kindBefore() == Kind::Keyword &&
        (textBefore() == "when" || textBefore() == "scratch" || textBefore() == "ordered" ||
         textBefore() == "programs" || textBefore() == "copy_engine");
    const bool isAlways = text == "test" || text == "bench" || text == "requires" ||
                          text == "assume" || text == "mesh" || text == "extern";
    return endsOperand() || isMode || followsKeyword || isAlways ? Kind::Keyword : Kind::Word;
  }

  // The braces of `with { … }` hold a list, as other brackets do.
  bool isInJoins() const {
    return !open_.empty() && items_[open_.back().index].text == "{" &&
           items_[open_.back().index].kind == Kind::Open;
  }

  // `a <- plan(x)`: two tokens that are set as one.
  bool isJoinArrow(size_t i) const {
    return isInJoins() && items_[i].text == "-" && textBefore() == "<";
  }

  Kind operatorKind(llvm::StringRef text) const {
    const bool comparesWithEquals =
        text == "==" || text == "!=" || text == "<=" || text == ">=" || text == "~=";
    if (text.ends_with("=") && !comparesWithEquals)
      return Kind::Assign;
    return endsOperand() ? Kind::Infix : Kind::Prefix;
  }

  Kind punctuation(size_t i) {
    const llvm::StringRef text = items_[i].text;
    if (text == ":")
      return colon();
    if (text == "{" && textBefore() == "with" && kindBefore() == Kind::Keyword)
      return Kind::Open;
    if (text == "}" && isInJoins())
      return Kind::Close;
    if (text == "..") {
      const bool isSpaced =
          i + 1 < tokens_.size() && endsOperand() &&
          (tokens_[i - 1].end < tokens_[i].begin || tokens_[i].end < tokens_[i + 1].begin);
      // `lo..` has nothing after it to stand apart from.
      const llvm::StringRef next =
          isSpaced ? text_.slice(tokens_[i + 1].begin, tokens_[i + 1].end) : "";
      return isSpaced && next != "]" && next != "," && next != ")" ? Kind::Infix : Kind::Tight;
    }
    return llvm::StringSwitch<Kind>(text)
        .Cases({"(", "["}, Kind::Open)
        .Cases({")", "]"}, Kind::Close)
        .Case("{", Kind::OpenBrace)
        .Case("}", Kind::CloseBrace)
        .Case(",", Kind::Comma)
        .Case(";", Kind::Semicolon)
        .Cases({".", "@"}, Kind::Tight)
        .Default(Kind::Infix);
  }

  Kind colon() {
    if (!open_.empty() && open_.back().questions > 0) {
      --open_.back().questions;
      return Kind::Infix;
    }
    if (open_.empty() && questions_ > 0) {
      --questions_;
      return Kind::Infix;
    }
    const bool isWhole = kindBefore() == Kind::Comma || kindBefore() == Kind::Open;
    return isWhole ? Kind::WholeColon : Kind::Colon;
  }

  // Pairs brackets, and counts the `?` that wait for their `:` in each.
  void bracket(size_t i) {
    Item &item = items_[i];
    if (item.text == "?") {
      ++(open_.empty() ? questions_ : open_.back().questions);
      return;
    }
    if (item.kind == Kind::Semicolon)
      questions_ = 0;
    if (opens(item.kind) || item.kind == Kind::OpenBrace) {
      open_.push_back({i, 0});
      return;
    }
    if ((closes(item.kind) || item.kind == Kind::CloseBrace) && !open_.empty()) {
      item.partner = uint32_t(open_.back().index);
      items_[item.partner].partner = uint32_t(i);
      open_.pop_back();
    }
  }

  // ---- Blocks ----

  // An empty block stays on its line, and so does one of a single statement where the author put
  // it there.
  void chooseInline(size_t open) {
    const size_t close = items_[open].partner;
    unsigned statements = 0;
    bool isInline = true;
    for (size_t i = open + 1; i <= close && isInline; ++i) {
      const Item &item = items_[i];
      const bool isEmpty = close == open + 1;
      isInline =
          (isEmpty || item.newlines == 0) && !isComment(item) && item.kind != Kind::OpenBrace;
      statements += item.kind == Kind::Semicolon;
    }
    isInline = isInline && statements <= 1;
    items_[open].isInline = isInline;
    items_[close].isInline = isInline;
  }

  // ---- Spaces ----

  void space(size_t i) {
    Item &item = items_[i];
    if (i == 0)
      return;
    const Item &before = items_[i - 1];
    item.spaceBefore = needsSpace(before, item);
  }

  bool needsSpace(const Item &before, const Item &item) const {
    if (item.sticksToBefore)
      return false;
    if ((before.text == "{" && before.kind == Kind::Open) ||
        (item.text == "}" && item.kind == Kind::Close))
      return true;
    switch (item.kind) {
    case Kind::Comma:
    case Kind::Semicolon:
    case Kind::Close:
    case Kind::GenericClose:
    case Kind::GenericOpen:
    case Kind::Colon:
      return false;
    case Kind::CloseBrace:
      return before.kind != Kind::OpenBrace;
    case Kind::LineComment:
      return true;
    case Kind::Tight:
      // `a, ..n` and `in ..n`; elsewhere nothing.
      return item.text == ".." && (before.kind == Kind::Comma || before.kind == Kind::Infix ||
                                   before.kind == Kind::Keyword || before.kind == Kind::Assign ||
                                   before.kind == Kind::Colon);
    case Kind::Open:
      if (before.kind == Kind::Word || before.kind == Kind::Close ||
          before.kind == Kind::GenericClose || before.text == "programs" ||
          before.text == "copy_engine")
        return false;
      break;
    default:
      break;
    }
    switch (before.kind) {
    case Kind::Open:
    case Kind::GenericOpen:
    case Kind::Prefix:
    case Kind::Tight:
      return false;
    default:
      return true;
    }
  }

  // ---- Line breaks inside statements ----

  void chooseBreak(size_t i) {
    Item &item = items_[i];
    if (i == 0)
      return;
    const Item &before = items_[i - 1];
    if (before.kind == Kind::LineComment) {
      item.breakBefore = true;
      return;
    }
    const bool hadBreak = item.newlines > 0;
    if (isComment(item) || before.kind == Kind::BlockComment) {
      item.breakBefore = hadBreak;
      return;
    }
    switch (before.kind) {
    case Kind::Comma:
    case Kind::Open:
    case Kind::GenericOpen:
    case Kind::Assign:
      item.breakBefore = hadBreak && !closes(item.kind);
      break;
    default:
      break;
    }
    switch (item.kind) {
    case Kind::Infix: {
      // A break after an operator goes before it.
      const bool breakBehind =
          i + 1 < items_.size() && items_[i + 1].newlines > 0 && !isComment(items_[i + 1]);
      item.breakBefore = (hadBreak || breakBehind) && item.text != ".." && !item.sticksToBefore;
      break;
    }
    case Kind::Tight:
      item.breakBefore = hadBreak && item.text == ".";
      break;
    case Kind::Keyword:
      item.breakBefore |= hadBreak && startsClause(item.text);
      break;
    case Kind::Close:
    case Kind::GenericClose:
      // The closing bracket stands as the opening one does.
      item.breakBefore = item.partner + 1 < i && isBrokenBehind(items_, item.partner);
      break;
    default:
      break;
    }
  }

  static bool startsClause(llvm::StringRef word) {
    return llvm::StringSwitch<bool>(word)
        .Cases({"over", "ordered", "programs", "ranks", "rtol", "atol", "after", "because"}, true)
        .Cases({"unordered", "with", "copy_engine"}, true)
        .Default(false);
  }

  // ---- Alignment ----

  // The `=` of a `let` or `var` whose head stands on one line; its own index for all else.
  size_t assignmentOf(size_t begin) const {
    if (items_[begin].text != "let" && items_[begin].text != "var")
      return begin;
    for (size_t i = begin + 1; i < items_.size() && !items_[i].breakBefore; ++i) {
      if (items_[i].kind == Kind::Assign)
        return i;
      if (items_[i].kind == Kind::Semicolon || isComment(items_[i]))
        return begin;
    }
    return begin;
  }

  // The first item of the next line of statements, or the end.
  size_t nextStatement(size_t i) const {
    unsigned brackets = 0;
    for (; i < items_.size(); ++i) {
      brackets += opens(items_[i].kind);
      brackets -= closes(items_[i].kind) && brackets > 0;
      if (items_[i].kind == Kind::Semicolon && brackets == 0)
        break;
      if (items_[i].kind == Kind::OpenBrace)
        return items_.size();
    }
    ++i;
    while (i < items_.size() && isComment(items_[i]) && items_[i].newlines == 0)
      ++i;
    return std::min(i, items_.size());
  }

  unsigned widthOf(size_t begin, size_t end) const {
    unsigned width = 0;
    for (size_t i = begin; i < end; ++i)
      width += columnsOf(items_[i].text) + (i > begin && items_[i].spaceBefore ? 1 : 0);
    return width;
  }

  // Neighbouring `let`s whose `=` the author put below each other keep them so.
  void alignAssignments() {
    for (size_t i = 0; i < items_.size();) {
      const size_t first = assignmentOf(i);
      if (first == i) {
        ++i;
        continue;
      }
      llvm::SmallVector<std::pair<size_t, size_t>, 8> rows;
      bool isPadded = false;
      size_t at = i;
      while (at < items_.size()) {
        const size_t assign = assignmentOf(at);
        if (assign == at || items_[assign].sourceColumn != items_[first].sourceColumn ||
            (at != i && items_[at].newlines != 1))
          break;
        rows.emplace_back(at, assign);
        isPadded |= items_[assign].sourceGap > 1;
        at = nextStatement(at);
      }
      unsigned width = 0;
      for (auto [begin, assign] : rows)
        width = std::max(width, widthOf(begin, assign));
      for (auto [begin, assign] : rows)
        if (isPadded && rows.size() > 1)
          items_[assign].padding = width - widthOf(begin, assign);
      i = first + 1;
      if (rows.size() > 1)
        i = rows.back().second + 1;
    }
  }

  struct Opened {
    size_t index;
    unsigned questions;
  };

  llvm::StringRef text_;
  const std::vector<parse::Token> &tokens_;
  std::vector<Item> items_;
  llvm::SmallVector<Opened, 16> open_;
  unsigned questions_ = 0;
  size_t before_ = 0;
  bool hasBefore_ = false;
};

} // namespace

std::vector<Item> makeItems(llvm::StringRef text, const std::vector<parse::Token> &tokens) {
  return Classifier(text, tokens).run();
}

} // namespace dtile::format
