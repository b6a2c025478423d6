// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements, loops and declarations of other languages.
#include "frontend/parse/foreign_forms.h"

#include "grammar/DtileLexer.h"

namespace dtile::parse {

using L = grammar::DtileLexer;
using habits::Form;

bool ForeignForms::tryStatements() {
  if (tryTests() || tryThreadPositions() || tryAssembly() || tryBraces() ||
      tryBracesOfStatement() || tryFloorDivision() || tryLoops() || tryParameters() ||
      tryKernelResult() || tryLaunchBrackets())
    return true;
  return startsStatement() &&
         (tryMutable() || tryTypedVariables() || tryTopLevel() || tryStarters());
}

// How many words of CUDA for the position of a thread stand in an expression; 0 where it has a
// block.
size_t ForeignForms::threadWords(size_t first, size_t end) const {
  constexpr llvm::StringLiteral kWords[] = {"threadIdx", "blockIdx", "blockDim", "gridDim"};
  size_t count = 0;
  for (size_t i = first; i < end; ++i) {
    if (type(i) == L::LEFT_BRACE)
      return 0;
    count += type(i) == L::NAME && type(i + 1) == L::DOT && llvm::is_contained(kWords, textOf(i));
  }
  return count;
}

// `blockIdx.x * blockDim.x + threadIdx.x` is one habit, told at its first word.
bool ForeignForms::tryThreadPositions() {
  // The end is looked for at such words only: to look at every token takes the square of a long
  // expression.
  if (type(i_) != L::NAME || before() == L::DOT || open_.empty() || threadWords(i_, i_ + 1) == 0)
    return false;
  const size_t end = expressionEnd(i_);
  if (threadWords(i_, end) < 2)
    return false;
  reportWord(i_, *habits::findName(textOf(i_)));
  inventAnything();
  skipTo(end);
  return true;
}

// Words that stand before a type elsewhere.
bool ForeignForms::isQualifier(size_t i) const {
  return isWord(i, "static") || isWord(i, "constexpr") || isWord(i, "volatile") ||
         isWord(i, "register") || isWord(i, "__constant__") || type(i) == L::CONST;
}

// `float x = 1.0;`, `auto x = …`, `const int x = …`, `let mut x = …`, `x: f32 = …`
bool ForeignForms::tryTypedVariables() {
  if (open_.empty())
    return false;
  if (type(i_) == L::LET && isWord(i_ + 1, "mut") && type(i_ + 2) == L::NAME) {
    report(rangeOf(i_, i_ + 1), Form::Mutable)->fix(rangeOf(i_, i_ + 1), "var");
    emit(L::VAR, at(i_).begin, at(i_ + 1).end);
    i_ += 2;
    return true;
  }
  size_t name = i_;
  // `static const float x`, of which a single `const` is dtile's own word.
  const bool isConstant = type(name) == L::CONST;
  while (isQualifier(name) && type(name + 1) != L::ASSIGN)
    ++name;
  const bool isTyped = isElementType(name) || isWord(name, "auto") || isWord(name, "val");
  // `unsigned int x`, `long long x`
  while ((isElementType(name) || isWord(name, "auto") || isWord(name, "val")) &&
         type(name + 1) == L::NAME)
    ++name;
  const bool isAnnotated = type(i_) == L::NAME && type(i_ + 1) == L::COLON &&
                           isElementType(i_ + 2) && type(i_ + 3) == L::ASSIGN;
  if (!isAnnotated && (name == i_ || type(name) != L::NAME || (!isTyped && !isConstant)))
    return false;
  // `float acc[16];` is no tile yet, as its sizes may be anything.
  const bool isArray = !isAnnotated && !isConstant && type(name + 1) == L::LEFT_BRACKET;
  if (isArray) {
    report(rangeOf(i_, name), Form::Array);
    emit(L::VAR, at(i_).begin, at(i_).begin);
    i_ = name;
    copy();
    emit(L::ASSIGN, at(i_).begin, at(i_).begin);
    inventAnything();
    skipTo(expressionEnd(i_));
    return true;
  }
  const bool isUninitialized = type(name + 1) == L::SEMICOLON;
  if (!isAnnotated && !isUninitialized && type(name + 1) != L::ASSIGN)
    return false;
  // Of `int i = blockIdx.x * blockDim.x + threadIdx.x` the position is told.
  const size_t end = expressionEnd(name + 2);
  if (!isAnnotated && !isUninitialized && threadWords(name + 2, end) > 0) {
    size_t word = name + 2;
    while (threadWords(word, word + 1) == 0)
      ++word;
    reportWord(word, *habits::findName(textOf(word)));
    emit(isAssignedLater(name, name + 2) ? L::VAR : L::LET, at(i_).begin, at(i_).begin);
    i_ = name;
    copy();
    copy();
    inventAnything();
    skipTo(end);
    return true;
  }
  const bool changes = isUninitialized || isAssignedLater(name, name + 2);
  const llvm::StringRef keyword = changes ? "var " : "let ";
  const SourceRange seen = range(at(i_).begin, at(name).begin);
  DiagBuilder *message = report(isAnnotated ? rangeOf(i_, i_ + 2) : rangeOf(i_, name - 1),
                                isUninitialized          ? Form::Uninitialized
                                : isConstant && !isTyped ? Form::LocalConstant
                                                         : Form::TypedVariable);
  message->fix(seen, keyword);
  emit(changes ? L::VAR : L::LET, at(i_).begin, at(i_).end);
  i_ = name;
  copy();
  if (isAnnotated)
    i_ += 2;
  if (isUninitialized) {
    message->fix(range(at(i_).begin, at(i_).begin), " = 0");
    emit(L::ASSIGN, at(i_).begin, at(i_).begin);
    invent(L::INTEGER);
  }
  return true;
}

// Puts braces around what is the block of a head that has none: Python's lines, or one statement.
void ForeignForms::braceStatement(size_t first) {
  if (type(first) == L::LEFT_BRACE || type(first) == L::RIGHT_BRACE)
    return;
  const size_t end = expressionEnd(first);
  const size_t last = indentedEnd(first);
  if (type(end) == L::SEMICOLON && end <= last && type(last) != L::SEMICOLON)
    braces_.push_back({first, last, false, type(last) != L::RIGHT_BRACE});
  else if (type(end) == L::SEMICOLON && (end <= last || isOnSameLine(last, end)))
    braces_.push_back({first, std::max(end, last)});
  else
    braces_.push_back({first, last, false, type(last) != L::RIGHT_BRACE});
}

// `if c x = 1;`, `else x = 1;`
bool ForeignForms::tryBracesOfStatement() {
  const size_t body = type(i_) == L::ELSE ? i_ + 1 : i_;
  const bool isElse = body != i_ && before() == L::RIGHT_BRACE;
  if (type(body) != L::NAME || (!isElse && !(type(i_) == L::NAME && endsOperand())))
    return false;
  const size_t next = type(body + 1);
  if (next != L::LEFT_BRACKET && next != L::LEFT_PAREN && !isAssignment(body + 1))
    return false;
  const size_t end = expressionEnd(body);
  if (type(end) != L::SEMICOLON || !isOnSameLine(body, end))
    return false;
  const size_t head = isElse ? size_t(L::ELSE) : headWord();
  if (head != L::IF && head != L::WHILE && head != L::ELSE)
    return false;
  const SourceRange before = range(at(body).begin, at(body).begin);
  const SourceRange behind = range(at(end).end, at(end).end);
  report(rangeOf(body, body), Form::NoBraces, isElse ? "else x;" : "if c x;")
      ->fix(before, "{ ")
      .fix(behind, " }");
  if (isElse)
    copy();
  braceStatement(body);
  return true;
}

// `if (c) x = 1;`
bool ForeignForms::tryBraces() {
  if ((type(i_) != L::IF && type(i_) != L::WHILE) || type(i_ + 1) != L::LEFT_PAREN)
    return false;
  const size_t body = closerOf(i_ + 1) + 1;
  const bool isWord = type(body) == L::NAME && type(body + 1) != L::NAME && textOf(body) != "and" &&
                      textOf(body) != "or" && textOf(body) != "is";
  const bool starts =
      isWord || type(body) == L::RETURN || type(body) == L::BREAK || type(body) == L::CONTINUE;
  const size_t end = expressionEnd(body);
  if (!starts || type(end) != L::SEMICOLON)
    return false;
  const SourceRange before = range(at(body).begin, at(body).begin);
  const SourceRange behind = range(at(end).end, at(end).end);
  report(rangeOf(i_, body - 1), Form::NoBraces)->fix(before, "{ ").fix(behind, " }");
  copy();
  braceStatement(body);
  return true;
}

// ---- Loops ----

bool ForeignForms::tryLoops() {
  if (before() == L::FOR && type(i_) == L::LEFT_PAREN)
    return tryLoopParentheses();
  if (before() == L::IN && before(2) == L::FOR)
    return tryLoopRange();
  // `for i in 0:8 {`
  const bool isLoopColon = type(i_) == L::COLON && before(1) == L::IN && before(3) == L::FOR &&
                           startsOperand(i_ + 1) && type(operandEnd(i_ + 1)) == L::LEFT_BRACE;
  // `for i in 0..8..2 {`
  const bool isStep = type(i_) == L::DOT_DOT && before(1) == L::DOT_DOT && endsOperand();
  if (isLoopColon || isStep) {
    report(rangeOf(i_, i_), isStep ? Form::Range : Form::LoopRange, textOf(i_))
        ->fix(rangeOf(i_, i_), isStep ? " by " : "..");
    emit(isStep ? L::BY : L::DOT_DOT, at(i_).begin, at(i_).end);
    ++i_;
    return true;
  }
  return false;
}

// `range(n)`, `range(lo, hi)`, `tl.range(lo, hi, step)` after `for i in`.
bool ForeignForms::tryLoopRange() {
  size_t word = i_;
  if (type(word) == L::NAME && habits::isModule(textOf(word)) && type(word + 1) == L::DOT)
    word += 2;
  if ((!isWord(word, "range") && !isWord(word, "static_range")) || declares(textOf(word)) ||
      type(word + 1) != L::LEFT_PAREN)
    return false;
  const size_t close = closerOf(word + 1);
  llvm::SmallVector<std::pair<size_t, size_t>, 3> parts;
  for (size_t first = word + 2; first < close;) {
    const size_t end = std::min(expressionEnd(first), close);
    parts.push_back({first, end});
    first = end + 1;
  }
  if (parts.empty() || parts.size() > 3 || type(close) != L::RIGHT_PAREN)
    return false;
  std::string meant = parts.size() == 1 ? "0.." : "";
  for (auto [k, part] : llvm::enumerate(parts)) {
    if (part.first >= part.second)
      return false;
    meant += k == 0 ? "" : k == 1 ? ".." : " by ";
    meant += text_.slice(at(part.first).begin, at(part.second - 1).end);
  }
  DiagBuilder *message = report(rangeOf(i_, close), Form::Range);
  // One line has one message, which is mended by its author where there is a colon, too.
  if (type(close + 1) == L::COLON)
    isColonSaid_ = true;
  else
    message->fix(rangeOf(i_, close), meant);
  const uint32_t place = at(i_).begin;
  if (parts.size() == 1) {
    emit(L::INTEGER, place, place);
    emit(L::DOT_DOT, place, place);
  }
  for (auto [k, part] : llvm::enumerate(parts)) {
    i_ = part.first;
    if (k > 0)
      emit(k == 1 ? L::DOT_DOT : L::BY, at(i_).begin, at(i_).begin);
    // Whether a block is meant, or a position in steps, shows in no token.
    if (k == 2) {
      inventAnything();
      break;
    }
    while (i_ < part.second)
      copy();
  }
  i_ = close + 1;
  return true;
}

// `for (int i = 0; i < n; i++) {`, `for (i in 0..n) {`
bool ForeignForms::tryLoopParentheses() {
  const size_t close = closerOf(i_);
  if (type(close) != L::RIGHT_PAREN)
    return false;
  if (type(i_ + 2) == L::COMMA && keepOneName(i_ + 1, close))
    return true;
  if (type(i_ + 1) == L::NAME && type(i_ + 2) == L::IN) {
    report(rangeOf(i_, i_), Form::ForParentheses)
        ->fix(rangeOf(i_, i_), "")
        .fix(rangeOf(close, close), "");
    ++i_;
    while (i_ < close)
      copy();
    ++i_;
    return true;
  }
  size_t name = i_ + 1;
  while (type(name) == L::NAME && type(name + 1) == L::NAME)
    ++name;
  const size_t first = name + 2;
  size_t limit = first;
  while (limit < close && type(limit) != L::SEMICOLON)
    ++limit;
  const size_t less = limit + 2;
  const size_t stop = std::min(expressionEnd(less + 1), close);
  DiagBuilder *message = report(rangeOf(i_, close), Form::ForLoop);
  const bool isPlain = type(name) == L::NAME && type(name + 1) == L::ASSIGN && stop < close &&
                       textOf(limit + 1) == textOf(name) && type(less) == L::LESS;
  if (!isPlain) {
    skipTo(close + 1);
    // The head and its block are gone; the word `for` goes with them.
    out_.pop_back();
    if (type(i_) == L::LEFT_BRACE)
      skipTo(closerOf(i_) + 1);
    return true;
  }
  const auto slice = [&](size_t from, size_t end) {
    return text_.slice(at(from).begin, at(end - 1).end);
  };
  const bool hasStep = type(stop + 2) == L::PLUS_ASSIGN && stop + 3 < close;
  std::string meant = (textOf(name) + " in " + slice(first, limit) + ".." + slice(less + 1, stop) +
                       (hasStep ? " by " + slice(stop + 3, close) : llvm::Twine()))
                          .str();
  message->fix(rangeOf(i_, close), meant);
  const auto copyRange = [&](size_t from, size_t end) {
    for (i_ = from; i_ < end;)
      copy();
  };
  copyRange(name, name + 1);
  emit(L::IN, at(i_).begin, at(i_).begin);
  copyRange(first, limit);
  emit(L::DOT_DOT, at(i_).begin, at(i_).begin);
  copyRange(less + 1, stop);
  i_ = close + 1;
  return true;
}

// ---- Words that start statements and declarations ----

bool ForeignForms::tryStarters() {
  const size_t next = type(i_ + 1);
  if (type(i_) == L::AT && open_.empty()) {
    const size_t end = operandEnd(i_ + 1);
    report(rangeOf(i_, end - 1), Form::Decorator);
    skipTo(end);
    return true;
  }
  const bool isInner = type(i_) == L::IMPORT && !open_.empty() && at(i_).begin > 0 &&
                       text_[at(i_).begin - 1] != '\n';
  if (isInner) {
    report(rangeOf(i_, i_), Form::InnerImport);
    skipTo(expressionEnd(i_) + 1);
    return true;
  }
  // `extern __shared__ float x[];`
  const bool isExtern = type(i_) == L::EXTERN || isWord(i_, "extern");
  if (isExtern && isWord(i_ + 1, "__shared__")) {
    reportWord(i_ + 1, *habits::findStarter("__shared__"));
    skipStatement(i_ + 1);
    return true;
  }
  if (type(i_) != L::NAME)
    return false;
  const habits::Word *word = habits::findStarter(textOf(i_));
  const bool isPass = isWord(i_, "pass");
  // At the top, `def` and the like are read as `fn`, where more than the word is dtile's.
  const bool isFunction =
      open_.empty() && next == L::NAME && isWord(i_, "def") &&
      !(type(i_ + 2) == L::LEFT_PAREN && type(closerOf(i_ + 2) + 1) == L::COLON);
  if (word == nullptr || isFunction)
    return false;
  const bool isCalled = next == L::LEFT_PAREN && !declares(textOf(i_)) &&
                        (isWord(i_, "switch") || isWord(i_, "unless") || isWord(i_, "until") ||
                         isWord(i_, "delete") || isWord(i_, "free"));
  // `delete[] x`
  const bool isArray = next == L::LEFT_BRACKET && type(i_ + 2) == L::RIGHT_BRACKET;
  const bool startsHere = isArray || next == L::NAME || next == L::LEFT_BRACE || next == L::FN ||
                          next == L::KERNEL || next == L::LESS ||
                          (isPass && next == L::SEMICOLON) || isCalled;
  if (!startsHere)
    return false;
  reportWord(i_, *word);
  skipStatement(i_);
  return true;
}

bool ForeignForms::startsDeclaration(size_t i) const {
  return type(i) == L::KERNEL || type(i) == L::FN || type(i) == L::PLAN ||
         (type(i) == L::IMPORT && text_[at(i).begin - 1] == '\n');
}

// `int f(int a) { … }`, `int N = 4;`, `let N = 4;`, `N = 4` outside of everything.
bool ForeignForms::tryTopLevel() {
  if (!open_.empty())
    return false;
  const bool isMade = type(i_) == L::LET || type(i_) == L::VAR;
  const size_t made = i_ + (isMade ? 1 : 0);
  if (type(made) == L::NAME && type(made + 1) == L::ASSIGN && startsOperand(made + 2)) {
    const SourceRange word = range(at(i_).begin, isMade ? at(made).begin : at(i_).begin);
    report(rangeOf(i_, i_), Form::TopLevelName, isMade ? textOf(i_) : "x = …")->fix(word, "const ");
    emit(L::CONST, at(i_).begin, at(i_).begin);
    i_ = made;
    return true;
  }
  // `const int N = 4;`, `static const int N = 4;`
  size_t element = i_;
  while (isQualifier(element))
    ++element;
  const bool isConstant = element > i_ && isElementType(element) && type(element + 1) == L::NAME &&
                          type(element + 2) == L::ASSIGN;
  if (isConstant) {
    report(rangeOf(i_, element), Form::TopLevelName, text_.slice(at(i_).begin, at(element).end))
        ->fix(rangeOf(i_, element), "const");
    emit(L::CONST, at(i_).begin, at(i_).begin);
    i_ = element + 1;
    return true;
  }
  if (!isElementType(i_) || type(i_ + 1) != L::NAME)
    return false;
  if (type(i_ + 2) == L::LEFT_PAREN) {
    reportWord(i_, *habits::findStarter("void"));
    skipStatement(i_);
    return true;
  }
  if (type(i_ + 2) != L::ASSIGN)
    return false;
  reportWord(i_, *habits::findStarter("constexpr"));
  emit(L::CONST, at(i_).begin, at(i_).end);
  ++i_;
  return true;
}

// Leaves out a statement or declaration with its block, or up to its `;`.
void ForeignForms::skipStatement(size_t from) {
  const bool isDo = isWord(from, "do");
  const bool isTemplate = isWord(from, "template");
  size_t i = from + 1;
  for (; i + 1 < in_.size(); ++i) {
    if (isTemplate && type(i) == L::GREATER)
      return skipTo(i + 1);
    if (type(i) == L::SEMICOLON)
      return skipTo(i + 1);
    if (type(i) == L::RIGHT_BRACE || (startsDeclaration(i) && i > from + 1))
      return skipTo(i);
    if (type(i) == L::LEFT_PAREN || type(i) == L::LEFT_BRACKET)
      i = closerOf(i);
    if (type(i) == L::LEFT_BRACE) {
      i = closerOf(i) + 1;
      if (isDo && type(i) == L::WHILE)
        i = expressionEnd(i) + 1;
      return skipTo(i);
    }
  }
  skipTo(i);
}

// `x: in f32[:]`, `x: in f32[?]`, `x: in f32[M][N]`
bool ForeignForms::tryParameterSizes() {
  const bool isUnnamed = type(i_) == L::COLON || type(i_) == L::QUESTION || type(i_) == L::STAR;
  const bool isWhole = isUnnamed && (before() == L::LEFT_BRACKET || before() == L::COMMA) &&
                       (type(i_ + 1) == L::RIGHT_BRACKET || type(i_ + 1) == L::COMMA);
  if (isWhole) {
    report(rangeOf(i_, i_), Form::UnnamedSize, textOf(i_));
    inventAnything();
    ++i_;
    return true;
  }
  if (type(i_) != L::RIGHT_BRACKET || type(i_ + 1) != L::LEFT_BRACKET)
    return false;
  report(rangeOf(i_, i_ + 1), Form::SizesApart)->fix(rangeOf(i_, i_ + 1), ", ");
  emit(L::COMMA, at(i_).begin, at(i_ + 1).end);
  i_ += 2;
  return true;
}

// `in x: f32[N]`
bool ForeignForms::tryModeFirst() {
  const bool isMode =
      type(i_) == L::IN || type(i_) == L::OUT || type(i_) == L::INOUT || type(i_) == L::SYMM;
  if (!isMode || type(i_ + 1) != L::NAME || type(i_ + 2) != L::COLON)
    return false;
  const size_t mode = i_;
  const uint32_t behind = at(i_ + 2).end;
  report(rangeOf(i_, i_ + 1), Form::ModeFirst)
      ->fix(range(at(i_).begin, at(i_ + 1).begin), "")
      .fix(range(behind, behind), (" " + textOf(i_)).str());
  ++i_;
  copy();
  copy();
  emit(type(mode), at(mode).begin, at(mode).end);
  return true;
}

// `float x` and `x: f32*` among parameters, `): f32 {` after them.
bool ForeignForms::tryParameters() {
  if (!isHeader_)
    return false;
  const bool inList = !open_.empty() && open_.back() == Open::Parameters;
  if (tryTypedGeneric() || (inList && (tryTypedParameter() || tryForeignMode() || tryTensorType())))
    return true;
  const bool begins = before() == L::LEFT_PAREN || before() == L::COMMA;
  if (inList && begins && tryModeFirst())
    return true;
  const bool inSizes = open_.size() > 1 && open_.back() == Open::Bracket &&
                       open_[open_.size() - 2] == Open::Parameters;
  if (inSizes && tryParameterSizes())
    return true;
  if (inList && type(i_) == L::CONST && before() == L::COLON && type(i_ + 1) == L::NAME) {
    report(rangeOf(i_, i_), Form::ConstParameter)->fix(rangeOf(i_, i_), "in");
    emit(L::IN, at(i_).begin, at(i_).end);
    ++i_;
    return true;
  }
  const bool isBehindMode =
      before(1) == L::IN || before(1) == L::OUT || before(1) == L::INOUT || before(1) == L::SYMM;
  if (inList && type(i_) == L::STAR && before() == L::NAME &&
      (before(1) == L::COLON || isBehindMode)) {
    report(rangeOf(i_, i_), Form::PointerType);
    ++i_;
    return true;
  }
  const bool isResult = type(i_) == L::COLON && before() == L::RIGHT_PAREN && open_.empty() &&
                        type(i_ + 1) == L::NAME;
  if (!isResult)
    return false;
  report(rangeOf(i_, i_), Form::ResultType)->fix(rangeOf(i_, i_), " ->");
  emit(L::ARROW, at(i_).begin, at(i_).end);
  ++i_;
  return true;
}

// `let z = M // 2;`: the comment has the end of the statement.
bool ForeignForms::tryFloorDivision() {
  if (i_ == 0 || open_.empty() || open_.back() != Open::Brace || !endsOperand())
    return false;
  const size_t comment = size_t(in_[i_ - 1].lexedIndex) + 1;
  if (comment >= lexed_.all.size() || lexed_.all[comment].type != L::LINE_COMMENT)
    return false;
  const LexedToken &token = lexed_.all[comment];
  const llvm::StringRef written = text_.slice(token.begin, token.end);
  if (!written.rtrim().ends_with(";") || text_.slice(in_[i_ - 1].end, token.begin).contains('\n'))
    return false;
  constexpr size_t kStarts[] = {L::RIGHT_BRACE, L::NAME,   L::AWAIT, L::BREAK, L::CONTINUE,
                                L::ENSURES,     L::EXPECT, L::FOR,   L::IF,    L::LET,
                                L::RETURN,      L::ROLE,   L::VAR,   L::WHILE, L::YIELD};
  if (!llvm::is_contained(kStarts, type(i_)))
    return false;
  const SourceRange slashes = range(token.begin, token.begin + 2);
  report(slashes, Form::FloorDivision)->fix(slashes, "/");
  emit(L::SEMICOLON, in_[i_ - 1].end, in_[i_ - 1].end);
  return true;
}

} // namespace dtile::parse
