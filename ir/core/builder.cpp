// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Making and copying ops.
#include "ir/core/builder.h"

#include "frontend/base/check.h"

namespace dtile::ir {

namespace {

bool allAcquire(llvm::ArrayRef<Value *> values) {
  for (Value *value : values)
    if (!value->type().isAcquire())
      return false;
  return true;
}

/// The result types that follow from the row and the operands alone.
llvm::SmallVector<Type, 1> inferResults(OpKind kind, llvm::ArrayRef<Value *> operands,
                                        TypeContext &types) {
  const llvm::StringRef results = opInfo(kind).results;
  if (results == "same")
    return {operands[0]->type()};
  if (results == "idx")
    return {types.index()};
  if (results == "tok")
    return {types.token()};
  if (results == "acq")
    return {types.acquire()};
  if (kind == OpKind::Cmp)
    return {types.withDType(operands[0]->type(), DType::Bool)};
  if (kind == OpKind::Select)
    return {operands[1]->type()};
  if (kind == OpKind::TokenJoin)
    return {allAcquire(operands) ? types.acquire() : types.token()};
  return {};
}

} // namespace

Op *Builder::op(OpKind kind, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<Type> results) {
  DTILE_CHECK(block_, "the builder has no insertion point");
  llvm::SmallVector<Type, 1> inferred;
  if (results.empty()) {
    inferred = inferResults(kind, operands, types());
    results = inferred;
  }
  Op *made = module_.create(kind, operands, results, loc_);
  if (before_)
    made->moveBefore(before_);
  else
    made->moveToEnd(*block_);
  return made;
}

Value *Builder::value(OpKind kind, llvm::ArrayRef<Value *> operands, Type result,
                      std::vector<NamedAttr> attrs) {
  Op *made = result ? op(kind, operands, {result}) : op(kind, operands);
  DTILE_CHECK(made->numResults() == 1,
              ("op " + made->info().text + " was made without its result type").str());
  for (NamedAttr &attr : attrs)
    made->setAttr(attr.name, std::move(attr.value));
  return made->result();
}

Value *Builder::constIndex(int64_t value) {
  return this->value(OpKind::Const, {}, types().index(), {{attr::value, value}});
}

Value *Builder::constInt(DType dtype, int64_t value) {
  DTILE_CHECK(isInteger(dtype), "constInt wants an integer type");
  return this->value(OpKind::Const, {}, types().scalar(dtype), {{attr::value, value}});
}

Value *Builder::constFloat(DType dtype, double value) {
  DTILE_CHECK(isFloat(dtype), "constFloat wants a float type");
  return this->value(OpKind::Const, {}, types().scalar(dtype), {{attr::value, value}});
}

Value *Builder::constBool(bool value) {
  return this->value(OpKind::Const, {}, types().scalar(DType::Bool), {{attr::value, value}});
}

Value *Builder::zeros(Type tile) {
  const DType type = tile.dtype();
  Value *zero = type == DType::Bool ? constBool(false)
                : isFloat(type)     ? constFloat(type, 0.0)
                                    : constInt(type, 0);
  return value(OpKind::Splat, {zero}, tile);
}

Value *Builder::cmp(llvm::StringRef pred, Value *a, Value *b) {
  return value(OpKind::Cmp, {a, b}, {}, {{attr::pred, pred.str()}});
}

Value *Builder::ceilDiv(Value *a, Value *b) {
  // Division floors, so -(-a / b) rounds up without the overflow of a + b - 1.
  return value(OpKind::Neg, {div(value(OpKind::Neg, {a}), b)});
}

Op *cloneOp(Builder &builder, const Op &op, ValueMap &map) {
  llvm::SmallVector<Value *, 4> operands;
  for (Value *operand : op.operands()) {
    auto it = map.find(operand);
    operands.push_back(it == map.end() ? operand : it->second);
  }
  llvm::SmallVector<Type, 1> results;
  for (Value *result : op.results())
    results.push_back(result->type());

  Op *copy = builder.module().create(op.kind(), operands, results, op.loc());
  for (const NamedAttr &attr : op.attrs())
    copy->setAttr(attr.name, attr.value);
  for (auto [from, to] : llvm::zip(op.results(), copy->results())) {
    to->setNameHint(from->nameHint());
    map[from] = to;
  }
  if (Op *before = builder.insertionPoint())
    copy->moveBefore(before);
  else
    copy->moveToEnd(*builder.insertionBlock());

  const InsertionGuard guard(builder);
  for (unsigned i = 0; i < op.numRegions(); ++i) {
    Block &to = copy->body(i);
    for (Value *argument : op.body(i).arguments())
      map[argument] = to.addArgument(argument->type(), argument->nameHint());
    builder.setInsertionPointToEnd(to);
    for (const Op &inner : op.body(i).ops())
      cloneOp(builder, inner, map);
  }
  return copy;
}

std::unique_ptr<Module> cloneModule(Module &module) {
  auto copy = std::make_unique<Module>(module.types());
  copy->setSources(module.sources());
  Builder builder(*copy);
  builder.setInsertionPointToEnd(copy->body());
  ValueMap map;
  for (const Op &op : module.body().ops())
    cloneOp(builder, op, map);
  return copy;
}

} // namespace dtile::ir
