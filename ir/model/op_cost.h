// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What single operations cost on a machine: times of arithmetic, bytes of tiles and views. Times
// are nanoseconds of one program that has a processor for itself.
#pragma once

#include "ir/core/ir.h"
#include "ir/machine/target_facts.h"

namespace dtile::model {

/// Whether an op is arithmetic on tiles.
[[nodiscard]] bool computes(const ir::Op &op);

/// Arithmetic of an op; 0 for those that only say where elements are.
[[nodiscard]] double arithmeticTime(const ir::Op &op, const TargetFacts &machine);

/// How much longer a tile takes whose rows are shorter than a line of memory; at least 1.
[[nodiscard]] double rowFactor(ir::Type tile);
/// How much longer memory takes for a tile in kernels without products, whose rows are pieces of
/// longer ones; at least 1. On an H200, x · sigmoid(x) · g of 4096×8192 in bf16 took 66 µs in tiles
/// of 64×64, 57 in 64×128 and 54.5 in 4×1024. Products, whose operands are read again, were fitted
/// without it.
[[nodiscard]] double pieceFactor(ir::Op &op, ir::Type tile);
/// How much longer a copy takes for its rows, each of which is a copy of its own; at least 1. Rows
/// of 128 bytes took 1.17 times as long as rows of 4 KiB where a link was full (two H200s).
[[nodiscard]] double copiedRowFactor(const ir::Value &view);

/// Bytes of a tile, scalar or index; 0 for everything else.
[[nodiscard]] double bytesOf(ir::Type type);

/// Bytes of a view as far as the IR says it: dimensions of unknown size are taken as 1024.
[[nodiscard]] double guessBytes(const ir::Value &view);

/// Whether a put or get is one of memory, large enough for the engine that copies.
[[nodiscard]] bool isBulkCopy(const ir::Op &op, const TargetFacts &machine);

/// Whether an op gives a number or a view from numbers and views, without looking at memory.
[[nodiscard]] bool isSizeArithmetic(const ir::Op &op);

/// What an op moves over the way to other devices: the place there, what is here, and the rank,
/// if one op names it. All null where it moves nothing.
struct RemoteAccess {
  ir::Value *place = nullptr;
  ir::Value *other = nullptr;
  ir::Value *peer = nullptr;
};
[[nodiscard]] RemoteAccess remoteAccess(ir::Op &op);

/// How a body that multiplies sends to other devices: not at all; beside the products of the next
/// body, as nobody awaits stores; or in turn with these, as it then waits for what others send.
enum class Sends : uint8_t { No, Beside, InTurn };
[[nodiscard]] Sends sendsOfProducts(ir::Block &body);

/// Whether a loop counts all ranks.
[[nodiscard]] bool goesRound(const ir::Op &loop);

/// How the operands of a loop come to shared memory ahead of their use.
enum class Ahead : uint8_t { No, Tma, Threads };
[[nodiscard]] Ahead loadsAhead(const ir::Op &loop);

/// What the bytes of rows are multiples of that TMA and cp.async can load.
inline constexpr int64_t kRowAlign = 16;

/// A number by where the rows that a load or store moves begin: at multiples of so many bytes, or
/// anywhere.
struct ByRowStart {
  double by128 = 0, by64 = 0, by32 = 0, by16 = 0, anywhere = 0;

  [[nodiscard]] double of(int64_t rowBytes) const {
    return rowBytes % 128 == 0  ? by128
           : rowBytes % 64 == 0 ? by64
           : rowBytes % 32 == 0 ? by32
           : rowBytes % 16 == 0 ? by16
                                : anywhere;
  }
};

/// The parameter whose rows a load or store moves; null where it has one row, or is chosen from
/// two.
[[nodiscard]] ir::Op *objectOfRows(ir::Op &access);
/// The number of elements in a row of it, where it is contiguous: where the next row begins. Or
/// null.
[[nodiscard]] ir::Value *rowElements(ir::Op &access);

/// Bytes that a load brings to shared memory ahead of its use, as the memory system sees them: rows
/// shorter than a line of 128 bytes cost more than their bytes. 0 of other operations.
[[nodiscard]] double bytesAhead(const ir::Op &op, const TargetFacts &machine);
/// The bytes of long rows that TMA would bring in the time of these: short rows of boxes take as
/// long as rows of 104 bytes. On an H200 a row of 128 bytes takes 0.82 ns, one of 32 or 64 bytes
/// 0.65 to 0.8 (products with B in rows of 144, 160 and 176 columns, and of 32 elements of K).
[[nodiscard]] double tmaBytesAhead(const ir::Op &op);
/// What these ask of the L2 cache, in bytes: rows that do not begin where a line does need more
/// lines.
[[nodiscard]] ByRowStart cacheBytesAhead(const ir::Op &op, const TargetFacts &machine);

/// Whether a staged space has a second body, for tensors that TMA cannot describe: all threads load
/// what they multiply, and no cluster shares its loops. Else copy warps bring these. Their place is
/// taken where rows are gathered.
[[nodiscard]] bool hasUnstagedBody(ir::Op &space);

/// Of the bytes that a round of a loop brings, those that come from memory (streams.h).
[[nodiscard]] double streamedAhead(ir::Op &loop);

/// Nanoseconds that a program waits at an op before its next one.
[[nodiscard]] double latencyOf(const ir::Op &op, const TargetFacts &machine);
/// Whether it reads memory into registers; what comes ahead through shared memory does not count.
[[nodiscard]] bool readsMemory(const ir::Op &op);
/// Nanoseconds that a round of a loop waits for what it loads into registers: half where the round
/// before has loaded it. In kernels that multiply, loops wait that multiply or reduce. `takesKept`:
/// of a round whose tiles are in shared memory as far as they are kept there.
[[nodiscard]] double latencyOfReads(const ir::Op &loop, const TargetFacts &machine, bool takesKept);
/// Whether a load takes its tile from shared memory where an earlier loop has left it (pass
/// keep-rows).
[[nodiscard]] bool isKept(const ir::Op &op);
/// In how many rounds of a loop such loads find theirs; 0 without any.
[[nodiscard]] int64_t keptTiles(const ir::Op &loop);
/// Bytes of shared memory for such tiles of a space.
[[nodiscard]] int64_t keptBytes(ir::Op &space);
/// Whether all rounds of a loop notify at the same time (lower_notifies.cpp of GPU bodies).
[[nodiscard]] bool onlyNotifies(ir::Op &loop);

/// The time of a kernel's arithmetic. Beside products it is small, and each operation counts alike.
/// In other kernels operations count by their instructions.
class ArithmeticCost {
public:
  /// Of the kernel around an op.
  explicit ArithmeticCost(ir::Op &inside);
  [[nodiscard]] double of(const ir::Op &op, const TargetFacts &machine) const;

private:
  bool multiplies_ = false;
};

/// What the programs of a cluster take to add up the sums of a loop that they share (pass
/// split-sums); 0 of other loops.
[[nodiscard]] double exchangeTime(const ir::Op &loop, const TargetFacts &machine);

/// What a round costs besides arithmetic and bytes: barriers, and the issue of its instructions.
[[nodiscard]] double roundOverhead(ir::Op &loop, const TargetFacts &machine);

} // namespace dtile::model
