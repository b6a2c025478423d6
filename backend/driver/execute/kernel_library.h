// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernel instances that are ready to be loaded.
#pragma once

#include "backend/driver/choose/choose.h"
#include "backend/driver/execute/executor.h"

#include <map>
#include <memory>
#include <optional>
#include <set>

namespace dtile::driver {

/// Optimized IR of kernel instances, made when first asked for and kept for all rank counts.
class KernelLibrary {
public:
  KernelLibrary(Session &session, sema::Program &program) : session_(session), program_(program) {}

  /// Nothing after reporting.
  std::optional<KernelCode> get(const sema::KernelInstance *instance);
  /// A call that a test makes itself, as Program::instantiateCall makes it a kernel; kept by the
  /// place of the call. Nothing after reporting, once for each.
  std::optional<KernelCode> getCall(const ast::CallExpr &place, const ast::FnDecl &fn,
                                    const sema::FunctionCall &call);
  /// Whether no call at this place was refused before: what is wrong with the kernel is told once.
  bool isFirstRefusal(const ast::CallExpr &place) { return refused_.insert(&place).second; }
  [[nodiscard]] sema::Program &program() const { return program_; }
  /// The alternative of a name for several kernels that `pinned` says, or, where that is empty,
  /// another one at each call; the kernel itself where it has code. Null: there is none.
  const ast::KernelDecl *alternativeOf(const ast::KernelDecl &kernel, llvm::StringRef pinned);
  /// Values for what a kernel leaves to the compiler, where the target has a model: those of one of
  /// its first variants that eight ranks of one GPU can run, of another one at each call.
  Constants chooseFor(const ast::KernelDecl &kernel, const sema::GenericArgs &pins);

private:
  Session &session_;
  sema::Program &program_;
  struct Entry {
    LoweredModule lowered;
    std::shared_ptr<HostCode> hostCode;
    std::shared_ptr<DeviceCode> deviceCode;
  };
  std::map<const sema::KernelInstance *, Entry> entries_;
  /// By place, compile-time parameters and arguments; null where something is wrong.
  std::map<std::tuple<const ast::CallExpr *, std::string, std::vector<sema::FunctionCall::Arg>>,
           const sema::KernelInstance *>
      calls_;
  std::set<const ast::CallExpr *> refused_;
  /// By kernel and pins.
  struct Turn {
    Choosing choosing;
    size_t next = 0;
  };
  std::map<std::pair<const ast::KernelDecl *, std::string>, Turn> turns_;
  /// Of names for several kernels.
  std::map<const ast::KernelDecl *, size_t> nextAlternative_;
};

} // namespace dtile::driver
