// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels as `check` and the language server check them.
#pragma once

#include "backend/driver/compile.h"
#include "ir/core/ir.h"
#include "ir/protocol/check/check_protocol.h"
#include "sema/sema.h"

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dtile::driver {

/// A kernel to check, by the values that it has; which of them stand for what only a caller knows.
struct CheckedKernel {
  const sema::KernelInstance *instance = nullptr;
  sema::GenericArgs args;
  std::set<llvm::StringRef> standIns;
};

/// A kernel that needs values from its caller, with stand-ins for those that are not given: the
/// first that it takes. No instance where it takes none.
CheckedKernel instantiateAlone(sema::Program &program, const ast::KernelDecl &kernel,
                               const sema::GenericArgs &given, const SourceManager &sources);

/// Checks the kernel of a module that was lowered from `instance` alone, before any pass; passes
/// are run on it. What `checks` asks of schedules, promises and fix-its follows from these. Nothing
/// after reporting what passes refuse.
std::optional<protocol::Verdict> checkInstance(LoweredModule &lowered,
                                               const sema::KernelInstance &instance,
                                               const SourceManager &sources,
                                               const protocol::CheckOptions &checks,
                                               Diagnostics &diagnostics);

/// What is known of a kernel with other values of its choices than those of its first check.
struct OtherValues {
  /// Those values with which it is as good, after the first ones: "BM = 16, BN = 32".
  std::vector<std::string> alsoWith;
  /// The values with which it is not, and what was found then. The verdict's operations are the
  /// module's.
  const sema::KernelInstance *instance = nullptr;
  protocol::Verdict verdict;
  LoweredModule lowered;
};

enum class ValueOrder : uint8_t;

/// Checks a kernel that was not refused, with choices left to the compiler, again: by values that
/// differ from each other. Kernels of one program may be checked side by side; `programIsInUse` is
/// held where the program is asked.
class OtherValuesCheck {
public:
  OtherValuesCheck(sema::Program &program, const CheckedKernel &checked,
                   const SourceManager &sources, const protocol::CheckOptions &checks,
                   std::mutex &programIsInUse);
  ~OtherValuesCheck();
  OtherValuesCheck(const OtherValuesCheck &) = delete;
  OtherValuesCheck &operator=(const OtherValuesCheck &) = delete;

  /// What needs no verdict of the first check, which may still be under way; need not be called.
  void begin();
  /// `verdict` is the first check's. What is only found with other values is reported.
  OtherValues finish(const protocol::Verdict &verdict, Diagnostics &diagnostics);

private:
  struct Attempt;
  std::unique_ptr<Attempt> attempt(ValueOrder order);

  sema::Program &program_;
  const CheckedKernel &checked_;
  const SourceManager &sources_;
  const protocol::CheckOptions &checks_;
  std::mutex &programIsInUse_;
  std::vector<const sema::KernelInstance *> known_;
  std::unique_ptr<Attempt> first_;
};

/// The values of what a kernel leaves to the compiler: "BM = 16, BN = 32"; empty where that is
/// nothing.
[[nodiscard]] std::string choicesText(const sema::Program &program, const CheckedKernel &checked,
                                      const sema::KernelInstance &instance);

} // namespace dtile::driver
