// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts: how many elements in front of a position have a property, as a sum of ones over a tile.
// Of one property there are not fewer in front of a later position; and more, where it holds of an
// element between. So what is put at places that are counted is put apart, though data decides.
#include "ir/protocol/prove/model.h"

#include "ir/core/constants.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

namespace {

/// Elements that are counted at once: more would come round.
constexpr int64_t kMostElements = int64_t(1) << 30;

/// A sum over positions i of a tile, from 0 to `extent`, of a product of properties that are one or
/// zero at each of them; one of these is that first + i < limit.
struct Count {
  Polynomial value;
  int64_t extent = 0;
  Polynomial first, limit;
  std::vector<Value *> properties;
};

/// Whether a tile, or a number, is of zeros and ones.
bool isOfBits(Value *value) {
  const ir::Type type = value->type();
  if (!type.isTile() && !type.isScalar())
    return false;
  if (type.dtype() == DType::Bool)
    return true;
  Op *op = value->definingOp();
  if (!op || !isInteger(type.dtype()))
    return false;
  switch (op->kind()) {
  case OpKind::Const: {
    const auto number = ir::constantOf(value);
    return number == 0 || number == 1;
  }
  case OpKind::Cast:
  case OpKind::Splat:
  case OpKind::Reshape:
  case OpKind::Broadcast:
  case OpKind::Convert:
    return isOfBits(op->operand(0));
  case OpKind::Mul:
  case OpKind::And:
  case OpKind::Or:
  case OpKind::Min:
  case OpKind::Max:
    return isOfBits(op->operand(0)) && isOfBits(op->operand(1));
  case OpKind::Select:
    return isOfBits(op->operand(1)) && isOfBits(op->operand(2));
  case OpKind::Reduce:
    return (op->get(ir::attr::kind) == "max" || op->get(ir::attr::kind) == "min") &&
           isOfBits(op->operand(0));
  default:
    return false;
  }
}

bool isZero(Value *value) {
  const Op *op = value->definingOp();
  return op && op->is(OpKind::Splat) && ir::constantOf(op->operand(0)) == 0;
}

/// The properties whose product a tile of ones and zeros is.
void addProperties(Value *tile, std::vector<Value *> &properties) {
  Op *op = tile->definingOp();
  if (op && op->is(OpKind::Cast) && op->operand(0)->type().isTile() &&
      op->operand(0)->type().dtype() == DType::Bool)
    return addProperties(op->operand(0), properties);
  if (op && (op->is(OpKind::Mul) || op->is(OpKind::And))) {
    addProperties(op->operand(0), properties);
    addProperties(op->operand(1), properties);
  } else if (op && op->is(OpKind::Select) && isZero(op->operand(2)) &&
             op->operand(0)->type().isTile()) {
    addProperties(op->operand(0), properties);
    addProperties(op->operand(1), properties);
  } else {
    properties.push_back(tile);
  }
}

std::optional<Count> countOf(Scene &scene, Op &sum, Instance &instance) {
  Value *tile = sum.operand(0);
  if (sum.get(ir::attr::kind) != "sum" || !isSigned(tile->type()) || tile->type().rank() != 1 ||
      dtypeBytes(tile->type().dtype()) < 4 || tile->type().elements() > kMostElements)
    return std::nullopt;
  Count count;
  count.extent = tile->type().elements();
  std::vector<Value *> properties;
  addProperties(tile, properties);
  if (!llvm::all_of(properties, isOfBits))
    return std::nullopt;
  bool hasLimit = false;
  for (Value *property : properties) {
    Op *compare = property->definingOp();
    const bool isLess = compare && compare->is(OpKind::Cmp) && compare->get(ir::attr::pred) == "lt";
    const auto run =
        isLess && !hasLimit ? runOf(compare->operand(0), scene, instance) : std::nullopt;
    const auto limit = run ? runOf(compare->operand(1), scene, instance) : std::nullopt;
    if (!limit || limit->length != 1 || run->length != count.extent) {
      count.properties.push_back(property);
      continue;
    }
    count.first = run->first;
    count.limit = limit->first;
    hasLimit = true;
  }
  if (!hasLimit)
    return std::nullopt;
  count.value = scene.polys.of(sum.result(), instance.environment);
  return count;
}

/// The conditions that hold where an execution takes place, each by itself.
void addConditions(Value *condition, llvm::SmallVectorImpl<Value *> &conditions) {
  Op *op = condition->definingOp();
  if (op && op->is(OpKind::And)) {
    addConditions(op->operand(0), conditions);
    addConditions(op->operand(1), conditions);
  } else {
    conditions.push_back(condition);
  }
}

llvm::SmallVector<Value *, 4> conditionsOf(const Instance &instance) {
  llvm::SmallVector<Value *, 4> conditions;
  for (Op *inner = instance.op; inner != instance.space && inner->parentOp();
       inner = inner->parentOp()) {
    Op *outer = inner->parentOp();
    if (outer->is(OpKind::If) && inner->parentBlock() == &outer->body(0))
      addConditions(outer->operand(0), conditions);
  }
  return conditions;
}

/// Whether a property is known to hold at a position, where the execution takes place: a condition
/// around it, or a number that the facts bound, is the same thing; or equal things are compared.
bool holdsAt(Scene &scene, const Facts &facts, Value *property, const Polynomial &position,
             Instance &instance) {
  const Element element{property, {position}, &instance};
  const auto isIt = [&](Value *known) {
    return scene.areOneNumber(facts, element, {known, {}, &instance});
  };
  Op *compare = property->definingOp();
  const auto side = [&](unsigned i) { return Element{compare->operand(i), {position}, &instance}; };
  if (compare && compare->is(OpKind::Cmp) && compare->get(ir::attr::pred) == "eq" &&
      scene.areOneNumber(facts, side(0), side(1)))
    return true;
  if (property->type().dtype() == DType::Bool)
    return llvm::any_of(conditionsOf(instance), isIt);
  return llvm::any_of(instance.reductions, [&](Op *reduction) {
    const Polynomial number = scene.polys.of(reduction->result(), instance.environment);
    return isIt(reduction->result()) && scene.implies(facts, number - Polynomial(1));
  });
}

/// Whether two counts are of one property.
bool haveOneProperty(Scene &scene, const Facts &facts, const Count &x, Instance &a, const Count &y,
                     Instance &b) {
  if (x.extent != y.extent || x.properties.size() != y.properties.size() ||
      !scene.refuter.impliesEqual(facts, x.first, y.first))
    return false;
  // At any position.
  Facts known = facts;
  const Polynomial any = var(scene.polys.fresh(Polynomial(x.extent)));
  known.push_back(any);
  ir::addLess(known, any, Polynomial(x.extent));
  return llvm::all_of(llvm::zip_equal(x.properties, y.properties), [&](const auto &both) {
    const auto &[p, q] = both;
    return scene.areOneNumber(known, {p, {any}, &a}, {q, {any}, &b});
  });
}

/// Adds what follows for two counts of one property where the one ends before the other.
void addOrder(Scene &scene, Facts &facts, const Count &less, Instance &at, const Count &more) {
  if (!scene.implies(facts, more.limit - less.limit))
    return;
  const Polynomial between = more.limit - less.limit, one(1);
  const Polynomial next = less.limit - less.first;
  const bool isCounted = scene.implies(facts, between - one) && scene.implies(facts, next) &&
                         scene.implies(facts, Polynomial(less.extent) - next - one) &&
                         llvm::all_of(less.properties, [&](Value *property) {
                           return holdsAt(scene, facts, property, next, at);
                         });
  ir::addLessEqual(facts, isCounted ? less.value + one : less.value, more.value);
  ir::addLessEqual(facts, more.value - less.value, between);
}

} // namespace

void Scene::assumeCounts(Facts &facts, Instance &instance) {
  for (Op *reduction : instance.reductions) {
    const auto count = countOf(*this, *reduction, instance);
    if (!count)
      continue;
    facts.push_back(count->value);
    ir::addLessEqual(facts, count->value, Polynomial(count->extent));
    // None is counted twice.
    if (const Polynomial before = count->limit - count->first; implies(facts, before))
      ir::addLessEqual(facts, count->value, before);
  }
}

void Scene::relateCounts(Facts &facts, Instance &a, Instance &b) {
  for (Op *x : a.reductions) {
    const auto first = countOf(*this, *x, a);
    if (!first)
      continue;
    for (Op *y : b.reductions) {
      const auto second = countOf(*this, *y, b);
      if (!second || !haveOneProperty(*this, facts, *first, a, *second, b))
        continue;
      addOrder(*this, facts, *first, a, *second);
      addOrder(*this, facts, *second, b, *first);
    }
  }
}

} // namespace dtile::protocol::prove
