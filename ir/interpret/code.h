// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decoded regions: flat instructions over numbered slots. Structured control is jumps here, so that
// a body which must wait is its program counter and its slots, and any number of them may be
// resident. Private to ir/interpret.
#pragma once

#include "ir/core/ir.h"
#include "ir/core/tile_order.h"
#include "ir/interpret/values.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <deque>
#include <memory>
#include <vector>

namespace dtile::interpret {

class Body;
struct Instr;

/// What the run loop does after an instruction.
enum class Step : uint8_t {
  /// The next instruction.
  Next,
  /// The handler has set the program counter.
  Jumped,
  /// Nothing has changed; run the instruction again when the body is woken.
  Blocked,
  /// The launch has failed; the error is recorded.
  Failed,
  /// The body has ended.
  Ended,
};
using Handler = Step (*)(Body &, const Instr &);

/// A slot, by bank and number.
struct Slot {
  Bank bank = Bank::Scalar;
  uint32_t index = 0;
};

/// A value that an instruction reads. `dies`: no other use can follow before its slot is written
/// again, so that a tile may be taken instead of shared.
struct Operand {
  uint32_t slot : 31;
  uint32_t dies : 1;
};

/// What a handler knows besides operands; the handler casts to its own struct.
struct InstrInfo {
  virtual ~InstrInfo() = default;
};

/// Of a launch.require, the arithmetic that must not leave its type.
struct RequireInfo : InstrInfo {
  struct Arithmetic {
    ir::OpKind kind;
    DType dtype;
    Operand a, b;
  };
  std::vector<Arithmetic> arithmetic;
};

/// One instruction.
struct Instr {
  Handler run = nullptr;
  /// The operation that it comes from, for places, messages and observers.
  const ir::Op *op = nullptr;
  llvm::SmallVector<Operand, 4> operands;
  /// Slot of result 0, if any; its bank is in its type.
  uint32_t result = 0;
  /// Jump target.
  uint32_t target = 0;
  /// Operands from here on are tokens and acquires that must come first.
  uint16_t firstToken = 0;
  /// A random schedule may switch before and after it.
  bool isCommunication = false;
  /// Whether the elements that it reads or writes matter: see Schedule::controlOnly.
  bool movesData = true;
  /// gather and scatter: whether the positions are known.
  bool hasPositions = true;
  std::unique_ptr<InstrInfo> info;
};

/// A decoded region with the slots that it needs.
struct Code {
  std::vector<Instr> instrs;
  std::array<uint32_t, kBanks> slots{};
  /// Slots of the block arguments, in order.
  std::vector<Slot> arguments;
  /// Values from outside: slot in the enclosing frame, slot here.
  std::vector<std::pair<Slot, Slot>> captures;
};

/// A tile space of a kernel.
struct SpaceCode {
  const ir::Op *op = nullptr;
  std::string name;
  std::vector<std::string> vars;
  Code body;
  ir::TileOrder order;
  unsigned dims = 0;
  /// Number of the space whose bodies must have ended before, or -1.
  int afterAll = -1;
  bool isOrdered = false;
  /// Most bodies in flight, or 0.
  int64_t programs = 0;
};

/// A signal parameter: its derived count is `count` on a cell's position, unless it has no code.
struct SignalCode {
  const ir::Op *op = nullptr;
  std::string name;
  /// Slot of its value in the prologue.
  Slot slot;
  Code count;
  bool hasCount = false;
};

/// One parameter that a launch passes.
struct ArgumentCode {
  /// Position among all parameters.
  int64_t position = 0;
  std::string name;
  /// Number of dimensions, or -1 for a scalar.
  int rank = -1;
  DType dtype = DType::F32;
  bool isSymmetric = false;
  /// Not `in`.
  bool isWritten = false;
};

/// A kernel, ready to run.
struct KernelCode {
  const ir::Op *op = nullptr;
  std::string name;
  /// Everything up to the spaces; a space instruction stores its bounds.
  Code prologue;
  std::deque<SpaceCode> spaces;
  std::deque<SignalCode> signals;
  /// In the order in which a launch passes them.
  std::vector<ArgumentCode> arguments;
  /// Ranks meet before each launch's bodies.
  bool hasEntryBarrier = false;
};

/// Decodes kernels, and functions as calls need them.
class CodeCache {
public:
  /// `controlOnly`: kernels are decoded without what their control does not depend on.
  /// `isSymbolic`: see Schedule::terms.
  explicit CodeCache(ir::Module &module, bool controlOnly = false, bool isSymbolic = false)
      : module_(module), controlOnly_(controlOnly), isSymbolic_(isSymbolic) {}

  /// Null when the module has no such kernel.
  const KernelCode *kernel(llvm::StringRef name);
  const Code &function(llvm::StringRef name);
  [[nodiscard]] bool isSymbolic() const { return isSymbolic_; }

private:
  ir::Module &module_;
  bool controlOnly_;
  bool isSymbolic_;
  llvm::StringMap<std::unique_ptr<KernelCode>> kernels_;
  llvm::StringMap<std::unique_ptr<Code>> functions_;
};

// Each of these fills `run`, `info` and what else its operations need; together they cover ops.def.

/// Arithmetic on scalars and tiles.
void bindElementwise(Instr &instr);
/// tile.*
void bindTile(Instr &instr);
/// view.*, sig.*, load, store, gather, scatter, atomic.
void bindMemory(Instr &instr);
/// Communication, tokens and order.
void bindSync(Instr &instr);
/// Replaces the handler of what computes on f64, where that stands for sums.
void bindSymbolic(Instr &instr);
/// Constants, machine facts, assert, and the declarations of a kernel's prologue.
void bindLaunch(Instr &instr);

} // namespace dtile::interpret
