// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers that a launch itself has written to the kernel's own memory, as a count that is sent with
// rows. That each element which is read was written before, by the launch, and that nothing races
// with it, is shown by itself. So where one op writes an object, what is read there is a number
// that an execution of that op has written there, and what holds of it holds of the number.
//
// That is no circle: take the first access of a launch that is not as was shown. All numbers that
// were read before it are as they are taken to be. What is shown of an access rests on numbers
// that its body, and those that it comes after, have read before.
#include "ir/analysis/communication.h"
#include "ir/protocol/prove/model.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

namespace {

/// Who wrote a number may have read one that was written, and so on.
constexpr unsigned kMostFollowed = 2;
/// Elements that are related to each other; more are left out.
constexpr size_t kMostPicked = 24;

/// Whether a view is one whole number of an input.
bool isElementOfInput(const Value *view) {
  const ir::Type type = view->type();
  if (!type.isView() || type.rank() != 0 || !isInteger(type.dtype()) || type.dtype() == DType::U64)
    return false;
  const Op *object = ir::objectOf(const_cast<Value *>(view));
  return object && object->is(OpKind::Param) && object->get(ir::attr::mode) == ir::ParamMode::In;
}

} // namespace

Op *Scene::writerOf(Op &kernel, const Op *object) {
  const auto [it, isNew] = writers_.try_emplace(object, nullptr);
  // What is zeroed may be read before it is written.
  if (!isNew || object->get(ir::attr::mode) != ir::ParamMode::Scratch ||
      object->get(ir::attr::zero))
    return it->second;
  Op *writer = nullptr;
  bool isOnly = true;
  ir::walk(kernel, [&](Op &op) {
    Value *view = ir::writtenView(op);
    if (!view || !view->type().isView())
      return;
    const Op *written = ir::objectOf(view);
    if (written && written != object)
      return;
    isOnly &= written && !writer && (op.is(OpKind::Put) || op.is(OpKind::Store)) &&
              (Polynomials::isNumber(op.operand(0)->type()) || isElementOfInput(op.operand(0)));
    writer = &op;
  });
  return writers_[object] = isOnly ? writer : nullptr;
}

bool readsWrittenNumbers(Op &kernel) {
  ir::RefutationBudget budget;
  Scene scene(budget);
  bool reads = false;
  ir::walk(kernel, [&](Op &op) {
    const Op *object = op.is(OpKind::Load) ? ir::objectOf(op.operand(0)) : nullptr;
    reads |= object && object->is(OpKind::Param) && Polynomials::isNumber(op.result()->type()) &&
             scene.writerOf(kernel, object) != nullptr;
  });
  return reads;
}

/// What is known of a number because some execution has written it.
void Scene::assumeWritten(Facts &facts, Instance &instance, const Picked &picked) {
  Op *write = picked.read->is(OpKind::Load) ? writerOf(*kernel_, picked.object) : nullptr;
  if (!write || followed_ == kMostFollowed)
    return;
  ++followed_;
  Instance writer = this->instance(write);
  assume(facts, writer);
  assumeAsserted(facts, writer);
  --followed_;
  const Region to = region(ir::writtenView(*write), writer, facts);
  addEqualRanks(facts, to.rank, picked.rank);
  for (const auto &[dim, at] : llvm::zip_equal(to.dims, picked.at))
    if (dim.at)
      ir::addEqual(facts, *dim.at, at);
  Value *number = write->operand(0);
  if (number->type().isView()) {
    const Region from = region(number, writer, facts);
    Picked element{from.object, write, from.rank, {}, picked.value};
    bool isElement = from.isExact && llvm::all_of(from.inside, [&](const auto &condition) {
                       return implies(facts, condition.second);
                     });
    for (const DimRegion &dim : from.dims) {
      isElement &= dim.at.has_value();
      if (dim.at)
        element.at.push_back(*dim.at);
    }
    if (!isElement)
      return;
    addBounds(facts, from.object, picked.value, writer);
    writer.picked.push_back(std::move(element));
    relate(facts, writer, writer);
  } else if (const Op *cast = number->definingOp(); cast && cast->is(OpKind::Cast) &&
                                                    cast->operand(0)->type().isIndex() &&
                                                    !number->type().isIndex()) {
    // Cast to fewer bits it is itself, where it fits.
    const DType type = number->type().dtype();
    const bool isSigned = dtypeClass(type) == DTypeClass::Int;
    const unsigned bits = dtypeBits(type) - (isSigned ? 1 : 0);
    const Polynomial whole = polys.of(cast->operand(0), writer.environment);
    const Polynomial least(isSigned ? -(int64_t(1) << bits) : 0), most((int64_t(1) << bits) - 1);
    if (implies(facts, whole - least) && implies(facts, most - whole))
      ir::addEqual(facts, picked.value, whole);
  } else {
    ir::addEqual(facts, picked.value, polys.of(number, writer.environment));
  }
  for (const Picked &read : writer.picked)
    if (instance.picked.size() < kMostPicked)
      instance.picked.push_back(read);
}

} // namespace dtile::protocol::prove
