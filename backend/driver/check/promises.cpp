// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the syntax of `ensures` clauses to arrays of the checker. What it does not know is kept as
// unknown, with a name for it.
#include "backend/driver/check/promises.h"

#include "frontend/ast/ast.h"
#include "frontend/ast/mesh.h"
#include "frontend/ast/source_printer.h"
#include "sema/declarations/test_signatures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <map>

namespace dtile::driver {

using protocol::PromisedArray;
using protocol::PromisedNumber;
using Kind = PromisedArray::Kind;

namespace {

/// Turns the promises of one kernel into arrays.
class PromiseReader {
public:
  PromiseReader(const sema::Program &program, const sema::KernelInstance &kernel)
      : program_(program), kernel_(kernel), home_(kernel.decl) {}
  PromisedArray arrayOf(const ast::Expr &e) const;
  [[nodiscard]] PromisedArray slice(const ast::IndexExpr &e) const;

private:
  /// Of a function's body: its parameters are arrays that are known.
  PromiseReader(const PromiseReader &outer, const ast::FnDecl &fn)
      : program_(outer.program_), kernel_(outer.kernel_), home_(&fn), depth_(outer.depth_ + 1) {}

  [[nodiscard]] PromisedArray inlined(const ast::CallExpr &e, const ast::FnDecl &fn) const;
  [[nodiscard]] PromisedArray made(Kind kind, llvm::ArrayRef<const ast::Expr *> operands) const;
  [[nodiscard]] PromisedArray binary(const ast::BinaryExpr &e) const;
  [[nodiscard]] PromisedArray call(const ast::CallExpr &e) const;
  [[nodiscard]] PromisedArray reshape(llvm::ArrayRef<const ast::Expr *> operands) const;
  [[nodiscard]] PromisedArray transpose(llvm::ArrayRef<const ast::Expr *> operands) const;
  [[nodiscard]] PromisedArray take(const ast::Expr &of, const ast::Expr &indices) const;
  [[nodiscard]] std::optional<PromisedNumber> numberOf(const ast::Expr &e) const;
  [[nodiscard]] PromisedNumber named(llvm::StringRef name) const;
  /// How many places an axis of the kernel's mesh has, and how far apart the ranks at two places
  /// beside each other are; nothing where it does not follow.
  [[nodiscard]] std::optional<std::vector<PromisedNumber>> axis(llvm::StringRef name) const;
  [[nodiscard]] std::optional<PromisedNumber> ofAxis(const ast::CallExpr &call,
                                                     llvm::StringRef name) const;

  const sema::Program &program_;
  const sema::KernelInstance &kernel_;
  /// In whose file names of functions are looked up, and how many functions are around it.
  const ast::Decl *home_;
  int depth_ = 0;
  std::map<llvm::StringRef, PromisedArray> known_;
};

PromisedArray unknown(const llvm::Twine &what) {
  PromisedArray array;
  array.name = what.str();
  return array;
}

PromisedArray PromiseReader::made(Kind kind, llvm::ArrayRef<const ast::Expr *> operands) const {
  PromisedArray array;
  array.kind = kind;
  for (const ast::Expr *operand : operands)
    array.operands.push_back(arrayOf(*operand));
  return array;
}

PromisedArray number(double value) {
  PromisedArray array;
  array.kind = Kind::Number;
  array.number = value;
  return array;
}

PromisedArray PromiseReader::binary(const ast::BinaryExpr &e) const {
  switch (e.op) {
  case ast::BinaryOp::Add:
    return made(Kind::Sum, {e.lhs, e.rhs});
  case ast::BinaryOp::Sub:
    return made(Kind::Difference, {e.lhs, e.rhs});
  case ast::BinaryOp::Mul:
    return made(depth_ > 0 ? Kind::ElementProduct : Kind::Product, {e.lhs, e.rhs});
  default:
    return unknown("an operator that only numbers have");
  }
}

/// Sizes, scalars, constants, `rank()` and `W`, and what `+ - * / %` make of them.
std::optional<PromisedNumber> PromiseReader::numberOf(const ast::Expr &e) const {
  using Number = PromisedNumber::Kind;
  if (const auto *literal = llvm::dyn_cast<ast::IntLit>(&e))
    return PromisedNumber{.number = int64_t(literal->value)};
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(&e))
    return named(name->name);
  if (const auto *call = llvm::dyn_cast<ast::CallExpr>(&e)) {
    const auto *callee = llvm::dyn_cast<ast::NameExpr>(call->callee);
    if (const ast::NameExpr *axis = ast::axisNamedBy(call))
      return ofAxis(*call, axis->name);
    if (callee && call->args.empty() && callee->name == "rank")
      return PromisedNumber{.kind = Number::Rank};
    if (callee && call->args.empty() && callee->name == "num_ranks")
      return PromisedNumber{.kind = Number::Ranks};
    return std::nullopt;
  }
  const auto *binary = llvm::dyn_cast<ast::BinaryExpr>(&e);
  if (!binary)
    return std::nullopt;
  PromisedNumber number;
  switch (binary->op) {
  case ast::BinaryOp::Add:
    number.kind = Number::Sum;
    break;
  case ast::BinaryOp::Sub:
    number.kind = Number::Difference;
    break;
  case ast::BinaryOp::Mul:
    number.kind = Number::Product;
    break;
  case ast::BinaryOp::Div:
    number.kind = Number::Quotient;
    break;
  case ast::BinaryOp::Rem:
    number.kind = Number::Remainder;
    break;
  default:
    return std::nullopt;
  }
  for (const ast::Expr *side : {binary->lhs, binary->rhs}) {
    std::optional<PromisedNumber> operand = numberOf(*side);
    if (!operand)
      return std::nullopt;
    number.operands.push_back(std::move(*operand));
  }
  return number;
}

PromisedNumber combined(PromisedNumber::Kind kind, PromisedNumber a, PromisedNumber b) {
  PromisedNumber number{.kind = kind};
  number.operands.push_back(std::move(a));
  number.operands.push_back(std::move(b));
  return number;
}

std::optional<std::vector<PromisedNumber>> PromiseReader::axis(llvm::StringRef name) const {
  const auto *mesh = ast::meshOf(*kernel_.decl);
  if (!mesh)
    return std::nullopt;
  PromisedNumber stride{.number = 1};
  for (const ast::MeshAxis &one : llvm::reverse(mesh->axes)) {
    const std::optional<PromisedNumber> places = numberOf(*one.extent);
    if (!places)
      return std::nullopt;
    if (one.name.name == name)
      return std::vector<PromisedNumber>{*places, stride};
    stride = combined(PromisedNumber::Kind::Product, *places, stride);
  }
  return std::nullopt;
}

/// `num_ranks(local)`, and `rank(local)`.
std::optional<PromisedNumber> PromiseReader::ofAxis(const ast::CallExpr &call,
                                                    llvm::StringRef name) const {
  using Number = PromisedNumber::Kind;
  const auto own = axis(name);
  if (!own)
    return std::nullopt;
  if (llvm::cast<ast::NameExpr>(call.callee)->name == "num_ranks")
    return own->front();
  const PromisedNumber line =
      combined(Number::Quotient, PromisedNumber{.kind = Number::Rank}, own->back());
  return combined(Number::Remainder, line, own->front());
}

/// A constant's value; else a dimension that bears the name; else what the launch calls so.
PromisedNumber PromiseReader::named(llvm::StringRef name) const {
  using Number = PromisedNumber::Kind;
  for (const auto &[param, value] : llvm::zip(kernel_.decl->generics, kernel_.generics))
    if (param.name.name == name && value.kind == sema::GenericValue::Kind::Int)
      return {.number = value.intValue};
  for (const ast::Param &param : kernel_.decl->params) {
    if (!param.type || (param.mode != ast::ParamMode::In && param.mode != ast::ParamMode::InOut &&
                        param.mode != ast::ParamMode::Out))
      continue;
    for (auto [d, declared] : llvm::enumerate(param.type->shape))
      if (const auto *same = llvm::dyn_cast<ast::NameExpr>(declared); same && same->name == name)
        return {.kind = Number::Dimension, .number = int64_t(d), .name = param.name.name.str()};
  }
  if (name == "W")
    return {.kind = Number::Ranks};
  return {.kind = Number::Size, .name = name.str()};
}

PromisedArray PromiseReader::reshape(llvm::ArrayRef<const ast::Expr *> operands) const {
  PromisedArray array = made(Kind::Reshape, operands.take_front());
  for (const ast::Expr *size : operands.drop_front()) {
    const auto extent = numberOf(*size);
    if (!extent)
      return unknown("`reshape` to a size that it does not follow");
    array.numbers.push_back(*extent);
  }
  return array;
}

/// `transpose(x, 1, 0, 2)`: the dimensions of the operand, in that order.
PromisedArray PromiseReader::transpose(llvm::ArrayRef<const ast::Expr *> operands) const {
  PromisedArray array = made(Kind::Transpose, operands.take_front());
  for (const ast::Expr *axis : operands.drop_front()) {
    const auto number = numberOf(*axis);
    if (!number || number->kind != PromisedNumber::Kind::Constant)
      return unknown("`transpose` with axes that it does not follow");
    array.numbers.push_back(*number);
  }
  return array;
}

/// `take(x, arange(n))` and `take(x, arange(n) + first)`: n rows in their order.
PromisedArray PromiseReader::take(const ast::Expr &of, const ast::Expr &indices) const {
  const auto *sum = llvm::dyn_cast<ast::BinaryExpr>(&indices);
  const bool isShifted = sum && sum->op == ast::BinaryOp::Add;
  const auto *range = llvm::dyn_cast<ast::CallExpr>(isShifted ? sum->lhs : &indices);
  const auto *callee = range ? llvm::dyn_cast<ast::NameExpr>(range->callee) : nullptr;
  if (!callee || (callee->name != "arange" && callee->name != "iota") || range->args.size() != 1)
    return unknown("`take` of other rows than `arange(n) + first`");
  const auto count = numberOf(*range->args.front().value);
  const auto first = isShifted ? numberOf(*sum->rhs) : std::optional(PromisedNumber{});
  if (!count || !first)
    return unknown("`take` of rows that it does not follow");
  PromisedArray array = made(Kind::Rows, {&of});
  array.numbers = {*count, *first};
  return array;
}

/// A number, or one less than zero; nothing of all else.
std::optional<int64_t> constantAxis(const ast::Expr &e) {
  if (const auto *literal = llvm::dyn_cast<ast::IntLit>(&e))
    return int64_t(literal->value);
  const auto *unary = llvm::dyn_cast<ast::UnaryExpr>(&e);
  const auto *literal = unary && unary->op == ast::UnaryOp::Neg
                            ? llvm::dyn_cast<ast::IntLit>(unary->operand)
                            : nullptr;
  return literal ? std::optional(-int64_t(literal->value)) : std::nullopt;
}

/// `x[0]`, `x[a..b, :]`.
PromisedArray PromiseReader::slice(const ast::IndexExpr &e) const {
  PromisedArray array = made(Kind::Slice, {e.base});
  for (const ast::Expr *index : e.indices) {
    const auto *range = llvm::dyn_cast<ast::RangeExpr>(index);
    const ast::Expr *ends[] = {range ? range->lo : index, range ? range->hi : nullptr};
    for (const ast::Expr *end : ends) {
      const auto number = end ? numberOf(*end) : std::optional(PromisedNumber{});
      if (!number)
        return unknown("positions that it does not follow");
      if (end)
        array.numbers.push_back(*number);
    }
    array.name += !range ? 'i' : ends[0] && ends[1] ? 'r' : ends[0] ? 'a' : ends[1] ? 'b' : 'w';
  }
  return array;
}

bool isFollowed(const PromisedArray &array) {
  return array.kind != Kind::Unknown && llvm::all_of(array.operands, isFollowed);
}

/// What a function of one `return` makes of its arguments.
PromisedArray PromiseReader::inlined(const ast::CallExpr &e, const ast::FnDecl &fn) const {
  constexpr int kDeepest = 8;
  PromisedArray unfollowed = unknown("`" + fn.name.name + "`");
  if (!fn.body || depth_ == kDeepest || fn.isExtern)
    return unfollowed;
  PromiseReader inside(*this, fn);
  for (const auto &[i, arg] : llvm::enumerate(e.args)) {
    llvm::StringRef name = arg.label.name;
    if (name.empty() && i < fn.params.size())
      name = fn.params[i].name.name;
    inside.known_[name] = arrayOf(*arg.value);
  }
  for (const ast::Param &param : fn.params)
    if (param.init && !inside.known_.contains(param.name.name))
      inside.known_[param.name.name] = inside.arrayOf(*param.init);
  for (const ast::Stmt *s : fn.body->statements) {
    if (const auto *let = llvm::dyn_cast<ast::LetStmt>(s); let && let->names.size() == 1) {
      inside.known_[let->names.front().name] = inside.arrayOf(*let->value);
      continue;
    }
    const auto *result = llvm::dyn_cast<ast::ReturnStmt>(s);
    if (!result || result->values.size() != 1)
      return unfollowed;
    PromisedArray value = inside.arrayOf(*result->values.front());
    return isFollowed(value) ? value : unfollowed;
  }
  return unfollowed;
}

PromisedArray PromiseReader::call(const ast::CallExpr &e) const {
  const ast::Expr *callee = e.callee;
  if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(callee))
    callee = generic->base;
  const auto *name = llvm::dyn_cast<ast::NameExpr>(callee);
  const bool isKnown =
      name && (depth_ > 0 ? name->name == "cast" : !sema::testSignature(name->name).empty());
  const ast::FnDecl *fn = isKnown ? nullptr : program_.findFunction(callee, home_);
  if (fn)
    return inlined(e, *fn);
  if (!name || (depth_ > 0 && name->name != "cast"))
    return unknown(name ? "`" + name->name + "`" : llvm::Twine("a call"));
  llvm::SmallVector<const ast::Expr *, 2> operands;
  std::vector<PromisedNumber> along;
  std::optional<int64_t> axisOfSum;
  for (const ast::Arg &arg : e.args) {
    const auto *named = llvm::dyn_cast<ast::NameExpr>(arg.value);
    if (arg.label.name == ast::kAlongLabel && named) {
      const auto own = axis(named->name);
      if (!own)
        return unknown("an axis that it does not follow");
      along = *own;
      continue;
    }
    if (name->name == "sum" && arg.label.name == "axis") {
      axisOfSum = constantAxis(*arg.value);
      continue;
    }
    if (!arg.label.name.empty())
      return unknown("`" + name->name + "` with `" + arg.label.name + ":`");
    operands.push_back(arg.value);
  }
  const Kind kind = llvm::StringSwitch<Kind>(name->name)
                        .Case("all_gather", Kind::AllGather)
                        .Case("all_reduce", Kind::AllReduce)
                        .Case("reduce_scatter", Kind::ReduceScatter)
                        .Case("all_to_all", Kind::AllToAll)
                        .Case("transpose", Kind::Transpose)
                        .Case("matmul", Kind::MatrixProduct)
                        .Default(Kind::Unknown);
  if (axisOfSum && operands.size() == 1) {
    PromisedArray array = made(Kind::SumAlong, operands);
    array.numbers.push_back({.number = *axisOfSum});
    return array;
  }
  if (name->name == "cast" && operands.size() == 1)
    return arrayOf(*operands.front());
  if (name->name == "reshape" && !operands.empty())
    return reshape(operands);
  if (name->name == "transpose" && operands.size() > 1)
    return transpose(operands);
  if (name->name == "from_rank" && operands.size() == 2) {
    const auto rank = numberOf(*operands.back());
    if (!rank)
      return unknown("`from_rank` of a rank that it does not follow");
    PromisedArray array = made(Kind::FromRank, operands.front());
    array.numbers.push_back(*rank);
    array.along = std::move(along);
    return array;
  }
  if (name->name == "take" && operands.size() == 2)
    return take(*operands[0], *operands[1]);
  if (name->name == "concat" && !operands.empty())
    return made(Kind::Concat, operands);
  const size_t wanted = kind == Kind::MatrixProduct ? 2 : 1;
  if (kind == Kind::Unknown || operands.size() != wanted)
    return unknown("`" + name->name + "`");
  PromisedArray array = made(kind, operands);
  array.along = std::move(along);
  return array;
}

PromisedArray PromiseReader::arrayOf(const ast::Expr &e) const {
  switch (e.kind) {
  case ast::NodeKind::IntLit:
    return number(double(llvm::cast<ast::IntLit>(e).value));
  case ast::NodeKind::FloatLit:
    return number(llvm::cast<ast::FloatLit>(e).value);
  case ast::NodeKind::NameExpr: {
    if (const auto found = known_.find(llvm::cast<ast::NameExpr>(e).name); found != known_.end())
      return found->second;
    if (depth_ > 0)
      return unknown("`" + llvm::cast<ast::NameExpr>(e).name + "`");
    PromisedArray array;
    array.kind = Kind::Param;
    array.name = llvm::cast<ast::NameExpr>(e).name.str();
    return array;
  }
  case ast::NodeKind::UnaryExpr:
    if (const auto &unary = llvm::cast<ast::UnaryExpr>(e); unary.op == ast::UnaryOp::Neg)
      return made(Kind::Negative, {unary.operand});
    return unknown("an operator that only integers have");
  case ast::NodeKind::BinaryExpr:
    return binary(llvm::cast<ast::BinaryExpr>(e));
  case ast::NodeKind::MemberExpr:
    if (const auto &member = llvm::cast<ast::MemberExpr>(e); member.member.name == "T")
      return made(Kind::Transpose, {member.base});
    return unknown("a member of an array");
  case ast::NodeKind::CallExpr:
    return call(llvm::cast<ast::CallExpr>(e));
  case ast::NodeKind::IndexExpr:
    if (depth_ == 0)
      return slice(llvm::cast<ast::IndexExpr>(e));
    return unknown("an index in a function");
  default:
    return unknown("an expression that only runs can compare");
  }
}

} // namespace

std::vector<protocol::Promise> promisesOf(const sema::Program &program,
                                          llvm::ArrayRef<const sema::KernelInstance *> kernels) {
  std::vector<protocol::Promise> all;
  for (const sema::KernelInstance *kernel : kernels)
    for (const ast::ExpectStmt *ensures : kernel->decl->ensures) {
      const PromiseReader reader(program, *kernel);
      protocol::Promise promise;
      promise.kernel = kernel->name;
      promise.place = ensures->range;
      const auto *relation = llvm::dyn_cast_or_null<ast::BinaryExpr>(ensures->condition);
      const bool isEqual =
          relation && (relation->op == ast::BinaryOp::Approx || relation->op == ast::BinaryOp::Eq);
      const auto *part = isEqual ? llvm::dyn_cast<ast::IndexExpr>(relation->lhs) : nullptr;
      const auto *output =
          isEqual ? llvm::dyn_cast<ast::NameExpr>(part ? part->base : relation->lhs) : nullptr;
      if (output) {
        promise.output = output->name.str();
        promise.expected = reader.arrayOf(*relation->rhs);
      } else {
        promise.expected = unknown("another form than `output ~= …`");
      }
      if (output && part) {
        promise.part = reader.slice(*part);
        promise.partText = ast::textOf(part);
      }
      all.push_back(std::move(promise));
    }
  return all;
}

} // namespace dtile::driver
