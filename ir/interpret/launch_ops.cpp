// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constants, machine facts and assertions, and what a kernel's prologue declares: parameters,
// signals, spaces.
#include "frontend/base/value_text.h"
#include "ir/analysis/clauses.h"
#include "ir/interpret/elements.h"
#include "ir/interpret/state.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace dtile::interpret {

using ir::Op;
using ir::OpKind;

namespace {

/// Cells of one signal: a size beyond is a mistake in a shape.
constexpr int64_t kMaxCells = int64_t(1) << 24;

struct ConstInfo : InstrInfo {
  Scalar value = 0;
};

struct ParamInfo : InstrInfo {
  int64_t position = 0;
  int64_t dim = 0;
  DType dtype = DType::F32;
};

Step runConst(Body &body, const Instr &instr) {
  body.frame->scalars[instr.result] = static_cast<const ConstInfo &>(*instr.info).value;
  return Step::Next;
}

Step runRank(Body &body, const Instr &instr) {
  body.frame->scalars[instr.result] = static_cast<Scalar>(body.rank.rank);
  return Step::Next;
}

Step runNumRanks(Body &body, const Instr &instr) {
  body.frame->scalars[instr.result] = static_cast<Scalar>(body.machine.numRanks);
  return Step::Next;
}

Step runEpoch(Body &body, const Instr &instr) {
  body.frame->scalars[instr.result] =
      static_cast<Scalar>(body.machine.kernel->epoch[body.rank.rank]);
  return Step::Next;
}

std::string valueText(ir::Type type, Scalar value) {
  const DType dtype = type.elementOrIndex();
  if (dtype == DType::Bool)
    return (value & 0xFF) ? "true" : "false";
  if (dtype == DType::U64)
    return std::to_string(value);
  if (isInteger(dtype))
    return std::to_string(loadAsInt(dtype, &value));
  char text[32];
  std::snprintf(text, sizeof text, "%g", loadAsDouble(dtype, &value));
  return text;
}

/// Replaces {0}, {1} … in the message by the trailing operands.
std::string filled(Body &body, const Instr &instr, llvm::StringRef message) {
  std::string text;
  for (size_t i = 0; i < message.size(); ++i) {
    const llvm::StringRef rest = message.drop_front(i);
    const size_t close = rest.find('}');
    unsigned hole = 0;
    const bool isHole = rest.starts_with("{") && close != llvm::StringRef::npos &&
                        !rest.slice(1, close).getAsInteger(10, hole) &&
                        hole + 1 < instr.operands.size();
    if (!isHole) {
      text += message[i];
      continue;
    }
    const ir::Type type = instr.op->operand(hole + 1)->type();
    text += bankOf(type) == Bank::Scalar ? valueText(type, body.scalar(instr.operands[hole + 1]))
                                         : type.str();
    i += close;
  }
  return text;
}

Step runAssert(Body &body, const Instr &instr) {
  if ((body.scalar(instr.operands[0]) & 0xFF) != 0)
    return Step::Next;
  return body.machine.trap(body, *instr.op, filled(body, instr, instr.op->get(ir::attr::message)));
}

// Instructions mean something to their machine alone.
Step runAsm(Body &body, const Instr &instr) {
  return body.machine.trap(body, *instr.op,
                           "instructions of `" + instr.op->get(ir::attr::assembly).str() +
                               "` in `" + instr.op->get(ir::attr::name).str() +
                               "` cannot be interpreted");
}

// One write a line, so that lines of ranks do not mix.
Step runPrint(Body &body, const Instr &instr) {
  std::string text = body.describe() + ": " + instr.op->get(ir::attr::message).str();
  if (!instr.operands.empty()) {
    const ir::Type type = instr.op->operand(0)->type();
    const TileDesc tile(type);
    const Operand operand = instr.operands[0];
    const Scalar scalar = bankOf(type) == Bank::Scalar ? body.scalar(operand) : Scalar();
    const char *data = bankOf(type) == Bank::Scalar
                           ? reinterpret_cast<const char *>(&scalar)
                           : static_cast<const char *>(std::as_const(body.tile(operand)).data());
    const auto element = [&](int64_t i) -> std::string {
      const void *at = data + size_t(i) * tile.elementBytes;
      if (tile.dtype == DType::Bool)
        return loadAsInt(tile.dtype, at) ? "true" : "false";
      if (tile.dtype == DType::U64)
        return std::to_string(uint64_t(loadAsInt(tile.dtype, at)));
      return isInteger(tile.dtype) ? std::to_string(loadAsInt(tile.dtype, at))
                                   : floatText(loadAsDouble(tile.dtype, at));
    };
    text += " = " + arrayText(tile.shape.data(), int(tile.rank), element);
  }
  text += "\n";
  std::fputs(text.c_str(), stderr);
  return Step::Next;
}

// Parameters.

const ArgumentCode *argumentAt(const Body &body, int64_t position, const Arg *&arg) {
  const std::vector<ArgumentCode> &arguments = body.machine.kernel->code->arguments;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].position == position) {
      arg = &(*body.rank.args)[i];
      return &arguments[i];
    }
  DTILE_UNREACHABLE("a launch operation names no parameter");
}

Step runLaunchDim(Body &body, const Instr &instr) {
  const auto &info = static_cast<const ParamInfo &>(*instr.info);
  const Arg *arg = nullptr;
  argumentAt(body, info.position, arg);
  body.frame->scalars[instr.result] = static_cast<Scalar>(arg->tensor.sizes[info.dim]);
  return Step::Next;
}

Step runLaunchCheck(Body &body, const Instr &instr) {
  const int64_t declared = body.index(instr.operands[0]);
  const int64_t passed = body.index(instr.operands[1]);
  if (declared == passed)
    return Step::Next;
  const auto &info = static_cast<const ParamInfo &>(*instr.info);
  const Arg *arg = nullptr;
  const ArgumentCode *argument = argumentAt(body, info.position, arg);
  MachineState &machine = body.machine;
  return machine.fail(RunError::Kind::BadArgument,
                      "kernel `" + machine.kernel->code->name + "`, argument `" + argument->name +
                          "`, rank " + std::to_string(body.rank.rank) + ": dimension " +
                          std::to_string(info.dim) + " has the size " + std::to_string(passed) +
                          ", but the kernel wants " + std::to_string(declared));
}

Step refuseLaunch(Body &body, const std::string &why) {
  MachineState &machine = body.machine;
  return machine.fail(RunError::Kind::BadArgument, "kernel `" + machine.kernel->code->name +
                                                       "`, rank " + std::to_string(body.rank.rank) +
                                                       ": " + why);
}

/// What this rank passes for a tensor parameter, and what rank 0 does.
std::pair<const TensorArg *, const TensorArg *> ownAndFirst(const Body &body, int64_t position) {
  const std::vector<ArgumentCode> &arguments = body.machine.kernel->code->arguments;
  const Arg *own = nullptr;
  argumentAt(body, position, own);
  size_t place = 0;
  while (arguments[place].position != position)
    ++place;
  return {&own->tensor, &(*body.machine.ranks.front().args)[place].tensor};
}

/// Whether rank 0 passes another size in one of the dimensions that determine `size`.
bool isOtherAtFirst(const Body &body, const ir::Value &size) {
  llvm::SmallPtrSet<const Op *, 4> dims;
  ir::addDeterminingDims(size, dims);
  return llvm::any_of(dims, [&](const Op *dim) {
    const auto [own, first] = ownAndFirst(body, dim->get(ir::attr::param));
    const auto d = size_t(dim->get(ir::attr::dim));
    return own->sizes[d] != first->sizes[d];
  });
}

template <typename Wide> bool overflows(OpKind kind, Wide a, Wide b, Wide *result) {
  switch (kind) {
  case OpKind::Add:
    return __builtin_add_overflow(a, b, result);
  case OpKind::Sub:
    return __builtin_sub_overflow(a, b, result);
  default:
    return __builtin_mul_overflow(a, b, result);
  }
}

/// Whether a sum, difference or product is outside of its type.
bool leavesType(OpKind kind, DType dtype, Scalar a, Scalar b) {
  if (dtype == DType::U64) {
    uint64_t result = 0;
    return overflows<uint64_t>(kind, a, b, &result);
  }
  int64_t result = 0;
  if (overflows<int64_t>(kind, loadAsInt(dtype, &a), loadAsInt(dtype, &b), &result))
    return true;
  if (dtype == DType::I64)
    return false;
  const bool isSigned = dtypeClass(dtype) == DTypeClass::Int;
  const int64_t end = int64_t(1) << (8 * dtypeBytes(dtype) - (isSigned ? 1 : 0));
  return result >= end || result < (isSigned ? -end : 0);
}

Step runLaunchRequire(Body &body, const Instr &instr) {
  if (instr.op->get(ir::attr::replicated))
    return isOtherAtFirst(body, *instr.op->operand(1))
               ? refuseLaunch(body, filled(body, instr, ir::refusalOf(*instr.op)) + " here")
               : Step::Next;
  const auto &info = static_cast<const RequireInfo &>(*instr.info);
  const bool wraps = llvm::any_of(info.arithmetic, [&](const RequireInfo::Arithmetic &one) {
    return leavesType(one.kind, one.dtype, body.scalar(one.a), body.scalar(one.b));
  });
  if (!wraps && (body.scalar(instr.operands[0]) & 0xFF) != 0)
    return Step::Next;
  return refuseLaunch(body, filled(body, instr, ir::refusalOf(*instr.op)));
}

/// Whether the rank has other elements than rank 0.
bool differsFromFirst(const Body &body, int64_t position) {
  const auto [own, first] = ownAndFirst(body, position);
  const TensorArg &a = *own, &b = *first;
  if (a.sizes != b.sizes)
    return true;
  int64_t count = 1;
  for (const int64_t size : a.sizes)
    count *= size;
  const size_t bytes = dtypeBytes(a.dtype);
  if (a.data == b.data)
    return false;
  for (int64_t i = 0; i < count; ++i) {
    int64_t number = i, offsetA = 0, offsetB = 0;
    for (size_t d = a.sizes.size(); d-- > 0; number /= a.sizes[d]) {
      offsetA += number % a.sizes[d] * a.strides[d];
      offsetB += number % a.sizes[d] * b.strides[d];
    }
    if (std::memcmp(static_cast<const char *>(a.data) + offsetA * bytes,
                    static_cast<const char *>(b.data) + offsetB * bytes, bytes) != 0)
      return true;
  }
  return false;
}

clauses::Elements elementsOf(const TensorArg &tensor) {
  clauses::Elements elements;
  elements.data = tensor.data;
  elements.bytes = int(dtypeBytes(tensor.dtype));
  elements.isSigned = dtypeClass(tensor.dtype) == DTypeClass::Int;
  elements.rank = int(tensor.sizes.size());
  elements.sizes = tensor.sizes.data();
  elements.strides = tensor.strides.data();
  return elements;
}

/// Where elements of two inputs are not as a clause wants them; one may be a peer's, or both may be
/// of all ranks.
std::string violationBetween(Body &body, const Instr &instr) {
  const Op &op = *instr.op;
  const auto positionOf = [&](unsigned operand) {
    return op.operand(operand)->definingOp()->get(ir::attr::param);
  };
  const Arg *own = nullptr, *other = nullptr;
  const ArgumentCode *argument = argumentAt(body, positionOf(0), own);
  const ArgumentCode *otherArgument = argumentAt(body, positionOf(1), other);
  const auto ofRanks = [&](const ArgumentCode *its) {
    const auto place = size_t(its - body.machine.kernel->code->arguments.data());
    return [&body, place](int64_t owner) {
      return elementsOf((*body.machine.ranks[size_t(owner)].args)[place].tensor);
    };
  };
  const auto numRanks = int64_t(body.machine.ranks.size());
  const char *name = argument->name.c_str(), *otherName = otherArgument->name.c_str();
  if (!op.has(ir::attr::at)) {
    // Of all ranks once is enough.
    return body.rank.rank != 0
               ? ""
               : clauses::numbersMissed(numRanks, body.index(instr.operands[2]), ofRanks(argument),
                                        ofRanks(otherArgument), name, otherName);
  }
  clauses::Predicate predicate = clauses::Predicate::Eq;
  clauses::parsePredicate(op.get(ir::attr::pred).str().c_str(), predicate);
  const auto &at = op.get(ir::attr::at);
  return clauses::violation(elementsOf(own->tensor), predicate,
                            {{at.begin(), at.end()}, op.getOr(ir::attr::peer, -1)}, body.rank.rank,
                            numRanks, ofRanks(otherArgument), name, otherName);
}

Step runLaunchElements(Body &body, const Instr &instr) {
  const Op &op = *instr.op;
  const int64_t position = op.operand(0)->definingOp()->get(ir::attr::param);
  const std::string required = "`" + op.get(ir::attr::text).str() + "` is " +
                               (ir::isAssumption(op) ? "assumed" : "required");
  if (op.numOperands() > 1 && op.operand(1)->type().isView()) {
    const std::string why = violationBetween(body, instr);
    return why.empty() ? Step::Next : refuseLaunch(body, required + ", and " + why);
  }
  ir::ElementClause clause;
  if (!ir::decode(op, clause)) {
    if (differsFromFirst(body, position))
      return refuseLaunch(body, required + ", and rank 0 has other elements");
    return Step::Next;
  }
  const Arg *arg = nullptr;
  const ArgumentCode *argument = argumentAt(body, position, arg);
  const clauses::Elements elements = elementsOf(arg->tensor);
  std::vector<int64_t> numbers;
  for (size_t i = 1; i < instr.operands.size(); ++i)
    numbers.push_back(body.index(instr.operands[i]));
  const std::string why = clauses::violation(elements, clause.kind, clause.predicate,
                                             op.has(ir::attr::pred) ? numbers.back() : 0,
                                             numbers.data(), argument->name.c_str());
  return why.empty() ? Step::Next : refuseLaunch(body, required + ", and " + why);
}

/// Dense row-major dimensions of the operand sizes; false when one is negative.
bool denseDims(Body &body, const Instr &instr, ViewVal &view, int64_t &elements) {
  view.dims = static_cast<uint8_t>(instr.operands.size());
  elements = 1;
  for (unsigned d = view.dims; d-- > 0;) {
    const int64_t size = body.index(instr.operands[d]);
    view.dim[d] = {.hi = size, .extent = size, .stride = elements};
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements))
      return false;
  }
  return true;
}

Step failSize(Body &body, const Instr &instr) {
  return body.machine.fail(RunError::Kind::BadArgument,
                           body.machine.place(*instr.op) + body.describe() +
                               ": the declared sizes of `" + instr.op->get(ir::attr::name).str() +
                               "` are negative or too large");
}

Step bindView(Body &body, const Instr &instr, const ViewVal &view) {
  if (Observer *observer = body.machine.observer)
    observer->binds(body.observedId(), *instr.op, view);
  body.frame->views[instr.result] = view;
  return Step::Next;
}

Step runScratch(Body &body, const Instr &instr) {
  const auto &info = static_cast<const ParamInfo &>(*instr.info);
  ViewVal view;
  int64_t elements = 0;
  if (!denseDims(body, instr, view, elements) ||
      elements > (int64_t(1) << 40) / int64_t(dtypeBytes(info.dtype)))
    return failSize(body, instr);
  SymmObject *object =
      body.machine.scratchObject(body, *instr.op, elements * dtypeBytes(info.dtype));
  if (!object)
    return Step::Failed;
  view.object = object;
  view.rank = body.rank.rank;
  view.data = object->base[view.rank];
  view.dtype = info.dtype;
  return bindView(body, instr, view);
}

Step runTensorParam(Body &body, const Instr &instr) {
  const auto &info = static_cast<const ParamInfo &>(*instr.info);
  const Arg *arg = nullptr;
  argumentAt(body, info.position, arg);
  const TensorArg &tensor = arg->tensor;
  ViewVal view;
  int64_t elements = 0;
  if (!denseDims(body, instr, view, elements))
    return failSize(body, instr);
  for (unsigned d = 0; d < view.dims; ++d)
    view.dim[d].stride = tensor.strides[d];
  view.data = static_cast<char *>(tensor.data);
  view.dtype = info.dtype;
  int rank = 0;
  view.object = body.machine.findSymmetric(tensor.data, rank);
  view.rank = view.object ? rank : body.rank.rank;
  return bindView(body, instr, view);
}

Step runScalarParam(Body &body, const Instr &instr) {
  const auto &info = static_cast<const ParamInfo &>(*instr.info);
  const Arg *arg = nullptr;
  argumentAt(body, info.position, arg);
  Scalar value = 0;
  std::memcpy(&value, &arg->scalarBits, dtypeBytes(info.dtype));
  body.frame->scalars[instr.result] = value;
  return Step::Next;
}

Step runSignalParam(Body &body, const Instr &instr) {
  ViewVal view;
  int64_t cells = 0;
  if (!denseDims(body, instr, view, cells) || cells > kMaxCells)
    return failSize(body, instr);
  // `target` is the signal's number in the kernel.
  SignalState *signal = body.machine.kernel->signals[instr.target].get();
  SignalVal value;
  value.signal = signal;
  value.rank = body.rank.rank;
  value.dims = view.dims;
  std::vector<int64_t> sizes;
  for (unsigned d = 0; d < view.dims; ++d) {
    value.dim[d] = {.size = view.dim[d].hi, .stride = view.dim[d].stride};
    sizes.push_back(view.dim[d].hi);
  }
  signal->sizes = std::move(sizes);
  for (SignalState::PerRank &rank : signal->ranks)
    for (std::vector<uint64_t> *list : {&rank.value, &rank.base, &rank.expected, &rank.asked})
      if (list->size() < size_t(cells))
        list->resize(cells);
  body.frame->signals[instr.result] = value;
  return Step::Next;
}

Step runSpace(Body &body, const Instr &instr) {
  SpaceRun &space = body.rank.spaces[instr.target];
  const unsigned dims = space.code->dims;
  space.first.clear();
  space.end.clear();
  space.step.clear();
  space.blocks.clear();
  space.centers.clear();
  space.total = 1;
  space.started = space.ended = 0;
  space.shuffled.clear();
  for (unsigned d = 0; d < dims; ++d) {
    const int64_t first = body.index(instr.operands[3 * d]);
    const int64_t end = body.index(instr.operands[3 * d + 1]);
    const int64_t step = body.index(instr.operands[3 * d + 2]);
    if (step <= 0)
      return body.machine.trap(
          body, *instr.op, "a space's step is " + std::to_string(step) + ", which is not positive");
    // Rounds up without overflow.
    const int64_t blocks = end > first ? (end - first - 1) / step + 1 : 0;
    space.first.push_back(first);
    space.end.push_back(end);
    space.step.push_back(step);
    space.blocks.push_back(blocks);
    const bool hasCenter = instr.operands.size() > 3 * dims;
    space.centers.push_back(hasCenter ? body.index(instr.operands[3 * dims + d]) : body.rank.rank);
    if (__builtin_mul_overflow(space.total, blocks, &space.total))
      return body.machine.trap(body, *instr.op, "a space has more bodies than can be counted");
  }
  const std::vector<int64_t> &programs = body.machine.schedule.programs;
  // Bodies that start in order have a limit of their own.
  space.programs =
      instr.target < programs.size() && !space.code->isOrdered ? programs[instr.target] : 0;
  space.startable.clear();
  for (int64_t p = 0; p < std::min(space.programs, space.total); ++p)
    space.startable.push_back(p);
  return Step::Next;
}

// Binding.

Scalar constBits(const Op &op) {
  const DType dtype = op.result()->type().elementOrIndex();
  const ir::Attr &value = *op.attr("value");
  Scalar bits = 0;
  if (const bool *flag = std::get_if<bool>(&value))
    storeFromInt(dtype, &bits, *flag);
  else if (const int64_t *integer = std::get_if<int64_t>(&value))
    storeFromInt(dtype, &bits, *integer);
  else
    storeFromDouble(dtype, &bits, std::get<double>(value));
  return bits;
}

void bindConst(Instr &instr) {
  auto info = std::make_unique<ConstInfo>();
  info->value = constBits(*instr.op);
  instr.info = std::move(info);
  instr.run = runConst;
}

void bindParam(Instr &instr, Handler run) {
  const Op &op = *instr.op;
  auto info = std::make_unique<ParamInfo>();
  info->position = op.get(ir::attr::param);
  info->dim = op.getOr(ir::attr::dim, 0);
  if (op.is(OpKind::Param) || op.is(OpKind::ScalarParam))
    info->dtype = op.result()->type().elementOrIndex();
  instr.info = std::move(info);
  instr.run = run;
}

} // namespace

void bindLaunch(Instr &instr) {
  switch (instr.op->kind()) {
  case OpKind::Const:
    return bindConst(instr);
  case OpKind::Rank:
    instr.run = runRank;
    return;
  case OpKind::NumRanks:
    instr.run = runNumRanks;
    return;
  case OpKind::Epoch:
    instr.run = runEpoch;
    return;
  case OpKind::Assert:
    instr.run = runAssert;
    return;
  case OpKind::Asm:
    instr.run = runAsm;
    return;
  case OpKind::Print:
    instr.run = runPrint;
    return;
  case OpKind::LaunchDim:
    return bindParam(instr, runLaunchDim);
  case OpKind::LaunchCheck:
    return bindParam(instr, runLaunchCheck);
  case OpKind::LaunchRequire:
    instr.run = runLaunchRequire;
    return;
  case OpKind::LaunchElements:
    instr.run = runLaunchElements;
    return;
  case OpKind::Param:
    return bindParam(instr, instr.op->get(ir::attr::mode) == ir::ParamMode::Scratch
                                ? runScratch
                                : runTensorParam);
  case OpKind::ScalarParam:
    return bindParam(instr, runScalarParam);
  case OpKind::SignalParam:
    instr.run = runSignalParam;
    return;
  case OpKind::Space:
    instr.run = runSpace;
    return;
  default:
    DTILE_UNREACHABLE("not an operation of a launch");
  }
}

} // namespace dtile::interpret
