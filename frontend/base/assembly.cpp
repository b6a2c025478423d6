// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions of an `extern fn`: kinds, registers, holes.
#include "frontend/base/assembly.h"

#include "frontend/base/check.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>

namespace dtile {

namespace {

struct Row {
  Assembly id;
  llvm::StringLiteral name;
  llvm::StringLiteral word16, word32, word64, float32, float64;
  llvm::StringLiteral clobbers;
  llvm::StringLiteral memory;
  llvm::StringLiteral reads;
};

constexpr Row kRows[] = {
#define ASSEMBLY(ID, NAME, DOC, W16, W32, W64, F32, F64, CLOBBERS, MEMORY, READS)                  \
  {Assembly::ID, NAME, W16, W32, W64, F32, F64, CLOBBERS, MEMORY, READS},
#include "frontend/base/assembly.def"
};

const Row &rowOf(Assembly assembly) { return kRows[size_t(assembly)]; }

bool startsName(char c) { return llvm::isAlpha(c) || c == '_'; }
bool isOfName(char c) { return llvm::isAlnum(c) || c == '_'; }

// What follows a label or a guard: `@%p`, `@!p`, `L1:`.
llvm::StringRef mnemonicOf(llvm::StringRef instruction) {
  instruction = instruction.ltrim();
  while (true) {
    if (instruction.starts_with("@")) {
      instruction = instruction.drop_while([](char c) { return !llvm::isSpace(c); }).ltrim();
      continue;
    }
    const llvm::StringRef word =
        instruction.take_while([](char c) { return !llvm::isSpace(c) && c != ';'; });
    if (!word.ends_with(":"))
      return word;
    instruction = instruction.drop_front(word.size()).ltrim();
  }
}

/// The text with `$` for each operand, and without comments.
std::string withoutHoles(llvm::StringRef text) {
  std::string whole;
  eachPiece(
      text, [&](llvm::StringRef plain) { whole += plain; }, [&](llvm::StringRef) { whole += '$'; });
  std::string instructions;
  for (llvm::StringRef rest = whole; !rest.empty();) {
    const bool isLine = rest.starts_with("//");
    if (!isLine && !rest.starts_with("/*")) {
      instructions += rest.front();
      rest = rest.drop_front();
      continue;
    }
    // The end of a line ends its last instruction.
    const size_t end = isLine ? rest.find('\n') : rest.find("*/", 2);
    instructions += isLine ? "" : " ";
    rest = rest.substr(end == llvm::StringRef::npos || isLine ? end : end + 2);
  }
  return instructions;
}

bool isOfWord(char c) { return isOfName(c) || c == '.' || c == '%' || c == '$'; }

bool isDigit(char c) { return llvm::isDigit(c); }

/// Registers that PTX declares, `.reg .b32 %a, %b<4>;`, by the scopes of its braces. `%b<4>` is
/// `%b0` to `%b3`.
class DeclaredRegisters {
public:
  void open() { scopes_.emplace_back(); }
  void close() {
    if (scopes_.size() > 1)
      scopes_.pop_back();
  }
  /// Takes what stands between `.reg` and `;`.
  void declare(llvm::StringRef names) {
    while (!names.empty()) {
      names = names.drop_until(isOfWord);
      const llvm::StringRef name = names.take_while(isOfWord);
      names = names.drop_front(name.size()).ltrim();
      unsigned count = 0;
      if (names.consume_front("<"))
        names.ltrim().take_while(isDigit).getAsInteger(10, count);
      // Types begin with a point: `.b32`.
      if (name.starts_with("%"))
        scopes_.back()[name] = count;
    }
  }
  bool has(llvm::StringRef name) const {
    const llvm::StringRef stem = name.rtrim("0123456789");
    unsigned number = 0;
    const bool isNumbered = !name.drop_front(stem.size()).getAsInteger(10, number);
    return llvm::any_of(scopes_, [&](const llvm::StringMap<unsigned> &scope) {
      const auto one = scope.find(name), range = scope.find(stem);
      return (one != scope.end() && one->second == 0) ||
             (isNumbered && range != scope.end() && number < range->second);
    });
  }

private:
  llvm::SmallVector<llvm::StringMap<unsigned>, 4> scopes_ =
      llvm::SmallVector<llvm::StringMap<unsigned>, 4>(1);
};

bool readsMore(llvm::StringRef word, llvm::ArrayRef<llvm::StringRef> reads) {
  return llvm::any_of(reads, [&](llvm::StringRef one) {
    if (llvm::StringRef("_%").contains(one.back()))
      return word.starts_with(one) && word != one;
    return word == one || word.rtrim("0123456789") == one;
  });
}

} // namespace

llvm::StringRef assemblyName(Assembly assembly) { return rowOf(assembly).name; }

std::optional<Assembly> assemblyFromName(llvm::StringRef name) {
  for (const Row &row : kRows)
    if (row.name == name)
      return row.id;
  return std::nullopt;
}

llvm::ArrayRef<Assembly> allAssemblies() {
  static constexpr Assembly kAll[] = {
#define ASSEMBLY(ID, NAME, DOC, W16, W32, W64, F32, F64, CLOBBERS, MEMORY, READS) Assembly::ID,
#include "frontend/base/assembly.def"
  };
  return kAll;
}

std::string assemblyNames() {
  std::string names;
  for (const Row &row : kRows)
    names += (names.empty() ? "`" : ", `") + row.name.str() + "`";
  return names;
}

bool hasRegisters(DType type) {
  const unsigned bytes = dtypeBytes(type);
  return type != DType::Bool && (bytes == 2 || bytes == 4 || bytes == 8);
}

llvm::StringRef registerConstraint(Assembly assembly, DType type) {
  DTILE_CHECK(hasRegisters(type), "a type of registers");
  const Row &row = rowOf(assembly);
  switch (type) {
  case DType::F32:
    return row.float32;
  case DType::F64:
    return row.float64;
  default:
    break;
  }
  const unsigned bytes = dtypeBytes(type);
  return bytes == 2 ? row.word16 : bytes == 4 ? row.word32 : row.word64;
}

llvm::StringRef clobbers(Assembly assembly) { return rowOf(assembly).clobbers; }

std::string memoryMnemonic(Assembly assembly, llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 64> beginnings;
  rowOf(assembly).memory.split(beginnings, ' ');
  // Braces open and close scopes of PTX.
  const std::string instructions = withoutHoles(text);
  for (llvm::StringRef rest = instructions; !rest.empty();) {
    const size_t end = std::min(rest.find_first_of(";\n{}"), rest.size());
    const llvm::StringRef mnemonic = mnemonicOf(rest.take_front(end));
    for (llvm::StringRef beginning : beginnings)
      if (llvm::StringRef("._").contains(beginning.back()) ? mnemonic.starts_with(beginning)
                                                           : mnemonic == beginning)
        return mnemonic.str();
    rest = rest.drop_front(std::min(end + 1, rest.size()));
  }
  return "";
}

std::string foreignRead(Assembly assembly, llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 32> reads;
  rowOf(assembly).reads.split(reads, ' ');
  const std::string instructions = withoutHoles(text);
  DeclaredRegisters declared;
  for (llvm::StringRef rest = instructions; !rest.empty();) {
    const llvm::StringRef word = rest.take_while(isOfWord);
    if (word.empty()) {
      if (rest.front() == '{')
        declared.open();
      if (rest.front() == '}')
        declared.close();
      rest = rest.drop_front();
      continue;
    }
    rest = rest.drop_front(word.size());
    if (word == ".reg") {
      const llvm::StringRef names = rest.take_until([](char c) { return c == ';'; });
      declared.declare(names);
      rest = rest.drop_front(names.size());
    } else if (readsMore(word.lower(), reads) && !declared.has(word.split('.').first)) {
      return word.str();
    }
  }
  return "";
}

void eachPiece(llvm::StringRef text, llvm::function_ref<void(llvm::StringRef)> plain,
               llvm::function_ref<void(llvm::StringRef)> hole) {
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{' || i + 1 == text.size() || !startsName(text[i + 1]))
      continue;
    size_t end = i + 1;
    while (end < text.size() && isOfName(text[end]))
      ++end;
    if (end == text.size() || text[end] != '}')
      continue;
    plain(text.slice(begin, i));
    hole(text.slice(i + 1, end));
    begin = end + 1;
    i = end;
  }
  plain(text.drop_front(begin));
}

} // namespace dtile
