// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the driver knows of a target: its name, and how to ask it for files.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <string>

namespace dtile::backend {

/// What can be written.
enum class EmitKind : uint8_t { Obj, Asm, LlvmIr, Bitcode };

/// What every target takes.
struct TargetOptions {
  /// A processor's name, `native` for this machine's; empty for the target's default.
  std::string cpu;
  /// 0 to 3.
  unsigned optLevel = 2;
  /// Line tables.
  bool debugInfo = true;
};

/// A kind of machine that code is generated for. Targets have no state.
class Target {
public:
  Target(llvm::StringLiteral name, llvm::StringLiteral summary) : name_(name), summary_(summary) {}
  virtual ~Target() = default;
  [[nodiscard]] llvm::StringRef name() const { return name_; }
  [[nodiscard]] llvm::StringRef summary() const { return summary_; }

  /// Writes a verified, call-free module. Changes nothing but the stream.
  virtual llvm::Error emit(ir::Module &module, const TargetOptions &options, EmitKind kind,
                           llvm::raw_pwrite_stream &os) const = 0;

private:
  llvm::StringLiteral name_;
  llvm::StringLiteral summary_;
};

/// The target of a name, or null.
[[nodiscard]] const Target *findTarget(llvm::StringRef name);
/// In the order of targets.def.
[[nodiscard]] llvm::ArrayRef<const Target *> allTargets();

} // namespace dtile::backend
