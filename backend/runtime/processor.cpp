// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/processor.h"

#include <cstring>
#include <iterator>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dtile::runtime {

namespace {

/// Registers that a system saves for its processes, or does not: bits of XCR0.
enum ProcessorState : uint32_t { None = 0, Avx = 0x6, Avx512 = 0xe6, Apx = 1u << 19 };

struct FeatureRow {
  const char *name;
  uint32_t leaf, subleaf;
  char reg;
  uint32_t bit;
  ProcessorState state;
};

constexpr FeatureRow kFeatures[] = {
#define FEATURE(NAME, LEAF, SUBLEAF, REGISTER, BIT, STATE)                                         \
  {NAME, LEAF, SUBLEAF, REGISTER, BIT, STATE},
#include "backend/runtime/processor_features.def"
};
static_assert(std::size(kFeatures) <= 64);

#if defined(__x86_64__)

uint32_t savedState() {
  constexpr uint32_t kOsxsave = 1u << 27;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & kOsxsave) == 0)
    return 0;
  uint32_t low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

uint64_t askProcessor() {
  const uint32_t saved = savedState();
  uint64_t found = 0;
  for (size_t i = 0; i < std::size(kFeatures); ++i) {
    const FeatureRow &row = kFeatures[i];
    uint32_t a = 0, b = 0, c = 0, d = 0;
    // Subleaf 0 of leaf 7 says how many there are; the processor gives zeros of others.
    if (!__get_cpuid_count(row.leaf, row.subleaf, &a, &b, &c, &d))
      continue;
    const uint32_t word = row.reg == 'a' ? a : row.reg == 'b' ? b : row.reg == 'c' ? c : d;
    if ((word >> row.bit & 1) != 0 && (saved & row.state) == row.state)
      found |= uint64_t(1) << i;
  }
  return found;
}

/// Its brand string (Intel's manual, volume 2, CPUID leaves 80000002h to 80000004h).
std::string askName() {
  uint32_t words[12] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t *at = words + size_t(4) * i;
    if (!__get_cpuid(0x80000002u + i, at, at + 1, at + 2, at + 3))
      return {};
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words, sizeof words);
  std::string name;
  for (const char *c = text; *c != 0; ++c)
    if (*c > ' ' && *c <= '~')
      name += *c;
    else if (!name.empty() && name.back() != ' ')
      name += ' ';
  while (!name.empty() && name.back() == ' ')
    name.pop_back();
  return name;
}

#else

uint64_t askProcessor() { return 0; }
std::string askName() { return {}; }

#endif

} // namespace

uint64_t processorFeatures() {
  static const uint64_t kFound = askProcessor();
  return kFound;
}

const std::string &processorName() {
  static const std::string kName = [] {
    std::string name = askName();
    return name.empty() ? std::string("processor") : name;
  }();
  return kName;
}

Status checkProcessor(const dtile_kernel_desc &kernel, uint64_t features) {
  const uint64_t missing = kernel.processor_features & ~features;
  if (missing == 0)
    return {};
  std::string names;
  for (size_t i = 0; i < std::size(kFeatures); ++i)
    if ((missing >> i & 1) != 0)
      names += (names.empty() ? "" : ", ") + std::string(kFeatures[i].name);
  return {DTILE_UNAVAILABLE,
          format("kernel `%s` was compiled for a processor with %s, which this one does not have: "
                 "compile it with --cpu for a processor that has no more than this one (`native` "
                 "on this machine)",
                 kernel.name, names.empty() ? "later instructions" : names.c_str())};
}

} // namespace dtile::runtime
