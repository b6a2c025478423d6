// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Choices between values as other languages write them.
#include "frontend/parse/foreign_forms.h"

#include "grammar/DtileLexer.h"

namespace dtile::parse {

using L = grammar::DtileLexer;
using habits::Form;

// `let a = if c { x } else { y };`
bool ForeignForms::tryChoiceOfBlocks() {
  const size_t last = before();
  const bool isOperand = (last >= L::ASSIGN && last <= L::SHIFT_RIGHT_ASSIGN) ||
                         last == L::LEFT_PAREN || last == L::COMMA || last == L::RETURN;
  if (type(i_) != L::IF || !isOperand || open_.empty())
    return false;
  const auto blockAfter = [&](size_t i) {
    const size_t most = i + kMostTokens;
    while (i < most && i + 1 < in_.size() && type(i) != L::LEFT_BRACE && type(i) != L::SEMICOLON)
      ++i;
    return type(i) == L::LEFT_BRACE ? i : 0;
  };
  const size_t then = blockAfter(i_ + 1);
  const size_t otherwise = then == 0 ? 0 : closerOf(then) + 1;
  if (then == 0 || type(otherwise) != L::ELSE)
    return false;
  size_t end = otherwise;
  while (type(end) == L::ELSE) {
    const size_t block = blockAfter(end + 1);
    if (block == 0)
      return false;
    end = closerOf(block) + 1;
  }
  const size_t block = otherwise + 1;
  DiagBuilder *message = report(rangeOf(i_, i_), Form::ChoiceOfBlocks);
  // What is in braces is one value, and there is no further condition.
  const bool isPlain = type(block) == L::LEFT_BRACE && closerOf(block) + 1 == end &&
                       expressionEnd(then + 1) == closerOf(then) &&
                       expressionEnd(block + 1) == closerOf(block);
  if (isPlain) {
    const auto inside = [&](size_t opener) {
      return text_.slice(at(opener).end, at(closerOf(opener)).begin).trim();
    };
    const llvm::StringRef condition = text_.slice(at(i_ + 1).begin, at(then - 1).end);
    message->fix(range(at(i_).begin, at(end - 1).end),
                 (condition + " ? " + inside(then) + " : " + inside(block)).str());
  }
  inventAnything();
  skipTo(end);
  return true;
}

// `a if c else b`
bool ForeignForms::tryConditional() {
  if (type(i_) != L::IF || !endsOperand() || i_ == 0 || !isOnSameLine(i_ - 1, i_))
    return false;
  size_t otherwise = i_ + 1;
  while (type(otherwise) != L::ELSE && expressionEnd(otherwise) != otherwise &&
         otherwise < i_ + kMostTokens) {
    if (type(otherwise) == L::LEFT_PAREN || type(otherwise) == L::LEFT_BRACKET)
      otherwise = closerOf(otherwise);
    ++otherwise;
  }
  if (type(otherwise) != L::ELSE)
    return false;
  const size_t end = expressionEnd(otherwise);
  const uint32_t begin = expressionBegin();
  const auto slice = [&](size_t first, size_t last) {
    return text_.slice(at(first).begin, at(last).end);
  };
  const std::string meant =
      (slice(i_ + 1, otherwise - 1) + " ? " + text_.slice(begin, out_.back().end) + " : " +
       slice(otherwise + 1, end - 1))
          .str();
  report(rangeOf(i_, otherwise), Form::Conditional)->fix(range(begin, at(end - 1).end), meant);
  skipTo(end);
  return true;
}

} // namespace dtile::parse
