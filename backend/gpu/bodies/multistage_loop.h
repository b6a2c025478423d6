// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: a loop whose loads the program's threads copy to shared memory some
// iterations ahead (pass multistage-copies). multistage_loop.cpp has the loop, and
// multistage_copies.cpp what is copied for one iteration.
#pragma once

#include "backend/gpu/async_copies.h"
#include "backend/gpu/bodies/lower_body.h"
#include "ir/analysis/loop_positions.h"

#include "llvm/ADT/MapVector.h"

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace dtile::backend::gpu {

/// Whether a load or a gather of rows is copied ahead by the loop that it stands in.
[[nodiscard]] bool isAsyncLoad(const ir::Op &op);

/// The slots of one loop that is being lowered.
class MultistageLoop {
public:
  MultistageLoop(BodyLowering &body, ir::Op &loop);

  /// Before the loop, once: nobody uses the slots, or writes what is copied.
  void enter();
  /// i1: in every iteration rows begin at multiples of 16 bytes, all in step with their windows;
  /// null where that cannot be known before the loop.
  [[nodiscard]] llvm::Value *isAligned();
  /// Before the loop: starts the copies of its first iterations. `isAligned`: they are all of 16
  /// bytes, and the loop's body has no branches for them.
  void begin(bool isAligned);
  /// In the loop's body, before everything else: this iteration's copies have arrived in all
  /// threads; those of a later one are started, or some of them with its first product.
  void beginIteration();
  /// Behind `done` of the `all` instructions of a product that copies are spread over: starts as
  /// many of the copies that are left.
  void duringProduct(unsigned done, unsigned all);
  /// Whether copies are spread over the instructions of a product.
  [[nodiscard]] bool spreadsOver(const ir::Op &dot) const {
    return isAligned_ && &dot == spreadOver_;
  }
  /// Whether what a product's first instructions read is read at the end of the iteration before:
  /// then that goes on to the next slot by itself (turn), and nothing else reads slots.
  [[nodiscard]] bool readsAhead(const ir::Op &dot) const {
    return readsAhead_ && &dot == spreadOver_;
  }
  /// Behind the loop: what was started for iterations that never came, zeros, has landed; shared
  /// memory has other uses then.
  void end();
  /// The next iteration's copies have arrived in all threads, and its slot is the current one.
  void turn();
  /// Words that are read ahead, on the stack, by operand and the position of their atom.
  std::map<std::pair<unsigned, ir::Layout::Position>, llvm::SmallVector<llvm::Value *, 4>> ahead;
  /// Where a load's tile is in this iteration.
  [[nodiscard]] SharedTile tile(const ir::Op &load) const;

private:
  /// What the places of an iteration's tiles are looked up as, in the order of `lookups_`.
  using Numbers = llvm::SmallVector<llvm::Value *, 2>;
  /// What one load's copies need to know besides where they go.
  struct Source {
    View view;
    DType dtype = DType::F32;
    llvm::Value *base = nullptr;
    /// i32, a dimension: the first position that exists, and how many do.
    llvm::SmallVector<llvm::Value *, 2> low, span;
    /// Of a gather: the tile of its rows' numbers; the slot that look-ups for them have arrived in,
    /// null where they have not.
    ir::Value *rows = nullptr;
    llvm::Value *numbers = nullptr;
  };
  /// A row of a tile: which one of the view it is (i64), and whether (i1) there is such.
  struct Row {
    llvm::Value *number, *exists;
  };

  [[nodiscard]] SharedTile placeOf(const ir::Op &load) const;
  [[nodiscard]] int64_t overhangOf(const ir::Value *tile, const SharedTile &place) const;
  [[nodiscard]] ir::PositionChain chain() const;
  [[nodiscard]] bool isAffine() const;
  /// Where the loads' tiles are in the iteration at a position, in order; `arrived`: the slot that
  /// numbers of rows have come to, or null. Rows are found before other sources are asked for.
  [[nodiscard]] std::vector<Source> sources(llvm::Value *position, const Numbers &numbers,
                                            llvm::Value *arrived = nullptr);
  /// Loads the numbers of the iteration at a position.
  [[nodiscard]] Numbers lookUp(llvm::Value *position);
  [[nodiscard]] bool canPrefetchIndices() const;
  /// Starts the copies of the numbers of the iteration at a position to its slot; loads them from
  /// there.
  void prefetchIndices(llvm::Value *position, llvm::Value *slot);
  void prefetchTileIndices(llvm::Value *slot);
  [[nodiscard]] Numbers arrivedNumbers(llvm::Value *slot);
  [[nodiscard]] llvm::Value *placeOfNumber(llvm::Value *slot, size_t i);
  /// Of an element (i32) of a look-up of a tile.
  [[nodiscard]] llvm::Value *placeOfNumber(llvm::Value *slot, ir::Op &lookup, llvm::Value *element);
  /// Constants: 0, but for one that is 1.
  [[nodiscard]] Numbers unitNumbers(std::optional<size_t> one) const;
  [[nodiscard]] Source source(ir::Op &load);
  [[nodiscard]] SharedTile placeIn(llvm::Value *slot, const ir::Op &load) const;
  /// Starts the copies of the iteration at a position, if there is one, to a slot (its offset), in
  /// which numbers of rows have arrived or not.
  void start(llvm::Value *position, llvm::Value *slot, const Numbers &numbers, bool haveArrived);
  /// The same without branches: leaves the copies to `pieces_`.
  void prepare(llvm::Value *position, llvm::Value *slot, const Numbers &numbers,
               llvm::Value *arrived);
  void copy(ir::Op &load, const Source &from, const SharedTile &to);
  /// Starts copies up to a number of those that were prepared.
  void startUpTo(size_t number);
  /// Starts all that are left, which makes them a group.
  void startAll();
  /// i32: the slot after one, and before one.
  [[nodiscard]] llvm::Value *slotBehind(llvm::Value *slot);
  [[nodiscard]] llvm::Value *slotBefore(llvm::Value *slot);
  [[nodiscard]] bool canReadAhead() const;
  /// i1: all runs of `bytes` begin at multiples of that, and are neighbours.
  [[nodiscard]] llvm::Value *isAligned(const Source &from, unsigned bytes);
  /// A row (i32) of a source's tile; of a gather its number, and whether the view has that.
  [[nodiscard]] Row rowOf(const Source &from, llvm::Value *row);
  [[nodiscard]] llvm::Value *gatheredNumber(const Source &from, llvm::Value *row);
  [[nodiscard]] Row existing(const Source &from, llvm::Value *number);
  /// i32: of a run of elements from a position on, the bytes that exist.
  [[nodiscard]] llvm::Value *validBytes(const Source &from, const Row &row, llvm::Value *column,
                                        unsigned elements);
  /// How many words each thread copies of a tile; starts to copy one.
  [[nodiscard]] unsigned wordsOf(const ir::Op &load) const;
  /// Where in a tile this thread's word with a number is (i32): `rowsBefore` are the same in all
  /// threads, `row` and `column` (elements) need not be in the tile where not `isInside`.
  struct Word {
    llvm::Value *row, *column;
    uint32_t rowsBefore;
    bool isInside;
  };
  [[nodiscard]] Word wordOf(DType dtype, llvm::ArrayRef<int64_t> shape, unsigned number);
  /// Of a gather: the number of the word's row.
  [[nodiscard]] llvm::Value *numberOfWord(const Source &from, llvm::ArrayRef<int64_t> shape,
                                          unsigned number);
  /// `picked`: of a gather, that, where it is known.
  void copyWord(const Source &from, const SharedTile &to, llvm::ArrayRef<int64_t> shape,
                unsigned number, llvm::Value *picked = nullptr);
  void copyNarrow(const Source &from, const SharedTile &to, llvm::ArrayRef<int64_t> shape,
                  unsigned bytes);
  void copyElements(const Source &from, const SharedTile &to, llvm::ArrayRef<int64_t> shape);
  void eachOfThread(int64_t count, llvm::function_ref<void(llvm::Value *number)> body);

  BodyLowering &body_;
  llvm::IRBuilder<> &b;
  ir::Op &loop_;
  const AsyncCopies &copies_;
  int64_t slots_;
  llvm::SmallVector<ir::Op *, 4> loads_;
  /// By which their places are looked up; whether the numbers come to slots, too; where in one.
  llvm::SmallVector<ir::Op *, 2> lookups_;
  bool prefetchesIndices_ = false;
  int64_t numbersOffset_ = 0;
  /// By which their rows are, and where in a slot their numbers come.
  llvm::MapVector<ir::Op *, int64_t> tileLookups_;
  /// Without a slot: their offsets in one.
  llvm::SmallDenseMap<const ir::Op *, SharedTile, 4> places_;
  llvm::SmallDenseMap<const ir::Op *, int64_t, 4> offsets_;
  int64_t slotBytes_ = 0;
  llvm::Value *ring_ = nullptr;
  /// i32 offset of this iteration's slot; where that is kept between iterations.
  llvm::Value *slot_ = nullptr;
  llvm::Value *nextSlot_ = nullptr;
  bool isAligned_ = false;
  bool readsAhead_ = false;
  /// The product that copies are spread over, or null.
  ir::Op *spreadOver_ = nullptr;
  std::vector<std::function<void()>> pieces_;
  size_t started_ = 0;
  bool isGroup_ = true;
};

} // namespace dtile::backend::gpu
