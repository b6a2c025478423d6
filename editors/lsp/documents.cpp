// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Edits of open documents.
#include "editors/lsp/documents.h"

#include "editors/lsp/line_table.h"

namespace dtile::lsp {

size_t applyChanges(std::string &text,
                    const std::vector<llvm::lsp::TextDocumentContentChangeEvent> &changes) {
  size_t last = 0;
  for (const llvm::lsp::TextDocumentContentChangeEvent &change : changes) {
    if (!change.range) {
      text = change.text;
      last = 0;
      continue;
    }
    const LineTable lines(text);
    const size_t begin = lines.offset(change.range->start);
    const size_t end = std::max(begin, lines.offset(change.range->end));
    text.replace(begin, end - begin, change.text);
    last = begin + change.text.size();
  }
  return last;
}

} // namespace dtile::lsp
