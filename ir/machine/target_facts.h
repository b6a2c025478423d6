// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What checks, schedules and code generation need to know of a machine, as plain numbers. Machines
// are rows of machines.cpp; nothing here names a back end.
#pragma once

#include "frontend/base/dtype.h"
#include "ir/machine/matrix_products.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dtile {

/// Element types of a product that warpgroups compute from shared memory (wgmma).
struct GroupProduct {
  DType a, b, sum;
  bool isTf32 = false;
  /// Operands may be MN-major: their innermost dimension is not the one that is summed over.
  bool takesMnMajor = false;
  /// The hardware accumulates with fewer bits than `sum` has: after a few products the partial sums
  /// are promoted, that is, added to registers of `sum`'s type.
  bool needsPromotion = false;
  /// The first operand may be in registers, in the fragments of a MatrixProduct of the same types.
  bool fromRegisters = false;
};

/// What operations take, and rates: rows of timing_fields.def, which says what each is. Formulas:
/// ir/model/body_time.h; where the numbers come from: docs/measurements/model.md.
struct Timing {
#define TIMING(name, usual, unit, least, most, about) double name = usual;
#include "ir/machine/timing_fields.def"
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
  /// Warpgroups that multiply what TMA has put into shared memory: rows of one instruction, threads
  /// of a warpgroup, and what it multiplies; 0 where there are none.
  int32_t groupRows = 0;
  int32_t groupThreads = 0;
  llvm::ArrayRef<GroupProduct> groupProducts = {};
  /// Threads of a warp or wavefront; 0 where a program is one thread.
  int32_t lanes = 0;
  /// Bytes that one thread reads or writes at once.
  int32_t accessBytes = 16;
  /// What one warp multiplies from registers.
  llvm::ArrayRef<MatrixProduct> products = {};
  /// Programs that saturate the links to other devices with bulk copies; more only take processors
  /// from arithmetic.
  int32_t movers = kPlainMovers;
  /// Shared memory that a program's bulk copies (TMA) go through, 0 where threads copy; twice as
  /// much in kernels whose other programs multiply meanwhile.
  int32_t copyBytes = 0;
  /// Bytes of the largest asynchronous copy of one thread from global to shared memory (cp.async);
  /// 0 where there is none.
  int32_t asyncCopyBytes = 0;
  /// The largest cluster: programs that are sure to run at once on processors beside each other,
  /// and reach each other's shared memory; 1 where there are none.
  int32_t clusterPrograms = 1;
  /// Processors beside each other: no cluster spans two such groups (a GPC's SMs, where some have
  /// more).
  int32_t groupProcessors = 16;
  /// Bytes of the cache that all processors share.
  int64_t cacheBytes = int64_t(32) << 20;
  /// Times of bodies and launches.
  Timing timing = {};

  /// Registers that accumulators and operands of a warpgroup's thread may take.
  static constexpr int64_t kGroupRegisters = 192;

  /// The smallest bulk copy: below it most of the time goes to the first load and the last store
  /// (as in backend/device_library/device_copies.h). An all-gather of 2 × 16 MiB on two H200s in
  /// blocks of 32 KiB took 120 us by bulk copies; in blocks of 16 KiB by threads 98.
  static constexpr int32_t leastBulkBytes(bool besideProducts) {
    return besideProducts ? 32768 : 65536;
  }

  /// The largest tile that is sent by the LL protocol (pass ll-messages), which doubles the bytes
  /// on the wire: a larger one spends more time there than on notifies.
  static constexpr int32_t kMostLlBytes = 4096;

  /// `movers` of machines without bulk copies.
  static constexpr int32_t kPlainMovers = 32;

  /// Most columns of a product that are accumulated before they are promoted
  /// (GroupProduct::needsPromotion).
  static constexpr int64_t kPromotedColumns = 128;
  /// Columns of a product that are accumulated and promoted together: all, or half of them.
  static constexpr int64_t columnsOfPart(int64_t columns) {
    return columns > kPromotedColumns ? columns / 2 : columns;
  }
  /// Rows of a warpgroup's instruction, and bytes of the summed dimension that it takes.
  static constexpr int64_t kGroupRows = 64;
  static constexpr unsigned kGroupDepthBytes = 32;
  /// Threads of the helper warpgroup, whose warps load and store, after those of the body.
  /// Registers are moved between whole warpgroups.
  static constexpr unsigned kHelperThreads = 128;

  /// The row for a product, or null.
  [[nodiscard]] const GroupProduct *findGroupProduct(DType a, DType b, DType sum,
                                                     bool isTf32) const {
    for (const GroupProduct &product : groupProducts)
      if (product.a == a && product.b == b && product.sum == sum && product.isTf32 == isTf32)
        return &product;
    return nullptr;
  }

  /// Programs that saturate the links to other devices, where each moves `rate`.
  [[nodiscard]] int32_t fillers(double rate) const {
    return int32_t(std::ceil(timing.linkRate / rate));
  }

  /// Whether code for one of them runs on the other: they differ in times and in how many
  /// processors there are.
  [[nodiscard]] bool sharesCode(const TargetFacts &other) const {
    return products.data() == other.products.data() &&
           groupProducts.data() == other.groupProducts.data() && sharedBytes == other.sharedBytes &&
           lanes == other.lanes && groupRows == other.groupRows && copyBytes == other.copyBytes &&
           clusterPrograms == other.clusterPrograms;
  }

  /// Programs that run at once, or 0 for any number.
  [[nodiscard]] constexpr int64_t residentPrograms() const {
    return int64_t(processors) * programsPerProcessor;
  }
};

/// All machines, the default (the host) first.
[[nodiscard]] llvm::ArrayRef<TargetFacts> allMachines();

/// The facts of a machine by its name, or null.
[[nodiscard]] const TargetFacts *findMachine(llvm::StringRef name);

} // namespace dtile
