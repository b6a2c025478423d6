// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ANTLR reads from, without copies: bytes of a file, and tokens of a few words each. (ANTLR's
// own streams turn the text into UTF-32 and give every token a string.)
#pragma once

#include "frontend/base/check.h"

#include "llvm/ADT/StringRef.h"

#include "antlr4-runtime.h"

#include <vector>

namespace dtile::parse {

/// The bytes of a file as ANTLR's characters, so that indices are byte offsets. All bytes outside
/// ASCII read as one character: they may stand only in strings and comments, and ANTLR's tables
/// cover ASCII only.
class ByteStream final : public antlr4::CharStream {
public:
  explicit ByteStream(llvm::StringRef text) : text_(text) {}

  static constexpr size_t kNotAscii = 0x7F;

  void consume() override { ++position_; }
  size_t LA(ssize_t i) override {
    const size_t at = position_ + size_t(i > 0 ? i - 1 : i);
    if (at >= text_.size())
      return EOF;
    const auto byte = static_cast<unsigned char>(text_[at]);
    return byte < 0x80 ? byte : kNotAscii;
  }
  ssize_t mark() override { return -1; }
  void release(ssize_t) override {}
  size_t index() override { return position_; }
  void seek(size_t index) override { position_ = std::min(index, text_.size()); }
  size_t size() override { return text_.size(); }
  std::string getSourceName() const override { return {}; }
  std::string getText(const antlr4::misc::Interval &interval) override {
    return text_.slice(size_t(interval.a), size_t(interval.b) + 1).str();
  }
  std::string toString() const override { return text_.str(); }

private:
  llvm::StringRef text_;
  size_t position_ = 0;
};

/// A token that the parser sees.
class SourceToken final : public antlr4::Token {
public:
  SourceToken(size_t type, uint32_t begin, uint32_t end, uint32_t lexedIndex)
      : type(type), begin(begin), end(end), lexedIndex(lexedIndex) {}

  size_t type;
  /// Byte offsets in the file.
  uint32_t begin;
  uint32_t end;
  /// Its place among all tokens, comments included.
  uint32_t lexedIndex;
  /// Its place among the tokens that the parser sees.
  uint32_t index = 0;
  bool startsDeclaration = false;
  /// Deeper than the limit.
  bool isTooDeep = false;
  /// Something before it was dropped and reported, so a mismatch here may be its echo.
  bool followsLexicalError = false;

  std::string getText() const override { return {}; }
  size_t getType() const override { return type; }
  size_t getLine() const override { return 0; }
  size_t getCharPositionInLine() const override { return 0; }
  size_t getChannel() const override { return DEFAULT_CHANNEL; }
  size_t getTokenIndex() const override { return index; }
  size_t getStartIndex() const override { return begin; }
  size_t getStopIndex() const override { return end - 1; }
  antlr4::TokenSource *getTokenSource() const override { return nullptr; }
  antlr4::CharStream *getInputStream() const override { return nullptr; }
  std::string toString() const override { return {}; }
};

/// Walks a vector of tokens whose last is EOF; a token that is missing can be put before the
/// current one.
class TokenView final : public antlr4::TokenStream {
public:
  explicit TokenView(std::vector<SourceToken> &tokens) : tokens_(tokens) {}

  SourceToken &at(size_t index) { return tokens_[std::min(index, tokens_.size() - 1)]; }
  SourceToken &current() { return tokens_[position_]; }

  /// `token` comes next, then what would have come.
  void inject(SourceToken *token) { injected_ = token; }

  void consume() override {
    if (injected_ != nullptr)
      injected_ = nullptr;
    else
      position_ = std::min(position_ + 1, tokens_.size() - 1);
  }
  size_t LA(ssize_t k) override { return static_cast<SourceToken *>(LT(k))->type; }
  antlr4::Token *LT(ssize_t k) override {
    if (k == 1 && injected_ != nullptr)
      return injected_;
    if (k > 0)
      return &at(position_ + size_t(k) - (injected_ == nullptr ? 1 : 2));
    // LT(-1) at the first token has no answer; ANTLR asks for it where a rule matched nothing.
    return size_t(-k) > position_ ? &tokens_.front() : &tokens_[position_ - size_t(-k)];
  }
  antlr4::Token *get(size_t index) const override { return &tokens_[index]; }
  ssize_t mark() override { return 0; }
  void release(ssize_t) override {}
  size_t index() override { return position_; }
  void seek(size_t index) override {
    position_ = std::min(index, tokens_.size() - 1);
    injected_ = nullptr;
  }
  size_t size() override { return tokens_.size(); }
  antlr4::TokenSource *getTokenSource() const override { return nullptr; }
  std::string getSourceName() const override { return {}; }
  std::string getText(const antlr4::misc::Interval &) override { return {}; }
  std::string getText() override { return {}; }
  std::string getText(antlr4::RuleContext *) override { return {}; }
  std::string getText(antlr4::Token *, antlr4::Token *) override { return {}; }

private:
  std::vector<SourceToken> &tokens_;
  size_t position_ = 0;
  SourceToken *injected_ = nullptr;
};

/// The generated rules keep tokens by ANTLR's type; all of them are ours.
inline const SourceToken &sourceToken(const antlr4::Token *token) {
  return *static_cast<const SourceToken *>(token);
}

} // namespace dtile::parse
