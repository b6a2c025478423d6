// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records and runs the arithmetic of arithmetic.h. What integers mean is the IR's: they wrap,
// division floors, and a division by zero gives zero.
#include "ir/model/arithmetic.h"

#include "frontend/base/check.h"
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
  if (y == -1)
    return int64_t(-uint64_t(x));
  const int64_t quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

std::optional<Code> compareCode(llvm::StringRef predicate) {
  constexpr std::pair<llvm::StringLiteral, Code> kCodes[] = {{"eq", Code::Eq}, {"ne", Code::Ne},
                                                             {"lt", Code::Lt}, {"le", Code::Le},
                                                             {"gt", Code::Gt}, {"ge", Code::Ge}};
  for (const auto &[name, code] : kCodes)
    if (name == predicate)
      return code;
  return std::nullopt;
}

std::optional<Code> binaryCode(const Op &op) {
  switch (op.kind()) {
  case OpKind::Add:
    return Code::Add;
  case OpKind::Sub:
    return Code::Sub;
  case OpKind::Mul:
    return Code::Mul;
  case OpKind::Div:
    return Code::Div;
  case OpKind::Rem:
    return Code::Rem;
  case OpKind::Min:
    return Code::Min;
  case OpKind::Max:
    return Code::Max;
  case OpKind::And:
    return Code::And;
  case OpKind::Or:
    return Code::Or;
  case OpKind::Xor:
    return Code::Xor;
  case OpKind::Cmp:
    return compareCode(op.get(ir::attr::pred));
  default:
    return std::nullopt;
  }
}

std::optional<Code> unaryCode(const Op &op) {
  switch (op.kind()) {
  case OpKind::Neg:
    return Code::Neg;
  case OpKind::Not:
    return op.result()->type().elementOrIndex() == DType::Bool ? Code::NotBool : Code::Not;
  case OpKind::Abs:
    return Code::Abs;
  default:
    return std::nullopt;
  }
}

bool isInteger(const Value &value) {
  return (value.type().isIndex() || value.type().isScalar()) &&
         !isFloat(value.type().elementOrIndex());
}

} // namespace

int64_t blockCount(int64_t first, int64_t end, int64_t step) {
  return end <= first ? 0 : (end - first + step - 1) / std::max<int64_t>(step, 1);
}

Arithmetic::Arithmetic() : code_(kFirstDimension) {
  ranks_ = slot(kLaunchLevel);
  rank_ = slot(kRankLevel);
}

Slot Arithmetic::slot(int32_t level) {
  levelOf_.push_back(level);
  initial_.push_back({.integer = 0});
  return Slot(levelOf_.size() - 1);
}

int32_t Arithmetic::beginLevel() {
  code_.emplace_back();
  return int32_t(code_.size() - 1);
}

Slot Arithmetic::input(Value &value, int32_t level) {
  const Slot made = slot(level);
  known_[&value] = made;
  return made;
}

Slot Arithmetic::integer(int64_t value) {
  const auto [it, isNew] = integers_.try_emplace(value, kNoSlot);
  if (isNew) {
    it->second = slot(kLaunchLevel);
    initial_[size_t(it->second)].integer = value;
  }
  return it->second;
}

Slot Arithmetic::real(double value) {
  const auto [it, isNew] = reals_.try_emplace(value, kNoSlot);
  if (isNew) {
    it->second = slot(kLaunchLevel);
    initial_[size_t(it->second)].real = value;
    constants_[it->second] = value;
  }
  return it->second;
}

std::optional<double> Arithmetic::constant(Slot slot) const {
  const auto it = constants_.find(slot);
  return it == constants_.end() ? std::nullopt : std::optional(it->second);
}

Slot Arithmetic::emit(Code code, Slot a, Slot b, Slot c, Slot d) {
  int32_t level = kLaunchLevel;
  for (const Slot x : {a, b, c, d})
    if (x != kNoSlot)
      level = std::max(level, levelOf_[size_t(x)]);
  const Slot out = slot(level);
  code_[size_t(level)].push_back({code, out, a, b, c, d});
  return out;
}

std::optional<Slot> Arithmetic::number(Value &value) {
  if (const auto it = known_.find(&value); it != known_.end())
    return it->second;
  Op *op = value.definingOp();
  auto made = op && isInteger(value) ? compute(*op) : std::nullopt;
  if (Value *limit = op && !made ? promisedLimit(*op) : nullptr)
    made = number(*limit);
  known_[&value] = made;
  return made;
}

std::optional<Slot> Arithmetic::compute(Op &op) {
  switch (op.kind()) {
  case OpKind::Const: {
    const ir::Attr &value = op.get(ir::attr::value);
    if (const bool *truth = std::get_if<bool>(&value))
      return integer(*truth);
    const int64_t *number = std::get_if<int64_t>(&value);
    return number ? std::optional(integer(*number)) : std::nullopt;
  }
  case OpKind::NumRanks:
    return ranks_;
  case OpKind::Rank:
    return rank_;
  case OpKind::ViewDim: {
    const auto sizes = extents(*op.operand(0));
    return sizes ? std::optional((*sizes)[size_t(op.get(ir::attr::dim))]) : std::nullopt;
  }
  case OpKind::Select: {
    const auto condition = number(*op.operand(0)), then = number(*op.operand(1)),
               otherwise = number(*op.operand(2));
    if (!then || !otherwise)
      return std::nullopt;
    if (condition)
      return emit(Code::Select, *condition, *then, *otherwise);
    // What memory decides is taken as what is more.
    return endsLoops(op) ? std::optional(emit(Code::Max, *then, *otherwise)) : std::nullopt;
  }
  case OpKind::Cast:
    return isInteger(*op.operand(0)) ? number(*op.operand(0)) : std::nullopt;
  default:
    break;
  }
  if (op.numOperands() == 0 || op.numOperands() > 2 || !isInteger(*op.operand(0)))
    return std::nullopt;
  const auto code = op.numOperands() == 1 ? unaryCode(op) : binaryCode(op);
  if (!code)
    return std::nullopt;
  const auto x = number(*op.operand(0));
  if (op.numOperands() == 1)
    return x ? std::optional(emit(*code, *x)) : std::nullopt;
  const auto y = number(*op.operand(1));
  if (op.is(OpKind::Min) && x.has_value() != y.has_value())
    return x ? x : y;
  return x && y ? std::optional(emit(*code, *x, *y)) : std::nullopt;
}

std::optional<Arithmetic::Extents> Arithmetic::cut(Op &slice) {
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
    result.push_back(emit(Code::Cut, *first, *end, (*whole)[d], integer(length)));
  }
  return result;
}

std::optional<Arithmetic::Extents> Arithmetic::extents(Value &view) {
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

void Arithmetic::run(int32_t level, Word *w) const {
  const auto i = [w](Slot slot) { return w[slot].integer; };
  const auto r = [w](Slot slot) { return w[slot].real; };
  for (const Instruction &x : code_[size_t(level)]) {
    Word &out = w[x.out];
    switch (x.code) {
    case Code::Add:
      out.integer = int64_t(uint64_t(i(x.a)) + uint64_t(i(x.b)));
      break;
    case Code::Sub:
      out.integer = int64_t(uint64_t(i(x.a)) - uint64_t(i(x.b)));
      break;
    case Code::Mul:
      out.integer = int64_t(uint64_t(i(x.a)) * uint64_t(i(x.b)));
      break;
    case Code::Div:
      out.integer = floorDivide(i(x.a), i(x.b));
      break;
    case Code::Rem:
      out.integer = i(x.b) == 0 ? 0 : i(x.a) - floorDivide(i(x.a), i(x.b)) * i(x.b);
      break;
    case Code::Min:
      out.integer = std::min(i(x.a), i(x.b));
      break;
    case Code::Max:
      out.integer = std::max(i(x.a), i(x.b));
      break;
    case Code::And:
      out.integer = i(x.a) & i(x.b);
      break;
    case Code::Or:
      out.integer = i(x.a) | i(x.b);
      break;
    case Code::Xor:
      out.integer = i(x.a) ^ i(x.b);
      break;
    case Code::Eq:
      out.integer = i(x.a) == i(x.b);
      break;
    case Code::Ne:
      out.integer = i(x.a) != i(x.b);
      break;
    case Code::Lt:
      out.integer = i(x.a) < i(x.b);
      break;
    case Code::Le:
      out.integer = i(x.a) <= i(x.b);
      break;
    case Code::Gt:
      out.integer = i(x.a) > i(x.b);
      break;
    case Code::Ge:
      out.integer = i(x.a) >= i(x.b);
      break;
    case Code::Neg:
      out.integer = int64_t(-uint64_t(i(x.a)));
      break;
    case Code::Not:
      out.integer = ~i(x.a);
      break;
    case Code::NotBool:
      out.integer = i(x.a) == 0;
      break;
    case Code::Abs:
      out.integer = i(x.a) < 0 ? int64_t(-uint64_t(i(x.a))) : i(x.a);
      break;
    case Code::Select:
      // Of integers and of real numbers.
      out = w[i(x.a) != 0 ? x.b : x.c];
      break;
    case Code::Cut:
      out.integer = std::clamp<int64_t>(std::min(i(x.b), i(x.c)) - i(x.a), 0, i(x.d));
      break;
    case Code::Blocks:
      out.integer = blockCount(i(x.a), i(x.b), i(x.c));
      break;
    case Code::ToReal:
      out.real = double(i(x.a));
      break;
    case Code::RealAdd:
      out.real = r(x.a) + r(x.b);
      break;
    case Code::RealMul:
      out.real = r(x.a) * r(x.b);
      break;
    case Code::RealMax:
      out.real = std::max(r(x.a), r(x.b));
      break;
    case Code::RealMin:
      out.real = std::min(r(x.a), r(x.b));
      break;
    }
  }
}

Slot TimeDomain::add(Slot x, Slot y) {
  const auto first = a_.constant(x), second = a_.constant(y);
  if (first && second)
    return real(*first + *second);
  if (first == 0.0)
    return y;
  return second == 0.0 ? x : a_.emit(Code::RealAdd, x, y);
}

Slot TimeDomain::mul(Slot x, Slot y) {
  const auto first = a_.constant(x), second = a_.constant(y);
  if (first && second)
    return real(*first * *second);
  if (first == 0.0 || second == 1.0)
    return x;
  return second == 0.0 || first == 1.0 ? y : a_.emit(Code::RealMul, x, y);
}

Slot TimeDomain::larger(Slot x, Slot y) {
  const auto first = a_.constant(x), second = a_.constant(y);
  if (first && second)
    return real(std::max(*first, *second));
  return x == y ? x : a_.emit(Code::RealMax, x, y);
}

Slot TimeDomain::smaller(Slot x, Slot y) {
  const auto first = a_.constant(x), second = a_.constant(y);
  if (first && second)
    return real(std::min(*first, *second));
  return x == y ? x : a_.emit(Code::RealMin, x, y);
}

Slot TimeDomain::select(Value &condition, Slot then, Slot otherwise) {
  return then == otherwise ? then : a_.emit(Code::Select, *a_.number(condition), then, otherwise);
}

bool TimeDomain::isKnown(Value &value) {
  return value.type().isView() ? a_.extents(value).has_value() : a_.number(value).has_value();
}

Slot TimeDomain::rounds(Op &loop, int64_t together) {
  Slot step = *a_.number(*loop.operand(2));
  if (together > 1)
    step = a_.emit(Code::Max, a_.emit(Code::Div, step, a_.integer(together)), a_.integer(1));
  return a_.emit(Code::ToReal, a_.emit(Code::Blocks, *a_.number(*loop.operand(0)),
                                       *a_.number(*loop.operand(1)), step));
}

Slot TimeDomain::bytesOfView(Value &view) {
  const auto sizes = a_.extents(view);
  DTILE_CHECK(sizes.has_value(), "only views that are known have bytes");
  Slot bytes = a_.real(dtypeBytes(view.type().dtype()));
  for (const Slot size : *sizes)
    bytes = a_.emit(Code::RealMul, bytes, a_.emit(Code::ToReal, size));
  return bytes;
}

Slot TimeDomain::byRowStart(ir::Op &access, const ByRowStart &numbers) {
  Value *row = rowElements(access);
  const std::optional<Slot> elements = row ? a_.number(*row) : std::nullopt;
  if (!elements)
    return a_.real(numbers.by128);
  const Slot bytes = a_.emit(
      Code::Mul, *elements, a_.integer(dtypeBytes(objectOfRows(access)->result()->type().dtype())));
  Slot number = a_.real(numbers.by128);
  for (const auto &[multiple, otherwise] :
       {std::pair(128, numbers.by64), std::pair(64, numbers.by32), std::pair(32, numbers.by16),
        std::pair(16, numbers.anywhere)}) {
    const Slot rest = a_.emit(Code::Rem, bytes, a_.integer(multiple));
    number =
        a_.emit(Code::Select, a_.emit(Code::Ne, rest, a_.integer(0)), a_.real(otherwise), number);
  }
  return number;
}

Slot TimeDomain::unlessOwn(Value &peer, Slot bytes) {
  const Slot isOwn = a_.emit(Code::Eq, *a_.number(peer), a_.rank());
  return a_.emit(Code::Select, isOwn, a_.real(0), bytes);
}

} // namespace dtile::model
