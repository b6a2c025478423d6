// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any bytes are an array or an error; an array is written and read back as the same.
#include "backend/ndarray/npy.h"

#include "frontend/base/check.h"

#include <cstring>

using namespace dtile;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  for (const std::optional<DType> expected :
       {std::optional<DType>(), std::optional(DType::BF16), std::optional(DType::F8E4M3)}) {
    llvm::Expected<ndarray::NDArray> array = ndarray::parseNpy(bytes, expected);
    if (!array) {
      llvm::consumeError(array.takeError());
      continue;
    }
    DTILE_CHECK(array->bytes() <= size, "an array is larger than its file");
    llvm::Expected<ndarray::NDArray> again =
        ndarray::parseNpy(ndarray::formatNpy(*array), array->dtype());
    DTILE_CHECK(bool(again), "what was written cannot be read");
    DTILE_CHECK(
        again->shape() == array->shape() && again->bytes() == array->bytes() &&
            (array->bytes() == 0 || std::memcmp(again->data(), array->data(), array->bytes()) == 0),
        "what was written reads back as something else");
  }
  return 0;
}
