// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GNU make and ninja agree on few ways to write a name. What they do not agree on is refused: a
// name that one of them reads otherwise is a dependency that is lost.
#include "backend/driver/output/depfile.h"

#include "llvm/ADT/StringExtras.h"

namespace dtile::driver {

namespace {

/// Characters that separate names for one of them, or make the rule something else, and cannot be
/// escaped for both.
constexpr llvm::StringLiteral kRefused = "\"&'*;<=>?^`|";

/// What one of them reads as something else; empty: nothing.
llvm::StringRef problem(llvm::StringRef path) {
  for (size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      return "a control character";
    if (kRefused.contains(c))
      return path.substr(i, 1);
    // Before what is escaped, each has its own idea of how many there are to be.
    if (c == '\\' && (i + 1 == path.size() || llvm::StringRef(" #:%$\\").contains(path[i + 1])))
      return "`\\` in this place";
  }
  return path.ends_with(":") ? path.take_back() : "";
}

llvm::Error escape(llvm::StringRef path, bool isTarget, std::string &text) {
  if (const llvm::StringRef what = problem(path); !what.empty())
    return llvm::createStringError("a depfile cannot name `" + path +
                                   "`: " + (what.size() == 1 ? "`" + what + "`" : what) +
                                   " means something else to make or ninja");
  for (char c : path) {
    // In what is read `%` is plain, but before the colon it would make a rule for many files.
    if (c == ' ' || c == '#' || c == ':' || (c == '%' && isTarget))
      text += '\\';
    else if (c == '$')
      text += '$';
    text += c;
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::string> depfileText(llvm::ArrayRef<std::string> read, llvm::StringRef target) {
  std::string text;
  if (llvm::Error error = escape(target, /*isTarget=*/true, text))
    return error;
  text += ":";
  for (const std::string &file : read) {
    if (llvm::StringRef(file).starts_with("<"))
      continue;
    text += " \\\n  ";
    if (llvm::Error error = escape(file, /*isTarget=*/false, text))
      return error;
  }
  return text + "\n";
}

} // namespace dtile::driver
