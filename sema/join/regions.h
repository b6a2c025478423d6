// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which part of a tensor an access names, dimension by dimension.
#pragma once

#include "sema/join/names.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace dtile::join {

/// What the name of a body's variable stands for.
struct Variable {
  /// A dimension of a space or loop: its bound, and its step where it is a range of positions.
  const ast::Expr *domain = nullptr;
  const ast::Expr *step = nullptr;
  /// A `let`.
  const ast::Expr *value = nullptr;
  bool isMutable = false;
};

/// Names that are visible at an access, innermost last.
class Variables {
public:
  [[nodiscard]] const Variable *lookup(llvm::StringRef name) const;
  /// The block that declares a name, from 0; nothing for names of the kernel.
  [[nodiscard]] std::optional<size_t> depthOf(llvm::StringRef name) const;
  void push() { scopes_.emplace_back(); }
  void pop() { scopes_.pop_back(); }
  void declare(llvm::StringRef name, const Variable &variable) { scopes_.back()[name] = variable; }
  void declare(const ast::IterDim &dim);
  [[nodiscard]] size_t size() const { return scopes_.size(); }

private:
  std::vector<llvm::StringMap<Variable>> scopes_;
};

/// One index of an access.
struct Extent {
  enum class Kind : uint8_t {
    /// `:`
    Whole,
    /// One position.
    Position,
    /// A block of `step` positions of `0..domain`.
    Block,
    /// The same in a part: `part * domain + block`.
    BlockOfPart,
    /// Some positions of a range, or what data says.
    Other,
  };
  Kind kind = Kind::Other;
  const ast::Expr *index = nullptr;
  /// The variable of a block.
  llvm::StringRef block;
  const ast::Expr *step = nullptr;
  const ast::Expr *domain = nullptr;
  const ast::Expr *part = nullptr;
  /// Other: a range, so that it knows the blocks that it meets.
  bool isRange = false;
};

/// What an index cuts. `lets` are values of names that are defined before the roles.
[[nodiscard]] Extent extentOf(const ast::Expr *index, const Variables &variables,
                              const Values &lets);

/// Whether an expression depends on elements of tensors or tiles.
[[nodiscard]] bool readsMemory(const ast::Expr *e, const Variables &variables);

/// How many ranks there are, or along an axis.
using RanksOf = llvm::function_ref<const ast::Expr *(llvm::StringRef axis)>;
/// One more than the largest value of a position that ranks or loops give; null where that does not
/// follow from its text.
[[nodiscard]] const ast::Expr *boundOf(const ast::Expr *position, const Variables &variables,
                                       RanksOf ranksOf);

} // namespace dtile::join
