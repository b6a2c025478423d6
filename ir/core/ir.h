// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The IR's data: Module, Op, Region, Block, Value. SSA with structured control flow: an Op owns its
// regions, a Region owns exactly one Block, a Block owns its ops; values defined outside a region
// are visible inside it. Ownership: Module owns all, freed with it; nobody else deletes (Op::erase
// unlinks).
#pragma once

#include "frontend/base/source_manager.h"
#include "ir/core/attributes.h"
#include "ir/core/types.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/ilist.h"
#include "llvm/ADT/ilist_node.h"
#include "llvm/Support/Allocator.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace dtile::ir {

class Block;
class Module;
class Op;
class Region;
class Value;

/// One enumerator a row of ops.def.
enum class OpKind : uint8_t {
#define OP(ID, TEXT, OPERANDS, RESULTS, REGIONS, EFFECTS, DOC) ID,
#include "ir/core/ops.def"
};

/// What an operation does besides giving its results; bits.
enum Effects : uint16_t {
  None = 0,
  Read = 1 << 0,
  Write = 1 << 1,
  RemoteRead = 1 << 2,
  RemoteWrite = 1 << 3,
  Signal = 1 << 4,
  Wait = 1 << 5,
  Order = 1 << 6,
  Control = 1 << 7,
  Trap = 1 << 8,
};

/// The row of ops.def.
struct OpInfo {
  llvm::StringLiteral id;
  llvm::StringLiteral text;
  llvm::StringLiteral operands;
  llvm::StringLiteral results;
  uint8_t regions;
  uint16_t effects;
  llvm::StringLiteral doc;
};
[[nodiscard]] const OpInfo &opInfo(OpKind kind);
[[nodiscard]] llvm::ArrayRef<OpInfo> allOps();

/// Attributes in the order of their names.
struct NamedAttr {
  NamedAttr(std::string name, Attr value) : name(std::move(name)), value(std::move(value)) {}
  template <class T>
  NamedAttr(AttrKey<T> key, std::type_identity_t<T> value)
      : name(key.name), value(attrValue<T>(std::move(value))) {}
  std::string name;
  Attr value;
};

/// One use of a value: an operand slot.
struct Use {
  Op *user;
  unsigned index;
};

/// The result of an op or the argument of a block.
class Value {
public:
  [[nodiscard]] Type type() const { return type_; }
  /// Only for passes that rebuild a value's producer.
  void setType(Type type) { type_ = type; }
  /// The op that defines it, or null for a block argument.
  [[nodiscard]] Op *definingOp() const { return op_; }
  /// The block whose argument it is, or null.
  [[nodiscard]] Block *argumentOf() const { return block_; }
  /// Which result or argument it is.
  [[nodiscard]] unsigned index() const { return index_; }
  [[nodiscard]] llvm::ArrayRef<Use> uses() const { return uses_; }
  [[nodiscard]] bool hasUses() const { return !uses_.empty(); }
  [[nodiscard]] bool hasOneUse() const { return uses_.size() == 1; }
  /// A readable name for the text form; made unique by the printer.
  [[nodiscard]] llvm::StringRef nameHint() const { return name_; }
  void setNameHint(llvm::StringRef name) { name_ = name.str(); }
  void replaceAllUsesWith(Value *other);

private:
  friend class Block;
  friend class Module;
  friend class Op;
  Type type_;
  Op *op_ = nullptr;
  Block *block_ = nullptr;
  unsigned index_ = 0;
  llvm::SmallVector<Use, 2> uses_;
  std::string name_;
};

/// One operation.
class Op : public llvm::ilist_node<Op> {
public:
  [[nodiscard]] OpKind kind() const { return kind_; }
  [[nodiscard]] const OpInfo &info() const { return opInfo(kind_); }
  [[nodiscard]] bool is(OpKind kind) const { return kind_ == kind; }
  [[nodiscard]] bool hasEffect(uint16_t effects) const { return (info().effects & effects) != 0; }
  [[nodiscard]] bool isPure() const { return info().effects == None; }

  [[nodiscard]] unsigned numOperands() const { return operands_.size(); }
  [[nodiscard]] Value *operand(unsigned i) const { return operands_[i]; }
  [[nodiscard]] llvm::ArrayRef<Value *> operands() const { return operands_; }
  void setOperand(unsigned i, Value *value);
  void addOperand(Value *value);
  void removeOperand(unsigned i);
  void setOperands(llvm::ArrayRef<Value *> values);

  [[nodiscard]] unsigned numResults() const { return results_.size(); }
  [[nodiscard]] Value *result(unsigned i = 0) const { return results_[i]; }
  [[nodiscard]] llvm::ArrayRef<Value *> results() const { return results_; }
  Value *addResult(Type type, llvm::StringRef name = "");
  /// The result must have no uses.
  void removeResult(unsigned i);

  [[nodiscard]] unsigned numRegions() const { return regions_.size(); }
  /// The one block of region i.
  [[nodiscard]] Block &body(unsigned i = 0) const;

  [[nodiscard]] llvm::ArrayRef<NamedAttr> attrs() const { return attrs_; }
  /// Typed attributes (ir/core/attributes.h). `get` of a key that is not there is false for a bool,
  /// else a bug.
  template <class T> [[nodiscard]] bool has(AttrKey<T> key) const {
    return attr(key.name) != nullptr;
  }
  [[nodiscard]] bool get(AttrKey<bool> key) const;
  [[nodiscard]] int64_t get(AttrKey<int64_t> key) const;
  [[nodiscard]] llvm::StringRef get(AttrKey<std::string> key) const;
  [[nodiscard]] llvm::ArrayRef<int64_t> get(AttrKey<std::vector<int64_t>> key) const;
  [[nodiscard]] llvm::ArrayRef<std::string> get(AttrKey<std::vector<std::string>> key) const;
  [[nodiscard]] const Attr &get(AttrKey<Attr> key) const;
  [[nodiscard]] ParamMode get(AttrKey<ParamMode> key) const;
  [[nodiscard]] LoadPath get(AttrKey<LoadPath> key) const;
  [[nodiscard]] int64_t getOr(AttrKey<int64_t> key, int64_t otherwise) const;
  template <class T> void set(AttrKey<T> key, std::type_identity_t<T> value) {
    setAttr(key.name, attrValue<T>(std::move(value)));
  }
  template <class T> void remove(AttrKey<T> key) { removeAttr(key.name); }
  /// Attributes by name, for the text form and for copies.
  [[nodiscard]] const Attr *attr(llvm::StringRef name) const;
  void setAttr(llvm::StringRef name, Attr value);
  void removeAttr(llvm::StringRef name);

  /// Source position, for messages and for run-time reports.
  [[nodiscard]] SourceLoc loc() const { return loc_; }
  void setLoc(SourceLoc loc) { loc_ = loc; }

  [[nodiscard]] Block *parentBlock() const { return parent_; }
  /// The op that owns the block this op is in, or null at module level.
  [[nodiscard]] Op *parentOp() const;
  /// The nearest enclosing op (or this one) of a kind, or null.
  [[nodiscard]] Op *enclosing(OpKind kind);

  /// Unlinks and drops all uses that this op (and its regions) make. Its results must be unused.
  /// The op and those in its regions stay readable, without operands, regions and parent.
  void erase();
  /// Moves within or between blocks.
  void moveBefore(Op *other);
  void moveAfter(Op *other);
  void moveToEnd(Block &block);

private:
  friend class Block;
  friend class Module;
  friend class Value;
  friend struct llvm::ilist_alloc_traits<Op>;
  Op() = default;
  void linkUse(unsigned i);
  void unlinkUse(unsigned i);
  void dropUses();
  OpKind kind_ = OpKind::Const;
  SourceLoc loc_;
  Block *parent_ = nullptr;
  Module *module_ = nullptr;
  llvm::SmallVector<Value *, 4> operands_;
  /// Where operand i stands in its value's list of uses, so that a use goes away in one step.
  llvm::SmallVector<unsigned, 4> useSlots_;
  llvm::SmallVector<Value *, 1> results_;
  llvm::SmallVector<Region *, 1> regions_;
  llvm::SmallVector<NamedAttr, 2> attrs_;
};

} // namespace dtile::ir

/// Ops live in the module's arena; lists only link them.
template <> struct llvm::ilist_alloc_traits<dtile::ir::Op> {
  static void deleteNode(dtile::ir::Op *) {}
};

namespace dtile::ir {

/// A sequence of ops with arguments, ended by a terminator.
class Block {
public:
  using List = llvm::simple_ilist<Op>;

  [[nodiscard]] llvm::ArrayRef<Value *> arguments() const { return arguments_; }
  [[nodiscard]] unsigned numArguments() const { return arguments_.size(); }
  [[nodiscard]] Value *argument(unsigned i) const { return arguments_[i]; }
  Value *addArgument(Type type, llvm::StringRef name = "");
  /// The argument must have no uses.
  void removeArgument(unsigned i);

  [[nodiscard]] List &ops() { return ops_; }
  [[nodiscard]] const List &ops() const { return ops_; }
  [[nodiscard]] bool empty() const { return ops_.empty(); }
  /// The last op (a terminator in a well-formed block).
  [[nodiscard]] Op *terminator() const;
  /// The op whose region this is; null for the module's own block.
  [[nodiscard]] Op *parentOp() const { return parent_; }
  [[nodiscard]] Module &module() const { return *module_; }

private:
  friend class Module;
  friend class Op;
  Op *parent_ = nullptr;
  Module *module_ = nullptr;
  llvm::SmallVector<Value *, 2> arguments_;
  List ops_;
};

/// Holds one block.
class Region {
public:
  [[nodiscard]] Block &block() { return block_; }

private:
  friend class Module;
  friend class Op;
  Block block_;
};

/// Owns a program: a block of func and kernel ops.
class Module {
public:
  explicit Module(TypeContext &types);
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  [[nodiscard]] TypeContext &types() const { return types_; }
  [[nodiscard]] Block &body() { return body_; }
  /// The func or kernel of that name, or null.
  [[nodiscard]] Op *lookup(llvm::StringRef name);

  /// Makes an unlinked op with operands, result types and the regions of its row (empty blocks).
  Op *create(OpKind kind, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<Type> results,
             SourceLoc loc = {});

  /// For `loc` in text dumps and run-time reports; may be null (IR read from text).
  void setSources(const SourceManager *sources) { sources_ = sources; }
  [[nodiscard]] const SourceManager *sources() const { return sources_; }

private:
  friend class Block;
  friend class Op;
  Value *newValue();
  TypeContext &types_;
  const SourceManager *sources_ = nullptr;
  Block body_;
  llvm::SpecificBumpPtrAllocator<Op> ops_;
  llvm::SpecificBumpPtrAllocator<Region> regions_;
  llvm::SpecificBumpPtrAllocator<Value> values_;
};

/// Visits an op and everything nested in it, parents first.
template <typename Fn> void walk(Block &block, Fn &&fn);
template <typename Fn> void walk(Op &op, Fn &&fn) {
  fn(op);
  for (unsigned i = 0; i < op.numRegions(); ++i)
    walk(op.body(i), fn);
}
/// The body may erase the visited op (not others).
template <typename Fn> void walk(Block &block, Fn &&fn) {
  for (auto it = block.ops().begin(); it != block.ops().end();) {
    Op &op = *it++;
    walk(op, fn);
  }
}

/// Whether an op reads rows that one index tile picks.
[[nodiscard]] inline bool gathersRows(const Op &op) {
  return op.is(OpKind::Gather) && op.get(attr::rows);
}

/// Whether an op touches the elements that index tiles name, or the rows.
[[nodiscard]] inline bool isIndexed(const Op &op) {
  return op.is(OpKind::Gather) || op.is(OpKind::Scatter) || op.is(OpKind::AtomicScatter) ||
         op.is(OpKind::ReduceAddScatter);
}

/// The first index tile of an indexed op, and the view whose elements they are of, as operands.
[[nodiscard]] inline unsigned firstIndexTile(const Op &op) {
  if (op.is(OpKind::AtomicScatter))
    return op.get(attr::kind) == "cas" ? 3 : 2;
  return op.is(OpKind::Gather) ? 1 : 2;
}
[[nodiscard]] inline unsigned indexedView(const Op &op) {
  return op.is(OpKind::Gather) || op.is(OpKind::AtomicScatter) ? 0 : 1;
}

/// Whether an op gives what memory held and changes it at once.
[[nodiscard]] inline bool isAtomic(const Op &op) {
  return op.is(OpKind::Atomic) || op.is(OpKind::AtomicScatter);
}

/// Whether the tile of a load or gather comes to shared memory by a path.
[[nodiscard]] inline bool comesVia(const Op &op, LoadPath path) {
  return op.has(attr::via) && op.get(attr::via) == path;
}

/// Whether it is loaded some iterations ahead into the ring of a staged loop.
[[nodiscard]] inline bool isStagedLoad(const Op &op) {
  return comesVia(op, LoadPath::Tma) || comesVia(op, LoadPath::Rows);
}

/// How many of the last operands of an atomic or indexed op are tokens.
[[nodiscard]] inline unsigned numTrailingTokens(const Op &op) {
  return unsigned(op.getOr(attr::ntok, 0));
}

} // namespace dtile::ir
