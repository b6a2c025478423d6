// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Renames files in what is written, and only there: messages and depfiles speak of files that are.
#include "backend/driver/output/recorded_names.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::driver {

std::string recordedName(llvm::StringRef name, llvm::ArrayRef<NamedText> prefixes) {
  for (const auto &[from, to] : llvm::reverse(prefixes))
    if (name.starts_with(from))
      return to + name.drop_front(from.size()).str();
  return name.str();
}

void addRecorded(SourceManager &recorded, const SourceManager &loaded, size_t count,
                 llvm::ArrayRef<NamedText> prefixes) {
  for (size_t i = 0; i < count; ++i) {
    const FileId file{uint32_t(i)};
    const FileId copy =
        recorded.add(recordedName(loaded.name(file), prefixes), loaded.text(file).str());
    DTILE_CHECK(recorded.start(copy) == loaded.start(file), "a file was left out");
  }
}

} // namespace dtile::driver
