// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/text/print_text.h"

#include "backend/runtime/errors.h"
#include "backend/runtime/float_formats.h"
#include "backend/runtime/kernel_abi.h"
#include "frontend/base/value_text.h"

#include <cstring>

namespace dtile::runtime {

namespace {

template <typename T> T loaded(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

} // namespace

std::string elementText(int32_t dtype, const char *element) {
  switch (dtype) {
  case DTILE_BOOL:
    return *element ? "true" : "false";
  case DTILE_I8:
    return std::to_string(loaded<int8_t>(element));
  case DTILE_I16:
    return std::to_string(loaded<int16_t>(element));
  case DTILE_I32:
    return std::to_string(loaded<int32_t>(element));
  case DTILE_I64:
    return std::to_string(loaded<int64_t>(element));
  case DTILE_U8:
    return std::to_string(loaded<uint8_t>(element));
  case DTILE_U16:
    return std::to_string(loaded<uint16_t>(element));
  case DTILE_U32:
    return std::to_string(loaded<uint32_t>(element));
  case DTILE_U64:
    return std::to_string(loaded<uint64_t>(element));
  case DTILE_F8E4M3:
    return floatText(f8e4m3ToF32(loaded<uint8_t>(element)));
  case DTILE_F8E5M2:
    return floatText(f8e5m2ToF32(loaded<uint8_t>(element)));
  case DTILE_F16:
    return floatText(f16ToF32(loaded<uint16_t>(element)));
  case DTILE_BF16:
    return floatText(bf16ToF32(loaded<uint16_t>(element)));
  case DTILE_F32:
    return floatText(loaded<float>(element));
  default:
    return floatText(loaded<double>(element));
  }
}

std::string BodyPlace::text() const {
  std::string text = format("rank %d, kernel `%s`", rank, kernel.c_str());
  if (!role.empty())
    text += format(", role `%s`", role.c_str());
  for (size_t d = 0; d < position.size(); ++d) {
    text += d == 0 ? " (" : ", ";
    if (d < vars.size())
      text += vars[d] + " = ";
    text += std::to_string(position[d]);
  }
  return position.empty() ? text : text + ")";
}

} // namespace dtile::runtime
