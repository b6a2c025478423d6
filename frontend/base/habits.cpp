// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// habits.def as tables. They are looked up once a mistake, so lists serve.
#include "frontend/base/habits.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringSwitch.h"

namespace dtile::habits {

namespace {

constexpr FormInfo kForms[] = {
#define FORM(ID, SHOWN, ADVICE) {SHOWN, ADVICE},
#include "frontend/base/habits.def"
};

constexpr Word kNames[] = {
#define NAME(WORD, ADVICE, REPLACEMENT) {WORD, ADVICE, REPLACEMENT},
#include "frontend/base/habits.def"
};

constexpr Word kTests[] = {
#define TEST(WORD, ADVICE, REPLACEMENT) {WORD, ADVICE, REPLACEMENT},
#include "frontend/base/habits.def"
};

constexpr Word kTestMembers[] = {
#define TEST_MEMBER(WORD, ADVICE) {WORD, ADVICE, ""},
#include "frontend/base/habits.def"
};

constexpr Word kMembers[] = {
#define MEMBER(WORD, ADVICE) {WORD, ADVICE, ""},
#include "frontend/base/habits.def"
};

constexpr Word kTypeNames[] = {
#define TYPE_NAME(WORD, ADVICE) {WORD, ADVICE, ""},
#include "frontend/base/habits.def"
};

constexpr Word kStarters[] = {
#define STARTER(WORD, ADVICE) {WORD, ADVICE, ""},
#include "frontend/base/habits.def"
};

constexpr Word kCalled[] = {
#define CALLED(FUNCTION, ADVICE) {FUNCTION, ADVICE, ""},
#include "frontend/base/habits.def"
};

/// Names of a library that are too many for rows.
struct Family {
  llvm::StringLiteral prefix;
  llvm::StringLiteral part;
  Word word;
};

constexpr Family kFamilies[] = {
#define FAMILY(PREFIX, PART, ADVICE) {PREFIX, PART, {PREFIX, ADVICE, ""}},
#include "frontend/base/habits.def"
};

const Word *rowOf(llvm::ArrayRef<Word> rows, llvm::StringRef word) {
  for (const Word &row : rows)
    if (row.word == word)
      return &row;
  return nullptr;
}

} // namespace

const FormInfo &info(Form form) { return kForms[size_t(form)]; }

const Word *findName(llvm::StringRef word) {
  if (const Word *row = rowOf(kNames, word))
    return row;
  for (const Family &family : kFamilies)
    if (word.starts_with(family.prefix) && word.contains(family.part))
      return &family.word;
  return nullptr;
}
const Word *findInTests(llvm::StringRef word) {
  const Word *row = rowOf(kTests, word);
  return row ? row : findName(word);
}
const Word *findMemberInTests(llvm::StringRef word) {
  const Word *row = rowOf(kTestMembers, word);
  return row ? row : findMember(word);
}
const Word *findMember(llvm::StringRef word) { return rowOf(kMembers, word); }
const Word *findTypeName(llvm::StringRef word) { return rowOf(kTypeNames, word); }
const Word *findStarter(llvm::StringRef word) { return rowOf(kStarters, word); }
const Word *findCalled(llvm::StringRef function) { return rowOf(kCalled, function); }

llvm::StringRef elementType(llvm::StringRef word) {
  return llvm::StringSwitch<llvm::StringRef>(word)
#define TYPE(WORD, DTYPE) .Case(WORD, DTYPE)
#include "frontend/base/habits.def"
      .Default("");
}

bool isModule(llvm::StringRef word) {
  return llvm::StringSwitch<bool>(word)
#define MODULE(WORD) .Case(WORD, true)
#include "frontend/base/habits.def"
      .Default(false);
}

} // namespace dtile::habits
