// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands in for targets of LLVM that lld would make known; see CMakeLists.txt.
#define UNUSED(NAME)                                                                               \
  extern "C" void NAME();                                                                          \
  extern "C" void NAME() {}
#include "backend/amdgpu/unused_targets.def"
