// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Syntax errors: where ANTLR's automaton stands says what was expected; the rule in progress says
// how to call it; the tokens around say what was probably meant.
#include "frontend/parse/syntax_errors.h"

#include "grammar/DtileParser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>

namespace dtile::parse {

namespace {

using antlr4::misc::IntervalSet;
using grammar::DtileParser;

size_t ruleOf(antlr4::RuleContext *context) {
  return context == nullptr ? size_t(-1) : context->getRuleIndex();
}

// The opening bracket that a closing one answers; 0 for other tokens.
size_t openerOf(size_t closer) {
  switch (closer) {
  case DtileParser::RIGHT_PAREN:
    return DtileParser::LEFT_PAREN;
  case DtileParser::RIGHT_BRACKET:
    return DtileParser::LEFT_BRACKET;
  case DtileParser::RIGHT_BRACE:
    return DtileParser::LEFT_BRACE;
  case DtileParser::GENERIC_CLOSE:
    return DtileParser::GENERIC_OPEN;
  default:
    return 0;
  }
}

bool isKeyword(size_t type) { return type >= DtileParser::AFTER && type <= DtileParser::YIELD; }

// Words that begin a statement or an item of a kernel, and so end what did not parse before them.
bool startsByKeyword(size_t type) {
  switch (type) {
  case DtileParser::ASSUME:
  case DtileParser::AWAIT:
  case DtileParser::BREAK:
  case DtileParser::CONTINUE:
  case DtileParser::ENSURES:
  case DtileParser::EXPECT:
  case DtileParser::FOR:
  case DtileParser::IF:
  case DtileParser::LET:
  case DtileParser::MESH:
  case DtileParser::REQUIRES:
  case DtileParser::RETURN:
  case DtileParser::ROLE:
  case DtileParser::VAR:
  case DtileParser::WHILE:
  case DtileParser::YIELD:
    return true;
  default:
    return false;
  }
}

bool startsStatement(size_t type) {
  switch (type) {
  case DtileParser::LEFT_BRACE:
  case DtileParser::LEFT_PAREN:
  case DtileParser::MINUS:
  case DtileParser::NOT:
  case DtileParser::TILDE:
  case DtileParser::NAME:
  case DtileParser::INTEGER:
  case DtileParser::FLOAT:
  case DtileParser::STRING:
  case DtileParser::TRUE:
  case DtileParser::FALSE:
    return true;
  default:
    return startsByKeyword(type) || (type >= DtileParser::ALL && type <= DtileParser::WITH);
  }
}

bool isStatementRule(size_t rule) {
  switch (rule) {
  case DtileParser::RuleStatement:
  case DtileParser::RuleLetStatement:
  case DtileParser::RuleVarStatement:
  case DtileParser::RuleForStatement:
  case DtileParser::RuleWhileStatement:
  case DtileParser::RuleIfStatement:
  case DtileParser::RuleElseBranch:
  case DtileParser::RuleReturnStatement:
  case DtileParser::RuleYieldStatement:
  case DtileParser::RuleAwaitStatement:
  case DtileParser::RuleBreakStatement:
  case DtileParser::RuleExpectStatement:
  case DtileParser::RuleSimpleStatement:
  case DtileParser::RuleEnsures:
  case DtileParser::RuleRequiresClause:
  case DtileParser::RuleMeshClause:
  case DtileParser::RuleAssumeStatement:
  case DtileParser::RuleKernelItem:
  case DtileParser::RulePlanItem:
  case DtileParser::RuleOverlapItem:
  case DtileParser::RuleOverlapStep:
    return true;
  default:
    return false;
  }
}

// A token that alone is no loss when it stands in the way.
bool isDroppable(const SourceToken &token) {
  const size_t type = token.type;
  return !token.startsDeclaration && !isKeyword(type) && type != antlr4::Token::EOF &&
         type != DtileParser::SEMICOLON &&
         !(type >= DtileParser::LEFT_PAREN && type <= DtileParser::RIGHT_BRACE);
}

// A token that can be taken as written where it is missing.
bool isInsertable(size_t type) {
  switch (type) {
  case DtileParser::SEMICOLON:
  case DtileParser::COLON:
  case DtileParser::COMMA:
  case DtileParser::ASSIGN:
  case DtileParser::IN:
  case DtileParser::LEFT_PAREN:
  case DtileParser::LEFT_BRACE:
  case DtileParser::RIGHT_PAREN:
  case DtileParser::RIGHT_BRACKET:
  case DtileParser::RIGHT_BRACE:
  case DtileParser::GENERIC_CLOSE:
    return true;
  default:
    return false;
  }
}

// How a token type is written, in back-ticks; names and literals are described.
std::string spelling(const antlr4::Parser *parser, size_t type) {
  switch (type) {
  case antlr4::Token::EOF:
    return "end of file";
  case DtileParser::GENERIC_OPEN:
    return "`<`";
  case DtileParser::GENERIC_CLOSE:
    return "`>`";
  case DtileParser::NAME:
    return "a name";
  case DtileParser::STRING:
    return "a string";
  default:
    break;
  }
  // ANTLR quotes with apostrophes.
  const std::string literal = parser->getVocabulary().getLiteralName(type);
  return ("`" + llvm::StringRef(literal).trim('\'') + "`").str();
}

// Letters swapped, or one or two wrong, missing or added.
bool isNear(llvm::StringRef written, llvm::StringRef word) {
  if (written == word || written.size() < 2)
    return false;
  std::string a = written.str();
  std::string b = word.str();
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  const unsigned allowed = word.size() >= 6 ? 2 : word.size() >= 3 ? 1 : 0;
  return a == b || written.edit_distance(word, /*AllowReplacements=*/true, allowed) <= allowed;
}

constexpr Keyword kDeclarationWords[] = {
    {"kernel", DtileParser::KERNEL}, {"const", DtileParser::CONST},
    {"import", DtileParser::IMPORT}, {"overlap", DtileParser::OVERLAP},
    {"plan", DtileParser::PLAN},     {"test", DtileParser::TEST},
    {"bench", DtileParser::BENCH}};

constexpr Keyword kOverWords[] = {{"over", DtileParser::OVER},
                                  {"ordered", DtileParser::ORDERED},
                                  {"programs", DtileParser::PROGRAMS},
                                  {"copy_engine", DtileParser::COPY_ENGINE}};
constexpr Keyword kTestWords[] = {{"ranks", DtileParser::RANKS}};
constexpr Keyword kToleranceWords[] = {{"rtol", DtileParser::RTOL}, {"atol", DtileParser::ATOL}};
constexpr Keyword kReasonWords[] = {{"because", DtileParser::BECAUSE}};
constexpr Keyword kModeWords[] = {{"in", DtileParser::IN},
                                  {"out", DtileParser::OUT},
                                  {"inout", DtileParser::INOUT},
                                  {"symm", DtileParser::SYMM},
                                  {"scratch", DtileParser::SCRATCH}};

constexpr Keyword kStatementWords[] = {
    {"let", DtileParser::LET},         {"var", DtileParser::VAR},
    {"for", DtileParser::FOR},         {"while", DtileParser::WHILE},
    {"return", DtileParser::RETURN},   {"yield", DtileParser::YIELD},
    {"await", DtileParser::AWAIT},     {"expect", DtileParser::EXPECT},
    {"ensures", DtileParser::ENSURES}, {"role", DtileParser::ROLE},
    {"break", DtileParser::BREAK},     {"continue", DtileParser::CONTINUE}};

} // namespace

// ---- What was seen, what was expected ----

SourceRange SyntaxErrors::range(const SourceToken &token) const {
  return {{start_ + token.begin}, {start_ + token.end}};
}

SourceLoc SyntaxErrors::endOfPrevious() const {
  const size_t index = tokens_.index();
  return {start_ + (index == 0 ? 0 : tokens_.at(index - 1).end)};
}

llvm::StringRef SyntaxErrors::textOf(const SourceToken &token) const {
  return text_.slice(token.begin, token.end);
}

std::string SyntaxErrors::describeFound(const SourceToken &token) const {
  if (token.type == antlr4::Token::EOF)
    return "end of file";
  if (token.type == DtileParser::STRING)
    return "a string";
  // A number or name may be as long as a file; the caret shows where it is.
  constexpr size_t kShown = 40;
  const llvm::StringRef text = textOf(token);
  const bool isLong = text.size() > kShown;
  return ((isKeyword(token.type) ? "keyword `" : "`") + text.take_front(kShown) +
          (isLong ? "…`" : "`"))
      .str();
}

std::string SyntaxErrors::describeName(antlr4::ParserRuleContext *context) const {
  switch (ruleOf(static_cast<antlr4::RuleContext *>(context->parent))) {
  case DtileParser::RuleKernelDeclaration:
    return "a kernel name";
  case DtileParser::RulePlanDeclaration:
    return "a plan name";
  case DtileParser::RuleOverlapDeclaration:
    return "the name of an overlap";
  case DtileParser::RuleFnDeclaration:
    return "a function name";
  case DtileParser::RuleParameter:
    return "a parameter name";
  case DtileParser::RuleGenericParameter:
    return "a generic parameter name";
  case DtileParser::RuleRole:
    return "a role name";
  case DtileParser::RuleLetStatement:
  case DtileParser::RuleVarStatement:
  case DtileParser::RuleOverlapStep:
    return "a variable name";
  case DtileParser::RuleIteration:
    return "a loop variable";
  case DtileParser::RuleSuffix:
    return "a member name";
  default:
    return "a name";
  }
}

// What could go on a list at the current token: a comma, or after one, an item.
llvm::StringRef SyntaxErrors::separator(size_t rule, size_t closer) const {
  const size_t index = tokens_.index();
  const size_t before = index == 0 ? 0 : tokens_.at(index - 1).type;
  if (before != DtileParser::COMMA && before != openerOf(closer))
    return "`,`";
  switch (rule) {
  case DtileParser::RuleParameterList:
    return "a parameter";
  case DtileParser::RuleGenericParameters:
    return "a generic parameter";
  case DtileParser::RuleOverClause:
    return "a loop variable";
  case DtileParser::RuleFnDeclaration:
    return "a type";
  case DtileParser::RuleType:
    return "a size";
  case DtileParser::RuleLetStatement:
  case DtileParser::RuleWhenAll:
    return "a name";
  case DtileParser::RuleSuffix:
    return closer == DtileParser::RIGHT_BRACKET ? "an index" : "an argument";
  default:
    return "an expression";
  }
}

// `single` is the only token type that fits, or 0 where a choice was open.
std::string SyntaxErrors::describeExpected(antlr4::Parser *parser, size_t single) const {
  antlr4::ParserRuleContext *context = parser->getContext();
  const size_t rule = ruleOf(context);
  switch (single) {
  case 0:
    break;
  case DtileParser::SEMICOLON:
    return rule == DtileParser::RuleImportDeclaration || rule == DtileParser::RuleConstDeclaration
               ? "`;` after the declaration"
               : "`;` after the statement";
  case DtileParser::RIGHT_PAREN:
  case DtileParser::RIGHT_BRACKET:
  case DtileParser::GENERIC_CLOSE:
    if (rule == DtileParser::RuleOverOption)
      return "`)`";
    return std::string(separator(rule, single)) + " or " + spelling(parser, single);
  case DtileParser::RIGHT_BRACE:
    return "a statement or `}`";
  case DtileParser::NAME:
    return rule == DtileParser::RuleType ? "a type" : "a name";
  default:
    return spelling(parser, single);
  }
  switch (rule) {
  case DtileParser::RuleName:
    return describeName(context);
  case DtileParser::RuleImportDeclaration:
    return "a module name or a path in quotes";
  case DtileParser::RuleLetStatement:
    return "a variable name or a list of them";
  case DtileParser::RuleSuffix:
    return "a rank: a name, a number or `(`";
  case DtileParser::RuleIndex:
    return "an index";
  case DtileParser::RuleParameterMode:
    return "a parameter mode";
  case DtileParser::RuleType:
    return "a type";
  case DtileParser::RuleOverOption:
    return "`ordered`, `programs` or `copy_engine`";
  default:
    return "an expression";
  }
}

// ---- Messages ----

bool SyntaxErrors::begin(const SourceToken &at) {
  sawError_ = true;
  recovering_ = true;
  if (at.followsLexicalError || !reported_.insert(at.index).second)
    return false;
  if (reported_.size() <= limits_.maxErrors)
    return true;
  diagnostics_.report(range(at), diag::too_many_syntax_errors);
  throw TooManyErrors();
}

void SyntaxErrors::noteOpener(DiagBuilder &message, size_t closer) {
  const size_t opener = openerOf(closer);
  if (opener == 0)
    return;
  unsigned closed = 0;
  for (size_t i = tokens_.index(); i-- > 0;) {
    const SourceToken &token = tokens_.at(i);
    if (token.type == closer)
      ++closed;
    else if (token.type == opener && closed-- == 0)
      return void(message.note(range(token), diag::note_opened_here));
    if (token.startsDeclaration)
      return;
  }
}

// Says what was probably meant, where a common slip explains the mismatch.
void SyntaxErrors::noteNearMiss(DiagBuilder &message, antlr4::Parser *parser,
                                const SourceToken &found) {
  antlr4::ParserRuleContext *context = parser->getContext();
  const size_t rule = ruleOf(context);
  const size_t outer = ruleOf(static_cast<antlr4::RuleContext *>(context->parent));
  const bool isCondition =
      rule == DtileParser::RuleBlock &&
      (outer == DtileParser::RuleIfStatement || outer == DtileParser::RuleElseBranch ||
       outer == DtileParser::RuleWhileStatement);
  if (found.type == DtileParser::ASSIGN && isCondition)
    message.note(range(found), diag::note_did_you_mean, "==").fix(range(found), "==");
  if (found.type == DtileParser::APPROXIMATELY)
    message.note(range(found), diag::note_dtile_form,
                 "`~=` stands once in an `expect` or `ensures`, and nowhere else");
  if (found.type == DtileParser::AWAIT)
    message.note(range(found), diag::note_dtile_form,
                 "`await t;` is a statement: `let t = put(a, b);` names a token, and `let x = "
                 "y[i] after t;` reads behind it");
  if (found.type == DtileParser::INTEGER && rule == DtileParser::RuleTestDeclaration)
    message.note(
        range(found), diag::note_dtile_form,
        ("it is `ranks (" + textOf(found) + ")`, of several numbers `ranks (1, 2, 4)`").str());
  const bool wantsWord = rule == DtileParser::RuleName || rule == DtileParser::RuleType ||
                         rule == DtileParser::RulePostfix;
  if (wantsWord && isKeyword(found.type) && !startsByKeyword(found.type) &&
      !found.startsDeclaration)
    message.note(range(found), diag::note_reserved_word, textOf(found));
}

void SyntaxErrors::reportMismatch(antlr4::Parser *parser, size_t single) {
  const SourceToken &found = tokens_.current();
  // `import math` at the end of its line
  if (ruleOf(parser->getContext()) == DtileParser::RuleImportDeclaration && isOnNewLine(found))
    return reportMissing(parser, DtileParser::SEMICOLON);
  if (!begin(found))
    return;
  DiagBuilder message = diagnostics_.report(range(found), diag::unexpected_token,
                                            describeExpected(parser, single), describeFound(found));
  noteOpener(message, single);
  noteNearMiss(message, parser, found);
}

// The place of a missing token is after the one before it.
void SyntaxErrors::reportMissing(antlr4::Parser *parser, size_t type) {
  const SourceToken &found = tokens_.current();
  if (!begin(found))
    return;
  const bool isCloser = openerOf(type) != 0;
  const SourceLoc place = endOfPrevious();
  const SourceRange at = isCloser ? range(found) : SourceRange{place, place};
  std::string expected = describeExpected(parser, type);
  if (type == DtileParser::RIGHT_BRACE)
    expected = "`}`";
  DiagBuilder message =
      diagnostics_.report(at, diag::unexpected_token, expected, describeFound(found));
  noteOpener(message, type);
  const std::string text = spelling(parser, type);
  // A brace goes on a line of its own; where is the author's to say.
  if (type != DtileParser::RIGHT_BRACE && type != DtileParser::IN)
    message.fix({place, place}, llvm::StringRef(text).trim('`'));
  noteNearMiss(message, parser, found);
}

void SyntaxErrors::reportReplaced(antlr4::Parser *parser, size_t wanted) {
  const SourceToken &found = tokens_.current();
  if (!begin(found))
    return;
  const std::string text = spelling(parser, wanted);
  diagnostics_
      .report(range(found), diag::unexpected_token, describeExpected(parser, wanted),
              describeFound(found))
      .fix(range(found), llvm::StringRef(text).trim('`'));
}

// ---- Misspelt keywords ----

// The keyword that the word must mean, if a declaration starts with it; null otherwise.
const Keyword *SyntaxErrors::meantDeclaration(size_t index) {
  const SourceToken &word = tokens_.at(index);
  const size_t next = tokens_.at(index + 1).type;
  if (word.type != DtileParser::NAME || (next != DtileParser::NAME && next != DtileParser::STRING))
    return nullptr;
  const llvm::StringRef text = textOf(word);
  static constexpr Keyword kFn{"fn", DtileParser::FN};
  if (text == "def" || text == "func" || text == "function" || text == "fun")
    return &kFn;
  const size_t third = tokens_.at(index + 2).type;
  if (next == DtileParser::NAME && text.edit_distance("fn", /*AllowReplacements=*/true, 1) <= 1 &&
      (third == DtileParser::LEFT_PAREN || third == DtileParser::GENERIC_OPEN))
    return &kFn;
  for (const Keyword &keyword : kDeclarationWords) {
    const bool wantsString =
        keyword.type == DtileParser::TEST || keyword.type == DtileParser::BENCH;
    if (isNear(text, keyword.word) && wantsString == (next == DtileParser::STRING))
      return &keyword;
  }
  return nullptr;
}

bool SyntaxErrors::looksLikeDeclaration(size_t index) {
  const SourceToken &word = tokens_.at(index);
  const size_t before = tokens_.at(index - 1).type;
  const bool followsEnd = before == DtileParser::RIGHT_BRACE || before == DtileParser::SEMICOLON;
  if (meantDeclaration(index) != nullptr)
    return isOnNewLine(word) || before == DtileParser::RIGHT_BRACE;
  // Whatever word it is: what is left of a declaration is indented.
  const size_t next = tokens_.at(index + 1).type;
  return followsEnd && word.type == DtileParser::NAME &&
         (next == DtileParser::NAME || next == DtileParser::STRING) &&
         text_[word.begin - 1] == '\n';
}

bool SyntaxErrors::reportNoDeclaration() {
  SourceToken &found = tokens_.current();
  const bool isFirst = begin(found);
  recovering_ = false;
  const Keyword *meant = meantDeclaration(found.index);
  if (isFirst) {
    DiagBuilder message = diagnostics_.report(range(found), diag::unexpected_token, "a declaration",
                                              describeFound(found));
    if (meant != nullptr)
      message.note(range(found), diag::note_did_you_mean, meant->word)
          .fix(range(found), meant->word);
    else if (found.type == DtileParser::RIGHT_BRACE || found.type == DtileParser::SEMICOLON)
      message.fix(range(found), "");
  }
  if (meant == nullptr)
    return false;
  found.type = meant->type;
  found.startsDeclaration = true;
  return true;
}

void SyntaxErrors::replaceWord(SourceToken &word, size_t type, llvm::StringRef meant,
                               llvm::StringRef expected) {
  if (begin(word))
    diagnostics_.report(range(word), diag::unexpected_token, expected, describeFound(word))
        .note(range(word), diag::note_did_you_mean, meant)
        .fix(range(word), meant);
  word.type = type;
  throw ParseAgain();
}

// `retrun x;` parses as a name without its semicolon. When reading the first word of the statement
// as the keyword fits better, the declaration is parsed again with it.
void SyntaxErrors::repairFirstWord(antlr4::Parser *parser) {
  SourceToken &first = tokens_.at(sourceToken(parser->getContext()->start).index);
  if (first.type != DtileParser::NAME)
    return;
  const size_t second = tokens_.at(first.index + 1).type;
  const size_t third = tokens_.at(first.index + 2).type;
  const bool named = second == DtileParser::NAME;
  auto fits = [&](size_t type) {
    switch (type) {
    case DtileParser::LET:
    case DtileParser::VAR:
      return named && (third == DtileParser::ASSIGN || third == DtileParser::COLON);
    case DtileParser::FOR:
      return named && third == DtileParser::IN;
    case DtileParser::ROLE:
      return named && (third == DtileParser::OVER || third == DtileParser::LEFT_BRACE);
    case DtileParser::WHILE:
      if (tokens_.current().type == DtileParser::LEFT_BRACE)
        return true;
      break;
    default:
      break;
    }
    return tokens_.index() == first.index + 1 && !isOnNewLine(tokens_.current());
  };
  for (const Keyword &keyword : kStatementWords)
    if (fits(keyword.type) && isNear(textOf(first), keyword.word))
      replaceWord(first, keyword.type, keyword.word, "a statement");
}

// The same for words inside declarations and statements.
void SyntaxErrors::repairKeyword(antlr4::Parser *parser) {
  antlr4::ParserRuleContext *context = parser->getContext();
  size_t rule = ruleOf(context);
  if (rule == DtileParser::RuleSimpleStatement)
    return repairFirstWord(parser);
  auto tryWords = [&](SourceToken &word, llvm::ArrayRef<Keyword> words) {
    if (word.type != DtileParser::NAME)
      return;
    for (const Keyword &keyword : words)
      if (isNear(textOf(word), keyword.word))
        replaceWord(word, keyword.type, keyword.word, ("`" + keyword.word + "`").str());
  };
  // The mismatch shows where a body should start.
  if (rule == DtileParser::RuleBlock)
    rule = ruleOf(static_cast<antlr4::RuleContext *>(context->parent));
  SourceToken &found = tokens_.current();
  switch (rule) {
  case DtileParser::RuleKernelDeclaration:
  case DtileParser::RuleRole:
  case DtileParser::RuleWhenAll:
    return tryWords(found, kOverWords);
  case DtileParser::RuleTestDeclaration:
    return tryWords(found, kTestWords);
  case DtileParser::RuleExpectStatement:
  case DtileParser::RuleEnsures:
    return tryWords(found, kToleranceWords);
  case DtileParser::RuleAssumeStatement:
    return tryWords(found, kReasonWords);
  case DtileParser::RuleParameterMode:
    return tryWords(found, kModeWords);
  case DtileParser::RuleParameterList:
    // `c: outt T[M]` parses as a parameter of type `outt`.
    if (found.index >= 2 && found.type == DtileParser::NAME &&
        tokens_.at(found.index - 2).type == DtileParser::COLON)
      tryWords(tokens_.at(found.index - 1), kModeWords);
    return;
  default:
    return;
  }
}

// ---- Recovery ----

void SyntaxErrors::beginDeclaration() {
  recovering_ = false;
  sawError_ = false;
  commaBefore_ = 0;
}

SourceToken *SyntaxErrors::missingToken(size_t type) {
  const size_t index = tokens_.index();
  const uint32_t place = index == 0 ? 0 : tokens_.at(index - 1).end;
  invented_.emplace_back(type, place, place, tokens_.current().lexedIndex);
  invented_.back().index = uint32_t(index);
  return &invented_.back();
}

antlr4::Token *SyntaxErrors::recoverInline(antlr4::Parser *parser) {
  const antlr4::atn::ATN &atn = parser->getATN();
  const antlr4::atn::ATNState *state = atn.states[parser->getState()];
  const IntervalSet &expected = atn.nextTokens(const_cast<antlr4::atn::ATNState *>(state));
  const size_t single = expected.size() == 1 ? size_t(expected.getMinElement()) : 0;
  const SourceToken &found = tokens_.current();
  if (!recovering_)
    repairKeyword(parser);
  const IntervalSet follow =
      single == 0 ? IntervalSet()
                  : atn.nextTokens(state->transitions[0]->target, parser->getContext());
  const bool canDrop = !recovering_ && isDroppable(found) && expected.contains(tokens_.LA(2));
  // Where a statement ends, all brackets end.
  const bool endsBrackets = openerOf(single) != 0 && single != DtileParser::RIGHT_BRACE &&
                            (found.type == DtileParser::SEMICOLON || startsByKeyword(found.type));
  const bool canInsert = isInsertable(single) && (follow.contains(found.type) || endsBrackets);
  // `n of N`, `let x == 5`
  const bool canReplace =
      !recovering_ && isDroppable(found) && follow.contains(tokens_.LA(2)) &&
      (single == DtileParser::IN
           ? tokens_.LA(2) == DtileParser::NAME || !canInsert
           : !canInsert && (single == DtileParser::ASSIGN || single == DtileParser::COLON));
  if (canDrop && !(canInsert && isOnNewLine(found))) {
    reportMismatch(parser, single);
    tokens_.consume();
    antlr4::Token *wanted = tokens_.LT(1);
    tokens_.consume();
    recovering_ = false;
    return wanted;
  }
  if (canReplace) {
    reportReplaced(parser, single);
    SourceToken *wanted = missingToken(single);
    tokens_.consume();
    return wanted;
  }
  if (!canInsert)
    throw antlr4::InputMismatchException(parser);
  if (!recovering_)
    reportMissing(parser, single);
  return missingToken(single);
}

void SyntaxErrors::reportError(antlr4::Parser *parser, const antlr4::RecognitionException &) {
  if (recovering_)
    return;
  const antlr4::atn::ATN &atn = parser->getATN();
  const IntervalSet &expected = atn.nextTokens(atn.states[parser->getState()]);
  reportMismatch(parser, expected.size() == 1 ? size_t(expected.getMinElement()) : 0);
}

// Passes over tokens until one is wanted, or ends the statement for certain.
void SyntaxErrors::skipTo(const IntervalSet &wanted) {
  unsigned depth = 0;
  while (true) {
    const SourceToken &token = tokens_.current();
    const bool isEnd = token.type == antlr4::Token::EOF || token.startsDeclaration ||
                       token.type == DtileParser::RIGHT_BRACE || startsByKeyword(token.type) ||
                       token.type == DtileParser::LEFT_BRACE ||
                       token.type == DtileParser::SEMICOLON;
    if (isEnd || (depth == 0 && wanted.contains(token.type)))
      return;
    if (token.type == DtileParser::LEFT_PAREN || token.type == DtileParser::LEFT_BRACKET)
      ++depth;
    else if (depth > 0 &&
             (token.type == DtileParser::RIGHT_PAREN || token.type == DtileParser::RIGHT_BRACKET))
      --depth;
    tokens_.consume();
  }
}

void SyntaxErrors::skipStatement() {
  skipTo(IntervalSet());
  if (tokens_.current().type == DtileParser::SEMICOLON)
    tokens_.consume();
}

void SyntaxErrors::recover(antlr4::Parser *parser, std::exception_ptr) {
  sawError_ = true;
  antlr4::ParserRuleContext *context = parser->getContext();
  if (isStatementRule(ruleOf(context)))
    return skipStatement();
  // What may follow the rule, and those that it is part of within the statement.
  const antlr4::atn::ATN &atn = parser->getATN();
  IntervalSet wanted;
  for (antlr4::RuleContext *at = context;
       at != nullptr && at->invokingState != antlr4::atn::ATNState::INVALID_STATE_NUMBER &&
       !isStatementRule(ruleOf(at)) && ruleOf(at) != DtileParser::RuleBlock;
       at = static_cast<antlr4::RuleContext *>(at->parent)) {
    const auto *call =
        static_cast<antlr4::atn::RuleTransition *>(atn.states[at->invokingState]->transitions[0]);
    wanted.addAll(atn.nextTokens(call->followState));
  }
  skipTo(wanted);
}

// Called where a list may go on or end.
void SyntaxErrors::sync(antlr4::Parser *parser) {
  switch (parser->getContext()->getRuleIndex()) {
  case DtileParser::RuleBlock:
    return syncStatements(parser);
  case DtileParser::RuleKernelDeclaration: {
    const auto *kernel = static_cast<DtileParser::KernelDeclarationContext *>(parser->getContext());
    if (kernel->open)
      syncStatements(parser);
    else if (kernel->parameters && !recovering_)
      repairKeyword(parser);
    return;
  }
  case DtileParser::RuleParameterList:
  case DtileParser::RuleSuffix:
    return syncList(parser);
  default:
    return;
  }
}

// Passes over what can neither start a statement nor end the list of them.
void SyntaxErrors::syncStatements(antlr4::Parser *parser) {
  while (true) {
    const SourceToken &token = tokens_.current();
    if (startsStatement(token.type) || token.type == DtileParser::RIGHT_BRACE ||
        token.type == antlr4::Token::EOF || token.startsDeclaration)
      return;
    if (!recovering_ && begin(token)) {
      DiagBuilder message = diagnostics_.report(range(token), diag::unexpected_token, "a statement",
                                                describeFound(token));
      if (token.type == DtileParser::SEMICOLON)
        message.fix(range(token), "");
    }
    recovering_ = true;
    tokens_.consume();
  }
}

// Takes a comma as written where only that is missing between two items.
void SyntaxErrors::syncList(antlr4::Parser *parser) {
  const SourceToken &found = tokens_.current();
  // Once a place: the comma that was put there stands in no token's neighbourhood.
  if (recovering_ || found.index == 0 || found.index == commaBefore_)
    return;
  switch (tokens_.at(found.index - 1).type) {
  case DtileParser::COMMA:
  case DtileParser::LEFT_PAREN:
  case DtileParser::LEFT_BRACKET:
  case DtileParser::GENERIC_OPEN:
  case DtileParser::AT:
    return;
  default:
    break;
  }
  const bool inParameters = ruleOf(parser->getContext()) == DtileParser::RuleParameterList;
  const bool startsItem =
      inParameters ? tokens_.at(found.index + 1).type == DtileParser::COLON
                   : !isOnNewLine(found) &&
                         (found.type == DtileParser::NAME || found.type == DtileParser::INTEGER ||
                          found.type == DtileParser::FLOAT || found.type == DtileParser::STRING);
  if (!startsItem)
    return;
  if (begin(found)) {
    const SourceLoc place = endOfPrevious();
    const SourceRange at = isOnNewLine(found) ? SourceRange{place, place} : range(found);
    diagnostics_.report(at, diag::unexpected_token, "`,`", describeFound(found))
        .fix({place, place}, ",");
  }
  recovering_ = false;
  commaBefore_ = found.index;
  tokens_.inject(missingToken(DtileParser::COMMA));
}

bool SyntaxErrors::isOnNewLine(const SourceToken &token) const {
  const uint32_t before = token.index == 0 ? 0 : tokens_.at(token.index - 1).end;
  return text_.slice(before, token.begin).contains('\n');
}

} // namespace dtile::parse
