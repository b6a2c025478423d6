// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates arithmetic on sizes, and how much of a view there is.
#include "ir/model/launch_sizes.h"

#include "ir/core/constants.h"
#include "ir/core/tile_order.h"
#include "ir/model/op_cost.h"
#include "ir/model/promised_limit.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::model {

using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

int64_t floorDivide(int64_t x, int64_t y) {
  if (y == 0)
    return 0;
  const int64_t quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

std::optional<int64_t> compare(llvm::StringRef predicate, int64_t x, int64_t y) {
  if (predicate == "eq")
    return x == y;
  if (predicate == "ne")
    return x != y;
  if (predicate == "lt")
    return x < y;
  if (predicate == "le")
    return x <= y;
  if (predicate == "gt")
    return x > y;
  if (predicate == "ge")
    return x >= y;
  return std::nullopt;
}

std::optional<int64_t> binary(const Op &op, int64_t x, int64_t y) {
  // Integers wrap.
  switch (op.kind()) {
  case OpKind::Add:
    return int64_t(uint64_t(x) + uint64_t(y));
  case OpKind::Sub:
    return int64_t(uint64_t(x) - uint64_t(y));
  case OpKind::Mul:
    return int64_t(uint64_t(x) * uint64_t(y));
  case OpKind::Div:
    return floorDivide(x, y);
  case OpKind::Rem:
    return y == 0 ? 0 : x - floorDivide(x, y) * y;
  case OpKind::Min:
    return std::min(x, y);
  case OpKind::Max:
    return std::max(x, y);
  case OpKind::And:
    return x & y;
  case OpKind::Or:
    return x | y;
  case OpKind::Xor:
    return x ^ y;
  case OpKind::Cmp:
    return compare(op.get(ir::attr::pred), x, y);
  default:
    return std::nullopt;
  }
}

std::optional<int64_t> unary(const Op &op, int64_t x) {
  switch (op.kind()) {
  case OpKind::Neg:
    return int64_t(-uint64_t(x));
  case OpKind::Not:
    return op.result()->type().elementOrIndex() == DType::Bool ? x == 0 : ~x;
  case OpKind::Abs:
    return x < 0 ? int64_t(-uint64_t(x)) : x;
  default:
    return std::nullopt;
  }
}

/// A use as the size that an argument was passed with decides nothing.
bool isComparison(const ir::Use &use) {
  return use.user->is(OpKind::LaunchCheck) && use.index == 1;
}

bool isUsed(const Value &value) {
  return llvm::any_of(value.uses(), [](const ir::Use &use) { return !isComparison(use); });
}

/// Null where there are several, or none.
Op *onlyUser(const Value &value) {
  Op *only = nullptr;
  for (const ir::Use &use : value.uses()) {
    if (isComparison(use) || use.user == only)
      continue;
    if (only)
      return nullptr;
    only = use.user;
  }
  return only;
}

} // namespace

int64_t blockCount(int64_t first, int64_t end, int64_t step) {
  return end <= first ? 0 : (end - first + step - 1) / std::max<int64_t>(step, 1);
}

llvm::SmallVector<Value *, 8> freeSizes(Op &kernel) {
  llvm::SmallVector<Op *, 8> dims;
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::LaunchDim))
      dims.push_back(&op);
  // As callers see them, whatever is solved first.
  llvm::stable_sort(dims, [](const Op *a, const Op *b) {
    return std::pair(a->get(ir::attr::param), a->get(ir::attr::dim)) <
           std::pair(b->get(ir::attr::param), b->get(ir::attr::dim));
  });
  llvm::SmallVector<Value *, 8> found;
  for (Op *dim : dims) {
    Value *size = dim->result();
    while (Op *user = onlyUser(*size)) {
      if (!size->nameHint().empty() || !user->isPure() || user->numResults() != 1 ||
          !user->result()->type().isIndex())
        break;
      size = user->result();
    }
    if (isUsed(*size) && !llvm::is_contained(found, size))
      found.push_back(size);
  }
  return found;
}

bool isCounted(Op &kernel, Value &size) {
  return llvm::any_of(kernel.body().ops(), [&](const Op &op) {
    if (!op.is(OpKind::Space) || ir::spaceDims(op) <= 1)
      return false;
    for (unsigned d = 0; d < ir::spaceDims(op); ++d)
      if (op.operand(3 * d + 1) == &size && ir::constantOf(op.operand(3 * d + 2)) == 1)
        return true;
    return false;
  });
}

void LaunchSizes::set(Value &value, int64_t number) {
  set_[&value] = number;
  computed_.clear();
}

std::optional<int64_t> LaunchSizes::number(Value &value) {
  if (const auto it = set_.find(&value); it != set_.end())
    return it->second;
  Op *op = value.definingOp();
  if (!op || (!value.type().isIndex() && !value.type().isScalar()))
    return std::nullopt;
  if (const auto it = computed_.find(&value); it != computed_.end())
    return it->second;
  std::optional<int64_t> made = compute(*op);
  if (!made)
    if (Value *limit = promisedLimit(*op))
      made = number(*limit);
  computed_[&value] = made;
  return made;
}

double LaunchSizes::byRowStart(ir::Op &load, const ByRowStart &numbers) {
  Value *row = rowElements(load);
  const std::optional<int64_t> elements = row ? number(*row) : std::nullopt;
  return numbers.of(elements.value_or(0) * dtypeBytes(load.result()->type().dtype()));
}

std::optional<int64_t> LaunchSizes::compute(Op &op) {
  switch (op.kind()) {
  case OpKind::Const: {
    const ir::Attr &value = op.get(ir::attr::value);
    if (const bool *truth = std::get_if<bool>(&value))
      return *truth;
    const int64_t *integer = std::get_if<int64_t>(&value);
    return integer ? std::optional(*integer) : std::nullopt;
  }
  case OpKind::NumRanks:
    return ranks_;
  case OpKind::Rank:
    return 0;
  case OpKind::ViewDim: {
    const auto sizes = extents(*op.operand(0));
    return sizes ? std::optional((*sizes)[size_t(op.get(ir::attr::dim))]) : std::nullopt;
  }
  case OpKind::Select:
    if (const auto condition = number(*op.operand(0)))
      return number(*op.operand(*condition != 0 ? 1 : 2));
    return std::nullopt;
  case OpKind::Cast:
    return isFloat(op.operand(0)->type().elementOrIndex()) ? std::nullopt : number(*op.operand(0));
  default:
    break;
  }
  if (op.numOperands() == 0 || op.numOperands() > 2 || op.operand(0)->type().isView())
    return std::nullopt;
  if (op.numOperands() == 1) {
    const auto x = number(*op.operand(0));
    return x ? unary(op, *x) : std::nullopt;
  }
  const auto x = number(*op.operand(0)), y = number(*op.operand(1));
  if (op.is(OpKind::Min) && x.has_value() != y.has_value())
    return x ? x : y;
  return x && y ? binary(op, *x, *y) : std::nullopt;
}

std::optional<LaunchSizes::Extents> LaunchSizes::cut(Op &slice) {
  const auto whole = extents(*slice.operand(0));
  if (!whole)
    return std::nullopt;
  llvm::ArrayRef<int64_t> lengths;
  if (slice.is(OpKind::ViewTile))
    lengths = slice.get(ir::attr::lens);
  Extents result;
  unsigned next = 1;
  for (auto [d, letter] : llvm::enumerate(slice.get(ir::attr::dims))) {
    if (letter == 'i') {
      ++next;
      continue;
    }
    if (letter == 'a') {
      result.push_back((*whole)[d]);
      continue;
    }
    const auto first = number(*slice.operand(next)), end = number(*slice.operand(next + 1));
    next += 2;
    const int64_t length = lengths.empty() ? INT64_MAX : lengths.consume_front();
    if (!first || !end)
      return std::nullopt;
    const int64_t last = std::min(*end, (*whole)[d]);
    result.push_back(std::clamp<int64_t>(last - *first, 0, length));
  }
  return result;
}

std::optional<LaunchSizes::Extents> LaunchSizes::extents(Value &view) {
  Op *op = view.definingOp();
  if (!op)
    return std::nullopt;
  unsigned first = 0;
  switch (op->kind()) {
  case OpKind::ViewSlice:
  case OpKind::ViewTile:
    return cut(*op);
  case OpKind::ViewAt:
    return extents(*op->operand(0));
  case OpKind::ViewSelect:
    return extents(*op->operand(1));
  case OpKind::ViewReshape:
    first = 1;
    break;
  case OpKind::Param:
    break;
  default:
    return std::nullopt;
  }
  Extents sizes;
  for (Value *size : op->operands().drop_front(first)) {
    const auto known = number(*size);
    if (!known)
      return std::nullopt;
    sizes.push_back(*known);
  }
  return sizes;
}

bool LaunchSizes::isKnown(Value &value) {
  return value.type().isView() ? extents(value).has_value() : number(value).has_value();
}

double LaunchSizes::rounds(Op &loop, int64_t together) {
  return double(blockCount(*number(*loop.operand(0)), *number(*loop.operand(1)),
                           std::max<int64_t>(*number(*loop.operand(2)) / together, 1)));
}

double LaunchSizes::bytesOfView(Value &view) {
  double bytes = dtypeBytes(view.type().dtype());
  const auto sizes = extents(view);
  for (const int64_t size : sizes.value_or(Extents()))
    bytes *= double(size);
  return bytes;
}

} // namespace dtile::model
