// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Executable semantics of the IR on N simulated ranks: the oracle for every pass and back end.
#pragma once

#include "ir/core/ir.h"

#include "llvm/Support/Error.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dtile::interpret {

class Observer;
class TermTable;

/// How the bodies of a run are interleaved.
struct Schedule {
  /// 0 runs bodies in schedule order, switching where they block; else a seeded random order that
  /// also switches before and after communication.
  uint64_t seed = 0;
  /// Asynchronous operations land when they are issued, as late as their tokens allow, or each as
  /// the seed has it.
  enum class Landing : uint8_t { AtIssue, AsLateAsAllowed, Random } landing = Landing::AtIssue;
  /// Steps (ops executed over all ranks) before the run is given up as endless; 0 is no limit.
  uint64_t maxSteps = 0;
  /// The run is given up when this becomes true, as if it were endless; null for never.
  const bool *stop = nullptr;
  /// For each space of the kernel, how many programs run its bodies: program p takes bodies p, p +
  /// n, … of the space's order, one after another, as the persistent programs of a GPU do. Empty,
  /// or 0 for a space: as many bodies at once as the space itself allows.
  std::vector<int64_t> programs = {};
  /// Tile data is left out: control, communication and observers see the same run, but no elements
  /// are computed or moved. Memory is zeros that nobody pays for until it is touched.
  bool controlOnly = false;
  /// Elements of type f64 are sums of this table (ir/interpret/terms.h) instead of numbers; no
  /// other floating-point type may occur. Null for numbers.
  TermTable *terms = nullptr;
};

/// A tensor argument in the caller's memory, strides in elements.
struct TensorArg {
  void *data = nullptr;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};
/// One argument: a tensor, or a scalar's bits.
struct Arg {
  TensorArg tensor;
  uint64_t scalarBits = 0;
};

/// What went wrong in a run.
struct RunError {
  enum class Kind : uint8_t {
    BadArgument,
    Deadlock,
    Trap,
    /// More steps than Schedule::maxSteps.
    StepLimit,
    /// A loop that can be seen not to end.
    Endless
  } kind;
  /// The whole report: every waiter with rank, space, positions, signal, cell, wanted, seen, place.
  std::string message;
  /// The operation at which it went wrong, where there is one.
  const ir::Op *op = nullptr;
};

/// Memory of zeros that takes up none until it is written; null where there is no room. What the
/// arguments of a run with Schedule::controlOnly are made of.
[[nodiscard]] void *reserveZeros(size_t bytes);
void releaseZeros(void *memory, size_t bytes);

/// N ranks with their symmetric memory: signals and scratch objects live across launches.
class Machine {
public:
  /// `module` must be verified and outlive the machine.
  Machine(ir::Module &module, int ranks, const Schedule &schedule = {});
  ~Machine();

  /// Symmetric memory; gives the address on rank 0, or null when there is not enough. The same
  /// object on rank r: symmAddress. Unwritten bytes are 0xFF, a NaN in every float format.
  void *symmAlloc(size_t bytes);
  void symmFree(void *address);
  void *symmAddress(void *address, int rank);

  /// Runs one launch of a kernel on all ranks; `args[r]` in the order of the parameters without
  /// scratch and signals.
  std::unique_ptr<RunError> launch(const std::string &kernel,
                                   const std::vector<std::vector<Arg>> &args);
  /// Runs `count` launches back to back with no meeting point between them: a rank begins its next
  /// launch when its bodies of the last have ended, however far the others are.
  std::unique_ptr<RunError> launchRepeat(const std::string &kernel,
                                         const std::vector<std::vector<Arg>> &args, int64_t count);

  /// Operations executed so far, over all ranks.
  [[nodiscard]] uint64_t steps() const;

  /// Shows later runs to a watcher (ir/interpret/observer.h) that outlives them; null for none.
  void observe(Observer *observer);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace dtile::interpret
