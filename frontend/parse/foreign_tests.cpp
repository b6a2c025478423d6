// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests as other languages write them.
#include "frontend/parse/foreign_forms.h"

#include "grammar/DtileLexer.h"

namespace dtile::parse {

using L = grammar::DtileLexer;
using habits::Form;

bool ForeignForms::tryTests() { return tryTestName() || (isTest_ && tryExpectations()); }

// `test adds {`, `test adds ranks (4) {`
bool ForeignForms::tryTestName() {
  const bool isTest = before() == L::TEST || before() == L::BENCH;
  if (!isTest || !open_.empty() || type(i_) != L::NAME ||
      (type(i_ + 1) != L::LEFT_BRACE && type(i_ + 1) != L::RANKS))
    return false;
  report(rangeOf(i_, i_), Form::TestName, ("test " + textOf(i_)).str())
      ->fix(rangeOf(i_, i_), ("\"" + textOf(i_) + "\"").str());
  emit(L::STRING, at(i_).begin, at(i_).end);
  ++i_;
  return true;
}

// `assert x == y, "why";`, `expect x ~= y, rtol=1e-2;`, `expect x == y, "why";`
bool ForeignForms::tryExpectations() {
  const bool isAssert = isWord(i_, "assert") && startsStatement() && startsOperand(i_ + 1) &&
                        type(i_ + 1) != L::LEFT_PAREN;
  if (isAssert) {
    report(rangeOf(i_, i_), Form::AssertInTest)->fix(rangeOf(i_, i_), "expect");
    emit(L::EXPECT, at(i_).begin, at(i_).end);
    const size_t end = expressionEnd(i_ + 1);
    for (++i_; i_ < end;)
      copy();
    // What it says where it fails.
    if (type(i_) == L::COMMA) {
      const size_t text = i_;
      while (type(i_) == L::COMMA)
        skipTo(expressionEnd(i_ + 1));
      message_->fix(range(at(text).begin, at(i_).begin), "");
    }
    return true;
  }
  const bool isNext = type(i_) == L::COMMA || type(i_) == L::RTOL || type(i_) == L::ATOL;
  if (!isNext || !endsOperand() || !isExpectation())
    return false;
  const size_t word = type(i_) == L::COMMA ? i_ + 1 : i_;
  if (word != i_ && type(word) == L::STRING) {
    report(rangeOf(i_, word), Form::ExpectText)->fix(rangeOf(i_, word), "");
    skipTo(word + 1);
    return true;
  }
  const bool isTolerance = type(word) == L::RTOL || type(word) == L::ATOL;
  const bool hasSign = type(word + 1) == L::ASSIGN || type(word + 1) == L::COLON;
  if (!isTolerance || (word == i_ && !hasSign))
    return false;
  const size_t last = hasSign ? word + 1 : word;
  const bool isSame = tolerancesReported_ == reported_ && reported_ != 0;
  DiagBuilder *message =
      isSame ? &*message_
             : report(rangeOf(i_, last), Form::Tolerance, text_.slice(at(i_).begin, at(last).end));
  message->fix(range(out_.back().end, at(last + 1).begin), (" " + textOf(word) + " ").str());
  tolerancesReported_ = reported_;
  emit(type(word), at(word).begin, at(word).end);
  i_ = last + 1;
  return true;
}

// The statement in progress begins with `expect`, and no bracket is open in it.
bool ForeignForms::isExpectation() const {
  if (innermost() != Open::Brace)
    return false;
  for (size_t k = out_.size(); k-- > 0;) {
    const size_t one = out_[k].type;
    if (one == L::SEMICOLON || one == L::LEFT_BRACE || one == L::RIGHT_BRACE)
      return false;
    if (one == L::EXPECT)
      return true;
  }
  return false;
}

} // namespace dtile::parse
