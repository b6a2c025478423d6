// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses a file one declaration at a time: ANTLR's contexts live only until their declaration is
// built, so that memory is bounded by the largest declaration.
#include "frontend/parse/parser.h"

#include "frontend/base/check.h"
#include "frontend/base/language_version.h"
#include "frontend/parse/ast_builder.h"
#include "frontend/parse/lex_file.h"
#include "frontend/parse/syntax_errors.h"

#include "grammar/DtileParser.h"

#include "llvm/Support/FormatVariadic.h"

namespace dtile::parse {

namespace {

using grammar::DtileParser;

// Enough for twenty thousand lines in one declaration; bounds memory on hostile input.
constexpr size_t kMaxTokensInDeclaration = size_t(1) << 18;

class FileParser {
public:
  FileParser(FileId file, const SourceManager &sources, ast::Arena &arena, Diagnostics &diagnostics,
             const Limits &limits)
      : file_(file), start_(sources.start(file)), text_(sources.text(file)), arena_(arena),
        diagnostics_(diagnostics), limits_(limits),
        lexed_(lexFile(file, sources, diagnostics, limits, Foreign::Translate)),
        tokens_(lexed_.visible), parser_(&tokens_),
        errors_(std::make_shared<SyntaxErrors>(tokens_, text_, start_, diagnostics, limits)),
        builder_(lexed_, text_, start_, arena, diagnostics, limits) {
    parser_.setErrorHandler(errors_);
    parser_.setBuildParseTree(false);
    parser_.removeErrorListeners();
  }

  ast::Module *run() {
    auto *module = arena_.makePlain<ast::Module>();
    module->file = file_;
    module->doc = builder_.moduleDoc();
    try {
      if (!readVersion())
        return module;
      while (tokens_.current().type != antlr4::Token::EOF)
        parseNext();
    } catch (const TooManyErrors &) {
      // What was built stays.
    }
    module->decls = arena_.copy(llvm::ArrayRef<ast::Decl *>(decls_));
    return module;
  }

private:
  // The first token after `index` that starts a declaration, or the end.
  size_t nextStart(size_t index) {
    do
      ++index;
    while (!tokens_.at(index).startsDeclaration && tokens_.at(index).type != antlr4::Token::EOF);
    return index;
  }

  // The same, or a misspelt one.
  size_t nextLikelyStart(size_t index) {
    const size_t end = nextStart(index);
    do
      ++index;
    while (index < end && !errors_->looksLikeDeclaration(index));
    return index;
  }

  SourceRange rangeOf(const SourceToken &token) const {
    return {{start_.offset + token.begin}, {start_.offset + token.end}};
  }

  // `language 0.1;` stands at `index`; the words are names elsewhere.
  bool isVersion(size_t index) {
    const SourceToken &word = tokens_.at(index);
    if (word.type != DtileParser::NAME || text_.slice(word.begin, word.end) != "language")
      return false;
    const size_t number = tokens_.at(index + 1).type;
    return number == DtileParser::FLOAT || number == DtileParser::INTEGER;
  }

  // Whether this compiler reads what the file is written for. Nothing else is said of a file that
  // is too new: it may hold forms that this parser does not know.
  bool readVersion() {
    if (!isVersion(0))
      return true;
    const SourceToken &number = tokens_.at(1);
    const llvm::StringRef text = text_.slice(number.begin, number.end);
    const auto [majorText, minorText] = text.split('.');
    unsigned major = 0, minor = 0;
    const std::string current = llvm::formatv("{0}.{1}", kLanguageMajor, kLanguageMinor);
    if (majorText.getAsInteger(10, major) || minorText.getAsInteger(10, minor)) {
      diagnostics_.report(rangeOf(number), diag::language_malformed, current);
    } else if (std::pair(major, minor) > std::pair(kLanguageMajor, kLanguageMinor)) {
      diagnostics_.report(rangeOf(number), diag::language_too_new, text, current);
      return false;
    }
    skipVersion(0);
    return true;
  }

  void skipVersion(size_t index) {
    const SourceToken &next = tokens_.at(index + 2);
    const bool isClosed = next.type == DtileParser::SEMICOLON;
    if (!isClosed) {
      const SourceLoc end = rangeOf(tokens_.at(index + 1)).end;
      const std::string found = next.type == antlr4::Token::EOF
                                    ? "end of file"
                                    : ("`" + text_.slice(next.begin, next.end) + "`").str();
      diagnostics_.report({end, end}, diag::unexpected_token, "`;` after the version", found)
          .fix({end, end}, ";");
    }
    tokens_.seek(index + (isClosed ? 3 : 2));
  }

  void parseNext() {
    const SourceToken &first = tokens_.current();
    if (isVersion(first.index)) {
      diagnostics_.report(rangeOf(first), diag::language_not_first);
      return skipVersion(first.index);
    }
    if (!first.startsDeclaration && !errors_->reportNoDeclaration())
      return tokens_.seek(nextLikelyStart(first.index));
    const size_t end = nextStart(first.index);
    if (!isWithinLimits(first.index, end))
      return tokens_.seek(end);
    parseDeclaration(first.index);
    // Leftovers of a broken declaration were part of the message about it.
    if (errors_->sawError() && !tokens_.current().startsDeclaration)
      tokens_.seek(std::min(end, nextLikelyStart(tokens_.index() - 1)));
  }

  bool isWithinLimits(size_t begin, size_t end) {
    if (end - begin > kMaxTokensInDeclaration) {
      diagnostics_.report(rangeOf(tokens_.at(begin)), diag::text_too_long, "the declaration",
                          kMaxTokensInDeclaration);
      return false;
    }
    for (size_t i = begin; i < end; ++i)
      if (tokens_.at(i).isTooDeep) {
        diagnostics_.report(rangeOf(tokens_.at(i)), diag::nesting_too_deep, limits_.maxDepth);
        return false;
      }
    return true;
  }

  void parseDeclaration(size_t begin) {
    // Each round fixes one misspelt keyword, and their number is bounded by the limit on errors.
    while (true) {
      try {
        tokens_.seek(begin);
        errors_->beginDeclaration();
        DtileParser::DeclarationContext *context = parser_.declaration();
        const size_t next = tokens_.index();
        DTILE_CHECK(next > begin, "a declaration has tokens");
        if (ast::Decl *decl = builder_.build(context)) {
          decl->isBroken = errors_->sawError();
          decls_.push_back(decl);
        }
        resetParser(next);
        return;
      } catch (const ParseAgain &) {
        resetParser(begin);
      }
    }
  }

  // Frees the contexts. ANTLR goes back to the first token; undo that.
  void resetParser(size_t position) {
    parser_.reset();
    tokens_.seek(position);
  }

  FileId file_;
  SourceLoc start_;
  llvm::StringRef text_;
  ast::Arena &arena_;
  Diagnostics &diagnostics_;
  const Limits &limits_;
  LexedFile lexed_;
  TokenView tokens_;
  DtileParser parser_;
  std::shared_ptr<SyntaxErrors> errors_;
  AstBuilder builder_;
  std::vector<ast::Decl *> decls_;
};

} // namespace

ast::Module *parse(FileId file, const SourceManager &sources, ast::Arena &arena,
                   Diagnostics &diagnostics, const Limits &limits) {
  const PhaseScope phase("parsing");
  return FileParser(file, sources, arena, diagnostics, limits).run();
}

} // namespace dtile::parse
