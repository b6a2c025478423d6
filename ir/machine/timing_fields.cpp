// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/machine/timing_fields.h"

#include "llvm/Support/FormatVariadic.h"

namespace dtile {
namespace {

constexpr TimingField kFields[] = {
#define TIMING(name, usual, unit, least, most, about)                                              \
  {#name, unit, least, most, about, &Timing::name},
#include "ir/machine/timing_fields.def"
};

} // namespace

llvm::ArrayRef<TimingField> timingFields() { return kFields; }

const TimingField *findTimingField(llvm::StringRef name) {
  for (const TimingField &field : kFields)
    if (field.name == name)
      return &field;
  return nullptr;
}

std::string differences(const Timing &timing, const Timing &from) {
  std::string text;
  for (const TimingField &field : kFields)
    if (timing.*field.number != from.*field.number)
      text +=
          llvm::formatv("{0}{1}={2:f6}", text.empty() ? "" : " ", field.name, timing.*field.number);
  return text;
}

} // namespace dtile
