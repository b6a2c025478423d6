// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions that make views and signal slices, and that touch memory at once.
#include "ir/analysis/communication.h"
#include "ir/interpret/elements.h"
#include "ir/interpret/state.h"

#include <algorithm>

namespace dtile::interpret {

using ir::Op;
using ir::OpKind;

namespace {

struct SliceInfo : InstrInfo {
  std::string letters;
  /// view.tile: static length of each `r`.
  std::vector<int64_t> lens;
};

struct DimInfo : InstrInfo {
  unsigned dim = 0;
};

struct AccessInfo : InstrInfo {
  TileDesc desc;
};

struct AtomicInfo : InstrInfo {
  DType dtype = DType::I32;
  enum class Kind : uint8_t { Combine, Exchange, CompareExchange } kind = Kind::Combine;
  BinaryKernel combine = nullptr;
};

/// An address that may lie outside its object, where nobody looks.
char *moved(char *data, int64_t bytes) {
  return reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(data) +
                                  static_cast<uintptr_t>(bytes));
}

// Views.

// Positions far outside may overflow; what is inside of a view never does, and nothing else is
// touched.
int64_t wrappingProduct(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
int64_t wrappingDifference(int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); }

/// Walks the letters and the operands of a slice.
class ViewSlicer {
public:
  ViewSlicer(Body &body, const Instr &instr)
      : body_(body), instr_(instr), info_(static_cast<const SliceInfo &>(*instr.info)),
        from_(body.view(instr.operands[0])), bytes_(dtypeBytes(from_.dtype)) {
    to_.data = from_.data;
    to_.object = from_.object;
    to_.rank = from_.rank;
    to_.dtype = from_.dtype;
    to_.isOutside = from_.isOutside;
  }

  ViewVal run() {
    for (unsigned d = 0; d < from_.dims; ++d) {
      const ViewVal::Dim &dim = from_.dim[d];
      switch (info_.letters[d]) {
      case 'i':
        position(dim);
        break;
      case 'r':
        info_.lens.empty() ? range(dim) : window(dim);
        break;
      default:
        to_.dim[to_.dims++] = dim;
        break;
      }
    }
    return to_;
  }

private:
  int64_t next() { return body_.index(instr_.operands[operand_++]); }

  void position(const ViewVal::Dim &dim) {
    const int64_t at = next();
    to_.isOutside |= at < dim.lo || at >= dim.hi;
    to_.data = moved(to_.data, wrappingProduct(at, dim.stride * bytes_));
  }

  void range(const ViewVal::Dim &dim) {
    const int64_t hi = std::max(dim.lo, dim.hi);
    const int64_t first = std::clamp(next(), dim.lo, hi);
    const int64_t end = std::clamp(next(), first, hi);
    to_.data = moved(to_.data, first * dim.stride * bytes_);
    to_.dim[to_.dims++] = {.hi = end - first, .extent = end - first, .stride = dim.stride};
  }

  void window(const ViewVal::Dim &dim) {
    const int64_t first = next();
    // Each from `first`: a limit behind the last number is a small one, but its distance is right.
    const int64_t last =
        std::min(wrappingDifference(next(), first), wrappingDifference(dim.hi, first));
    const int64_t length = info_.lens[ranges_++];
    const int64_t lo = std::clamp<int64_t>(wrappingDifference(dim.lo, first), 0, length);
    const int64_t hi = std::clamp(last, lo, length);
    to_.data = moved(to_.data, wrappingProduct(first, dim.stride * bytes_));
    to_.dim[to_.dims++] = {
        .lo = lo, .hi = hi, .extent = length, .stride = dim.stride, .isWindow = true};
  }

  Body &body_;
  const Instr &instr_;
  const SliceInfo &info_;
  const ViewVal &from_;
  int64_t bytes_;
  ViewVal to_;
  unsigned operand_ = 1;
  unsigned ranges_ = 0;
};

Step runViewSlice(Body &body, const Instr &instr) {
  ViewVal view = ViewSlicer(body, instr).run();
  body.frame->views[instr.result] = view;
  return Step::Next;
}

Step checkRank(Body &body, const Instr &instr, int64_t rank) {
  if (rank >= 0 && rank < body.machine.numRanks)
    return Step::Next;
  for (unsigned i = 0; 2 + 2 * i < instr.op->numOperands(); ++i) {
    const int64_t place = body.index(instr.operands[2 + 2 * i]);
    const int64_t places = body.index(instr.operands[3 + 2 * i]);
    if (place < 0 || place >= places)
      return body.machine.trap(
          body, *instr.op,
          outsideAxisText(*instr.op, i, std::to_string(place), std::to_string(places)));
  }
  return body.machine.trap(body, *instr.op,
                           "rank " + std::to_string(rank) + " is not one of the " +
                               std::to_string(body.machine.numRanks) + " ranks");
}

Step runViewAt(Body &body, const Instr &instr) {
  const int64_t rank = body.index(instr.operands[1]);
  if (checkRank(body, instr, rank) == Step::Failed)
    return Step::Failed;
  ViewVal view = body.view(instr.operands[0]);
  if (!view.object)
    return body.machine.trap(body, *instr.op, "the object is not in symmetric memory");
  const std::vector<char *> &base = view.object->base;
  view.data = moved(base[rank], reinterpret_cast<intptr_t>(view.data) -
                                    reinterpret_cast<intptr_t>(base[view.rank]));
  view.rank = static_cast<int32_t>(rank);
  body.frame->views[instr.result] = view;
  return Step::Next;
}

Step runViewSelect(Body &body, const Instr &instr) {
  const bool isFirst = body.scalar(instr.operands[0]) != 0;
  const ViewVal view = body.view(instr.operands[isFirst ? 1 : 2]);
  body.frame->views[instr.result] = view;
  return Step::Next;
}

Step runViewDim(Body &body, const Instr &instr) {
  const auto &info = static_cast<const DimInfo &>(*instr.info);
  const ViewVal &view = body.view(instr.operands[0]);
  body.frame->scalars[instr.result] = static_cast<Scalar>(view.dim[info.dim].hi);
  return Step::Next;
}

bool isContiguous(const ViewVal &view) {
  int64_t volume = 1;
  bool contiguous = true;
  for (unsigned d = view.dims; d-- > 0;) {
    const ViewVal::Dim &dim = view.dim[d];
    contiguous &= dim.lo == 0 && dim.hi == dim.extent && (dim.hi == 1 || dim.stride == volume);
    volume *= dim.hi;
  }
  return contiguous || volume == 0;
}

Step runViewReshape(Body &body, const Instr &instr) {
  const ViewVal &from = body.view(instr.operands[0]);
  if (!isContiguous(from))
    return body.machine.trap(body, *instr.op, "a view that is not contiguous is reshaped");
  int64_t had = 1;
  for (unsigned d = 0; d < from.dims; ++d)
    had *= from.dim[d].hi;
  ViewVal to = from;
  to.dims = static_cast<uint8_t>(instr.operands.size() - 1);
  int64_t volume = 1;
  for (unsigned d = to.dims; d-- > 0;) {
    const int64_t size = body.index(instr.operands[d + 1]);
    to.dim[d] = {.hi = size, .extent = size, .stride = volume};
    volume *= size;
  }
  if (volume != had)
    return body.machine.trap(body, *instr.op,
                             "a view of " + std::to_string(had) + " elements is reshaped to " +
                                 to.sizesText());
  body.frame->views[instr.result] = to;
  return Step::Next;
}

// Signals.

Step runSigSlice(Body &body, const Instr &instr) {
  const auto &info = static_cast<const SliceInfo &>(*instr.info);
  const SignalVal &from = body.signal(instr.operands[0]);
  SignalVal to = from;
  to.dims = 0;
  unsigned operand = 1;
  for (unsigned d = 0; d < from.dims; ++d) {
    const SignalVal::Dim &dim = from.dim[d];
    if (info.letters[d] == 'i') {
      const int64_t at = body.index(instr.operands[operand++]);
      if (at < 0 || at >= dim.size)
        return body.machine.trap(body, *instr.op,
                                 "position " + std::to_string(at) + " of signal `" +
                                     from.signal->name + "` is outside [0, " +
                                     std::to_string(dim.size) + ")");
      to.first += at * dim.stride;
    } else if (info.letters[d] == 'r') {
      const int64_t first = std::clamp<int64_t>(body.index(instr.operands[operand]), 0, dim.size);
      const int64_t end = std::clamp(body.index(instr.operands[operand + 1]), first, dim.size);
      operand += 2;
      to.first += first * dim.stride;
      to.dim[to.dims++] = {.size = end - first, .stride = dim.stride};
    } else {
      to.dim[to.dims++] = dim;
    }
  }
  body.frame->signals[instr.result] = to;
  return Step::Next;
}

Step runSigAt(Body &body, const Instr &instr) {
  const int64_t rank = body.index(instr.operands[1]);
  if (checkRank(body, instr, rank) == Step::Failed)
    return Step::Failed;
  SignalVal cells = body.signal(instr.operands[0]);
  cells.rank = static_cast<int32_t>(rank);
  body.frame->signals[instr.result] = cells;
  return Step::Next;
}

Step runSigDim(Body &body, const Instr &instr) {
  const auto &info = static_cast<const DimInfo &>(*instr.info);
  body.frame->scalars[instr.result] =
      static_cast<Scalar>(body.signal(instr.operands[0]).dim[info.dim].size);
  return Step::Next;
}

// Loads and stores.

void observe(Body &body, const Instr &instr, AccessKind kind, const ViewVal &view) {
  if (Observer *observer = body.machine.observer)
    observer->access(body.observedId(), *instr.op, kind, view, body.tokensOf(instr), 0);
}

/// Shows what a load or store of a tile touches.
void observeTile(Body &body, const Instr &instr, AccessKind kind, ViewVal view) {
  if (!body.machine.observer)
    return;
  cutToBox(view, static_cast<const AccessInfo &>(*instr.info).desc.sizes());
  observe(body, instr, kind, view);
}

Step runLoadTile(Body &body, const Instr &instr) {
  const auto &info = static_cast<const AccessInfo &>(*instr.info);
  body.completeTokens(instr);
  const ViewVal &view = body.view(instr.operands[0]);
  body.publishFor(view);
  observeTile(body, instr, AccessKind::Read, view);
  if (!instr.movesData)
    return Step::Next;
  TileRef out = body.machine.tiles.allocate(info.desc.bytes());
  readView(view, info.desc.sizes(), out.data());
  body.frame->tiles[instr.result] = std::move(out);
  return Step::Next;
}

Step runLoadScalar(Body &body, const Instr &instr) {
  body.completeTokens(instr);
  const ViewVal &view = body.view(instr.operands[0]);
  body.publishFor(view);
  observe(body, instr, AccessKind::Read, view);
  if (!instr.movesData)
    return Step::Next;
  Scalar out = 0;
  readView(view, {}, &out);
  body.frame->scalars[instr.result] = out;
  return Step::Next;
}

Step runStore(Body &body, const Instr &instr) {
  const auto &info = static_cast<const AccessInfo &>(*instr.info);
  body.completeTokens(instr);
  const ViewVal &view = body.view(instr.operands[1]);
  observeTile(body, instr, AccessKind::Write, view);
  if (!instr.movesData)
    return Step::Next;
  HeldStore store;
  store.view = view;
  if (info.desc.rank != 0) {
    store.tile = body.tile(instr.operands[0]);
    store.sizes.assign(info.desc.sizes().begin(), info.desc.sizes().end());
  } else {
    store.scalar = body.scalar(instr.operands[0]);
  }
  body.store(std::move(store));
  return Step::Next;
}

/// Positions that an index tile names.
struct IndexTile {
  DType dtype;
  const char *data;
  [[nodiscard]] int64_t operator[](int64_t element) const {
    return loadAsInt(dtype, data + element * int64_t(dtypeBytes(dtype)));
  }
};

IndexTile indexTile(Body &body, const Instr &instr, unsigned operand) {
  const ir::Type type = instr.op->operand(operand)->type();
  const Operand from = instr.operands[operand];
  const void *data = type.isTile() ? body.tile(from).data() : &body.scalar(from);
  return {type.elementOrIndex(), static_cast<const char *>(data)};
}

/// The same as forEachIndexed, where one tile picks positions of the view's first dimension.
template <typename Fn>
void forEachOfRows(Body &body, const Instr &instr, const ViewVal &view, Fn &&fn) {
  const IndexTile rows = indexTile(body, instr, 1);
  const llvm::ArrayRef<int64_t> shape = instr.op->result()->type().shape();
  const int64_t elements = instr.op->result()->type().elements();
  for (int64_t i = 0; i < elements; ++i) {
    int64_t offset = 0, rest = i;
    bool exists = true;
    for (unsigned d = view.dims; d-- > 0; rest /= shape[d]) {
      const int64_t at = d == 0 ? rows[rest] : rest % shape[d];
      exists &= at >= view.dim[d].lo && at < view.dim[d].hi;
      offset += exists ? at * view.dim[d].stride : 0;
    }
    if (exists)
      fn(i, view.data + offset * int64_t(dtypeBytes(view.dtype)));
  }
}

/// Calls fn(element number, address) for each position that index tiles name and that exists.
template <typename Fn>
void forEachIndexed(Body &body, const Instr &instr, const ViewVal &view, unsigned firstIndex,
                    Fn &&fn) {
  if (view.isOutside)
    return;
  if (ir::gathersRows(*instr.op))
    return forEachOfRows(body, instr, view, fn);
  llvm::SmallVector<IndexTile, 4> indices;
  int64_t elements = 1;
  for (unsigned d = 0; d < view.dims; ++d) {
    indices.push_back(indexTile(body, instr, firstIndex + d));
    elements = instr.op->operand(firstIndex + d)->type().elements();
  }
  const int64_t bytes = dtypeBytes(view.dtype);
  for (int64_t i = 0; i < elements; ++i) {
    int64_t offset = 0;
    bool exists = true;
    for (unsigned d = 0; d < view.dims; ++d) {
      const int64_t at = indices[d][i];
      exists &= at >= view.dim[d].lo && at < view.dim[d].hi;
      offset += exists ? at * view.dim[d].stride : 0;
    }
    if (exists)
      fn(i, view.data + offset * bytes);
  }
}

/// Shows the elements of a gather or scatter, each by itself.
void observeIndexed(Body &body, const Instr &instr, AccessKind kind, const ViewVal &view,
                    unsigned firstIndex) {
  if (!body.machine.observer)
    return;
  ViewVal element = view;
  element.dims = 0;
  forEachIndexed(body, instr, view, firstIndex, [&](int64_t, const char *place) {
    element.data = const_cast<char *>(place);
    observe(body, instr, kind, element);
  });
}

/// Whether all elements of a tile are one value.
bool isUniform(const ir::Value *tile) {
  const Op *op = tile->definingOp();
  const bool isMoved = op && (op->is(OpKind::Reshape) || op->is(OpKind::Broadcast) ||
                              op->is(OpKind::Convert) || op->is(OpKind::Cast));
  return op && (op->is(OpKind::Splat) || (isMoved && isUniform(op->operand(0))));
}

/// Shows a place to which a scatter brings elements that differ, or that nobody computes: `values`
/// is null then.
void observeMeeting(Body &body, const Instr &instr, const ViewVal &view, const char *values) {
  Observer *observer = body.machine.observer;
  if (!observer || (!values && isUniform(instr.op->operand(0))))
    return;
  std::vector<std::pair<const char *, int64_t>> places;
  forEachIndexed(body, instr, view, 2,
                 [&](int64_t element, const char *place) { places.emplace_back(place, element); });
  std::sort(places.begin(), places.end());
  const auto bytes = int64_t(dtypeBytes(view.dtype));
  const auto meeting =
      std::adjacent_find(places.begin(), places.end(), [&](const auto &a, const auto &b) {
        return a.first == b.first &&
               (!values || std::memcmp(values + a.second * bytes, values + b.second * bytes,
                                       size_t(bytes)) != 0);
      });
  if (meeting == places.end())
    return;
  ViewVal element = view;
  element.dims = 0;
  element.data = const_cast<char *>(meeting->first);
  observer->meetsItself(body.observedId(), *instr.op, element);
}

Step runGather(Body &body, const Instr &instr) {
  const auto &info = static_cast<const AccessInfo &>(*instr.info);
  body.completeTokens(instr);
  if (!instr.hasPositions)
    return Step::Next;
  const ViewVal &view = body.view(instr.operands[0]);
  body.publishFor(view);
  observeIndexed(body, instr, AccessKind::Read, view, 1);
  if (!instr.movesData)
    return Step::Next;
  const size_t bytes = info.desc.elementBytes;
  Scalar scalar = 0;
  TileRef tile;
  char *out = reinterpret_cast<char *>(&scalar);
  if (info.desc.rank != 0) {
    tile = body.machine.tiles.allocate(info.desc.bytes());
    out = static_cast<char *>(tile.data());
    std::memset(out, 0, info.desc.bytes());
  }
  forEachIndexed(body, instr, view, 1, [&](int64_t element, const char *place) {
    std::memcpy(out + element * bytes, place, bytes);
  });
  if (tile)
    body.frame->tiles[instr.result] = std::move(tile);
  else
    body.frame->scalars[instr.result] = scalar;
  return Step::Next;
}

Step runScatter(Body &body, const Instr &instr) {
  const auto &info = static_cast<const AccessInfo &>(*instr.info);
  body.completeTokens(instr);
  if (!instr.hasPositions)
    return Step::Next;
  const ViewVal &view = body.view(instr.operands[1]);
  body.publishFor(view);
  observeIndexed(body, instr, AccessKind::Write, view, 2);
  const Operand value = instr.operands[0];
  const void *from = !instr.movesData      ? nullptr
                     : info.desc.rank != 0 ? body.tile(value).data()
                                           : &body.scalar(value);
  observeMeeting(body, instr, view, static_cast<const char *>(from));
  if (!instr.movesData)
    return Step::Next;
  const size_t bytes = info.desc.elementBytes;
  forEachIndexed(body, instr, view, 2, [&](int64_t element, char *place) {
    std::memcpy(place, static_cast<const char *>(from) + element * bytes, bytes);
  });
  return Step::Next;
}

/// What an atomic leaves in place of `old`.
void combine(const AtomicInfo &info, Scalar *next, const Scalar *old, const Scalar *value,
             const Scalar *desired) {
  switch (info.kind) {
  case AtomicInfo::Kind::Combine:
    info.combine(old, value, next, 1);
    break;
  case AtomicInfo::Kind::Exchange:
    *next = *value;
    break;
  case AtomicInfo::Kind::CompareExchange:
    *next = std::memcmp(old, value, dtypeBytes(info.dtype)) == 0 ? *desired : *old;
    break;
  }
}

Step runAtomic(Body &body, const Instr &instr) {
  const auto &info = static_cast<const AtomicInfo &>(*instr.info);
  body.completeTokens(instr);
  const ViewVal &view = body.view(instr.operands[0]);
  body.publishFor(view);
  observe(body, instr, AccessKind::Atomic, view);
  if (!instr.movesData)
    return Step::Next;
  Scalar old = 0;
  readView(view, {}, &old);
  const Scalar value = body.scalar(instr.operands[1]);
  const bool isSwap = info.kind == AtomicInfo::Kind::CompareExchange;
  const Scalar desired = isSwap ? body.scalar(instr.operands[2]) : 0;
  Scalar next = 0;
  combine(info, &next, &old, &value, &desired);
  writeView(view, {}, &next);
  body.frame->scalars[instr.result] = old;
  return Step::Next;
}

/// The elements one after the other: where two are for one place, the second finds the first.
Step runAtomicScatter(Body &body, const Instr &instr) {
  const auto &info = static_cast<const AtomicInfo &>(*instr.info);
  body.completeTokens(instr);
  if (!instr.hasPositions)
    return Step::Next;
  const ViewVal &view = body.view(instr.operands[0]);
  const unsigned first = ir::firstIndexTile(*instr.op);
  body.publishFor(view);
  observeIndexed(body, instr, AccessKind::Atomic, view, first);
  if (!instr.movesData)
    return Step::Next;
  const TileDesc desc(instr.op->result()->type());
  TileRef result = body.machine.tiles.allocate(desc.bytes());
  auto *out = static_cast<char *>(result.data());
  std::memset(out, 0, desc.bytes());
  const size_t bytes = desc.elementBytes;
  const auto *values = static_cast<const char *>(body.tile(instr.operands[1]).data());
  const auto *desired =
      first == 3 ? static_cast<const char *>(body.tile(instr.operands[2]).data()) : nullptr;
  TermTable *terms = view.dtype == DType::F64 ? body.machine.schedule.terms : nullptr;
  forEachIndexed(body, instr, view, first, [&](int64_t element, char *place) {
    const size_t at = size_t(element) * bytes;
    std::memcpy(out + at, place, bytes);
    if (terms) {
      uint64_t sum = 0, value = 0;
      std::memcpy(&sum, place, sizeof sum);
      std::memcpy(&value, values + at, sizeof value);
      sum = combineTerms(*terms, *instr.op, sum, value);
      std::memcpy(place, &sum, sizeof sum);
      return;
    }
    Scalar old = 0, value = 0, wanted = 0, next = 0;
    std::memcpy(&old, place, bytes);
    std::memcpy(&value, values + at, bytes);
    if (desired)
      std::memcpy(&wanted, desired + at, bytes);
    combine(info, &next, &old, &value, &wanted);
    std::memcpy(place, &next, bytes);
  });
  body.frame->tiles[instr.result] = std::move(result);
  return Step::Next;
}

/// Its elements go as parts of one transfer, which lands as late as its token allows.
Step runReduceAddScatter(Body &body, const Instr &instr) {
  const auto &info = static_cast<const AccessInfo &>(*instr.info);
  const ViewVal &to = body.view(instr.operands[1]);
  AsyncOp op;
  op.kind = AsyncOp::Kind::ReduceAdd;
  op.destination = std::make_unique<ViewVal>(to);
  op.elements = std::make_unique<std::vector<AsyncOp::Element>>();
  if (instr.hasPositions)
    forEachIndexed(body, instr, to, 2, [&](int64_t element, char *place) {
      op.elements->push_back({place, element * int64_t(info.desc.elementBytes)});
    });
  if (instr.movesData)
    op.values = body.tile(instr.operands[0]);
  return issueSend(body, instr, std::move(op));
}

// Binding.

void bindSlice(Instr &instr) {
  auto info = std::make_unique<SliceInfo>();
  info->letters = instr.op->get(ir::attr::dims).str();
  if (instr.op->is(OpKind::ViewTile))
    info->lens = instr.op->get(ir::attr::lens).vec();
  instr.info = std::move(info);
}

void bindDim(Instr &instr) {
  auto info = std::make_unique<DimInfo>();
  info->dim = static_cast<unsigned>(instr.op->get(ir::attr::dim));
  instr.info = std::move(info);
}

void bindAccess(Instr &instr, ir::Type value, unsigned firstToken) {
  auto info = std::make_unique<AccessInfo>();
  info->desc = TileDesc(value);
  instr.info = std::move(info);
  instr.firstToken = static_cast<uint16_t>(firstToken);
}

void bindAtomic(Instr &instr) {
  const Op &op = *instr.op;
  auto info = std::make_unique<AtomicInfo>();
  info->dtype = op.operand(0)->type().dtype();
  const llvm::StringRef kind = op.get(ir::attr::kind);
  if (kind == "exch")
    info->kind = AtomicInfo::Kind::Exchange;
  else if (kind == "cas")
    info->kind = AtomicInfo::Kind::CompareExchange;
  else
    info->combine = binaryKernel(kind == "add"   ? OpKind::Add
                                 : kind == "min" ? OpKind::Min
                                 : kind == "max" ? OpKind::Max
                                 : kind == "and" ? OpKind::And
                                                 : OpKind::Or,
                                 info->dtype);
  instr.info = std::move(info);
}

} // namespace

void bindMemory(Instr &instr) {
  const Op &op = *instr.op;
  const auto trailing = op.numOperands() - ir::numTrailingTokens(op);
  switch (op.kind()) {
  case OpKind::ViewSlice:
  case OpKind::ViewTile:
    bindSlice(instr);
    instr.run = runViewSlice;
    return;
  case OpKind::ViewSelect:
    instr.run = runViewSelect;
    return;
  case OpKind::ViewAt:
    instr.run = runViewAt;
    return;
  case OpKind::ViewDim:
    bindDim(instr);
    instr.run = runViewDim;
    return;
  case OpKind::ViewReshape:
    instr.run = runViewReshape;
    return;
  case OpKind::SigSlice:
    bindSlice(instr);
    instr.run = runSigSlice;
    return;
  case OpKind::SigAt:
    instr.run = runSigAt;
    return;
  case OpKind::SigDim:
    bindDim(instr);
    instr.run = runSigDim;
    return;
  case OpKind::Load:
    bindAccess(instr, op.result()->type(), 1);
    instr.run = op.result()->type().isTile() ? runLoadTile : runLoadScalar;
    return;
  case OpKind::Store:
    bindAccess(instr, op.operand(0)->type(), 2);
    instr.run = runStore;
    return;
  case OpKind::Gather:
    bindAccess(instr, op.result()->type(), trailing);
    instr.run = runGather;
    return;
  case OpKind::Scatter:
    bindAccess(instr, op.operand(0)->type(), trailing);
    instr.run = runScatter;
    return;
  case OpKind::AtomicScatter:
    bindAtomic(instr);
    instr.firstToken = static_cast<uint16_t>(trailing);
    instr.run = runAtomicScatter;
    return;
  case OpKind::ReduceAddScatter:
    bindAccess(instr, op.operand(0)->type(), trailing);
    instr.run = runReduceAddScatter;
    return;
  case OpKind::Atomic:
    bindAtomic(instr);
    instr.firstToken = static_cast<uint16_t>(trailing);
    instr.run = runAtomic;
    return;
  default:
    DTILE_UNREACHABLE("not an operation on memory");
  }
}

} // namespace dtile::interpret
