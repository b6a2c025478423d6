// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LZ4 by hash chains: of what begins with the same four bytes, the longest match among the nearest.
#include "backend/launch/pack_image.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace dtile::backend::launch {

namespace {

constexpr size_t kLeastMatch = 4;
constexpr size_t kFarthest = 65535;
/// The format ends with literals, five at least, and no match begins in the last twelve bytes.
constexpr size_t kLastLiterals = 5;
constexpr size_t kLastMatch = 12;
constexpr unsigned kHashBits = 16;
/// Of a chain, how many are compared: four times as many make 1% less of PTX.
constexpr unsigned kMostCompared = 64;
constexpr uint32_t kNone = ~0u;

struct Match {
  size_t from = 0, length = 0;
};

class Packer {
public:
  explicit Packer(llvm::StringRef bytes)
      : bytes_(bytes), head_(size_t(1) << kHashBits, kNone), before_(bytes.size(), kNone) {}

  std::string run() {
    size_t literals = 0, at = 0;
    const size_t end = bytes_.size() < kLastMatch + 1 ? 0 : bytes_.size() - kLastMatch;
    while (at < end) {
      Match match = longest(at);
      add(at);
      if (match.length < kLeastMatch) {
        ++at;
        continue;
      }
      // One literal more is worth it where the next match is longer.
      while (at + 1 < end) {
        const Match next = longest(at + 1);
        if (next.length <= match.length + 1)
          break;
        add(++at);
        match = next;
      }
      write(literals, at, match);
      for (size_t i = at + 1; i < std::min(at + match.length, end); ++i)
        add(i);
      at += match.length;
      literals = at;
    }
    write(literals, bytes_.size(), {});
    return std::move(made_);
  }

private:
  [[nodiscard]] size_t hash(size_t at) const {
    uint32_t word = 0;
    std::memcpy(&word, bytes_.data() + at, sizeof word);
    return (word * 2654435761u) >> (32 - kHashBits);
  }

  void add(size_t at) {
    uint32_t &head = head_[hash(at)];
    before_[at] = head;
    head = uint32_t(at);
  }

  [[nodiscard]] Match longest(size_t at) const {
    const size_t most = bytes_.size() - kLastLiterals - at;
    Match best;
    uint32_t from = head_[hash(at)];
    for (unsigned i = 0; i < kMostCompared && from != kNone && at - from <= kFarthest; ++i) {
      const char *a = bytes_.data() + from, *b = bytes_.data() + at;
      if (best.length < most && a[best.length] == b[best.length]) {
        const auto length = size_t(std::mismatch(b, b + most, a).first - b);
        if (length > best.length)
          best = {from, length};
      }
      from = before_[from];
    }
    return best;
  }

  /// What of a length does not fit into its four bits.
  void writeRest(size_t rest) {
    for (; rest >= 255; rest -= 255)
      made_ += char(255);
    made_ += char(rest);
  }

  /// Literals up to `at`, and a match there; none at the end.
  void write(size_t literals, size_t at, Match match) {
    const size_t count = at - literals;
    const size_t length = match.length == 0 ? 0 : match.length - kLeastMatch;
    made_ += char(std::min<size_t>(count, 15) << 4 | std::min<size_t>(length, 15));
    if (count >= 15)
      writeRest(count - 15);
    made_ += bytes_.slice(literals, at);
    if (match.length == 0)
      return;
    const size_t distance = at - match.from;
    made_ += char(distance & 255);
    made_ += char(distance >> 8);
    if (length >= 15)
      writeRest(length - 15);
  }

  llvm::StringRef bytes_;
  std::string made_;
  /// Where bytes of a hash were seen last, and before that.
  std::vector<uint32_t> head_, before_;
};

} // namespace

std::string packImage(llvm::StringRef bytes) { return Packer(bytes).run(); }

} // namespace dtile::backend::launch
