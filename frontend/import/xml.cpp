// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads XML with Expat, which says at which byte each element begins. Documents that declare a
// type, and with it entities, are refused: no algorithm needs one.
#include "frontend/import/xml.h"

#include <expat.h>

namespace dtile::imported {

namespace {

constexpr size_t kMaxDepth = 16;

struct Builder {
  Reader &reader;
  XML_Parser parser;
  XmlElement root;
  /// The path from the root to the element that is open.
  std::vector<XmlElement *> open;
  bool hasRoot = false;
  /// Why reading was stopped by us; else Expat says why.
  const char *refusal = nullptr;

  void stop(const char *reason) {
    refusal = reason;
    XML_StopParser(parser, XML_FALSE);
  }

  [[nodiscard]] SourceRange place() const {
    const auto begin = size_t(XML_GetCurrentByteIndex(parser));
    return reader.range(begin, begin + size_t(XML_GetCurrentByteCount(parser)));
  }
};

void XMLCALL startElement(void *data, const XML_Char *name, const XML_Char **attributes) {
  Builder &b = *static_cast<Builder *>(data);
  if (b.open.size() == kMaxDepth)
    return b.stop("elements are nested too deeply");
  XmlElement *element = &b.root;
  if (!b.open.empty())
    element = &b.open.back()->children.emplace_back();
  b.hasRoot = true;
  element->name = name;
  element->place = b.place();
  for (; *attributes; attributes += 2)
    element->attributes.emplace_back(attributes[0], attributes[1]);
  b.open.push_back(element);
}

void XMLCALL endElement(void *data, const XML_Char * /*name*/) {
  // Children are added to the last open element only, so pointers to the others stay valid.
  static_cast<Builder *>(data)->open.pop_back();
}

void XMLCALL startDoctype(void *data, const XML_Char * /*name*/, const XML_Char * /*sysid*/,
                          const XML_Char * /*pubid*/, int /*hasSubset*/) {
  static_cast<Builder *>(data)->stop("a document type is declared, and none is read");
}

} // namespace

const std::string *XmlElement::attribute(llvm::StringRef wanted) const {
  for (const auto &[key, value] : attributes)
    if (key == wanted)
      return &value;
  return nullptr;
}

std::optional<XmlElement> readXml(Reader &reader) {
  const llvm::StringRef text = reader.sources.text(reader.file);
  XML_Parser parser = XML_ParserCreate(nullptr);
  if (!parser) {
    reader.diags.report(reader.range(0, 0), diag::import_malformed, "XML", "there is no memory");
    return std::nullopt;
  }
  Builder builder{.reader = reader, .parser = parser, .root = {}, .open = {}};
  XML_SetUserData(parser, &builder);
  XML_SetElementHandler(parser, startElement, endElement);
  XML_SetStartDoctypeDeclHandler(parser, startDoctype);
  const bool isRead =
      XML_Parse(parser, text.data(), int(text.size()), /*isFinal=*/1) == XML_STATUS_OK;
  if (!isRead) {
    // Of an empty text, there is no byte to point at.
    const auto at = size_t(std::max<XML_Index>(0, XML_GetCurrentByteIndex(parser)));
    const size_t begin = std::min(at, text.size());
    reader.diags.report(reader.range(begin, begin), diag::import_malformed, "XML",
                        builder.refusal ? builder.refusal
                                        : XML_ErrorString(XML_GetErrorCode(parser)));
  }
  XML_ParserFree(parser);
  if (!isRead || !builder.hasRoot)
    return std::nullopt;
  return std::move(builder.root);
}

} // namespace dtile::imported
