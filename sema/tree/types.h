// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types of checked programs. A Type is an interned pointer: equal types are the same pointer.
#pragma once

#include "frontend/base/dtype.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <string>

namespace dtile::sema {

enum class TypeKind : uint8_t {
  /// Stands where a type error was already reported; fits everything silently.
  Error,
  /// No value.
  Void,
  /// One element. i64 is the type of positions and sizes.
  Scalar,
  /// A value of static shape, rank 1 to 4.
  Tile,
  /// A region of a tensor: a parameter, or a slice of one. Sizes are static (>= 0) or kDynamic. A
  /// region whose sizes
  /// are all static turns into a Tile (or Scalar, rank 0) where a value is wanted.
  Region,
  /// Positions first, first + 1 … below a limit; of static length (a block: `m in M by BM`) or
  /// kDynamic.
  Range,
  /// A signal parameter or cells of one.
  Signal,
  /// Completion token: linear.
  Token,
  /// What `wait` gives.
  Acquire,
};

constexpr int64_t kDynamic = -1;

/// Where a region's object lives.
enum class Space : uint8_t { Local, Symm };

struct TypeData {
  TypeKind kind = TypeKind::Error;
  DType dtype = DType::F32;
  /// Sizes of a Tile or Region; for a Range one entry, its length. For a Signal its rank many
  /// kDynamic.
  llvm::SmallVector<int64_t, 4> shape = {};
  /// Region: may be stored to.
  bool writable = false;
  /// Region: may be loaded from (`out` parameters too, once written).
  bool readable = true;
  /// Region, Signal: on another rank (after `@`).
  bool remote = false;
  Space space = Space::Local;

  [[nodiscard]] unsigned rank() const { return shape.size(); }
  /// Every size is known.
  [[nodiscard]] bool isStatic() const;
  [[nodiscard]] bool isValue() const { return kind == TypeKind::Scalar || kind == TypeKind::Tile; }
  /// As in messages: `f32`, `tile bf16[128, 64]`, `region bf16[128, ?]`, `range of 128`, `token`.
  [[nodiscard]] std::string str() const;
};
using Type = const TypeData *;

/// A type as in messages, in back-ticks.
[[nodiscard]] std::string typeText(Type type);

/// Sizes as in messages: `[128, ?]`.
[[nodiscard]] std::string shapeText(llvm::ArrayRef<int64_t> shape);

/// Interns types; owned by the Program.
class TypeTable {
public:
  TypeTable();
  ~TypeTable();
  Type error();
  Type voidType();
  Type scalar(DType dtype);
  Type tile(DType dtype, llvm::ArrayRef<int64_t> shape);
  Type region(const TypeData &prototype);
  Type range(int64_t length);
  Type signal(unsigned rank, bool remote);
  Type token();
  Type acquire();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace dtile::sema
