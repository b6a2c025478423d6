// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the watch of a job does to the control block of a team of devices: an abort of one host is
// one of all, and each host gets the others' reports.
#pragma once

#include "backend/runtime/device_abi.h"
#include "backend/runtime/job/watch.h"

#include <cstdint>
#include <string>

namespace dtile::runtime {

class ControlListener final : public JobListener {
public:
  /// `control`: the abort word; `reports`: one a rank, `stride` bytes apart.
  ControlListener(void *control, char *reports, int64_t stride, int32_t ranks)
      : control_(static_cast<uint32_t *>(control)), reports_(reports), stride_(stride),
        ranks_(ranks) {}

  bool isAborted() override;
  void abort() override;
  std::string reports() override;
  void takeReports(const std::string &bytes) override;

private:
  [[nodiscard]] dtile_device_report *reportOf(int32_t rank) const {
    return reinterpret_cast<dtile_device_report *>(reports_ + stride_ * rank);
  }

  uint32_t *control_;
  char *reports_;
  int64_t stride_;
  int32_t ranks_;
};

} // namespace dtile::runtime
