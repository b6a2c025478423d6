// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions on whole tiles: shapes, reductions, products.
#include "ir/interpret/dot.h"
#include "ir/interpret/elements.h"
#include "ir/interpret/state.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace dtile::interpret {

using ir::Op;
using ir::OpKind;

namespace {

struct ShapeInfo : InstrInfo {
  TileDesc in;
  TileDesc out;
  /// For each dimension of the result, the step in the operand's elements.
  std::array<int64_t, 4> strides{};
};

/// Operands seen as [outer, length, inner] around an axis.
struct AxisInfo : InstrInfo {
  DType dtype = DType::F32;
  size_t outBytes = 0;
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
  bool givesScalar = false;
  using Loop = void (*)(const AxisInfo &, const void *in, void *out);
  Loop loop = nullptr;
};

struct TakeInfo : InstrInfo {
  TileDesc index;
  size_t elementBytes = 0;
  /// Sizes of the tile that is taken from, and of the index along the axis.
  int64_t outer = 1, length = 1, inner = 1, taken = 1;
};

struct DotInfo : InstrInfo {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  /// What the products and sums are in.
  DType compute = DType::F32;
  UnaryKernel castA = nullptr;
  UnaryKernel castB = nullptr;
  /// Accumulator to `compute` and back; null where it is that already.
  UnaryKernel castC = nullptr;
  UnaryKernel castOut = nullptr;
  size_t outBytes = 0;
};

std::array<int64_t, 4> denseStrides(const TileDesc &desc) {
  std::array<int64_t, 4> strides{};
  int64_t volume = 1;
  for (unsigned d = desc.rank; d-- > 0;) {
    strides[d] = volume;
    volume *= desc.shape[d];
  }
  return strides;
}

/// Copies elements to a dense result from where the strides say.
template <typename T> void copyByStrides(const ShapeInfo &info, const T *from, T *to) {
  const std::array<int64_t, 4> &step = info.strides;
  std::array<int64_t, 4> size{1, 1, 1, 1};
  std::array<int64_t, 4> stride{};
  // Aligned to the end, so that the loops are always four.
  const unsigned pad = 4 - info.out.rank;
  for (unsigned d = 0; d < info.out.rank; ++d) {
    size[pad + d] = info.out.shape[d];
    stride[pad + d] = step[d];
  }
  for (int64_t i = 0; i < size[0]; ++i)
    for (int64_t j = 0; j < size[1]; ++j)
      for (int64_t k = 0; k < size[2]; ++k) {
        const T *row = from + i * stride[0] + j * stride[1] + k * stride[2];
        for (int64_t l = 0; l < size[3]; ++l)
          *to++ = row[l * stride[3]];
      }
}

Step runCopyByStrides(Body &body, const Instr &instr) {
  const auto &info = static_cast<const ShapeInfo &>(*instr.info);
  const TileRef &in = body.tile(instr.operands[0]);
  TileRef out = body.machine.tiles.allocate(info.out.bytes());
  switch (info.out.elementBytes) {
  case 1:
    copyByStrides(info, static_cast<const uint8_t *>(in.data()),
                  static_cast<uint8_t *>(out.data()));
    break;
  case 2:
    copyByStrides(info, static_cast<const uint16_t *>(in.data()),
                  static_cast<uint16_t *>(out.data()));
    break;
  case 4:
    copyByStrides(info, static_cast<const uint32_t *>(in.data()),
                  static_cast<uint32_t *>(out.data()));
    break;
  case 8:
    copyByStrides(info, static_cast<const uint64_t *>(in.data()),
                  static_cast<uint64_t *>(out.data()));
    break;
  default:
    DTILE_UNREACHABLE("elements are 1, 2, 4 or 8 bytes");
  }
  body.frame->tiles[instr.result] = std::move(out);
  return Step::Next;
}

template <typename T> void fill(void *out, Scalar bits, int64_t count) {
  std::fill_n(static_cast<T *>(out), count, scalarAs<T>(bits));
}

Step runSplat(Body &body, const Instr &instr) {
  const auto &info = static_cast<const ShapeInfo &>(*instr.info);
  const Scalar bits = body.scalar(instr.operands[0]);
  TileRef out = body.machine.tiles.allocate(info.out.bytes());
  switch (info.out.elementBytes) {
  case 1:
    fill<uint8_t>(out.data(), bits, info.out.elements);
    break;
  case 2:
    fill<uint16_t>(out.data(), bits, info.out.elements);
    break;
  case 4:
    fill<uint32_t>(out.data(), bits, info.out.elements);
    break;
  default:
    fill<uint64_t>(out.data(), bits, info.out.elements);
    break;
  }
  body.frame->tiles[instr.result] = std::move(out);
  return Step::Next;
}

Step runIota(Body &body, const Instr &instr) {
  const auto &info = static_cast<const ShapeInfo &>(*instr.info);
  TileRef out = body.machine.tiles.allocate(info.out.bytes());
  char *to = static_cast<char *>(out.data());
  for (int64_t i = 0; i < info.out.elements; ++i)
    storeFromInt(info.out.dtype, to + i * info.out.elementBytes, i);
  body.frame->tiles[instr.result] = std::move(out);
  return Step::Next;
}

Step runReshape(Body &body, const Instr &instr) {
  TileRef tile = body.take(instr.operands[0]);
  body.frame->tiles[instr.result] = std::move(tile);
  return Step::Next;
}

// Reductions.

/// What a reduction accumulates in: narrow floats in f32, the others in themselves.
template <typename Element> using Accumulator = typename Element::Computed;

enum class ReduceKind : uint8_t { Sum, Max, Min, Prod, Any, All };

template <typename T> bool isNan([[maybe_unused]] T value) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(value);
  else
    return false;
}

template <ReduceKind K, typename T> T combine(T a, T b) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;
  switch (K) {
  case ReduceKind::Sum:
    return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  case ReduceKind::Prod:
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  case ReduceKind::Max:
    // A NaN gives the other, as `max` does.
    return a > b || isNan(b) ? a : b;
  case ReduceKind::Min:
    return a < b || isNan(b) ? a : b;
  case ReduceKind::Any:
    return static_cast<T>(a != 0 || b != 0);
  case ReduceKind::All:
    return static_cast<T>(a != 0 && b != 0);
  }
  return a;
}

template <ReduceKind K, typename Element>
void reduceLoop(const AxisInfo &info, const void *in, void *out) {
  using Stored = typename Element::Stored;
  using T = Accumulator<Element>;
  const auto *from = static_cast<const Stored *>(in);
  auto *to = static_cast<Stored *>(out);
  // Inner positions side by side, so that rows are read in order; each sums in the axis' order.
  constexpr int64_t kBlock = 64;
  for (int64_t o = 0; o < info.outer; ++o)
    for (int64_t first = 0; first < info.inner; first += kBlock) {
      const int64_t width = std::min(kBlock, info.inner - first);
      T total[kBlock];
      const Stored *row = from + o * info.length * info.inner + first;
      for (int64_t i = 0; i < width; ++i)
        total[i] = Element::load(row[i]);
      for (int64_t at = 1; at < info.length; ++at) {
        row += info.inner;
        for (int64_t i = 0; i < width; ++i)
          total[i] = combine<K, T>(total[i], Element::load(row[i]));
      }
      for (int64_t i = 0; i < width; ++i)
        to[o * info.inner + first + i] = Element::store(total[i]);
    }
}

template <ReduceKind K, typename Element>
void scanLoop(const AxisInfo &info, const void *in, void *out) {
  using Stored = typename Element::Stored;
  using T = Accumulator<Element>;
  const auto *from = static_cast<const Stored *>(in);
  auto *to = static_cast<Stored *>(out);
  for (int64_t o = 0; o < info.outer; ++o)
    for (int64_t i = 0; i < info.inner; ++i) {
      const int64_t start = o * info.length * info.inner + i;
      T total = Element::load(from[start]);
      to[start] = Element::store(total);
      for (int64_t at = 1; at < info.length; ++at) {
        const int64_t place = start + at * info.inner;
        total = combine<K, T>(total, Element::load(from[place]));
        to[place] = Element::store(total);
      }
    }
}

template <ReduceKind K, typename Element>
void argLoop(const AxisInfo &info, const void *in, void *out) {
  const auto *from = static_cast<const typename Element::Stored *>(in);
  auto *to = static_cast<int32_t *>(out);
  for (int64_t o = 0; o < info.outer; ++o)
    for (int64_t i = 0; i < info.inner; ++i) {
      const int64_t start = o * info.length * info.inner + i;
      auto best = Element::load(from[start]);
      int32_t where = 0;
      for (int64_t at = 1; at < info.length; ++at) {
        const auto value = Element::load(from[start + at * info.inner]);
        const bool isBetter = K == ReduceKind::Max ? value > best : value < best;
        // A number beats a NaN.
        if (isBetter || (isNan(best) && !isNan(value))) {
          best = value;
          where = static_cast<int32_t>(at);
        }
      }
      to[o * info.inner + i] = where;
    }
}

Step runAxis(Body &body, const Instr &instr) {
  const auto &info = static_cast<const AxisInfo &>(*instr.info);
  const TileRef &in = body.tile(instr.operands[0]);
  if (info.givesScalar) {
    Scalar result = 0;
    info.loop(info, in.data(), &result);
    body.frame->scalars[instr.result] = result;
    return Step::Next;
  }
  TileRef out = body.machine.tiles.allocate(info.outBytes);
  info.loop(info, in.data(), out.data());
  body.frame->tiles[instr.result] = std::move(out);
  return Step::Next;
}

Step runTake(Body &body, const Instr &instr) {
  const auto &info = static_cast<const TakeInfo &>(*instr.info);
  const TileRef &in = body.tile(instr.operands[0]), &index = body.tile(instr.operands[1]);
  TileRef out = body.machine.tiles.allocate(size_t(info.index.elements) * info.elementBytes);
  const auto *from = static_cast<const char *>(in.data());
  const auto *positions = static_cast<const char *>(index.data());
  auto *to = static_cast<char *>(out.data());
  for (int64_t o = 0; o < info.outer; ++o)
    for (int64_t t = 0; t < info.taken; ++t)
      for (int64_t i = 0; i < info.inner; ++i) {
        const int64_t at =
            loadAsInt(info.index.dtype, positions + ((o * info.taken + t) * info.inner + i) *
                                                        int64_t(info.index.elementBytes));
        if (at >= 0 && at < info.length)
          std::memcpy(to, from + ((o * info.length + at) * info.inner + i) * info.elementBytes,
                      info.elementBytes);
        else
          std::memset(to, 0, info.elementBytes);
        to += info.elementBytes;
      }
  body.frame->tiles[instr.result] = std::move(out);
  return Step::Next;
}

void bindTake(Instr &instr) {
  const Op &op = *instr.op;
  const TileDesc in(op.operand(0)->type());
  const auto axis = static_cast<unsigned>(op.get(ir::attr::axis));
  auto info = std::make_unique<TakeInfo>();
  info->index = TileDesc(op.operand(1)->type());
  info->elementBytes = in.elementBytes;
  for (unsigned d = 0; d < in.rank; ++d)
    (d < axis ? info->outer : d == axis ? info->length : info->inner) *= in.shape[d];
  info->taken = info->index.shape[axis];
  instr.info = std::move(info);
  instr.run = runTake;
}

ReduceKind reduceKindFromName(llvm::StringRef name) {
  constexpr llvm::StringLiteral kNames[] = {"sum", "max", "min", "prod", "any", "all"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name)
      return ReduceKind(i);
  DTILE_UNREACHABLE("an unknown reduction");
}

template <ReduceKind K> AxisInfo::Loop axisLoop(OpKind kind, DType type) {
  return withElement(type, [&](auto element) -> AxisInfo::Loop {
    using Element = decltype(element);
    if (kind == OpKind::Reduce)
      return reduceLoop<K, Element>;
    if (kind == OpKind::Scan)
      return scanLoop<K, Element>;
    return argLoop<K, Element>;
  });
}

AxisInfo::Loop axisLoop(ReduceKind reduce, OpKind kind, DType type) {
  switch (reduce) {
  case ReduceKind::Sum:
    return axisLoop<ReduceKind::Sum>(kind, type);
  case ReduceKind::Max:
    return axisLoop<ReduceKind::Max>(kind, type);
  case ReduceKind::Min:
    return axisLoop<ReduceKind::Min>(kind, type);
  case ReduceKind::Prod:
    return axisLoop<ReduceKind::Prod>(kind, type);
  case ReduceKind::Any:
    return axisLoop<ReduceKind::Any>(kind, type);
  case ReduceKind::All:
    return axisLoop<ReduceKind::All>(kind, type);
  }
  DTILE_UNREACHABLE("an unknown reduction");
}

void bindAxis(Instr &instr) {
  const Op &op = *instr.op;
  const TileDesc in(op.operand(0)->type());
  const auto axis = static_cast<unsigned>(op.get(ir::attr::axis));
  auto info = std::make_unique<AxisInfo>();
  info->dtype = in.dtype;
  for (unsigned d = 0; d < in.rank; ++d)
    (d < axis ? info->outer : d == axis ? info->length : info->inner) *= in.shape[d];
  info->outBytes = TileDesc(op.result()->type()).bytes();
  info->givesScalar = !op.result()->type().isTile();
  info->loop = axisLoop(reduceKindFromName(op.get(ir::attr::kind)), op.kind(), in.dtype);
  instr.info = std::move(info);
  instr.run = runAxis;
}

// Products.

template <typename T> void multiply(const DotInfo &info, const void *a, const void *b, void *c) {
  addProduct(static_cast<T *>(c), static_cast<const T *>(a), static_cast<const T *>(b), info.m,
             info.n, info.k);
}

/// f32 to the nearest values of tf32.
void roundTile(const void *in, void *out, int64_t count) {
  const auto *from = static_cast<const float *>(in);
  auto *to = static_cast<float *>(out);
  for (int64_t i = 0; i < count; ++i)
    to[i] = roundToTf32(from[i]);
}

Step runDot(Body &body, const Instr &instr) {
  const auto &info = static_cast<const DotInfo &>(*instr.info);
  TilePool &pool = body.machine.tiles;
  const size_t bytes = dtypeBytes(info.compute);
  const auto converted = [&](TileRef tile, UnaryKernel cast, int64_t count) {
    if (!cast)
      return tile;
    TileRef out = pool.allocate(count * bytes);
    cast(tile.data(), out.data(), count);
    return out;
  };
  const TileRef a = converted(body.tile(instr.operands[0]), info.castA, info.m * info.k);
  const TileRef b = converted(body.tile(instr.operands[1]), info.castB, info.k * info.n);
  TileRef sum = converted(body.take(instr.operands[2]), info.castC, info.m * info.n);
  if (!sum.isUnique()) {
    TileRef copy = pool.allocate(info.m * info.n * bytes);
    std::memcpy(copy.data(), sum.data(), info.m * info.n * bytes);
    sum = std::move(copy);
  }
  switch (info.compute) {
  case DType::F32:
    multiply<float>(info, a.data(), b.data(), sum.data());
    break;
  case DType::F64:
    multiply<double>(info, a.data(), b.data(), sum.data());
    break;
  case DType::I32:
    multiply<int32_t>(info, a.data(), b.data(), sum.data());
    break;
  default:
    multiply<int64_t>(info, a.data(), b.data(), sum.data());
    break;
  }
  if (info.castOut) {
    TileRef out = pool.allocate(info.outBytes);
    info.castOut(sum.data(), out.data(), info.m * info.n);
    sum = std::move(out);
  }
  body.frame->tiles[instr.result] = std::move(sum);
  return Step::Next;
}

/// Narrow floats sum in f32 and round once; narrow integers wrap the same when they wrap at the
/// end.
DType dotComputeType(DType result) {
  if (isFloat(result))
    return result == DType::F64 ? DType::F64 : DType::F32;
  return dtypeBits(result) <= 32 ? DType::I32 : DType::I64;
}

void bindDot(Instr &instr) {
  const Op &op = *instr.op;
  const TileDesc a(op.operand(0)->type());
  const TileDesc b(op.operand(1)->type());
  const TileDesc out(op.result()->type());
  auto info = std::make_unique<DotInfo>();
  info->m = a.shape[0];
  info->k = a.shape[1];
  info->n = b.shape[1];
  info->compute = dotComputeType(out.dtype);
  info->castA = castKernel(a.dtype, info->compute);
  info->castB = castKernel(b.dtype, info->compute);
  info->castC = castKernel(out.dtype, info->compute);
  info->castOut = castKernel(info->compute, out.dtype);
  // What every machine may do: the difference is to be seen here.
  if (op.has(ir::attr::precision))
    info->castA = info->castB = roundTile;
  info->outBytes = out.bytes();
  instr.info = std::move(info);
  instr.run = runDot;
}

/// Broadcast repeats a dimension of one by standing still in it; a transpose exchanges steps.
void bindShape(Instr &instr) {
  const Op &op = *instr.op;
  auto info = std::make_unique<ShapeInfo>();
  info->out = TileDesc(op.result()->type());
  if (op.numOperands() != 0)
    info->in = TileDesc(op.operand(0)->type());
  const std::array<int64_t, 4> dense = denseStrides(info->in);
  if (op.is(OpKind::Broadcast)) {
    for (unsigned d = 0; d < info->out.rank; ++d)
      info->strides[d] = info->in.shape[d] == 1 ? 0 : dense[d];
  } else if (op.is(OpKind::Trans)) {
    const llvm::ArrayRef<int64_t> perm = op.get(ir::attr::perm);
    for (unsigned d = 0; d < info->out.rank; ++d)
      info->strides[d] = dense[perm[d]];
  }
  instr.info = std::move(info);
}

} // namespace

void bindTile(Instr &instr) {
  switch (instr.op->kind()) {
  case OpKind::Splat:
    bindShape(instr);
    instr.run = runSplat;
    return;
  case OpKind::Iota:
    bindShape(instr);
    instr.run = runIota;
    return;
  case OpKind::Broadcast:
  case OpKind::Trans:
    bindShape(instr);
    instr.run = runCopyByStrides;
    return;
  case OpKind::Reshape:
  case OpKind::Convert:
    instr.run = runReshape;
    return;
  case OpKind::Reduce:
  case OpKind::ArgReduce:
  case OpKind::Scan:
    return bindAxis(instr);
  case OpKind::Take:
    return bindTake(instr);
  case OpKind::Dot:
    return bindDot(instr);
  default:
    DTILE_UNREACHABLE("not an operation on tiles");
  }
}

} // namespace dtile::interpret
