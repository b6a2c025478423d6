// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Addresses of a tile's elements, and which of them exist.
#include "backend/gpu/bodies/memory/tile_access.h"

namespace dtile::backend::gpu {

using ir::Layout;

namespace {

/// Smaller tiles do not decide how a launch is.
constexpr int64_t kLeastBytes = 512;

llvm::Value *both(llvm::IRBuilder<> &b, llvm::Value *x, llvm::Value *y) {
  return x ? b.CreateAnd(x, y) : y;
}

} // namespace

TileInfo::Run TileAccess::runOf(BodyLowering &body, const TileInfo &info, DType dtype,
                                unsigned most) {
  const auto limit = unsigned(body.gpu().device.facts().accessBytes);
  TileInfo::Run run = info.longestRun();
  run.length = std::min({run.length, std::max(1u, limit / dtypeBytes(dtype)), most});
  return run;
}

TileAccess::TileAccess(BodyLowering &body, const View &view, const TileInfo &info, unsigned most)
    : run(runOf(body, info, view.type.dtype(), most)), b(body.builder()), view_(view) {
  const DType dtype = view.type.dtype();
  element_ = memoryType(b.getContext(), dtype);
  bytes_ = dtypeBytes(dtype);

  base_ = b.CreateAddrSpaceCast(view.data, b.getPtrTy(Device::kGlobal));
  llvm::Value *offset = b.getInt64(0);
  llvm::SmallVector<llvm::Value *, 4> low;
  for (auto [d, dim] : llvm::enumerate(view.dims)) {
    llvm::Value *position = body.threadPosition(info.layout, unsigned(d));
    offset = b.CreateAdd(offset, b.CreateMul(b.CreateZExt(position, b.getInt64Ty()), dim.stride));
    const auto [begin, count] = body.existing(dim, info.shape[d]);
    low.push_back(begin);
    first_.push_back(b.CreateSub(position, begin));
    step_.push_back(b.CreateMul(dim.stride, b.getInt64(bytes_)));
    span_.push_back(count);
    if (!info.overhangs(unsigned(d)))
      whole = both(b, whole, b.CreateICmpEQ(count, b.getInt32(uint32_t(info.shape[d]))));
    else
      whole = b.getFalse();
  }
  base_ = b.CreateGEP(element_, base_, offset);
  if (run.length == 1)
    return;
  // One number whose low bits say whether anything is out of step.
  const uint64_t size = uint64_t(run.length) * bytes_;
  llvm::Value *sum = b.CreatePtrToInt(view.data, b.getInt64Ty());
  for (auto [d, dim] : llvm::enumerate(view.dims)) {
    if (d != run.dim) {
      if (info.extent(unsigned(d)) > 1)
        sum = b.CreateOr(sum, step_[d]);
      continue;
    }
    llvm::Value *edges = b.CreateOr(low[d], b.CreateAdd(low[d], span_[d]));
    sum = b.CreateOr(sum, b.CreateMul(b.CreateZExt(edges, b.getInt64Ty()), b.getInt64(bytes_)));
    isDense = b.CreateICmpEQ(dim.stride, b.getInt64(1));
  }
  llvm::Value *rest = b.CreateAnd(sum, b.getInt64(size - 1));
  aligned = b.CreateAnd(isDense, b.CreateICmpEQ(rest, b.getInt64(0)));
  if (llvm::product_of(info.shape, int64_t(bytes_)) >= kLeastBytes)
    body.noteWholeWords(wholeWords(info, low));
}

WholeWords::Access TileAccess::wholeWords(const TileInfo &info,
                                          llvm::ArrayRef<llvm::Value *> low) const {
  const unsigned ofRun = llvm::Log2_32(run.length), ofWord = ofRun + llvm::Log2_32(bytes_);
  WholeWords::Access access{aligned, {{low[run.dim], ofRun}, {span_[run.dim], ofRun}}, {}};
  access.stride = view_.dims[run.dim].stride;
  access.multiples.push_back({view_.data, ofWord});
  for (unsigned d = 0; d < view_.dims.size(); ++d)
    if (d != run.dim && info.extent(d) > 1)
      access.multiples.push_back({step_[d], ofWord});
  return access;
}

void TileAccess::beginWay() {
  addresses_.clear();
  last_.clear();
  exist_.clear();
}

llvm::Value *TileAccess::address(const Layout::Position &at, bool inRun) {
  // Each dimension is walked step by step, so that few multiples of its stride are needed.
  Layout::Position reached{};
  llvm::Value *address = base_;
  for (unsigned d = 0; d < view_.dims.size(); ++d) {
    if (at[d] == 0 || (inRun && d == run.dim))
      continue;
    const Layout::Position from = reached;
    reached[d] = at[d];
    llvm::Value *&known = addresses_[reached];
    if (!known) {
      Reached &last = last_.try_emplace({d, from}, Reached{0, address}).first->second;
      llvm::Value *bytes = b.CreateMul(step_[d], b.getInt64(at[d] - last.coordinate));
      known = b.CreateGEP(b.getInt8Ty(), last.address, bytes);
      last = {at[d], known};
    }
    address = known;
  }
  const int32_t along = inRun ? at[run.dim] : 0;
  return along == 0 ? address : b.CreateConstGEP1_64(element_, address, uint64_t(along));
}

llvm::Value *TileAccess::exists(const Layout::Position &at) {
  llvm::Value *all = nullptr;
  for (unsigned d = 0; d < view_.dims.size(); ++d) {
    llvm::Value *&known = exist_[{d, at[d]}];
    if (!known)
      known = b.CreateICmpULT(b.CreateAdd(first_[d], b.getInt32(uint32_t(at[d]))), span_[d]);
    all = both(b, all, known);
  }
  return all ? all : b.getTrue();
}

TileAccess::Part TileAccess::existingOfRun(const Layout::Position &at) const {
  llvm::SmallVector<llvm::Value *, 4> positions;
  for (unsigned d = 0; d < view_.dims.size(); ++d)
    positions.push_back(b.getInt32(uint32_t(at[d])));
  return existingOfRun(positions);
}

TileAccess::Part TileAccess::existingOfRun(llvm::ArrayRef<llvm::Value *> at) const {
  const auto ofRun = [&](llvm::Value *x) {
    x = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, b.getInt32(0));
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, b.getInt32(run.length));
  };
  Part part{};
  llvm::Value *isInside = b.getTrue();
  for (unsigned d = 0; d < view_.dims.size(); ++d) {
    llvm::Value *position = b.CreateAdd(first_[d], at[d]);
    if (d != run.dim)
      isInside = b.CreateAnd(isInside, b.CreateICmpULT(position, span_[d]));
    else
      part = {ofRun(b.CreateNeg(position)), ofRun(b.CreateSub(span_[d], position))};
  }
  part.end = b.CreateSelect(isInside, part.end, b.getInt32(0));
  return part;
}

llvm::Value *TileAccess::address(llvm::ArrayRef<llvm::Value *> at) const {
  llvm::Value *offset = b.getInt64(0);
  for (auto [position, step] : llvm::zip_equal(at, step_))
    offset = b.CreateAdd(offset, b.CreateMul(b.CreateZExt(position, b.getInt64Ty()), step));
  return b.CreateGEP(b.getInt8Ty(), base_, offset);
}

llvm::Value *TileAccess::exists(llvm::ArrayRef<llvm::Value *> at) const {
  llvm::Value *all = nullptr;
  for (auto [d, position] : llvm::enumerate(at))
    all = both(b, all, b.CreateICmpULT(b.CreateAdd(first_[d], position), span_[d]));
  return all ? all : b.getTrue();
}

void GroupLoop::run(Body body) {
  llvm::LLVMContext &context = b.getContext();
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::Function *function = before->getParent();
  llvm::BasicBlock *inside = llvm::BasicBlock::Create(context, "groups", function);
  llvm::BasicBlock *after = llvm::BasicBlock::Create(context, "groups.end", function);
  b.CreateBr(inside);
  b.SetInsertPoint(inside);
  llvm::PHINode *group = b.CreatePHI(b.getInt32Ty(), 2);
  group->addIncoming(b.getInt32(0), before);
  llvm::SmallVector<llvm::Value *, 4> at;
  for (size_t d = 0; d < rank_; ++d)
    at.push_back(b.getInt32(uint32_t(positions_.front()[d])));
  for (size_t bit = 1; bit < positions_.size(); bit *= 2) {
    llvm::Value *isSet = b.CreateIsNotNull(b.CreateAnd(group, b.getInt32(uint32_t(bit))));
    for (size_t d = 0; d < rank_; ++d)
      if (const int32_t step = positions_[bit][d] - positions_.front()[d])
        at[d] =
            b.CreateAdd(at[d], b.CreateSelect(isSet, b.getInt32(uint32_t(step)), b.getInt32(0)));
  }
  body(group, at);
  llvm::Value *next = b.CreateAdd(group, b.getInt32(1));
  group->addIncoming(next, b.GetInsertBlock());
  llvm::BranchInst *back =
      b.CreateCondBr(b.CreateICmpULT(next, b.getInt32(uint32_t(positions_.size()))), inside, after);
  llvm::MDNode *whole =
      llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
  llvm::MDNode *loop = llvm::MDNode::getDistinct(context, {nullptr, whole});
  loop->replaceOperandWith(0, loop);
  back->setMetadata(llvm::LLVMContext::MD_loop, loop);
  b.SetInsertPoint(after);
}

} // namespace dtile::backend::gpu
