// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A block of LZ4: literals and matches in turns. Written here, as the runtime needs no library.
#include "backend/runtime/device/packed_image.h"

#include <cstring>

namespace dtile::runtime {

namespace {

constexpr int64_t kLeastMatch = 4;

/// Four bits of a length, and where these are full the bytes that go on with it.
bool readLength(const unsigned char *&in, const unsigned char *end, int64_t &length) {
  if (length != 15)
    return true;
  unsigned char more = 255;
  while (more == 255) {
    if (in == end)
      return false;
    more = *in++;
    length += more;
  }
  return true;
}

} // namespace

bool unpackImage(const dtile_device_image &image, char *out) {
  const auto *in = static_cast<const unsigned char *>(image.data);
  const unsigned char *const end = in + image.packed_bytes;
  char *at = out;
  char *const last = out + image.bytes;
  while (in != end) {
    const unsigned token = *in++;
    int64_t literals = token >> 4;
    if (!readLength(in, end, literals) || literals > end - in || literals > last - at)
      return false;
    std::memcpy(at, in, size_t(literals));
    in += literals;
    at += literals;
    // The last literals have no match after them.
    if (in == end)
      break;
    if (end - in < 2)
      return false;
    const int64_t distance = in[0] | in[1] << 8;
    in += 2;
    int64_t length = token & 15;
    if (!readLength(in, end, length))
      return false;
    length += kLeastMatch;
    if (distance == 0 || distance > at - out || length > last - at)
      return false;
    // Both may overlap: a byte that was just written is read again.
    for (int64_t i = 0; i < length; ++i, ++at)
      *at = *(at - distance);
  }
  return at == last;
}

} // namespace dtile::runtime
