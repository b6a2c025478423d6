// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What bodies of one emulated rank print, as the runtime writes it.
#pragma once

#include "backend/gpu/gpu_module.h"
#include "backend/runtime/device/print/print_ring.h"
#include "backend/runtime/text/print_text.h"

#include <string>
#include <vector>

namespace dtile::backend::gpu::testing {

class EmulatedPrints {
public:
  EmulatedPrints() = default;
  EmulatedPrints(const EmulatedPrints &) = delete;

  [[nodiscard]] dtile_device_prints *memory() {
    return reinterpret_cast<dtile_device_prints *>(words_.data());
  }

  /// All of it, and how much there was no room for.
  std::string take(int32_t rank, ir::Op &kernel, llvm::ArrayRef<GpuModule::Site> sites) {
    std::vector<ir::Op *> spaces;
    for (ir::Op &op : kernel.body().ops())
      if (op.is(ir::OpKind::Space))
        spaces.push_back(&op);
    std::string text;
    ring_.read(/*areOver=*/true, [&](const dtile_device_print &print) {
      const ir::Op &space = *spaces.at(size_t(print.space));
      const runtime::BodyPlace place{rank, kernel.get(ir::attr::name).str(),
                                     space.get(ir::attr::name).str(), space.get(ir::attr::vars),
                                     runtime::positionOf(print)};
      text +=
          place.text() + ": " + sites[size_t(print.site)].what + runtime::valueText(print) + "\n";
    });
    if (const runtime::LostPrints lost = ring_.takeLost(); lost.records != 0)
      text += "lost " + std::to_string(lost.records) + "\n";
    return text;
  }

private:
  static constexpr int64_t kRoom = 1 << 16;
  std::vector<uint64_t> words_ =
      std::vector<uint64_t>(size_t(runtime::PrintRing::sizeFor(kRoom)) / 8);
  runtime::PrintRing ring_{words_.data(), kRoom};
};

} // namespace dtile::backend::gpu::testing
