// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What checks and schedules need to know of a machine, as plain numbers. Nothing here names a back
// end: who knows only `processors` works for every machine.
#pragma once

#include "frontend/base/dtype.h"
#include "ir/analysis/cdna_products.h"
#include "ir/analysis/matrix_products.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace dtile {

/// Element types of a product that a group of warps computes from shared memory.
struct GroupProduct {
  DType a, b, sum;
  /// As of a MatrixProduct.
  bool isTf32 = false;
  /// Also of operands whose innermost dimension is not the one that is summed over.
  bool isAcross = false;
  /// It adds with fewer bits than the sum has: a few products may be left to it.
  bool isShort = false;
  /// Also where the first operand is in registers, as a MatrixProduct of the same types has it.
  bool fromRegisters = false;
};

/// Numbers of one kind of machine.
struct TargetFacts {
  /// As `--machine` spells it.
  llvm::StringLiteral name;
  /// What it is, for people.
  llvm::StringLiteral description;
  /// Streaming multiprocessors, compute units; 0 where bodies are fibers, of which there may be
  /// any number.
  int32_t processors = 0;
  /// Programs that one processor is sure to hold at once. A program that stages its tiles takes
  /// nearly all of a processor's memory, so nothing may count on more than one.
  int32_t programsPerProcessor = 1;
  /// Shared memory that one program may have, in bytes.
  int32_t sharedBytes = 0;
  /// Groups of warps that multiply what a copy engine has put into shared memory: rows of one
  /// instruction, threads of a group, and what it multiplies; 0 where there are none.
  int32_t groupRows = 0;
  int32_t groupThreads = 0;
  llvm::ArrayRef<GroupProduct> groupProducts = {};
  /// Threads that run in step and exchange registers; 0 where a program is one thread.
  int32_t lanes = 0;
  /// Bytes that one thread reads or writes at once.
  int32_t accessBytes = 16;
  /// What one warp multiplies from registers.
  llvm::ArrayRef<MatrixProduct> products = {};
  /// Programs that fill the way to other devices with large copies; more only take processors from
  /// arithmetic.
  int32_t movers = kPlainMovers;
  /// Shared memory that a program's large copies go through, where an engine makes them; twice as
  /// much in kernels whose other programs multiply meanwhile.
  int32_t copyBytes = 0;
  /// Bytes that one thread copies at once from global to shared memory, while it goes on; 0 where
  /// none can.
  int32_t asyncCopyBytes = 0;
  /// What bodies are estimated by. Two-byte floats that one processor multiplies and adds in a
  /// nanosecond while all do, at what kernels reach: 80% of what the vendor says.
  int32_t productRate = 1000;
  /// Bytes that go to other devices in a nanosecond, from all programs together.
  int32_t linkRate = 300;

  /// Shared memory that a kernel's tiles leave: the device library has some of it, and what follows
  /// is aligned.
  static constexpr int32_t kReservedSharedBytes = 1024;

  /// Registers of a thread, of a group that multiplies, that sums and operands may take.
  static constexpr int64_t kGroupRegisters = 192;

  /// Of how many bytes on copies are large: below that most of the time goes to the first load and
  /// the last store (as in stdlib/shmem/device.c).
  static constexpr int32_t kLeastBulkBytes = 32768;

  /// Tiles of at most so many bytes are sent by words that carry flags (pass flag-words): what is
  /// larger spends more time on the wire, which they take twice, than on notifies.
  static constexpr int32_t kMostFlaggedBytes = 4096;

  /// `movers` where threads copy.
  static constexpr int32_t kPlainMovers = 32;
  /// Bytes that one program moves in a nanosecond: to a peer by an engine (46 where it is alone),
  /// to a peer by 128 threads with eight words in flight each, and from its own memory to its own
  /// memory (H200).
  static constexpr int32_t kEngineRate = 44;
  static constexpr int32_t kThreadsRate = 19;
  static constexpr int32_t kLocalRate = 50;
  /// Elementwise operations of one program in a nanosecond: 128 lanes at 1.7 GHz.
  static constexpr int32_t kElementRate = 200;

  /// What elements of 4 bytes that are loaded one by one take of a stage.
  static constexpr int64_t fetchedBytes(int64_t elements) { return (4 * elements + 15) / 16 * 16; }
  /// What is remembered of rows that an index tile picks, in front of the stages: 4 bytes each, and
  /// they are shared out by 32.
  static constexpr int64_t pickedBytes(int64_t rows) { return (rows + 31) / 32 * 32 * 4; }

  /// Columns of a GroupProduct whose sums are short that are computed at once, at most.
  static constexpr int64_t kShortColumns = 128;

  /// The row for a product, or null.
  [[nodiscard]] const GroupProduct *findGroupProduct(DType a, DType b, DType sum,
                                                     bool isTf32) const {
    for (const GroupProduct &product : groupProducts)
      if (product.a == a && product.b == b && product.sum == sum && product.isTf32 == isTf32)
        return &product;
    return nullptr;
  }

  /// Programs that fill the way to other devices, where each moves `rate`.
  [[nodiscard]] constexpr int32_t fillers(int32_t rate) const {
    return (linkRate + rate - 1) / rate;
  }

  /// Programs that run at once, or 0 for any number.
  [[nodiscard]] constexpr int64_t residentPrograms() const {
    return int64_t(processors) * programsPerProcessor;
  }
};

/// What the warpgroups of sm_90 multiply. Of f8 they add about 14 bits ("DeepSeek-V3 Technical
/// Report", 3.3.2).
inline constexpr GroupProduct kHopperProducts[] = {
    {DType::BF16, DType::BF16, DType::F32, false, true, false, true},
    {DType::F16, DType::F16, DType::F32, false, true, false, true},
    {DType::F8E4M3, DType::F8E4M3, DType::F32, false, false, true},
    {DType::F8E4M3, DType::F8E5M2, DType::F32, false, false, true},
    {DType::F8E5M2, DType::F8E4M3, DType::F32, false, false, true},
    {DType::F8E5M2, DType::F8E5M2, DType::F32, false, false, true},
    {DType::I8, DType::I8, DType::I32, false, false, false},
    {DType::U8, DType::U8, DType::U32, false, false, false},
    {DType::F32, DType::F32, DType::F32, true, false, false},
};

/// sm_90: 8 programs that copy in bulk, each 46 GB/s through four rings of four slots of 4 KiB,
/// fill the 18 links of NVLink 4 (measured on H200s); two more make up for the begin and end of
/// copies. Before the slots of a ring stand their barriers.
inline constexpr int32_t kHopperMovers = 10;
inline constexpr int32_t kHopperCopyBytes = 4 * (128 + 4 * 4096);

/// Machines by name, the default first. Processors are those that the vendors give for the parts
/// in servers: NVIDIA's H100/H200 SXM and B200, its H20, A100, A10 and L40S, and AMD's MI250X (one
/// die), MI300X, MI355X; so are their products (dense bf16) and links (one way; of the H200's 450
/// GB/s puts reach 350). Of the B200 neither is known for the instructions that are used of it.
inline constexpr TargetFacts kMachines[] = {
    {"host", "ranks as fibers of this machine", 0, 1},
    {"h200", "NVIDIA H200 (sm_90)", 132, 1, 232448, 64, 128, kHopperProducts, 32, 16, kMmaSm89,
     kHopperMovers, kHopperCopyBytes, 16, 3000, 350},
    {"h20", "NVIDIA H20 (sm_90)", 78, 1, 232448, 64, 128, kHopperProducts, 32, 16, kMmaSm89,
     kHopperMovers, kHopperCopyBytes, 16, 760, 350},
    {"b200", "NVIDIA B200 (sm_100)", 148, 1, 232448, 0, 0, {}, 32, 16, kMmaSm89, 2 * kHopperMovers,
     kHopperCopyBytes, 16, 3000, 700},
    {"a100", "NVIDIA A100 (sm_80)", 108, 1, 166912, 0, 0, {}, 32, 16, kMmaSm80,
     TargetFacts::kPlainMovers, 0, 16, 1150, 300},
    {"a10", "NVIDIA A10 (sm_86)", 72, 1, 101376, 0, 0, {}, 32, 16, kMmaSm80,
     TargetFacts::kPlainMovers, 0, 16, 690, 32},
    {"l40s", "NVIDIA L40S (sm_89)", 142, 1, 101376, 0, 0, {}, 32, 16, kMmaSm89,
     TargetFacts::kPlainMovers, 0, 16, 1020, 32},
    {"mi250x", "one die of an AMD MI250X (gfx90a)", 110, 1, 65536, 0, 0, {}, 64, 16, kMfmaCdna2,
     TargetFacts::kPlainMovers, 0, 0, 690, 200},
    {"mi300x", "AMD MI300X (gfx942)", 304, 1, 65536, 0, 0, {}, 64, 16, kMfmaCdna3,
     TargetFacts::kPlainMovers, 0, 0, 1720, 448},
    {"mi355x", "AMD MI355X (gfx950)", 256, 1, 163840, 0, 0, {}, 64, 16, kMfmaCdna4,
     TargetFacts::kPlainMovers, 0, 0, 3930, 538},
};

/// The facts of a machine, or null.
[[nodiscard]] inline const TargetFacts *findMachine(llvm::StringRef name) {
  for (const TargetFacts &machine : kMachines)
    if (machine.name == name)
      return &machine;
  return nullptr;
}

} // namespace dtile
