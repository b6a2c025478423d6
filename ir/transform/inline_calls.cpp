// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// inline: the bodies of called functions in place of the calls.
//
// Expects: any well-formed module.
// Produces: no call, and no function that only such calls reached; but for calls of functions that
//   call themselves, and of large functions on scalars alone that are called in several places.
// Why: every later pass and check looks at one kernel at a time; tiles, tokens and signals that
//   cross calls would blind them. Scalar functions can stay where copies would only be code.
// Leaves alone: calls beyond kMaxOps, with a remark.
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace dtile::passes {

using namespace dtile::ir;

namespace {

/// A scalar function of at most this many ops is copied to wherever it is called.
constexpr unsigned kSmall = 64;
/// Functions that call functions that call functions … grow without end: no module may become
/// larger than this by inlining.
constexpr unsigned kMaxOps = 2'000'000;

class Inliner {
public:
  Inliner(Module &module, PassContext &context) : context_(context), builder_(module) {}
  bool run();

private:
  struct Function {
    Op *op = nullptr;
    llvm::SmallVector<Op *, 4> calls;
    unsigned ops = 0;
    unsigned callers = 0;
    unsigned callsLeft = 0;
    bool isRecursive = false;
    bool needsInlining = false;
    enum { New, Open, Done } state = New;
  };

  void collect(Op &op);
  void order(Function &function);
  void inlineInto(Function &function);
  [[nodiscard]] bool shouldInline(const Function &callee) const;
  void moveIntoCall(Op &call, Function &callee);
  void copyIntoCall(Op &call, const Function &callee);
  [[nodiscard]] Function *calleeOf(const Op &call);

  PassContext &context_;
  Builder builder_;
  llvm::MapVector<Op *, Function> functions_;
  llvm::StringMap<Op *> byName_;
  uint64_t totalOps_ = 0;
  bool changed_ = false;
};

/// What a call gave is now computed here, under the caller's name.
void replaceResult(Value *result, Value *value) {
  if (value->definingOp() && !result->nameHint().empty())
    value->setNameHint(result->nameHint());
  result->replaceAllUsesWith(value);
}

bool isSimple(Type type) { return type.isIndex() || type.isScalar(); }

Inliner::Function *Inliner::calleeOf(const Op &call) {
  auto found = byName_.find(call.get(attr::callee));
  return found == byName_.end() ? nullptr : &functions_[found->second];
}

void Inliner::collect(Op &op) {
  Function &function = functions_[&op];
  function.op = &op;
  function.needsInlining = op.get(attr::inline_hint);
  for (const Value *argument : op.body().arguments())
    function.needsInlining |= !isSimple(argument->type());
  walk(op.body(), [&](Op &inner) {
    ++function.ops;
    if (inner.is(OpKind::Call))
      function.calls.push_back(&inner);
    // Tiles that never leave it stay invisible to the caller; effects and order do not.
    function.needsInlining |= (inner.info().effects & ~(Control | Trap)) != 0;
    if (inner.is(OpKind::Return))
      for (const Value *result : inner.operands())
        function.needsInlining |= !isSimple(result->type());
  });
  totalOps_ += function.ops;
}

bool Inliner::shouldInline(const Function &callee) const {
  if (!callee.op->is(OpKind::Func) || callee.isRecursive)
    return false;
  return callee.needsInlining || callee.callers == 1 || callee.ops <= kSmall;
}

/// Nobody else calls the function: its ops themselves move, and it is left empty.
void Inliner::moveIntoCall(Op &call, Function &callee) {
  Block &body = callee.op->body();
  for (auto [argument, operand] : llvm::zip_equal(body.arguments(), call.operands()))
    argument->replaceAllUsesWith(operand);
  Op *end = body.terminator();
  while (&body.ops().front() != end)
    body.ops().front().moveBefore(&call);
  for (auto [result, returned] : llvm::zip_equal(call.results(), end->operands()))
    replaceResult(result, returned);
  end->setOperands({});
  call.erase();
  changed_ = true;
}

void Inliner::copyIntoCall(Op &call, const Function &callee) {
  ValueMap map;
  for (auto [argument, operand] : llvm::zip_equal(callee.op->body().arguments(), call.operands()))
    map[argument] = operand;
  builder_.setInsertionPoint(&call);
  for (const Op &op : callee.op->body().ops()) {
    if (!op.is(OpKind::Return)) {
      cloneOp(builder_, op, map);
      continue;
    }
    for (auto [result, returned] : llvm::zip_equal(call.results(), op.operands())) {
      auto mapped = map.find(returned);
      replaceResult(result, mapped == map.end() ? returned : mapped->second);
    }
  }
  call.erase();
  changed_ = true;
}

void Inliner::inlineInto(Function &function) {
  for (Op *call : function.calls) {
    Function *callee = calleeOf(*call);
    if (!callee || !shouldInline(*callee))
      continue;
    // What the callee does, its caller does now.
    function.needsInlining |= callee->needsInlining;
    if (callee->callsLeft == 1) {
      callee->callsLeft = 0;
      function.ops += callee->ops;
      moveIntoCall(*call, *callee);
      continue;
    }
    if (totalOps_ + callee->ops > kMaxOps) {
      context_.remark(*call, "`" + callee->op->get(attr::name) +
                                 "` is not inlined: the program would be too large");
      continue;
    }
    totalOps_ += callee->ops;
    function.ops += callee->ops;
    --callee->callsLeft;
    copyIntoCall(*call, *callee);
  }
}

/// Callees before their callers, so that each body is copied in its final form. Recursion is deep
/// only where calls are.
void Inliner::order(Function &root) {
  std::vector<std::pair<Function *, unsigned>> open{{&root, 0}};
  root.state = Function::Open;
  while (!open.empty()) {
    auto &[function, next] = open.back();
    if (next == function->calls.size()) {
      function->state = Function::Done;
      inlineInto(*function);
      open.pop_back();
      continue;
    }
    Function *callee = calleeOf(*function->calls[next++]);
    if (!callee)
      continue;
    if (callee->state == Function::Open) {
      // Everything on the way from the callee back to itself calls itself.
      for (auto it = open.rbegin(); it != open.rend(); ++it) {
        it->first->isRecursive = true;
        if (it->first == callee)
          break;
      }
    } else if (callee->state == Function::New) {
      callee->state = Function::Open;
      open.emplace_back(callee, 0);
    }
  }
}

bool Inliner::run() {
  Block &body = builder_.module().body();
  for (Op &op : body.ops()) {
    byName_[op.get(attr::name)] = &op;
    collect(op);
  }
  for (auto &[op, function] : functions_)
    for (const Op *call : function.calls)
      if (Function *callee = calleeOf(*call)) {
        ++callee->callers;
        ++callee->callsLeft;
      }
  for (auto &[op, function] : functions_)
    if (function.state == Function::New)
      order(function);
  for (auto &[op, function] : functions_)
    if (op->is(OpKind::Func) && function.callers != 0 && function.callsLeft == 0)
      op->erase();
  return changed_;
}

} // namespace

bool inlineCalls(Module &module, PassContext &context) { return Inliner(module, context).run(); }

} // namespace dtile::passes
