// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions that programs may write for a kind of machine, in an `extern fn`.
#pragma once

#include "frontend/base/dtype.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace dtile {

/// A row of assembly.def each.
enum class Assembly : uint8_t {
#define ASSEMBLY(ID, NAME, DOC, W16, W32, W64, F32, F64, CLOBBERS, MEMORY, READS) ID,
#include "frontend/base/assembly.def"
};

/// As programs spell it.
[[nodiscard]] llvm::StringRef assemblyName(Assembly assembly);
[[nodiscard]] std::optional<Assembly> assemblyFromName(llvm::StringRef name);
[[nodiscard]] llvm::ArrayRef<Assembly> allAssemblies();
/// All names, in quotes of messages: `nvptx`, `amdgpu`.
[[nodiscard]] std::string assemblyNames();

/// Whether registers hold values of the type: integers and floats of 16 to 64 bits.
[[nodiscard]] bool hasRegisters(DType type);
/// LLVM's constraint for a register that holds a value of a type that has registers.
[[nodiscard]] llvm::StringRef registerConstraint(Assembly assembly, DType type);
/// What instructions may change beside their result, as LLVM's constraints.
[[nodiscard]] llvm::StringRef clobbers(Assembly assembly);

/// The first mnemonic of the text that touches memory or other threads; empty where none does.
[[nodiscard]] std::string memoryMnemonic(Assembly assembly, llvm::StringRef text);
/// The first register or mnemonic of the text that reads more than operands: a thread's number, a
/// clock, a register that the text does not declare. Empty where none does.
[[nodiscard]] std::string foreignRead(Assembly assembly, llvm::StringRef text);

/// Calls back for what stands between the holes of a text, and for the names in them: `{x}`. Any
/// other brace is text.
void eachPiece(llvm::StringRef text, llvm::function_ref<void(llvm::StringRef)> plain,
               llvm::function_ref<void(llvm::StringRef)> hole);

} // namespace dtile
