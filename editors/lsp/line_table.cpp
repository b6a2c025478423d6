// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes to UTF-16 positions and back. A character above U+FFFF, four bytes of UTF-8, is two units.
#include "editors/lsp/line_table.h"

#include <algorithm>

namespace dtile::lsp {

namespace {

// The UTF-16 units of the character that a byte of UTF-8 begins.
int unitsOf(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  if ((value & 0xC0) == 0x80)
    return 0;
  return value >= 0xF0 ? 2 : 1;
}

} // namespace

LineTable::LineTable(llvm::StringRef text) : text_(text), starts_{0} {
  // `\n`, `\r\n`, and `\r` alone end lines.
  for (size_t at = text.find_first_of("\r\n"); at != llvm::StringRef::npos;
       at = text.find_first_of("\r\n", at)) {
    at += text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n' ? 2 : 1;
    starts_.push_back(at);
  }
}

llvm::StringRef LineTable::line(size_t index) const {
  if (index >= starts_.size())
    return {};
  const size_t end = index + 1 < starts_.size() ? starts_[index + 1] : text_.size();
  return text_.slice(starts_[index], end).rtrim("\r\n");
}

llvm::lsp::Position LineTable::position(size_t offset) const {
  offset = std::min(offset, text_.size());
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  const size_t index = size_t(after - starts_.begin()) - 1;
  int units = 0;
  for (char byte : text_.slice(starts_[index], offset))
    units += unitsOf(byte);
  return {int(index), units};
}

size_t LineTable::offset(llvm::lsp::Position position) const {
  if (position.line < 0)
    return 0;
  if (size_t(position.line) >= starts_.size())
    return text_.size();
  const llvm::StringRef text = line(size_t(position.line));
  int left = position.character;
  size_t at = 0;
  while (at < text.size() && (unitsOf(text[at]) == 0 || left >= unitsOf(text[at]))) {
    left -= unitsOf(text[at]);
    ++at;
    // What continues a character belongs to it.
    while (at < text.size() && unitsOf(text[at]) == 0)
      ++at;
  }
  return starts_[size_t(position.line)] + at;
}

} // namespace dtile::lsp
