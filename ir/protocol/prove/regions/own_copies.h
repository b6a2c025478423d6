// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each rank keeps of its own input in memory that is divided among the ranks: the hop of an
// all-gather that stays at home, the part of a sum that nobody has to send.
#pragma once

#include "ir/core/builder.h"
#include "ir/protocol/prove/model.h"

namespace dtile::protocol::prove {

/// A scratch object of which a rank's own part, at its number or at its place on an axis, holds a
/// copy of an input of that rank, whenever it is read.
struct OwnCopy {
  /// A dimension of the source.
  struct Dim {
    /// The copy is of one position, `at`; else positions are `at` more than those of the next
    /// dimension of the object (without the one that numbers the ranks or places).
    bool isPosition = false;
    Polynomial at;
    /// Positions past the end of the object's dimension are positions of the source.
    bool isLonger = false;
  };
  /// A transfer that does nothing but fill that part, always or when its peer is the rank itself.
  struct Put {
    Op *op = nullptr;
    bool isAlways = false;
  };
  /// A read that may be of that part.
  struct Read {
    Op *op = nullptr;
    /// Operand 0's views from the object down.
    llvm::SmallVector<Op *, 4> cuts;
    /// Whose part it is: the number of that operand of the first view.
    unsigned ownerAt = 0;
    /// Whether it is known to be the rank's own.
    bool isAlways = false;
    [[nodiscard]] Value *owner() const { return cuts.front()->operand(ownerAt); }
  };
  Op *object = nullptr;
  /// The dimension that numbers the ranks, or the places on `axis`.
  unsigned ranks = 0;
  std::optional<size_t> axis;
  /// A rank's own number in it.
  Polynomial place;
  Op *source = nullptr;
  llvm::SmallVector<Dim, 4> dims;
  llvm::SmallVector<Put, 2> puts;
  llvm::SmallVector<Read, 2> reads;
};

/// Finds them in one inlined kernel with derived counts.
class OwnCopies {
public:
  explicit OwnCopies(Op &kernel) : kernel_(kernel), scene_(budget_) {}

  /// What is known of a parameter; nothing where the object is not one as above, or where something
  /// of it was not shown.
  [[nodiscard]] std::optional<OwnCopy> find(Op &object);
  /// Why there is nothing, where a rank does copy an input to its part; empty where it does not.
  [[nodiscard]] const std::string &reason() const { return reason_; }
  [[nodiscard]] Polynomial rank() const { return var(scene_.polys.rank()); }
  /// Computes a position or place of an OwnCopy.
  [[nodiscard]] Value *emit(ir::Builder &builder, const Polynomial &position) const {
    return scene_.polys.emit(builder, position, llvm::DenseMap<AtomId, Value *>());
  }

private:
  struct Access {
    Op *op = nullptr;
    Value *view = nullptr;
    bool writes = false;
  };
  struct Place;
  bool collect(Op &object);
  bool find(OwnCopy &copy);
  bool addWrite(OwnCopy &copy, const Access &access);
  bool addRead(OwnCopy &copy, const Access &access);
  bool addMap(OwnCopy &copy, Op &put, Place &place, const Facts &own);
  std::optional<Polynomial> normal(Place &place, const Facts &own, Polynomial p);
  bool refuse(const llvm::Twine &why);

  Op &kernel_;
  ir::RefutationBudget budget_;
  Scene scene_;
  std::vector<Access> accesses_;
  /// Whether an input was seen to be copied to an own part.
  bool isCandidate_ = false;
  std::string reason_;
};

} // namespace dtile::protocol::prove
