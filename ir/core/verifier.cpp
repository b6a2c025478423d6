// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every module must satisfy between passes.
//
// Ops by themselves
//   1. An op has the operands, results, regions and attributes of its rows in ops.def and
//      attributes.def.
//   2. Its types agree and its attributes say something possible (verify_ops.cpp).
// Structure
//   3. The module's own ops are func and kernel, with different names; they stand nowhere else.
//   4. A region ends with its terminator, which stands nowhere else: `return` ends func and kernel,
//      `condition` region 0 of a while, `yield` all others. Only a signal_param's region may be
//      empty.
//   5. The values of a terminator, the block arguments and the results agree in number and type
//      with what the op around them passes: for, while, if, space, signal_param, func and its
//      calls.
//   6. A call names a func of the module, and passes and receives what that takes and returns.
// Values
//   7. A use is below its definition, in the same region or in one nested in it; no value crosses
//      from one func or kernel to another.
//   8. A token is used at most once on every path: uses in different regions of one `if` are on
//      different paths; a use in a loop or space of a token from outside is many uses.
// Kernels
//   9. param, scalar_param, signal_param, launch.* and space stand directly in a kernel.
//  10. Directly in a kernel, and in for, while and if there, nothing touches memory, signals or
//      order. After the first space only spaces, pure ops and the return follow.
//  11. Names of params, signals and spaces are different within their kind; so are the positions of
//      all parameters.
//  12. `after_all` names an earlier space of the kernel. The space's block arguments are its
//      positions, then one token for each value that the named space yields; spaces yield tokens.
//
// Not checked here: pairing, deadlock and races (ir/protocol), that tokens are used at all (sema),
// that positions are inside of what they index (run time).
#include "frontend/base/check.h"
#include "ir/core/op_rows.h"
#include "ir/core/text_format.h"

#include "ir/core/tile_order.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace dtile::ir {

namespace {

using llvm::StringRef;

bool isTerminator(const Op &op) {
  return op.is(OpKind::Yield) || op.is(OpKind::Return) || op.is(OpKind::Condition);
}

std::string typesText(llvm::ArrayRef<Type> types) {
  std::string text = "(";
  for (const Type type : types)
    text += (text.size() > 1 ? ", " : "") + type.str();
  return text + ")";
}

llvm::SmallVector<Type, 4> typesOf(llvm::ArrayRef<Value *> values) {
  llvm::SmallVector<Type, 4> types;
  for (const Value *value : values)
    types.push_back(value->type());
  return types;
}

/// A string attribute, or nothing when it is missing or something else.
StringRef nameOf(const Op &op, StringRef attr = "name") {
  const Attr *found = op.attr(attr);
  const std::string *text = found ? std::get_if<std::string>(found) : nullptr;
  return text ? StringRef(*text) : StringRef();
}

class Verifier {
public:
  explicit Verifier(Module &module) : module_(module) {}
  std::vector<Violation> run();

private:
  void fail(const Op &op, const llvm::Twine &message);
  [[nodiscard]] bool full() const { return violations_.size() >= kMaxViolations; }

  void visit(const Op &op);
  void visitBody(const Block &block);
  bool checkRows(const Op &op);
  void checkPlace(const Op &op);
  void checkUses(const Op &op);
  void checkTokens(llvm::ArrayRef<Value *> values);
  unsigned usesOnAPath(const Value &token, Block *scope, bool &inLoop);

  void checkTerminators(const Op &op);
  void checkInterface(const Op &op);
  void checkFor(const Op &op);
  void checkWhile(const Op &op);
  void checkSignalCount(const Op &op);
  void checkSpace(const Op &op);
  void checkCall(const Op &op);
  void checkTypesAre(const Op &op, StringRef what, llvm::ArrayRef<Value *> values,
                     llvm::ArrayRef<Type> wanted);

  void checkKernel(const Op &kernel);
  void checkKernelOp(const Op &op);

  Module &module_;
  std::vector<Violation> violations_;
  llvm::StringMap<const Op *> functions_;
  llvm::DenseSet<const Value *> visible_;
  /// Spaces of the kernel that have been visited, by name.
  llvm::StringMap<const Op *> spaces_;
};

void Verifier::fail(const Op &op, const llvm::Twine &message) {
  if (!full())
    violations_.push_back({&op, ("`" + op.info().text + "` " + message).str()});
}

std::vector<Violation> Verifier::run() {
  for (const Op &op : module_.body().ops()) {
    if (!op.is(OpKind::Func) && !op.is(OpKind::Kernel)) {
      fail(op, "stands outside of functions and kernels");
      continue;
    }
    if (!functions_.try_emplace(nameOf(op), &op).second)
      fail(op, "has the name of another one, `" + nameOf(op) + "`");
  }
  for (const Op &op : module_.body().ops()) {
    if (full())
      break;
    if (!op.is(OpKind::Func) && !op.is(OpKind::Kernel))
      continue;
    visible_.clear();
    spaces_.clear();
    visit(op);
  }
  return std::move(violations_);
}

// Ops by themselves.

bool Verifier::checkRows(const Op &op) {
  if (op.numRegions() != op.info().regions) {
    fail(op, "has " + llvm::Twine(op.numRegions()) + " regions, not " +
                 llvm::Twine(unsigned(op.info().regions)));
    return false;
  }
  for (auto check : {checkAttrKinds, checkOperandClasses, checkResultClasses, checkTypes}) {
    const std::string problem = check(op);
    if (problem.empty())
      continue;
    fail(op, problem);
    return false;
  }
  return true;
}

// Visits in the order of the text. The later checks of an op rely on its rows.
void Verifier::visit(const Op &op) {
  if (full())
    return;
  checkUses(op);
  const bool isSound = checkRows(op);
  if (isSound)
    checkPlace(op);
  for (unsigned i = 0; i < op.numRegions(); ++i)
    visitBody(op.body(i));
  if (isSound) {
    checkTerminators(op);
    checkInterface(op);
  }
  checkTokens(op.results());
  for (const Value *result : op.results())
    visible_.insert(result);
}

void Verifier::visitBody(const Block &block) {
  for (const Value *argument : block.arguments())
    visible_.insert(argument);
  checkTokens(block.arguments());
  for (const Op &op : block.ops())
    visit(op);
  for (const Value *argument : block.arguments())
    visible_.erase(argument);
  for (const Op &op : block.ops())
    for (const Value *result : op.results())
      visible_.erase(result);
}

void Verifier::checkUses(const Op &op) {
  for (unsigned i = 0; i < op.numOperands(); ++i)
    if (!visible_.contains(op.operand(i)))
      fail(op, "uses operand " + llvm::Twine(i) + " where it is not defined");
}

// Tokens.

/// The most uses of a token on one path through `scope`, the block that defines it. Each use
/// belongs to the op of the block that holds it; of the regions of an `if` only one is on a path.
unsigned Verifier::usesOnAPath(const Value &token, Block *scope, bool &inLoop) {
  // Uses counted upwards, one level of nesting at a time, deepest first.
  llvm::DenseMap<const Block *, unsigned> counts;
  llvm::SmallVector<std::pair<unsigned, const Block *>, 8> order;
  auto depthOf = [](const Block *block) {
    unsigned depth = 0;
    for (const Op *op = block->parentOp(); op; op = op->parentOp())
      ++depth;
    return depth;
  };
  for (const Use &use : token.uses())
    for (const Block *block = use.user->parentBlock(); block && block != scope;) {
      if (!counts.try_emplace(block, 0).second)
        break;
      order.emplace_back(depthOf(block), block);
      const Op *parent = block->parentOp();
      inLoop = inLoop || (parent && !parent->is(OpKind::If));
      block = parent ? parent->parentBlock() : nullptr;
    }
  for (const Use &use : token.uses())
    ++counts[use.user->parentBlock()];
  llvm::sort(order, [](const auto &a, const auto &b) { return a.first > b.first; });

  llvm::DenseSet<const Op *> done;
  for (const auto &[depth, block] : order) {
    const Op *parent = block->parentOp();
    if (!parent || !done.insert(parent).second)
      continue;
    unsigned most = 0;
    for (unsigned i = 0; i < parent->numRegions(); ++i)
      most = std::max(most, counts.lookup(&parent->body(i)));
    counts[parent->parentBlock()] += most;
  }
  return counts.lookup(scope);
}

void Verifier::checkTokens(llvm::ArrayRef<Value *> values) {
  for (const Value *value : values) {
    if (!value->type() || !value->type().isToken() || !value->hasUses())
      continue;
    Block *scope = value->definingOp() ? value->definingOp()->parentBlock() : value->argumentOf();
    if (value->hasOneUse() && value->uses()[0].user->parentBlock() == scope)
      continue;
    bool inLoop = false;
    const unsigned uses = usesOnAPath(*value, scope, inLoop);
    const Op *place = value->definingOp() ? value->definingOp() : scope->parentOp();
    if (!place)
      continue;
    if (inLoop)
      fail(*place, "gives a token that is used in a loop or space that it does not belong to");
    else if (uses > 1)
      fail(*place, "gives a token that is used " + llvm::Twine(uses) + " times on one path");
  }
}

// Structure.

void Verifier::checkPlace(const Op &op) {
  const Op *parent = op.parentOp();
  const bool isFunction = op.is(OpKind::Func) || op.is(OpKind::Kernel);
  if (isFunction && parent)
    return fail(op, "stands inside of another operation");
  if (isTerminator(op) && op.parentBlock()->terminator() != &op)
    return fail(op, "is not the last operation of its region");
  if (op.is(OpKind::Kernel))
    return checkKernel(op);
  switch (op.kind()) {
  case OpKind::Param:
  case OpKind::ScalarParam:
  case OpKind::SignalParam:
  case OpKind::LaunchDim:
  case OpKind::LaunchCheck:
  case OpKind::LaunchRequire:
  case OpKind::LaunchElements:
  case OpKind::Space:
    if (!parent || !parent->is(OpKind::Kernel))
      fail(op, "does not stand directly in a kernel");
    break;
  default:
    break;
  }
}

void Verifier::checkTerminators(const Op &op) {
  for (unsigned i = 0; i < op.numRegions(); ++i) {
    const Op *last = op.body(i).terminator();
    if (!last && op.is(OpKind::SignalParam))
      continue;
    OpKind wanted = OpKind::Yield;
    if (op.is(OpKind::Func) || op.is(OpKind::Kernel))
      wanted = OpKind::Return;
    else if (op.is(OpKind::While) && i == 0)
      wanted = OpKind::Condition;
    if (!last || !last->is(wanted))
      fail(op, "has region " + llvm::Twine(i) + " that does not end with `" + opInfo(wanted).text +
                   "`");
  }
}

void Verifier::checkTypesAre(const Op &op, StringRef what, llvm::ArrayRef<Value *> values,
                             llvm::ArrayRef<Type> wanted) {
  const llvm::SmallVector<Type, 4> types = typesOf(values);
  if (llvm::ArrayRef(types) != wanted)
    fail(op, what + " " + typesText(types) + ", not " + typesText(wanted));
}

void Verifier::checkInterface(const Op &op) {
  // Regions without a terminator have been reported.
  for (unsigned i = 0; i < op.numRegions(); ++i)
    if (!op.body(i).terminator() && !op.is(OpKind::SignalParam))
      return;
  switch (op.kind()) {
  case OpKind::For:
    return checkFor(op);
  case OpKind::While:
    return checkWhile(op);
  case OpKind::If:
    for (unsigned i = 0; i < 2; ++i) {
      checkTypesAre(op, "has a region with arguments", op.body(i).arguments(), {});
      checkTypesAre(op, "has a region that yields", op.body(i).terminator()->operands(),
                    typesOf(op.results()));
    }
    return;
  case OpKind::SignalParam:
    return checkSignalCount(op);
  case OpKind::Space:
    return checkSpace(op);
  case OpKind::Kernel:
    checkTypesAre(op, "has arguments", op.body().arguments(), {});
    return checkTypesAre(op, "returns", op.body().terminator()->operands(), {});
  case OpKind::Call:
    return checkCall(op);
  default:
    return;
  }
}

void Verifier::checkFor(const Op &op) {
  const llvm::SmallVector<Type, 4> carried = typesOf(op.operands().drop_front(3));
  llvm::SmallVector<Type, 4> arguments{module_.types().index()};
  llvm::append_range(arguments, carried);
  checkTypesAre(op, "has block arguments", op.body().arguments(), arguments);
  checkTypesAre(op, "yields", op.body().terminator()->operands(), carried);
  checkTypesAre(op, "has results", op.results(), carried);
}

void Verifier::checkWhile(const Op &op) {
  const llvm::SmallVector<Type, 4> carried = typesOf(op.operands());
  const llvm::SmallVector<Type, 4> results = typesOf(op.results());
  checkTypesAre(op, "has block arguments", op.body(0).arguments(), carried);
  const Op *condition = op.body(0).terminator();
  if (condition->numOperands() != 0)
    checkTypesAre(op, "passes on", condition->operands().drop_front(), results);
  checkTypesAre(op, "has block arguments", op.body(1).arguments(), results);
  checkTypesAre(op, "yields", op.body(1).terminator()->operands(), carried);
}

void Verifier::checkSignalCount(const Op &op) {
  const Type index = module_.types().index();
  if (op.body().empty())
    return checkTypesAre(op, "has block arguments", op.body().arguments(), {});
  const llvm::SmallVector<Type, 4> position(op.numOperands(), index);
  checkTypesAre(op, "has block arguments", op.body().arguments(), position);
  checkTypesAre(op, "yields", op.body().terminator()->operands(), {index});
}

void Verifier::checkSpace(const Op &op) {
  llvm::SmallVector<Type, 4> arguments(spaceDims(op), module_.types().index());
  if (op.has(attr::after_all)) {
    auto before = spaces_.find(op.get(attr::after_all));
    if (before == spaces_.end())
      return fail(op, "comes after all of `" + op.get(attr::after_all) +
                          "`, which is not an earlier space");
    if (const Op *yield = before->second->body().terminator())
      llvm::append_range(arguments, typesOf(yield->operands()));
  }
  checkTypesAre(op, "has block arguments", op.body().arguments(), arguments);
  const llvm::ArrayRef<Value *> yielded = op.body().terminator()->operands();
  const llvm::SmallVector<Type, 4> tokens(yielded.size(), module_.types().token());
  checkTypesAre(op, "yields", yielded, tokens);
  if (!spaces_.try_emplace(nameOf(op), &op).second)
    fail(op, "has the name of another space, `" + nameOf(op) + "`");
}

void Verifier::checkCall(const Op &op) {
  auto found = functions_.find(op.get(attr::callee));
  if (found == functions_.end() || !found->second->is(OpKind::Func))
    return fail(op, "calls `" + op.get(attr::callee) + "`, which is not a function");
  const Op &callee = *found->second;
  if (callee.numRegions() != 1)
    return;
  checkTypesAre(op, "passes", op.operands(), typesOf(callee.body().arguments()));
  if (const Op *end = callee.body().terminator())
    checkTypesAre(op, "receives", op.results(), typesOf(end->operands()));
}

// Kernels.

void Verifier::checkKernelOp(const Op &op) {
  constexpr uint16_t kOutside = Read | Write | RemoteRead | RemoteWrite | Signal | Wait | Order;
  if (op.hasEffect(kOutside))
    return fail(op, "stands in a kernel but outside of its spaces");
  if (op.is(OpKind::Space))
    return;
  for (unsigned i = 0; i < op.numRegions(); ++i)
    for (const Op &inner : op.body(i).ops())
      checkKernelOp(inner);
}

void Verifier::checkKernel(const Op &kernel) {
  llvm::StringSet<> parameters;
  llvm::DenseSet<int64_t> positions;
  bool afterSpace = false;
  for (const Op &op : kernel.body().ops()) {
    checkKernelOp(op);
    if (op.is(OpKind::Space)) {
      afterSpace = true;
      continue;
    }
    if (afterSpace && !op.isPure() && !op.is(OpKind::Return))
      fail(op, "comes after a space of the kernel");
    if (!op.is(OpKind::Param) && !op.is(OpKind::ScalarParam) && !op.is(OpKind::SignalParam))
      continue;
    // Rows are checked later, when the visit comes to the op.
    if (!checkAttrKinds(op).empty())
      continue;
    if (!parameters.insert(nameOf(op)).second)
      fail(op, "has the name of another parameter, `" + nameOf(op) + "`");
    if (!positions.insert(op.get(attr::param)).second)
      fail(op, "has the position of another parameter, " + llvm::Twine(op.get(attr::param)));
  }
}

} // namespace

std::vector<Violation> findViolations(Module &module) {
  const PhaseScope phase("verifying IR");
  return Verifier(module).run();
}

std::vector<std::string> verify(Module &module) {
  std::vector<std::string> messages;
  for (const Violation &violation : findViolations(module)) {
    std::string text = violation.message;
    llvm::raw_string_ostream os(text);
    os << ": ";
    print(*violation.op, os, {.elideRegions = true});
    messages.push_back(StringRef(text).rtrim().str());
  }
  return messages;
}

bool verify(Module &module, Diagnostics &diagnostics) {
  const std::vector<Violation> violations = findViolations(module);
  for (const Violation &violation : violations) {
    std::string text;
    llvm::raw_string_ostream os(text);
    print(*violation.op, os, {.elideRegions = true});
    diagnostics.report(violation.op->loc(), diag::ir_invalid, violation.message)
        .note({violation.op->loc(), violation.op->loc()}, diag::note_ir_op, StringRef(text).trim());
  }
  return violations.empty();
}

} // namespace dtile::ir
