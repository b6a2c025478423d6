// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels with their variants as one module: those that the model keeps, and those that a tuning
// file names.
#pragma once

#include "backend/driver/choose/choose.h"
#include "backend/driver/tune/tuned_choices.h"

#include <memory>
#include <string>
#include <vector>

namespace dtile::driver {

/// What launches of one entry take by measurement, for its descriptor.
struct TunedEntry {
  std::string entry;
  std::vector<std::pair<int32_t, int32_t>> places;
  std::vector<backend::launch::TunedRow> rows;
};

/// What lowerVariants makes besides code.
struct VariantsInfo {
  /// The kernels that communicate, before any pass.
  std::unique_ptr<ir::Module> written;
  std::vector<TunedEntry> tuned;
};

/// The kernels with all variants for a target, optimized; no module after reporting. `tuning` may
/// be null. Info is made where it is asked for.
[[nodiscard]] LoweredModule lowerVariants(Session &session, sema::Program &program,
                                          llvm::ArrayRef<const ast::KernelDecl *> kernels,
                                          const TargetArch &target, const TuningFile *tuning,
                                          VariantsInfo *info = nullptr);

} // namespace dtile::driver
