// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of enumerations that attributes have as values.
#include "ir/core/attributes.h"

#include "frontend/base/check.h"

namespace dtile::ir {
namespace {

template <class Enum> struct Row {
  Enum value;
  llvm::StringLiteral text;
};

constexpr Row<ParamMode> kParamModes[] = {
#define VALUE(ENUMERATION, ENUMERATOR, TEXT) DTILE_##ENUMERATION(ENUMERATOR, TEXT)
#define DTILE_ParamMode(ENUMERATOR, TEXT) {ParamMode::ENUMERATOR, TEXT},
#define DTILE_LoadPath(ENUMERATOR, TEXT)
#include "ir/core/attribute_enums.def"
#undef DTILE_ParamMode
#undef DTILE_LoadPath
};

constexpr Row<LoadPath> kLoadPaths[] = {
#define VALUE(ENUMERATION, ENUMERATOR, TEXT) DTILE_##ENUMERATION(ENUMERATOR, TEXT)
#define DTILE_ParamMode(ENUMERATOR, TEXT)
#define DTILE_LoadPath(ENUMERATOR, TEXT) {LoadPath::ENUMERATOR, TEXT},
#include "ir/core/attribute_enums.def"
#undef DTILE_ParamMode
#undef DTILE_LoadPath
};

template <class Enum, size_t N>
std::optional<Enum> find(const Row<Enum> (&rows)[N], llvm::StringRef text) {
  for (const Row<Enum> &row : rows)
    if (row.text == text)
      return row.value;
  return std::nullopt;
}

template <class Enum, size_t N> llvm::StringRef textOf(const Row<Enum> (&rows)[N], Enum value) {
  for (const Row<Enum> &row : rows)
    if (row.value == value)
      return row.text;
  DTILE_UNREACHABLE("an enumerator without a row in attribute_enums.def");
}

} // namespace

template <> std::optional<ParamMode> enumFromText(llvm::StringRef text) {
  return find(kParamModes, text);
}
template <> std::optional<LoadPath> enumFromText(llvm::StringRef text) {
  return find(kLoadPaths, text);
}
llvm::StringRef enumText(ParamMode value) { return textOf(kParamModes, value); }
llvm::StringRef enumText(LoadPath value) { return textOf(kLoadPaths, value); }

} // namespace dtile::ir
