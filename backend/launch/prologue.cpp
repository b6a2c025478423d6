// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prologues: a launch's arguments become a frame. One prologue a target: on devices scratch objects
// and signals are places of device memory that keep their own turns and counts (device_abi.h).
#include "backend/launch/frame.h"

#include "backend/runtime/device_abi.h"
#include "backend/runtime/kernel_abi.h"
#include "frontend/base/check.h"
#include "ir/analysis/clauses.h"

#include <cstddef>

namespace dtile::backend::launch {

using ir::Op;
using ir::OpKind;

namespace {

static_assert(offsetof(dtile_device_object, data) == 0 && offsetof(dtile_device_cells, cells) == 0);
// The ABI has its own enumerators, in the order of dtypes.def.
static_assert(int(DType::Bool) == DTILE_BOOL && int(DType::F8E4M3) == DTILE_F8E4M3 &&
              int(DType::F64) == DTILE_F64);

/// Reads arguments, checks declared sizes, obtains objects, and fills the frame.
class Prologue : public FrameFunction {
public:
  Prologue(LaunchModule &module, Frame &frame) : FrameFunction(module, &frame), filled_(frame) {}

  llvm::Function *lower(llvm::StringRef name);

protected:
  Parts outside(ir::Value *) override { DTILE_UNREACHABLE("a prologue sees only its own values"); }
  llvm::Value *fact(OpKind kind) override;
  void lowerTargetOp(Op &op) override;

private:
  void lowerParam(Op &op);
  void lowerSignal(Op &op);
  void lowerScalar(Op &op);
  void lowerRequire(Op &op);
  /// i1: whether arithmetic of integers in its condition leaves its type.
  [[nodiscard]] llvm::Value *overflows(Op &require);
  void lowerElements(Op &op);
  [[nodiscard]] llvm::Value *sizes(Op &op);
  [[nodiscard]] bool isForDevice() const { return filled_.kind() == FrameKind::Device; }
  [[nodiscard]] llvm::Value *frameAddress(int64_t offset);
  /// Has the runtime fill the object of a scratch or signal parameter; gives where it begins.
  [[nodiscard]] llvm::Value *deviceObject(Op &op, Runtime call);
  void makeTensorMap(const Frame::TensorMap &map);
  /// i1: the folded maps can be used. Fills what the frame says of them.
  [[nodiscard]] llvm::Value *makeFoldedMaps(const Frame::TensorMap &map, const View &view);
  /// i1: it can be used. Writes a tensor map to `offset`.
  [[nodiscard]] llvm::Value *encodeMap(const Frame::TensorMap &map, int64_t offset,
                                       llvm::Value *data, llvm::ArrayRef<llvm::Value *> sizes,
                                       llvm::ArrayRef<llvm::Value *> strides,
                                       llvm::ArrayRef<int32_t> box, int32_t swizzle);
  /// The data of a copy of a scratch object; else the tensor's.
  [[nodiscard]] llvm::Value *dataOfCopy(const Frame::TensorMap &map, llvm::Value *data,
                                        int64_t copy);
  /// The prologue ends with 1 unless the condition holds.
  void require(llvm::Value *condition);
  void fillFrame();

  Frame &filled_;
  llvm::Value *handle_ = nullptr;
  llvm::Value *facts_[3] = {};
  llvm::BasicBlock *fail_ = nullptr;
};

llvm::Value *Prologue::fact(OpKind kind) {
  return facts_[kind == OpKind::Rank ? 0 : kind == OpKind::NumRanks ? 1 : 2];
}

llvm::Function *Prologue::lower(llvm::StringRef name) {
  Op &kernel = filled_.kernel();
  auto *type = llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getPtrTy()}, false);
  llvm::Function *function = launch_.function(name, type);
  launch_.debug.describe(*function, kernel);
  begin(function, 1);
  handle_ = function->getArg(0);
  fail_ = block("fail");
  launch_.debug.moveTo(b, kernel);
  auto fact = [&](Runtime call) {
    llvm::Value *value = b.CreateCall(launch_.runtime(call), {handle_});
    return b.CreateSExt(value, b.getInt64Ty());
  };
  facts_[0] = fact(Runtime::rank);
  facts_[1] = fact(Runtime::num_ranks);
  facts_[2] = fact(Runtime::epoch);
  lowerBlock(kernel.body());
  fillFrame();
  b.CreateRet(b.getInt32(0));
  b.SetInsertPoint(fail_);
  b.CreateRet(b.getInt32(1));
  end();
  return function;
}

void Prologue::fillFrame() {
  auto store = [&](llvm::Value *value, int64_t offset) {
    b.CreateAlignedStore(value, frameAddress(offset), llvm::Align(8));
  };
  store(facts_[0], Frame::kRank);
  store(facts_[1], Frame::kNumRanks);
  store(facts_[2], Frame::kEpoch);
  llvm::DenseMap<llvm::Value *, int64_t> stored = {
      {facts_[0], Frame::kRank}, {facts_[1], Frame::kNumRanks}, {facts_[2], Frame::kEpoch}};
  for (ir::Value *value : filled_.captured()) {
    llvm::SmallVector<Frame::Part, 4> places;
    for (llvm::Value *part : parts(value)) {
      if (auto *constant = llvm::dyn_cast<llvm::Constant>(part)) {
        places.push_back({constant, 0});
        continue;
      }
      auto [it, isNew] = stored.try_emplace(part, 0);
      if (isNew) {
        it->second = filled_.allocate();
        store(part, it->second);
      }
      places.push_back({nullptr, it->second});
    }
    filled_.place(value, places);
  }
  filled_.placeFoldedMaps();
  for (const auto &map : filled_.tensorMaps())
    makeTensorMap(*map);
}

void Prologue::require(llvm::Value *condition) {
  llvm::BasicBlock *next = block("checked");
  b.CreateCondBr(condition, next, fail_);
  b.SetInsertPoint(next);
}

llvm::Value *Prologue::sizes(Op &op) {
  llvm::Value *slot = stackSlot(llvm::ArrayType::get(b.getInt64Ty(), DTILE_MAX_RANK), "sizes");
  llvm::SmallVector<llvm::Value *, 4> all;
  for (ir::Value *size : op.operands())
    all.push_back(scalar(size));
  if (op.is(OpKind::Param))
    all = scratchMemory(b, op, all);
  for (auto [d, size] : llvm::enumerate(all))
    b.CreateStore(size, b.CreateConstGEP1_64(b.getInt64Ty(), slot, d));
  return slot;
}

llvm::Value *Prologue::frameAddress(int64_t offset) {
  return b.CreateConstGEP1_64(b.getInt8Ty(), frame_, offset);
}

llvm::Value *Prologue::deviceObject(Op &op, Runtime call) {
  llvm::Value *object = frameAddress(filled_.object(op));
  llvm::Value *bad = b.CreateCall(launch_.runtime(call),
                                  {handle_, b.getInt32(op.get(ir::attr::param)),
                                   b.getInt32(op.result()->type().rank()), sizes(op), object});
  require(b.CreateIsNull(bad));
  // The first field of both kinds.
  return b.CreateLoad(b.getPtrTy(), object);
}

llvm::Value *Prologue::encodeMap(const Frame::TensorMap &map, int64_t offset, llvm::Value *data,
                                 llvm::ArrayRef<llvm::Value *> sizes,
                                 llvm::ArrayRef<llvm::Value *> strides, llvm::ArrayRef<int32_t> box,
                                 int32_t swizzle) {
  llvm::Type *i64s = llvm::ArrayType::get(b.getInt64Ty(), DTILE_MAX_RANK);
  llvm::Value *size = stackSlot(i64s, "map.size");
  llvm::Value *stride = stackSlot(i64s, "map.stride");
  llvm::Value *ofBox = stackSlot(llvm::ArrayType::get(b.getInt32Ty(), DTILE_MAX_RANK), "map.box");
  llvm::Value *usable = stackSlot(b.getInt64Ty(), "map.usable");
  for (unsigned d = 0; d < box.size(); ++d) {
    b.CreateStore(sizes[d], b.CreateConstGEP1_64(b.getInt64Ty(), size, d));
    b.CreateStore(strides[d], b.CreateConstGEP1_64(b.getInt64Ty(), stride, d));
    b.CreateStore(b.getInt32(uint32_t(box[d])), b.CreateConstGEP1_64(b.getInt32Ty(), ofBox, d));
  }
  b.CreateStore(b.getInt64(0), usable);
  const auto type =
      map.isTf32 ? unsigned(DTILE_MAP_TF32) : unsigned(map.param->result()->type().dtype());
  llvm::Value *bad = b.CreateCall(launch_.runtime(Runtime::tensor_map),
                                  {handle_, frameAddress(offset), data, b.getInt32(type),
                                   b.getInt32(uint32_t(box.size())), size, stride, ofBox,
                                   b.getInt32(uint32_t(swizzle)), usable});
  require(b.CreateIsNull(bad));
  return b.CreateIsNotNull(b.CreateLoad(b.getInt64Ty(), usable));
}

llvm::Value *Prologue::dataOfCopy(const Frame::TensorMap &map, llvm::Value *data, int64_t copy) {
  if (copy == 0)
    return data;
  llvm::Value *bytes = b.CreateLoad(
      b.getInt64Ty(), frameAddress(filled_.object(*map.param) +
                                   int64_t(offsetof(dtile_device_object, copy_bytes))));
  return b.CreateGEP(b.getInt8Ty(), data, b.CreateMul(bytes, b.getInt64(uint64_t(copy))));
}

void Prologue::makeTensorMap(const Frame::TensorMap &map) {
  const View view = this->view(map.param->result());
  DTILE_CHECK(view.dims.size() == map.box.size(), "a box has the tensor's dimensions");
  llvm::SmallVector<llvm::Value *, 4> sizes, strides;
  for (const ViewDimension &dim : view.dims) {
    sizes.push_back(dim.extent);
    strides.push_back(dim.stride);
  }
  llvm::Value *all = b.getTrue();
  for (int64_t copy = 0; copy < map.copies; ++copy)
    all = b.CreateAnd(all, encodeMap(map, map.offset + copy * Frame::kTensorMapBytes,
                                     dataOfCopy(map, view.data, copy), sizes, strides, map.box,
                                     map.swizzle));
  for (ir::Value *whole : map.wholes)
    all = b.CreateAnd(
        all, b.CreateIsNull(b.CreateSRem(scalar(whole), b.getInt64(uint64_t(map.wholeElements)))));
  const auto store = [&](llvm::Value *use) {
    b.CreateAlignedStore(use, frameAddress(map.usable), llvm::Align(8));
  };
  store(b.CreateSelect(all, b.getInt64(Frame::kWholeMap), b.getInt64(Frame::kNoMap)));
  if (map.folded.rows > 0)
    when(b.CreateNot(all), "folded", [&] {
      store(b.CreateSelect(makeFoldedMaps(map, view), b.getInt64(Frame::kFoldedMaps),
                           b.getInt64(Frame::kNoMap)));
    });
}

llvm::Value *Prologue::makeFoldedMaps(const Frame::TensorMap &map, const View &view) {
  constexpr int64_t kMapWordBytes = 16, kMostCoordinate = int64_t(1) << 31;
  const Frame::TensorMap::Folded &folded = map.folded;
  const auto number = [&](int64_t x) { return b.getInt64(uint64_t(x)); };
  const auto store = [&](llvm::Value *value, int64_t offset) {
    b.CreateAlignedStore(value, frameAddress(offset), llvm::Align(8));
  };
  const int64_t fold = map.wholeElements;
  const ViewDimension &rows = view.dims[folded.rowDim], &columns = view.dims.back();
  llvm::Value *fits = b.CreateAnd(b.CreateICmpSGT(rows.stride, number(0)),
                                  b.CreateICmpEQ(columns.stride, number(1)));
  llvm::Value *pitch = b.CreateSelect(fits, rows.stride, number(1));
  // All rows of the object, as a matrix of two dimensions.
  llvm::Value *count = rows.extent;
  for (unsigned d = 0; d + 1 < view.dims.size(); ++d) {
    if (d == folded.rowDim) {
      store(number(1), folded.rowsApart + int64_t(d) * Frame::kFrameWordBytes);
      continue;
    }
    const ViewDimension &dim = view.dims[d];
    llvm::Value *apart = b.CreateSDiv(dim.stride, pitch);
    llvm::Value *isWhole = b.CreateICmpEQ(b.CreateMul(apart, pitch), dim.stride);
    isWhole = b.CreateAnd(isWhole, b.CreateICmpSGE(apart, number(0)));
    fits = b.CreateAnd(fits, b.CreateOr(isWhole, b.CreateICmpEQ(dim.extent, number(1))));
    count = b.CreateAdd(count, b.CreateMul(b.CreateSub(dim.extent, number(1)), apart));
    store(apart, folded.rowsApart + int64_t(d) * Frame::kFrameWordBytes);
  }
  fits = b.CreateAnd(fits, b.CreateICmpSGT(count, number(0)));
  llvm::Value *rest = b.CreateURem(count, number(fold));
  llvm::Value *whole = b.CreateUDiv(count, number(fold));
  llvm::Value *hasRest = b.CreateIsNotNull(rest);
  store(pitch, folded.pitch);
  store(rest, folded.rest);
  llvm::Value *apart[] = {b.CreateMul(pitch, number(fold)), number(1)};
  const int32_t box[] = {folded.rows, folded.columns};
  for (int64_t copy = 0; copy < map.copies; ++copy) {
    llvm::Value *data = dataOfCopy(map, view.data, copy);
    llvm::Value *past = b.CreateAnd(b.CreatePtrToInt(data, b.getInt64Ty()), kMapWordBytes - 1);
    llvm::Value *before = b.CreateUDiv(past, number(kMapWordBytes / fold));
    llvm::Value *begin = b.CreateGEP(b.getInt8Ty(), data, b.CreateNeg(past));
    store(before, folded.before + copy * Frame::kFrameWordBytes);
    // Up to the last element of the last of so many rows.
    const auto width = [&](llvm::Value *count) {
      llvm::Value *rowsBefore = b.CreateMul(b.CreateSub(count, number(1)), pitch);
      return b.CreateAdd(b.CreateAdd(rowsBefore, columns.extent), before);
    };
    llvm::Value *last[] = {b.CreateAdd(whole, b.CreateZExt(hasRest, b.getInt64Ty())),
                           width(b.CreateSelect(hasRest, rest, number(fold)))};
    llvm::Value *isWhole = b.CreateIsNotNull(whole);
    llvm::Value *first[] = {b.CreateSelect(isWhole, whole, last[0]),
                            b.CreateSelect(isWhole, width(number(fold)), last[1])};
    fits = b.CreateAnd(fits, b.CreateICmpSLT(first[1], number(kMostCoordinate)));
    const int64_t ofCopy = copy * Frame::kTensorMapBytes;
    fits = b.CreateAnd(
        fits, encodeMap(map, map.offset + ofCopy, begin, first, apart, box, /*swizzle=*/0));
    fits = b.CreateAnd(
        fits, encodeMap(map, folded.offset + ofCopy, begin, last, apart, box, /*swizzle=*/0));
  }
  return fits;
}

void Prologue::lowerParam(Op &op) {
  ir::Type type = op.result()->type();
  llvm::Value *position = b.getInt32(op.get(ir::attr::param));
  llvm::SmallVector<llvm::Value *, 4> extents;
  for (ir::Value *operand : op.operands())
    extents.push_back(scalar(operand));
  if (op.get(ir::attr::mode) == ir::ParamMode::Scratch) {
    llvm::Value *data = isForDevice()
                            ? deviceObject(op, Runtime::device_scratch)
                            : b.CreateCall(launch_.runtime(Runtime::scratch),
                                           {handle_, position, b.getInt32(type.rank()), sizes(op)});
    if (!isForDevice())
      require(b.CreateIsNotNull(data));
    set(op.result(), scratchView(views_, b, op, data, extents).parts());
    return;
  }
  llvm::Value *data = b.CreateCall(launch_.runtime(Runtime::arg_data), {handle_, position});
  View view = views_.contiguous(type, data, extents);
  // Symmetric objects are contiguous.
  if (op.get(ir::attr::mode) != ir::ParamMode::Symm)
    for (auto [d, dim] : llvm::enumerate(view.dims))
      dim.stride =
          b.CreateCall(launch_.runtime(Runtime::arg_stride), {handle_, position, b.getInt32(d)});
  set(op.result(), view.parts());
}

void Prologue::lowerSignal(Op &op) {
  ir::Type type = op.result()->type();
  llvm::SmallVector<llvm::Value *, 4> extents;
  for (ir::Value *operand : op.operands())
    extents.push_back(scalar(operand));
  llvm::Value *data = nullptr;
  if (isForDevice()) {
    data = deviceObject(op, Runtime::device_signal);
  } else {
    data = b.CreateCall(
        launch_.runtime(Runtime::signal),
        {handle_, b.getInt32(op.get(ir::attr::param)), b.getInt32(type.rank()), sizes(op)});
    require(b.CreateIsNotNull(data));
  }
  set(op.result(), views_.contiguousCells(type, data, extents).parts());
}

void Prologue::lowerScalar(Op &op) {
  const DType type = op.result()->type().elementOrIndex();
  llvm::Value *slot = stackSlot(b.getInt64Ty(), "scalar");
  b.CreateStore(b.getInt64(0), slot);
  b.CreateCall(launch_.runtime(Runtime::arg_scalar),
               {handle_, b.getInt32(op.get(ir::attr::param)), slot});
  llvm::Value *value = b.CreateLoad(memoryType(context(), type), slot);
  set(op.result(), {arith_.fromMemory(type, value)});
}

/// The form of a sum, difference or product that also says whether it leaves its type.
static llvm::Intrinsic::ID checkedForm(const Op &op) {
  const bool isSigned = dtypeClass(op.result()->type().elementOrIndex()) == DTypeClass::Int;
  switch (op.kind()) {
  case OpKind::Add:
    return isSigned ? llvm::Intrinsic::sadd_with_overflow : llvm::Intrinsic::uadd_with_overflow;
  case OpKind::Sub:
    return isSigned ? llvm::Intrinsic::ssub_with_overflow : llvm::Intrinsic::usub_with_overflow;
  default:
    return isSigned ? llvm::Intrinsic::smul_with_overflow : llvm::Intrinsic::umul_with_overflow;
  }
}

llvm::Value *Prologue::overflows(Op &require) {
  llvm::Value *any = b.getFalse();
  for (Op *op : ir::arithmeticOf(require)) {
    llvm::Value *both =
        b.CreateBinaryIntrinsic(checkedForm(*op), scalar(op->operand(0)), scalar(op->operand(1)));
    any = b.CreateOr(any, b.CreateExtractValue(both, 1));
  }
  return any;
}

void Prologue::lowerRequire(Op &op) {
  std::string kinds;
  llvm::Type *i64 = b.getInt64Ty();
  llvm::Value *values =
      stackSlot(llvm::ArrayType::get(i64, std::max(1u, op.numOperands() - 1)), "values");
  for (unsigned i = 1; i < op.numOperands(); ++i) {
    const DType type = op.operand(i)->type().elementOrIndex();
    llvm::Value *value = scalar(op.operand(i));
    switch (dtypeClass(type)) {
    case DTypeClass::Bool:
      kinds += 'b';
      value = b.CreateZExt(value, i64);
      break;
    case DTypeClass::Int:
      kinds += 'i';
      value = b.CreateSExt(value, i64);
      break;
    case DTypeClass::UInt:
      kinds += 'u';
      value = b.CreateZExt(value, i64);
      break;
    case DTypeClass::Float:
      kinds += 'f';
      value = b.CreateBitCast(arith_.cast(type, DType::F64, value), i64);
      break;
    }
    b.CreateStore(value, b.CreateConstGEP1_64(i64, values, i - 1));
  }
  // What wraps around is not what the clause says.
  llvm::Value *holds = b.CreateAnd(scalar(op.operand(0)), b.CreateNot(overflows(op)));
  llvm::Value *isTrue = b.CreateZExt(holds, b.getInt32Ty());
  llvm::Value *bad = b.CreateCall(
      launch_.runtime(Runtime::require),
      {handle_, isTrue, launch_.string(ir::refusalOf(op)), launch_.string(kinds), values});
  require(b.CreateIsNull(bad));
}

/// Where it was asked for: elements of inputs are read one by one.
void Prologue::lowerElements(Op &op) {
  ir::ElementClause clause;
  if (!op.get(ir::attr::checked) || isForDevice() || !ir::decode(op, clause))
    return;
  llvm::Type *i64 = b.getInt64Ty();
  llvm::Value *position = stackSlot(llvm::ArrayType::get(i64, DTILE_MAX_RANK), "position");
  const bool isCompared = op.has(ir::attr::pred);
  for (unsigned i = 1; i + 1 < op.numOperands(); ++i)
    b.CreateStore(scalar(op.operand(i)), b.CreateConstGEP1_64(i64, position, i - 1));
  llvm::Value *bound = isCompared ? scalar(op.operand(op.numOperands() - 1)) : b.getInt64(0);
  const int64_t param = op.operand(0)->definingOp()->get(ir::attr::param);
  llvm::Value *bad = b.CreateCall(launch_.runtime(Runtime::check_elements),
                                  {handle_, b.getInt32(param), b.getInt32(int(clause.kind)),
                                   b.getInt32(int(clause.predicate)), position, bound,
                                   launch_.string(op.get(ir::attr::text))});
  require(b.CreateIsNull(bad));
}

void Prologue::lowerTargetOp(Op &op) {
  switch (op.kind()) {
  case OpKind::LaunchDim:
    set(op.result(), {b.CreateCall(launch_.runtime(Runtime::arg_dim),
                                   {handle_, b.getInt32(op.get(ir::attr::param)),
                                    b.getInt32(op.get(ir::attr::dim))})});
    return;
  case OpKind::LaunchCheck: {
    llvm::Value *bad = b.CreateCall(launch_.runtime(Runtime::check_dim),
                                    {handle_, b.getInt32(op.get(ir::attr::param)),
                                     b.getInt32(op.get(ir::attr::dim)), scalar(op.operand(0)),
                                     scalar(op.operand(1))});
    return require(b.CreateIsNull(bad));
  }
  case OpKind::LaunchRequire:
    // A rank does not see what the others pass.
    if (!op.get(ir::attr::replicated))
      lowerRequire(op);
    return;
  case OpKind::LaunchElements:
    return lowerElements(op);
  case OpKind::Param:
    return lowerParam(op);
  case OpKind::SignalParam:
    return lowerSignal(op);
  case OpKind::ScalarParam:
    return lowerScalar(op);
  case OpKind::Space:
    return;
  default:
    break;
  }
  // Tiles are computed in the spaces that use them.
  if (op.isPure() && op.numResults() == 1 && op.result()->type().isTile())
    return;
  giveUp(op, "cannot stand outside of a tile space");
}

} // namespace

llvm::Function *lowerPrologue(LaunchModule &module, Frame &frame, llvm::StringRef name) {
  return Prologue(module, frame).lower(name);
}

} // namespace dtile::backend::launch
