// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GPU function of a kernel: each program finds the space that it belongs to, runs that space's
// bodies, and moves epochs, turns and counts on for the next launch.
#include "backend/gpu/bodies/lower_body.h"
#include "backend/gpu/cluster_ops.h"
#include "backend/gpu/divided_bodies.h"
#include "backend/gpu/paired_bodies.h"
#include "backend/gpu/shared_memory_fit.h"
#include "backend/gpu/space_facts.h"
#include "backend/gpu/staged/lower_staged.h"

#include "backend/llvm/tile_order.h"
#include "frontend/base/check.h"
#include "ir/analysis/engine_copies.h"
#include "ir/analysis/occupancy.h"
#include "ir/core/tile_order.h"

#include "llvm/ADT/SetVector.h"

#include <cstddef>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// Everything around the bodies.
class KernelLowering : public KernelFunction {
public:
  KernelLowering(GpuModule &module, KernelScaffold &scaffold)
      : KernelFunction(module, scaffold), scaffold_(scaffold) {}

  void lower(llvm::StringRef entry);

private:
  void begin(llvm::StringRef entry);
  /// A field of the launch parameter, in the entry block.
  [[nodiscard]] llvm::Value *launchField(size_t offset, llvm::Type *type, llvm::StringRef name);
  void call(DeviceCall callee, llvm::ArrayRef<llvm::Value *> rest = {});
  [[nodiscard]] llvm::Value *objectField(const Op &param, size_t offset, llvm::Type *type) {
    return loadFrame(kernel_.layout->object(param) + int64_t(offset), type);
  }
  /// A launch that only begins another one (DTILE_DEVICE_BEGINS): moves the words on that the copy
  /// engine writes to cells, and ends.
  void beginForEngine();
  /// Programs make zeros of the copies that the next launch uses.
  void zeroNextCopies();
  void lowerSpaces();
  void lowerSpace(Op &space, int32_t number, llvm::Value *first, llvm::Value *end);
  /// Of a space whose bodies programs take: how many of this launch's have been taken.
  [[nodiscard]] llvm::Value *bodiesTaken(llvm::IRBuilder<> &at, int32_t space);
  /// What the next launch counts from.
  void finish();
  [[nodiscard]] bool isCounted() const;
  /// By all threads of so many programs, of which this one is number `program`; i64.
  void advanceSignals(llvm::ArrayRef<Op *> signals, llvm::Value *program, llvm::Value *programs);
  void advanceSignals(Op &signal, llvm::Value *first, llvm::Value *step);
  /// So many parts of a launch have ended.
  void advanceEpochs(llvm::Value *parts);
  [[nodiscard]] int32_t numberOf(llvm::StringRef space) const;
  [[nodiscard]] bool isAwaited(const Op &space) const;

  KernelScaffold &scaffold_;
  llvm::SmallVector<Op *, 4> spaces_;
};

llvm::Value *KernelLowering::launchField(size_t offset, llvm::Type *type, llvm::StringRef name) {
  llvm::IRBuilder<>::InsertPointGuard guard(b);
  b.SetInsertPoint(scaffold_.entry->getTerminator());
  b.SetCurrentDebugLocation({});
  llvm::Value *address =
      b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), kernel_.launch, int64_t(offset));
  llvm::LoadInst *load =
      b.CreateAlignedLoad(type, address, llvm::Align(type->isIntegerTy(32) ? 4 : 8), name);
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
  return load;
}

void KernelLowering::call(DeviceCall callee, llvm::ArrayRef<llvm::Value *> rest) {
  llvm::SmallVector<llvm::Value *, 4> all{kernel_.launch};
  llvm::append_range(all, rest);
  b.CreateCall(gpu_.call(callee), all);
}

void KernelLowering::begin(llvm::StringRef entry) {
  Op &kernel = *kernel_.kernel;
  const unsigned space = gpu_.device.parameterSpace();
  llvm::Type *pointer = llvm::PointerType::get(context(), space);
  llvm::Function *function =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer}, false),
                             llvm::GlobalValue::ExternalLinkage, entry, gpu_.module);
  function->setDoesNotThrow();
  const auto frameBytes =
      llvm::alignTo(uint64_t(kernel_.layout->bytes()), DTILE_DEVICE_FRAME_ALIGN);
  llvm::Type *types[] = {llvm::ArrayType::get(b.getInt8Ty(), sizeof(dtile_device_launch)),
                         llvm::ArrayType::get(b.getInt8Ty(), frameBytes)};
  const llvm::Align aligns[] = {llvm::Align(8), llvm::Align(DTILE_DEVICE_FRAME_ALIGN)};
  for (unsigned i = 0; i < 2; ++i) {
    function->addParamAttr(i, space == 0 ? llvm::Attribute::getWithByValType(context(), types[i])
                                         : llvm::Attribute::getWithByRefType(context(), types[i]));
    function->addParamAttr(i, llvm::Attribute::getWithAlignment(context(), aligns[i]));
    function->addParamAttr(i, llvm::Attribute::ReadOnly);
  }
  function->getArg(0)->setName("launch");
  function->getArg(1)->setName("frame");
  const int64_t programs = ir::residentPrograms(kernel, gpu_.device.registers(), kernel_.threads);
  gpu_.device.makeKernel(*function, kernel_.threads, unsigned(programs));
  gpu_.debug.describe(*function, kernel);

  scaffold_.function = function;
  scaffold_.entry = llvm::BasicBlock::Create(context(), "entry", function);
  auto *start = llvm::BasicBlock::Create(context(), "start", function);
  llvm::BranchInst::Create(start, scaffold_.entry);
  b.SetInsertPoint(scaffold_.entry->getTerminator());
  auto generic = [&](llvm::Argument *argument) -> llvm::Value * {
    return space == 0 ? argument : b.CreateAddrSpaceCast(argument, b.getPtrTy());
  };
  scaffold_.launch = generic(function->getArg(0));
  scaffold_.frame = generic(function->getArg(1));
  scaffold_.thread = gpu_.device.threadIndex(b);
  scaffold_.program = gpu_.device.programIndex(b);
  auto wide = [&](size_t offset, llvm::StringRef name) {
    return b.CreateSExt(launchField(offset, b.getInt32Ty(), name), b.getInt64Ty());
  };
  scaffold_.rank = wide(offsetof(dtile_device_launch, rank), "rank");
  scaffold_.ranks = wide(offsetof(dtile_device_launch, num_ranks), "ranks");
  // Not constant: the programs of the launch before have moved it on.
  llvm::Value *counters =
      launchField(offsetof(dtile_device_launch, kernel), b.getPtrTy(), "counters");
  static_assert(offsetof(dtile_device_kernel, ended) == 0);
  scaffold_.ended = b.CreateLoad(b.getInt64Ty(), counters, "ended");
  if (ir::usesCopyEngine(kernel))
    scaffold_.engine = launchField(offsetof(dtile_device_launch, engine), b.getInt32Ty(), "engine");
  if (!gpu_.areMapped) {
    scaffold_.sends =
        b.CreateAddrSpaceCast(b.CreateAlloca(b.getInt32Ty(), nullptr, "sends"), b.getPtrTy());
    b.CreateStore(b.getInt32(0), scaffold_.sends);
  }
  b.SetInsertPoint(start);
  gpu_.debug.moveTo(b, kernel);
}

void KernelLowering::lower(llvm::StringRef entry) {
  for (Op &op : kernel_.kernel->body().ops())
    if (op.is(OpKind::Space))
      spaces_.push_back(&op);
  if (spaces_.size() > DTILE_DEVICE_MAX_SPACES)
    gpu_.unsupported(*spaces_[DTILE_DEVICE_MAX_SPACES],
                     "is one of more than " + llvm::Twine(DTILE_DEVICE_MAX_SPACES) +
                         " spaces, which a kernel cannot have on this device");
  if (const int64_t room = kernel_.layout->room(); kernel_.layout->bytes() > room)
    gpu_.unsupported(*kernel_.kernel,
                     "has sizes, strides and pointers of " + llvm::Twine(kernel_.layout->bytes()) +
                         " bytes; a kernel of this device has room for " + llvm::Twine(room) +
                         ": pass fewer or smaller-dimensional tensors");
  begin(entry);
  b.CreateCall(gpu_.call(DeviceCall::start));
  if (mayMeet(*kernel_.kernel))
    call(DeviceCall::enter);
  if (kernel_.engine)
    beginForEngine();
  zeroNextCopies();
  lowerSpaces();
  finish();
  b.CreateRetVoid();
}

void KernelLowering::beginForEngine() {
  llvm::SetVector<Op *> signals;
  for (Op *space : spaces_)
    if (space->get(ir::attr::engine_copies))
      signals.insert_range(ir::signalsOfEngine(*space));
  llvm::Value *flags = launchField(offsetof(dtile_device_launch, flags), b.getInt32Ty(), "flags");
  llvm::BasicBlock *begins = block("begins"), *runs = block("runs");
  llvm::Value *isBeginning = b.CreateAnd(flags, b.getInt32(DTILE_DEVICE_BEGINS));
  b.CreateCondBr(b.CreateIsNotNull(isBeginning), begins, runs);
  b.SetInsertPoint(begins);
  when(b.CreateIsNull(kernel_.thread), "words", [&] {
    for (Op *signal : signals) {
      llvm::Value *since = objectField(*signal, offsetof(dtile_device_cells, since), b.getPtrTy());
      llvm::Value *word =
          b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), since, DTILE_DEVICE_LAUNCH_WORD);
      llvm::Value *launches = b.CreateAlignedLoad(b.getInt64Ty(), word, llvm::Align(8));
      b.CreateAlignedStore(b.CreateAdd(launches, b.getInt64(1)), word, llvm::Align(8));
    }
  });
  b.CreateRetVoid();
  b.SetInsertPoint(runs);
}

void KernelLowering::zeroNextCopies() {
  for (Op &op : kernel_.kernel->body().ops()) {
    if (!op.is(OpKind::Param) || !op.get(ir::attr::zero))
      continue;
    auto field = [&](size_t offset, llvm::Type *type) { return objectField(op, offset, type); };
    llvm::Value *copy = b.CreateURem(b.CreateAdd(scratchLaunches(op), b.getInt64(1)),
                                     b.getInt64(uint64_t(launch::scratchCopies(op))));
    llvm::Value *bytes = field(offsetof(dtile_device_object, copy_bytes), b.getInt64Ty());
    llvm::Value *data =
        b.CreateGEP(b.getInt8Ty(), field(offsetof(dtile_device_object, data), b.getPtrTy()),
                    b.CreateMul(copy, bytes));
    call(DeviceCall::zero, {data, bytes});
  }
}

// Spaces.

llvm::Value *KernelLowering::bodiesTaken(llvm::IRBuilder<> &at, int32_t space) {
  llvm::Value *progress = at.CreateMul(at.CreateAnd(epoch(at), at.getInt64(1)),
                                       at.getInt64(sizeof(dtile_device_progress)));
  const size_t first = offsetof(dtile_device_kernel, progress) +
                       offsetof(dtile_device_progress, bodies_taken) + sizeof(uint64_t) * space;
  return at.CreateInBoundsGEP(
      at.getInt8Ty(), launchField(offsetof(dtile_device_launch, kernel), at.getPtrTy(), "counters"),
      at.CreateAdd(progress, at.getInt64(first)));
}

int32_t KernelLowering::numberOf(llvm::StringRef space) const {
  auto it = llvm::find_if(spaces_, [&](Op *op) { return op->get(ir::attr::name) == space; });
  DTILE_CHECK(it != spaces_.end(), "after_all names an earlier space");
  return int32_t(it - spaces_.begin());
}

bool KernelLowering::isAwaited(const Op &space) const {
  return llvm::any_of(spaces_, [&](Op *other) {
    return other->has(ir::attr::after_all) &&
           other->get(ir::attr::after_all) == space.get(ir::attr::name);
  });
}

void KernelLowering::lowerSpaces() {
  llvm::BasicBlock *leave = block("leave");
  constexpr size_t kFirst = offsetof(dtile_device_launch, first_program);
  llvm::SmallVector<llvm::BasicBlock *, 4> insides;
  for (Op *space : spaces_) {
    llvm::StringRef name = space->get(ir::attr::name);
    insides.push_back(block("space" + llvm::Twine(name.empty() ? "" : ".") + name));
  }
  llvm::Value *first = b.getInt32(0);
  for (auto [number, space] : llvm::enumerate(spaces_)) {
    llvm::Value *end = launchField(kFirst + 4 * (number + 1), b.getInt32Ty(), "programs.end");
    llvm::BasicBlock *next = number + 1 == spaces_.size() ? leave : block("others");
    b.CreateCondBr(b.CreateICmpSLT(kernel_.program, end), insides[number], next);
    b.SetInsertPoint(insides[number]);
    lowerSpace(*space, int32_t(number), first, end);
    // On to the next space whose bodies are for all who have time.
    size_t after = number + 1;
    while (after < spaces_.size() && !sharesBodies(*spaces_[after]))
      ++after;
    b.CreateBr(after < spaces_.size() ? insides[after] : leave);
    b.SetInsertPoint(next);
    first = end;
  }
  if (spaces_.empty()) {
    b.CreateBr(leave);
    b.SetInsertPoint(leave);
  }
}

void KernelLowering::lowerSpace(Op &space, int32_t number, llvm::Value *first, llvm::Value *end) {
  std::unique_ptr<BodyLowering> body = makeBodyLowering(gpu_, kernel_, space);
  llvm::IRBuilder<> &inner = body->builder();
  inner.SetInsertPoint(b.GetInsertBlock());
  gpu_.debug.moveTo(inner, space);
  if (space.has(ir::attr::after_all)) {
    llvm::StringRef before = space.get(ir::attr::after_all);
    inner.CreateCall(gpu_.call(DeviceCall::space_await),
                     {kernel_.launch, epoch(inner), inner.getInt32(numberOf(before)),
                      inner.getInt32(gpu_.site(space, before))});
  }
  body->lowerCaptured(space);
  // Programs share loads, and bodies of the last round, only where all comes by TMA.
  constexpr InKinds kOnlyByTma = {.plain = 0, .split = 0, .copied = 0};
  // Clusters of such a launch share loads of one space, and no loops.
  llvm::Value *arePairs = nullptr;
  if (llvm::any_of(spaces_, [](Op *other) { return mayPairBodies(*other); })) {
    constexpr size_t kPaired = offsetof(dtile_device_launch, paired);
    llvm::Value *areThere = launchFact(launchField(kPaired, b.getInt32Ty(), "paired"), kOnlyByTma);
    arePairs = inner.CreateIsNotNull(areThere);
  }
  llvm::Value *paired = mayPairBodies(space) ? arePairs : nullptr;
  llvm::Value *count = inner.getInt64(1);
  for (llvm::Value *blocks : launch::blockCounts(*body, inner, space, paired))
    count = inner.CreateMul(count, blocks);
  auto wide = [&](llvm::Value *value) { return inner.CreateSExt(value, inner.getInt64Ty()); };
  BodyRange range{.first = wide(inner.CreateSub(kernel_.program, first)),
                  .step = wide(inner.CreateSub(end, first)),
                  .count = count};
  if (sharesBodies(space))
    range.taken = bodiesTaken(inner, number);
  if (paired) {
    llvm::Value *rank = launchFact(gpu_.device.clusterOps()->rank(inner), kOnlyByTma);
    range.paired = paired;
    range.half = inner.CreateSelect(paired, rank, inner.getInt32(0));
  }
  if (dividedLoop(space)) {
    constexpr size_t kDivided = offsetof(dtile_device_launch, divided);
    llvm::Value *spaces = launchFact(launchField(kDivided, b.getInt32Ty(), "divided"), kOnlyByTma);
    llvm::Value *own = inner.CreateAnd(spaces, inner.getInt32(1u << unsigned(number)));
    range.divided = inner.CreateIsNotNull(own);
  }
  llvm::BasicBlock *after = nullptr;
  if (mayShareLoops(space)) {
    const ClusterOps &clusters = *gpu_.device.clusterOps();
    range.parts = launchFact(clusters.size(inner), {.plain = 1, .shared = 1});
    range.part = launchFact(clusters.rank(inner), {.plain = 0, .shared = 0});
    if (arePairs) {
      range.parts = inner.CreateSelect(arePairs, inner.getInt32(1), range.parts);
      range.part = inner.CreateSelect(arePairs, inner.getInt32(0), range.part);
    }
    // A cluster runs bodies as a program does; those of other spaces have none here.
    after = block("space.end");
    llvm::BasicBlock *own = block("space.own");
    llvm::Value *isOwn = inner.CreateICmpULT(range.first, range.step);
    llvm::Value *isAlone = inner.CreateICmpEQ(range.parts, inner.getInt32(1));
    inner.CreateCondBr(inner.CreateOr(isAlone, isOwn), own, after);
    inner.SetInsertPoint(own);
    // `known`: what the hardware says, so that nothing is divided. The first space begins at the
    // first cluster, and a space that is alone has all of them.
    const auto clustersIn = [&](llvm::Value *programs, llvm::Value *known) {
      programs = inner.CreateTrunc(programs, inner.getInt32Ty());
      if (known && arePairs)
        known = inner.CreateSelect(arePairs, programs, known);
      return wide(known ? known : inner.CreateUDiv(programs, range.parts));
    };
    range.first = clustersIn(range.first, number == 0 ? clusters.number(inner) : nullptr);
    range.step = clustersIn(range.step, spaces_.size() == 1 ? clusters.count(inner) : nullptr);
  }
  body->lowerBodies(space, range);
  if (after) {
    inner.CreateBr(after);
    inner.SetInsertPoint(after);
  }
  // What bodies have sent and whose tokens they give to `when all` is complete after it.
  if (space.body().terminator()->numOperands() > 0) {
    inner.CreateCall(gpu_.call(DeviceCall::quiet), {kernel_.launch});
    if (kernel_.sends)
      inner.CreateStore(inner.getInt32(0), kernel_.sends);
  }
  if (isAwaited(space))
    inner.CreateCall(gpu_.call(DeviceCall::space_done),
                     {kernel_.launch, epoch(inner), inner.getInt32(number)});
  b.SetInsertPoint(inner.GetInsertBlock());
}

// The end.

void KernelLowering::finish() {
  gpu_.debug.moveTo(b, *kernel_.kernel);
  // What follows the launch may write what is still being sent.
  if (kernel_.sends)
    when(b.CreateIsNotNull(b.CreateLoad(b.getInt32Ty(), kernel_.sends)), "quiet",
         [&] { call(DeviceCall::quiet); });
  // Counts that nothing derived are those that waits have asked for.
  const bool isAsked = llvm::any_of(kernel_.kernel->body().ops(), [](Op &op) {
    return op.is(OpKind::SignalParam) && op.body().empty();
  });
  llvm::SmallVector<Op *, 4> signals;
  for (Op &op : kernel_.kernel->body().ops())
    if (op.is(OpKind::SignalParam) && op.result()->hasUses())
      signals.push_back(&op);
  if (isAsked) {
    llvm::Value *last = b.CreateCall(gpu_.call(DeviceCall::end_as_last), {kernel_.launch, epoch()});
    when(b.CreateIsNotNull(last), "last", [&] {
      advanceSignals(signals, b.getInt64(0), b.getInt64(1));
      advanceEpochs(b.getInt64(DTILE_DEVICE_PARTS));
    });
    return;
  }
  if (!isCounted())
    return;
  llvm::Value *share = b.CreateCall(gpu_.call(DeviceCall::end), {kernel_.launch, epoch()});
  advanceEpochs(share);
  if (signals.empty())
    return;
  // From the program with the highest number on, which has as few bodies as any: where there are
  // many cells, nobody goes to memory for a second one.
  auto wide = [&](llvm::Value *value) { return b.CreateZExt(value, b.getInt64Ty()); };
  llvm::Value *programs =
      wide(launchField(offsetof(dtile_device_launch, programs), b.getInt32Ty(), "programs"));
  llvm::Value *behind = b.CreateSub(b.CreateSub(programs, b.getInt64(1)), wide(kernel_.program));
  advanceSignals(signals, behind, programs);
}

/// Whether anything needs to know how many launches have ended: objects that change with each,
/// ranks that meet, or code that was emitted. Counting takes a barrier, and updates of device
/// memory.
bool KernelLowering::isCounted() const {
  return mayMeet(*kernel_.kernel) || !kernel_.ended->use_empty() ||
         llvm::any_of(kernel_.kernel->body().ops(), [](Op &op) {
           return op.is(OpKind::SignalParam) ||
                  (op.is(OpKind::Param) && op.get(ir::attr::mode) == ir::ParamMode::Scratch);
         });
}

void KernelLowering::advanceEpochs(llvm::Value *parts) {
  llvm::SmallVector<Op *, 4> objects;
  for (Op &op : kernel_.kernel->body().ops())
    if (op.is(OpKind::Param) && op.get(ir::attr::mode) == ir::ParamMode::Scratch)
      objects.push_back(&op);
  if (objects.empty())
    return;
  when(b.CreateIsNull(kernel_.thread), "turns", [&] {
    for (Op *object : objects)
      // Where nobody else is there, too: an update does not wait for what the place holds.
      b.CreateAtomicRMW(llvm::AtomicRMWInst::Add,
                        objectField(*object, offsetof(dtile_device_object, turn), b.getPtrTy()),
                        parts, llvm::Align(8), llvm::AtomicOrdering::Monotonic,
                        context().getOrInsertSyncScopeID(gpu_.device.rankScope()));
  });
}

void KernelLowering::advanceSignals(llvm::ArrayRef<Op *> signals, llvm::Value *program,
                                    llvm::Value *programs) {
  llvm::Value *threads = b.getInt64(kernel_.threads);
  llvm::Value *thread = b.CreateZExt(kernel_.thread, b.getInt64Ty());
  // The first cells of each are another warp's, so that their ways to memory are at the same time.
  const unsigned lanes = unsigned(gpu_.device.facts().lanes);
  for (auto [number, signal] : llvm::enumerate(signals)) {
    const unsigned skipped = unsigned(number) * lanes % kernel_.threads;
    llvm::Value *turned =
        b.CreateURem(b.CreateAdd(thread, b.getInt64(kernel_.threads - skipped)), threads);
    advanceSignals(*signal, b.CreateAdd(b.CreateMul(program, threads), turned),
                   b.CreateMul(programs, threads));
  }
}

void KernelLowering::advanceSignals(Op &signal, llvm::Value *first, llvm::Value *step) {
  llvm::Type *i64 = b.getInt64Ty();
  llvm::Value *count = b.getInt64(1);
  for (const SignalCells::Dimension &dim : cells(signal.result()).dims)
    count = b.CreateMul(count, dim.size);
  llvm::Value *asked = objectField(signal, offsetof(dtile_device_cells, asked), b.getPtrTy());
  // Cells first, first + step, …; most programs have none.
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *head = block("cells"), *body = block("cells.body"), *end = block("cells.end");
  b.CreateBr(head);
  b.SetInsertPoint(head);
  llvm::PHINode *cell = b.CreatePHI(i64, 2, "cell");
  cell->addIncoming(first, before);
  b.CreateCondBr(b.CreateICmpSLT(cell, count), body, end);
  b.SetInsertPoint(body);
  llvm::Value *added = nullptr;
  if (signal.body().empty()) {
    llvm::Value *wanted = b.CreateGEP(i64, asked, cell);
    added = b.CreateLoad(i64, wanted);
    b.CreateStore(b.getInt64(0), wanted);
  } else {
    added = expected(signal, cell);
  }
  b.CreateCall(gpu_.call(DeviceCall::move_base), {cellsObject(signal), cell, kernel_.ended, added});
  cell->addIncoming(b.CreateAdd(cell, step), b.GetInsertBlock());
  b.CreateBr(head);
  b.SetInsertPoint(end);
}

} // namespace

llvm::Value *BodyLowering::claimBody(const BodyRange &range) {
  const auto claim = [&]() -> llvm::Value * {
    return b.CreateAtomicRMW(llvm::AtomicRMWInst::Add, range.taken, b.getInt64(1), llvm::Align(8),
                             llvm::AtomicOrdering::Monotonic,
                             gpu_.context().getOrInsertSyncScopeID(gpu_.device.rankScope()));
  };
  if (!range.parts)
    return claim();
  // All programs of a cluster have to take the same bodies, so these are as if nobody shared them.
  // What a thread has taken is counted for all places that claim.
  if (!claimed_) {
    llvm::BasicBlock &entry = b.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> start(&entry, entry.begin());
    claimed_ = start.CreateAlloca(b.getInt64Ty(), nullptr, "cluster.next");
    claimedBefore_ = start.CreateAlloca(b.getInt64Ty(), nullptr, "cluster.taken");
    start.CreateStore(b.getInt64(0), claimedBefore_);
  }
  llvm::Value *isOne = b.CreateICmpEQ(range.parts, b.getInt32(1));
  when(isOne, "claim", [&] { b.CreateStore(claim(), claimed_); });
  when(b.CreateNot(isOne), "own", [&] {
    llvm::Value *before = b.CreateLoad(b.getInt64Ty(), claimedBefore_);
    b.CreateStore(b.CreateAdd(range.first, before), claimed_);
    b.CreateStore(b.CreateAdd(before, range.step), claimedBefore_);
  });
  return b.CreateLoad(b.getInt64Ty(), claimed_);
}

llvm::Value *BodyLowering::nextBody(const BodyRange &range) {
  // The body before it may still be reading what was shared.
  sharedInUse_ = true;
  llvm::Value *place = stackSlot(b.getInt64Ty(), "body");
  asLeader("take", [&] { b.CreateStore(claimBody(range), place); });
  return fromLeader(b.CreateLoad(b.getInt64Ty(), place));
}

void BodyLowering::setPositions(Op &space, const BodyRange &range, llvm::Value *linear) {
  llvm::SmallVector<llvm::Value *, 4> at =
      launch::positions(*this, b, space, kernel_.rank, linear, range.paired, /*areFew=*/true);
  // After the positions are tokens, which are nothing here.
  for (auto [argument, position] : llvm::zip(space.body().arguments(), at))
    set(argument, {position});
}

void BodyLowering::forEachBody(Op &space, const BodyRange &range, llvm::function_ref<void()> body) {
  const auto begin = [&](llvm::Value *linear) {
    setPositions(space, range, linear);
    body();
  };
  if (range.taken) {
    llvm::BasicBlock *next = block("bodies");
    llvm::BasicBlock *inside = block("bodies.one");
    llvm::BasicBlock *end = block("bodies.end");
    b.CreateBr(next);
    b.SetInsertPoint(next);
    llvm::Value *linear = nextBody(range);
    b.CreateCondBr(b.CreateICmpSLT(linear, range.count), inside, end);
    b.SetInsertPoint(inside);
    begin(linear);
    b.CreateBr(next);
    b.SetInsertPoint(end);
    return;
  }
  // Rounds of this program; the loop counts them, so that its end is known before it begins.
  llvm::Value *span = b.CreateSub(range.count, range.first);
  llvm::Value *rounds = emitFewBlocks(b, span, range.step);
  loop(rounds, "bodies", [&](llvm::Value *round) {
    begin(b.CreateAdd(range.first, b.CreateMul(round, range.step)));
  });
}

void BodyLowering::lowerBodies(Op &space, const BodyRange &range) {
  const int64_t mark = gpu_.sharedMark();
  rows_ = std::make_unique<RowBuffers>(*this, space);
  beginTrace(space);
  const auto all = [&] {
    // Threads may still read what another space has there.
    if (!rows_->empty())
      programBarrier();
    forEachBody(space, range, [&] { traced(space, [&] { lower(space); }); });
  };
  // Bodies that nobody shares are the first program's of a cluster.
  if (range.part)
    when(b.CreateIsNull(range.part), "first.of.cluster", all);
  else
    all();
  rows_.reset();
  gpu_.releaseShared(mark);
}

std::unique_ptr<BodyLowering> makeBodyLowering(GpuModule &module, const KernelScaffold &kernel,
                                               Op &space) {
  if (hasStagedLoads(*kernel.kernel))
    return makeStagedLowering(module, kernel, space);
  return std::make_unique<BodyLowering>(module, kernel);
}

unsigned launchedThreads(Op &kernel) {
  return bodyThreads(kernel) + (hasStagedLoads(kernel) ? TargetFacts::kHelperThreads : 0);
}

/// What a complete function says of its launches.
static LoweredKernel known(GpuModule &module, const KernelScaffold &scaffold) {
  LoweredKernel known{std::move(scaffold.facts), {}};
  for (const WholeWords::Access &access : scaffold.accesses)
    if (known.words.require(scaffold.loaded, module.declared(DeviceCall::peer), access))
      known.facts.push_back({access.inWords, {.plain = 1, .split = 1, .shared = 1}});
  return known;
}

LoweredKernel lowerKernel(GpuModule &module, Op &kernel, const launch::Frame &frame,
                          llvm::StringRef entry) {
  SharedMemoryFit memory(module, kernel);
  do {
    KernelScaffold scaffold;
    scaffold.kernel = &kernel;
    scaffold.layout = &frame;
    scaffold.threads = launchedThreads(kernel);
    KernelLowering(module, scaffold).lower(entry);
    if (memory.fits())
      return known(module, scaffold);
    scaffold.function->eraseFromParent();
    for (const auto &[signal, function] : scaffold.expected)
      function->eraseFromParent();
  } while (memory.takeLess());
  memory.report();
  return {};
}

} // namespace dtile::backend::gpu
