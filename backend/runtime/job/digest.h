// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SHA-256 (FIPS 180-4) and HMAC (RFC 2104), by which the processes of a job prove that they know
// its key.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dtile::runtime {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view bytes);
Digest hmac(std::string_view key, std::string_view message);
/// In a time that does not depend on where they differ.
bool isSame(const Digest &a, const Digest &b);

} // namespace dtile::runtime
