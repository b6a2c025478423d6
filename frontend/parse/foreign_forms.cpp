// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators, words and numbers of other languages; statements are in foreign_statements.cpp.
#include "frontend/parse/foreign_forms.h"

#include "frontend/base/dtype.h"

#include "grammar/DtileLexer.h"

#include "llvm/ADT/StringExtras.h"

namespace dtile::parse {

using L = grammar::DtileLexer;
using habits::Form;

ForeignForms::ForeignForms(const LexedFile &lexed, llvm::StringRef text, uint32_t start,
                           Diagnostics &diagnostics, const Limits &limits)
    : lexed_(lexed), in_(lexed.visible), text_(text), start_(start), diagnostics_(diagnostics),
      limits_(limits) {}

std::vector<SourceToken> ForeignForms::run() {
  out_.reserve(in_.size() + 8);
  while (i_ < in_.size()) {
    while (!braces_.empty() && i_ > braces_.back().last) {
      if (braces_.back().needsSemicolon)
        emit(L::SEMICOLON, in_[i_ - 1].end, in_[i_ - 1].end);
      emit(L::RIGHT_BRACE, at(i_).begin, at(i_).begin);
      braces_.pop_back();
    }
    if (!braces_.empty() && i_ == braces_.back().first && !braces_.back().isOpen) {
      emit(L::LEFT_BRACE, at(i_).begin, at(i_).begin);
      braces_.back().isOpen = true;
    }
    const bool changed =
        reported_ < limits_.maxErrors &&
        (tryStatements() || tryLists() || tryOperators() || tryPlainWords() || tryNumbers());
    if (!changed)
      copy();
  }
  // The parser reads up to the file's end, which forms may take for the end of what they replace.
  if (out_.empty() || out_.back().type != in_.back().type)
    out_.push_back(in_.back());
  for (auto [index, token] : llvm::enumerate(out_))
    token.index = uint32_t(index);
  return std::move(out_);
}

// ---- The tokens around ----

bool ForeignForms::isWord(size_t i, llvm::StringRef word) const {
  return type(i) == L::NAME && textOf(i) == word;
}

bool ForeignForms::isOnSameLine(size_t i, size_t j) const {
  return !text_.slice(at(i).end, at(j).begin).contains('\n');
}

// The type of the last token but `back` that was put out.
size_t ForeignForms::before(size_t back) const {
  return back < out_.size() ? out_[out_.size() - 1 - back].type : size_t(L::SEMICOLON);
}

bool ForeignForms::startsStatement() const {
  const size_t last = before();
  const bool isBlock = open_.empty() || open_.back() == Open::Brace;
  return isBlock && (last == L::SEMICOLON || last == L::LEFT_BRACE || last == L::RIGHT_BRACE);
}

bool ForeignForms::endsOperand() const {
  switch (before()) {
  case L::NAME:
  case L::INTEGER:
  case L::FLOAT:
  case L::STRING:
  case L::TRUE:
  case L::FALSE:
  case L::RIGHT_PAREN:
  case L::RIGHT_BRACKET:
    return !out_.empty();
  default:
    return false;
  }
}

bool ForeignForms::startsOperand(size_t i) const {
  switch (type(i)) {
  case L::NAME:
  case L::INTEGER:
  case L::FLOAT:
  case L::TRUE:
  case L::FALSE:
  case L::LEFT_PAREN:
  case L::MINUS:
  case L::NOT:
  case L::TILDE:
    return true;
  default:
    return false;
  }
}

bool ForeignForms::isElementType(size_t i) const {
  return type(i) == L::NAME &&
         (dtypeFromName(textOf(i)) || !habits::elementType(textOf(i)).empty());
}

bool ForeignForms::isAssignment(size_t i) const {
  return type(i) >= L::ASSIGN && type(i) <= L::SHIFT_RIGHT_ASSIGN;
}

bool ForeignForms::opens(size_t i) const {
  return type(i) == L::LEFT_PAREN || type(i) == L::LEFT_BRACKET || type(i) == L::LEFT_BRACE;
}

bool ForeignForms::closes(size_t i) const {
  return type(i) == L::RIGHT_PAREN || type(i) == L::RIGHT_BRACKET || type(i) == L::RIGHT_BRACE;
}

void ForeignForms::findEnds() const {
  const size_t last = in_.size() - 1;
  closers_.assign(in_.size(), uint32_t(last));
  ends_.assign(in_.size(), uint32_t(last));
  std::vector<size_t> open;
  for (size_t i = 0; i < in_.size(); ++i)
    if (opens(i)) {
      open.push_back(i);
    } else if (closes(i) && !open.empty()) {
      closers_[open.back()] = uint32_t(i);
      open.pop_back();
    }
  for (size_t i = last; i-- > 0;)
    if (opens(i))
      ends_[i] = ends_[std::min<size_t>(closers_[i] + 1, last)];
    else
      ends_[i] =
          closes(i) || type(i) == L::SEMICOLON || type(i) == L::COMMA ? uint32_t(i) : ends_[i + 1];
}

size_t ForeignForms::closerOf(size_t i) const {
  if (closers_.empty())
    findEnds();
  return closers_[std::min(i, in_.size() - 1)];
}

size_t ForeignForms::operandEnd(size_t i) const {
  while (type(i) == L::MINUS || type(i) == L::NOT || type(i) == L::TILDE)
    ++i;
  if (type(i) == L::LEFT_PAREN)
    i = closerOf(i);
  ++i;
  while (true) {
    if (type(i) == L::LEFT_PAREN || type(i) == L::LEFT_BRACKET)
      i = closerOf(i) + 1;
    else if (type(i) == L::DOT && type(i + 1) == L::NAME)
      i += 2;
    else
      return std::min(i, in_.size() - 1);
  }
}

uint32_t ForeignForms::operandBegin() const {
  size_t depth = 0;
  size_t k = out_.size();
  while (k-- > 0) {
    const size_t one = out_[k].type;
    if (one == L::RIGHT_PAREN || one == L::RIGHT_BRACKET) {
      ++depth;
      continue;
    }
    const bool opens = one == L::LEFT_PAREN || one == L::LEFT_BRACKET;
    if (opens && depth > 0)
      --depth;
    if (depth > 0)
      continue;
    const size_t previous = k == 0 ? size_t(L::SEMICOLON) : out_[k - 1].type;
    const bool goesOn =
        opens ? previous == L::NAME || previous == L::RIGHT_PAREN || previous == L::RIGHT_BRACKET
              : previous == L::DOT;
    if (!goesOn)
      return out_[k].begin;
    if (!opens)
      --k;
  }
  return out_.empty() ? 0 : out_.front().begin;
}

size_t ForeignForms::expressionEnd(size_t i) const {
  if (ends_.empty())
    findEnds();
  return ends_[std::min(i, in_.size() - 1)];
}

uint32_t ForeignForms::indexBegin() const {
  size_t depth = 0;
  for (size_t k = out_.size(); k-- > 0;) {
    if (out_[k].type == L::RIGHT_BRACKET)
      ++depth;
    else if (out_[k].type == L::LEFT_BRACKET && depth-- == 0)
      return out_[k].begin;
  }
  return 0;
}

uint32_t ForeignForms::expressionBegin() const {
  size_t depth = 0;
  for (size_t k = out_.size(); k-- > 0;) {
    const size_t one = out_[k].type;
    const bool closes = one == L::RIGHT_PAREN || one == L::RIGHT_BRACKET;
    const bool opens = one == L::LEFT_PAREN || one == L::LEFT_BRACKET;
    const bool isEnd = one == L::SEMICOLON || one == L::LEFT_BRACE || one == L::RIGHT_BRACE ||
                       one == L::COMMA || one == L::RETURN ||
                       (one >= L::ASSIGN && one <= L::SHIFT_RIGHT_ASSIGN);
    if (depth == 0 && (isEnd || opens))
      return k + 1 < out_.size() ? out_[k + 1].begin : out_[k].end;
    depth = depth + (closes ? 1 : 0) - (opens ? 1 : 0);
  }
  return 0;
}

// `name` changes in what is left of the block around `from`.
bool ForeignForms::isAssignedLater(size_t name, size_t from) const {
  size_t depth = 0;
  for (size_t i = from; i + 1 < in_.size(); ++i) {
    if (type(i) == L::LEFT_BRACE)
      ++depth;
    else if (type(i) == L::RIGHT_BRACE && depth-- == 0)
      return false;
    const bool isSame = type(i) == L::NAME && textOf(i) == textOf(name);
    const bool steps = (type(i + 1) == L::PLUS && type(i + 2) == L::PLUS) ||
                       (type(i + 1) == L::MINUS && type(i + 2) == L::MINUS);
    if (isSame && (isAssignment(i + 1) || steps))
      return true;
  }
  return false;
}

bool ForeignForms::declares(llvm::StringRef function) const {
  if (!functions_) {
    functions_.emplace();
    for (size_t i = 0; i + 1 < in_.size(); ++i)
      if (type(i) == L::FN)
        functions_->insert(textOf(i + 1));
  }
  return functions_->contains(function);
}

// ---- Changes ----

SourceRange ForeignForms::range(uint32_t begin, uint32_t end) const {
  return {{start_ + begin}, {start_ + end}};
}

SourceRange ForeignForms::rangeOf(size_t first, size_t last) const {
  return range(at(first).begin, at(last).end);
}

DiagBuilder *ForeignForms::report(SourceRange place, Form form, llvm::StringRef shown) {
  ++reported_;
  const habits::FormInfo &row = habits::info(form);
  if (shown.empty())
    shown = row.shown;
  message_.emplace(diagnostics_.report(place, diag::foreign_form, shown, row.advice));
  return &*message_;
}

void ForeignForms::reportWord(size_t i, const habits::Word &word) {
  ++reported_;
  diagnostics_.report(rangeOf(i, i), diag::foreign_form, textOf(i), word.advice);
}

void ForeignForms::emit(size_t type, uint32_t begin, uint32_t end) {
  out_.emplace_back(type, begin, end, at(i_).lexedIndex);
  out_.back().followsLexicalError = isEcho_;
  isEcho_ = false;
  track(type);
}

void ForeignForms::copy() {
  out_.push_back(in_[i_]);
  out_.back().followsLexicalError |= isEcho_;
  isEcho_ = false;
  track(in_[i_].type);
  ++i_;
  if (loopNames_.empty() || in_[i_ - 1].type != L::LEFT_BRACE)
    return;
  for (const size_t name : loopNames_) {
    invent(L::LET);
    emit(L::NAME, at(name).begin, at(name).end);
    invent(L::ASSIGN);
    inventAnything();
    invent(L::SEMICOLON);
  }
  loopNames_.clear();
}

// What is left out may leave an echo at the token after it.
void ForeignForms::skipTo(size_t i) {
  i_ = std::min(i, in_.size() - 1);
  isEcho_ = true;
}

void ForeignForms::inventAnything() { invent(L::NAME); }

// The `let` of the name that the output ends with becomes a `var`, as the name changes. Of a name
// that nothing has made no more is said.
bool ForeignForms::makeVariable() {
  const auto text = [&](const SourceToken &token) { return text_.slice(token.begin, token.end); };
  const llvm::StringRef name = text(out_.back());
  bool isKnown = out_.back().type != L::NAME;
  for (size_t k = out_.size() - 1; k-- > 1;) {
    SourceToken &word = out_[k - 1];
    isKnown |= text(out_[k]) == name;
    if (word.type == L::KERNEL || word.type == L::FN)
      break;
    if (word.type != L::LET || text(out_[k]) != name)
      continue;
    if (word.begin < word.end)
      message_->fix(range(word.begin, word.end), "var");
    word.type = L::VAR;
    return true;
  }
  if (!isKnown)
    out_.back().end = out_.back().begin;
  return isKnown;
}

// Keeps the open brackets of what was put out.
void ForeignForms::track(size_t type) {
  const auto close = [&](auto isOpener) {
    for (size_t k = open_.size(); k-- > 0;)
      if (isOpener(open_[k]))
        return open_.resize(k);
  };
  switch (type) {
  case L::LEFT_PAREN: {
    const bool isNamed = before(1) == L::NAME || before(1) == L::GREATER;
    return open_.push_back(isHeader_ && isNamed && open_.empty() ? Open::Parameters : Open::Paren);
  }
  case L::LEFT_BRACKET:
    return open_.push_back(Open::Bracket);
  case L::LEFT_BRACE:
    isHeader_ = false;
    return open_.push_back(before(1) == L::WITH ? Open::Joins : Open::Brace);
  case L::QUESTION:
    return open_.push_back(Open::Question);
  case L::COLON:
    if (innermost() == Open::Question && !open_.empty())
      open_.pop_back();
    return;
  case L::RIGHT_PAREN:
    return close([](Open one) { return one == Open::Paren || one == Open::Parameters; });
  case L::RIGHT_BRACKET:
    return close([](Open one) { return one == Open::Bracket; });
  case L::RIGHT_BRACE:
    return close([](Open one) { return one == Open::Brace || one == Open::Joins; });
  case L::SEMICOLON:
    while (!open_.empty() && open_.back() != Open::Brace && open_.back() != Open::Joins)
      open_.pop_back();
    isHeader_ = false;
    return;
  case L::KERNEL:
  case L::FN:
  case L::PLAN:
    open_.clear();
    isHeader_ = true;
    isTest_ = false;
    isFunction_ = type == L::FN;
    loopNames_.clear();
    isColonSaid_ = false;
    return;
  case L::STRING:
    isTest_ |= open_.empty() && (before(1) == L::TEST || before(1) == L::BENCH);
    return;
  default:
    return;
  }
}

// ---- Operators ----

bool ForeignForms::tryOperators() { return tryPairs() || tryAround() || tryColons(); }

// Two tokens side by side that make one operator elsewhere.
bool ForeignForms::tryPairs() {
  const size_t first = type(i_);
  if (!touches(i_))
    return false;
  const size_t second = type(i_ + 1);
  const SourceRange both = rangeOf(i_, i_ + 1);
  if (first == L::STAR && second == L::STAR && endsOperand() && startsOperand(i_ + 2)) {
    const uint32_t begin = operandBegin();
    const uint32_t end = at(operandEnd(i_ + 2) - 1).end;
    const llvm::StringRef base = text_.slice(begin, out_.back().end);
    report(both, Form::Power)
        ->fix(range(begin, end),
              ("pow(" + base + ", " + text_.slice(at(i_ + 2).begin, end) + ")").str());
    ++i_;
    copy();
    return true;
  }
  const bool isIncrement = first == L::PLUS && second == L::PLUS;
  if (isIncrement || (first == L::MINUS && second == L::MINUS)) {
    const Form form = isIncrement ? Form::Increment : Form::Decrement;
    const size_t op = isIncrement ? L::PLUS_ASSIGN : L::MINUS_ASSIGN;
    const llvm::StringRef text = isIncrement ? " += 1" : " -= 1";
    if (endsOperand() && (type(i_ + 2) == L::SEMICOLON || type(i_ + 2) == L::RIGHT_PAREN)) {
      DiagBuilder *message = report(both, form);
      if (makeVariable())
        message->fix(both, text);
      emit(op, at(i_).begin, at(i_ + 1).end);
      invent(L::INTEGER);
      i_ += 2;
      return true;
    }
    if (startsStatement() && type(i_ + 2) == L::NAME && type(i_ + 3) == L::SEMICOLON) {
      report(both, form)->fix(rangeOf(i_, i_ + 2), (textOf(i_ + 2) + text).str());
      i_ += 2;
      copy();
      emit(op, at(i_).begin, at(i_).begin);
      invent(L::INTEGER);
      return true;
    }
    return false;
  }
  const bool isAnd = first == L::AND_AND;
  if ((isAnd || first == L::OR_OR) && second == L::ASSIGN && endsOperand()) {
    report(both, Form::LogicalAssignment, isAnd ? "&&=" : "||=")->fix(both, isAnd ? "&=" : "|=");
    emit(isAnd ? L::AMPERSAND_ASSIGN : L::BAR_ASSIGN, at(i_).begin, at(i_ + 1).end);
    i_ += 2;
    return true;
  }
  const bool isScope = first == L::COLON && second == L::COLON && before() == L::NAME &&
                       type(i_ + 2) == L::NAME && innermost() != Open::Bracket;
  if (isScope) {
    report(both, Form::Scope)->fix(both, ".");
    emit(L::DOT, at(i_).begin, at(i_ + 1).end);
    i_ += 2;
    return true;
  }
  if ((first == L::EQUAL || first == L::NOT_EQUAL) && second == L::ASSIGN) {
    report(both, Form::StrictEqual)->fix(rangeOf(i_ + 1, i_ + 1), "");
    copy();
    ++i_;
    return true;
  }
  if (first == L::DOT_DOT && second == L::ASSIGN && startsOperand(i_ + 2)) {
    const SourceRange sign = rangeOf(i_ + 1, i_ + 1);
    const uint32_t end = at(operandEnd(i_ + 2) - 1).end;
    report(both, Form::InclusiveRange)->fix(sign, "").fix(range(end, end), " + 1");
    copy();
    ++i_;
    return true;
  }
  if (first == L::DOT_DOT && second == L::DOT && headWord() == L::FOR && startsOperand(i_ + 2)) {
    report(both, Form::LoopRange, "...")->fix(both, "..");
    emit(L::DOT_DOT, at(i_).begin, at(i_ + 1).end);
    i_ += 2;
    return true;
  }
  if (first == L::DOT_DOT && second == L::DOT) {
    report(both, Form::Ellipsis);
    emit(L::COLON, at(i_).begin, at(i_ + 1).end);
    i_ += 2;
    return true;
  }
  return false;
}

// Words and signs between or before operands.
bool ForeignForms::tryAround() {
  const SourceRange here = rangeOf(i_, i_);
  if (endsOperand()) {
    const bool isAnd = isWord(i_, "and");
    if ((isAnd || isWord(i_, "or")) && (startsOperand(i_ + 1) || isWord(i_ + 1, "not"))) {
      report(here, isAnd ? Form::And : Form::Or)->fix(here, isAnd ? "&&" : "||");
      emit(isAnd ? L::AND_AND : L::OR_OR, at(i_).begin, at(i_).end);
      ++i_;
      return true;
    }
    if (isWord(i_, "is") && startsOperand(i_ + 1)) {
      const bool isNot = isWord(i_ + 1, "not");
      const SourceRange words = rangeOf(i_, i_ + (isNot ? 1 : 0));
      report(words, Form::Is)->fix(words, isNot ? "!=" : "==");
      emit(isNot ? L::NOT_EQUAL : L::EQUAL, at(i_).begin, at(i_).end);
      i_ += isNot ? 2 : 1;
      return true;
    }
    // `i not in lo..hi`: what stands after it is no value.
    if (isWord(i_, "not") && type(i_ + 1) == L::IN) {
      report(rangeOf(i_, i_ + 1), Form::NotIn);
      size_t end = i_ + 2;
      while (type(end) != L::LEFT_BRACE && expressionEnd(end) != end && end < i_ + kMostTokens)
        end = type(end) == L::LEFT_PAREN || type(end) == L::LEFT_BRACKET ? closerOf(end) + 1
                                                                         : end + 1;
      emit(L::NOT_EQUAL, at(i_).begin, at(i_ + 1).end);
      inventAnything();
      skipTo(end);
      return true;
    }
    if (tryLoopWord())
      return true;
    // `for i in 0..n step 2 {`
    if (isWord(i_, "step") && startsOperand(i_ + 1) && headWord() == L::FOR) {
      report(here, Form::Range, "step")->fix(here, "by");
      emit(L::BY, at(i_).begin, at(i_).end);
      ++i_;
      return true;
    }
    const bool isCalledTranspose = type(i_) == L::LEFT_PAREN && type(i_ + 1) == L::RIGHT_PAREN &&
                                   before(1) == L::DOT &&
                                   text_.slice(out_.back().begin, out_.back().end) == "T";
    if (isCalledTranspose) {
      report(rangeOf(i_, i_ + 1), Form::TransposeCall)->fix(rangeOf(i_, i_ + 1), "");
      i_ += 2;
      return true;
    }
    const bool isMember = type(i_) == L::ARROW && type(i_ + 1) == L::NAME && touches(i_) &&
                          out_.back().end == at(i_).begin && innermost() != Open::Joins &&
                          !isHeader_;
    if (isMember) {
      report(here, Form::ArrowMember)->fix(here, ".");
      emit(L::DOT, at(i_).begin, at(i_).end);
      ++i_;
      return true;
    }
    return tryConversions();
  }
  const bool isNot = isWord(i_, "not") && startsOperand(i_ + 1) &&
                     (type(i_ + 1) != L::LEFT_PAREN || !declares("not")) && before() != L::FN &&
                     before() != L::DOT;
  if (isNot) {
    report(here, Form::Not)->fix(range(at(i_).begin, at(i_ + 1).begin), "!");
    emit(L::NOT, at(i_).begin, at(i_).end);
    ++i_;
    return true;
  }
  const bool isAddress = type(i_) == L::AMPERSAND;
  const bool isPointer = isAddress || (type(i_) == L::STAR && !(type(i_ + 1) == L::STAR));
  if (isPointer && type(i_ + 1) == L::NAME && before() != L::STAR && before() != L::AMPERSAND) {
    report(here, isAddress ? Form::Address : Form::Pointer);
    ++i_;
    return true;
  }
  return tryConversions();
}

bool ForeignForms::tryConversions() {
  // `x as f32`
  const bool isAs = type(i_) == L::AS && endsOperand() && isElementType(i_ + 1) &&
                    innermost() != Open::Joins && !isHeader_ && !open_.empty();
  if (isAs) {
    const uint32_t begin = operandBegin();
    const llvm::StringRef known = habits::elementType(textOf(i_ + 1));
    const std::string dtype = known.empty() ? textOf(i_ + 1).str() : known.str();
    const llvm::StringRef operand = text_.slice(begin, out_.back().end);
    report(rangeOf(i_, i_ + 1), Form::AsCast)
        ->fix(range(begin, at(i_ + 1).end), ("cast<" + dtype + ">(" + operand + ")").str());
    skipTo(i_ + 2);
    return true;
  }
  // `(float) x`
  const bool isCast = type(i_) == L::LEFT_PAREN && isElementType(i_ + 1) &&
                      type(i_ + 2) == L::RIGHT_PAREN && startsOperand(i_ + 3) &&
                      type(i_ + 3) != L::MINUS && !endsOperand() && before() != L::FN &&
                      before() != L::GREATER;
  if (!isCast)
    return false;
  const llvm::StringRef known = habits::elementType(textOf(i_ + 1));
  const std::string dtype = known.empty() ? textOf(i_ + 1).str() : known.str();
  const uint32_t end = at(operandEnd(i_ + 3) - 1).end;
  report(rangeOf(i_, i_ + 2), Form::Cast)
      ->fix(range(at(i_).begin, end),
            ("cast<" + dtype + ">(" + text_.slice(at(i_ + 3).begin, end) + ")").str());
  i_ += 3;
  return true;
}

size_t ForeignForms::headWord() const {
  const size_t first = out_.size() - std::min(out_.size(), kMostTokens);
  for (size_t k = out_.size(); k-- > first;) {
    const size_t one = out_[k].type;
    if (one == L::IF || one == L::ELSE || one == L::FOR || one == L::WHILE)
      return one;
    if (one == L::SEMICOLON || one == L::LEFT_BRACE || one == L::RIGHT_BRACE || one == L::LET ||
        one == L::VAR || one == L::ASSIGN)
      break;
  }
  return 0;
}

// The statement in progress is the head of an `if` or of a loop.
bool ForeignForms::headsBlock() const {
  return (open_.empty() || open_.back() == Open::Brace) && headWord() != 0;
}

// `x[0:4]`, `x := 1`
/// Whether the index in progress has had its `..`.
bool ForeignForms::hasRange() const {
  size_t depth = 0;
  for (size_t k = out_.size(); k-- > 0;) {
    const size_t one = out_[k].type;
    if (one == L::RIGHT_BRACKET || one == L::RIGHT_PAREN)
      ++depth;
    else if (one == L::LEFT_BRACKET || one == L::LEFT_PAREN)
      if (depth-- == 0)
        return false;
    if (depth == 0 && (one == L::COMMA || one == L::DOT_DOT))
      return one == L::DOT_DOT;
  }
  return false;
}

/// `x[::2]`, `x[1::2]`
bool ForeignForms::tryStepAlone() {
  const bool isStep = type(i_ + 1) == L::COLON && !hasRange() && startsOperand(i_ + 2);
  if (!isStep)
    return false;
  report(rangeOf(i_, i_ + 1), Form::SliceStep)->fix(rangeOf(i_, i_ + 1), ".. by ");
  slicedIndex_ = indexBegin();
  slicesReported_ = reported_;
  emit(L::DOT_DOT, at(i_).begin, at(i_).end);
  emit(L::BY, at(i_ + 1).begin, at(i_ + 1).end);
  i_ += 2;
  return true;
}

bool ForeignForms::tryColons() {
  if (type(i_) != L::COLON)
    return false;
  const SourceRange here = rangeOf(i_, i_);
  if (innermost() == Open::Bracket && !open_.empty()) {
    const bool isWhole = (before() == L::LEFT_BRACKET || before() == L::COMMA) &&
                         (type(i_ + 1) == L::COMMA || type(i_ + 1) == L::RIGHT_BRACKET);
    if (isWhole)
      return false;
    if (tryStepAlone())
      return true;
    const bool isStep = hasRange();
    // All of one index are one habit.
    const uint32_t index = indexBegin();
    if (index != slicedIndex_ || slicesReported_ != reported_)
      report(here, Form::Slice);
    slicedIndex_ = index;
    slicesReported_ = reported_;
    message_->fix(here, isStep ? " by " : "..");
    emit(isStep ? L::BY : L::DOT_DOT, at(i_).begin, at(i_).end);
    ++i_;
    return true;
  }
  if ((endsOperand() || before() == L::ELSE) && headsBlock()) {
    if (!isColonSaid_)
      report(here, Form::Colon);
    isColonSaid_ = true;
    ++i_;
    braceStatement(i_);
    return true;
  }
  const bool isSign = type(i_ + 1) == L::ASSIGN && touches(i_);
  if (isSign && before() == L::RIGHT_BRACKET && innermost() == Open::Brace && !open_.empty()) {
    report(rangeOf(i_, i_ + 1), Form::StoreWalrus)->fix(rangeOf(i_, i_ + 1), "=");
    ++i_;
    return true;
  }
  if (!isSign || before() != L::NAME)
    return false;
  const bool isDeclared = before(1) == L::LET || before(1) == L::VAR;
  const bool isFirst =
      before(1) == L::SEMICOLON || before(1) == L::LEFT_BRACE || before(1) == L::RIGHT_BRACE;
  DiagBuilder *message = report(rangeOf(i_, i_ + 1), Form::Walrus);
  message->fix(rangeOf(i_, i_ + 1), "=");
  if (!isDeclared && isFirst) {
    SourceToken &name = out_.back();
    message->fix(range(name.begin, name.begin), "let ");
    out_.insert(out_.end() - 1, SourceToken(L::LET, name.begin, name.begin, name.lexedIndex));
  }
  ++i_;
  return true;
}

// ---- Words and numbers ----

bool ForeignForms::tryPlainWords() {
  // `elif c {`
  const bool isElseIf = before() == L::RIGHT_BRACE && startsOperand(i_ + 1) &&
                        (isWord(i_, "elif") || isWord(i_, "elsif") || isWord(i_, "elseif")) &&
                        type(i_ + 1) != L::LEFT_PAREN;
  if (isElseIf || (before() == L::RIGHT_BRACE && isWord(i_, "elif"))) {
    // Branches with colons are told by the first of these.
    if (!isColonSaid_)
      report(rangeOf(i_, i_), Form::ElseIf)->fix(rangeOf(i_, i_), "else if");
    emit(L::ELSE, at(i_).begin, at(i_).end);
    emit(L::IF, at(i_).end, at(i_).end);
    ++i_;
    return true;
  }
  // `f"x = {x}"`
  if (isWord(i_, "f") && type(i_ + 1) == L::STRING && touches(i_)) {
    report(rangeOf(i_, i_ + 1), Form::FormattedText);
    ++i_;
    copy();
    return true;
  }
  // `while True:`, of which the colon is told
  const bool isTruth = (isWord(i_, "True") || isWord(i_, "False")) && type(i_ + 1) == L::COLON;
  if (isTruth && !endsOperand() && headsBlock() && innermost() == Open::Brace) {
    emit(textOf(i_) == "True" ? L::TRUE : L::FALSE, at(i_).begin, at(i_).end);
    ++i_;
    return true;
  }
  // `if c then x;`
  if (isWord(i_, "then") && endsOperand() && headsBlock()) {
    report(rangeOf(i_, i_), Form::Then);
    ++i_;
    if (type(i_) != L::LEFT_BRACE)
      braceStatement(i_);
    return true;
  }
  // `lambda a: a + 1`
  if (isWord(i_, "lambda") && !endsOperand() &&
      (type(i_ + 1) == L::NAME || type(i_ + 1) == L::COLON)) {
    report(rangeOf(i_, i_), Form::Lambda);
    inventAnything();
    size_t end = i_;
    while (type(end) != L::COLON && end + 1 < in_.size() && type(end) != L::SEMICOLON)
      ++end;
    skipTo(expressionEnd(end));
    return true;
  }
  return tryChoiceOfBlocks() || tryConditional();
}

// `float("-inf")`: the number that is meant, where the text says one.
bool ForeignForms::tryFloatText() {
  const bool isCall = isWord(i_, "float") && type(i_ + 1) == L::LEFT_PAREN &&
                      type(i_ + 2) == L::STRING && type(i_ + 3) == L::RIGHT_PAREN &&
                      before() != L::DOT;
  if (!isCall)
    return false;
  const llvm::StringRef written = textOf(i_ + 2).drop_front().drop_back().trim();
  const bool isNegative = written.starts_with("-");
  const std::string digits = written.ltrim("+-").lower();
  const auto isDigits = [](llvm::StringRef part) {
    return !part.empty() && llvm::all_of(part, llvm::isDigit);
  };
  const auto [whole, fraction] = llvm::StringRef(digits).split('.');
  std::string meant;
  if (digits == "inf" || digits == "infinity")
    meant = "inf";
  else if (digits == "nan")
    meant = "nan";
  else if (isDigits(whole) && (isDigits(fraction) || whole.size() == digits.size()))
    meant = whole.size() == digits.size() ? digits + ".0" : digits;
  DiagBuilder *message =
      report(rangeOf(i_, i_ + 3), Form::FloatText, text_.slice(at(i_).begin, at(i_ + 3).end));
  const bool isOperand = before() == L::MINUS;
  if (!meant.empty())
    message->fix(rangeOf(i_, i_ + 3), !isNegative ? meant
                                      : isOperand ? "(-" + meant + ")"
                                                  : "-" + meant);
  inventAnything();
  skipTo(i_ + 4);
  return true;
}

// `.5`, `1.`, `2.f`, `1e-5f`
bool ForeignForms::tryNumbers() {
  if (tryFloatText())
    return true;
  const bool hasType = type(i_) == L::FLOAT && touches(i_) && type(i_ + 1) == L::NAME &&
                       (textOf(i_ + 1) == "f" || textOf(i_ + 1) == "F");
  if (hasType) {
    report(rangeOf(i_, i_ + 1), Form::FloatSuffix, text_.slice(at(i_).begin, at(i_ + 1).end))
        ->fix(rangeOf(i_, i_ + 1), textOf(i_));
    copy();
    ++i_;
    return true;
  }
  if (type(i_) == L::DOT && type(i_ + 1) == L::INTEGER && touches(i_) && !endsOperand()) {
    report(rangeOf(i_, i_ + 1), Form::FloatPoint, text_.slice(at(i_).begin, at(i_ + 1).end))
        ->fix(range(at(i_).begin, at(i_).begin), "0");
    emit(L::FLOAT, at(i_).begin, at(i_ + 1).end);
    i_ += 2;
    return true;
  }
  if (type(i_) != L::INTEGER || type(i_ + 1) != L::DOT || !touches(i_))
    return false;
  const bool hasSuffix = type(i_ + 2) == L::NAME && touches(i_ + 1);
  if (hasSuffix && textOf(i_ + 2) != "f" && textOf(i_ + 2) != "F")
    return false;
  const size_t last = i_ + (hasSuffix ? 2 : 1);
  report(rangeOf(i_, last), Form::FloatPoint, text_.slice(at(i_).begin, at(last).end))
      ->fix(rangeOf(i_ + 1, last), ".0");
  emit(L::FLOAT, at(i_).begin, at(i_ + 1).end);
  i_ = last + 1;
  return true;
}

} // namespace dtile::parse
