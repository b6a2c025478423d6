// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// IR text of kernels, put together line by line.
#pragma once

#include "frontend/base/dtype.h"

#include <string>
#include <vector>

namespace dtile::backend::host::testing {

/// A kernel text put together from parameters and one body.
class KernelText {
public:
  /// `%name`, a tensor parameter with constant sizes.
  KernelText &param(const std::string &name, const std::string &mode, DType dtype,
                    std::vector<int64_t> sizes) {
    std::string operands;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const std::string size = name + "_" + std::to_string(d);
      head_ += "  %" + size + " = const {value = " + std::to_string(sizes[d]) + "} : index\n";
      operands += (d ? ", %" : " %") + size;
    }
    head_ += "  %" + name + " = param @" + name + operands +
             " {param = " + std::to_string(params_++) + ", mode = \"" + mode + "\"} : view<" +
             dtypeName(dtype).str() + ", " + std::to_string(sizes.size()) + ">\n";
    return *this;
  }
  KernelText &head(const std::string &line) {
    head_ += "  " + line + "\n";
    return *this;
  }
  KernelText &line(const std::string &line) {
    body_ += "    " + line + "\n";
    return *this;
  }
  /// One body.
  [[nodiscard]] std::string single() const {
    return "kernel @k {\n" + head_ + "  space @main {vars = []} {\n" + body_ +
           "    yield\n  }\n  return\n}\n";
  }
  /// Bodies over `dims`, operands as in `%a, %b, %c, …`.
  [[nodiscard]] std::string over(const std::string &operands, const std::string &vars,
                                 const std::string &arguments) const {
    return "kernel @k {\n" + head_ + "  space @main " + operands + " {vars = [" + vars + "]} (" +
           arguments + ") {\n" + body_ + "    yield\n  }\n  return\n}\n";
  }

private:
  std::string head_;
  std::string body_;
  int params_ = 0;
};

} // namespace dtile::backend::host::testing
