// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of Protocol Buffers as bytes: fields one after the other, each a key and a value
// (protobuf.dev/programming-guides/encoding). Enough for Chakra's schema.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace dtile::driver {

class WireMessage {
public:
  /// Fields of type uint64, uint32, bool, enum.
  WireMessage &number(uint32_t field, uint64_t value) {
    varint(uint64_t(field) << 3);
    varint(value);
    return *this;
  }
  /// Fields of type string, bytes, and messages.
  WireMessage &bytes(uint32_t field, llvm::StringRef value) {
    varint(uint64_t(field) << 3 | 2);
    varint(value.size());
    bytes_.append(value.begin(), value.end());
    return *this;
  }
  /// A repeated field of numbers, packed.
  template <typename Numbers> WireMessage &packed(uint32_t field, const Numbers &values) {
    WireMessage inner;
    for (const uint64_t value : values)
      inner.varint(value);
    return inner.bytes_.empty() ? *this : bytes(field, inner.bytes_);
  }
  [[nodiscard]] llvm::StringRef text() const { return bytes_; }
  /// Appends it to a file of messages, each after its length.
  void appendTo(std::string &file) const {
    WireMessage length;
    length.varint(bytes_.size());
    file += length.bytes_;
    file += bytes_;
  }

private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      bytes_.push_back(char(value | 0x80));
    bytes_.push_back(char(value));
  }

  std::string bytes_;
};

} // namespace dtile::driver
