// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the driver knows of a target: its name, and how to ask it for files.
#pragma once

#include "frontend/base/assembly.h"
#include "ir/core/ir.h"
#include "ir/machine/target_facts.h"
#include "ir/model/program_shares.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace dtile::backend {

namespace launch {
class Package;
}

/// What can be written.
enum class EmitKind : uint8_t {
  Obj,
  Asm,
  LlvmIr,
  Bitcode,
  // Images of devices.
  Ptx,
  Cubin,
  Hsaco,
  /// What the device's assembler says of each kernel: registers, spills, shared memory.
  Stats,
};

/// What every target takes.
struct TargetOptions {
  /// A processor's name, `native` for this machine's; empty for the target's default.
  std::string cpu;
  /// One of the target's architectures; empty for its default.
  std::string arch;
  /// Provider of symmetric memory on devices, and where its own bitcode is.
  std::string shmem = "p2p";
  std::string shmemPath;
  /// 0 to 3.
  unsigned optLevel = 2;
  /// Line tables.
  bool debugInfo = true;
  /// Bodies can be traced. Without it, code has nothing for that.
  bool isTraced = false;
  /// GPUs: bodies may print, which needs memory of the host. Those of processors always may.
  bool prints = false;
  /// GPUs: times of this machine in place of those of the architecture's, whose code it shares
  /// (TargetFacts::sharesCode); null for these.
  const TargetFacts *machine = nullptr;
  /// The bits of a row do not depend on how many rows there are. GPUs: one function for all
  /// launches, as those of a kind may contract other products and sums.
  bool isBatchInvariant = false;
  /// Object files: runs the device's assembler where it is found, so that nobody has to when the
  /// program starts.
  bool assemble = true;
  /// Object files: images are compressed.
  bool packImages = false;
};

/// What a launch is predicted to do when. Nanoseconds from where the first body begins.
struct LaunchTimeline {
  struct Row {
    /// Of the role; empty where the kernel has none.
    std::string name;
    /// Its bodies move data and do not compute; they wait for signals.
    bool moves = false;
    bool waits = false;
    int64_t bodies = 0;
    /// 0: those of another space run its bodies.
    int64_t programs = 0;
    double end = 0;
    /// Of a body, what it computes or moves, and what it waits beside that.
    double work = 0;
    double latency = 0;
  };
  std::vector<Row> rows;
  /// Before the first body.
  double overhead = 0;
  /// What goes to other devices and comes from them, and how long the way is busy with it.
  double linkBytes = 0;
  double linkTime = 0;
  /// Bodies' work, were it shared evenly among all programs.
  double workTime = 0;
  /// All of the launch, the overhead included.
  double total = 0;
};

/// How long launches of one kernel take on a machine, by its model.
class LaunchEstimate {
public:
  virtual ~LaunchEstimate() = default;
  /// Whether the machine can run it without spilling what its bodies hold.
  [[nodiscard]] virtual bool isPossible() const = 0;
  /// Nanoseconds of a launch on `ranks` ranks with these sizes (model::freeSizes of the kernel, in
  /// order); nothing where the model cannot say.
  [[nodiscard]] virtual std::optional<double> nanoseconds(llvm::ArrayRef<int64_t> sizes,
                                                          int64_t ranks) = 0;
  /// Whether that launch moves tiles in parts of words of 16 bytes: tiles that TMA cannot describe;
  /// in kernels without TMA any.
  [[nodiscard]] virtual bool movesParts(llvm::ArrayRef<int64_t> sizes, int64_t ranks) {
    return false;
  }
  /// How the programs of a launch are shared whose sizes and scalars are these; nothing where they
  /// do not say it.
  [[nodiscard]] virtual std::optional<model::ProgramShares> share(const model::KnownSizes &sizes,
                                                                  int64_t ranks) = 0;
  /// The same launch in its parts.
  [[nodiscard]] virtual std::optional<LaunchTimeline> timeline(llvm::ArrayRef<int64_t> sizes,
                                                               int64_t ranks) = 0;
};

/// A kind of machine that code is generated for. Targets have no state.
class Target {
public:
  Target(llvm::StringLiteral name, llvm::StringLiteral summary) : name_(name), summary_(summary) {}
  virtual ~Target() = default;
  [[nodiscard]] llvm::StringRef name() const { return name_; }
  [[nodiscard]] llvm::StringRef summary() const { return summary_; }

  /// What code can be made for, the default first; empty where `cpu` says it all.
  [[nodiscard]] virtual llvm::ArrayRef<llvm::StringRef> archs() const { return {}; }
  /// The machine that passes and code generation for an architecture see, or null.
  [[nodiscard]] virtual const TargetFacts *facts(llvm::StringRef arch) const { return nullptr; }
  /// The instructions that an `extern fn` may give for it; nothing where there are none.
  [[nodiscard]] virtual std::optional<Assembly> assembly() const { return std::nullopt; }
  [[nodiscard]] virtual bool canEmit(EmitKind kind) const = 0;
  /// The model of a kernel that was prepared for a machine, which both must outlive it; null where
  /// the target has none.
  [[nodiscard]] virtual std::unique_ptr<LaunchEstimate> estimate(ir::Op &kernel,
                                                                 const TargetFacts *machine) const {
    return nullptr;
  }

  /// Adds code of a verified, call-free, prepared module to an object file that several targets
  /// share.
  virtual llvm::Error addTo(launch::Package &package, ir::Module &module,
                            const TargetOptions &options) const = 0;
  /// Writes such a module by itself. Changes nothing but the stream.
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
