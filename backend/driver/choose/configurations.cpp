// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Candidates, samples and the greedy cover.
#include "backend/driver/choose/configurations.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtile::driver {

namespace {

constexpr uint64_t kSeed = 0x64746c65;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): the
/// same numbers on every machine.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t bound) { return next() % bound; }
  /// In [low, high), log-uniform.
  int64_t logarithmic(double low, double high) {
    const double unit = double(next() >> 11) * 0x1p-53;
    return int64_t(low * std::pow(high / low, unit));
  }

private:
  uint64_t state_;
};

} // namespace

std::vector<std::vector<int64_t>> valuesOf(llvm::ArrayRef<sema::Choice> choices) {
  using Use = sema::Choice::Use;
  const auto blocks =
      llvm::count_if(choices, [](const sema::Choice &c) { return c.use == Use::Block; });
  const bool hasLoop =
      llvm::any_of(choices, [](const sema::Choice &c) { return c.use == Use::Loop; });
  // The first values are usual ones: launches to compare by are those that end in time with them.
  const std::vector<int64_t> list = {64,    128,   256, 512, 1024, 2048, 4096, 8192, 16384,
                                     32768, 65536, 32,  16,  8,    4,    2,    1};
  std::vector<std::vector<int64_t>> values;
  for (const sema::Choice &choice : choices) {
    if (!choice.allowed.empty()) {
      values.push_back(choice.allowed);
      continue;
    }
    switch (choice.use) {
    case Use::Block:
      // What no loop sums over may be a list as well as a matrix.
      if (!hasLoop && choice.isAlone)
        values.push_back(list);
      // A row may be long, and rows few: then a block of several leaves processors idle.
      else if (!choice.multiplies && choice.isOuter)
        values.push_back({16, 32, 64, 128, 8, 4, 2, 1});
      else if (choice.isShared)
        values.push_back({16, 32, 64, 128, 192, 256, 512, 1024});
      // Rows of no power of two end in words that threads share with others, and go one by one
      // where they begin anywhere; only instructions of products have such columns.
      else if (!choice.multiplies)
        values.push_back({16, 32, 64, 128, 256, 512, 1024});
      else
        values.push_back({16, 32, 64, 96, 128, 160, 192, 256});
      break;
    case Use::Loop:
      if (blocks > 0 && choice.multiplies)
        values.push_back({32, 64, 128});
      else if (blocks > 0)
        values.push_back({32, 64, 128, 256, 512, 1024, 2048, 4096, 8192});
      else
        values.push_back(list);
      break;
    case Use::Ranks:
      values.push_back({1, 2, 4, 8});
      break;
    case Use::Programs:
      values.push_back({1, 2, 4, 8, 16, 32, 64});
      break;
    // These are named.
    case Use::Order:
    case Use::Other:
      values.push_back({1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024});
      break;
    }
  }
  return values;
}

std::vector<std::vector<int64_t>> finerValuesOf(llvm::ArrayRef<sema::Choice> choices,
                                                llvm::ArrayRef<std::vector<int64_t>> values) {
  constexpr int64_t kStep = 16, kMost = 256;
  std::vector<std::vector<int64_t>> finer(values.begin(), values.end());
  for (auto [choice, list] : llvm::zip_equal(choices, finer)) {
    if (choice.use != sema::Choice::Use::Block || !choice.multiplies || choice.isShared ||
        !choice.allowed.empty() ||
        llvm::any_of(list, [&](int64_t v) { return v % kStep != 0 || v > kMost; }))
      continue;
    list.clear();
    for (int64_t value = kStep; value <= kMost; value += kStep)
      list.push_back(value);
  }
  return finer;
}

std::vector<Constants> combinations(llvm::ArrayRef<sema::Choice> choices,
                                    llvm::ArrayRef<std::vector<int64_t>> values, size_t most) {
  size_t all = 1;
  for (const std::vector<int64_t> &list : values)
    all = std::min(all * list.size(), size_t(1) << 30);
  Random random(kSeed);
  std::vector<Constants> found;
  for (size_t i = 0; i < std::min(all, most); ++i) {
    size_t number = all <= most ? i : random.below(all);
    Constants constants;
    for (auto [choice, list] : llvm::zip_equal(choices, values)) {
      constants.emplace_back(choice.name, list[number % list.size()]);
      number /= list.size();
    }
    if (!llvm::is_contained(found, constants))
      found.push_back(std::move(constants));
  }
  return found;
}

std::vector<SampleSizes> sampleSizes(llvm::ArrayRef<SizeUse> uses, bool hasRanks, size_t count,
                                     llvm::ArrayRef<KnownSizes> known) {
  Random random(kSeed);
  // Rows that are not multiples of a word take many times as long to copy; those of models are.
  constexpr int64_t kWord = 16;
  const auto drawFrom = [&](const SizeRange &range) {
    return range.nearest(random.logarithmic(double(range.least), double(range.most) + 1));
  };
  const auto draw = [&](SizeUse use) -> int64_t {
    switch (use) {
    case SizeUse::List:
      return random.logarithmic(1, 1 << 28);
    case SizeUse::Rows:
      return random.logarithmic(1, 16384);
    case SizeUse::Count:
      return random.logarithmic(1, random.below(8) == 0 ? 512 : 64);
    case SizeUse::Length:
      return random.below(8) == 0 ? random.logarithmic(1, 128) : random.logarithmic(128, 131072);
    case SizeUse::Model:
      break;
    }
    const int64_t size =
        random.below(8) == 0 ? random.logarithmic(1, 256) : random.logarithmic(256, 24576);
    return random.below(32) > 0 ? (size + kWord - 1) / kWord * kWord : size;
  };
  const KnownSizes nothing;
  std::vector<SampleSizes> samples(count);
  for (size_t i = 0; i < count; ++i) {
    SampleSizes &sample = samples[i];
    const KnownSizes &of = known.empty() ? nothing : known[i % known.size()];
    sample.ranks = hasRanks ? int64_t(2) << random.below(3) : 1;
    if (hasRanks && of.ranks)
      sample.ranks = drawFrom(*of.ranks);
    for (const auto &[d, use] : llvm::enumerate(uses)) {
      const bool isKnown = d < of.sizes.size() && of.sizes[d];
      const int64_t size = isKnown ? drawFrom(*of.sizes[d]) : draw(use);
      sample.sizes.push_back(size);
      sample.odd.push_back(isKnown || size < kWord ? size : size | 1);
    }
  }
  return samples;
}

double lossOf(llvm::ArrayRef<std::vector<double>> rows, llvm::ArrayRef<size_t> kept,
              llvm::ArrayRef<std::vector<double>> all) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const size_t samples = all.empty() ? 0 : all.front().size();
  double loss = 0;
  for (size_t s = 0; s < samples; ++s) {
    double best = kNone, now = kNone;
    for (const std::vector<double> &row : all)
      best = std::min(best, row[s]);
    for (const size_t c : kept)
      now = std::min(now, rows[c][s]);
    if (best < kNone)
      loss += std::log(std::min(now / best, 100.0));
  }
  return loss;
}

std::vector<size_t> cover(llvm::ArrayRef<std::vector<double>> times, size_t most,
                          double leastGain) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<size_t> kept;
  if (times.empty())
    return kept;
  const size_t samples = times.front().size();
  std::vector<double> best(samples, kNone), now(samples, kNone);
  for (const std::vector<double> &row : times)
    for (size_t s = 0; s < samples; ++s)
      best[s] = std::min(best[s], row[s]);
  // A sample that nothing kept can run counts as a hundred times too slow.
  const auto lossWith = [&](size_t c) {
    double loss = 0;
    for (size_t s = 0; s < samples; ++s)
      if (best[s] < kNone)
        loss += std::log(std::min(std::min(now[s], times[c][s]) / best[s], 100.0));
    return loss / double(samples);
  };
  double before = kNone;
  while (kept.size() < most) {
    size_t chosen = 0;
    double least = kNone;
    for (size_t c = 0; c < times.size(); ++c)
      if (const double loss = lossWith(c); loss < least) {
        chosen = c;
        least = loss;
      }
    if (!kept.empty() && before - least < leastGain)
      break;
    before = least;
    kept.push_back(chosen);
    for (size_t s = 0; s < samples; ++s)
      now[s] = std::min(now[s], times[chosen][s]);
  }
  return kept;
}

} // namespace dtile::driver
