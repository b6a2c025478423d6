// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interns types and spells them for messages.
#include "sema/tree/types.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

#include <unordered_map>
#include <vector>

namespace dtile::sema {

bool TypeData::isStatic() const { return !llvm::is_contained(shape, kDynamic); }

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [i, size] : llvm::enumerate(shape)) {
    text += i == 0 ? "" : ", ";
    text += size == kDynamic ? "?" : std::to_string(size);
  }
  return text + "]";
}

std::string TypeData::str() const {
  const std::string element = dtypeName(dtype).str();
  switch (kind) {
  case TypeKind::Error:
    return "an erroneous expression";
  case TypeKind::Void:
    return "nothing";
  case TypeKind::Scalar:
    return element;
  case TypeKind::Tile:
    return "tile " + element + shapeText(shape);
  case TypeKind::Region:
    return (remote ? "remote region " : "region ") + element + (rank() ? shapeText(shape) : "");
  case TypeKind::Range:
    return shape[0] == kDynamic ? "range" : "range of " + std::to_string(shape[0]);
  case TypeKind::Signal:
    return remote ? "remote signal" : "signal";
  case TypeKind::Token:
    return "token";
  case TypeKind::Acquire:
    return "acquire";
  }
  return "";
}

std::string typeText(Type type) {
  if (type->kind == TypeKind::Error || type->kind == TypeKind::Void)
    return type->str();
  return "`" + type->str() + "`";
}

namespace {

bool equal(const TypeData &a, const TypeData &b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.shape == b.shape && a.writable == b.writable &&
         a.readable == b.readable && a.remote == b.remote && a.space == b.space;
}

size_t hashOf(const TypeData &t) {
  return llvm::hash_combine(unsigned(t.kind), unsigned(t.dtype), t.writable, t.readable, t.remote,
                            unsigned(t.space),
                            llvm::hash_combine_range(t.shape.begin(), t.shape.end()));
}

} // namespace

struct TypeTable::Impl {
  std::vector<std::unique_ptr<TypeData>> owned;
  std::unordered_multimap<size_t, Type> byHash;
  Type error, voidType, token, acquire;
  std::vector<Type> scalars;

  Type intern(const TypeData &data) {
    const size_t hash = hashOf(data);
    for (auto [it, end] = byHash.equal_range(hash); it != end; ++it)
      if (equal(*it->second, data))
        return it->second;
    owned.push_back(std::make_unique<TypeData>(data));
    byHash.emplace(hash, owned.back().get());
    return owned.back().get();
  }
};

TypeTable::TypeTable() : impl_(std::make_unique<Impl>()) {
  impl_->error = impl_->intern({.kind = TypeKind::Error});
  impl_->voidType = impl_->intern({.kind = TypeKind::Void});
  impl_->token = impl_->intern({.kind = TypeKind::Token});
  impl_->acquire = impl_->intern({.kind = TypeKind::Acquire});
#define DTYPE(ID, NAME, BITS, CLASS)                                                               \
  impl_->scalars.push_back(impl_->intern({.kind = TypeKind::Scalar, .dtype = DType::ID}));
#include "frontend/base/dtypes.def"
}

TypeTable::~TypeTable() = default;

Type TypeTable::error() { return impl_->error; }
Type TypeTable::voidType() { return impl_->voidType; }
Type TypeTable::token() { return impl_->token; }
Type TypeTable::acquire() { return impl_->acquire; }
Type TypeTable::scalar(DType dtype) { return impl_->scalars[size_t(dtype)]; }

Type TypeTable::tile(DType dtype, llvm::ArrayRef<int64_t> shape) {
  TypeData data{.kind = TypeKind::Tile, .dtype = dtype};
  data.shape.assign(shape.begin(), shape.end());
  return impl_->intern(data);
}

Type TypeTable::region(const TypeData &prototype) {
  TypeData data = prototype;
  data.kind = TypeKind::Region;
  return impl_->intern(data);
}

Type TypeTable::range(int64_t length) {
  TypeData data{.kind = TypeKind::Range, .dtype = DType::I64};
  data.shape.push_back(length);
  return impl_->intern(data);
}

Type TypeTable::signal(unsigned rank, bool remote) {
  TypeData data{
      .kind = TypeKind::Signal, .dtype = DType::U64, .remote = remote, .space = Space::Symm};
  data.shape.assign(rank, kDynamic);
  return impl_->intern(data);
}

} // namespace dtile::sema
