// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a tuning file says of one kernel on one target, held against the kernel as it is now.
#pragma once

#include "backend/driver/tune/tuning_file.h"
#include "backend/launch/descriptor.h"
#include "backend/runtime/tuned_rows.h"

#include <string>
#include <utility>
#include <vector>

namespace dtile::driver {

struct KernelTuning {
  struct Row {
    TunedChoice choice;
    std::string machine;
    /// The name for several kernels that was measured, of which this is one; null for itself.
    const ast::KernelDecl *family = nullptr;
    /// Position in `configurations`.
    size_t configuration = 0;
    /// What the arguments have at `places`.
    std::vector<int64_t> sizes;
  };
  /// Each once.
  std::vector<Constants> configurations;
  /// Where arguments have the kernel's sizes: parameter and dimension.
  std::vector<std::pair<int32_t, int32_t>> places;
  std::vector<Row> rows;
};

/// Whether messages say what of a tuning file is not used.
enum class StaleChoices : uint8_t { Silent, Reported };

/// The choices that fit the kernel: of its entry by these pins, of its hash, with its sizes and
/// constants, and where the target is this machine of its processor. GPUs are compared by the
/// runtime. Those that were measured for a name that it is an alternative of are among them.
[[nodiscard]] KernelTuning tuningFor(Session &session, sema::Program &program,
                                     const ast::KernelDecl &kernel, const sema::GenericArgs &pins,
                                     const TargetArch &target, const TuningFile &file,
                                     StaleChoices stale);

/// Keeps the tuning's configurations among the variants. Rows whose configuration cannot be had go.
void keepTuned(Session &session, const TargetArch &target, Choosing &choosing, KernelTuning &tuning,
               StaleChoices stale);

/// Of the kernel as it is written, the values of its pins, and all values that its choices may
/// have. The instance is that by what the text suggests.
[[nodiscard]] std::string tuningHash(Session &session, sema::Program &program,
                                     const sema::KernelInstance &usual,
                                     const ChoiceValues &choices);

/// The same of a name for several kernels: of all that it may be.
[[nodiscard]] std::string familyHash(Session &session, sema::Program &program,
                                     llvm::ArrayRef<const ast::KernelDecl *> alternatives);

/// What launches by a name for several kernels take, of the tunings of its alternatives in order:
/// the configuration of a row is the number of the alternative, and places are of the first.
[[nodiscard]] KernelTuning familyTuning(const ast::KernelDecl &family,
                                        const sema::KernelInstance &first,
                                        llvm::ArrayRef<const KernelTuning *> alternatives);

/// Names of the sizes that arguments determine, in order; each with the dimension of an argument
/// that tells it.
struct SizePlace {
  std::string name;
  unsigned symbol = 0;
  unsigned param = 0;
  unsigned dim = 0;
};
[[nodiscard]] std::vector<SizePlace> sizePlaces(const sema::KernelInstance &instance);

/// The sizes of all parameters where the kernel's sizes have these values (in the order of
/// sizePlaces); an error says which do not follow.
[[nodiscard]] llvm::Expected<std::vector<std::vector<int64_t>>>
argumentSizes(const sema::KernelInstance &instance, llvm::ArrayRef<int64_t> sizes, int64_t ranks);

/// The row that a launch of these sizes takes, if any. `counts`: one word a place, whether its size
/// does.
[[nodiscard]] const KernelTuning::Row *rowFor(const KernelTuning &tuning,
                                              const sema::KernelInstance &instance,
                                              llvm::ArrayRef<int64_t> sizes, int64_t ranks,
                                              const std::vector<bool> &counts);

/// The places whose sizes are the same on all ranks, in the IR of one of some kernels with one
/// signature; by the names of parameters.
[[nodiscard]] std::vector<bool> agreedPlaces(const KernelTuning &tuning,
                                             const sema::KernelInstance &instance,
                                             llvm::ArrayRef<ir::Op *> kernels);

} // namespace dtile::driver
