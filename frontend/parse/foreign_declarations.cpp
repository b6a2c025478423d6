// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters, loop variables and instructions of machines as other languages write them.
#include "frontend/parse/foreign_forms.h"

#include "grammar/DtileLexer.h"

#include "llvm/ADT/StringSwitch.h"

namespace dtile::parse {

using L = grammar::DtileLexer;
using habits::Form;

// Something in this declaration is stored to `name[…]`: how it is meant shows in no header.
bool ForeignForms::isStored(size_t name) const {
  for (size_t i = name + 1; i + 1 < in_.size() && !startsDeclaration(i); ++i)
    if (type(i) == L::NAME && type(i + 1) == L::LEFT_BRACKET && textOf(i) == textOf(name) &&
        isAssignment(closerOf(i + 1) + 1))
      return true;
  return false;
}

// `float x`, `f32* x` and `f32 x[N]` among parameters.
bool ForeignForms::tryTypedParameter() {
  if ((before() != L::LEFT_PAREN && before() != L::COMMA) || !isElementType(i_))
    return false;
  const bool isPointer = type(i_ + 1) == L::STAR;
  const size_t word = i_;
  const size_t name = i_ + (isPointer ? 2 : 1);
  const size_t next = type(name + 1);
  const bool isArray = next == L::LEFT_BRACKET && !isPointer;
  if (type(name) != L::NAME || (next != L::COMMA && next != L::RIGHT_PAREN && !isArray))
    return false;
  const llvm::StringRef known = habits::elementType(textOf(word));
  const llvm::StringRef dtype = known.empty() ? textOf(word) : known;
  DiagBuilder *message =
      report(rangeOf(word, name), isPointer ? Form::PointerType : Form::TypedParameter);
  if (isArray) {
    if (isFunction_ || !isStored(name))
      message->fix(rangeOf(word, name),
                   (textOf(name) + (isFunction_ ? ": " : ": in ") + dtype).str());
  } else if (!isPointer && known.empty()) {
    // Of another language's type, its own message has the fix-it.
    message->fix(rangeOf(word, name), (textOf(name) + ": " + dtype).str());
  }
  i_ = name;
  copy();
  invent(L::COLON);
  if (isArray && !isFunction_)
    invent(L::INOUT);
  if (isArray && !known.empty())
    inventAnything();
  else
    emit(L::NAME, at(word).begin, at(word).end);
  return true;
}

// `x: shared f32[N]`, `x: mut f32[N]`
bool ForeignForms::tryForeignMode() {
  if (before() != L::COLON || type(i_) != L::NAME || type(i_ + 1) != L::NAME)
    return false;
  constexpr llvm::StringLiteral kNone = "-";
  const llvm::StringRef meant = llvm::StringSwitch<llvm::StringRef>(textOf(i_))
                                    .Cases({"shared", "global", "device", "local"}, kNone)
                                    .Cases({"private", "constant", "__shared__"}, kNone)
                                    .Cases({"__global__", "__device__", "__restrict__"}, kNone)
                                    .Cases({"restrict", "volatile"}, kNone)
                                    .Cases({"mut", "ref", "readwrite"}, "inout")
                                    .Cases({"input", "readonly"}, "in")
                                    .Cases({"output", "writeonly"}, "out")
                                    .Default("");
  if (meant.empty())
    return false;
  DiagBuilder *message = report(rangeOf(i_, i_), Form::ForeignMode, textOf(i_));
  const bool isKnown = meant != kNone && !isFunction_;
  if (isKnown)
    message->fix(rangeOf(i_, i_), meant);
  if (!isFunction_)
    emit(!isKnown || meant == "inout" ? L::INOUT
         : meant == "in"              ? L::IN
                                      : L::OUT,
         at(i_).begin, at(i_).end);
  ++i_;
  return true;
}

// `x: tensor<f32>`, `x: in Tensor<f32, 2>[M, N]`
bool ForeignForms::tryTensorType() {
  const size_t last = before();
  const bool hasMode = last == L::IN || last == L::OUT || last == L::INOUT || last == L::SYMM;
  if (type(i_) != L::NAME || type(i_ + 1) != L::LESS || (last != L::COLON && !hasMode))
    return false;
  const bool isTensor = llvm::StringSwitch<bool>(textOf(i_))
                            .CasesLower({"tensor", "tile", "array", "buffer"}, true)
                            .CasesLower({"vector", "memref", "span", "matrix"}, true)
                            .CasesLower({"ptr", "pointer", "tensorview"}, true)
                            .Default(false);
  size_t close = i_ + 2;
  while (close < i_ + kMostTokens && (type(close) == L::NAME || type(close) == L::COMMA ||
                                      type(close) == L::INTEGER || type(close) == L::STAR))
    ++close;
  if (!isTensor || type(close) != L::GREATER || type(i_ + 2) != L::NAME)
    return false;
  const size_t element = i_ + 2;
  const llvm::StringRef known = habits::elementType(textOf(element));
  const llvm::StringRef dtype = known.empty() ? textOf(element) : known;
  const bool hasSizes = type(close + 1) == L::LEFT_BRACKET;
  const SourceRange written = rangeOf(i_, close);
  DiagBuilder *message =
      report(written, Form::TensorType, text_.slice(at(i_).begin, at(close).end));
  if (hasSizes && (hasMode || isFunction_))
    message->fix(written, dtype);
  if (!hasMode && !isFunction_)
    invent(L::INOUT);
  // Without sizes nothing is known of it.
  if (!hasSizes || !known.empty())
    inventAnything();
  else
    emit(L::NAME, at(element).begin, at(element).end);
  if (!hasSizes) {
    invent(L::LEFT_BRACKET);
    inventAnything();
    invent(L::RIGHT_BRACKET);
  }
  i_ = close + 1;
  return true;
}

// `kernel k<int B = 64>`, `kernel k<typename T>`
bool ForeignForms::tryTypedGeneric() {
  const bool begins = before() == L::LESS || before() == L::GENERIC_OPEN || before() == L::COMMA;
  const bool isType = isWord(i_, "typename") || isWord(i_, "class");
  if (!open_.empty() || !begins || (!isElementType(i_) && !isType) || type(i_ + 1) != L::NAME)
    return false;
  if (!isType) {
    report(rangeOf(i_, i_ + 1), Form::TypedGeneric)->fix(range(at(i_).begin, at(i_ + 1).begin), "");
    ++i_;
    return true;
  }
  DiagBuilder *message =
      report(rangeOf(i_, i_ + 1), Form::TypedGeneric, text_.slice(at(i_).begin, at(i_ + 1).end));
  message->fix(range(at(i_).begin, at(i_ + 1).begin), "");
  ++i_;
  const uint32_t behind = at(i_).end;
  copy();
  if (type(i_) == L::COLON)
    return true;
  message->fix(range(behind, behind), ": dtype");
  // A compile-time parameter of an unnamed type is an element type.
  invent(L::COLON);
  inventAnything();
  return true;
}

// `mut w = 1.0;`
bool ForeignForms::tryMutable() {
  if (open_.empty() || !isWord(i_, "mut") || type(i_ + 1) != L::NAME ||
      (type(i_ + 2) != L::ASSIGN && type(i_ + 2) != L::COLON))
    return false;
  report(rangeOf(i_, i_), Form::Mutable, "mut")->fix(rangeOf(i_, i_), "var");
  emit(L::VAR, at(i_).begin, at(i_).end);
  ++i_;
  return true;
}

// `for i in 0 to 8 {`, `for i = 0 to 8 {`
bool ForeignForms::tryLoopWord() {
  const bool isLoop =
      isWord(i_, "to") || isWord(i_, "until") || isWord(i_, "upto") || isWord(i_, "downto");
  if (!isLoop || !startsOperand(i_ + 1) || headWord() != L::FOR)
    return false;
  const bool isSame = loopReported_ != 0 && loopReported_ == reported_;
  DiagBuilder *message = isSame ? &*message_ : report(rangeOf(i_, i_), Form::LoopWord, textOf(i_));
  message->fix(range(out_.back().end, at(i_ + 1).begin), "..");
  emit(L::DOT_DOT, at(i_).begin, at(i_).end);
  ++i_;
  return true;
}

bool ForeignForms::keepOneName(size_t first, size_t end) {
  llvm::SmallVector<size_t, 2> names;
  size_t i = first;
  while (type(i) == L::NAME && names.size() < kMostTokens) {
    names.push_back(i);
    if (type(i + 1) != L::COMMA)
      break;
    i += 2;
  }
  const bool isInParens = type(end) == L::RIGHT_PAREN && end == i + 1;
  const size_t in = isInParens ? end + 1 : i + 1;
  if (names.size() < 2 || names.back() != i || type(in) != L::IN)
    return false;
  report(range(at(isInParens ? first - 1 : first).begin, at(in - 1).end), Form::LoopNames,
         isInParens ? "for (i, j) in" : "");
  if (isInParens) {
    i_ = first;
    copy();
  }
  loopNames_.assign(names.begin() + 1, names.end());
  i_ = in;
  return true;
}

// `kernel k(x: in f32[N]) -> f32 {`
bool ForeignForms::tryKernelResult() {
  if (type(i_) != L::ARROW || !isHeader_ || isFunction_ || before() != L::RIGHT_PAREN ||
      !open_.empty())
    return false;
  size_t end = i_ + 1;
  while (type(end) == L::NAME || type(end) == L::COMMA || opens(end)) {
    if (type(end) == L::LEFT_BRACE)
      break;
    end = opens(end) ? closerOf(end) + 1 : end + 1;
  }
  report(rangeOf(i_, end - 1), Form::KernelResult);
  skipTo(end);
  return true;
}

// `k<<<blocks, threads>>>(x)`
bool ForeignForms::tryLaunchBrackets() {
  const bool isOpener = type(i_) == L::SHIFT_LEFT && touches(i_) &&
                        (type(i_ + 1) == L::LESS || type(i_ + 1) == L::GENERIC_OPEN);
  if (!isOpener || before() != L::NAME || open_.empty())
    return false;
  size_t close = i_ + 2;
  while (close < i_ + kMostTokens && type(close) != L::SEMICOLON && type(close) != L::SHIFT_RIGHT &&
         close + 1 < in_.size())
    ++close;
  if (type(close) != L::SHIFT_RIGHT || type(close + 2) != L::LEFT_PAREN)
    return false;
  report(rangeOf(i_, close + 1), Form::LaunchBrackets);
  // Nothing more is said of what is called.
  out_.back().end = out_.back().begin;
  skipTo(closerOf(close + 2) + 1);
  return true;
}

// `asm("…")`, `asm volatile("…" : "=f"(y) : "f"(x))`
bool ForeignForms::tryAssembly() {
  const bool isAssembly =
      isWord(i_, "asm") || isWord(i_, "__asm__") || isWord(i_, "__asm") || isWord(i_, "inline_asm");
  if (!isAssembly || before() == L::DOT || before() == L::FN || declares(textOf(i_)))
    return false;
  const size_t open = type(i_ + 1) == L::NAME ? i_ + 2 : i_ + 1;
  const size_t close = closerOf(open);
  if (type(open) != L::LEFT_PAREN || type(close) != L::RIGHT_PAREN)
    return false;
  // `= asm("…")` of an `extern fn` names no machine, which is told where the others are known.
  const bool isInstructions = isHeader_ && (before() == L::ASSIGN || before() == L::BAR);
  if (isInstructions && open == i_ + 1 && close == open + 2)
    return false;
  if (open_.empty() && !isInstructions)
    return false;
  report(rangeOf(i_, i_), Form::Assembly, textOf(i_));
  if (isInstructions) {
    inventAnything();
    i_ = open;
    copy();
    while (i_ < close && type(i_) != L::STRING)
      ++i_;
    if (i_ < close)
      copy();
    emit(L::RIGHT_PAREN, at(close).begin, at(close).end);
    skipTo(close + 1);
  } else if (startsStatement() && type(close + 1) == L::SEMICOLON) {
    skipTo(close + 2);
  } else {
    inventAnything();
    skipTo(close + 1);
  }
  return true;
}

} // namespace dtile::parse
