// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints: a body puts its position, and of the value what is shown of it, into a record in host
// memory (runtime/device_abi.h), from which the runtime makes the same text as processors do.
//
// One thread takes room for the record and completes it. In between, each thread writes those
// elements of a tile that it holds, so that no tile changes its threads for being shown; the
// program's threads meet before and after that.
#include "backend/gpu/bodies/lower_body.h"
#include "backend/gpu/space_facts.h"

#include "ir/core/tile_order.h"

#include "llvm/Support/MathExtras.h"

#include <cstddef>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// What a dimension of a tile shows.
struct ShownDimension {
  int64_t size = 0;
  /// Positions in the middle that are left out: [first, end).
  int64_t first = 0, end = 0;

  explicit ShownDimension(int64_t size) : size(size), first(size), end(size) {
    if (size <= DTILE_PRINT_IN_FULL)
      return;
    first = DTILE_PRINT_AT_ENDS;
    end = size - DTILE_PRINT_AT_ENDS;
  }
  [[nodiscard]] int64_t shown() const { return size - (end - first); }
};

/// Where what belongs to a print is in its record.
struct PrintRecord {
  DType dtype = DType::I64;
  bool hasValue = false;
  llvm::SmallVector<ShownDimension, 4> dims;
  int64_t positions = 0, elements = 0, bytes = 0;

  PrintRecord(const Op &op, unsigned spaceDims) {
    positions = sizeof(dtile_device_print);
    int64_t shown = op.numOperands();
    hasValue = shown != 0;
    if (hasValue) {
      const ir::Type type = op.operand(0)->type();
      dtype = type.elementOrIndex();
      if (type.isTile())
        for (int64_t size : type.shape())
          shown *= dims.emplace_back(size).shown();
    }
    elements = positions + 8 * int64_t(spaceDims + dims.size());
    bytes = int64_t(llvm::alignTo(uint64_t(elements + shown * dtypeBytes(dtype)), 8));
  }
};

} // namespace

void BodyLowering::lowerPrint(Op &op) {
  if (!gpu_.prints)
    return giveUp(op, "takes time on GPUs, so it is for builds with `--print`: build with that, or "
                      "leave it out");
  Op &space = *op.enclosing(OpKind::Space);
  const unsigned spaceDims = ir::spaceDims(space);
  const PrintRecord record(op, spaceDims);
  const ir::Value *value = record.hasValue ? op.operand(0) : nullptr;
  const auto at = [&](llvm::Value *print, int64_t offset) {
    return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), print, offset);
  };
  const auto begin = [&] {
    return call(DeviceCall::print_begin, {kernel_.launch, b.getInt32(uint32_t(record.bytes)),
                                          b.getInt32(gpu_.site(op, op.get(ir::attr::message))),
                                          b.getInt32(spaceNumber(space))});
  };
  const auto describe = [&](llvm::Value *print) {
    const auto field = [&](size_t offset, int64_t number) {
      b.CreateStore(b.getInt32(uint32_t(number)), at(print, int64_t(offset)));
    };
    field(offsetof(dtile_device_print, positions), spaceDims);
    field(offsetof(dtile_device_print, ndim), int64_t(record.dims.size()));
    field(offsetof(dtile_device_print, dtype), value ? int64_t(record.dtype) : -1);
    int64_t offset = record.positions;
    for (ir::Value *position : space.body().arguments().take_front(spaceDims)) {
      b.CreateStore(scalar(position), at(print, offset));
      offset += 8;
    }
    for (const ShownDimension &dim : record.dims) {
      b.CreateStore(b.getInt64(uint64_t(dim.size)), at(print, offset));
      offset += 8;
    }
  };
  const auto store = [&](llvm::Value *element, llvm::Value *address) {
    b.CreateStore(arith_.toMemory(record.dtype, element), address);
  };

  if (!value || !value->type().isTile()) {
    llvm::Value *element = value ? scalar(op.operand(0)) : nullptr;
    return asLeader("print", [&] {
      llvm::Value *print = begin();
      when(b.CreateIsNotNull(print), "print.room", [&] {
        describe(print);
        if (element)
          store(element, at(print, record.elements));
        call(DeviceCall::print_end, {kernel_.launch, print});
      });
    });
  }

  llvm::Value *slot = stackSlot(b.getInt64Ty(), "print");
  b.CreateStore(b.getInt64(0), slot);
  asLeader("print", [&] {
    llvm::Value *print = begin();
    b.CreateStore(b.CreatePtrToInt(print, b.getInt64Ty()), slot);
    when(b.CreateIsNotNull(print), "print.room", [&] { describe(print); });
  });
  llvm::Value *number = fromLeader(b.CreateLoad(b.getInt64Ty(), slot));
  llvm::Value *print = b.CreateIntToPtr(number, b.getPtrTy());
  llvm::Value *hasRoom = b.CreateIsNotNull(print);
  when(hasRoom, "print.elements", [&] {
    eachShown(op.operand(0), [&](unsigned slot, llvm::Value *place) {
      store(registers(op.operand(0))[slot],
            b.CreateGEP(memoryType(context(), record.dtype), at(print, record.elements), place));
    });
  });
  sync();
  when(b.CreateAnd(isLeader(), hasRoom), "print.end",
       [&] { call(DeviceCall::print_end, {kernel_.launch, print}); });
}

void BodyLowering::eachShown(ir::Value *tile,
                             llvm::function_ref<void(unsigned slot, llvm::Value *place)> body) {
  const TileInfo &own = info(tile->type());
  llvm::SmallVector<ShownDimension, 4> dims;
  llvm::SmallVector<llvm::Value *, 4> thread;
  llvm::SmallVector<int64_t, 4> reach;
  for (auto [d, size] : llvm::enumerate(own.shape)) {
    dims.emplace_back(size);
    thread.push_back(threadPosition(own.layout, unsigned(d)));
    // What a thread's number adds to a register's position, at most.
    int64_t most = 0;
    for (ir::LayoutBits which : {ir::LayoutBits::Lane, ir::LayoutBits::Warp})
      for (const ir::Layout::Position &way : own.layout.bits(which))
        most += way[d];
    reach.push_back(most);
  }
  llvm::Value *isOwn = isOriginal(own.layout);
  for (unsigned slot = 0; slot < own.size(); ++slot) {
    const ir::Layout::Position first = own.at(slot);
    const bool isLeftOut = llvm::any_of(llvm::enumerate(dims), [&](const auto &dim) {
      const int64_t from = first[dim.index()], last = from + reach[dim.index()];
      return from >= dim.value().first && last < dim.value().end;
    });
    if (isLeftOut || own.isCopy(slot))
      continue;
    llvm::Value *isShown = isOwn ? isOwn : b.getTrue();
    llvm::Value *place = b.getInt32(0);
    for (auto [d, dim] : llvm::enumerate(dims)) {
      const auto number = [&](int64_t value) { return b.getInt32(uint32_t(value)); };
      llvm::Value *position = b.CreateAdd(thread[d], number(first[d]));
      llvm::Value *isBehind = b.CreateICmpUGE(position, number(dim.end));
      llvm::Value *isThere =
          b.CreateOr(b.CreateICmpULT(position, number(dim.first)),
                     b.CreateAnd(isBehind, b.CreateICmpULT(position, number(dim.size))));
      isShown = b.CreateAnd(isShown, isThere);
      llvm::Value *skipped = b.CreateSelect(isBehind, number(dim.end - dim.first), b.getInt32(0));
      place = b.CreateAdd(b.CreateMul(place, number(dim.shown())), b.CreateSub(position, skipped));
    }
    when(isShown, "print.element", [&] { body(slot, place); });
  }
}

} // namespace dtile::backend::gpu
