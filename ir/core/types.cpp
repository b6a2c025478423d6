// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interning of types and their text.
#include "ir/core/types.h"

#include "frontend/base/check.h"

#include "llvm/Support/raw_ostream.h"

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

namespace dtile::ir {

namespace {
constexpr size_t kDTypes = 0
#define DTYPE(ID, NAME, BITS, CLASS) +1
#include "frontend/base/dtypes.def"
    ;
} // namespace

struct TypeStorage {
  TypeKind kind = TypeKind::Index;
  DType dtype = DType::I64;
  unsigned rank = 0;
  bool remote = false;
  std::vector<int64_t> shape = {};
  const Layout *layout = nullptr;
};

TypeKind Type::kind() const {
  DTILE_CHECK(storage_, "kind of a null type");
  return storage_->kind;
}

DType Type::dtype() const {
  DTILE_CHECK(isScalar() || isTile() || isView(), "dtype of a type that has none");
  return storage_->dtype;
}

llvm::ArrayRef<int64_t> Type::shape() const {
  DTILE_CHECK(isTile(), "shape of a type that is not a tile");
  return storage_->shape;
}

const Layout *Type::layout() const {
  DTILE_CHECK(isTile(), "layout of a type that is not a tile");
  return storage_->layout;
}

unsigned Type::rank() const {
  DTILE_CHECK(storage_, "rank of a null type");
  return storage_->rank;
}

int64_t Type::elements() const {
  int64_t product = 1;
  if (isTile())
    for (int64_t size : storage_->shape)
      product *= size;
  return product;
}

bool Type::isRemote() const {
  DTILE_CHECK(storage_, "remoteness of a null type");
  return storage_->remote;
}

bool Type::isIntLike() const { return isIndex() || (isScalar() && isInteger(dtype())); }

DType Type::elementOrIndex() const { return isIndex() ? DType::I64 : dtype(); }

std::string Type::str() const {
  if (!storage_)
    return "<null>";
  std::string text;
  llvm::raw_string_ostream os(text);
  switch (kind()) {
  case TypeKind::Index:
    os << "index";
    break;
  case TypeKind::Scalar:
    os << dtypeName(storage_->dtype);
    break;
  case TypeKind::Tile:
    os << "tile<";
    for (int64_t size : storage_->shape)
      os << size << 'x';
    os << dtypeName(storage_->dtype);
    if (storage_->layout)
      os << ", " << storage_->layout->str();
    os << '>';
    break;
  case TypeKind::View:
    os << "view<" << dtypeName(storage_->dtype) << ", " << storage_->rank
       << (storage_->remote ? ", remote>" : ">");
    break;
  case TypeKind::Signal:
    os << "signal<" << storage_->rank << (storage_->remote ? ", remote>" : ">");
    break;
  case TypeKind::Token:
    os << "token";
    break;
  case TypeKind::Acquire:
    os << "acquire";
    break;
  }
  return text;
}

struct TypeContext::Impl {
  /// Guards layouts and tiles; all else is made at the start.
  std::mutex mutex;
  TypeStorage index{TypeKind::Index};
  TypeStorage token{TypeKind::Token};
  TypeStorage acquire{TypeKind::Acquire};
  std::array<TypeStorage, kDTypes> scalars;
  std::array<std::array<std::array<TypeStorage, 2>, kMaxViewRank + 1>, kDTypes> views;
  std::array<std::array<TypeStorage, 2>, kMaxViewRank + 1> signals;
  std::set<Layout> layouts;
  std::map<std::tuple<DType, std::vector<int64_t>, const Layout *>, TypeStorage> tiles;
};

TypeContext::TypeContext() : impl_(std::make_unique<Impl>()) {
  for (size_t d = 0; d < kDTypes; ++d) {
    impl_->scalars[d] = {TypeKind::Scalar, DType(d)};
    for (unsigned rank = 0; rank <= kMaxViewRank; ++rank)
      for (bool remote : {false, true})
        impl_->views[d][rank][remote] = {TypeKind::View, DType(d), rank, remote};
  }
  for (unsigned rank = 0; rank <= kMaxViewRank; ++rank)
    for (bool remote : {false, true})
      impl_->signals[rank][remote] = {TypeKind::Signal, DType::U64, rank, remote};
}

TypeContext::~TypeContext() = default;

Type TypeContext::index() { return Type(&impl_->index); }
Type TypeContext::token() { return Type(&impl_->token); }
Type TypeContext::acquire() { return Type(&impl_->acquire); }
Type TypeContext::scalar(DType dtype) {
  return dtype == DType::I64 ? index() : Type(&impl_->scalars[size_t(dtype)]);
}

Type TypeContext::tile(llvm::ArrayRef<int64_t> shape, DType dtype, const Layout *layout) {
  DTILE_CHECK(!shape.empty() && shape.size() <= kMaxTileRank, "tiles have 1 to 4 dimensions");
  int64_t elements = 1;
  for (int64_t size : shape) {
    DTILE_CHECK(size > 0 && size <= kMaxTileElements / elements, "size of a tile out of range");
    elements *= size;
  }
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  if (layout)
    layout = &*impl_->layouts.insert(*layout).first;
  auto [it, isNew] = impl_->tiles.try_emplace({dtype, shape.vec(), layout});
  if (isNew)
    it->second = {TypeKind::Tile, dtype, unsigned(shape.size()), false, shape.vec(), layout};
  return Type(&it->second);
}

Type TypeContext::view(DType dtype, unsigned rank, bool remote) {
  DTILE_CHECK(rank <= kMaxViewRank, "views have at most 6 dimensions");
  return Type(&impl_->views[size_t(dtype)][rank][remote]);
}

Type TypeContext::signal(unsigned rank, bool remote) {
  DTILE_CHECK(rank <= kMaxViewRank, "signals have at most 6 dimensions");
  return Type(&impl_->signals[rank][remote]);
}

Type TypeContext::withDType(Type like, DType dtype) {
  switch (like.kind()) {
  case TypeKind::Index:
  case TypeKind::Scalar:
    return scalar(dtype);
  case TypeKind::Tile:
    return tile(like.shape(), dtype, like.layout());
  case TypeKind::View:
  case TypeKind::Signal:
  case TypeKind::Token:
  case TypeKind::Acquire:
    break;
  }
  DTILE_UNREACHABLE("withDType wants an index, scalar or tile");
}

} // namespace dtile::ir
