// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Drives the generated lexer over a file, then makes one pass over the tokens for all questions
// that take more than one token to answer, so that the grammar needs no lookahead.
#include "frontend/parse/lex_file.h"

#include "frontend/parse/foreign_forms.h"
#include "frontend/parse/tokens.h"

#include "grammar/DtileLexer.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/FormatVariadic.h"

namespace dtile::parse {

namespace {

using grammar::DtileLexer;

// Bytes of the UTF-8 sequence at the start of a non-empty text; 0 where it is broken.
unsigned sequenceLength(llvm::StringRef text) {
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data());
  const unsigned length = llvm::getNumBytesForUTF8(*begin);
  const bool isLegal = length <= text.size() && llvm::isLegalUTF8Sequence(begin, begin + length);
  return isLegal ? length : 0;
}

// The offset of the first byte that is not UTF-8, or npos.
size_t findInvalidUtf8(llvm::StringRef text) {
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data());
  const llvm::UTF8 *at = begin;
  if (llvm::isLegalUTF8String(&at, begin + text.size()))
    return llvm::StringRef::npos;
  return size_t(at - begin);
}

// What to write instead of characters that word processors and mathematicians like.
llvm::StringRef asciiFor(llvm::StringRef character) {
  return llvm::StringSwitch<llvm::StringRef>(character)
      .Cases({"“", "”", "„", "«", "»"}, "\"")
      .Cases({"−", "–", "—"}, "-")
      .Cases({"×", "·", "⋅", "∗"}, "*")
      .Case("÷", "/")
      .Case("≤", "<=")
      .Case("≥", ">=")
      .Case("≠", "!=")
      .Case("≈", "~=")
      .Case("→", "->")
      .Case("…", "..")
      .Case("\xC2\xA0", " ")
      .Default("");
}

// Keeps the tokens' types and places instead of making objects of them.
class Collector final : public DtileLexer {
public:
  Collector(ByteStream &input, std::vector<LexedToken> &tokens)
      : DtileLexer(&input), tokens_(tokens) {}

  using DtileLexer::emit;
  antlr4::Token *emit() override {
    // An empty file has one token of this type.
    if (type == antlr4::Token::EOF)
      return emitEOF();
    tokens_.push_back({uint32_t(tokenStartCharIndex), uint32_t(_input->index()), uint16_t(type)});
    return nullptr;
  }
  antlr4::Token *emitEOF() override {
    atEnd = true;
    return nullptr;
  }

  bool atEnd = false;

private:
  std::vector<LexedToken> &tokens_;
};

bool isComment(size_t type) {
  return type == DtileLexer::LINE_COMMENT || type == DtileLexer::DOC_COMMENT ||
         type == DtileLexer::MODULE_COMMENT || type == DtileLexer::BLOCK_COMMENT ||
         type == DtileLexer::UNTERMINATED_COMMENT;
}

class FileLexer {
public:
  FileLexer(FileId file, const SourceManager &sources, Diagnostics &diagnostics,
            const Limits &limits)
      : text_(sources.text(file)), start_(sources.start(file).offset), diagnostics_(diagnostics),
        limits_(limits) {}

  LexedFile run(Foreign foreign) {
    foreign_ = foreign;
    if (checkEncoding()) {
      readTokens();
      makeVisible();
    }
    const auto end = uint32_t(text_.size());
    const auto index = uint32_t(result_.visible.size());
    result_.visible.emplace_back(antlr4::Token::EOF, end, end, uint32_t(result_.all.size()));
    result_.visible.back().index = index;
    result_.visible.back().followsLexicalError = afterError_;
    resolveClauseWords();
    if (foreign == Foreign::Translate)
      result_.visible = ForeignForms(result_, text_, start_, diagnostics_, limits_).run();
    resolve();
    return std::move(result_);
  }

private:
  SourceRange range(uint32_t begin, uint32_t end) const {
    return {{start_ + begin}, {start_ + end}};
  }

  bool mayReport() {
    if (++reported_ <= limits_.maxErrors)
      return true;
    if (reported_ == limits_.maxErrors + 1)
      diagnostics_.report(range(lastError_, lastError_), diag::too_many_syntax_errors);
    return false;
  }

  template <typename... Args>
  DiagBuilder report(uint32_t begin, uint32_t end, diag::Id id, Args &&...args) {
    lastError_ = begin;
    return diagnostics_.report(range(begin, end), id, std::forward<Args>(args)...);
  }

  // A stray Latin-1 byte in a comment does not hide the other mistakes; what holds zero bytes is no
  // text at all.
  bool checkEncoding() {
    const size_t invalid = findInvalidUtf8(text_);
    if (invalid == llvm::StringRef::npos)
      return true;
    report(uint32_t(invalid), uint32_t(invalid + 1), diag::invalid_utf8);
    ++reported_;
    return !text_.contains('\0');
  }

  void readTokens() {
    ByteStream bytes(text_);
    if (text_.starts_with("\xEF\xBB\xBF"))
      bytes.seek(3);
    Collector lexer(bytes, result_.all);
    lexer.removeErrorListeners();
    // A guess that is right within a factor of two saves most of the copying.
    result_.all.reserve(text_.size() / 4 + 16);
    while (!lexer.atEnd) {
      lexer.nextToken();
      if (result_.all.size() > kMaxTokens) {
        report(result_.all.back().begin, result_.all.back().end, diag::text_too_long, "the file",
               kMaxTokens);
        result_.all.clear();
        return;
      }
    }
  }

  void makeVisible() {
    result_.visible.reserve(result_.all.size() + 1);
    for (size_t i = 0; i < result_.all.size(); ++i) {
      const LexedToken token = result_.all[i];
      if (token.type == DtileLexer::UNEXPECTED_CHARACTER) {
        i = reportCharacters(i);
        afterError_ = true;
        continue;
      }
      if (token.type == DtileLexer::UNTERMINATED_COMMENT && mayReport())
        report(token.begin, token.begin + 2, diag::unterminated_comment);
      if (startsDashComment(i)) {
        i = reportDashComment(i);
        continue;
      }
      // What it swallowed is missing.
      afterError_ |= token.type == DtileLexer::UNTERMINATED_COMMENT;
      if (isComment(token.type))
        continue;
      const bool isRepeatedComma = token.type == DtileLexer::COMMA && !result_.visible.empty() &&
                                   result_.visible.back().type == DtileLexer::COMMA;
      if (isRepeatedComma) {
        if (mayReport())
          report(token.begin, token.end, diag::unexpected_token, "an item of the list", "`,`")
              .fix(range(token.begin, token.end), "");
        continue;
      }
      const uint32_t index = uint32_t(result_.visible.size());
      result_.visible.emplace_back(visibleType(token), token.begin, token.end, uint32_t(i));
      result_.visible.back().index = index;
      result_.visible.back().followsLexicalError = afterError_;
      // The rest of the line went into the string.
      afterError_ = token.type == DtileLexer::UNTERMINATED_STRING;
    }
  }

  // Reports what is wrong with a token in itself; the parser sees a sound one.
  size_t visibleType(const LexedToken &token) {
    const llvm::StringRef text = text_.slice(token.begin, token.end);
    if (token.type == DtileLexer::UNTERMINATED_STRING) {
      if (mayReport())
        report(token.begin, token.end, diag::unterminated_string)
            .fix(range(token.end, token.end), "\"");
      return DtileLexer::STRING;
    }
    if (token.type == DtileLexer::MALFORMED_NUMBER) {
      if (mayReport())
        reportNumber(token, text);
      return DtileLexer::INTEGER;
    }
    return token.type;
  }

  void reportNumber(const LexedToken &token, llvm::StringRef text) {
    const llvm::StringRef digits = text.rtrim("fFlLuUhH");
    const auto [mantissa, exponent] = digits.split(digits.contains('E') ? 'E' : 'e');
    const auto isNumber = [](llvm::StringRef part) {
      return !part.empty() && part.find_first_not_of("0123456789_.") == llvm::StringRef::npos;
    };
    const bool hasExponent = mantissa.size() < digits.size();
    const bool isPlain =
        digits.size() < text.size() && isNumber(mantissa) && (!hasExponent || isNumber(exponent));
    if (!isPlain) {
      report(token.begin, token.end, diag::malformed_number, text);
      return;
    }
    const habits::FormInfo &row = habits::info(habits::Form::FloatSuffix);
    report(token.begin, token.end, diag::foreign_form, text, row.advice)
        .fix(range(token.begin, token.end), digits);
  }

  // `-- text` where a statement or declaration begins: of two minus signs no space is the second.
  bool startsDashComment(size_t first) const {
    const LexedToken &token = result_.all[first];
    const llvm::StringRef text = text_.substr(token.begin);
    if (token.type != DtileLexer::MINUS || !text.starts_with("--"))
      return false;
    const size_t before =
        result_.visible.empty() ? size_t(DtileLexer::SEMICOLON) : result_.visible.back().type;
    return (text.size() == 2 || llvm::isSpace(text[2]) || text[2] == '-') &&
           (before == DtileLexer::SEMICOLON || before == DtileLexer::LEFT_BRACE ||
            before == DtileLexer::RIGHT_BRACE);
  }

  // The index of the comment's last token.
  size_t reportDashComment(size_t first) {
    const uint32_t begin = result_.all[first].begin;
    const size_t length = text_.substr(begin).take_until([](char c) { return c == '\n'; }).size();
    size_t last = first;
    while (last + 1 < result_.all.size() && result_.all[last + 1].begin < begin + length)
      ++last;
    if (mayReport()) {
      const habits::FormInfo &row = habits::info(habits::Form::DashComment);
      report(begin, begin + 2, diag::foreign_form, row.shown, row.advice)
          .fix(range(begin, begin + 2), "//");
    }
    return last;
  }

  // `# text` to the end of its line, and `'text'`: the index of its last token, or `first`.
  size_t reportForeign(size_t first) {
    const uint32_t begin = result_.all[first].begin;
    const llvm::StringRef line = text_.substr(begin).take_until([](char c) { return c == '\n'; });
    const bool isHash = line.front() == '#';
    const size_t close = isHash ? line.size() : line.find('\'', 1);
    if ((!isHash && line.front() != '\'') || close == llvm::StringRef::npos)
      return first;
    const auto end = uint32_t(begin + close + (isHash ? 0 : 1));
    size_t last = first;
    while (last + 1 < result_.all.size() && result_.all[last + 1].begin < end)
      ++last;
    // A string or comment that begins inside goes on after.
    if (!mayReport() || result_.all[last].end > end)
      return first;
    const llvm::StringRef word = line.drop_front().take_while(llvm::isAlpha);
    const bool isDirective = llvm::StringSwitch<bool>(word)
                                 .Cases({"include", "define", "pragma", "if"}, true)
                                 .Cases({"ifdef", "ifndef", "endif", "undef"}, true)
                                 .Default(false);
    const habits::FormInfo &row = habits::info(isDirective ? habits::Form::Preprocessor
                                               : isHash    ? habits::Form::HashComment
                                                           : habits::Form::SingleQuotes);
    if (!isHash && isInFloatText()) {
      addString(begin, end, first);
      return last;
    }
    DiagBuilder message = report(begin, isDirective ? begin + 1 + uint32_t(word.size()) : begin + 1,
                                 diag::foreign_form, row.shown, row.advice);
    if (isHash && !isDirective)
      message.fix(range(begin, begin + 1), "//");
    if (!isHash) {
      message.fix(range(begin, begin + 1), "\"").fix(range(end - 1, end), "\"");
      addString(begin, end, first);
    }
    return last;
  }

  // After `float(`, of which ForeignForms tells more than of the quotes.
  bool isInFloatText() const {
    const auto &tokens = result_.visible;
    const size_t count = tokens.size();
    return foreign_ == Foreign::Translate && count >= 2 &&
           tokens[count - 1].type == DtileLexer::LEFT_PAREN &&
           text_.slice(tokens[count - 2].begin, tokens[count - 2].end) == "float";
  }

  void addString(uint32_t begin, uint32_t end, size_t first) {
    result_.visible.emplace_back(DtileLexer::STRING, begin, end, uint32_t(first));
    result_.visible.back().index = uint32_t(result_.visible.size() - 1);
  }

  // Reports a run of characters that start no token; gives the index of its last byte.
  size_t reportCharacters(size_t first) {
    if (const char c = text_[result_.all[first].begin]; c == '#' || c == '\'') {
      const uint32_t visible = uint32_t(result_.visible.size());
      const size_t last = reportForeign(first);
      if (last != first || result_.visible.size() != visible)
        return last;
    }
    size_t last = first;
    while (last + 1 < result_.all.size() &&
           result_.all[last + 1].type == DtileLexer::UNEXPECTED_CHARACTER &&
           result_.all[last + 1].begin == result_.all[last].end)
      ++last;
    const uint32_t begin = result_.all[first].begin;
    const uint32_t end = result_.all[last].end;
    const llvm::StringRef rest = text_.slice(begin, end);
    const unsigned length = sequenceLength(rest);
    // Broken encodings were reported for the whole file.
    if (length == 0 || !mayReport())
      return last;
    const llvm::StringRef character = rest.take_front(length);
    DiagBuilder message = report(begin, end, diag::unexpected_character, describe(character));
    const llvm::StringRef better = asciiFor(character);
    if (!better.empty() && rest.size() == length)
      message.fix(range(begin, begin + length), better);
    return last;
  }

  static std::string describe(llvm::StringRef character) {
    if (character.size() > 1 || llvm::isPrint(character.front()))
      return ("`" + character + "`").str();
    return llvm::formatv("U+{0:X-4}", uint8_t(character.front())).str();
  }

  // ---- Questions about neighbours ----

  // `requires`, `assume`, `because` and `mesh` are names where they are no words of a clause.
  void resolveClauseWords() {
    auto &tokens = result_.visible;
    // Functions of these names may be called for their effect.
    bool areFunctions[2] = {};
    for (size_t i = 1; i < tokens.size(); ++i)
      if (typeAt(i - 1) == DtileLexer::FN) {
        areFunctions[0] |= tokens[i].type == DtileLexer::REQUIRES;
        areFunctions[1] |= tokens[i].type == DtileLexer::ASSUME;
      }
    for (size_t i = 0; i < tokens.size(); ++i) {
      bool isWord = true;
      if (tokens[i].type == DtileLexer::BECAUSE)
        isWord = typeAt(i + 1) == DtileLexer::STRING;
      else if (tokens[i].type == DtileLexer::MESH)
        isWord = startsStatement(i) && typeAt(i + 1) == DtileLexer::LEFT_PAREN &&
                 typeAt(i + 3) == DtileLexer::COLON;
      else if (tokens[i].type == DtileLexer::REQUIRES || tokens[i].type == DtileLexer::ASSUME)
        isWord = startsClause(i, areFunctions[tokens[i].type == DtileLexer::ASSUME ? 1 : 0]);
      if (!isWord)
        tokens[i].type = DtileLexer::NAME;
    }
  }

  bool startsStatement(size_t i) const {
    const size_t before = i == 0 ? size_t(DtileLexer::SEMICOLON) : typeAt(i - 1);
    return before == DtileLexer::LEFT_BRACE || before == DtileLexer::RIGHT_BRACE ||
           before == DtileLexer::SEMICOLON;
  }

  bool startsClause(size_t i, bool isFunction) const {
    if (!startsStatement(i))
      return false;
    const size_t next = typeAt(i + 1);
    switch (next) {
    case DtileLexer::LEFT_PAREN:
      return !isFunction;
    case DtileLexer::NAME:
    case DtileLexer::INTEGER:
    case DtileLexer::FLOAT:
    case DtileLexer::TRUE:
    case DtileLexer::FALSE:
    case DtileLexer::MINUS:
    case DtileLexer::NOT:
    case DtileLexer::TILDE:
      return true;
    default:
      return next >= DtileLexer::ALL && next <= DtileLexer::WITH;
    }
  }

  enum class Open : uint8_t { Paren, Bracket, Brace, Generic, ParameterGeneric, Question };
  struct Opened {
    Open kind = Open::Paren;
    uint32_t index = 0;
  };

  void resolve() {
    auto &tokens = result_.visible;
    for (uint32_t i = 0; i < tokens.size(); ++i) {
      SourceToken &token = tokens[i];
      resolveStart(i);
      step(i);
      if (stack_.size() > limits_.maxDepth) {
        token.isTooDeep = true;
        // Nothing deeper is parsed; keep the stack for what follows.
        stack_.pop_back();
      }
    }
  }

  size_t typeAt(size_t index) const {
    const auto &tokens = result_.visible;
    return index < tokens.size() ? tokens[index].type : antlr4::Token::EOF;
  }

  // Marks starts of declarations. Whatever was open before one is not closed any more.
  void resolveStart(uint32_t i) {
    SourceToken &token = result_.visible[i];
    bool starts = false;
    switch (token.type) {
    case DtileLexer::TEST:
    case DtileLexer::BENCH:
      starts = typeAt(i + 1) == DtileLexer::STRING;
      if (!starts)
        token.type = DtileLexer::NAME;
      break;
    case DtileLexer::CONST:
      starts = stack_.empty();
      break;
    case DtileLexer::EXTERN:
      starts = typeAt(i + 1) == DtileLexer::FN;
      if (!starts)
        token.type = DtileLexer::NAME;
      break;
    case DtileLexer::FN:
      starts = i == 0 || !(declaresName(i - 1) || typeAt(i - 1) == DtileLexer::EXTERN);
      break;
    case DtileLexer::KERNEL:
    case DtileLexer::IMPORT:
    case DtileLexer::PLAN:
    case DtileLexer::OVERLAP:
      // Where a name belongs, it is a wrong name.
      starts = i == 0 || !declaresName(i - 1);
      break;
    default:
      break;
    }
    token.startsDeclaration = starts;
    if (starts)
      stack_.clear();
  }

  void step(uint32_t i) {
    auto &tokens = result_.visible;
    switch (tokens[i].type) {
    case DtileLexer::LEFT_PAREN:
      return stack_.push_back({Open::Paren, i});
    case DtileLexer::LEFT_BRACKET:
      return stack_.push_back({Open::Bracket, i});
    case DtileLexer::LEFT_BRACE:
      dropOpenOperators();
      return stack_.push_back({Open::Brace, i});
    case DtileLexer::RIGHT_PAREN:
      return close(Open::Paren);
    case DtileLexer::RIGHT_BRACKET:
      return close(Open::Bracket);
    case DtileLexer::RIGHT_BRACE:
      return close(Open::Brace);
    case DtileLexer::LESS:
      return openGeneric(i);
    case DtileLexer::GREATER:
      return closeGeneric(i);
    case DtileLexer::QUESTION:
      dropGenerics();
      return stack_.push_back({Open::Question, i});
    case DtileLexer::COMMA:
      while (!stack_.empty() && stack_.back().kind == Open::Question)
        stack_.pop_back();
      return;
    case DtileLexer::SEMICOLON:
      return dropOpenOperators();
    case DtileLexer::AND_AND:
    case DtileLexer::OR_OR:
    case DtileLexer::EQUAL:
    case DtileLexer::NOT_EQUAL:
    case DtileLexer::LESS_EQUAL:
    case DtileLexer::GREATER_EQUAL:
    case DtileLexer::SHIFT_LEFT:
    case DtileLexer::SHIFT_RIGHT:
      return dropGenerics();
    default:
      return;
    }
  }

  // A `<` after a name may open generic arguments; the matching `>` decides.
  void openGeneric(uint32_t i) {
    if (i == 0 || typeAt(i - 1) != DtileLexer::NAME)
      return;
    size_t pending = 0;
    while (pending < stack_.size() && stack_[stack_.size() - 1 - pending].kind == Open::Generic)
      ++pending;
    // Many in one list are comparisons; nobody nests generic arguments like this.
    if (pending >= kMaxPendingGenerics)
      dropGenerics();
    stack_.push_back({isDeclaredName(i - 1) ? Open::ParameterGeneric : Open::Generic, i});
  }

  // The word that stands before the name of something with parameters.
  bool declaresName(size_t index) const {
    const size_t type = typeAt(index);
    return type == DtileLexer::KERNEL || type == DtileLexer::FN || type == DtileLexer::PLAN;
  }
  // `kernel name`, `fn name`, `plan name`: what follows in `<` can only be parameters.
  bool isDeclaredName(uint32_t i) const { return i > 0 && declaresName(i - 1); }

  // A `<` that meets a comparison or the end of its brackets was one itself.
  void dropGenerics() {
    while (!stack_.empty() && stack_.back().kind == Open::Generic)
      stack_.pop_back();
  }

  // Ends whatever is open in an expression without brackets of its own.
  void dropOpenOperators() {
    while (!stack_.empty() &&
           (stack_.back().kind == Open::Generic || stack_.back().kind == Open::Question ||
            stack_.back().kind == Open::ParameterGeneric))
      stack_.pop_back();
  }

  // Closes the nearest bracket of the kind, and with it what stayed open inside. Only a brace
  // closes what a brace holds.
  void close(Open kind) {
    dropOpenOperators();
    for (size_t i = stack_.size(); i-- > 0;) {
      if (stack_[i].kind == kind)
        return stack_.resize(i);
      if (stack_[i].kind == Open::Brace)
        return;
    }
  }

  void closeGeneric(uint32_t i) {
    auto &tokens = result_.visible;
    if (stack_.empty())
      return;
    const Opened open = stack_.back();
    if (open.kind != Open::Generic && open.kind != Open::ParameterGeneric)
      return;
    stack_.pop_back();
    const size_t next = typeAt(i + 1);
    if (open.kind == Open::Generic && next != DtileLexer::LEFT_PAREN &&
        next != DtileLexer::LEFT_BRACKET && next != DtileLexer::WITH)
      return dropGenerics();
    tokens[open.index].type = DtileLexer::GENERIC_OPEN;
    tokens[i].type = DtileLexer::GENERIC_CLOSE;
  }

  static constexpr size_t kMaxPendingGenerics = 16;
  // Enough for three hundred thousand lines; bounds memory and time on hostile input.
  static constexpr size_t kMaxTokens = size_t(1) << 22;

  llvm::StringRef text_;
  uint32_t start_;
  Diagnostics &diagnostics_;
  const Limits &limits_;
  Foreign foreign_ = Foreign::Keep;
  LexedFile result_;
  std::vector<Opened> stack_;
  unsigned reported_ = 0;
  // The next visible token follows something that was reported.
  bool afterError_ = false;
  uint32_t lastError_ = 0;
};

TokenClass classify(size_t type) {
  if (type >= DtileLexer::AFTER && type <= DtileLexer::YIELD)
    return TokenClass::Keyword;
  if (type >= DtileLexer::ALL && type <= DtileLexer::WITH)
    return TokenClass::ContextWord;
  if (type >= DtileLexer::LEFT_PAREN && type <= DtileLexer::ARROW)
    return TokenClass::Punctuation;
  if (type >= DtileLexer::ASSIGN && type <= DtileLexer::TILDE)
    return TokenClass::Operator;
  switch (type) {
  case DtileLexer::NAME:
    return TokenClass::Name;
  case DtileLexer::INTEGER:
  case DtileLexer::FLOAT:
    return TokenClass::Number;
  case DtileLexer::STRING:
    return TokenClass::String;
  case DtileLexer::GENERIC_OPEN:
    return TokenClass::GenericOpen;
  case DtileLexer::GENERIC_CLOSE:
    return TokenClass::GenericClose;
  case DtileLexer::LINE_COMMENT:
    return TokenClass::LineComment;
  case DtileLexer::DOC_COMMENT:
    return TokenClass::DocComment;
  case DtileLexer::MODULE_COMMENT:
    return TokenClass::ModuleComment;
  case DtileLexer::BLOCK_COMMENT:
    return TokenClass::BlockComment;
  default:
    return TokenClass::Invalid;
  }
}

} // namespace

LexedFile lexFile(FileId file, const SourceManager &sources, Diagnostics &diagnostics,
                  const Limits &limits, Foreign foreign) {
  return FileLexer(file, sources, diagnostics, limits).run(foreign);
}

std::vector<Token> tokenize(FileId file, const SourceManager &sources, Diagnostics &diagnostics) {
  const LexedFile lexed = lexFile(file, sources, diagnostics, Limits());
  std::vector<Token> tokens;
  tokens.reserve(lexed.all.size());
  size_t nextVisible = 0;
  for (size_t i = 0; i < lexed.all.size(); ++i) {
    const LexedToken &token = lexed.all[i];
    size_t type = token.type;
    // Neighbours decided more about the visible ones. Invalid tokens that the parser sees repaired
    // stay invalid here.
    if (lexed.visible[nextVisible].lexedIndex == i) {
      const size_t settled = lexed.visible[nextVisible++].type;
      if (classify(type) != TokenClass::Invalid)
        type = settled;
    }
    tokens.push_back({token.begin, token.end, classify(type)});
  }
  return tokens;
}

} // namespace dtile::parse
