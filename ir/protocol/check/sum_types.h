// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which elements of a kernel are numbers of sums (ir/interpret/terms.h) while promises are checked.
#pragma once

#include "ir/core/ir.h"

namespace dtile::protocol {

/// Makes f64 of all floating-point elements: a narrower one could not hold the number of a sum.
void widenFloats(ir::TypeContext &types, ir::Op &kernel);

/// Makes f64 of all integers of one type, where these are only moved, added and multiplied. Sums
/// of products that are equal are so modulo any power of two, so that wrapping changes nothing.
/// False, with nothing changed, where they do more, or positions follow from them.
bool widenIntegers(ir::TypeContext &types, ir::Op &kernel, DType dtype);

} // namespace dtile::protocol
