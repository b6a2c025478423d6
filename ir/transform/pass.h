// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a pass is given, and the passes that there are. A pass is one function; its file has no
// header.
#pragma once

#include "frontend/base/assembly.h"
#include "frontend/base/diagnostics.h"
#include "ir/core/ir.h"
#include "ir/machine/target_facts.h"
#include "ir/transform/drift_answer.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"

#include <optional>
#include <string>
#include <vector>

namespace dtile::passes {

/// What a pass is for; see passes.def.
enum class PassKind : uint8_t { Canonicalize, Simplify, Lower, Schedule, Check };

/// What a pass decided, and why, in source terms.
struct Remark {
  std::string pass;
  SourceLoc loc;
  std::string text;
};

/// Everything that a pass sees besides the module.
class PassContext {
public:
  explicit PassContext(Diagnostics &diagnostics) : diagnostics(diagnostics) {}

  /// For users' mistakes. Errors end the pipeline after the pass.
  Diagnostics &diagnostics;
  /// The machine that code is made for; null where passes are to be right for all.
  const TargetFacts *facts = nullptr;
  /// The instructions that code for it may be written in; nothing where passes are for all.
  std::optional<Assembly> assembly;
  /// Kernels run only where each rank addresses the memory of all others.
  bool areMapped = true;
  /// Parameters of passes, such as `W` for specialize.
  llvm::StringMap<int64_t> options;
  /// What bound-drift is to take for granted of the module's kernel. Code that is kept has to be
  /// made without it: what is taken for granted is not proved.
  const DriftAnswer *assumedDrift = nullptr;
  /// Where bound-drift finds what it has proved before; may be null.
  DriftMemory *driftMemory = nullptr;
  /// What bound-drift has found of the last kernel that it asked this of.
  std::optional<DriftAnswer> drift;
  /// What was decided so far.
  std::vector<Remark> remarks;
  /// What makes all code that is made of an op slow, and that its author could mend.
  std::vector<Remark> losses;
  /// The text name of the running pass.
  std::string running;

  void remark(const ir::Op &op, const llvm::Twine &text) {
    remarks.push_back({running, op.loc(), text.str()});
  }
  void lose(const ir::Op &op, const llvm::Twine &what) {
    losses.push_back({running, op.loc(), what.str()});
  }
  template <typename... Args> DiagBuilder report(const ir::Op &op, diag::Id id, Args &&...args) {
    return diagnostics.report(op.loc(), id, std::forward<Args>(args)...);
  }
  /// An option's value, or nothing when it was not given.
  [[nodiscard]] const int64_t *option(llvm::StringRef name) const {
    auto it = options.find(name);
    return it == options.end() ? nullptr : &it->second;
  }
};

/// Says whether it changed the module.
using PassFunction = bool (*)(ir::Module &, PassContext &);

#define PASS(FUNCTION, NAME, KIND, DOC) bool FUNCTION(ir::Module &module, PassContext &context);
#include "ir/transform/passes.def"

} // namespace dtile::passes
