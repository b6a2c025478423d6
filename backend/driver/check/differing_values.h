// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values for the constants that kernels leave to the compiler by which a check tells them apart.
#pragma once

#include "backend/driver/choose/choose.h"

namespace dtile::driver {

/// Which of two choices, as they stand in the text, has the larger value.
enum class ValueOrder : uint8_t { Ascending, Descending };

/// Values that a launch may have, each of another choice another where lists allow it, those that
/// are wanted most first. Descending ones also avoid that one divides another. Of each order of
/// values there are few, so that what a kernel asserts of its constants is met by some.
[[nodiscard]] std::vector<Constants> differingValues(const ChoiceValues &choices, ValueOrder order);

} // namespace dtile::driver
