// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sema/declarations/test_signatures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace dtile::sema {

bool TestForm::fits(unsigned count, llvm::ArrayRef<llvm::StringRef> given) const {
  return count >= least && (isOpen || count == least) &&
         llvm::all_of(given, [&](llvm::StringRef one) { return llvm::is_contained(labels, one); });
}

llvm::StringRef testSignature(llvm::StringRef name) {
  return llvm::StringSwitch<llvm::StringRef>(name)
#define TEST_BUILTIN(ID, NAME, SIGNATURE, DOC) .Case(NAME, SIGNATURE)
#include "sema/declarations/test_builtins.def"
      .Default("");
}

namespace {

/// The parts of a text between commas that no parentheses enclose.
llvm::SmallVector<llvm::StringRef, 4> parts(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 4> result;
  unsigned depth = 0;
  size_t from = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '[')
      ++depth;
    else if (text[i] == ')' || text[i] == ']')
      --depth;
    else if (text[i] == ',' && depth == 0)
      result.push_back(text.slice(std::exchange(from, i + 1), i).trim());
  }
  result.push_back(text.substr(from).trim());
  return result;
}

} // namespace

llvm::SmallVector<TestForm, 2> testForms(llvm::StringRef signature) {
  llvm::SmallVector<TestForm, 2> result;
  for (llvm::StringRef text : parts(signature)) {
    TestForm &form = result.emplace_back();
    const size_t open = text.find('(');
    const llvm::StringRef inside = text.split(" ->").first.substr(open).drop_back();
    if (open == llvm::StringRef::npos || inside.size() < 2)
      continue;
    for (llvm::StringRef arg : parts(inside.drop_front())) {
      const auto [label, value] = arg.split(": ");
      if (!value.empty())
        form.labels.push_back(label);
      else if (arg.ends_with("…"))
        form.isOpen = true;
      else
        ++form.least;
    }
  }
  return result;
}

} // namespace dtile::sema
