// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions on sums instead of numbers (terms.h): they take the place of those on f64. Moving
// elements is the same for both, so loads, stores, puts, slices and shapes stay as they are.
#include "ir/interpret/elements.h"
#include "ir/interpret/state.h"
#include "ir/interpret/terms.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::interpret {

using ir::Op;
using ir::OpKind;

namespace {

struct SymbolicInfo : InstrInfo {
  OpKind kind = OpKind::Add;
  TileDesc in;
  TileDesc out;
  /// Of a reduction: operands seen as [outer, length, inner].
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
  /// Of a reduction, an atomic operation and a constant.
  OpKind combine = OpKind::Add;
  double value = 0;
};

const SymbolicInfo &infoOf(const Instr &instr) {
  return static_cast<const SymbolicInfo &>(*instr.info);
}

TermId combined(TermTable &terms, OpKind kind, TermId a, TermId b) {
  double left = 0;
  double right = 0;
  switch (kind) {
  case OpKind::Add:
    return terms.add(a, b);
  case OpKind::Sub:
    return terms.add(a, terms.scale(b, -1));
  case OpKind::Mul:
    return terms.multiply(a, b);
  case OpKind::Div:
    if (terms.isConstant(b, right) && right != 0)
      return terms.scale(a, 1 / right);
    return a == 0 ? 0 : terms.opaque(unsigned(kind), {a, b});
  case OpKind::Min:
  case OpKind::Max:
    if (a == b)
      return a;
    if (terms.isConstant(a, left) && terms.isConstant(b, right))
      return terms.constant(kind == OpKind::Min ? std::min(left, right) : std::max(left, right));
    return terms.opaque(unsigned(kind), {std::min(a, b), std::max(a, b)});
  default:
    return terms.opaque(unsigned(kind), {a, b});
  }
}

TermId applied(TermTable &terms, OpKind kind, TermId a) {
  if (kind == OpKind::Neg)
    return terms.scale(a, -1);
  return terms.opaque(unsigned(kind), {a});
}

/// The operand's elements, wherever they are.
const void *elementsOf(Body &body, const Instr &instr, unsigned operand) {
  if (instr.op->operand(operand)->type().isTile())
    return body.tile(instr.operands[operand]).data();
  return &body.scalar(instr.operands[operand]);
}

/// Gives fn the place for the result's elements, and puts them into its slot.
template <typename Fn> Step makeResult(Body &body, const Instr &instr, const TileDesc &out, Fn fn) {
  if (!instr.op->result()->type().isTile()) {
    Scalar scalar = 0;
    fn(static_cast<void *>(&scalar));
    body.frame->scalars[instr.result] = scalar;
    return Step::Next;
  }
  TileRef tile = body.machine.tiles.allocate(std::max<size_t>(1, out.bytes()));
  fn(tile.data());
  body.frame->tiles[instr.result] = std::move(tile);
  return Step::Next;
}

Step runUnary(Body &body, const Instr &instr) {
  const SymbolicInfo &info = infoOf(instr);
  TermTable &terms = *body.machine.schedule.terms;
  const auto *from = static_cast<const TermId *>(elementsOf(body, instr, 0));
  return makeResult(body, instr, info.out, [&](void *out) {
    for (int64_t i = 0; i < info.out.elements; ++i)
      static_cast<TermId *>(out)[i] = applied(terms, info.kind, from[i]);
  });
}

Step runBinary(Body &body, const Instr &instr) {
  const SymbolicInfo &info = infoOf(instr);
  TermTable &terms = *body.machine.schedule.terms;
  const auto *a = static_cast<const TermId *>(elementsOf(body, instr, 0));
  const auto *b = static_cast<const TermId *>(elementsOf(body, instr, 1));
  return makeResult(body, instr, info.out, [&](void *out) {
    for (int64_t i = 0; i < info.out.elements; ++i)
      static_cast<TermId *>(out)[i] = combined(terms, info.kind, a[i], b[i]);
  });
}

Step runCompare(Body &body, const Instr &instr) {
  const SymbolicInfo &info = infoOf(instr);
  body.machine.schedule.terms->giveUp("it compares floating-point values");
  return makeResult(body, instr, info.out,
                    [&](void *out) { std::memset(out, 0, info.out.bytes()); });
}

Step runCastFrom(Body &body, const Instr &instr) {
  const SymbolicInfo &info = infoOf(instr);
  body.machine.schedule.terms->giveUp("it converts floating-point values to integers");
  return makeResult(body, instr, info.out,
                    [&](void *out) { std::memset(out, 0, info.out.bytes()); });
}

/// Sums have no bits.
Step runBitcast(Body &body, const Instr &instr) {
  const SymbolicInfo &info = infoOf(instr);
  body.machine.schedule.terms->giveUp("it takes floating-point values by their bits");
  return makeResult(body, instr, info.out,
                    [&](void *out) { std::memset(out, 0, info.out.bytes()); });
}

Step runCastTo(Body &body, const Instr &instr) {
  const SymbolicInfo &info = infoOf(instr);
  TermTable &terms = *body.machine.schedule.terms;
  const auto *from = static_cast<const char *>(elementsOf(body, instr, 0));
  return makeResult(body, instr, info.out, [&](void *out) {
    for (int64_t i = 0; i < info.out.elements; ++i) {
      const char *element = from + i * int64_t(info.in.elementBytes);
      const double value = info.in.dtype == DType::Bool ? double(*element != 0)
                                                        : double(loadAsInt(info.in.dtype, element));
      static_cast<TermId *>(out)[i] = terms.constant(value);
    }
  });
}

Step runConst(Body &body, const Instr &instr) {
  body.frame->scalars[instr.result] = body.machine.schedule.terms->constant(infoOf(instr).value);
  return Step::Next;
}

Step runReduce(Body &body, const Instr &instr) {
  const SymbolicInfo &info = infoOf(instr);
  TermTable &terms = *body.machine.schedule.terms;
  const auto *from = static_cast<const TermId *>(elementsOf(body, instr, 0));
  const bool isScan = info.kind == OpKind::Scan;
  return makeResult(body, instr, info.out, [&](void *out) {
    auto *to = static_cast<TermId *>(out);
    for (int64_t o = 0; o < info.outer; ++o)
      for (int64_t i = 0; i < info.inner; ++i) {
        const int64_t start = o * info.length * info.inner + i;
        TermId total = from[start];
        for (int64_t at = 0; at < info.length; ++at) {
          const int64_t place = start + at * info.inner;
          total = at == 0 ? total : combined(terms, info.combine, total, from[place]);
          if (isScan)
            to[place] = total;
        }
        if (!isScan)
          to[o * info.inner + i] = total;
      }
  });
}

Step runArgReduce(Body &body, const Instr &instr) { return runCompare(body, instr); }

Step runDot(Body &body, const Instr &instr) {
  const SymbolicInfo &info = infoOf(instr);
  TermTable &terms = *body.machine.schedule.terms;
  const auto *a = static_cast<const TermId *>(elementsOf(body, instr, 0));
  const auto *b = static_cast<const TermId *>(elementsOf(body, instr, 1));
  const auto *c = static_cast<const TermId *>(elementsOf(body, instr, 2));
  return makeResult(body, instr, info.out, [&](void *out) {
    auto *to = static_cast<TermId *>(out);
    std::copy_n(c, info.out.elements, to);
    for (int64_t i = 0; i < info.outer; ++i)
      for (int64_t k = 0; k < info.length; ++k) {
        const TermId left = a[i * info.length + k];
        if (left == 0)
          continue;
        for (int64_t j = 0; j < info.inner; ++j)
          if (const TermId right = b[k * info.inner + j]; right != 0) {
            TermId &sum = to[i * info.inner + j];
            sum = terms.add(sum, terms.multiply(left, right));
          }
      }
  });
}

Step runAtomic(Body &body, const Instr &instr) {
  const SymbolicInfo &info = infoOf(instr);
  TermTable &terms = *body.machine.schedule.terms;
  body.completeTokens(instr);
  const ViewVal &view = body.view(instr.operands[0]);
  Scalar old = 0;
  readView(view, {}, &old);
  const Scalar next = combined(terms, info.combine, old, body.scalar(instr.operands[1]));
  writeView(view, {}, &next);
  body.frame->scalars[instr.result] = old;
  return Step::Next;
}

bool isSum(ir::Type type) {
  const bool hasElements = type.isTile() || type.isView() || type.isScalar();
  return hasElements && type.dtype() == DType::F64;
}

/// The handler for an operation on sums; null where moving bits is enough.
Handler handlerOf(const Op &op) {
  const bool takes = op.numOperands() != 0 && isSum(op.operand(0)->type());
  const bool gives = op.numResults() != 0 && isSum(op.result()->type());
  switch (op.kind()) {
  case OpKind::Const:
    return gives ? runConst : nullptr;
  case OpKind::Cmp:
    return takes ? runCompare : nullptr;
  case OpKind::Cast:
    return takes == gives ? nullptr : takes ? runCastFrom : runCastTo;
  case OpKind::Bitcast:
    return takes || gives ? runBitcast : nullptr;
  case OpKind::Reduce:
  case OpKind::Scan:
    return takes ? runReduce : nullptr;
  case OpKind::ArgReduce:
    return takes ? runArgReduce : nullptr;
  case OpKind::Dot:
    return gives ? runDot : nullptr;
  case OpKind::Atomic:
    return takes ? runAtomic : nullptr;
  case OpKind::Select:
  case OpKind::Extern:
    return nullptr;
  default:
    break;
  }
  if (!op.isPure() || !takes || !gives || op.numRegions() != 0)
    return nullptr;
  const bool isElementwise = op.info().results == "same";
  if (!isElementwise)
    return nullptr;
  return op.numOperands() == 1 ? runUnary : runBinary;
}

OpKind combinerOf(const Op &op) {
  const llvm::StringRef kind = op.get(ir::attr::kind);
  return kind == "sum" || kind == "add" ? OpKind::Add
         : kind == "prod"               ? OpKind::Mul
         : kind == "min"                ? OpKind::Min
         : kind == "max"                ? OpKind::Max
                                        : OpKind::Xor;
}

} // namespace

void bindSymbolic(Instr &instr) {
  const Op &op = *instr.op;
  const Handler run = handlerOf(op);
  if (!run)
    return;
  auto info = std::make_unique<SymbolicInfo>();
  info->kind = op.kind();
  if (op.numOperands() != 0 && !op.operand(0)->type().isView())
    info->in = TileDesc(op.operand(0)->type());
  info->out = TileDesc(op.result()->type());
  if (op.is(OpKind::Const)) {
    const ir::Attr &value = *op.attr("value");
    if (const int64_t *integer = std::get_if<int64_t>(&value))
      info->value = double(*integer);
    else
      info->value = std::get<double>(value);
  } else if (op.is(OpKind::Reduce) || op.is(OpKind::Scan)) {
    const auto axis = static_cast<unsigned>(op.get(ir::attr::axis));
    for (unsigned d = 0; d < info->in.rank; ++d)
      (d < axis ? info->outer : d == axis ? info->length : info->inner) *= info->in.shape[d];
    info->combine = combinerOf(op);
  } else if (op.is(OpKind::Dot)) {
    info->outer = info->in.shape[0];
    info->length = info->in.shape[1];
    info->inner = info->out.shape[1];
  } else if (op.is(OpKind::Atomic)) {
    info->combine = combinerOf(op);
  }
  instr.info = std::move(info);
  instr.run = run;
}

TermId combineTerms(TermTable &terms, const Op &atomic, TermId old, TermId value) {
  return combined(terms, combinerOf(atomic), old, value);
}

void addTerms(TermTable &terms, const ViewVal &view, llvm::ArrayRef<int64_t> sizes,
              const void *from) {
  forEachRun(view, sizes, [&](char *to, int64_t element, int64_t count) {
    const auto *values = static_cast<const TermId *>(from) + element;
    const int64_t stride = view.dims == 0 ? 0 : view.dim[view.dims - 1].stride;
    for (int64_t i = 0; i < count; ++i) {
      TermId sum = 0;
      char *place = to + i * stride * int64_t(sizeof(TermId));
      std::memcpy(&sum, place, sizeof sum);
      sum = terms.add(sum, values[i]);
      std::memcpy(place, &sum, sizeof sum);
    }
  });
}

} // namespace dtile::interpret
