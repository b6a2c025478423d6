// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What outputs call the files that they were made from: `--file-prefix-map OLD=NEW`.
#pragma once

#include "backend/driver/options.h"
#include "frontend/base/source_manager.h"

#include "llvm/ADT/ArrayRef.h"

namespace dtile::driver {

/// A name that begins with OLD with NEW in its place; of several that fit, the last one given.
[[nodiscard]] std::string recordedName(llvm::StringRef name, llvm::ArrayRef<NamedText> prefixes);

/// Adds the first `count` files of `loaded` under the names that outputs give them. Positions are
/// the same in both, so a module may be given either.
void addRecorded(SourceManager &recorded, const SourceManager &loaded, size_t count,
                 llvm::ArrayRef<NamedText> prefixes);

} // namespace dtile::driver
