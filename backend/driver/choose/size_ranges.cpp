// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads ranges of sizes.
#include "backend/driver/choose/size_ranges.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace dtile::driver {

namespace {

bool readNumber(llvm::StringRef text, int64_t &number) {
  return !text.getAsInteger(10, number) && number >= 1 && number <= kLargestSize;
}

} // namespace

int64_t SizeRange::nearest(int64_t size) const {
  return least + (std::clamp(size, least, most) - least) / step * step;
}

std::optional<std::vector<SizeRange>> readSizeRanges(const std::string &text, std::string &why) {
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  std::vector<SizeRange> ranges;
  for (llvm::StringRef part : parts) {
    const auto [left, right] = part.split('=');
    const llvm::StringRef name = left.trim(), values = right.trim();
    if (llvm::any_of(ranges, [&](const SizeRange &one) { return one.name == name; })) {
      why = "says twice what `" + name.str() + "` is";
      return std::nullopt;
    }
    const auto [bounds, step] = values.split(':');
    const auto [least, most] = bounds.split("..");
    SizeRange &read = ranges.emplace_back();
    read.name = name.str();
    if (!readNumber(least, read.least) ||
        !readNumber(bounds.contains("..") ? most : least, read.most) ||
        (values.contains(':') && !readNumber(step, read.step)) || read.most < read.least) {
      why = "wants a range for `" + name.str() + "`, as 1..4096 or 64..4096:64, not `" +
            values.str() + "`";
      return std::nullopt;
    }
  }
  return ranges;
}

std::optional<std::vector<SizeRange>> readSizeRanges(const std::vector<std::string> &names,
                                                     const std::string &text,
                                                     const SizeRange &usual, std::string &why) {
  const auto said = readSizeRanges(text, why);
  if (!said)
    return std::nullopt;
  std::vector<SizeRange> ranges;
  for (const std::string &name : names) {
    ranges.push_back(usual);
    ranges.back().name = name;
  }
  for (const SizeRange &one : *said) {
    const auto range =
        llvm::find_if(ranges, [&](const SizeRange &other) { return other.name == one.name; });
    if (range == ranges.end()) {
      why = "names `" + one.name + "`; the sizes of the arguments are " + llvm::join(names, ", ");
      return std::nullopt;
    }
    *range = one;
  }
  return ranges;
}

} // namespace dtile::driver
