// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/host: the LLVM module being made, with the helpers that bodies share.
#pragma once

#include "backend/launch/descriptor.h"

namespace dtile::backend::host {

using launch::Frame;
using launch::FrameFunction;
using launch::objectName;
using launch::Runtime;
using launch::VectorUnit;

/// The module and what all of its functions use.
class HostModule : public launch::LaunchModule {
public:
  using LaunchModule::LaunchModule;

  /// Bodies tell the runtime what they do (backend/runtime/trace/trace_abi.h).
  bool isTraced = false;

  /// 64 zero bytes: what is read where nothing exists.
  [[nodiscard]] llvm::Constant *zeros();
  /// void (temp, source, bytes of a row, stride, low, high): copies the existing part [low, high)
  /// of a row of elements of `bytes` bytes to `temp`, whose rest becomes 0. Strides in elements.
  [[nodiscard]] llvm::Function *fillRow(unsigned bytes);
  /// void (destination, temp, stride, low, high): the reverse, for what exists.
  [[nodiscard]] llvm::Function *spillRow(unsigned bytes);

private:
  llvm::DenseMap<unsigned, llvm::Function *> fillRows_;
  llvm::DenseMap<unsigned, llvm::Function *> spillRows_;
  llvm::GlobalVariable *zeros_ = nullptr;
};

/// Emits all functions of a kernel.
[[nodiscard]] std::unique_ptr<launch::HostCode> lowerKernel(HostModule &module, ir::Op &kernel);

/// What lowerBody makes.
struct LoweredBody {
  llvm::Function *function;
  int64_t workspaceBytes;
};
/// Emits the body function of a space.
[[nodiscard]] LoweredBody lowerBody(HostModule &module, const Frame &frame, ir::Op &space,
                                    llvm::StringRef name);

} // namespace dtile::backend::host
