// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements and attributes of an XML document, with their places. Text between elements is left out.
#pragma once

#include "frontend/import/reader.h"

#include <string>
#include <utility>
#include <vector>

namespace dtile::imported {

struct XmlElement {
  std::string name;
  /// Of the start tag.
  SourceRange place;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  /// Null where there is no such attribute.
  [[nodiscard]] const std::string *attribute(llvm::StringRef name) const;
};

/// The root of a document, or nothing after reporting why it is none.
[[nodiscard]] std::optional<XmlElement> readXml(Reader &reader);

} // namespace dtile::imported
