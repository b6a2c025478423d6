// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: functions of the host that read a launch's frame alone.
#pragma once

#include "backend/launch/frame.h"

namespace dtile::backend::gpu {

class LaunchFunction : public launch::FrameFunction {
public:
  using FrameFunction::FrameFunction;

  /// Emits `i64 name(frame)`, which returns `value`, emitted at the builder.
  llvm::Function *lower(llvm::StringRef name, llvm::function_ref<llvm::Value *()> value) {
    llvm::Function *function = launch_.function(
        name, llvm::FunctionType::get(b.getInt64Ty(), {b.getPtrTy()}, /*isVarArg=*/false));
    begin(function, 0);
    b.CreateRet(value());
    end();
    return function;
  }

  /// i64: a word of the frame.
  [[nodiscard]] llvm::Value *word(int64_t offset) { return loadFrame(offset, b.getInt64Ty()); }
};

} // namespace dtile::backend::gpu
