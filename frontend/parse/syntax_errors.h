// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to frontend/parse: turns what ANTLR expected into our messages, and finds the way back.
#pragma once

#include "frontend/base/diagnostics.h"
#include "frontend/parse/antlr_adapters.h"
#include "frontend/parse/parser.h"

#include <deque>
#include <set>

namespace dtile::parse {

/// A keyword, for finding the one that a misspelt word must mean.
struct Keyword {
  llvm::StringLiteral word;
  size_t type;
};

/// Thrown when a token was replaced by the keyword that it must have meant: the declaration is to
/// be parsed again.
struct ParseAgain {};

/// Thrown when the limit on errors is reached.
struct TooManyErrors {};

/// Reports a syntax error once, at the token where it shows, and recovers so that the next mistake
/// is found too: a single missing or surplus token is repaired, otherwise the rest of the
/// statement is passed over.
class SyntaxErrors final : public antlr4::ANTLRErrorStrategy {
public:
  SyntaxErrors(TokenView &tokens, llvm::StringRef text, SourceLoc start, Diagnostics &diagnostics,
               const Limits &limits)
      : tokens_(tokens), text_(text), start_(start.offset), diagnostics_(diagnostics),
        limits_(limits) {}

  /// True once something was wrong since the last reset.
  [[nodiscard]] bool sawError() const { return sawError_; }
  /// Forgets the state, not what was reported.
  void beginDeclaration();

  /// Says that there is no declaration at the current token. Replaces a misspelt keyword by the
  /// right one and returns true; otherwise the token is to be passed over.
  bool reportNoDeclaration();
  /// A misspelt keyword that a declaration may start with, or any word that begins a line without
  /// indentation after the end of a declaration.
  bool looksLikeDeclaration(size_t index);

  // What ANTLR calls.
  void reset(antlr4::Parser *) override { recovering_ = false; }
  antlr4::Token *recoverInline(antlr4::Parser *parser) override;
  void recover(antlr4::Parser *parser, std::exception_ptr) override;
  void sync(antlr4::Parser *parser) override;
  bool inErrorRecoveryMode(antlr4::Parser *) override { return recovering_; }
  void reportMatch(antlr4::Parser *) override { recovering_ = false; }
  void reportError(antlr4::Parser *parser, const antlr4::RecognitionException &) override;

private:
  SourceRange range(const SourceToken &token) const;
  SourceLoc endOfPrevious() const;
  llvm::StringRef textOf(const SourceToken &token) const;
  std::string describeFound(const SourceToken &token) const;
  std::string describeExpected(antlr4::Parser *parser, size_t single) const;
  llvm::StringRef separator(size_t rule, size_t closer) const;
  std::string describeName(antlr4::ParserRuleContext *context) const;

  /// Whether a message may be given at this token; counts it.
  bool begin(const SourceToken &at);
  void reportMismatch(antlr4::Parser *parser, size_t single);
  void reportMissing(antlr4::Parser *parser, size_t type);
  void noteOpener(DiagBuilder &message, size_t closer);
  void noteNearMiss(DiagBuilder &message, antlr4::Parser *parser, const SourceToken &found);
  void reportReplaced(antlr4::Parser *parser, size_t wanted);
  const Keyword *meantDeclaration(size_t index);
  void repairKeyword(antlr4::Parser *parser);
  void repairFirstWord(antlr4::Parser *parser);
  [[noreturn]] void replaceWord(SourceToken &word, size_t type, llvm::StringRef meant,
                                llvm::StringRef expected);
  void syncList(antlr4::Parser *parser);
  void syncStatements(antlr4::Parser *parser);
  bool isOnNewLine(const SourceToken &token) const;
  SourceToken *missingToken(size_t type);
  void skipStatement();
  void skipTo(const antlr4::misc::IntervalSet &wanted);

  TokenView &tokens_;
  llvm::StringRef text_;
  uint32_t start_;
  Diagnostics &diagnostics_;
  const Limits &limits_;
  /// Tokens that were reported at, so that parsing again does not repeat messages.
  std::set<uint32_t> reported_;
  /// Stand for missing tokens.
  std::deque<SourceToken> invented_;
  /// The token before which a missing comma was put last.
  uint32_t commaBefore_ = 0;
  bool recovering_ = false;
  bool sawError_ = false;
};

} // namespace dtile::parse
