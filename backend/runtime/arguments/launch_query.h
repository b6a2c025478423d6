// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What dtile_kernel_supports and dtile_kernel_sizes ask of a prologue: it runs without side effects
// on sizes alone, so what is true of a launch is not written down a second time.
#pragma once

#include "backend/runtime/dtile.h"
#include "backend/runtime/errors.h"
#include "backend/runtime/host/kernel_state.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace dtile::runtime {

/// That a call passes as many arguments as the kernel takes.
Status checkCount(const KernelState &kernel, const void *arguments, int32_t nargs);

class LaunchQuery {
public:
  /// `anywhere`: an address in the rank's heap, which stands for all memory and is not read.
  /// `room`: bytes that a launch's objects may take there.
  LaunchQuery(const KernelState &kernel, void *anywhere, int64_t room)
      : kernel_(kernel), anywhere_(anywhere), room_(room) {}

  /// Takes the arguments of a launch, of which all tensors are there.
  Status take(const dtile_arg *arguments) { return take(arguments, 0); }
  /// The sizes of argument number `argument`. Tensors may be null; `runPrologue` gives a Status.
  template <typename RunPrologue>
  Status findSizes(const dtile_arg *arguments, int32_t argument, RunPrologue runPrologue,
                   int64_t *size);
  /// Arguments for the prologue; the same addresses until `take` is called again.
  [[nodiscard]] const dtile_arg *arguments() const { return arguments_.data(); }

  /// Sizes are to be found out, and nothing is refused.
  [[nodiscard]] bool isOpen() const { return firstUnknown_ != 0; }
  /// A dimension of a parameter is `declared`, and was passed as `passed`.
  void compare(int32_t param, int32_t dim, int64_t declared, int64_t passed);

  /// Counts an object of the launch. An error: its sizes are impossible, or there is no room.
  Status addObject(int32_t rank, int32_t param, int32_t ndim, const int64_t *size);
  [[nodiscard]] void *anywhere() const { return anywhere_; }

private:
  using Sizes = std::array<int64_t, DTILE_MAX_RANK>;
  /// Where the numbers of sizes that are not known begin. Products of two do not overflow.
  static constexpr int64_t kFirstUnknown[2] = {(int64_t(1) << 30) + 1, (int64_t(1) << 30) + 8193};

  /// `firstUnknown` is 0 where no tensor may be null.
  Status take(const dtile_arg *arguments, int64_t firstUnknown);
  [[nodiscard]] int64_t unknownOf(int32_t argument, int32_t dim) const;
  [[nodiscard]] const char *nameOf(int32_t argument) const;
  void learn(int32_t argument, int32_t dim, int64_t size);
  /// Both ways gave the same, or an error names what nothing says.
  Status compareFound(int32_t argument, const Sizes (&found)[2]) const;
  [[nodiscard]] Status checkTensor(int32_t param, const dtile_tensor &tensor) const;

  const KernelState &kernel_;
  void *anywhere_;
  int64_t room_;
  int64_t firstUnknown_ = 0;
  bool hasLearnt_ = false;
  std::vector<dtile_arg> arguments_;
  std::vector<dtile_tensor> tensors_;
  std::vector<bool> isLacking_;
};

template <typename RunPrologue>
Status LaunchQuery::findSizes(const dtile_arg *arguments, int32_t argument, RunPrologue runPrologue,
                              int64_t *size) {
  Sizes found[2] = {};
  for (int way = 0; way < 2; ++way) {
    if (Status status = take(arguments, kFirstUnknown[way]); !status.ok())
      return status;
    // What is found may say more, at most once a dimension.
    int32_t rounds = kernel_.argumentCount * DTILE_MAX_RANK + 1;
    for (hasLearnt_ = true; hasLearnt_ && rounds > 0; --rounds) {
      hasLearnt_ = false;
      if (Status status = runPrologue(); !status.ok())
        return status;
    }
    const dtile_tensor &tensor = tensors_[size_t(argument)];
    std::copy(tensor.size, tensor.size + DTILE_MAX_RANK, found[way].begin());
  }
  if (Status status = compareFound(argument, found); !status.ok())
    return status;
  std::copy_n(found[0].begin(), tensors_[size_t(argument)].ndim, size);
  return {};
}

} // namespace dtile::runtime
