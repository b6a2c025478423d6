// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// issue-early: within each block of a body, sends and notifies as early, and waits as late, as the
// token graph allows.
//
// Expects: inlined kernels with explicit tokens.
// Produces: the same ops in another order. Transfers (put, get, reduce_add) and notifies, with what
//   they are computed from, come before everything that they do not depend on. Waits and awaits
//   come after everything that does not depend on them.
// Why: dependence, not position, is order; the time between issue and wait is what hides a
//   transfer.
// Leaves alone: the order of ops that conflict (the same object, one of them writing), what follows
//   a quiet, fence, barrier or await, and blocks with more than kMaxEffects ops with effects (a
//   remark says so).
#include "ir/analysis/ordering.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <queue>

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Conflicts are found pairwise; more ops than this in one block keep their order.
constexpr size_t kMaxEffects = 512;

bool isBlocking(const Op &op) { return op.is(OpKind::Wait) || op.is(OpKind::Await); }

/// Schedules one block.
class BlockScheduler {
public:
  BlockScheduler(Block &block, PassContext &context) : block_(block), context_(context) {}
  bool run();

private:
  /// Lower goes first.
  enum Urgency : uint8_t { kSend, kPlain, kBlock };

  void number();
  bool addMemoryEdges();
  void addAssertionEdges();
  void addValueEdges();
  void markUrgent();
  bool reorder();
  void addEdge(unsigned from, unsigned to) {
    successors_[from].push_back(to);
    ++pending_[to];
  }

  Block &block_;
  PassContext &context_;
  std::vector<Op *> ops_;
  llvm::DenseMap<const Op *, unsigned> index_;
  std::vector<Effectful> footprints_;
  std::vector<std::vector<unsigned>> successors_;
  std::vector<std::vector<unsigned>> operands_;
  std::vector<unsigned> pending_;
  std::vector<Urgency> urgency_;
};

void BlockScheduler::number() {
  for (Op &op : block_.ops()) {
    if (&op == block_.terminator())
      break;
    index_[&op] = ops_.size();
    ops_.push_back(&op);
    footprints_.push_back(effectsOf(op));
  }
  successors_.resize(ops_.size());
  operands_.resize(ops_.size());
  pending_.assign(ops_.size(), 0);
  urgency_.assign(ops_.size(), kPlain);
}

bool BlockScheduler::addMemoryEdges() {
  std::vector<unsigned> withEffects;
  size_t total = 0;
  for (unsigned i = 0; i < ops_.size(); ++i) {
    if (footprints_[i].empty())
      continue;
    withEffects.push_back(i);
    total += footprints_[i].size();
  }
  if (total > kMaxEffects) {
    context_.remark(*ops_.front(), "this block keeps its order: more than " +
                                       std::to_string(kMaxEffects) + " operations with effects");
    return false;
  }
  for (size_t j = 1; j < withEffects.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      bool found = mustStayBehind(footprints_[withEffects[i]], footprints_[withEffects[j]]);
      if (found)
        addEdge(withEffects[i], withEffects[j]);
    }
  }
  return true;
}

/// What stops the launch where there is no such rank stays after the assertions that say so
/// better.
void BlockScheduler::addAssertionEdges() {
  llvm::SmallVector<unsigned, 4> assertions;
  for (unsigned i = 0; i < ops_.size(); ++i) {
    if (ops_[i]->is(OpKind::Assert))
      assertions.push_back(i);
    if (ops_[i]->is(OpKind::ViewAt) || ops_[i]->is(OpKind::SigAt))
      for (const unsigned assertion : assertions)
        addEdge(assertion, i);
  }
}

/// Edges from the op of this block that defines a value to the op of this block that uses it, also
/// deep inside.
void BlockScheduler::addValueEdges() {
  for (unsigned i = 0; i < ops_.size(); ++i) {
    walk(*ops_[i], [&](Op &nested) {
      for (Value *operand : nested.operands()) {
        Op *def = operand->definingOp();
        auto it = def ? index_.find(def) : index_.end();
        if (it == index_.end() || it->second == i)
          continue;
        addEdge(it->second, i);
        operands_[i].push_back(it->second);
      }
    });
  }
}

/// Transfers, notifies, and all that their operands come from.
void BlockScheduler::markUrgent() {
  std::vector<unsigned> work;
  for (unsigned i = 0; i < ops_.size(); ++i) {
    if (isBlocking(*ops_[i]))
      urgency_[i] = kBlock;
    if (isTransfer(*ops_[i]) || ops_[i]->is(OpKind::Notify))
      work.push_back(i);
  }
  while (!work.empty()) {
    unsigned i = work.back();
    work.pop_back();
    if (urgency_[i] == kSend)
      continue;
    urgency_[i] = kSend;
    work.insert(work.end(), operands_[i].begin(), operands_[i].end());
  }
}

bool BlockScheduler::reorder() {
  using Entry = std::pair<Urgency, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (unsigned i = 0; i < ops_.size(); ++i)
    if (pending_[i] == 0)
      ready.push({urgency_[i], i});
  std::vector<unsigned> sequence;
  while (!ready.empty()) {
    unsigned i = ready.top().second;
    ready.pop();
    sequence.push_back(i);
    for (unsigned next : successors_[i])
      if (--pending_[next] == 0)
        ready.push({urgency_[next], next});
  }
  if (llvm::is_sorted(sequence))
    return false;
  for (unsigned i : sequence)
    ops_[i]->moveBefore(block_.terminator());
  return true;
}

bool BlockScheduler::run() {
  number();
  bool hasCommunication =
      llvm::any_of(ops_, [](Op *op) { return isTransfer(*op) || isBlocking(*op); });
  if (!hasCommunication || !addMemoryEdges())
    return false;
  addAssertionEdges();
  addValueEdges();
  markUrgent();
  return reorder();
}

} // namespace

bool issueEarly(Module &module, PassContext &context) {
  bool changed = false;
  // Inner blocks first, so that a region's footprint is final when its parent is ordered.
  auto visit = [&](auto &self, Block &block) -> void {
    for (Op &op : block.ops())
      for (unsigned i = 0; i < op.numRegions(); ++i)
        if (!op.is(OpKind::SignalParam))
          self(self, op.body(i));
    Op *parent = block.parentOp();
    if (parent && parent->enclosing(OpKind::Space) && !block.empty())
      changed |= BlockScheduler(block, context).run();
  };
  visit(visit, module.body());
  return changed;
}

} // namespace dtile::passes
