// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels require of their launches, checked by prologues.
#include "backend/runtime/arguments/launch_query.h"
#include "backend/runtime/host/launch.h"

#include "frontend/base/element_clauses.h"

#include <cstdio>
#include <cstring>

using namespace dtile::runtime;

namespace {

std::string numberText(char kind, int64_t bits) {
  if (kind == 'u')
    return std::to_string(uint64_t(bits));
  if (kind == 'b')
    return bits != 0 ? "true" : "false";
  if (kind == 'i')
    return std::to_string(bits);
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

int32_t refuse(dtile_launch &launch, const std::string &why) {
  if (launch.error.ok())
    launch.error = {DTILE_INVALID, "kernel `" + std::string(launch.kernel->desc->name) +
                                       "`, rank " + std::to_string(launch.rank) + ": " + why};
  return 1;
}

} // namespace

int32_t dtile_rt_require(dtile_launch *launch, int32_t isTrue, const char *message,
                         const char *kinds, const int64_t *values) {
  if (isTrue != 0 || launch->unknownSize >= 0 || (launch->query && launch->query->isOpen()))
    return 0;
  std::string text = message;
  for (size_t i = 0; kinds[i] != 0; ++i) {
    const std::string hole = "{" + std::to_string(i) + "}";
    if (const size_t at = text.find(hole); at != std::string::npos)
      text.replace(at, hole.size(), numberText(kinds[i], values[i]));
  }
  return refuse(*launch, text);
}

int32_t dtile_rt_check_elements(dtile_launch *launch, int32_t param, int32_t kind,
                                int32_t predicate, const int64_t *position, int64_t bound,
                                const char *text) {
  if (launch->query)
    return 0;
  const dtile_tensor &tensor = *launch->arguments[launch->kernel->argumentOf[size_t(param)]].tensor;
  dtile::clauses::Elements elements;
  elements.data = tensor.data;
  elements.rank = tensor.ndim;
  elements.sizes = tensor.size;
  elements.strides = tensor.stride;
  switch (tensor.dtype) {
  case DTILE_I8:
  case DTILE_U8:
    elements.bytes = 1;
    break;
  case DTILE_I16:
  case DTILE_U16:
    elements.bytes = 2;
    break;
  case DTILE_I64:
    elements.bytes = 8;
    break;
  default:
    elements.bytes = 4;
    break;
  }
  elements.isSigned =
      tensor.dtype != DTILE_U8 && tensor.dtype != DTILE_U16 && tensor.dtype != DTILE_U32;
  const std::string why = dtile::clauses::violation(
      elements, dtile::clauses::Kind(kind), dtile::clauses::Predicate(predicate), bound, position,
      launch->kernel->desc->params[param].name);
  if (why.empty())
    return 0;
  return refuse(*launch, "`" + std::string(text) + "` is required, and " + why);
}
