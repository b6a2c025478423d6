// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts as values: places and elements, changes of shape, text, and the families of layouts that
// are chosen from.
#include "ir/core/layout.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace dtile::ir {

namespace {

using Position = Layout::Position;

constexpr LayoutBits kAllBits[] = {LayoutBits::Register, LayoutBits::Lane, LayoutBits::Warp};

Position operator^(Position a, const Position &b) {
  for (unsigned d = 0; d < Layout::kRank; ++d)
    a[d] ^= b[d];
  return a;
}

bool isNowhere(const Position &way) { return way == Position{}; }

/// The highest bit that a way reaches, as one number for all dimensions; -1 for none.
int leadingBit(const Position &way) {
  for (unsigned d = 0; d < Layout::kRank; ++d)
    if (way[d] != 0)
      return int(32 * (Layout::kRank - d) + llvm::Log2_32(uint32_t(way[d])));
  return -1;
}

int64_t powerOfTwoFor(int64_t size) { return int64_t(llvm::PowerOf2Ceil(uint64_t(size))); }

} // namespace

void Layout::add(LayoutBits which, unsigned dim, int32_t distance) {
  DTILE_CHECK(dim < rank_ || distance == 0, "a dimension of the layout");
  Position way{};
  if (distance != 0)
    way[dim] = distance;
  add(which, way);
}

// Places and elements.

Layout::Position Layout::at(Place place) const {
  Position position{};
  const uint32_t numbers[] = {place.index, place.lane, place.warp};
  for (auto [number, ways] : llvm::zip_equal(numbers, bits_))
    for (auto [i, way] : llvm::enumerate(ways))
      if (number >> i & 1)
        position = position ^ way;
  return position;
}

std::optional<Layout::Place> Layout::find(Position position) const {
  /// A way with the inputs that make it; kept with different leading bits.
  struct Row {
    Position way;
    uint64_t inputs;
  };
  llvm::SmallVector<Row, 32> rows;
  auto reduce = [&](Row &row) {
    for (const Row &other : rows)
      if (int bit = leadingBit(other.way);
          row.way[Layout::kRank - unsigned(bit) / 32] >> (unsigned(bit) % 32) & 1)
        row = {row.way ^ other.way, row.inputs ^ other.inputs};
  };
  unsigned input = 0;
  for (LayoutBits which : kAllBits)
    for (const Position &way : bits(which)) {
      Row row{way, uint64_t(1) << input++};
      reduce(row);
      if (isNowhere(row.way))
        continue;
      // Those before it must not hold its leading bit, or the order of reduction would matter.
      const auto bit = unsigned(leadingBit(row.way));
      for (Row &other : rows)
        if (other.way[Layout::kRank - bit / 32] >> (bit % 32) & 1)
          other = {other.way ^ row.way, other.inputs ^ row.inputs};
      rows.push_back(row);
    }
  Row wanted{position, 0};
  reduce(wanted);
  if (!isNowhere(wanted.way))
    return std::nullopt;
  Place place;
  uint32_t *numbers[] = {&place.index, &place.lane, &place.warp};
  unsigned from = 0;
  for (auto [number, ways] : llvm::zip_equal(numbers, bits_)) {
    *number = uint32_t(wanted.inputs >> from) & ((1u << ways.size()) - 1);
    from += ways.size();
  }
  return place;
}

llvm::SmallVector<int64_t, 4> Layout::box() const {
  llvm::SmallVector<int64_t, 4> sizes(rank_, 1);
  for (const auto &ways : bits_)
    for (const Position &way : ways)
      for (unsigned d = 0; d < rank_; ++d)
        sizes[d] = std::max(sizes[d], powerOfTwoFor(int64_t(way[d]) + 1));
  return sizes;
}

bool Layout::covers(llvm::ArrayRef<int64_t> shape) const {
  if (shape.size() != rank_)
    return false;
  const llvm::SmallVector<int64_t, 4> sizes = box();
  for (auto [d, size] : llvm::enumerate(shape)) {
    if (size > sizes[d])
      return false;
    // A linear map reaches all of a box when it reaches its edges.
    for (int64_t distance = 1; distance < size; distance *= 2) {
      Position edge{};
      edge[d] = int32_t(distance);
      if (!find(edge))
        return false;
    }
  }
  return true;
}

bool Layout::isSimple() const {
  Position seen{};
  for (const auto &ways : bits_)
    for (const Position &way : ways) {
      if (isNowhere(way))
        continue;
      unsigned dims = 0;
      for (unsigned d = 0; d < rank_; ++d) {
        if (way[d] == 0)
          continue;
        ++dims;
        if (!llvm::isPowerOf2_32(uint32_t(way[d])) || (seen[d] & way[d]) != 0)
          return false;
        seen[d] |= way[d];
      }
      if (dims != 1)
        return false;
    }
  return true;
}

bool Layout::isInside(uint32_t index, llvm::ArrayRef<int64_t> shape) const {
  const Position position = at(index);
  for (auto [d, size] : llvm::enumerate(shape))
    if (position[d] >= size)
      return false;
  return true;
}

llvm::SmallVector<uint32_t, 16> Layout::inside(llvm::ArrayRef<int64_t> shape) const {
  llvm::SmallVector<uint32_t, 16> result;
  for (uint32_t index = 0; index < registers(); ++index)
    if (isInside(index, shape))
      result.push_back(index);
  return result;
}

int64_t Layout::extent(unsigned dim, llvm::ArrayRef<uint32_t> registers) const {
  int64_t last = 0;
  for (const uint32_t index : registers)
    last = std::max<int64_t>(last, at(index)[dim]);
  for (LayoutBits which : {LayoutBits::Lane, LayoutBits::Warp})
    for (const Position &way : bits(which))
      last += way[dim];
  return last + 1;
}

unsigned Layout::contiguous(unsigned dim) const {
  unsigned count = 1;
  for (const Position &way : bits(LayoutBits::Register)) {
    Position next{};
    next[dim] = int32_t(count);
    if (way != next)
      break;
    count *= 2;
  }
  return count;
}

Layout Layout::withRuns(unsigned dim, int64_t length, int64_t segment) const {
  Layout result = *this;
  auto &registers = result.bits_[size_t(LayoutBits::Register)];
  auto &lanes = result.bits_[size_t(LayoutBits::Lane)];
  const auto along = [&](int64_t distance) {
    Position way{};
    way[dim] = int32_t(distance);
    return way;
  };
  // The shortest way of registers, from the given one on, that is not of a run itself.
  const auto nearest = [&](size_t first) {
    auto *best = registers.end();
    for (auto *it = registers.begin() + first; it != registers.end(); ++it)
      if ((*it)[dim] >= length && *it == along((*it)[dim]) &&
          (best == registers.end() || (*it)[dim] < (*best)[dim]))
        best = it;
    return best;
  };
  for (size_t run = 0; int64_t(1) << run < length; ++run) {
    auto *found = std::find(registers.begin() + run, registers.end(), along(int64_t(1) << run));
    if (found == registers.end()) {
      auto *lane = llvm::find(lanes, along(int64_t(1) << run));
      found = nearest(run);
      if (lane == lanes.end() || found == registers.end())
        return result;
      std::swap(*lane, *found);
    }
    std::rotate(registers.begin() + run, found, found + 1);
  }
  for (int64_t distance = length; distance < segment; distance *= 2) {
    if (llvm::is_contained(lanes, along(distance)))
      continue;
    auto *lane = llvm::find_if(lanes, [&](const Position &way) { return way[dim] == 0; });
    auto *found = llvm::find(registers, along(distance));
    if (lane == lanes.end() || found == registers.end())
      return result;
    std::swap(*lane, *found);
  }
  return result;
}

// Changes of shape.

Layout Layout::withoutDim(unsigned dim) const {
  Layout result(rank_ - 1);
  for (LayoutBits which : kAllBits)
    for (const Position &way : bits(which)) {
      Position left{};
      for (unsigned d = 0, to = 0; d < rank_; ++d)
        if (d != dim)
          left[to++] = way[d];
      result.add(which, left);
    }
  return result;
}

Layout Layout::withDim(unsigned dim) const {
  DTILE_CHECK(rank_ < kRank, "room for a dimension");
  Layout result(rank_ + 1);
  for (LayoutBits which : kAllBits)
    for (const Position &way : bits(which)) {
      Position wider{};
      for (unsigned d = 0; d < rank_; ++d)
        wider[d < dim ? d : d + 1] = way[d];
      result.add(which, wider);
    }
  return result;
}

Layout Layout::collapsed(unsigned dim) const {
  Layout result(rank_);
  for (LayoutBits which : kAllBits)
    for (Position way : bits(which)) {
      way[dim] = 0;
      result.add(which, way);
    }
  return result;
}

Layout Layout::permuted(llvm::ArrayRef<int64_t> perm) const {
  Layout result(rank_);
  for (LayoutBits which : kAllBits)
    for (const Position &way : bits(which)) {
      Position turned{};
      for (unsigned d = 0; d < rank_; ++d)
        turned[d] = way[perm[d]];
      result.add(which, turned);
    }
  return result;
}

Layout Layout::withoutRegisterCopies() const {
  Layout result = *this;
  llvm::erase_if(result.bits_[size_t(LayoutBits::Register)], isNowhere);
  return result;
}

namespace {

/// The dimensions whose size is not 1.
llvm::SmallVector<unsigned, 4> longDims(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<unsigned, 4> dims;
  for (auto [d, size] : llvm::enumerate(shape))
    if (size != 1)
      dims.push_back(unsigned(d));
  return dims;
}

} // namespace

std::optional<Layout> Layout::reshaped(llvm::ArrayRef<int64_t> from,
                                       llvm::ArrayRef<int64_t> to) const {
  const llvm::SmallVector<int64_t, 4> sizes = box();
  Layout result(unsigned(to.size()));
  const llvm::SmallVector<unsigned, 4> fromDims = longDims(from), toDims = longDims(to);
  const bool onlyUnits =
      fromDims.size() == toDims.size() && llvm::all_of(llvm::zip(fromDims, toDims), [&](auto dims) {
        auto [f, t] = dims;
        return from[f] == to[t];
      });
  if (onlyUnits) {
    // What lies outside of a dimension of size 1 must not come to lie inside.
    for (auto [d, size] : llvm::enumerate(from))
      if (size == 1 && sizes[d] != 1)
        return std::nullopt;
    for (LayoutBits which : kAllBits)
      for (const Position &way : bits(which)) {
        Position moved{};
        for (auto [f, t] : llvm::zip(fromDims, toDims))
          moved[t] = way[f];
        result.add(which, moved);
      }
    return result;
  }
  if (llvm::ArrayRef(sizes) != from || !llvm::all_of(to, llvm::isPowerOf2_64))
    return std::nullopt;
  for (LayoutBits which : kAllBits)
    for (const Position &way : bits(which)) {
      int64_t linear = 0;
      for (auto [d, size] : llvm::enumerate(from))
        linear = linear * size + way[d];
      Position moved{};
      for (size_t d = to.size(); d-- > 0; linear /= to[d])
        moved[d] = int32_t(linear % to[d]);
      result.add(which, moved);
    }
  return result;
}

bool operator<(const Layout &a, const Layout &b) {
  if (a.rank_ != b.rank_)
    return a.rank_ < b.rank_;
  for (size_t i = 0; i < a.bits_.size(); ++i)
    if (a.bits_[i] != b.bits_[i])
      return std::lexicographical_compare(a.bits_[i].begin(), a.bits_[i].end(), b.bits_[i].begin(),
                                          b.bits_[i].end());
  return false;
}

// Text.

std::string Layout::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  for (auto [i, ways] : llvm::enumerate(bits_)) {
    os << (i > 0 ? "| " : "");
    for (const Position &way : ways) {
      bool any = false;
      for (unsigned d = 0; d < rank_; ++d)
        if (way[d] != 0)
          os << (std::exchange(any, true) ? "+" : "") << d << ':' << way[d];
      os << (any ? " " : "- ");
    }
  }
  if (text.back() == ' ')
    text.pop_back();
  os << ']';
  return text;
}

std::optional<Layout> Layout::parse(llvm::StringRef text, unsigned rank) {
  if (!text.consume_front("[") || !text.consume_back("]"))
    return std::nullopt;
  llvm::SmallVector<llvm::StringRef, 3> groups;
  text.split(groups, '|');
  if (groups.size() != 3 || rank > kRank)
    return std::nullopt;
  Layout result(rank);
  for (auto [which, group] : llvm::zip_equal(kAllBits, groups)) {
    llvm::SmallVector<llvm::StringRef, 8> words;
    group.split(words, ' ', -1, /*KeepEmpty=*/false);
    if (words.size() > 20)
      return std::nullopt;
    for (llvm::StringRef word : words) {
      Position way{};
      llvm::SmallVector<llvm::StringRef, 4> parts;
      if (word != "-")
        word.split(parts, '+');
      for (llvm::StringRef part : parts) {
        auto [dim, distance] = part.split(':');
        unsigned d = 0;
        int32_t by = 0;
        if (dim.getAsInteger(10, d) || distance.getAsInteger(10, by) || d >= rank || by <= 0 ||
            by > (1 << 30) || way[d] != 0)
          return std::nullopt;
        way[d] = by;
      }
      result.add(which, way);
    }
  }
  return result;
}

// Families.

namespace {

/// Adds bits along dimensions of a box, lowest first.
class LayoutMaker {
public:
  explicit LayoutMaker(llvm::ArrayRef<int64_t> shape)
      : result(unsigned(shape.size())), used(shape.size(), 1) {
    for (int64_t size : shape)
      box.push_back(powerOfTwoFor(size));
  }

  /// The next bit along a dimension, or false when it is full.
  bool step(LayoutBits which, unsigned dim) {
    if (used[dim] >= box[dim])
      return false;
    result.add(which, dim, int32_t(used[dim]));
    used[dim] *= 2;
    return true;
  }
  /// The next bit along the first dimension of `order` with room, or a copy.
  void stepAny(LayoutBits which, llvm::ArrayRef<unsigned> order) {
    for (unsigned dim : order)
      if (step(which, dim))
        return;
    result.add(which, 0, 0);
  }
  void fill(LayoutBits which, llvm::ArrayRef<unsigned> order) {
    for (unsigned dim : order)
      while (step(which, dim)) {
      }
  }

  Layout result;
  llvm::SmallVector<int64_t, 4> box;
  llvm::SmallVector<int64_t, 4> used;
};

} // namespace

Layout blockedLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order, int64_t vector,
                     LayoutThreads threads) {
  LayoutMaker maker(shape);
  int64_t elements = 1;
  for (int64_t size : maker.box)
    elements *= size;
  // Threads before vectors: a small tile is spread out.
  vector = std::min(vector, std::max<int64_t>(elements / (threads.lanes * threads.warps), 1));
  for (int64_t have = 1; have < vector; have *= 2)
    if (!maker.step(LayoutBits::Register, order.front()))
      break;
  for (unsigned have = 1; have < threads.lanes; have *= 2)
    maker.stepAny(LayoutBits::Lane, order);
  // Warps take whole rows where there are any, so that each of them streams.
  for (unsigned have = 1; have < threads.warps; have *= 2)
    maker.stepAny(LayoutBits::Warp, order);
  maker.fill(LayoutBits::Register, order);
  return maker.result;
}

Layout outerProductLayout(llvm::ArrayRef<int64_t> shape, LayoutThreads threads,
                          std::array<int64_t, 2> runs) {
  DTILE_CHECK(shape.size() == 2, "a product has two dimensions");
  LayoutMaker maker(shape);
  const int64_t each = maker.box[0] * maker.box[1] / (threads.lanes * threads.warps);
  std::array<int64_t, 2> taken = {1, 1};
  for (const unsigned dim : {1u, 0u})
    while (taken[dim] < runs[dim] && taken[0] * taken[1] < each &&
           maker.step(LayoutBits::Register, dim))
      taken[dim] *= 2;
  // A warp is about as high as it is wide.
  unsigned dim = 1;
  for (unsigned lanes = 1; lanes < threads.lanes; lanes *= 2, dim ^= 1)
    if (!maker.step(LayoutBits::Lane, dim))
      maker.stepAny(LayoutBits::Lane, {dim ^ 1});
  // Warps divide what is longer of a part, with its run: the closer this is to a square, the
  // fewer elements of the operands a thread reads.
  for (unsigned warps = 1; warps < threads.warps; warps *= 2) {
    const auto isLonger = [&](unsigned one, unsigned other) {
      return maker.box[one] * taken[one] * maker.used[other] >
             maker.box[other] * taken[other] * maker.used[one];
    };
    const unsigned longer = isLonger(1, 0) ? 1u : 0u;
    maker.stepAny(LayoutBits::Warp, {longer, longer ^ 1});
  }
  maker.fill(LayoutBits::Register, {1, 0});
  return maker.result;
}

Layout repeatedLayout(const Layout &atom, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<int> warpDims) {
  const llvm::SmallVector<int64_t, 4> atomBox = atom.box();
  llvm::SmallVector<int64_t, 4> box, used(atomBox);
  for (auto [d, size] : llvm::enumerate(shape))
    box.push_back(std::max(powerOfTwoFor(size), atomBox[d]));
  Layout result = atom;
  for (int dim : warpDims) {
    const bool leads = dim >= 0 && used[dim] < box[dim];
    result.add(LayoutBits::Warp, leads ? unsigned(dim) : 0, leads ? int32_t(used[dim]) : 0);
    if (leads)
      used[dim] *= 2;
  }
  for (size_t d = shape.size(); d-- > 0;)
    for (; used[d] < box[d]; used[d] *= 2)
      result.add(LayoutBits::Register, unsigned(d), int32_t(used[d]));
  return result;
}

Layout operandLayout(const Layout &sum, const Layout &sumAtom, const Layout &atom, unsigned operand,
                     int64_t depth) {
  // Of the sum, the operand has this dimension; the other is the one that is summed over.
  const unsigned shared = operand, depthDim = 1 - operand;
  Layout result = atom;
  auto follow = [&](LayoutBits which, unsigned from) {
    for (const Position &way : sum.bits(which).drop_front(from))
      if (way[shared] != 0 || which == LayoutBits::Warp)
        result.add(which, shared, way[shared]);
  };
  follow(LayoutBits::Register, sumAtom.bits(LayoutBits::Register).size());
  follow(LayoutBits::Warp, 0);
  for (int64_t at = atom.box()[depthDim]; at < powerOfTwoFor(depth); at *= 2)
    result.add(LayoutBits::Register, depthDim, int32_t(at));
  return result;
}

} // namespace dtile::ir
