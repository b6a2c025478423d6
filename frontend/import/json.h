// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of a JSON document with their places, which nlohmann-json does not keep.
#pragma once

#include "frontend/import/reader.h"

#include <string>
#include <vector>

namespace dtile::imported {

struct JsonMember;

struct JsonValue {
  enum class Kind : uint8_t { Null, Bool, Integer, Number, String, Array, Object };

  Kind kind = Kind::Null;
  SourceRange place;
  /// Integers that do not fit are Numbers.
  int64_t integer = 0;
  bool truth = false;
  std::string text;
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;

  /// Null where this is no object, or has no such member.
  [[nodiscard]] const JsonValue *member(llvm::StringRef name) const;
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

/// The value of a document, or nothing after reporting why it is none.
[[nodiscard]] std::optional<JsonValue> readJson(Reader &reader);

} // namespace dtile::imported
