// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions of an `extern fn`: kinds, registers, holes.
#include "frontend/base/assembly.h"

#include "frontend/base/check.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace dtile {

namespace {

struct Row {
  Assembly id;
  llvm::StringLiteral name;
  llvm::StringLiteral word16, word32, word64, float32, float64;
  llvm::StringLiteral clobbers;
  llvm::StringLiteral memory;
};

constexpr Row kRows[] = {
#define ASSEMBLY(ID, NAME, DOC, W16, W32, W64, F32, F64, CLOBBERS, MEMORY)                         \
  {Assembly::ID, NAME, W16, W32, W64, F32, F64, CLOBBERS, MEMORY},
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
#define ASSEMBLY(ID, NAME, DOC, W16, W32, W64, F32, F64, CLOBBERS, MEMORY) Assembly::ID,
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
  // Operands are no mnemonics, and braces open and close scopes of PTX.
  std::string instructions;
  eachPiece(
      text, [&](llvm::StringRef plain) { instructions += plain; },
      [&](llvm::StringRef) { instructions += '$'; });
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
