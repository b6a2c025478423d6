// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/arguments/scratch_lookup.h"

#include <algorithm>
#include <cstring>

namespace dtile::runtime {

std::vector<const dtile_kernel_desc *> kernelsOf(const dtile_kernel_desc &desc) {
  if (desc.nalternatives == 0)
    return {&desc};
  return {desc.alternatives, desc.alternatives + desc.nalternatives};
}

int32_t findScratch(const dtile_kernel_desc &kernel, const char *name) {
  for (int32_t i = 0; i < kernel.nparams; ++i)
    if (isScratch(kernel.params[i]) && std::strcmp(kernel.params[i].name, name) == 0)
      return i;
  return -1;
}

Status noScratch(const dtile_kernel_desc &desc, const char *name, int32_t rank) {
  std::vector<std::string> names;
  for (const dtile_kernel_desc *kernel : kernelsOf(desc))
    for (int32_t i = 0; i < kernel->nparams; ++i) {
      const dtile_param_desc &param = kernel->params[i];
      if (!isScratch(param))
        continue;
      if (std::strcmp(param.name, name) == 0)
        return {DTILE_INVALID, format("kernel `%s`, rank %d: no launch has left anything in `%s` "
                                      "since the team was made, had a failure or was trimmed: "
                                      "launch it first",
                                      desc.name, rank, name)};
      const std::string quoted = format("`%s`", param.name);
      if (std::find(names.begin(), names.end(), quoted) == names.end())
        names.push_back(quoted);
    }
  std::string known;
  for (const std::string &each : names)
    known += (known.empty() ? "" : ", ") + each;
  return {DTILE_INVALID, format("kernel `%s` has no scratch object `%s`; it has %s", desc.name,
                                name, known.empty() ? "none" : known.c_str())};
}

dtile_tensor scratchTensor(const ObjectKey &key, int32_t dtype, void *copy) {
  dtile_tensor tensor = {};
  tensor.data = copy;
  tensor.dtype = dtype;
  tensor.ndim = key.ndim;
  int64_t stride = 1;
  for (int32_t d = key.ndim - 1; d >= 0; --d) {
    tensor.size[d] = key.size[size_t(d)];
    tensor.stride[d] = stride;
    stride *= tensor.size[d];
  }
  return tensor;
}

} // namespace dtile::runtime
