// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What authors write by habit from other languages, and dtile's form of it: habits.def as data.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace dtile::habits {

/// Syntax of other languages, one a row of habits.def.
enum class Form : uint8_t {
#define FORM(ID, SHOWN, ADVICE) ID,
#include "frontend/base/habits.def"
};

struct FormInfo {
  llvm::StringLiteral shown;
  llvm::StringLiteral advice;
};
[[nodiscard]] const FormInfo &info(Form form);

/// A word of another language.
struct Word {
  llvm::StringLiteral word;
  llvm::StringLiteral advice;
  /// What stands in its place, or empty.
  llvm::StringLiteral replacement;
};

/// The rows of a kind, or null where the word has none.
[[nodiscard]] const Word *findName(llvm::StringRef word);
/// Of what stands in a test: its own rows, then those of `findName` and `findMember`.
[[nodiscard]] const Word *findInTests(llvm::StringRef word);
[[nodiscard]] const Word *findMemberInTests(llvm::StringRef word);
[[nodiscard]] const Word *findMember(llvm::StringRef word);
[[nodiscard]] const Word *findStarter(llvm::StringRef word);
/// How a function of dtile is called, where other languages pass it other arguments; or null.
[[nodiscard]] const Word *findCalled(llvm::StringRef function);
/// What stands for a type that is no element type.
[[nodiscard]] const Word *findTypeName(llvm::StringRef word);
/// dtile's element type for one of another language; empty where there is none.
[[nodiscard]] llvm::StringRef elementType(llvm::StringRef word);
/// A library of another language.
[[nodiscard]] bool isModule(llvm::StringRef word);

} // namespace dtile::habits
