// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where values come from: each element of a floating-point tile is a sum of products of inputs
// instead of a number. With Schedule::terms, elements of type f64 are the numbers of such sums.
#pragma once

#include "ir/interpret/id_table.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Allocator.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtile::interpret {

/// A sum by its number, in the bits of an f64 element; equal sums have equal numbers. 0 is zero,
/// and what nobody has written has numbers that no sum has.
using TermId = uint64_t;

/// An element of an argument.
struct InputElement {
  /// Position of the parameter.
  int64_t param = 0;
  int32_t rank = 0;
  /// In row-major order.
  int64_t element = 0;
};

/// All sums of one run.
class TermTable {
public:
  TermTable();

  TermId constant(double value);
  TermId input(const InputElement &input);
  TermId add(TermId a, TermId b) {
    ++asked_;
    if (a == 0 || b == 0)
      return known(a == 0 ? b : a);
    return addSums(known(a), known(b));
  }
  TermId multiply(TermId a, TermId b) {
    ++asked_;
    a = known(a);
    b = known(b);
    return a == 0 || b == 0 ? 0 : multiplySums(a, b);
  }
  TermId scale(TermId a, double factor);
  /// Any other function of sums, by a number that names it.
  TermId opaque(unsigned function, llvm::ArrayRef<TermId> operands);
  /// The value of a sum that has no inputs.
  [[nodiscard]] bool isConstant(TermId id, double &value) const;

  /// One product of a sum, and how often it is there.
  struct Addend {
    llvm::SmallVector<InputElement, 2> factors;
    double count = 0;
    /// It has factors that are no inputs.
    bool isOpaque = false;
  };
  [[nodiscard]] std::vector<Addend> addends(TermId id) const;
  [[nodiscard]] bool isUnwritten(TermId id) const { return id >= sums_.size(); }

  /// Says that the run did what sums cannot follow; the first reason stays.
  void giveUp(const char *why) {
    if (why_.empty())
      why_ = why;
  }
  /// Why the run's sums mean nothing, or "".
  [[nodiscard]] const std::string &whyNot() const { return why_; }
  /// What the run has cost so far, the same on every machine: an operation on zeros takes a
  /// sixteenth of one that finds its result, and an entry of a new sum twice as much.
  [[nodiscard]] uint64_t work() const { return asked_ / 16 + found_ + 2 * entries_; }

private:
  struct Atom {
    InputElement input;
    bool isOpaque = false;
  };
  using Product = llvm::SmallVector<uint32_t, 2>;
  /// A product by its number, and how often it is there.
  using Entry = std::pair<uint32_t, double>;
  /// Ascending by product.
  using Sum = llvm::ArrayRef<Entry>;
  /// A sum that nobody has written counts as an opaque atom.
  TermId known(TermId id) { return isUnwritten(id) ? ofUnwritten() : id; }
  TermId ofUnwritten();
  TermId addSums(TermId a, TermId b);
  TermId multiplySums(TermId a, TermId b);
  /// The number of the sum in `made_`.
  TermId internMade();
  uint32_t internProduct(Product product);
  TermId ofAtom(uint32_t atom);
  uint32_t productOf(uint32_t a, uint32_t b);

  std::vector<Atom> atoms_;
  std::vector<Product> products_;
  std::vector<Sum> sums_;
  llvm::BumpPtrAllocator entriesOfSums_;
  /// A sum while it is made.
  std::vector<Entry> made_;
  size_t entries_ = 0;
  uint64_t asked_ = 0;
  uint64_t found_ = 0;
  /// By hash.
  IdTable sumsByHash_;
  IdTable productsByHash_;
  llvm::DenseMap<uint64_t, llvm::SmallVector<std::pair<std::vector<TermId>, TermId>, 1>> opaques_;
  /// What was found, by two operands.
  IdTable added_;
  IdTable multiplied_;
  IdTable joined_;
  TermId unwritten_ = 0;
  std::string why_;
};

} // namespace dtile::interpret
