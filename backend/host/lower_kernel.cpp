// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel as the runtime sees it: prologue, the count and positions of each space, the expected
// counts of each signal, and the descriptor that names them.
#include "backend/host/host_module.h"

#include "backend/llvm/tile_order.h"
#include "backend/runtime/kernel_abi.h"
#include "frontend/base/check.h"

#include "llvm/ADT/StringSwitch.h"

#include <map>

namespace dtile::backend::host {

using ir::Op;
using ir::OpKind;

namespace {

// The ABI has its own enumerators, in the order of dtypes.def.
static_assert(int(DType::Bool) == DTILE_BOOL && int(DType::F8E4M3) == DTILE_F8E4M3 &&
              int(DType::F64) == DTILE_F64);

/// Reads arguments, checks declared sizes, obtains objects, and fills the frame.
class Prologue : public FrameFunction {
public:
  Prologue(HostModule &module, Frame &frame) : FrameFunction(module, &frame), filled_(frame) {}

  llvm::Function *lower(Op &kernel, llvm::StringRef name);

protected:
  Parts outside(ir::Value *) override { DTILE_UNREACHABLE("a prologue sees only its own values"); }
  llvm::Value *fact(OpKind kind) override;
  void lowerTargetOp(Op &op) override;

private:
  void lowerParam(Op &op);
  void lowerSignal(Op &op);
  void lowerScalar(Op &op);
  void lowerAssert(Op &op);
  [[nodiscard]] llvm::Value *sizes(Op &op);
  /// The prologue ends with 1 unless the condition holds.
  void require(llvm::Value *condition);
  void fillFrame();

  Frame &filled_;
  llvm::Value *launch_ = nullptr;
  llvm::Value *facts_[3] = {};
  llvm::BasicBlock *fail_ = nullptr;
};

llvm::Value *Prologue::fact(OpKind kind) {
  return facts_[kind == OpKind::Rank ? 0 : kind == OpKind::NumRanks ? 1 : 2];
}

llvm::Function *Prologue::lower(Op &kernel, llvm::StringRef name) {
  auto *type = llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getPtrTy()}, false);
  llvm::Function *function = host_.function(name, type);
  host_.debug.describe(*function, kernel);
  begin(function, 1);
  launch_ = function->getArg(0);
  fail_ = block("fail");
  host_.debug.moveTo(b, kernel);
  auto fact = [&](Runtime call) {
    llvm::Value *value = b.CreateCall(host_.runtime(call), {launch_});
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
    b.CreateAlignedStore(value, b.CreateConstGEP1_64(b.getInt8Ty(), frame_, offset),
                         llvm::Align(8));
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
}

void Prologue::require(llvm::Value *condition) {
  llvm::BasicBlock *next = block("checked");
  b.CreateCondBr(condition, next, fail_);
  b.SetInsertPoint(next);
}

llvm::Value *Prologue::sizes(Op &op) {
  llvm::Value *slot = stackSlot(llvm::ArrayType::get(b.getInt64Ty(), DTILE_MAX_RANK), "sizes");
  for (auto [d, size] : llvm::enumerate(op.operands()))
    b.CreateStore(scalar(size), b.CreateConstGEP1_64(b.getInt64Ty(), slot, d));
  return slot;
}

void Prologue::lowerParam(Op &op) {
  ir::Type type = op.result()->type();
  llvm::Value *position = b.getInt32(op.intAttr("param"));
  llvm::SmallVector<llvm::Value *, 4> extents;
  for (ir::Value *operand : op.operands())
    extents.push_back(scalar(operand));
  if (op.strAttr("mode") == "scratch") {
    llvm::Value *data = b.CreateCall(host_.runtime(Runtime::scratch),
                                     {launch_, position, b.getInt32(type.rank()), sizes(op)});
    require(b.CreateIsNotNull(data));
    set(op.result(), views_.contiguous(type, data, extents).parts());
    return;
  }
  llvm::Value *data = b.CreateCall(host_.runtime(Runtime::arg_data), {launch_, position});
  View view = views_.contiguous(type, data, extents);
  // Symmetric objects are contiguous.
  if (op.strAttr("mode") != "symm")
    for (auto [d, dim] : llvm::enumerate(view.dims))
      dim.stride =
          b.CreateCall(host_.runtime(Runtime::arg_stride), {launch_, position, b.getInt32(d)});
  set(op.result(), view.parts());
}

void Prologue::lowerSignal(Op &op) {
  ir::Type type = op.result()->type();
  llvm::SmallVector<llvm::Value *, 4> extents;
  for (ir::Value *operand : op.operands())
    extents.push_back(scalar(operand));
  llvm::Value *data =
      b.CreateCall(host_.runtime(Runtime::signal),
                   {launch_, b.getInt32(op.intAttr("param")), b.getInt32(type.rank()), sizes(op)});
  require(b.CreateIsNotNull(data));
  set(op.result(), views_.contiguousCells(type, data, extents).parts());
}

void Prologue::lowerScalar(Op &op) {
  const DType type = op.result()->type().elementOrIndex();
  llvm::Value *slot = stackSlot(b.getInt64Ty(), "scalar");
  b.CreateStore(b.getInt64(0), slot);
  b.CreateCall(host_.runtime(Runtime::arg_scalar),
               {launch_, b.getInt32(op.intAttr("param")), slot});
  llvm::Value *value = b.CreateLoad(memoryType(context(), type), slot);
  set(op.result(), {arith_.fromMemory(type, value)});
}

void Prologue::lowerTargetOp(Op &op) {
  switch (op.kind()) {
  case OpKind::LaunchDim:
    set(op.result(),
        {b.CreateCall(host_.runtime(Runtime::arg_dim),
                      {launch_, b.getInt32(op.intAttr("param")), b.getInt32(op.intAttr("dim"))})});
    return;
  case OpKind::LaunchCheck: {
    llvm::Value *bad =
        b.CreateCall(host_.runtime(Runtime::check_dim),
                     {launch_, b.getInt32(op.intAttr("param")), b.getInt32(op.intAttr("dim")),
                      scalar(op.operand(0)), scalar(op.operand(1))});
    return require(b.CreateIsNull(bad));
  }
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

/// Fills a descriptor's fields.
class Descriptor {
public:
  Descriptor(HostModule &module, Op &kernel)
      : m_(module), kernel_(kernel), name_(kernel.strAttr("name")) {}
  void emit(const Frame &frame, llvm::Function *prologue);

private:
  [[nodiscard]] llvm::Constant *i32(int64_t value) {
    return llvm::ConstantInt::getSigned(llvm::Type::getInt32Ty(m_.context()), value);
  }
  [[nodiscard]] llvm::Constant *i64(int64_t value) {
    return llvm::ConstantInt::getSigned(llvm::Type::getInt64Ty(m_.context()), value);
  }
  [[nodiscard]] llvm::Type *pointer() { return llvm::PointerType::getUnqual(m_.context()); }
  [[nodiscard]] std::string symbol(llvm::StringRef part) {
    return ("dtile." + name_ + "." + part).str();
  }
  [[nodiscard]] llvm::Constant *param(Op &op);
  [[nodiscard]] llvm::Constant *space(const Frame &frame, Op &op);
  [[nodiscard]] llvm::Constant *signal(const Frame &frame, Op &op);
  [[nodiscard]] llvm::Function *count(const Frame &frame, Op &op, llvm::StringRef name);
  [[nodiscard]] llvm::Function *position(const Frame &frame, Op &op, llvm::StringRef name);
  [[nodiscard]] llvm::Constant *expected(const Frame &frame, Op &op);

  HostModule &m_;
  Op &kernel_;
  llvm::StringRef name_;
  llvm::SmallVector<llvm::StringRef> spaceNames_;
};

llvm::Constant *Descriptor::param(Op &op) {
  int kind = DTILE_PARAM_TENSOR;
  int mode = DTILE_MODE_VALUE;
  int dtype = DTILE_U64;
  ir::Type type = op.result()->type();
  if (op.is(OpKind::SignalParam)) {
    kind = DTILE_PARAM_SIGNAL;
    mode = DTILE_MODE_SYMM;
  } else if (op.is(OpKind::ScalarParam)) {
    kind = DTILE_PARAM_SCALAR;
    dtype = int(type.elementOrIndex());
  } else {
    dtype = int(type.dtype());
    mode = llvm::StringSwitch<int>(op.strAttr("mode"))
               .Case("in", DTILE_MODE_IN)
               .Case("out", DTILE_MODE_OUT)
               .Case("inout", DTILE_MODE_INOUT)
               .Case("symm", DTILE_MODE_SYMM)
               .Case("scratch", DTILE_MODE_SCRATCH);
  }
  return llvm::ConstantStruct::get(m_.abi.param,
                                   {m_.string(op.strAttr("name")), i32(kind), i32(mode), i32(dtype),
                                    i32(type.rank()), i32(op.boolAttrOr("zero", false)),
                                    i32(op.intAttrOr("copies", 1))});
}

llvm::Function *Descriptor::count(const Frame &frame, Op &op, llvm::StringRef name) {
  FrameFunction f(m_, &frame);
  llvm::IRBuilder<> &b = f.builder();
  llvm::Function *function =
      m_.function(name, llvm::FunctionType::get(b.getInt64Ty(), {b.getPtrTy()}, false));
  f.begin(function, 0);
  llvm::Value *total = b.getInt64(1);
  for (llvm::Value *blocks : blockCounts(f, op))
    total = b.CreateMul(total, blocks);
  b.CreateRet(total);
  f.end();
  return function;
}

llvm::Function *Descriptor::position(const Frame &frame, Op &op, llvm::StringRef name) {
  /// Lets `rank` be read from the frame.
  struct Function : FrameFunction {
    using FrameFunction::fact;
    using FrameFunction::FrameFunction;
  };
  Function f(m_, &frame);
  llvm::IRBuilder<> &b = f.builder();
  auto *type =
      llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty(), b.getPtrTy()}, false);
  llvm::Function *function = m_.function(name, type);
  f.begin(function, 0);
  llvm::SmallVector<llvm::Value *, 4> at =
      positions(f, op, f.fact(OpKind::Rank), function->getArg(1));
  for (auto [d, value] : llvm::enumerate(at))
    b.CreateStore(value, b.CreateConstGEP1_64(b.getInt64Ty(), function->getArg(2), d));
  b.CreateRetVoid();
  f.end();
  return function;
}

llvm::Constant *Descriptor::space(const Frame &frame, Op &op) {
  llvm::StringRef name = op.strAttr("name");
  int64_t afterAll = -1;
  if (op.hasAttr("after_all")) {
    auto it = llvm::find(spaceNames_, op.strAttr("after_all"));
    DTILE_CHECK(it != spaceNames_.end(), "after_all names an earlier space");
    afterAll = it - spaceNames_.begin();
  }
  std::string prefix = symbol(name.empty() ? llvm::StringRef("body") : name);
  LoweredBody body = lowerBody(m_, frame, op, prefix);
  llvm::SmallVector<llvm::Constant *> vars;
  for (const std::string &var : op.strsAttr("vars"))
    vars.push_back(m_.string(var));
  llvm::Constant *fields[] = {m_.string(name),
                              i32(ir::spaceDims(op)),
                              i32(afterAll),
                              i32(op.boolAttrOr("ordered", false)),
                              i32(op.intAttrOr("programs", 0)),
                              m_.array(prefix + ".vars", pointer(), vars),
                              count(frame, op, prefix + ".count"),
                              position(frame, op, prefix + ".position"),
                              i64(body.workspaceBytes),
                              body.function};
  spaceNames_.push_back(name);
  return llvm::ConstantStruct::get(m_.abi.space, fields);
}

llvm::Constant *Descriptor::expected(const Frame &frame, Op &op) {
  if (op.body().empty())
    return llvm::ConstantPointerNull::get(llvm::PointerType::getUnqual(m_.context()));
  FrameFunction f(m_, &frame);
  llvm::IRBuilder<> &b = f.builder();
  llvm::Function *function =
      m_.function(symbol((op.strAttr("name") + ".expected").str()),
                  llvm::FunctionType::get(b.getInt64Ty(), {b.getPtrTy(), b.getInt64Ty()}, false));
  m_.debug.describe(*function, op);
  f.begin(function, 0);
  m_.debug.moveTo(b, op);
  llvm::Value *cell = function->getArg(1);
  llvm::ArrayRef<ir::Value *> at = op.body().arguments();
  SignalCells cells = f.cells(op.result());
  for (size_t d = at.size(); d-- > 0;) {
    llvm::Value *digit = d == 0 ? cell : b.CreateURem(cell, cells.dims[d].size);
    f.set(at[d], {digit});
    if (d > 0)
      cell = b.CreateUDiv(cell, cells.dims[d].size);
  }
  f.lowerBlock(op.body());
  b.CreateRet(f.scalar(op.body().terminator()->operand(0)));
  f.end();
  return function;
}

llvm::Constant *Descriptor::signal(const Frame &frame, Op &op) {
  return llvm::ConstantStruct::get(m_.abi.signal, {i32(op.intAttr("param")), expected(frame, op)});
}

void Descriptor::emit(const Frame &frame, llvm::Function *prologue) {
  std::map<int64_t, llvm::Constant *> byPosition;
  llvm::SmallVector<llvm::Constant *> spaces;
  llvm::SmallVector<llvm::Constant *> signals;
  for (Op &op : kernel_.body().ops()) {
    if (op.is(OpKind::Param) || op.is(OpKind::ScalarParam) || op.is(OpKind::SignalParam))
      byPosition[op.intAttr("param")] = param(op);
    if (op.is(OpKind::SignalParam))
      signals.push_back(signal(frame, op));
    if (op.is(OpKind::Space))
      spaces.push_back(space(frame, op));
  }
  llvm::SmallVector<llvm::Constant *> params;
  for (auto [position, value] : byPosition)
    params.push_back(value);
  llvm::StringRef file;
  if (m_.source.sources() && kernel_.loc().isValid())
    file = m_.source.sources()->presumed(kernel_.loc()).file;
  const int64_t flags = kernel_.boolAttrOr("entry_barrier", false) ? DTILE_KERNEL_ENTRY_BARRIER : 0;
  llvm::Constant *fields[] = {i32(DTILE_ABI_VERSION),
                              i32(flags),
                              m_.string(name_),
                              m_.string(file),
                              i32(params.size()),
                              i32(spaces.size()),
                              i32(signals.size()),
                              i32(0),
                              m_.array(symbol("params"), m_.abi.param, params),
                              m_.array(symbol("spaces"), m_.abi.space, spaces),
                              m_.array(symbol("signals"), m_.abi.signal, signals),
                              i64(frame.bytes()),
                              prologue,
                              i32(0),
                              i32(0),
                              llvm::ConstantPointerNull::get(
                                  llvm::PointerType::getUnqual(m_.context()))};
  auto *descriptor = new llvm::GlobalVariable(
      m_.module, m_.abi.kernel, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
      llvm::ConstantStruct::get(m_.abi.kernel, fields), ("dtile_kernel_" + name_).str());
  descriptor->setAlignment(llvm::Align(8));
}

} // namespace

llvm::SmallVector<llvm::Value *, 4> blockCounts(FrameFunction &f, Op &space) {
  llvm::SmallVector<llvm::Value *, 4> counts;
  for (unsigned d = 0; d < ir::spaceDims(space); ++d)
    counts.push_back(emitBlockCount(f.builder(), f.scalar(space.operand(3 * d)),
                                    f.scalar(space.operand(3 * d + 1)),
                                    f.scalar(space.operand(3 * d + 2))));
  return counts;
}

llvm::SmallVector<llvm::Value *, 4> positions(FrameFunction &f, Op &space, llvm::Value *rank,
                                              llvm::Value *linear) {
  llvm::IRBuilder<> &b = f.builder();
  llvm::SmallVector<llvm::Value *, 4> result =
      emitTileOrder(b, ir::TileOrder::fromSpace(space), blockCounts(f, space), rank, linear);
  for (auto [d, block] : llvm::enumerate(result))
    block = b.CreateAdd(f.scalar(space.operand(3 * d)),
                        b.CreateMul(block, f.scalar(space.operand(3 * d + 2))));
  return result;
}

void lowerKernel(HostModule &module, Op &kernel) {
  Frame frame(kernel);
  std::string name = ("dtile." + kernel.strAttr("name") + ".prologue").str();
  llvm::Function *prologue = Prologue(module, frame).lower(kernel, name);
  Descriptor(module, kernel).emit(frame, prologue);
}

} // namespace dtile::backend::host
