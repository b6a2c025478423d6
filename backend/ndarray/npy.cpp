// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes .npy: magic, version, header length, a Python dict, the elements.
#include "backend/ndarray/npy.h"

#include "frontend/base/check.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

namespace dtile::ndarray {

namespace {

constexpr llvm::StringLiteral kMagic("\x93NUMPY");
/// NumPy's own limit, and far beyond what a kernel takes.
constexpr size_t kMaxRank = 32;

llvm::Error wrong(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// What the dict says.
struct Header {
  std::string descr;
  bool isFortran = false;
  Shape shape;
};

/// Parses the dict literal that NumPy writes: string keys; strings, True and False, tuples of
/// integers.
class HeaderParser {
public:
  explicit HeaderParser(llvm::StringRef text) : rest_(text) {}

  llvm::Expected<Header> run() {
    if (!take('{'))
      return malformed();
    while (!take('}')) {
      std::string key;
      if (!string(key) || !take(':') || !entry(key))
        return malformed();
      if (!take(',') && !peek('}'))
        return malformed();
    }
    skipSpace();
    if (!rest_.empty() || !hasDescr_ || !hasOrder_ || !hasShape_)
      return malformed();
    return std::move(header_);
  }

private:
  llvm::Error malformed() {
    if (isStructured_)
      return wrong("has elements of several fields; save one field, as in np.save(f, a['x'])");
    return wrong("has a damaged header: save it again with np.save");
  }

  void skipSpace() { rest_ = rest_.ltrim(" \t\n\r"); }
  bool peek(char c) {
    skipSpace();
    return rest_.starts_with(llvm::StringRef(&c, 1));
  }
  bool take(char c) {
    if (!peek(c))
      return false;
    rest_ = rest_.drop_front();
    return true;
  }
  bool word(llvm::StringRef text) {
    skipSpace();
    return rest_.consume_front(text);
  }

  bool string(std::string &out) {
    skipSpace();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"'))
      return false;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == llvm::StringRef::npos)
      return false;
    out = rest_.slice(1, end).str();
    rest_ = rest_.drop_front(end + 1);
    return out.find('\\') == std::string::npos;
  }

  bool entry(llvm::StringRef key) {
    if (key == "descr") {
      isStructured_ = peek('[');
      return !std::exchange(hasDescr_, true) && string(header_.descr);
    }
    if (key == "fortran_order") {
      header_.isFortran = word("True");
      return !std::exchange(hasOrder_, true) && (header_.isFortran || word("False"));
    }
    return key == "shape" && !std::exchange(hasShape_, true) && tuple(header_.shape);
  }

  bool tuple(Shape &shape) {
    if (!take('('))
      return false;
    while (!take(')')) {
      int64_t size = 0;
      skipSpace();
      // Unsigned, so that "-1" is refused here.
      uint64_t value = 0;
      if (rest_.consumeInteger(10, value) || value > INT64_MAX)
        return false;
      // Python 2 wrote long integers as 3L.
      rest_.consume_front("L");
      size = static_cast<int64_t>(value);
      shape.push_back(size);
      if (shape.size() > kMaxRank || (!take(',') && !peek(')')))
        return false;
    }
    return true;
  }

  llvm::StringRef rest_;
  Header header_;
  bool hasDescr_ = false;
  bool hasOrder_ = false;
  bool hasShape_ = false;
  bool isStructured_ = false;
};

struct DescrRow {
  DType dtype;
  llvm::StringLiteral text;
};
/// Spellings that are written; multi-byte types are little-endian.
constexpr DescrRow kDescrs[] = {
    {DType::Bool, "|b1"}, {DType::I8, "|i1"},     {DType::I16, "<i2"},    {DType::I32, "<i4"},
    {DType::I64, "<i8"},  {DType::U8, "|u1"},     {DType::U16, "<u2"},    {DType::U32, "<u4"},
    {DType::U64, "<u8"},  {DType::F16, "<f2"},    {DType::F32, "<f4"},    {DType::F64, "<f8"},
    {DType::BF16, "<V2"}, {DType::F8E4M3, "|V1"}, {DType::F8E5M2, "|V1"},
};

llvm::StringRef descrOf(DType dtype) {
  for (const DescrRow &row : kDescrs)
    if (row.dtype == dtype)
      return row.text;
  DTILE_UNREACHABLE("an element type without a spelling");
}

/// NumPy's name, for advice.
std::string numpyName(DType dtype) {
  const std::string bits = std::to_string(dtypeBits(dtype));
  switch (dtypeClass(dtype)) {
  case DTypeClass::Bool:
    return "bool";
  case DTypeClass::Int:
    return "int" + bits;
  case DTypeClass::UInt:
    return "uint" + bits;
  case DTypeClass::Float:
    return "float" + bits;
  }
  DTILE_UNREACHABLE("not a class of types");
}

bool isRawFloat(DType dtype) {
  return dtype == DType::BF16 || dtype == DType::F8E4M3 || dtype == DType::F8E5M2;
}

/// The element type that a description means to a caller who expects `expected`.
llvm::Expected<DType> dtypeOf(llvm::StringRef descr, std::optional<DType> expected) {
  const llvm::StringRef kind = descr.drop_front(descr.empty() ? 0 : 1);
  if (descr.starts_with(">") && kind != "b1" && kind != "i1" && kind != "u1" && kind != "V1")
    return wrong("is big-endian (" + descr + "): convert with a.astype(a.dtype.newbyteorder('<'))");
  const bool isRaw = kind == "V1" || kind == "V2";
  if (expected && isRawFloat(*expected)) {
    const unsigned bytes = dtypeBytes(*expected);
    if (kind == (bytes == 1 ? "V1" : "V2") || kind == (bytes == 1 ? "u1" : "u2"))
      return *expected;
    return wrong("has elements " + descr + " where " + dtypeName(*expected) +
                 " is expected: save its bits as uint" + llvm::Twine(8 * bytes) +
                 ", or as ml_dtypes does");
  }
  if (isRaw)
    return wrong("has raw elements " + descr +
                 ", which say no type: they are read only where bf16 or f8 is expected");
  for (const DescrRow &row : kDescrs) {
    if (row.text.drop_front(1) != kind)
      continue;
    if (!expected || *expected == row.dtype)
      return row.dtype;
    return wrong("has " + dtypeName(row.dtype) + " elements where " + dtypeName(*expected) +
                 " is expected: convert with a.astype(np." + numpyName(*expected) + ")");
  }
  return wrong("has elements " + (descr.empty() ? "of no type" : "'" + descr + "'") +
               ", which no tensor can have");
}

/// Takes the dict off the front of a file.
llvm::Expected<llvm::StringRef> headerText(llvm::StringRef &bytes) {
  if (!bytes.consume_front(kMagic))
    return wrong("is not an .npy file: it does not start as np.save writes");
  if (bytes.size() < 2)
    return wrong("is cut short");
  const unsigned major = static_cast<uint8_t>(bytes[0]);
  if (major < 1 || major > 3)
    return wrong("has format version " + llvm::Twine(major) + "; versions 1 to 3 are known");
  const size_t lengthBytes = major == 1 ? 2 : 4;
  if (bytes.size() < 2 + lengthBytes)
    return wrong("is cut short");
  const char *at = bytes.data() + 2;
  const size_t length =
      major == 1 ? llvm::support::endian::read16le(at) : llvm::support::endian::read32le(at);
  bytes = bytes.drop_front(2 + lengthBytes);
  if (bytes.size() < length)
    return wrong("is cut short");
  const llvm::StringRef text = bytes.take_front(length);
  bytes = bytes.drop_front(length);
  return text;
}

} // namespace

llvm::Expected<NDArray> parseNpy(llvm::StringRef bytes, std::optional<DType> expected) {
  llvm::Expected<llvm::StringRef> text = headerText(bytes);
  if (!text)
    return text.takeError();
  llvm::Expected<Header> header = HeaderParser(*text).run();
  if (!header)
    return header.takeError();
  llvm::Expected<DType> dtype = dtypeOf(header->descr, expected);
  if (!dtype)
    return dtype.takeError();
  const std::optional<int64_t> count = elementCount(header->shape);
  if (!count)
    return wrong("claims an impossible shape " + shapeText(header->shape));
  const auto size = static_cast<uint64_t>(*count) * dtypeBytes(*dtype);
  if (bytes.size() != size)
    return wrong("has " + llvm::Twine(bytes.size()) + " bytes of elements where its shape " +
                 shapeText(header->shape) + " needs " + llvm::Twine(size) +
                 (bytes.size() < size ? ": it is cut short" : ": something follows the array"));
  Shape shape = header->shape;
  // Fortran order is C order of the reversed shape.
  if (header->isFortran)
    shape.assign(header->shape.rbegin(), header->shape.rend());
  if (llvm::Error error = checkRoom(*dtype, shape))
    return wrong("cannot be read: " + llvm::toString(std::move(error)));
  NDArray array(*dtype, std::move(shape));
  if (size != 0)
    std::memcpy(array.data(), bytes.data(), size);
  if (*dtype == DType::Bool)
    for (uint64_t i = 0; i < size; ++i)
      static_cast<uint8_t *>(array.data())[i] = bytes[i] != 0;
  if (header->isFortran)
    return transpose(array);
  return array;
}

llvm::Expected<NDArray> readNpy(llvm::StringRef path, std::optional<DType> expected) {
  const auto named = [&](const llvm::Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), "'" + path + "' " + message);
  };
  if (llvm::sys::fs::is_directory(path))
    return named("is a directory; an .npy file is wanted");
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return named("cannot be read: " + buffer.getError().message());
  llvm::Expected<NDArray> array = parseNpy((*buffer)->getBuffer(), expected);
  if (!array)
    return named(llvm::toString(array.takeError()));
  return array;
}

std::string formatNpy(const NDArray &array) {
  std::string dict =
      "{'descr': '" + descrOf(array.dtype()).str() + "', 'fortran_order': False, 'shape': (";
  for (unsigned d = 0; d < array.rank(); ++d)
    dict += (d ? " " : "") + std::to_string(array.shape()[d]) + ",";
  // (3,) but (3, 4).
  if (array.rank() > 1)
    dict.pop_back();
  dict += "), }";
  // As NumPy does: room for the first size to grow to 21 digits, then spaces up to a multiple of 64
  // bytes, and a newline.
  if (array.rank() != 0)
    dict.append(21 - std::to_string(array.shape()[0]).size(), ' ');
  const bool isShort = dict.size() < 60000;
  const size_t before = kMagic.size() + 2 + (isShort ? 2 : 4);
  while ((before + dict.size() + 1) % 64 != 0)
    dict += ' ';
  dict += '\n';
  std::string bytes = kMagic.str();
  bytes += isShort ? '\1' : '\2';
  bytes += '\0';
  for (unsigned i = 0; i < (isShort ? 2 : 4); ++i)
    bytes += static_cast<char>(dict.size() >> 8 * i);
  bytes += dict;
  bytes.append(static_cast<const char *>(array.data()), array.bytes());
  return bytes;
}

llvm::Error writeNpy(llvm::StringRef path, const NDArray &array) {
  llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
    os << formatNpy(array);
    return llvm::Error::success();
  });
  if (!error)
    return llvm::Error::success();
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "'" + path +
                                     "' cannot be written: " + llvm::toString(std::move(error)));
}

} // namespace dtile::ndarray
