// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The copies of one iteration of a multistage loop (multistage_loop.cpp): which part of its tiles
// each thread copies, and what of it exists.
#include "backend/gpu/bodies/multistage_loop.h"

#include "ir/analysis/shared_memory_plan.h"

#include "llvm/Support/MathExtras.h"

namespace dtile::backend::gpu {

using ir::Op;
using llvm::Value;

MultistageLoop::Source MultistageLoop::source(Op &load) {
  Source from;
  from.view = body_.located(load.operand(0));
  from.dtype = from.view.type.dtype();
  from.base = b.CreateAddrSpaceCast(from.view.data, b.getPtrTy(Device::kGlobal));
  for (auto [dim, size] : llvm::zip_equal(from.view.dims, load.result()->type().shape())) {
    const auto clamped = [&](Value *x) {
      x = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, b.getInt64(0));
      x = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, b.getInt64(size));
      return b.CreateTrunc(x, b.getInt32Ty());
    };
    Value *low = clamped(dim.low);
    Value *span = b.CreateSub(clamped(dim.high), low);
    from.low.push_back(low);
    from.span.push_back(b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, span, b.getInt32(0)));
  }
  return from;
}

Value *MultistageLoop::isAligned(const Source &from, unsigned bytes) {
  const unsigned element = dtypeBytes(from.dtype);
  Value *sum = b.CreatePtrToInt(from.view.data, b.getInt64Ty());
  Value *steps = b.CreateOr(from.view.dims[0].stride, b.CreateZExt(from.low[1], b.getInt64Ty()));
  sum = b.CreateOr(sum, b.CreateMul(steps, b.getInt64(element)));
  Value *aligned = b.CreateICmpEQ(b.CreateAnd(sum, b.getInt64(bytes - 1)), b.getInt64(0));
  if (bytes == element)
    return aligned;
  return b.CreateAnd(aligned, b.CreateICmpEQ(from.view.dims[1].stride, b.getInt64(1)));
}

Value *MultistageLoop::gatheredNumber(const Source &from, Value *row) {
  BodyLowering::Elements known;
  if (from.numbers)
    for (const auto &[lookup, offset] : tileLookups_) {
      // Another gather's may have fewer.
      if (lookup->result()->type().shape() != from.rows->type().shape())
        continue;
      const DType type = lookup->result()->type().dtype();
      known[lookup->result()] = body_.arith().fromMemory(
          type, b.CreateAlignedLoad(memoryType(b.getContext(), type),
                                    placeOfNumber(from.numbers, *lookup, row),
                                    llvm::Align(dtypeBytes(type))));
    }
  Value *number = body_.element(from.rows, b.CreateZExt(row, b.getInt64Ty()), known);
  return body_.arith().cast(from.rows->type().dtype(), DType::I64, number);
}

MultistageLoop::Row MultistageLoop::existing(const Source &from, Value *number) {
  const ViewDimension &rows = from.view.dims[0];
  return {number,
          b.CreateAnd(b.CreateICmpSGE(number, rows.low), b.CreateICmpSLT(number, rows.high))};
}

MultistageLoop::Row MultistageLoop::rowOf(const Source &from, Value *row) {
  if (from.rows)
    return existing(from, gatheredNumber(from, row));
  return {b.CreateZExt(row, b.getInt64Ty()),
          b.CreateICmpULT(b.CreateSub(row, from.low[0]), from.span[0])};
}

Value *MultistageLoop::validBytes(const Source &from, const Row &row, Value *column,
                                  unsigned elements) {
  Value *at = b.CreateSub(column, from.low[1]);
  Value *isInside = b.CreateICmpULT(at, from.span[1]);
  Value *left = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b.CreateSub(from.span[1], at),
                                        b.getInt32(elements));
  Value *bytes = b.CreateMul(left, b.getInt32(dtypeBytes(from.dtype)));
  return b.CreateSelect(b.CreateAnd(row.exists, isInside), bytes, b.getInt32(0));
}

void MultistageLoop::copy(Op &load, const Source &from, const SharedTile &to) {
  const llvm::ArrayRef<int64_t> shape = load.result()->type().shape();
  // The fewest bytes that can be copied, and whether one element has as many.
  const unsigned element = dtypeBytes(from.dtype);
  const unsigned narrow = std::max(4u, element);
  llvm::BasicBlock *words = body_.block("copy.words"), *others = body_.block("copy.others");
  llvm::BasicBlock *end = body_.block("copy.end");
  b.CreateCondBr(isAligned(from, ir::kSharedWordBytes), words, others);
  b.SetInsertPoint(words);
  for (unsigned number = 0; number < wordsOf(load); ++number)
    copyWord(from, to, shape, number);
  b.CreateBr(end);
  b.SetInsertPoint(others);
  if (narrow == element) {
    copyNarrow(from, to, shape, narrow);
  } else {
    Value *isPaired = isAligned(from, narrow);
    body_.when(isPaired, "copy.narrow", [&] { copyNarrow(from, to, shape, narrow); });
    body_.when(b.CreateNot(isPaired), "copy.elements", [&] { copyElements(from, to, shape); });
  }
  b.CreateBr(end);
  b.SetInsertPoint(end);
}

unsigned MultistageLoop::wordsOf(const Op &load) const {
  const ir::Type type = load.result()->type();
  const int64_t bytes = type.elements() * int64_t(dtypeBytes(type.dtype()));
  return unsigned(llvm::divideCeil(bytes / ir::kSharedWordBytes, body_.threads_));
}

/// Threads next to each other copy words next to each other.
MultistageLoop::Word MultistageLoop::wordOf(DType dtype, llvm::ArrayRef<int64_t> shape,
                                            unsigned number) {
  const auto perWord = unsigned(ir::kSharedWordBytes / int64_t(dtypeBytes(dtype)));
  const auto inRow = uint32_t(shape[1] / perWord);
  const unsigned threads = body_.threads_, first = number * threads;
  // Where all of a thread's words stand above each other, their places are a distance apart.
  const bool isAbove = threads % inRow == 0 && llvm::isPowerOf2_32(threads);
  Value *word = body_.thread();
  if (!isAbove)
    word = b.CreateAdd(word, b.getInt32(first));
  return {.row = b.CreateUDiv(word, b.getInt32(inRow)),
          .column = b.CreateMul(b.CreateURem(word, b.getInt32(inRow)), b.getInt32(perWord)),
          .rowsBefore = isAbove ? first / inRow : 0,
          .isInside = first + threads <= uint32_t(shape[0]) * inRow};
}

Value *MultistageLoop::numberOfWord(const Source &from, llvm::ArrayRef<int64_t> shape,
                                    unsigned number) {
  const Word word = wordOf(from.dtype, shape, number);
  Value *row = b.CreateAdd(word.row, b.getInt32(word.rowsBefore));
  // Only rows of the tile have numbers.
  if (!word.isInside)
    row = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, row, b.getInt32(uint32_t(shape[0] - 1)));
  return gatheredNumber(from, row);
}

void MultistageLoop::copyWord(const Source &from, const SharedTile &to,
                              llvm::ArrayRef<int64_t> shape, unsigned number, Value *picked) {
  const unsigned element = dtypeBytes(from.dtype);
  const Word word = wordOf(from.dtype, shape, number);
  const auto one = [&] {
    Value *place = b.CreateAdd(b.CreateMul(word.row, b.getInt32(uint32_t(to.strides[0]))),
                               b.CreateMul(word.column, b.getInt32(element)));
    Value *shared = to.address(b, to.swizzled(b, place), word.rowsBefore * to.strides[0]);
    Value *stride = from.view.dims[0].stride;
    Value *column = b.CreateZExt(word.column, b.getInt64Ty());
    Value *mine = nullptr, *valid = nullptr;
    if (from.rows) {
      const Row row = existing(from, picked ? picked : numberOfWord(from, shape, number));
      mine = b.CreateAdd(b.CreateMul(row.number, stride), column);
      valid = validBytes(from, row, word.column, unsigned(ir::kSharedWordBytes / element));
    } else {
      const Row row = rowOf(from, b.CreateAdd(word.row, b.getInt32(word.rowsBefore)));
      valid = validBytes(from, row, word.column, unsigned(ir::kSharedWordBytes / element));
      // The thread's part by itself: it is the same in each iteration.
      mine = b.CreateAdd(b.CreateMul(b.CreateZExt(word.row, b.getInt64Ty()), stride), column);
      mine = b.CreateAdd(mine, b.CreateMul(stride, b.getInt64(word.rowsBefore)));
    }
    llvm::Type *type = memoryType(b.getContext(), from.dtype);
    copies_.copy(b, shared, b.CreateGEP(type, from.base, mine), unsigned(ir::kSharedWordBytes),
                 valid);
  };
  if (word.isInside)
    return one();
  const auto total = uint32_t(shape[0] * shape[1] * element / ir::kSharedWordBytes);
  body_.when(b.CreateICmpULT(body_.thread(), b.getInt32(total - number * body_.threads_)),
             "copy.last", one);
}

void MultistageLoop::eachOfThread(int64_t count, llvm::function_ref<void(Value *)> body) {
  const int64_t threads = body_.threads_;
  body_.loop(b.getInt64(llvm::divideCeil(count, threads)), "copy.each", [&](Value *round) {
    Value *number = b.CreateAdd(body_.thread(), b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()),
                                                            b.getInt32(uint32_t(threads))));
    if (count % threads == 0)
      return body(number);
    body_.when(b.CreateICmpULT(number, b.getInt32(uint32_t(count))), "copy.one",
               [&] { body(number); });
  });
}

void MultistageLoop::copyNarrow(const Source &from, const SharedTile &to,
                                llvm::ArrayRef<int64_t> shape, unsigned bytes) {
  const unsigned element = dtypeBytes(from.dtype);
  const unsigned each = bytes / element;
  const auto inRow = uint32_t(shape[1] / each);
  eachOfThread(shape[0] * inRow, [&](Value *number) {
    Value *row = b.CreateUDiv(number, b.getInt32(inRow));
    Value *column = b.CreateMul(b.CreateURem(number, b.getInt32(inRow)), b.getInt32(each));
    Value *place = b.CreateAdd(b.CreateMul(row, b.getInt32(uint32_t(to.strides[0]))),
                               b.CreateMul(column, b.getInt32(element)));
    const Row source = rowOf(from, row);
    Value *at[] = {source.number, b.CreateZExt(column, b.getInt64Ty())};
    Value *global =
        b.CreateAddrSpaceCast(body_.views().address(from.view, at), b.getPtrTy(Device::kGlobal));
    copies_.copy(b, to.address(b, to.swizzled(b, place), 0), global, bytes,
                 validBytes(from, source, column, each));
  });
}

/// By loads and stores, some loads at once.
void MultistageLoop::copyElements(const Source &from, const SharedTile &to,
                                  llvm::ArrayRef<int64_t> shape) {
  constexpr int64_t kAtOnce = 8;
  const unsigned element = dtypeBytes(from.dtype);
  const int64_t threads = body_.threads_, total = shape[0] * shape[1];
  llvm::Type *type = memoryType(b.getContext(), from.dtype);
  body_.loop(
      b.getInt64(llvm::divideCeil(total, threads * kAtOnce)), "copy.some", [&](Value *round) {
        Value *begin = b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()),
                                   b.getInt32(uint32_t(threads * kAtOnce)));
        llvm::SmallVector<Value *, kAtOnce> values, numbers, places;
        for (int64_t i = 0; i < kAtOnce; ++i) {
          Value *number =
              b.CreateAdd(b.CreateAdd(begin, b.getInt32(uint32_t(i * threads))), body_.thread());
          Value *row = b.CreateUDiv(number, b.getInt32(uint32_t(shape[1])));
          Value *column = b.CreateURem(number, b.getInt32(uint32_t(shape[1])));
          Value *place = b.CreateAdd(b.CreateMul(row, b.getInt32(uint32_t(to.strides[0]))),
                                     b.CreateMul(column, b.getInt32(element)));
          // Rows after the tile's last are after the window, too; none of them is picked.
          Value *tileRow = row;
          if (from.rows)
            tileRow = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, row,
                                              b.getInt32(uint32_t(shape[0] - 1)));
          const Row source = rowOf(from, tileRow);
          Value *at[] = {source.number, b.CreateZExt(column, b.getInt64Ty())};
          Value *address = b.CreateAddrSpaceCast(body_.views().address(from.view, at),
                                                 b.getPtrTy(Device::kGlobal));
          Value *exists = b.CreateIsNotNull(validBytes(from, source, column, 1));
          address = b.CreateSelect(exists, address, zeroBytes(b));
          values.push_back(b.CreateAlignedLoad(type, address, llvm::Align(element)));
          numbers.push_back(number);
          places.push_back(to.address(b, to.swizzled(b, place), 0));
        }
        for (int64_t i = 0; i < kAtOnce; ++i) {
          const auto store = [&] {
            b.CreateAlignedStore(values[i], places[i], llvm::Align(element));
          };
          if (total % (threads * kAtOnce) == 0)
            store();
          else
            body_.when(b.CreateICmpULT(numbers[i], b.getInt32(uint32_t(total))), "copy.element",
                       store);
        }
      });
}

} // namespace dtile::backend::gpu
