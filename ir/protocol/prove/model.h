// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel in polynomials: executions of its ops with unknown ranks, tiles and iterations, what
// memory they touch, and which cells. Private to ir/protocol/prove.
#pragma once

#include "ir/analysis/algebra/inequalities.h"
#include "ir/core/ir.h"
#include "ir/protocol/prove/rank_axes.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::protocol::prove {

using ir::AtomId;
using ir::Facts;
using ir::Op;
using ir::OpKind;
using ir::Polynomial;
using ir::Polynomials;
using ir::Value;

/// Integers of fewer bytes come round too soon to be taken as numbers without an end.
inline constexpr unsigned kLeastCounterBytes = 4;

/// A condition: a polynomial at least zero, or several of them.
struct Formula {
  enum class Kind : uint8_t {
    AtLeastZero,
    And,
    Or,
    /// Something that polynomials cannot say: never provable.
    Unknown
  } kind = Kind::And;
  Polynomial p;
  std::vector<Formula> parts;

  static Formula atLeastZero(Polynomial p) { return {Kind::AtLeastZero, std::move(p), {}}; }
  static Formula unknown() { return {Kind::Unknown, {}, {}}; }
};

/// What holds where the formula does not; of what is unknown nothing.
[[nodiscard]] Formula negated(const Formula &formula);

/// An element that an execution has read, of which clauses say something, or that it has got from a
/// counter.
struct Picked {
  Op *object = nullptr;
  /// The op that read it; the clause that names it where none did.
  const Op *read = nullptr;
  Polynomial rank;
  llvm::SmallVector<Polynomial, 2> at;
  Polynomial value;
  /// It is one of the numbers that all ranks together have once each.
  bool isCounted = false;
};

/// A position in a tile; a number that is no tile has none.
using Position = llvm::SmallVector<Polynomial, 4>;

/// Elements of a tile are among `first` and the positions after it.
struct Run {
  Polynomial first;
  int64_t length = 1;
};

/// One execution of an op: its rank, its body's position, and the iterations of the loops around.
struct Instance {
  struct Coordinate {
    /// The space or loop, and which dimension of it.
    Op *of = nullptr;
    unsigned dim = 0;
    /// The number of the block or iteration, from 0.
    AtomId number = 0;
  };
  Op *op = nullptr;
  Op *space = nullptr;
  Polynomial rank;
  /// The digits of the rank, one for each axis of the kernel.
  llvm::SmallVector<AtomId, 3> digits;
  llvm::SmallVector<Coordinate, 8> coordinates;
  Polynomials::Environment environment;
  /// What must hold for it to take place, beyond what its anchor needs.
  Facts bounds;
  std::vector<Formula> guards;
  /// What assertions before it say: its body has ended where one of them did not hold.
  std::vector<Formula> asserted;
  /// What is said of launches.
  std::vector<Formula> required;
  /// What is assumed before it, in its body.
  std::vector<Formula> assumed;
  /// What is divided by before it: positive, as is shown of each division by itself.
  Facts divisors;
  /// What it has read of which something is known, and the elements that this is, once the facts of
  /// the instance have been assumed.
  llvm::SmallVector<Op *, 4> reads;
  /// Sums and differences before it of few bits, which may come round.
  llvm::SmallVector<Op *, 4> narrow;
  std::vector<Picked> picked;
  /// Reductions of tiles to one whole number before it.
  llvm::SmallVector<Op *, 4> reductions;
  /// Variables that it does not share with its anchor.
  std::vector<AtomId> unknowns;
};

/// An element of a tile, or a number, as an execution computes it.
struct Element {
  Value *value = nullptr;
  Position at;
  Instance *instance = nullptr;
};

/// What an instance has in common with the one it is made beside.
enum class Shares : uint8_t {
  Nothing,
  Rank,
  /// The body, but not the iterations of loops.
  Space,
  /// The body, and the iterations of common loops.
  Body
};

/// Where a dimension of a parameter is touched.
struct DimRegion {
  /// The only position, where there is one.
  std::optional<Polynomial> at;
  /// Positions are at least these, and below those.
  llvm::SmallVector<Polynomial, 3> atLeast;
  llvm::SmallVector<Polynomial, 3> below;
};

/// What a view or cells are of.
struct Region {
  /// The param or signal_param.
  Op *object = nullptr;
  Polynomial rank;
  llvm::SmallVector<DimRegion, 4> dims;
  /// The region is all that is touched; else part of it may be.
  bool isExact = true;
  /// Of each dimension of the view, the parameter's dimension and the position of its first
  /// element.
  llvm::SmallVector<std::pair<unsigned, Polynomial>, 4> live;
  /// What is at least zero where single positions are in what they are cut from: each with the op
  /// that cuts.
  std::vector<std::pair<Op *, Polynomial>> inside;
  /// What holds of the element of an index tile that picks a point of it.
  Facts facts;
};

/// Which positions of a view exist.
struct ViewShape {
  struct Dim {
    /// The parameter's dimension that it is of, and where in that its position 0 lies; nothing
    /// after a reshape.
    std::optional<unsigned> of;
    Polynomial origin;
    /// Positions that exist are at least all of these, and below all of those.
    llvm::SmallVector<Polynomial, 3> atLeast;
    llvm::SmallVector<Polynomial, 3> below;
  };
  llvm::SmallVector<Dim, 4> dims;
  /// What is at least zero where the single positions exist that it is cut at, each with the op
  /// that cuts; where one does not, nothing of the view exists.
  std::vector<std::pair<Op *, Polynomial>> inside;
};
/// That a position of the view exists.
[[nodiscard]] Formula existsAt(const ViewShape &shape, llvm::ArrayRef<Polynomial> position);
/// The position of the view at which a point of its parameter lies.
[[nodiscard]] std::optional<llvm::SmallVector<Polynomial, 4>>
positionIn(const ViewShape &shape, llvm::ArrayRef<Polynomial> point);

/// Polynomials and refutations for one question about a kernel.
class Scene {
public:
  /// Ranks as numerals by the axes of the kernel; or as plain numbers, where it is not yet known
  /// that what divides them is positive.
  enum class Ranks : uint8_t { ByAxes, Plain };
  explicit Scene(ir::RefutationBudget &budget, Ranks ranks = Ranks::ByAxes)
      : refuter(polys, &budget), ranks_(ranks) {}

  /// An execution of an op. Beside an anchor it shares its rank, or its body and the iterations of
  /// common loops.
  Instance instance(Op *op, const Instance *anchor = nullptr, Shares shares = Shares::Nothing);
  /// An unknown rank of the kernel: its digits become unknowns, and the facts have their bounds.
  Polynomial unknownRank(Op &kernel, Facts &bounds, llvm::SmallVectorImpl<AtomId> &digits);
  /// What ops compute on a rank.
  Polynomials::Environment environmentOf(Op &kernel, const Polynomial &rank);
  [[nodiscard]] const RankAxes &axesOf(Op &kernel);
  /// That two numbers are one rank: digit by digit, where both are numerals by the axes.
  void addEqualRanks(Facts &facts, const Polynomial &a, const Polynomial &b);
  /// Which part of an object is a rank's own, where a dimension numbers the ranks, or the places on
  /// an axis of the kernel.
  [[nodiscard]] Polynomial ownPlace(Op &kernel, const Polynomial &rank, std::optional<size_t> axis);
  /// What follows from the instance taking place.
  void assume(Facts &facts, Instance &instance);
  /// What assertions say, besides: facts that few proofs need, and that make all of them longer.
  void assumeAsserted(Facts &facts, const Instance &instance);

  /// The region of a view, or of signal cells, as the instance computes it; of what its gather or
  /// scatter is of only what the index tiles can pick.
  Region region(Value *viewOrCells, Instance &instance, const Facts &facts);
  /// Which positions of a view exist, as the instance computes it; nothing where that is not known.
  std::optional<ViewShape> shape(Value *view, Instance &instance, const Facts &facts);
  /// The sizes of a view, of a window those that it has wherever it ends; nothing where they are
  /// not known.
  std::optional<Position> sizes(Value *view, Instance &instance);
  /// That the point lies in the region; of an equality both directions.
  void assumeInside(Facts &facts, const Region &region, llvm::ArrayRef<Polynomial> point);
  /// That the regions, of one rank and object, have the point in common that is returned.
  llvm::SmallVector<Polynomial, 4> assumeMeeting(Facts &facts, const Region &a, const Region &b);
  /// A condition under which the bool value is `wanted`.
  Formula formula(Value *condition, bool wanted, Instance &instance);
  void assume(Facts &facts, const Formula &formula);
  /// The facts once for each way in which the conditions of the instances can hold, and in which
  /// what the facts choose between comes out; nothing where that says no more than the facts.
  std::optional<std::vector<Facts>> casesOf(const Facts &facts,
                                            llvm::ArrayRef<const Instance *> instances);
  [[nodiscard]] Formula substituted(const Formula &formula, AtomId id, const Polynomial &by);
  /// That sums of few bits, where they do not come round, are not negative, or what they are: then
  /// products with them fall apart. Facts that few proofs need, too.
  void assumeNarrow(Facts &facts, Instance &instance, bool isWhole);
  /// What clauses say of launches.
  void assumeLaunch(Facts &facts, Op &kernel, Instance &instance);
  /// What clauses say of elements that two executions have read, one beside the other.
  void relate(Facts &facts, const Instance &a, const Instance &b);
  /// The element that an execution reads, if there is such an element; nothing where its position
  /// is not known.
  std::optional<Picked> placeOf(Op &read, Instance &instance, const Facts &facts);
  /// Whether it is known that two elements of inputs are one.
  bool areOne(const Facts &facts, const Picked &a, const Picked &b);
  /// What clauses say of one element of an input.
  void addBounds(Facts &facts, const Op *object, const Polynomial &value, Instance &instance);
  [[nodiscard]] Op *eachOnceOf(const Op *object) const;
  /// The only op that writes numbers to an object of the kernel's, each by itself; null where there
  /// is none, or another one.
  [[nodiscard]] Op *writerOf(Op &kernel, const Op *object);
  void addFactors(Facts &facts, const Polynomial &product);
  /// What is known of how many elements an execution has counted; and of two that have counted
  /// elements of one property.
  void assumeCounts(Facts &facts, Instance &instance);
  void relateCounts(Facts &facts, Instance &a, Instance &b);
  /// Whether two elements are computed alike, from equal numbers and inputs: then they are equal.
  bool areOneNumber(const Facts &facts, const Element &x, const Element &y);
  [[nodiscard]] bool isSaid(const Op *object, llvm::StringRef kind) const;
  /// The clauses about elements of an object.
  [[nodiscard]] llvm::ArrayRef<Op *> clausesOf(const Op *object) const;
  bool implies(const Facts &facts, const Formula &formula);
  bool implies(const Facts &facts, const Polynomial &p) { return refuter.implies(facts, p); }
  /// Whether the formula follows from what is known of an instance, in each of its cases.
  bool impliesInCases(const Facts &facts, const Instance &instance, const Formula &formula);
  /// How many notifies a launch sends to a cell of a rank, as far as the facts decide it; nothing
  /// where it is not derived.
  std::optional<Polynomial> derivedCount(Op &signal, llvm::ArrayRef<Polynomial> cell,
                                         const Polynomial &rank, const Facts &facts);

  Polynomials polys;
  ir::Refuter refuter;

private:
  // clauses.cpp
  void findClauses(Op *op);
  [[nodiscard]] bool isCounter(const Op *object);
  // written_numbers.cpp
  void assumeWritten(Facts &facts, Instance &instance, const Picked &picked);
  void findReads(Instance &instance, Op *before);
  static void addComparison(Facts &facts, llvm::StringRef pred, const Polynomial &a,
                            const Polynomial &b);
  // each_once.cpp
  void addListBounds(Facts &facts, const Op &clause, const Polynomial &count, Instance &instance);
  void assumeNumbers(Facts &facts, Instance &instance);
  void addBetween(Facts &facts, const Picked &element, Instance &instance);
  void assumeClauses(Facts &facts, Instance &instance);
  std::optional<Picked> elementOf(const Op &load, Instance &instance, const Facts &known,
                                  const std::optional<Polynomial> &limit, Facts &facts);
  void relate(Facts &facts, const Instance &a, const Picked &p, const Instance &b, const Picked &q);
  // same_values.cpp
  static void followShapes(Element &element);
  std::optional<Polynomial> numberOf(const Element &element);
  bool areOneElement(Facts &facts, const Element &x, const Element &y);
  bool areOneNumber(Facts &facts, Element x, Element y, unsigned depth);

  Op *kernel_ = nullptr;
  Ranks ranks_;
  std::optional<RankAxes> axes_;
  std::vector<Op *> launch_;
  llvm::DenseMap<const Op *, llvm::SmallVector<Op *, 2>> elements_;
  /// Inputs whose elements clauses compare with those of others.
  llvm::SmallPtrSet<const Op *, 4> compared_;
  llvm::DenseMap<const Op *, bool> counters_;
  llvm::DenseMap<const Op *, Op *> writers_;
  /// How many numbers are followed at the moment to what wrote them, each read by who wrote the one
  /// before.
  unsigned followed_ = 0;

  Polynomial decided(Value *value, Instance &instance, const Facts &facts);
  void splitCases(std::vector<Facts> &cases, const Formula &formula);
  Formula chosen(Value *condition, Value *first, Value *second, bool wanted, Instance &instance);
  /// Of dimensions whose first position may be cut away nothing is known.
  void cutByIndexTiles(Region &region, llvm::ArrayRef<bool> isMoved, Instance &instance,
                       const Facts &facts);
  void addCoordinate(Instance &instance, Op *of, unsigned dim, Value *position, Value *lo,
                     Value *hi, Value *step);
  void addDivisor(Instance &instance, Op &op);
};

[[nodiscard]] inline Polynomial var(AtomId id) { return Polynomial::atom(id); }

/// The numbers of a tile that counts up from some number, or is of one number; of 64 bits, or not
/// computed with, so that none comes round.
[[nodiscard]] std::optional<Run> runOf(Value *tile, Scene &scene, Instance &instance);
[[nodiscard]] bool isSigned(ir::Type type);
/// Whether an iota of the type counts up from zero: few bits count from their least number on.
[[nodiscard]] bool countsWithoutWrapping(ir::Type type);
/// Whether a cast leaves every number as it is: others come round, or are rounded.
[[nodiscard]] bool keepsNumbers(const Op &cast);

/// The space that an op is in; null outside of spaces.
[[nodiscard]] Op *spaceOf(Op *op);
/// Whether something is taken to be known of numbers because the launch itself has written them.
[[nodiscard]] bool readsWrittenNumbers(Op &kernel);
/// The name of a parameter in backquotes.
[[nodiscard]] std::string nameOf(const Op &param);

} // namespace dtile::protocol::prove
