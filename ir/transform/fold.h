// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of constant scalars, computed as the executors compute them. Private to ir/transform.
#pragma once

#include "ir/core/ir.h"

#include <optional>

namespace dtile::passes {

/// The attribute `value` of a const, in the form that the type asks for: bool, int64_t or double.
using Constant = ir::Attr;

/// A constant with the bits that the element type keeps: integers wrapped, floats rounded.
[[nodiscard]] Constant normalized(DType type, const Constant &value);
/// A small integer as a constant of any element type.
[[nodiscard]] Constant constantOf(DType type, int64_t value);
/// Whether a constant is that small integer; -0.0 is not 0.
[[nodiscard]] bool isConstant(const Constant &constant, int64_t value);

/// Elementwise ops on constants; nothing where the executors may differ in the last bit.
[[nodiscard]] std::optional<Constant> foldUnary(ir::OpKind kind, DType type, const Constant &a);
[[nodiscard]] std::optional<Constant> foldBinary(ir::OpKind kind, DType type, const Constant &a,
                                                 const Constant &b);
[[nodiscard]] std::optional<bool> foldCompare(llvm::StringRef predicate, DType type,
                                              const Constant &a, const Constant &b);
[[nodiscard]] std::optional<Constant> foldCast(DType from, DType to, const Constant &value);

/// The same bits; nothing of a NaN, of which bits may be lost.
[[nodiscard]] std::optional<Constant> foldBitcast(DType from, DType to, const Constant &value);

/// Whether a op b is b op a.
[[nodiscard]] bool isCommutative(ir::OpKind kind);

/// Whether every value of `from` is a value of `to`, so that a cast back gives it again.
[[nodiscard]] bool isLossless(DType from, DType to);

} // namespace dtile::passes
