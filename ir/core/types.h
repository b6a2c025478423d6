// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The IR's types. A Type is one word; equal types are the same word (interned by Context).
#pragma once

#include "frontend/base/dtype.h"
#include "ir/core/layout.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dtile::ir {

/// The most dimensions of a tile, and of a view or signal.
inline constexpr unsigned kMaxTileRank = 4;
inline constexpr unsigned kMaxViewRank = 6;
/// The most elements of a tile.
inline constexpr int64_t kMaxTileElements = int64_t(1) << 31;

enum class TypeKind : uint8_t {
  /// i64 used for sizes and positions; printed `index`.
  Index,
  /// One element; printed as the element type, `f32`. An i64 is an Index.
  Scalar,
  /// A value of static shape; printed `tile<128x64xbf16>`. Rank 1 to 4. Where a program is many
  /// threads it may say which of them hold what (layout.h): `tile<128x64xbf16, [1:1 | 1:2 | 0:1]>`.
  Tile,
  /// A strided region of a tensor object in memory; printed `view<bf16, 2>`, and with `, remote`
  /// where it may lie on another rank. Sizes and strides are run-time values. Rank 0 to 6.
  View,
  /// Cells of a signal, an array of 64-bit monotone counters; printed `signal<2>`, `signal<2,
  /// remote>`.
  Signal,
  /// Completion of an asynchronous operation (linear); printed `token`.
  Token,
  /// What a wait gives: later operations ordered after remote writes; printed `acquire`.
  Acquire,
};

struct TypeStorage;

/// A handle to an interned type; default-constructed it is null.
class Type {
public:
  Type() = default;
  explicit Type(const TypeStorage *storage) : storage_(storage) {}

  explicit operator bool() const { return storage_ != nullptr; }
  friend bool operator==(Type, Type) = default;

  [[nodiscard]] TypeKind kind() const;
  /// Element type of Scalar, Tile and View.
  [[nodiscard]] DType dtype() const;
  /// Static sizes of a Tile.
  [[nodiscard]] llvm::ArrayRef<int64_t> shape() const;
  /// Where a Tile's elements are, or null. Equal layouts of one context are the same object.
  [[nodiscard]] const Layout *layout() const;
  /// Number of dimensions of a Tile, View or Signal; 0 for the rest.
  [[nodiscard]] unsigned rank() const;
  /// Number of elements of a Tile; 1 for scalars.
  [[nodiscard]] int64_t elements() const;
  /// View or Signal that may lie on another rank.
  [[nodiscard]] bool isRemote() const;

  [[nodiscard]] bool isIndex() const { return kind() == TypeKind::Index; }
  [[nodiscard]] bool isScalar() const { return kind() == TypeKind::Scalar; }
  [[nodiscard]] bool isTile() const { return kind() == TypeKind::Tile; }
  [[nodiscard]] bool isView() const { return kind() == TypeKind::View; }
  [[nodiscard]] bool isSignal() const { return kind() == TypeKind::Signal; }
  [[nodiscard]] bool isToken() const { return kind() == TypeKind::Token; }
  [[nodiscard]] bool isAcquire() const { return kind() == TypeKind::Acquire; }
  /// Index or integer scalar.
  [[nodiscard]] bool isIntLike() const;
  /// The element type with index counted as i64; for Index, Scalar and Tile.
  [[nodiscard]] DType elementOrIndex() const;
  /// As in the text form.
  [[nodiscard]] std::string str() const;

  [[nodiscard]] const TypeStorage *storage() const { return storage_; }

private:
  const TypeStorage *storage_ = nullptr;
};

/// Interns types. Outlives every module that uses it.
class TypeContext {
public:
  TypeContext();
  ~TypeContext();
  TypeContext(const TypeContext &) = delete;
  TypeContext &operator=(const TypeContext &) = delete;

  Type index();
  /// For I64 this is index: a single i64 has one type.
  Type scalar(DType dtype);
  Type tile(llvm::ArrayRef<int64_t> shape, DType dtype) { return tile(shape, dtype, nullptr); }
  /// `layout` may be null; it need not be of this context.
  Type tile(llvm::ArrayRef<int64_t> shape, DType dtype, const Layout *layout);
  Type view(DType dtype, unsigned rank, bool remote);
  Type signal(unsigned rank, bool remote);
  Type token();
  Type acquire();
  /// `like` (Index, Scalar or Tile) with another element type; a tile keeps its layout.
  Type withDType(Type like, DType dtype);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace dtile::ir
