// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to frontend/parse: syntax of other languages, found in the tokens before they are
// parsed. Each form is one that no dtile program has. It is reported once, with dtile's own form,
// and the tokens are changed to that form, so that the parser goes on without echoes.
#pragma once

#include "frontend/base/habits.h"
#include "frontend/parse/lex_file.h"

#include "llvm/ADT/StringSet.h"

namespace dtile::parse {

/// Walks over the tokens of a file and copies them, in dtile's form.
class ForeignForms {
public:
  ForeignForms(const LexedFile &lexed, llvm::StringRef text, uint32_t start,
               Diagnostics &diagnostics, const Limits &limits);

  /// The tokens for the parser, or those given where nothing is foreign.
  [[nodiscard]] std::vector<SourceToken> run();

private:
  /// Tokens that a form is looked for in, where it may be long: who has a habit writes some lines.
  static constexpr size_t kMostTokens = 1024;

  enum class Open : uint8_t { Paren, Parameters, Bracket, Brace, Joins, Question };

  // ---- The tokens around ----
  size_t type(size_t i) const { return at(i).type; }
  const SourceToken &at(size_t i) const { return in_[std::min(i, in_.size() - 1)]; }
  llvm::StringRef textOf(size_t i) const { return text_.slice(at(i).begin, at(i).end); }
  bool isWord(size_t i, llvm::StringRef word) const;
  bool touches(size_t i) const { return at(i).end == at(i + 1).begin; }
  bool isOnSameLine(size_t i, size_t j) const;
  size_t before(size_t back = 0) const;
  Open innermost() const { return open_.empty() ? Open::Brace : open_.back(); }
  bool startsStatement() const;
  bool endsOperand() const;
  bool startsOperand(size_t i) const;
  bool isElementType(size_t i) const;
  bool isAssignment(size_t i) const;
  /// The first input token of the operand that the output ends with, as an offset of the text.
  uint32_t operandBegin() const;
  /// The token past the operand that starts at `i`.
  size_t operandEnd(size_t i) const;
  size_t closerOf(size_t i) const;
  bool opens(size_t i) const;
  bool closes(size_t i) const;
  /// Fills `closers_` and `ends_`, once: forms ask for them at every token.
  void findEnds() const;
  /// The token at which the expression in progress ends: `;`, `,` or a closing bracket.
  size_t expressionEnd(size_t i) const;
  uint32_t expressionBegin() const;
  /// Where the brackets begin that the output is in.
  uint32_t indexBegin() const;
  bool isAssignedLater(size_t name, size_t from) const;
  bool declares(llvm::StringRef function) const;

  // ---- Changes ----
  SourceRange range(uint32_t begin, uint32_t end) const;
  SourceRange rangeOf(size_t first, size_t last) const;
  DiagBuilder *report(SourceRange place, habits::Form form, llvm::StringRef shown = {});
  void reportWord(size_t i, const habits::Word &word);
  void copy();
  void emit(size_t type, uint32_t begin, uint32_t end);
  void invent(size_t type) { emit(type, at(i_).begin, at(i_).begin); }
  /// An expression of which nothing more is said: a name without letters.
  void inventAnything();
  /// False where nothing has made the name.
  bool makeVariable();
  void skipTo(size_t i);
  void track(size_t type);

  // ---- Forms; each says whether it changed something ----
  bool tryOperators();
  bool tryPairs();
  bool tryLists();
  bool tryTuple();
  bool isStoreToSeveral();
  bool tryPairOfValues();
  bool trySeveralTokens();
  bool tryListLiteral();
  bool trySizesInParentheses();
  bool tryForeignArgument();
  bool tryLoopNames();
  bool tryAssignmentInHead();
  bool tryAsserts();
  bool tryTripleQuotes();
  bool tryPlainWords();
  bool tryAround();
  bool tryConversions();
  bool tryColons();
  bool tryStepAlone();
  bool hasRange() const;
  bool tryNumbers();
  bool tryFloatText();
  bool tryStatements();
  size_t threadWords(size_t first, size_t end) const;
  bool tryThreadPositions();
  bool tryTypedVariables();
  bool tryTopLevel();
  bool tryBraces();
  bool tryBracesOfStatement();
  bool tryModeFirst();
  bool tryParameterSizes();
  void braceStatement(size_t first);
  bool tryLoops();
  bool tryLoopRange();
  bool tryLoopParentheses();
  bool tryStarters();
  bool tryParameters();
  bool isQualifier(size_t i) const;
  // foreign_declarations.cpp
  bool tryKernelResult();
  bool tryLaunchBrackets();
  bool tryTypedParameter();
  bool tryForeignMode();
  bool tryTensorType();
  bool tryTypedGeneric();
  bool tryMutable();
  bool tryLoopWord();
  bool tryAssembly();
  /// Of the names after `for` from `first` up to `end` the loop gets the first one.
  bool keepOneName(size_t first, size_t end);
  [[nodiscard]] bool isStored(size_t name) const;
  bool tryFloorDivision();
  // foreign_choices.cpp
  bool tryChoiceOfBlocks();
  bool tryConditional();
  // foreign_tests.cpp
  bool tryTests();
  bool tryTestName();
  bool tryExpectations();
  bool isExpectation() const;
  void skipStatement(size_t from);
  bool startsDeclaration(size_t i) const;
  bool headsBlock() const;
  /// The word that begins the head that is in progress: `if`, `else`, `for` or `while`; else 0.
  size_t headWord() const;
  bool isInForeignCall() const;
  bool isImported(llvm::StringRef name) const;
  /// The last token of the block that follows a colon by its lines and their indentation.
  size_t indentedEnd(size_t first) const;
  std::vector<std::pair<size_t, size_t>> partsUpTo(size_t first, size_t end) const;

  const LexedFile &lexed_;
  const std::vector<SourceToken> &in_;
  llvm::StringRef text_;
  uint32_t start_;
  Diagnostics &diagnostics_;
  const Limits &limits_;
  std::vector<SourceToken> out_;
  std::vector<Open> open_;
  /// Of each input token: what closes it, and where the expression ends that goes on there.
  mutable std::vector<uint32_t> closers_, ends_;
  /// The functions that the input declares; nothing before somebody asks.
  mutable std::optional<llvm::StringSet<>> functions_;
  std::optional<DiagBuilder> message_;
  /// Statements of the input that get braces.
  struct Braced {
    size_t first;
    size_t last;
    bool isOpen = false;
    /// The last statement has no `;`.
    bool needsSemicolon = false;
  };
  llvm::SmallVector<Braced, 2> braces_;
  size_t i_ = 0;
  unsigned reported_ = 0;
  bool isEcho_ = false;
  bool isHeader_ = false;
  /// The header is that of a function, whose values have no mode.
  bool isFunction_ = false;
  /// The declaration in progress is a test or a bench.
  bool isTest_ = false;
  /// Further names of the loop whose block is next, which are anything in it.
  llvm::SmallVector<size_t, 2> loopNames_;
  /// How much was reported when a loop's `=` was; a `to` after it is the same habit.
  unsigned loopReported_ = 0;
  /// A colon before a block was reported in this declaration; those after it are the same habit.
  bool isColonSaid_ = false;
  /// The brackets with the last slice that was reported, and how much was then.
  uint32_t slicedIndex_ = 0;
  unsigned slicesReported_ = 0;
  /// How much was reported when a tolerance was; the other one after it is the same habit.
  unsigned tolerancesReported_ = 0;
};

} // namespace dtile::parse
