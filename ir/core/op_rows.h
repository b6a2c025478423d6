// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the rows of ops.def and attributes.def ask of an op. Private to ir/core: the parser and the
// verifier share it.
#pragma once

#include "ir/core/ir.h"

#include <string>

namespace dtile::ir {

enum class AttrKind : uint8_t { Scalar, Bool, Int, Str, Ints, Strs, ParamMode, LoadPath };
enum class AttrPresence : uint8_t { Required, Optional };

/// A row of attributes.def.
struct AttrRow {
  OpKind op;
  llvm::StringLiteral name;
  AttrKind kind;
  AttrPresence presence;
};
/// The rows of one op.
[[nodiscard]] llvm::ArrayRef<AttrRow> attrRows(OpKind kind);
/// "an integer", as messages say it.
[[nodiscard]] llvm::StringRef attrKindText(AttrKind kind);
[[nodiscard]] bool hasAttrKind(const Attr &attr, AttrKind kind);

/// What is wrong with the number or the classes of the operands, or nothing.
[[nodiscard]] std::string checkOperandClasses(const Op &op);
/// What is wrong with the number or the classes of the results, or nothing.
[[nodiscard]] std::string checkResultClasses(const Op &op);
/// What is wrong with the attributes that the rows name (missing, or of another kind), or nothing.
[[nodiscard]] std::string checkAttrKinds(const Op &op);
/// What is wrong with the op by itself beyond its rows: agreement of its types and values of its
/// attributes. The three checks above must have passed.
[[nodiscard]] std::string checkTypes(const Op &op);
/// The same of an `extern` or `asm`.
[[nodiscard]] std::string checkInstructions(const Op &op);
/// The same of a `launch_elements`.
[[nodiscard]] std::string checkLaunchElements(const Op &op);

} // namespace dtile::ir
