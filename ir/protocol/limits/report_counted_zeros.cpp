// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is counted, from where, and the mask to paste, in the names of the program.
#include "ir/protocol/limits/report_counted_zeros.h"

#include "frontend/base/check.h"
#include "ir/analysis/communication.h"
#include "ir/core/constants.h"
#include "ir/core/tile_order.h"
#include "ir/core/view_dims.h"
#include "ir/protocol/limits/counted_zeros.h"

#include "llvm/ADT/DenseSet.h"

namespace dtile::protocol {

namespace {

using ir::Op;
using ir::OpKind;
using ir::Value;

std::string quoted(const llvm::Twine &text) { return ("`" + text + "`").str(); }

/// A dimension of a window, in the words of its author.
struct BlockEnd {
  /// "`n`"; empty where the range has no name.
  std::string range;
  /// "`N`"; empty where the end has no name.
  std::string end;
  /// A clause with which no block reaches past its end; empty where none is known.
  std::string clause;
  /// The range is cut by nothing but the tensor's edge.
  bool isEdge = false;
  /// Of such a range, its first position.
  int64_t start = 0;
  int64_t length = 0;
};

/// The op that a position counts in, and which of its dimensions.
struct Counter {
  const Value *first = nullptr;
  const Value *step = nullptr;
};

Counter counterOf(const Value *position) {
  const Op *op = position->argumentOf() ? position->argumentOf()->parentOp() : nullptr;
  const unsigned i = position->index();
  if (op && op->is(OpKind::For) && i == 0)
    return {op->operand(0), op->operand(2)};
  if (op && op->is(OpKind::Space) && i < ir::spaceDims(*op))
    return {op->operand(3 * i), op->operand(3 * i + 2)};
  return {};
}

/// The name of a size that a launch is given, where a clause may speak of it.
std::string sizeName(const Value *size) {
  const Op *op = size->definingOp();
  return op && op->is(OpKind::LaunchDim) ? size->nameHint().str() : "";
}

BlockEnd blockEnd(const Op &load, unsigned dim) {
  const Op &window = *load.operand(0)->definingOp();
  const auto dims = ir::viewDims(window);
  const auto *cut = llvm::find_if(
      dims, [&](const ir::ViewDim &from) { return from.isRange() && from.to == dim; });
  DTILE_CHECK(cut != dims.end(), "a block ends where a range does");
  const Value *first = window.operand(cut->operand), *limit = window.operand(cut->operand + 1);
  BlockEnd found;
  found.length = window.get(ir::attr::lens)[cut->range];
  const auto start = ir::constantOf(first), stop = ir::constantOf(limit);
  found.isEdge = start && stop && *stop - *start >= found.length;
  if (found.isEdge) {
    found.start = *start;
    const Op *object = window.operand(0)->definingOp();
    if (object && object->is(OpKind::Param))
      found.end = sizeName(object->operand(cut->from));
    if (!found.end.empty())
      found.clause = found.end + " >= " + std::to_string(*start + found.length);
    return found;
  }
  found.end = sizeName(limit);
  const Counter counter = counterOf(first);
  if (!counter.first)
    return found;
  found.range = first->nameHint().str();
  if (!found.end.empty() && ir::constantOf(counter.first) == 0 &&
      ir::constantOf(counter.step) == found.length)
    found.clause = found.end + " % " + std::to_string(found.length) + " == 0";
  return found;
}

/// A number that changes nothing where it stands among the operands of the op.
std::string neutralOf(const Op &op) {
  const DType dtype = op.operand(0)->type().elementOrIndex();
  const llvm::StringRef kind = op.is(OpKind::Dot) ? "sum" : op.get(ir::attr::kind);
  if (kind == "all" || kind == "any")
    return kind == "all" ? "true" : "false";
  if (kind == "sum" || kind == "prod")
    return std::string(kind == "sum" ? "0" : "1") + (isFloat(dtype) ? ".0" : "");
  if (isFloat(dtype))
    return kind == "max" ? "-inf" : "inf";
  const bool isUnsigned = dtypeClass(dtype) == DTypeClass::UInt;
  if (kind == "max" && isUnsigned)
    return "0";
  const unsigned bits = dtypeBits(dtype) - (isUnsigned ? 0 : 1);
  const uint64_t most = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  return kind == "max" ? "-" + std::to_string(most) : std::to_string(most);
}

/// `iota(n) < N`, as it stands beside the tile.
std::string maskOf(const Value &tile, unsigned axis, const BlockEnd &block) {
  const std::string range = block.range.empty() ? "…" : block.range;
  std::string positions = "iota(" + range + ")";
  if (block.isEdge)
    positions = (block.start == 0 ? "" : std::to_string(block.start) + " + ") + "iota<i64>(" +
                std::to_string(block.length) + ")";
  for (unsigned d = axis + 1; d < tile.type().rank(); ++d)
    positions = "expand(" + positions + ", axis: 1)";
  return positions + " < " + (block.end.empty() ? range + ".limit" : block.end);
}

std::string callOf(const Op &op) {
  if (op.is(OpKind::Dot))
    return "product";
  const llvm::StringRef kind = op.get(ir::attr::kind);
  return quoted(op.is(OpKind::ArgReduce) ? "arg" + kind : kind);
}

std::string textOf(const CountedZeros &found, const BlockEnd &block) {
  const Op *object = ir::objectOf(found.load->operand(0));
  const std::string of = object ? " of " + quoted(object->get(ir::attr::name)) : "";
  const std::string end = block.end.empty() ? "its limit" : quoted(block.end);
  const std::string along = !block.range.empty()
                                ? " along " + quoted(block.range)
                                : " along dimension " + std::to_string(found.dim) + " of it";
  switch (found.kind) {
  case CountedZeros::Kind::Reduced:
    return "this " + callOf(*found.op) + " takes zeros for elements: a block" + of +
           " may reach past " + end + along + ", and reads 0 there";
  case CountedZeros::Kind::Averaged:
    return "this mean divides by all " + std::to_string(block.length) + " positions: a block" + of +
           " may reach past " + end + along + ", and reads 0 there";
  case CountedZeros::Kind::Indexed:
    return "this takes zeros for positions: a block" + of + " may reach past " + end + along +
           ", and reads 0 there";
  }
  return "";
}

std::string remedyOf(const CountedZeros &found, const BlockEnd &block) {
  const std::string mask = maskOf(*found.tile, found.axis, block);
  std::string text;
  switch (found.kind) {
  case CountedZeros::Kind::Reduced:
    text = "leave them out, " + quoted("where(" + mask + ", …, " + neutralOf(*found.op) + ")");
    break;
  case CountedZeros::Kind::Averaged:
    text = "divide the `sum` by how many there are" +
           (block.range.empty() ? "" : ", " + quoted(block.range + ".count"));
    break;
  case CountedZeros::Kind::Indexed:
    text = "leave them out, " + quoted("where(" + mask + ", …, -1)") + ": position -1 is none";
    break;
  }
  if (!block.clause.empty())
    text += "; where callers see to it, say " + quoted("requires " + block.clause + ";") +
            " at the head of the kernel";
  return text;
}

void report(CountedZeros found, const Op &kernel, const SourceManager *sources,
            llvm::DenseSet<uint32_t> &places, Diagnostics &diagnostics) {
  const BlockEnd block = blockEnd(*found.load, found.dim);
  SourceLoc place = found.op->loc();
  // A function of a library is right: whoever gives it the block is told.
  const bool isElsewhere = sources && place.isValid() && kernel.loc().isValid() &&
                           sources->fileOf(place) != sources->fileOf(kernel.loc());
  if (!place.isValid() || isElsewhere) {
    place = found.load->loc();
    found.tile = found.load->result();
    found.axis = found.dim;
  }
  // What a function does to a block it does to all of it: one mask is enough.
  if (!places.insert(place.offset).second)
    return;
  DiagBuilder builder = diagnostics.report(place, diag::counted_zeros, textOf(found, block));
  const SourceLoc read = found.load->loc();
  if (isElsewhere)
    builder.note(SourceRange{found.op->loc(), found.op->loc()}, diag::note_protocol,
                 "they are taken here");
  else
    builder.note(SourceRange{read, read}, diag::note_protocol, "the block is read here");
  builder.note(SourceRange{place, place}, diag::note_protocol, remedyOf(found, block));
}

} // namespace

void reportCountedZeros(ir::Module &module, Diagnostics &diagnostics) {
  llvm::DenseSet<uint32_t> places;
  for (Op &kernel : module.body().ops())
    if (kernel.is(OpKind::Kernel))
      for (const CountedZeros &found : countedZeros(kernel))
        report(found, kernel, module.sources(), places, diagnostics);
}

} // namespace dtile::protocol
