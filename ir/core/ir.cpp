// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops, blocks and modules: the links between them and the lists of uses.
#include "ir/core/ir.h"

#include "frontend/base/check.h"

#include <algorithm>

namespace dtile::ir {

namespace {
constexpr OpInfo kOps[] = {
#define OP(ID, TEXT, OPERANDS, RESULTS, REGIONS, EFFECTS, DOC)                                     \
  {#ID, TEXT, OPERANDS, RESULTS, REGIONS, EFFECTS, DOC},
#include "ir/core/ops.def"
};
} // namespace

const OpInfo &opInfo(OpKind kind) { return kOps[size_t(kind)]; }

llvm::ArrayRef<OpInfo> allOps() { return kOps; }

// Values.

void Value::replaceAllUsesWith(Value *other) {
  if (other == this)
    return;
  for (const Use &use : uses_) {
    use.user->operands_[use.index] = other;
    use.user->useSlots_[use.index] = other->uses_.size();
    other->uses_.push_back(use);
  }
  uses_.clear();
}

// Operands.

void Op::linkUse(unsigned i) {
  useSlots_[i] = operands_[i]->uses_.size();
  operands_[i]->uses_.push_back({this, i});
}

void Op::unlinkUse(unsigned i) {
  auto &uses = operands_[i]->uses_;
  const unsigned slot = useSlots_[i];
  const Use last = uses.back();
  uses[slot] = last;
  last.user->useSlots_[last.index] = slot;
  uses.pop_back();
}

void Op::setOperand(unsigned i, Value *value) {
  DTILE_CHECK(value, "an operand must be a value");
  if (operands_[i] == value)
    return;
  unlinkUse(i);
  operands_[i] = value;
  linkUse(i);
}

void Op::addOperand(Value *value) {
  DTILE_CHECK(value, "an operand must be a value");
  operands_.push_back(value);
  useSlots_.push_back(0);
  linkUse(operands_.size() - 1);
}

void Op::removeOperand(unsigned i) {
  unlinkUse(i);
  operands_.erase(operands_.begin() + i);
  useSlots_.erase(useSlots_.begin() + i);
  for (unsigned j = i; j < operands_.size(); ++j)
    operands_[j]->uses_[useSlots_[j]].index = j;
}

void Op::setOperands(llvm::ArrayRef<Value *> values) {
  // The new list may be a part of the old one.
  const llvm::SmallVector<Value *, 4> copy(values);
  for (unsigned i = 0; i < operands_.size(); ++i)
    unlinkUse(i);
  operands_.clear();
  useSlots_.clear();
  for (Value *value : copy)
    addOperand(value);
}

// Results and regions.

Value *Op::addResult(Type type, llvm::StringRef name) {
  Value *value = module_->newValue();
  value->type_ = type;
  value->op_ = this;
  value->index_ = results_.size();
  value->name_ = name.str();
  results_.push_back(value);
  return value;
}

void Op::removeResult(unsigned i) {
  DTILE_CHECK(!results_[i]->hasUses(), "a removed result is still used");
  results_.erase(results_.begin() + i);
  for (unsigned j = i; j < results_.size(); ++j)
    results_[j]->index_ = j;
}

Block &Op::body(unsigned i) const { return regions_[i]->block_; }

// Attributes.

namespace {
auto findAttr(llvm::ArrayRef<NamedAttr> attrs, llvm::StringRef name) {
  return std::lower_bound(
      attrs.begin(), attrs.end(), name,
      [](const NamedAttr &attr, llvm::StringRef wanted) { return attr.name < wanted; });
}

[[noreturn]] void wrongAttr(const Op &op, llvm::StringRef name, llvm::StringRef wanted) {
  DTILE_UNREACHABLE(("op " + op.info().text + " has no " + wanted + " attribute " + name).str());
}
} // namespace

const Attr *Op::attr(llvm::StringRef name) const {
  // There are few, whose names mostly differ in length: faster than to search in their order.
  for (const NamedAttr &attr : attrs_)
    if (name == attr.name)
      return &attr.value;
  return nullptr;
}

void Op::setAttr(llvm::StringRef name, Attr value) {
  if (auto *strings = std::get_if<std::vector<std::string>>(&value); strings && strings->empty())
    value = std::vector<int64_t>{};
  auto it = attrs_.begin() + (findAttr(attrs_, name) - attrs_.begin());
  if (it != attrs_.end() && it->name == name)
    it->value = std::move(value);
  else
    attrs_.insert(it, NamedAttr{name.str(), std::move(value)});
}

void Op::removeAttr(llvm::StringRef name) {
  auto it = attrs_.begin() + (findAttr(attrs_, name) - attrs_.begin());
  if (it != attrs_.end() && it->name == name)
    attrs_.erase(it);
}

int64_t Op::get(AttrKey<int64_t> key) const {
  const Attr *found = attr(key.name);
  if (const int64_t *value = found ? std::get_if<int64_t>(found) : nullptr)
    return *value;
  wrongAttr(*this, key.name, "integer");
}

llvm::StringRef Op::get(AttrKey<std::string> key) const {
  const Attr *found = attr(key.name);
  if (const std::string *value = found ? std::get_if<std::string>(found) : nullptr)
    return *value;
  wrongAttr(*this, key.name, "string");
}

llvm::ArrayRef<int64_t> Op::get(AttrKey<std::vector<int64_t>> key) const {
  const Attr *found = attr(key.name);
  if (const auto *value = found ? std::get_if<std::vector<int64_t>>(found) : nullptr)
    return *value;
  wrongAttr(*this, key.name, "integer list");
}

llvm::ArrayRef<std::string> Op::get(AttrKey<std::vector<std::string>> key) const {
  const Attr *found = attr(key.name);
  if (const auto *value = found ? std::get_if<std::vector<std::string>>(found) : nullptr)
    return *value;
  if (const auto *empty = found ? std::get_if<std::vector<int64_t>>(found) : nullptr;
      empty && empty->empty())
    return {};
  wrongAttr(*this, key.name, "string list");
}

const Attr &Op::get(AttrKey<Attr> key) const {
  if (const Attr *found = attr(key.name))
    return *found;
  wrongAttr(*this, key.name, "scalar");
}

bool Op::get(AttrKey<bool> key) const {
  const Attr *found = attr(key.name);
  if (!found)
    return false;
  if (const bool *value = std::get_if<bool>(found))
    return *value;
  wrongAttr(*this, key.name, "bool");
}

ParamMode Op::get(AttrKey<ParamMode> key) const {
  if (const auto value = enumFromText<ParamMode>(get(AttrKey<std::string>{key.name})))
    return *value;
  wrongAttr(*this, key.name, "parameter mode as");
}

LoadPath Op::get(AttrKey<LoadPath> key) const {
  if (const auto value = enumFromText<LoadPath>(get(AttrKey<std::string>{key.name})))
    return *value;
  wrongAttr(*this, key.name, "load path as");
}

int64_t Op::getOr(AttrKey<int64_t> key, int64_t otherwise) const {
  return has(key) ? get(key) : otherwise;
}

// Place.

Op *Op::parentOp() const { return parent_ ? parent_->parentOp() : nullptr; }

Op *Op::enclosing(OpKind kind) {
  for (Op *op = this; op; op = op->parentOp())
    if (op->is(kind))
      return op;
  return nullptr;
}

void Op::dropUses() {
  for (unsigned i = 0; i < operands_.size(); ++i)
    unlinkUse(i);
  operands_.clear();
  useSlots_.clear();
  for (Region *region : regions_)
    for (Op &op : region->block_.ops_) {
      op.dropUses();
      op.parent_ = nullptr;
    }
  // Whoever still holds this op, or walks it, must not enter what goes with it.
  regions_.clear();
}

void Op::erase() {
  dropUses();
  for (Value *result : results_)
    DTILE_CHECK(!result->hasUses(), ("erased op " + info().text + " still has uses").str());
  if (parent_)
    parent_->ops_.remove(*this);
  parent_ = nullptr;
}

void Op::moveBefore(Op *other) {
  if (other == this)
    return;
  if (parent_)
    parent_->ops_.remove(*this);
  parent_ = other->parent_;
  parent_->ops_.insert(other->getIterator(), *this);
}

void Op::moveAfter(Op *other) {
  if (other == this)
    return;
  if (parent_)
    parent_->ops_.remove(*this);
  parent_ = other->parent_;
  parent_->ops_.insert(std::next(other->getIterator()), *this);
}

void Op::moveToEnd(Block &block) {
  if (parent_)
    parent_->ops_.remove(*this);
  parent_ = &block;
  block.ops_.push_back(*this);
}

// Blocks.

Value *Block::addArgument(Type type, llvm::StringRef name) {
  Value *value = module_->newValue();
  value->type_ = type;
  value->block_ = this;
  value->index_ = arguments_.size();
  value->name_ = name.str();
  arguments_.push_back(value);
  return value;
}

void Block::removeArgument(unsigned i) {
  DTILE_CHECK(!arguments_[i]->hasUses(), "a removed block argument is still used");
  arguments_.erase(arguments_.begin() + i);
  for (unsigned j = i; j < arguments_.size(); ++j)
    arguments_[j]->index_ = j;
}

Op *Block::terminator() const { return ops_.empty() ? nullptr : const_cast<Op *>(&ops_.back()); }

// Modules.

Module::Module(TypeContext &types) : types_(types) { body_.module_ = this; }

Module::~Module() = default;

Op *Module::lookup(llvm::StringRef name) {
  for (Op &op : body_.ops()) {
    const Attr *attr = op.attr("name");
    const std::string *text = attr ? std::get_if<std::string>(attr) : nullptr;
    if (text && *text == name)
      return &op;
  }
  return nullptr;
}

Op *Module::create(OpKind kind, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<Type> results,
                   SourceLoc loc) {
  Op *op = new (ops_.Allocate()) Op();
  op->kind_ = kind;
  op->loc_ = loc;
  op->module_ = this;
  for (Value *operand : operands)
    op->addOperand(operand);
  for (Type type : results)
    op->addResult(type);
  for (unsigned i = 0; i < op->info().regions; ++i) {
    Region *region = new (regions_.Allocate()) Region();
    region->block_.parent_ = op;
    region->block_.module_ = this;
    op->regions_.push_back(region);
  }
  return op;
}

Value *Module::newValue() { return new (values_.Allocate()) Value(); }

} // namespace dtile::ir
