// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lists, tuples, arguments and assignments of other languages, and blocks by indentation.
#include "frontend/parse/foreign_forms.h"

#include "grammar/DtileLexer.h"

namespace dtile::parse {

using L = grammar::DtileLexer;
using habits::Form;

bool ForeignForms::tryLists() {
  return trySeveralTokens() || tryForeignArgument() || tryLoopNames() || tryAssignmentInHead() ||
         tryListLiteral() || trySizesInParentheses() ||
         (startsStatement() &&
          (tryTripleQuotes() || tryPairOfValues() || tryTuple() || tryAsserts()));
}

// The expressions between commas from `first` on, as pairs of first token and one past the last.
std::vector<std::pair<size_t, size_t>> ForeignForms::partsUpTo(size_t first, size_t end) const {
  std::vector<std::pair<size_t, size_t>> parts;
  while (first < end) {
    const size_t stop = std::min(expressionEnd(first), end);
    parts.push_back({first, stop});
    first = stop + 1;
  }
  return parts;
}

bool ForeignForms::isImported(llvm::StringRef name) const {
  for (size_t i = 0; i + 1 < in_.size(); ++i)
    for (size_t part = i + 1; type(i) == L::IMPORT && part < expressionEnd(i + 1); ++part)
      if (isWord(part, name))
        return true;
  return false;
}

// The open parentheses are those of a function of another library: `tl.load(x, mask=m`.
bool ForeignForms::isInForeignCall() const {
  if (innermost() != Open::Paren || open_.empty())
    return false;
  size_t depth = 0, generics = 0;
  for (size_t k = out_.size(); k-- > 0;) {
    const size_t one = out_[k].type;
    if (one == L::RIGHT_PAREN || one == L::RIGHT_BRACKET)
      ++depth;
    // Generic arguments have their own `=`: `f<BM = 64>`.
    if (depth == 0 && one == L::GREATER)
      ++generics;
    if (depth == 0 && one == L::GENERIC_OPEN && generics-- == 0)
      return false;
    if ((one != L::LEFT_PAREN && one != L::LEFT_BRACKET) || depth-- > 0)
      continue;
    if (one == L::LEFT_BRACKET || k == 0 || out_[k - 1].type != L::NAME)
      return false;
    const auto textAt = [&](size_t at) { return text_.slice(out_[at].begin, out_[at].end); };
    // A library that is imported has dtile's forms, as have functions without a prefix.
    const auto isForeign = [&](size_t at) {
      return habits::isModule(textAt(at)) && !isImported(textAt(at));
    };
    const bool isMember = k >= 3 && out_[k - 2].type == L::DOT && out_[k - 3].type == L::NAME;
    return isMember &&
           (isForeign(k - 3) || (k >= 5 && out_[k - 4].type == L::DOT && isForeign(k - 5)));
  }
  return false;
}

// The call itself is what is wrong; its arguments are none of dtile's: `tl.zeros((M, N), dtype=t)`.
bool ForeignForms::tryForeignArgument() {
  const bool begins = before() == L::LEFT_PAREN || before() == L::COMMA || before() == L::COLON;
  if (type(i_) == L::LEFT_PAREN && begins && isInForeignCall()) {
    const size_t close = closerOf(i_);
    if (partsUpTo(i_ + 1, close).size() < 2)
      return false;
    ++reported_;
    invent(L::INTEGER);
    skipTo(close + 1);
    return true;
  }
  if (type(i_) != L::ASSIGN || before() != L::NAME ||
      (before(1) != L::LEFT_PAREN && before(1) != L::COMMA) || !isInForeignCall())
    return false;
  ++reported_;
  emit(L::COLON, at(i_).begin, at(i_).end);
  ++i_;
  return true;
}

// `for i, x in enumerate(y) {`: what is called there has its own message.
bool ForeignForms::tryLoopNames() {
  if (type(i_) != L::COMMA || before() != L::NAME || before(1) != L::FOR || i_ == 0)
    return false;
  if (type(i_ + 1) != L::NAME || type(i_ + 2) != L::IN || !isWord(i_ + 3, "enumerate"))
    return keepOneName(i_ - 1, i_ + 1);
  ++reported_;
  skipTo(i_ + 2);
  return true;
}

// `if x = 0 {`, `for i = 0..n {`, `for i = 0, n {`
bool ForeignForms::tryAssignmentInHead() {
  if (type(i_) != L::ASSIGN || !endsOperand())
    return false;
  const SourceRange here = rangeOf(i_, i_);
  if (before() == L::NAME && before(1) == L::FOR) {
    const size_t comma = expressionEnd(i_ + 1);
    const bool isPair = type(comma) == L::COMMA;
    DiagBuilder *message = report(here, Form::LoopAssignment);
    message->fix(here, "in");
    loopReported_ = reported_;
    emit(L::IN, at(i_).begin, at(i_).end);
    ++i_;
    if (!isPair)
      return true;
    message->fix(range(at(comma).begin, at(comma + 1).begin), "..");
    while (i_ < comma)
      copy();
    emit(L::DOT_DOT, at(i_).begin, at(i_).end);
    ++i_;
    return true;
  }
  const bool isInParens = !open_.empty() && open_.back() == Open::Paren;
  const size_t word = headWord();
  if (word != L::IF && word != L::WHILE)
    return false;
  // A label of a call within the condition is another form.
  const bool isLabel = isInParens && before() == L::NAME &&
                       (before(1) == L::COMMA || (before(1) == L::LEFT_PAREN &&
                                                  before(2) != L::IF && before(2) != L::WHILE));
  if (isLabel)
    return false;
  report(here, Form::AssignmentInCondition)->fix(here, "==");
  emit(L::EQUAL, at(i_).begin, at(i_).end);
  ++i_;
  return true;
}

// `[1, 2, 3]` and `{1, 2, 3}` where an expression begins.
bool ForeignForms::tryListLiteral() {
  const bool begins = before() == L::ASSIGN || before() == L::LEFT_PAREN || before() == L::COMMA ||
                      before() == L::COLON || before() == L::RETURN || before() == L::IN;
  const bool isBraced = type(i_) == L::LEFT_BRACE;
  if ((type(i_) != L::LEFT_BRACKET && !isBraced) || !begins || isHeader_ || open_.empty())
    return false;
  // What lies across lines may be a block whose head is broken.
  if (isBraced && !isOnSameLine(i_, closerOf(i_)))
    return false;
  const size_t close = closerOf(i_);
  report(rangeOf(i_, close), Form::ListLiteral, isBraced ? "{…}" : "");
  invent(L::INTEGER);
  skipTo(close + 1);
  return true;
}

// `zeros((M, N))`, `full((M, N), 1.0)`
bool ForeignForms::trySizesInParentheses() {
  const bool isMaker = isWord(i_, "zeros") || isWord(i_, "full");
  if (!isMaker || type(i_ + 1) != L::LEFT_PAREN || type(i_ + 2) != L::LEFT_PAREN ||
      declares(textOf(i_)) || before() == L::DOT)
    return false;
  const size_t inner = closerOf(i_ + 2);
  const size_t outer = closerOf(i_ + 1);
  if (type(outer) != L::RIGHT_PAREN || inner >= outer || partsUpTo(i_ + 3, inner).size() < 2)
    return false;
  // The value of `full` without its label.
  size_t value = type(inner + 1) == L::COMMA ? inner + 2 : outer;
  if (type(value) == L::NAME && (type(value + 1) == L::ASSIGN || type(value + 1) == L::COLON))
    value += 2;
  const size_t end = std::min(expressionEnd(value), outer);
  const bool isFull = isWord(i_, "full");
  const llvm::StringRef sizes = text_.slice(at(i_ + 2).end, at(inner).begin);
  std::string meant = (textOf(i_) + "<f32>[" + sizes + "]").str();
  if (isFull && value < end)
    meant += ("(" + text_.slice(at(value).begin, at(end - 1).end) + ")").str();
  report(rangeOf(i_ + 2, inner), Form::SizesInParentheses)->fix(rangeOf(i_, outer), meant);
  copy();
  emit(L::LEFT_BRACKET, at(i_).begin, at(i_).end);
  i_ += 2;
  while (i_ < inner)
    copy();
  emit(L::RIGHT_BRACKET, at(i_).begin, at(i_).end);
  if (isFull && value < end) {
    i_ = value;
    emit(L::LEFT_PAREN, at(i_).begin, at(i_).begin);
    while (i_ < end)
      copy();
    emit(L::RIGHT_PAREN, at(i_).begin, at(i_).begin);
  }
  i_ = outer + 1;
  return true;
}

// `z[n], b[n] = f(x);`: one message, and nothing of the statement is left.
bool ForeignForms::isStoreToSeveral() {
  size_t end = type(i_) == L::NAME ? operandEnd(i_) : i_;
  bool isSlice = type(end - 1) == L::RIGHT_BRACKET;
  size_t count = 1;
  for (; end > i_ && type(end) == L::COMMA && type(end + 1) == L::NAME; ++count) {
    end = operandEnd(end + 1);
    isSlice |= type(end - 1) == L::RIGHT_BRACKET;
  }
  if (count < 2 || !isSlice || type(end) != L::ASSIGN)
    return false;
  report(rangeOf(i_, end - 1), Form::Tuple);
  size_t last = end + 1;
  while (type(last = expressionEnd(last)) == L::COMMA)
    ++last;
  skipTo(last + (type(last) == L::SEMICOLON ? 1 : 0));
  return true;
}

// `let (a, b) = (1, 2);`
bool ForeignForms::tryPairOfValues() {
  const bool isMade = type(i_) == L::LET || type(i_) == L::VAR;
  if (!isMade || open_.empty() || type(i_ + 1) != L::LEFT_PAREN)
    return false;
  const size_t names = closerOf(i_ + 1);
  const size_t values = names + 2;
  if (type(names + 1) != L::ASSIGN || type(values) != L::LEFT_PAREN)
    return false;
  const size_t end = closerOf(values) + 1;
  const auto to = partsUpTo(i_ + 2, names);
  const auto from = partsUpTo(values + 1, end - 1);
  if (type(end) != L::SEMICOLON || to.size() < 2 || from.size() != to.size())
    return false;
  std::string meant;
  const llvm::StringRef word = textOf(i_);
  for (auto [name, value] : llvm::zip(to, from)) {
    if (name.second != name.first + 1 || value.first >= value.second)
      return false;
    meant += (llvm::Twine(meant.empty() ? "" : " ") + word + " " + textOf(name.first) + " = " +
              text_.slice(at(value.first).begin, at(value.second - 1).end) + ";")
                 .str();
  }
  report(rangeOf(values, end - 1), Form::Tuple, "(a, b)")->fix(rangeOf(i_, end), meant);
  const size_t keyword = type(i_);
  for (auto [name, value] : llvm::zip(to, from)) {
    i_ = name.first;
    emit(keyword, at(i_).begin, at(i_).begin);
    copy();
    emit(L::ASSIGN, at(i_).begin, at(i_).begin);
    for (i_ = value.first; i_ < value.second;)
      copy();
    emit(L::SEMICOLON, at(i_).begin, at(i_).begin);
  }
  i_ = end + 1;
  return true;
}

// `let a, b = 1, 2;`, `a, b = b, a;`
bool ForeignForms::tryTuple() {
  if (open_.empty())
    return false;
  const bool isMade = type(i_) == L::LET || type(i_) == L::VAR;
  size_t name = i_ + (isMade ? 1 : 0);
  llvm::SmallVector<size_t, 4> names;
  while (type(name) == L::NAME && type(name + 1) == L::COMMA) {
    names.push_back(name);
    name += 2;
  }
  if (!isMade && isStoreToSeveral())
    return true;
  if (names.empty() || type(name) != L::NAME || type(name + 1) != L::ASSIGN)
    return false;
  names.push_back(name);
  const size_t first = name + 2;
  size_t end = first;
  while (type(end = expressionEnd(end)) == L::COMMA)
    ++end;
  if (type(end) != L::SEMICOLON)
    return false;
  const std::vector<std::pair<size_t, size_t>> parts = partsUpTo(first, end);
  DiagBuilder *message = report(rangeOf(names.front(), name), Form::Tuple);
  const size_t keyword = isMade ? type(i_) : size_t(L::LET);
  if (isMade && parts.size() == 1)
    message->fix(rangeOf(names.front(), name),
                 ("(" + text_.slice(at(names.front()).begin, at(name).end) + ")").str());
  if (!isMade) {
    skipTo(end + 1);
    return true;
  }
  if (parts.size() != names.size()) {
    // As dtile's own form, which takes the values of a function.
    copy();
    emit(L::LEFT_PAREN, at(i_).begin, at(i_).begin);
    while (i_ <= name)
      copy();
    emit(L::RIGHT_PAREN, at(i_).begin, at(i_).begin);
    return true;
  }
  std::string meant;
  const llvm::StringRef word = textOf(i_);
  for (auto [one, part] : llvm::zip(names, parts)) {
    meant += (llvm::Twine(meant.empty() ? "" : " ") + word + " " + textOf(one) + " = " +
              text_.slice(at(part.first).begin, at(part.second - 1).end) + ";")
                 .str();
    i_ = one;
    emit(keyword, at(i_).begin, at(i_).begin);
    copy();
    emit(L::ASSIGN, at(i_).begin, at(i_).begin);
    i_ = part.first;
    while (i_ < part.second)
      copy();
    emit(L::SEMICOLON, at(i_).begin, at(i_).begin);
  }
  message->fix(range(at(names.front()).begin - uint32_t(word.size()) - 1, at(end).end), meant);
  i_ = end + 1;
  return true;
}

// `await t, u;`, `await (t, u);`, `after: (t, u)`, `x after [t, u]`
bool ForeignForms::trySeveralTokens() {
  const bool isAwait = before() == L::AWAIT;
  const bool isLabel = before() == L::COLON && before(1) == L::AFTER;
  if (!isAwait && !isLabel && before() != L::AFTER)
    return false;
  const bool isList = type(i_) == L::LEFT_PAREN || type(i_) == L::LEFT_BRACKET;
  const size_t first = isList ? i_ + 1 : i_;
  size_t end = isList ? closerOf(i_) : first;
  while (!isList && isAwait && type(end = expressionEnd(end)) == L::COMMA)
    ++end;
  if (end <= first || end + 1 >= in_.size() || (isList && !closes(end)))
    return false;
  const std::vector<std::pair<size_t, size_t>> parts = partsUpTo(first, end);
  if (parts.size() < 2 || (!isList && type(end) != L::SEMICOLON))
    return false;
  for (const auto &[from, to] : parts)
    if (from >= to)
      return false;
  const size_t last = isList ? end : end - 1;
  std::string meant;
  for (const auto &[from, to] : parts)
    meant += (meant.empty() ? "" : " & ") + text_.slice(at(from).begin, at(to - 1).end).str();
  if (isList && !isAwait)
    meant = "(" + meant + ")";
  report(rangeOf(i_, last), Form::SeveralTokens, text_.slice(at(i_).begin, at(last).end))
      ->fix(rangeOf(i_, last), meant);
  emit(L::LEFT_PAREN, at(i_).begin, at(i_).begin);
  for (const auto &[from, to] : parts) {
    i_ = from;
    if (from != first)
      emit(L::AMPERSAND, at(i_).begin, at(i_).begin);
    while (i_ < to)
      copy();
  }
  emit(L::RIGHT_PAREN, at(last).end, at(last).end);
  i_ = last + 1;
  return true;
}

// `assert x < n;`, `assert x < n, "why";`
bool ForeignForms::tryAsserts() {
  if (!isWord(i_, "assert") || !startsOperand(i_ + 1) || type(i_ + 1) == L::LEFT_PAREN ||
      open_.empty())
    return false;
  size_t end = i_ + 1;
  while (type(end = expressionEnd(end)) == L::COMMA)
    ++end;
  if (type(end) != L::SEMICOLON)
    return false;
  report(rangeOf(i_, i_), Form::AssertWithoutParentheses)
      ->fix(range(at(i_).end, at(i_ + 1).begin), "(")
      .fix(range(at(end).begin, at(end).begin), ")");
  copy();
  emit(L::LEFT_PAREN, at(i_).begin, at(i_).begin);
  while (i_ < end)
    copy();
  emit(L::RIGHT_PAREN, at(i_).begin, at(i_).begin);
  return true;
}

// `"""what it does"""`
bool ForeignForms::tryTripleQuotes() {
  if (type(i_) != L::STRING || type(i_ + 1) != L::STRING || !touches(i_) ||
      at(i_).end - at(i_).begin != 2)
    return false;
  size_t end = i_ + 1;
  while (type(end) == L::STRING && end + 1 < in_.size())
    ++end;
  report(rangeOf(i_, end - 1), Form::TripleQuotes);
  skipTo(type(end) == L::SEMICOLON ? end + 1 : end);
  return true;
}

// ---- Blocks by indentation ----

size_t ForeignForms::indentedEnd(size_t first) const {
  const auto indentOf = [&](size_t i) {
    const size_t line = text_.rfind('\n', at(i).begin);
    const size_t begin = line == llvm::StringRef::npos ? 0 : line + 1;
    return text_.slice(begin, at(i).begin).find_first_not_of(" \t") == llvm::StringRef::npos
               ? at(i).begin - begin
               : text_.substr(begin).find_first_not_of(" \t");
  };
  const bool isBelow = first > 0 && !isOnSameLine(first - 1, first);
  const size_t outer = first > 0 ? indentOf(first - 1) : 0;
  size_t last = first;
  while (last + 2 < in_.size() && last < first + kMostTokens) {
    const size_t next = last + 1;
    const bool opensLine = !isOnSameLine(last, next);
    if (type(next) == L::RIGHT_BRACE && (opensLine || type(last) == L::SEMICOLON))
      break;
    if (opensLine && (!isBelow || indentOf(next) <= outer))
      break;
    if (type(next) == L::RIGHT_BRACE)
      break;
    last = type(next) == L::LEFT_BRACE ? closerOf(next) : next;
  }
  return last;
}

} // namespace dtile::parse
