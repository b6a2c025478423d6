// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form, in. One pass over the bytes without a separate lexer; stops at the first mistake.
// The grammar is in ir/README.md. Line ends are blanks, except that the operands of an op stand on
// the line of its name: without that, `quiet` would take the results of the next line.
#include "frontend/base/check.h"
#include "ir/core/op_rows.h"
#include "ir/core/text_format.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <charconv>
#include <limits>
#include <optional>

namespace dtile::ir {

namespace {

/// Characters, words and literals, with positions.
class Scanner {
public:
  Scanner(FileId file, const SourceManager &sources, Diagnostics &diagnostics)
      : file_(file), sources_(sources), diagnostics_(diagnostics), text_(sources.text(file)) {}

  void skipSpace();
  /// Stops at line ends and comments.
  void skipBlanks();
  [[nodiscard]] bool atEnd() const { return pos_ == text_.size(); }
  [[nodiscard]] char peek() const { return atEnd() ? '\0' : text_[pos_]; }
  /// Skips space, then takes the character if it is next.
  bool consume(char c);
  bool expect(char c);
  /// Skips space, then takes `[A-Za-z_][A-Za-z0-9_.]*`; empty when there is none.
  llvm::StringRef word();
  /// Skips space, then takes a name after a `%`.
  std::optional<llvm::StringRef> valueName();
  std::optional<std::string> string();
  /// Skips space, then takes what is from a `[` to the next `]`; empty when there is none.
  llvm::StringRef bracketed();
  std::optional<int64_t> integer();
  /// An integer or, with a point, an exponent or in letters, a double.
  std::optional<Attr> number();
  [[nodiscard]] bool atNumber() const { return peek() == '-' || llvm::isDigit(peek()); }

  [[nodiscard]] size_t pos() const { return pos_; }
  void setPos(size_t pos) { pos_ = pos; }
  [[nodiscard]] bool startsWith(llvm::StringRef s) const {
    return text_.substr(pos_).starts_with(s);
  }
  [[nodiscard]] SourceLoc loc(size_t pos) const { return sources_.locAt(file_, uint32_t(pos)); }
  [[nodiscard]] SourceRange range(size_t from, size_t to) const { return {loc(from), loc(to)}; }
  /// Reports `expected …` here; always false.
  bool expected(llvm::StringRef what);
  Diagnostics &diagnostics() { return diagnostics_; }

private:
  template <typename T> std::optional<T> convert(size_t from);
  std::optional<char> escape();
  FileId file_;
  const SourceManager &sources_;
  Diagnostics &diagnostics_;
  llvm::StringRef text_;
  size_t pos_ = 0;
};

void Scanner::skipBlanks() {
  while (!atEnd() && (text_[pos_] == ' ' || text_[pos_] == '\t'))
    ++pos_;
}

void Scanner::skipSpace() {
  for (;;) {
    while (!atEnd() && llvm::isSpace(text_[pos_]))
      ++pos_;
    if (!startsWith("//"))
      return;
    pos_ = std::min(text_.find('\n', pos_), text_.size());
  }
}

bool Scanner::consume(char c) {
  skipSpace();
  if (atEnd() || text_[pos_] != c)
    return false;
  ++pos_;
  return true;
}

bool Scanner::expect(char c) { return consume(c) || expected("`" + std::string(1, c) + "`"); }

bool Scanner::expected(llvm::StringRef what) {
  skipSpace();
  diagnostics_.report(range(pos_, std::min(pos_ + 1, text_.size())), diag::ir_syntax, what);
  return false;
}

bool isWordStart(char c) { return llvm::isAlpha(c) || c == '_'; }
bool isWordPart(char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; }

llvm::StringRef Scanner::word() {
  skipSpace();
  const size_t from = pos_;
  if (isWordStart(peek()))
    while (isWordPart(peek()))
      ++pos_;
  return text_.slice(from, pos_);
}

std::optional<llvm::StringRef> Scanner::valueName() {
  if (!consume('%')) {
    expected("a value");
    return std::nullopt;
  }
  const size_t from = pos_;
  while (isWordPart(peek()))
    ++pos_;
  if (from == pos_) {
    expected("a name behind `%`");
    return std::nullopt;
  }
  return text_.slice(from, pos_);
}

llvm::StringRef Scanner::bracketed() {
  skipSpace();
  const size_t end = text_.find(']', pos_);
  if (peek() != '[' || end == llvm::StringRef::npos)
    return "";
  const size_t from = std::exchange(pos_, end + 1);
  return text_.slice(from, pos_);
}

std::optional<char> Scanner::escape() {
  const char c = peek();
  ++pos_;
  switch (c) {
  case '"':
  case '\\':
    return c;
  case 'n':
    return '\n';
  case 't':
    return '\t';
  case 'x': {
    const llvm::StringRef digits = text_.substr(pos_, 2);
    unsigned value = 0;
    if (digits.size() == 2 && !digits.getAsInteger(16, value)) {
      pos_ += 2;
      return char(value);
    }
    break;
  }
  default:
    break;
  }
  return std::nullopt;
}

std::optional<std::string> Scanner::string() {
  if (!expect('"'))
    return std::nullopt;
  std::string value;
  while (!atEnd() && peek() != '"' && peek() != '\n') {
    if (peek() != '\\') {
      value += text_[pos_++];
      continue;
    }
    const size_t from = pos_++;
    const std::optional<char> c = atEnd() ? std::nullopt : escape();
    if (!c) {
      pos_ = from;
      expected("an escape: \\\", \\\\, \\n, \\t or \\x and two digits");
      return std::nullopt;
    }
    value += *c;
  }
  if (peek() != '"') {
    diagnostics_.report(loc(pos_), diag::ir_syntax, "`\"`");
    return std::nullopt;
  }
  ++pos_;
  return value;
}

template <typename T> std::optional<T> Scanner::convert(size_t from) {
  T value = 0;
  const auto [end, error] = std::from_chars(text_.data() + from, text_.data() + pos_, value);
  if (error == std::errc() && end == text_.data() + pos_)
    return value;
  diagnostics_.report(range(from, pos_), diag::ir_number_out_of_range, text_.slice(from, pos_));
  return std::nullopt;
}

std::optional<int64_t> Scanner::integer() {
  skipSpace();
  const size_t from = pos_;
  if (peek() == '-')
    ++pos_;
  if (!llvm::isDigit(peek())) {
    pos_ = from;
    expected("an integer");
    return std::nullopt;
  }
  while (llvm::isDigit(peek()))
    ++pos_;
  return convert<int64_t>(from);
}

std::optional<Attr> Scanner::number() {
  const size_t from = pos_;
  if (startsWith("-inf")) {
    pos_ += 4;
    return Attr(-std::numeric_limits<double>::infinity());
  }
  if (peek() == '-')
    ++pos_;
  if (!llvm::isDigit(peek())) {
    expected("a number");
    return std::nullopt;
  }
  bool isDouble = false;
  while (llvm::isDigit(peek()))
    ++pos_;
  if (peek() == '.') {
    isDouble = true;
    ++pos_;
    while (llvm::isDigit(peek()))
      ++pos_;
  }
  if (peek() == 'e' || peek() == 'E') {
    isDouble = true;
    ++pos_;
    if (peek() == '+' || peek() == '-')
      ++pos_;
    if (!llvm::isDigit(peek())) {
      expected("an exponent");
      return std::nullopt;
    }
    while (llvm::isDigit(peek()))
      ++pos_;
  }
  if (isDouble) {
    if (std::optional<double> value = convert<double>(from))
      return Attr(*value);
    return std::nullopt;
  }
  if (std::optional<int64_t> value = convert<int64_t>(from))
    return Attr(*value);
  return std::nullopt;
}

/// What is written about an op before its regions.
struct OpText {
  OpKind kind = OpKind::Const;
  /// The place of the op's name.
  SourceRange range;
  std::vector<std::pair<llvm::StringRef, SourceRange>> results;
  llvm::SmallVector<Value *, 4> operands;
  llvm::SmallVector<Type, 2> types;
  std::vector<NamedAttr> attrs;
};

/// The grammar above words.
class Parser {
public:
  Parser(FileId file, const SourceManager &sources, TypeContext &types, Diagnostics &diagnostics)
      : scan_(file, sources, diagnostics), types_(types), module_(std::make_unique<Module>(types)) {
    module_->setSources(&sources);
    for (size_t i = 0; i < allOps().size(); ++i)
      kinds_[allOps()[i].text] = OpKind(i);
  }

  std::unique_ptr<Module> run();

private:
  bool version();
  bool op(Block &block);
  bool opName(OpText &text);
  bool operands(OpText &text);
  bool attrs(OpText &text);
  bool attr(OpText &text);
  bool addAttr(OpText &text, llvm::StringRef name, SourceRange range, Attr value);
  [[nodiscard]] bool atAttrs(OpKind kind);
  std::optional<Attr> attrValue();
  std::optional<Attr> list();
  bool resultTypes(OpText &text);
  std::optional<Type> type();
  std::optional<Type> tileType(size_t from);
  std::optional<Type> viewType(size_t from);
  std::optional<Type> signalType(size_t from);
  /// `, remote>` or `>`.
  std::optional<bool> remoteEnd();
  std::optional<Type> badType(size_t from);
  std::optional<DType> elementType();
  bool checkRow(const OpText &text, const Op &op);
  bool regions(const OpText &text, Op &op);
  bool region(Block &block);
  bool location();

  bool define(llvm::StringRef name, SourceRange range, Value *value);

  struct Definition {
    Value *value = nullptr;
    SourceRange range;
  };
  Scanner scan_;
  TypeContext &types_;
  std::unique_ptr<Module> module_;
  llvm::StringMap<OpKind> kinds_;
  llvm::StringMap<Definition> values_;
  /// The names defined in the regions that are open, outermost first.
  std::vector<llvm::StringRef> visible_;
  unsigned depth_ = 0;
};

// `version 1`, which older texts do not have.
bool Parser::version() {
  scan_.skipSpace();
  const size_t from = scan_.pos();
  if (scan_.word() != "version") {
    scan_.setPos(from);
    return true;
  }
  const std::optional<int64_t> number = scan_.integer();
  if (number && *number > kTextVersion)
    scan_.diagnostics().report(scan_.range(from, scan_.pos()), diag::ir_too_new, *number,
                               kTextVersion);
  return number && *number <= kTextVersion;
}

std::unique_ptr<Module> Parser::run() {
  if (!version())
    return nullptr;
  for (scan_.skipSpace(); !scan_.atEnd(); scan_.skipSpace()) {
    if (!op(module_->body()))
      return nullptr;
    // Not left to the verifier: values of a module have no names to print.
    const Op &top = module_->body().ops().back();
    if (!top.is(OpKind::Func) && !top.is(OpKind::Kernel)) {
      scan_.diagnostics().report(
          top.loc(), diag::ir_invalid,
          ("`" + top.info().text + "` stands outside of functions and kernels").str());
      return nullptr;
    }
  }
  return std::move(module_);
}

bool Parser::define(llvm::StringRef name, SourceRange range, Value *value) {
  auto [it, isNew] = values_.try_emplace(name, Definition{value, range});
  if (!isNew) {
    scan_.diagnostics()
        .report(range, diag::ir_redefined_value, name)
        .note(it->second.range, diag::note_value_defined_here, name);
    return false;
  }
  visible_.push_back(name);
  if (!llvm::all_of(name, llvm::isDigit))
    value->setNameHint(name);
  return true;
}

bool Parser::op(Block &block) {
  OpText text;
  if (!opName(text) || !operands(text))
    return false;
  if (atAttrs(text.kind) && !attrs(text))
    return false;
  if (!resultTypes(text))
    return false;

  Op *made = module_->create(text.kind, text.operands, text.types, text.range.begin);
  for (NamedAttr &attr : text.attrs)
    made->setAttr(attr.name, std::move(attr.value));
  made->moveToEnd(block);
  if (!checkRow(text, *made) || !regions(text, *made) || !location())
    return false;

  // Results are not visible in the op's own regions.
  for (auto [name, value] : llvm::zip(text.results, made->results()))
    if (!define(name.first, name.second, value))
      return false;
  return true;
}

bool Parser::opName(OpText &text) {
  scan_.skipSpace();
  if (scan_.peek() == '%') {
    do {
      scan_.skipSpace();
      const size_t from = scan_.pos();
      const std::optional<llvm::StringRef> name = scan_.valueName();
      if (!name)
        return false;
      text.results.emplace_back(*name, scan_.range(from, scan_.pos()));
    } while (scan_.consume(','));
    if (!scan_.expect('='))
      return false;
    scan_.skipSpace();
  }
  const size_t from = scan_.pos();
  const llvm::StringRef name = scan_.word();
  if (name.empty())
    return scan_.expected("an operation");
  text.range = scan_.range(from, scan_.pos());
  auto kind = kinds_.find(name);
  if (kind == kinds_.end()) {
    scan_.diagnostics().report(text.range, diag::ir_unknown_op, name);
    return false;
  }
  text.kind = kind->second;

  scan_.skipBlanks();
  if (scan_.peek() != '@')
    return true;
  const size_t symbolAt = scan_.pos();
  scan_.consume('@');
  std::string symbol = scan_.word().str();
  if (symbol.empty()) {
    if (scan_.peek() != '"')
      return scan_.expected("a name behind `@`");
    std::optional<std::string> quoted = scan_.string();
    if (!quoted)
      return false;
    symbol = *quoted;
  }
  return addAttr(text, text.kind == OpKind::Call ? "callee" : "name",
                 scan_.range(symbolAt, scan_.pos()), std::move(symbol));
}

bool Parser::operands(OpText &text) {
  scan_.skipBlanks();
  if (scan_.peek() != '%')
    return true;
  do {
    scan_.skipSpace();
    const size_t from = scan_.pos();
    const std::optional<llvm::StringRef> name = scan_.valueName();
    if (!name)
      return false;
    auto it = values_.find(*name);
    if (it == values_.end()) {
      scan_.diagnostics().report(scan_.range(from, scan_.pos()), diag::ir_undefined_value, *name);
      return false;
    }
    text.operands.push_back(it->second.value);
  } while (scan_.consume(','));
  return true;
}

// Attributes.

bool Parser::atAttrs(OpKind kind) {
  scan_.skipSpace();
  const size_t from = scan_.pos();
  if (scan_.peek() != '{')
    return false;
  if (opInfo(kind).regions == 0)
    return true;
  // A brace may open a region instead; only an attribute is a word before an equals sign.
  scan_.consume('{');
  const bool found = !scan_.word().empty() && scan_.consume('=');
  scan_.setPos(from);
  return found;
}

bool Parser::addAttr(OpText &text, llvm::StringRef name, SourceRange range, Attr value) {
  for (const NamedAttr &other : text.attrs) {
    if (other.name != name)
      continue;
    scan_.diagnostics().report(range, diag::ir_duplicate_attribute, name);
    return false;
  }
  for (const AttrRow &row : attrRows(text.kind)) {
    if (row.name != name || hasAttrKind(value, row.kind))
      continue;
    scan_.diagnostics().report(range, diag::ir_bad_attribute, name, attrKindText(row.kind));
    return false;
  }
  text.attrs.push_back({name.str(), std::move(value)});
  return true;
}

bool Parser::attrs(OpText &text) {
  scan_.expect('{');
  if (scan_.consume('}'))
    return true;
  do {
    if (!attr(text))
      return false;
  } while (scan_.consume(','));
  return scan_.expect('}');
}

bool Parser::attr(OpText &text) {
  scan_.skipSpace();
  const size_t from = scan_.pos();
  const llvm::StringRef name = scan_.word();
  if (name.empty())
    return scan_.expected("the name of an attribute");
  const SourceRange range = scan_.range(from, scan_.pos());
  if (!scan_.expect('='))
    return false;
  std::optional<Attr> value = attrValue();
  return value && addAttr(text, name, range, std::move(*value));
}

std::optional<Attr> Parser::attrValue() {
  scan_.skipSpace();
  if (scan_.atNumber())
    return scan_.number();
  if (scan_.peek() == '[')
    return list();
  if (scan_.peek() == '"') {
    if (std::optional<std::string> value = scan_.string())
      return Attr(std::move(*value));
    return std::nullopt;
  }
  const size_t from = scan_.pos();
  const llvm::StringRef word = scan_.word();
  if (word == "true" || word == "false")
    return Attr(word == "true");
  if (word == "inf")
    return Attr(std::numeric_limits<double>::infinity());
  if (word == "nan")
    return Attr(std::numeric_limits<double>::quiet_NaN());
  if (word == "dtype") {
    if (!scan_.expect('('))
      return std::nullopt;
    const std::optional<DType> dtype = elementType();
    if (!dtype || !scan_.expect(')'))
      return std::nullopt;
    return Attr(*dtype);
  }
  scan_.setPos(from);
  scan_.expected("the value of an attribute");
  return std::nullopt;
}

std::optional<Attr> Parser::list() {
  scan_.expect('[');
  if (scan_.consume(']'))
    return Attr(std::vector<int64_t>{});
  scan_.skipSpace();
  if (scan_.peek() == '"') {
    std::vector<std::string> strings;
    do {
      std::optional<std::string> value = scan_.string();
      if (!value)
        return std::nullopt;
      strings.push_back(std::move(*value));
    } while (scan_.consume(','));
    if (!scan_.expect(']'))
      return std::nullopt;
    return Attr(std::move(strings));
  }
  std::vector<int64_t> integers;
  do {
    const std::optional<int64_t> value = scan_.integer();
    if (!value)
      return std::nullopt;
    integers.push_back(*value);
  } while (scan_.consume(','));
  if (!scan_.expect(']'))
    return std::nullopt;
  return Attr(std::move(integers));
}

// Types.

bool Parser::resultTypes(OpText &text) {
  if (scan_.consume(':')) {
    do {
      const std::optional<Type> parsed = type();
      if (!parsed)
        return false;
      text.types.push_back(*parsed);
    } while (scan_.consume(','));
  }
  return true;
}

std::optional<Type> Parser::badType(size_t from) {
  // Up to where a reader would see the end of the type.
  const size_t end = std::max(scan_.pos(), from + (scan_.atEnd() ? 0 : 1));
  scan_.diagnostics().report(scan_.range(from, end), diag::ir_bad_type,
                             scan_.diagnostics().sources().text(scan_.range(from, end)).trim());
  return std::nullopt;
}

std::optional<DType> Parser::elementType() {
  scan_.skipSpace();
  const size_t from = scan_.pos();
  const std::optional<DType> dtype = dtypeFromName(scan_.word());
  if (!dtype)
    badType(from);
  return dtype;
}

std::optional<Type> Parser::type() {
  scan_.skipSpace();
  const size_t from = scan_.pos();
  const llvm::StringRef word = scan_.word();
  if (word == "index")
    return types_.index();
  if (word == "token")
    return types_.token();
  if (word == "acquire")
    return types_.acquire();
  if (word == "tile")
    return tileType(from);
  if (word == "view")
    return viewType(from);
  if (word == "signal")
    return signalType(from);
  if (const std::optional<DType> dtype = dtypeFromName(word))
    return types_.scalar(*dtype);
  return badType(from);
}

std::optional<Type> Parser::tileType(size_t from) {
  if (!scan_.consume('<'))
    return badType(from);
  llvm::SmallVector<int64_t, 4> shape;
  int64_t elements = 1;
  bool fits = true;
  for (scan_.skipSpace(); llvm::isDigit(scan_.peek()); scan_.skipSpace()) {
    const std::optional<int64_t> size = scan_.integer();
    if (!size)
      return std::nullopt;
    if (scan_.peek() != 'x')
      return badType(from);
    scan_.consume('x');
    fits = fits && *size > 0 && *size <= kMaxTileElements / elements;
    elements = fits ? elements * *size : 1;
    shape.push_back(*size);
  }
  const std::optional<DType> dtype = elementType();
  if (!dtype)
    return std::nullopt;
  llvm::StringRef layoutText;
  if (scan_.consume(','))
    layoutText = scan_.bracketed();
  if (!scan_.consume('>'))
    return badType(from);
  if (!fits || shape.empty() || shape.size() > kMaxTileRank) {
    scan_.diagnostics().report(scan_.range(from, scan_.pos()), diag::ir_tile_too_large);
    return std::nullopt;
  }
  if (layoutText.empty())
    return types_.tile(shape, *dtype);
  const std::optional<Layout> layout = Layout::parse(layoutText, unsigned(shape.size()));
  if (!layout || !layout->covers(shape))
    return badType(from);
  return types_.tile(shape, *dtype, &*layout);
}

std::optional<bool> Parser::remoteEnd() {
  if (scan_.consume('>'))
    return false;
  if (scan_.consume(',') && scan_.word() == "remote" && scan_.consume('>'))
    return true;
  return std::nullopt;
}

std::optional<Type> Parser::viewType(size_t from) {
  if (!scan_.consume('<'))
    return badType(from);
  const std::optional<DType> dtype = elementType();
  if (!dtype)
    return std::nullopt;
  if (!scan_.expect(','))
    return std::nullopt;
  const std::optional<int64_t> rank = scan_.integer();
  if (!rank)
    return std::nullopt;
  const std::optional<bool> remote = remoteEnd();
  if (!remote || *rank < 0 || *rank > kMaxViewRank)
    return badType(from);
  return types_.view(*dtype, unsigned(*rank), *remote);
}

std::optional<Type> Parser::signalType(size_t from) {
  if (!scan_.consume('<'))
    return badType(from);
  const std::optional<int64_t> rank = scan_.integer();
  if (!rank)
    return std::nullopt;
  const std::optional<bool> remote = remoteEnd();
  if (!remote || *rank < 0 || *rank > kMaxViewRank)
    return badType(from);
  return types_.signal(unsigned(*rank), *remote);
}

// Ops, the rest.

bool Parser::checkRow(const OpText &text, const Op &op) {
  const llvm::StringRef name = op.info().text;
  if (std::string problem = checkOperandClasses(op); !problem.empty()) {
    scan_.diagnostics().report(text.range, diag::ir_bad_operands, name, problem);
    return false;
  }
  if (text.types.size() != text.results.size()) {
    const auto count = [](size_t n, const char *what) {
      return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
    };
    scan_.diagnostics().report(text.range, diag::ir_bad_results, name,
                               "names " + count(text.results.size(), "result") + " but " +
                                   count(text.types.size(), "type"));
    return false;
  }
  if (std::string problem = checkResultClasses(op); !problem.empty()) {
    scan_.diagnostics().report(text.range, diag::ir_bad_results, name, problem);
    return false;
  }
  for (const AttrRow &row : attrRows(op.kind())) {
    if (row.presence == AttrPresence::Optional || op.attr(row.name))
      continue;
    scan_.diagnostics().report(text.range, diag::ir_missing_attribute, name,
                               llvm::StringRef(row.name));
    return false;
  }
  return true;
}

bool Parser::regions(const OpText &text, Op &op) {
  unsigned count = 0;
  for (scan_.skipSpace(); scan_.peek() == '{' || scan_.peek() == '('; scan_.skipSpace()) {
    if (count == op.numRegions()) {
      ++count;
      break;
    }
    if (!region(op.body(count++)))
      return false;
  }
  if (count == op.numRegions())
    return true;
  scan_.diagnostics().report(text.range, diag::ir_bad_regions, op.info().text,
                             count > op.numRegions() ? "more" : llvm::Twine(count).str(),
                             op.numRegions());
  return false;
}

bool Parser::region(Block &block) {
  if (depth_ == kMaxRegionDepth) {
    scan_.diagnostics().report(scan_.loc(scan_.pos()), diag::ir_too_deep, kMaxRegionDepth);
    return false;
  }
  ++depth_;
  const size_t outer = visible_.size();
  if (scan_.consume('(')) {
    do {
      scan_.skipSpace();
      const size_t from = scan_.pos();
      const std::optional<llvm::StringRef> name = scan_.valueName();
      if (!name)
        return false;
      const SourceRange range = scan_.range(from, scan_.pos());
      if (!scan_.expect(':'))
        return false;
      const std::optional<Type> parsed = type();
      if (!parsed || !define(*name, range, block.addArgument(*parsed)))
        return false;
    } while (scan_.consume(','));
    if (!scan_.expect(')'))
      return false;
  }
  if (!scan_.expect('{'))
    return false;
  while (!scan_.consume('}')) {
    if (scan_.atEnd())
      return scan_.expected("`}`");
    if (!op(block))
      return false;
  }
  for (; visible_.size() > outer; visible_.pop_back())
    values_.erase(visible_.back());
  --depth_;
  return true;
}

bool Parser::location() {
  scan_.skipBlanks();
  if (!scan_.startsWith("loc("))
    return true;
  scan_.word();
  return scan_.expect('(') && scan_.integer() && scan_.expect(':') && scan_.integer() &&
         scan_.expect(')');
}

} // namespace

std::unique_ptr<Module> parseModule(FileId file, const SourceManager &sources, TypeContext &types,
                                    Diagnostics &diagnostics) {
  const PhaseScope phase("parsing IR");
  return Parser(file, sources, types, diagnostics).run();
}

} // namespace dtile::ir
