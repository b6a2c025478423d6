// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form, out. One line an op:
//   %a, %b = op @symbol %x, %y {attr = 1} : type, type (%arg: type) { … } { … } loc(12:5)
#include "ir/core/names.h"
#include "ir/core/text_format.h"

#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <cmath>

namespace dtile::ir {

// Names.

llvm::StringRef NameTable::name(const Value *value) const {
  auto it = names_.find(value);
  return it == names_.end() ? llvm::StringRef("?") : llvm::StringRef(it->second);
}

void NameTable::add(const Op &op) {
  for (const Value *result : op.results())
    add(result);
  for (unsigned i = 0; i < op.numRegions(); ++i) {
    for (const Value *argument : op.body(i).arguments())
      add(argument);
    for (const Op &inner : op.body(i).ops())
      add(inner);
  }
}

void NameTable::add(const Value *value) {
  // A name of digits only would clash with the numbers.
  const llvm::StringRef hint = value->nameHint();
  if (hint.empty() || llvm::all_of(hint, llvm::isDigit))
    names_[value] = std::to_string(nextNumber_++);
  else
    names_[value] = unique(hint);
}

std::string NameTable::unique(llvm::StringRef hint) {
  std::string name = hint.str();
  for (char &c : name)
    if (!llvm::isAlnum(c) && c != '_' && c != '.')
      c = '_';
  if (taken_.try_emplace(name, 1).second)
    return name;
  // Count from the stem, so that acc_1 copied again is acc_2 and not acc_1_1.
  llvm::StringRef stem = llvm::StringRef(name).rtrim("0123456789");
  if (stem.size() == name.size() || stem.size() < 2 || !stem.consume_back("_"))
    stem = name;
  // A reference into the map would not survive the insertions below.
  unsigned number = taken_.try_emplace(stem, 1).first->second;
  std::string candidate;
  do
    candidate = (stem + "_" + llvm::Twine(number++)).str();
  while (!taken_.try_emplace(candidate, 1).second);
  taken_[stem] = number;
  return candidate;
}

namespace {

// Attributes.

void printString(llvm::StringRef text, llvm::raw_ostream &os) {
  os << '"';
  for (const unsigned char c : text) {
    if (c == '"' || c == '\\')
      os << '\\' << c;
    else if (c == '\n')
      os << "\\n";
    else if (c == '\t')
      os << "\\t";
    else if (c < 0x20 || c == 0x7f)
      os << "\\x" << llvm::hexdigit(c >> 4) << llvm::hexdigit(c & 15);
    else
      os << c;
  }
  os << '"';
}

void printDouble(double value, llvm::raw_ostream &os) {
  if (std::isnan(value)) {
    os << "nan";
    return;
  }
  if (std::isinf(value)) {
    os << (value < 0 ? "-inf" : "inf");
    return;
  }
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  const llvm::StringRef text(buffer, end - buffer);
  os << text;
  // What has neither a point nor an exponent would be read as an integer.
  if (text.find_first_of(".e") == llvm::StringRef::npos)
    os << ".0";
}

struct AttrPrinter {
  llvm::raw_ostream &os;
  void operator()(bool value) const { os << (value ? "true" : "false"); }
  void operator()(int64_t value) const { os << value; }
  void operator()(double value) const { printDouble(value, os); }
  void operator()(const std::string &value) const { printString(value, os); }
  void operator()(DType value) const { os << "dtype(" << dtypeName(value) << ')'; }
  void operator()(const std::vector<int64_t> &values) const {
    os << '[';
    llvm::interleaveComma(values, os);
    os << ']';
  }
  void operator()(const std::vector<std::string> &values) const {
    os << '[';
    llvm::interleaveComma(values, os, [&](const std::string &value) { printString(value, os); });
    os << ']';
  }
};

bool isSymbol(llvm::StringRef text) {
  return !text.empty() && !llvm::isDigit(text[0]) &&
         llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
}

/// The attribute that is written as `@symbol` after the op's name.
const std::string *symbolOf(const Op &op, llvm::StringRef &key) {
  key = op.is(OpKind::Call) ? "callee" : "name";
  const Attr *attr = op.attr(key);
  return attr ? std::get_if<std::string>(attr) : nullptr;
}

// Ops.

class Printer {
public:
  Printer(llvm::raw_ostream &os, const NameTable &names, const SourceManager *sources,
          PrintOptions options)
      : os_(os), names_(names), sources_(sources), options_(options) {}

  void op(const Op &op, unsigned indent);

private:
  void values(llvm::ArrayRef<Value *> values);
  void attrs(const Op &op, llvm::StringRef symbolKey);
  void region(const Block &block, unsigned indent);
  void location(SourceLoc loc);

  llvm::raw_ostream &os_;
  const NameTable &names_;
  const SourceManager *sources_;
  PrintOptions options_;
};

void Printer::values(llvm::ArrayRef<Value *> values) {
  llvm::interleaveComma(values, os_, [&](const Value *v) { os_ << '%' << names_.name(v); });
}

void Printer::attrs(const Op &op, llvm::StringRef symbolKey) {
  bool first = true;
  for (const NamedAttr &attr : op.attrs()) {
    if (attr.name == symbolKey)
      continue;
    os_ << (first ? " {" : ", ") << attr.name << " = ";
    std::visit(AttrPrinter{os_}, attr.value);
    first = false;
  }
  if (!first)
    os_ << '}';
}

void Printer::region(const Block &block, unsigned indent) {
  if (block.numArguments() != 0) {
    os_ << " (";
    llvm::interleaveComma(block.arguments(), os_, [&](const Value *argument) {
      os_ << '%' << names_.name(argument) << ": " << argument->type().str();
    });
    os_ << ')';
  }
  if (options_.elideRegions) {
    os_ << " {...}";
    return;
  }
  os_ << " {";
  if (!block.empty())
    os_ << '\n';
  for (const Op &inner : block.ops())
    op(inner, indent + 2);
  if (!block.empty())
    os_.indent(indent);
  os_ << '}';
}

void Printer::location(SourceLoc loc) {
  if (!options_.locations || !sources_ || !loc.isValid())
    return;
  const PresumedLoc place = sources_->presumed(loc);
  os_ << " loc(" << place.line << ':' << place.column << ')';
}

void Printer::op(const Op &op, unsigned indent) {
  os_.indent(indent);
  if (op.numResults() != 0) {
    values(op.results());
    os_ << " = ";
  }
  os_ << op.info().text;
  llvm::StringRef symbolKey;
  const std::string *symbol = symbolOf(op, symbolKey);
  if (symbol) {
    os_ << " @";
    if (isSymbol(*symbol))
      os_ << *symbol;
    else
      printString(*symbol, os_);
  }
  if (op.numOperands() != 0) {
    os_ << ' ';
    values(op.operands());
  }
  attrs(op, symbol ? symbolKey : "");
  if (op.numResults() != 0) {
    os_ << " : ";
    llvm::interleaveComma(op.results(), os_, [&](const Value *v) { os_ << v->type().str(); });
  }
  for (unsigned i = 0; i < op.numRegions(); ++i)
    region(op.body(i), indent);
  location(op.loc());
  os_ << '\n';
}

} // namespace

void print(Module &module, llvm::raw_ostream &os, PrintOptions options) {
  os << "version " << kTextVersion << '\n';
  for (const Op &op : module.body().ops()) {
    const NameTable names(op);
    Printer(os, names, module.sources(), options).op(op, 0);
  }
}

void print(const Op &op, llvm::raw_ostream &os, PrintOptions options) {
  const Op *function = &op;
  while (const Op *parent = function->parentOp())
    function = parent;
  const NameTable names(*function);
  const SourceManager *sources =
      function->parentBlock() ? function->parentBlock()->module().sources() : nullptr;
  Printer(os, names, sources, options).op(op, 0);
}

} // namespace dtile::ir
