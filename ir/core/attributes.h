// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The keys of attributes (attributes.def) as C++: a key carries the type of its values, so a name
// that is misspelled or of another type does not compile.
//
//   loop.set(attr::stages, 4);
//   if (load.get(attr::via) == LoadPath::Tma) …
#pragma once

#include "frontend/base/dtype.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dtile::ir {

/// An attribute's value. Lists hold integers or strings; an empty list is kept as one of integers,
/// and reads as either.
using Attr = std::variant<bool, int64_t, double, std::string, DType, std::vector<int64_t>,
                          std::vector<std::string>>;

enum class ParamMode : uint8_t {
#define VALUE(ENUMERATION, ENUMERATOR, TEXT) DTILE_##ENUMERATION(ENUMERATOR)
#define DTILE_ParamMode(ENUMERATOR) ENUMERATOR,
#define DTILE_LoadPath(ENUMERATOR)
#include "ir/core/attribute_enums.def"
#undef DTILE_ParamMode
#undef DTILE_LoadPath
};
enum class LoadPath : uint8_t {
#define VALUE(ENUMERATION, ENUMERATOR, TEXT) DTILE_##ENUMERATION(ENUMERATOR)
#define DTILE_ParamMode(ENUMERATOR)
#define DTILE_LoadPath(ENUMERATOR) ENUMERATOR,
#include "ir/core/attribute_enums.def"
#undef DTILE_ParamMode
#undef DTILE_LoadPath
};

/// The value that a string stands for in the text form, or nothing.
template <class Enum> [[nodiscard]] std::optional<Enum> enumFromText(llvm::StringRef text);
template <> [[nodiscard]] std::optional<ParamMode> enumFromText(llvm::StringRef text);
template <> [[nodiscard]] std::optional<LoadPath> enumFromText(llvm::StringRef text);
[[nodiscard]] llvm::StringRef enumText(ParamMode value);
[[nodiscard]] llvm::StringRef enumText(LoadPath value);

/// A key; T is the type of its values.
template <class T> struct AttrKey {
  llvm::StringLiteral name;
};

namespace attr {
using Scalar = Attr;
using Bool = bool;
using Int = int64_t;
using Str = std::string;
using Ints = std::vector<int64_t>;
using Strs = std::vector<std::string>;
#define KEY(NAME, TYPE) inline constexpr AttrKey<TYPE> NAME{#NAME};
#include "ir/core/attributes.def"
} // namespace attr

/// A value as attributes hold it.
template <class T> [[nodiscard]] Attr attrValue(T value) {
  if constexpr (std::is_enum_v<T>)
    return enumText(value).str();
  else
    return Attr(std::move(value));
}

} // namespace dtile::ir
