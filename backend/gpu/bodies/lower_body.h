// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu and the vendors' folders: lowers the body of a space for one program of
// threads. Tiles are spread over the threads' registers as their layouts say (ir/core/layout.h), or
// stand in shared memory; what leaves the program is plain accesses to peers' memory and calls of
// the device library (device_calls.def).
//
// Scalars, views and conditions are the same in all threads of a program, so threads meet in every
// barrier, whatever the control flow.
#pragma once

#include "backend/gpu/bodies/memory/row_buffers.h"
#include "backend/gpu/bodies/tile_pieces.h"
#include "backend/gpu/kernel_function.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <map>
#include <memory>

namespace dtile::backend::gpu {

/// A tile's elements in this thread: one value for each register of the layout that holds any
/// (TileInfo::indices), in computing form (backend/llvm/arith.h).
using Registers = llvm::SmallVector<llvm::Value *, 4>;

class MultistageLoop;
class TileAccess;

/// How the elements of one tile stand in shared memory: each at the sum of its position's parts
/// along the dimensions, in which words of 16 bytes may have changed places.
struct SharedTile {
  llvm::Value *base = nullptr;
  DType dtype = DType::F32;
  /// Bytes from one position to the next of each dimension.
  llvm::SmallVector<int64_t, 4> strides;
  /// The dimension whose elements are neighbours.
  unsigned fastest = 0;
  /// So many of them (a power of two) stand in a box, with all positions of the other dimensions;
  /// bytes from a box to the next. 0: there is one.
  int64_t boxLength = 0, boxBytes = 0;
  int64_t bytes = 0;
  /// So many bits of an offset, from this one on, are added (xor) to those of the number of a word
  /// of 16 bytes. Only where strides are powers of two: then offsets are linear over bits.
  unsigned swizzleBits = 0;
  unsigned swizzleShift = 0;

  /// Where what would be at an offset is.
  [[nodiscard]] int64_t swizzled(int64_t offset) const;
  [[nodiscard]] llvm::Value *swizzled(llvm::IRBuilder<> &b, llvm::Value *offset) const;
  /// Of an element: the thread's part of its offset (i32, swizzled), and what is the same in all
  /// threads.
  [[nodiscard]] llvm::Value *address(llvm::IRBuilder<> &b, llvm::Value *thread,
                                     int64_t offset) const;
  /// Where a position of a dimension is, without the exchange.
  [[nodiscard]] int64_t offset(unsigned dim, int64_t position) const;
  [[nodiscard]] llvm::Value *offset(llvm::IRBuilder<> &b, unsigned dim,
                                    llvm::Value *position) const;
  /// The same tile with its dimensions in another order.
  [[nodiscard]] SharedTile permuted(llvm::ArrayRef<int64_t> perm) const;
};

/// Lowers bodies into the kernel's function.
class BodyLowering : public KernelFunction {
public:
  BodyLowering(GpuModule &module, const KernelScaffold &kernel);
  ~BodyLowering() override;

  /// Emits all bodies of a space that this program runs, one after the other.
  virtual void lowerBodies(ir::Op &space, const BodyRange &range);
  /// Emits the body of a space at `b`; the positions are set already.
  void lower(ir::Op &space);

  // Tiles.
  [[nodiscard]] const TileInfo &info(ir::Type tile);
  [[nodiscard]] llvm::ArrayRef<llvm::Value *> registers(ir::Value *tile) { return parts(tile); }
  /// The same in another layout.
  [[nodiscard]] Registers registers(ir::Value *tile, const ir::Layout &layout);
  void setRegisters(ir::Value *tile, Registers registers) { set(tile, std::move(registers)); }
  /// i32: the part of a tile position that all registers of a thread share.
  [[nodiscard]] llvm::Value *threadPosition(const ir::Layout &layout, unsigned dim);
  /// i32: the same for the warp's number alone.
  [[nodiscard]] llvm::Value *warpPosition(const ir::Layout &layout, unsigned dim);
  /// i1: this thread's elements are no copies of those of a thread with a lower number; null where
  /// there are no copies.
  [[nodiscard]] llvm::Value *isOriginal(const ir::Layout &layout);
  /// Emits `body` for groups of neighbours of a tile that exist in the view, of `most` elements at
  /// most, once in the program: with their registers' numbers and the first one's address (global,
  /// aligned to the group where it has more than one). `inLoop` may reach all elements one by one,
  /// where none are aligned, and says whether it does; `inShifts` reaches them by whole words where
  /// these begin elsewhere (canStoreInShifts).
  void
  eachGroup(const TileInfo &from, const View &to, unsigned most,
            llvm::function_ref<void(llvm::ArrayRef<unsigned> slots, llvm::Value *address)> body,
            llvm::function_ref<bool(const TileAccess &access)> inLoop = nullptr,
            llvm::function_ref<void(TileAccess &access)> inShifts = nullptr);

  // Memory. What a body reads after it has written needs a barrier of the program's threads, as
  // does what it writes after reading; objects are told apart by their parameters.
  /// Of `size` positions of a tile along a dimension of a view: the first that exists, and how many
  /// do. i32
  struct Existing {
    llvm::Value *first, *count;
  };
  [[nodiscard]] Existing existing(const ViewDimension &dim, int64_t size);
  /// The view with an address of this device: where it is remote, the peer's memory as seen here.
  [[nodiscard]] View located(ir::Value *view);
  /// The same of what is written only, by functions that send where the peer is not mapped.
  [[nodiscard]] View locatedToSend(ir::Value *view);
  /// Stores a word of elements at an address of such a view.
  void storeWord(const View &to, llvm::Value *word, llvm::Value *address, unsigned align);
  /// What was stored in such a view has landed, or will have when the token of the op is used.
  void finishStores(const View &to);
  /// By `there` where the condition (i1, or null for never) holds, else by `here`: what both give,
  /// or null.
  llvm::Value *either(llvm::Value *condition, llvm::function_ref<llvm::Value *()> there,
                      llvm::function_ref<llvm::Value *()> here);
  /// Where the source says that a view is of another rank.
  [[nodiscard]] const ir::Op &reachingOp(const ir::Value *view) const;
  /// Call before emitting accesses of global memory through a view.
  void beforeRead(ir::Value *view);
  void beforeWrite(ir::Value *view);
  /// The program's threads meet: orders all that they have read and written.
  void programBarrier();
  /// i1: this is the thread that acts for the program.
  [[nodiscard]] llvm::Value *isLeader();
  /// Emits `body` for the leader only.
  void asLeader(llvm::StringRef name, llvm::function_ref<void()> body);
  /// A scalar of the leader in all threads.
  [[nodiscard]] llvm::Value *fromLeader(llvm::Value *value);
  /// Shared memory of the op that is lowered: threads that still read what was there have met.
  [[nodiscard]] llvm::Value *sharedScratch(int64_t bytes);
  /// A register of the lane whose number differs by `mask`.
  [[nodiscard]] llvm::Value *fromLane(llvm::Value *value, unsigned mask);
  /// i32: this thread's number as layouts count.
  [[nodiscard]] llvm::Value *thread() const { return thread_; }
  /// How many threads run the body.
  [[nodiscard]] unsigned threads() const { return threads_; }
  /// The register that holds a position of thread 0.
  [[nodiscard]] static unsigned slotOf(const TileInfo &info, const ir::Layout::Position &at);
  /// Call after the last read of it.
  void sharedRead() { sharedInUse_ = true; }

  // Communication.
  /// All threads meet when one of the operands from `first` on is a token of something sent: then
  /// it is complete. Acquires need no code: waits end with a meeting.
  void awaitTokens(ir::Op &op, unsigned first);
  /// The body's threads meet; what each did to memory is done for all. They end if one (i32, not 0)
  /// has failed.
  void sync(llvm::Value *failed = nullptr);
  /// Polls the cells of a wait, each in one thread, until all have their counts; gives an i32 that
  /// is not 0 in threads where one never will. Nobody meets: that is the caller's affair.
  [[nodiscard]] llvm::Value *pollCells(ir::Op &wait);
  /// Emits `poll`, once for all bodies of a program where these wait for the same cells.
  void pollOnce(ir::Op &wait, llvm::function_ref<void()> poll);
  /// Whether polls are part of the code here, rather than a function of their own.
  [[nodiscard]] virtual bool pollsInPlace() const { return threads_ == 1; }
  /// Calls the device library. Pointers are made generic.
  llvm::Value *call(DeviceCall call, llvm::ArrayRef<llvm::Value *> arguments);
  /// A static slot of this thread.
  [[nodiscard]] llvm::Value *stackSlot(llvm::Type *type, llvm::StringRef name);
  /// Emits `body` for each of the cells, in one of the body's threads each.
  void eachCell(const SignalCells &cells, llvm::function_ref<void(llvm::Value *cell)> body);
  /// Emits `body` in this thread for cells `begin` (i32), `begin` + `every`, …, with their numbers
  /// (i64) among these cells.
  void eachCellOf(const SignalCells &cells, llvm::Value *begin, unsigned every,
                  llvm::function_ref<void(llvm::Value *cell, llvm::Value *number)> body);

  using FunctionLowering::block;
  using FunctionLowering::loop;
  using FunctionLowering::when;
  [[nodiscard]] Arith &arith() { return arith_; }
  [[nodiscard]] ViewBuilder &views() { return views_; }

protected:
  /// Emits the loop of a program over bodies; `body` is emitted with their positions set. May be
  /// called more than once, for groups of threads that do different things.
  void forEachBody(ir::Op &space, const BodyRange &range, llvm::function_ref<void()> body);
  /// Sets the positions of body number `linear` (i64).
  void setPositions(ir::Op &space, const BodyRange &range, llvm::Value *linear);
  // lower_trace.cpp. Where code is not compiled to be traced, bodies and transfers are emitted and
  // nothing else is.
  /// Who records what this lowering does, if anybody; it stands in one thread (isRecording, i1).
  [[nodiscard]] virtual std::optional<dtile_device_recorder> recorder() const {
    return DTILE_RECORD_BODIES;
  }
  [[nodiscard]] virtual llvm::Value *isRecording() { return isLeader(); }
  /// Before the bodies of a space.
  void beginTrace(const ir::Op &space);
  /// Emits a body, and records it.
  void traced(ir::Op &space, llvm::function_ref<void()> body);
  /// Emits what moves data, and records it where that is another rank's.
  void tracedTransfer(ir::Op &op, llvm::function_ref<void()> body);
  void tracedBarrier(ir::Op &op, llvm::function_ref<void()> body);
  /// A slot with the time, where something begins; null where nothing is recorded.
  [[nodiscard]] llvm::Value *traceBegin();
  /// A notify or a wait has ended. `wanted`: what a wait wanted of a cell (i64).
  void traceCells(const ir::Op &op, llvm::Value *began, const SignalCells &cells,
                  llvm::function_ref<llvm::Value *(llvm::Value *cell)> wanted = nullptr);
  /// The same of a wait.
  void traceWait(ir::Op &op, llvm::Value *began);
  /// i64: takes the next body, for all threads that run it.
  [[nodiscard]] virtual llvm::Value *nextBody(const BodyRange &range);
  /// i64: counts one body as taken, by the thread that comes here, and gives its number.
  [[nodiscard]] llvm::Value *claimBody(const BodyRange &range);
  /// Whether products rearrange their operands in shared memory themselves.
  [[nodiscard]] virtual bool stagesOperands() const { return true; }
  void lowerOp(ir::Op &op) override;
  void lowerTargetOp(ir::Op &op) override;
  /// Reports a failed check with the message of a place, its holes filled with i64; the body ends.
  /// All threads come here, and go to where the report is made: once for all checks of a space, and
  /// out of its loops (ptxas moves no registers in kernels with such calls in loops).
  virtual void fail(int32_t site, llvm::ArrayRef<llvm::Value *> arguments);
  /// i32: they meet, and 1 to all where one of them gives anything but 0. Nobody leaves.
  llvm::Value *meet(llvm::Value *failed);
  /// Gives the launch up with such a report, in the thread that comes here.
  void report(int32_t site, llvm::ArrayRef<llvm::Value *> arguments);
  void checkCell(ir::Op &op, llvm::Value *position, llvm::Value *size) override;
  void checkRank(ir::Op &op, llvm::Value *rank) override;
  [[nodiscard]] llvm::SmallVector<llvm::Type *, 4> carriedTypes(ir::Type type) override;
  [[nodiscard]] Registers carried(ir::Type type, llvm::ArrayRef<llvm::Value *> parts) override;
  [[nodiscard]] Registers fromCarried(ir::Type type,
                                      llvm::ArrayRef<llvm::Value *> carried) override;
  void enterRegion(ir::Op &op, unsigned region) override;
  void leaveRegions(ir::Op &op) override;

  /// i32: this thread's number as layouts count; the scaffold's, unless a part of a program's
  /// threads run a body by themselves.
  llvm::Value *thread_ = nullptr;
  /// How many threads run the body, the program's first, and the barrier of the program at which
  /// they meet (backend/device_library/device.h, dtile_dev_sync).
  unsigned threads_;
  unsigned barrier_ = 0;

  // shared_tiles.cpp: tiles through shared memory.
  /// Room (without an address) for the elements that any of the layouts have; `padded` spreads
  /// rows over banks.
  [[nodiscard]] SharedTile sharedTile(DType dtype, llvm::ArrayRef<const TileInfo *> layouts,
                                      unsigned fastest, bool padded);
  void writeShared(const SharedTile &tile, const TileInfo &info,
                   llvm::ArrayRef<llvm::Value *> registers, bool onlyInside = false);
  [[nodiscard]] Registers readShared(const SharedTile &tile, const TileInfo &info);
  /// The same of a piece of a tile, by the threads that have some of it.
  void writePiece(const SharedTile &tile, const TilePiece &piece,
                  llvm::ArrayRef<llvm::Value *> registers);
  void readPiece(const SharedTile &tile, const TilePiece &piece, Registers &registers);
  /// i1: this thread has some of the piece; null where all have.
  [[nodiscard]] llvm::Value *hasPiece(const TilePiece &piece);

  /// Elements of memory form as one word or vector of words, and back.
  [[nodiscard]] llvm::Type *packedType(llvm::Type *element, unsigned count);
  [[nodiscard]] llvm::Value *packed(llvm::Type *element, llvm::ArrayRef<llvm::Value *> values);
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 16> unpacked(llvm::Type *element,
                                                              llvm::Value *word, unsigned count);

  /// One element of an elementwise op's result, in computing form, from those of its operands.
  [[nodiscard]] llvm::Value *arithmetic(const ir::Op &op, llvm::ArrayRef<llvm::Value *> elements);

  // found_elements.cpp
  /// The element at a position (i64) of a tile of which each is found by itself
  /// (ir::isFoundByElement), in computing form. What its ops need besides tiles has been lowered.
  /// `known`: elements at this position, which what is found is added to.
  using Elements = llvm::DenseMap<const ir::Value *, llvm::Value *>;
  [[nodiscard]] llvm::Value *element(ir::Value *tile, llvm::Value *position, Elements &known);
  /// Where the load or gather of such a tile reads it: an address (global), and whether (i1) it is
  /// inside of the view.
  struct Place {
    llvm::Value *address, *exists;
  };
  [[nodiscard]] Place placeOfElement(ir::Op &read, llvm::Value *position, Elements &known);

private:
  friend class MultistageLoop;
  friend class ElementProduct;
  friend class MatrixLowering;

  /// Elements of a tile that loops carry as one value; 1 where each is one.
  [[nodiscard]] unsigned carriedTogether(ir::Type type);
  /// Registers of a tile that a matrix instruction takes as one vector of sums, or 1.
  [[nodiscard]] unsigned sumsTogether(ir::Type tile);

  [[nodiscard]] llvm::Value *computeElement(ir::Value *tile, llvm::Value *position,
                                            Elements &known);

  // lower_tiles.cpp: elementwise, splat, iota, broadcast, reshape, trans, convert.
  void lowerTileOp(ir::Op &op);
  [[nodiscard]] Registers elementwise(ir::Op &op);
  [[nodiscard]] Registers approximateQuotients(ir::Op &op, llvm::ArrayRef<llvm::Value *> x,
                                               llvm::ArrayRef<llvm::Value *> y);
  [[nodiscard]] Registers iota(ir::Op &op);
  [[nodiscard]] Registers broadcast(ir::Op &op);
  [[nodiscard]] Registers reshape(ir::Op &op);
  /// Elements keep their number in row-major order: from one shape to another through shared
  /// memory, in which they stand in that order.
  [[nodiscard]] Registers reorder(ir::Op &op);
  [[nodiscard]] Registers reorderInPieces(ir::Op &op);
  [[nodiscard]] Registers take(ir::Op &op);
  /// An element that a thread has or wants: its offset in bytes, and whether there is one.
  struct SharedElement {
    llvm::Value *offset, *exists;
  };
  /// One a slot.
  using SharedElements = llvm::SmallVector<SharedElement>;
  /// Positions along `axis`, one a slot, in a tile of the sizes `shape`.
  struct TakenPositions {
    unsigned axis;
    Registers positions;
    llvm::ArrayRef<int64_t> shape;
  };
  /// Where the elements of a layout stand in a dense tile; along the axis of `taken` by its
  /// positions.
  [[nodiscard]] SharedElements elementsIn(const SharedTile &tile, const TileInfo &info,
                                          const TakenPositions *taken = nullptr);
  /// Moves elements of `tile` through shared memory, as much at a time as there is room for: gives
  /// those that `read` names, and of slots that name none what `result` has, where it has any.
  [[nodiscard]] Registers movedInPieces(ir::Type tile, llvm::ArrayRef<llvm::Value *> values,
                                        const SharedElements &written, const SharedElements &read,
                                        Registers result);
  /// The registers of another layout that need nothing from other threads, or nothing.
  [[nodiscard]] static std::optional<llvm::SmallVector<unsigned, 16>>
  withinThreads(const TileInfo &from, const TileInfo &to);
  [[nodiscard]] Registers convert(DType dtype, llvm::ArrayRef<int64_t> shape,
                                  const ir::Layout &from, llvm::ArrayRef<llvm::Value *> registers,
                                  const ir::Layout &to);
  /// Through as much shared memory as there is, piece by piece.
  [[nodiscard]] Registers convertInPieces(DType dtype, const TileInfo &from,
                                          llvm::ArrayRef<llvm::Value *> registers,
                                          const TileInfo &to, unsigned fastest);

  // lane_exchanges.cpp
  /// The registers of another layout of which each warp has the same elements, where shuffles get
  /// them to their lanes; nothing where they do not.
  [[nodiscard]] std::optional<Registers> withinWarps(DType dtype, const TileInfo &from,
                                                     llvm::ArrayRef<llvm::Value *> registers,
                                                     const TileInfo &to);
  /// Whether there are such.
  [[nodiscard]] static bool staysWithinWarps(const TileInfo &from, const TileInfo &to);

  // shared_tiles.cpp
  /// i32: where the element of the thread's first register is in a tile in shared memory.
  [[nodiscard]] llvm::Value *sharedThread(const SharedTile &tile, const ir::Layout &layout);

  // lower_reductions.cpp: reduce, arg_reduce, scan.
  void lowerReduction(ir::Op &op);
  void lowerScan(ir::Op &op);
  /// Values (of memory form's size) of the thread whose number differs by `mask`, in another warp.
  [[nodiscard]] Registers fromThread(llvm::ArrayRef<llvm::Value *> values, uint32_t mask,
                                     DType type);

  // lower_memory.cpp: load, store, gather of tiles and scalars; remote views are
  // addresses of peers' memory here as well.
  void lowerMemoryOp(ir::Op &op);
  void lowerLoad(ir::Op &op);
  void lowerStore(ir::Op &op);
  /// Writes the elements of a tile that exist in a view whose address is one of this device.
  void storeTile(ir::Value *tile, const View &view);
  void lowerGather(ir::Op &op);
  /// Of a gather of rows: each thread finds those of its elements, whose neighbours it loads at
  /// once where rows begin so.
  [[nodiscard]] Registers gatherRows(ir::Op &op, const View &from, const TileInfo &to);

  // lower_scatters.cpp
  void lowerScatter(ir::Op &op);
  void lowerAtomic(ir::Op &op);
  void lowerMemoryFence(const ir::Op &op);
  void lowerAtomicScatter(ir::Op &op);
  void lowerReduceAddScatter(ir::Op &op);
  /// Calls act(register, i1: the place exists, its positions) for each element that the thread has
  /// of the tile of an indexed op.
  void eachPlace(
      ir::Op &op, const View &to, const TileInfo &tile,
      llvm::function_ref<void(unsigned slot, llvm::Value *exists, llvm::ArrayRef<llvm::Value *> at)>
          act);
  [[nodiscard]] llvm::Value *globalAddress(const View &view, llvm::ArrayRef<llvm::Value *> at);
  [[nodiscard]] llvm::Value *updated(ir::Op &op, const View &cell, DType type, bool own,
                                     llvm::Value *operand, llvm::Value *desired);
  /// The same by threads for which `acts` holds; 0 in others.
  [[nodiscard]] llvm::Value *updatedWhere(llvm::Value *acts, ir::Op &op, const View &cell,
                                          DType type, bool own, llvm::Value *operand,
                                          llvm::Value *desired);
  [[nodiscard]] Registers fromOriginals(ir::Op &op, llvm::Value *original, const TileInfo &tile,
                                        llvm::ArrayRef<llvm::Value *> found);

  // lower_memory.cpp
  /// `kept`: where else the tile is, or is to be; null: nowhere.
  [[nodiscard]] Registers loadTile(const View &from, const TileInfo &to,
                                   const RowBuffers::Place *kept = nullptr);
  /// While bodies are lowered whose loops leave tiles for each other.
  std::unique_ptr<RowBuffers> rows_;
  /// A run of elements, each from an address of its own.
  [[nodiscard]] llvm::Value *
  loadSingly(TileInfo::Run run, llvm::ArrayRef<unsigned> slots, ir::Layout::Position at,
             llvm::Type *element,
             llvm::function_ref<llvm::Value *(const ir::Layout::Position &)> address);
  [[nodiscard]] llvm::SmallVector<llvm::Value *>
  loadInLoop(const TileAccess &access, llvm::ArrayRef<ir::Layout::Position> positions);
  void storeTile(const TileInfo &from, llvm::ArrayRef<llvm::Value *> values, const View &to);
  [[nodiscard]] bool canStoreInShifts(const TileAccess &access, const TileInfo &from);
  void storeInShifts(TileAccess &access, const TileInfo &from, const View &to,
                     llvm::function_ref<llvm::Value *(llvm::ArrayRef<unsigned> slots)> word);
  [[nodiscard]] bool
  storeInLoop(const TileAccess &access, const TileInfo &from, const View &to,
              llvm::function_ref<llvm::Value *(llvm::ArrayRef<unsigned> slots)> word);
  /// Index tiles, from an operand on, as i64 in a layout.
  [[nodiscard]] llvm::SmallVector<Registers, 4> indices(ir::Op &op, unsigned first, unsigned count,
                                                        const ir::Layout &layout);

  /// What `bits` of the thread's number say, the lowest first.
  [[nodiscard]] llvm::Value *positionOf(llvm::ArrayRef<ir::Layout::Position> ways,
                                        unsigned firstBit, unsigned dim);

  // lower_dot.cpp
  void lowerDot(ir::Op &op);
  void multiplyByElements(ir::Op &op);
  void multiplyByMatrices(ir::Op &op, const MatrixProduct &product);
  [[nodiscard]] bool isStagedByDot(const ir::Op &convert);
  /// Rows of the first operand, or columns of the second, that whole instructions read.
  [[nodiscard]] int64_t linesRead(const ir::Op &dot, unsigned operand);

  // multistage_loop.cpp: loops whose loads are copied to shared memory ahead.
  void lowerMultistageLoop(ir::Op &op);
  /// The loop whose copies are started between the instructions of a product, or null.
  [[nodiscard]] MultistageLoop *copiesDuring(const ir::Op &dot);
  /// Before a loop that reads ahead: reads what its product begins with (lower_dot.cpp).
  void readFirstWords(ir::Op &dot);
  /// Whether a product has several steps, and registers for the operands of two at once.
  [[nodiscard]] bool hasRoomToReadAhead(const ir::Op &dot);
  /// Where the tile of a copied load or gather is in this iteration; none of any other op.
  [[nodiscard]] std::optional<SharedTile> asyncTile(const ir::Op &load);
  /// The same of an operand of a product, which may be a rearranged one.
  [[nodiscard]] std::optional<SharedTile> asyncOperand(const ir::Value *tile);
  /// Nobody needs a copied load, or what it is rearranged to, in registers.
  [[nodiscard]] bool isReadByProducts(const ir::Value *tile);
  /// A product can read an operand where it stands; one element by element needs it straight.
  [[nodiscard]] bool readsShared(const ir::Op &dot, const SharedTile &tile) const;

  // lower_communication.cpp: put, get, reduce_add, notify, wait, tokens, fences, barrier, assert.
  void lowerCommunication(ir::Op &op);
  void lowerPut(ir::Op &op);
  // lower_sends.cpp
  /// Whether what an op sends need not have landed before its token is used.
  [[nodiscard]] bool sendsLater(const ir::Op &op) const;
  /// This thread has such things (i32, dtile_sends) under way.
  void addSends(llvm::Value *sends);
  /// What this thread has sent has landed: all, or of these and in no order.
  void quiet();
  void finishSends(llvm::Value *sends);
  /// The same of what is under way.
  void finishSends();
  /// What a put has given: what this thread has under way, and whether the notify went with it.
  void afterPut(llvm::Value *sends);
  /// The notify that a put can wait for, to be sent with it, and the reverse; or null.
  [[nodiscard]] const ir::Op *notifySentWith(const ir::Op &put) const;
  [[nodiscard]] ir::Op *putSentWith(const ir::Op &notify) const;
  void putAndNotify(ir::Op &put, ir::Op &notify);
  /// i32: what of this thread's a notify comes after by a fence. It is fenced then.
  [[nodiscard]] llvm::Value *unfencedSends(const ir::Op &notify);
  /// While an op is lowered whose sends land later.
  bool isSentLater_ = false;
  /// While a put is lowered that a notify tells of: one thread sends it where it is not too much.
  bool isInOrder_ = false;
  /// While a put and its notify are lowered: the cell, and whether (i1, in memory) the notify has
  /// been sent.
  llvm::Value *toldCell_ = nullptr, *told_ = nullptr;
  /// i1: the copy engine does what an op does at that rank; null: in no launch.
  [[nodiscard]] llvm::Value *isLeftToEngine(ir::Op &op, llvm::Value *rank);
  void lowerGet(ir::Op &op);
  void lowerReduceAdd(ir::Op &op);
  void lowerAssert(ir::Op &op);
  /// Once a program, where it waits for the same in all bodies.
  void lowerWait(ir::Op &op);
  void lowerPoll(ir::Op &op);
  void notify(ir::Op &op);
  /// lower_notifies.cpp: a loop that does nothing but notify, its rounds side by side in different
  /// threads. False, and nothing is emitted, for any other op.
  [[nodiscard]] bool lowerNotifyingLoop(ir::Op &op);
  /// Copies what exists in both; at most one is of another rank.
  void copy(View source, View destination);
  /// Shared memory that such a copy may go through, and its size: null and 0 where there is no
  /// engine for it, no room, or the copy is known to be small.
  [[nodiscard]] std::pair<llvm::Value *, int32_t> copyBuffer(const View &source,
                                                             const View &destination);

  /// Stores what fills the holes of a report's message; how many, i32.
  [[nodiscard]] llvm::Value *keepArguments(llvm::ArrayRef<llvm::Value *> arguments);
  void report(llvm::Value *site, llvm::Value *count);
  void emitFailure();
  llvm::Value *arguments_ = nullptr;
  llvm::PHINode *failedSite_ = nullptr, *failedCount_ = nullptr;

  // lower_print.cpp
  void lowerPrint(ir::Op &op);
  /// Calls `body` for each register with an element of a tile that `print` shows, in the thread
  /// that has it: with its number among those elements, i32.
  void eachShown(ir::Value *tile, llvm::function_ref<void(unsigned slot, llvm::Value *place)> body);

  // lower_trace.cpp
  /// What is recorded when it ends.
  struct Event {
    /// i32, dtile_trace_op.
    llvm::Value *op = nullptr;
    int32_t site = -1;
    /// A slot with the time; null for none.
    llvm::Value *began = nullptr;
    /// i64; null: now.
    llvm::Value *ended = nullptr;
    /// i64; null for this rank.
    llvm::Value *peer = nullptr;
  };
  /// By the thread that records; `describe` fills in the event's words.
  void record(const Event &event, llvm::function_ref<void(llvm::Value *words)> describe);
  void storeWord(llvm::Value *words, unsigned number, llvm::Value *value);
  /// i64: of a transfer, as its view exists.
  [[nodiscard]] llvm::Value *bytesMoved(const ir::Op &op);
  llvm::Value *region_ = nullptr;
  int32_t tracedSpace_ = 0;

  // lower_flagged.cpp: words that carry the number of their launch.
  void putLl(ir::Op &op);
  void loadLl(ir::Op &op);
  /// Where an i32 is: not 0 in a thread that goes on without words that never came.
  [[nodiscard]] llvm::Value *lostFlag();
  llvm::AllocaInst *lost_ = nullptr;

  // lower_far.cpp, beside located().
  /// Whether providers have functions for atomics of such elements.
  [[nodiscard]] static bool isSentAtomically(DType type);
  /// Adds to an element of such a type where no plain access reaches it: what it held.
  llvm::Value *fetchAddFar(const View &cell, DType type, llvm::Value *value);
  /// Adds to an element of such a type in a view that is written.
  void addAt(const View &to, DType type, llvm::Value *address, llvm::Value *value, bool isOwn);

  // lower_atomics.cpp
  /// Adds a value in computing form to an element in global memory, atomically; relaxed. `isOwn`:
  /// only this rank updates it.
  void atomicAdd(DType type, llvm::Value *address, llvm::Value *value, bool isOwn);
  /// The same for neighbours, aligned to their size together; as many at once as the device can.
  void atomicAdd(DType type, llvm::Value *address, llvm::ArrayRef<llvm::Value *> values,
                 bool isOwn);
  /// How many neighbours are worth adding at once.
  [[nodiscard]] static unsigned addedAtOnce(DType type);
  /// Emits the exchange of an element's old value by what `update` makes of it, until nobody came
  /// between; gives the old value. Both in computing form.
  llvm::Value *atomicUpdate(DType type, const View &cell, bool isOwn,
                            llvm::function_ref<llvm::Value *(llvm::Value *old)> update);
  /// Whether only this rank reaches the memory of a view.
  [[nodiscard]] bool isOwn(const ir::Value *view) const;

  /// While each thread does something else: where a failed check goes on, and what it sets to 1.
  struct Alone {
    llvm::BasicBlock *next = nullptr;
    llvm::Value *failed = nullptr;
    bool mayFail = false;
    /// Where not null, notifies are recorded and not made: the next one began at the time in this
    /// slot, and took so long (i64).
    llvm::Value *began = nullptr, *each = nullptr;
  };
  std::optional<Alone> alone_;
  /// Rounds of a loop, i64.
  struct Rounds {
    llvm::Value *first, *end, *step;
  };
  /// Emits rounds of such a loop in this thread alone; whether a check in them may fail.
  [[nodiscard]] bool notifyAlone(ir::Op &op, const Rounds &rounds, Alone alone);

  /// Objects that threads have read and written since they last met.
  struct Pending {
    llvm::SmallPtrSet<const ir::Op *, 4> read, written;
    void add(const Pending &other);
  };
  [[nodiscard]] const Pending &accesses(ir::Op &op);
  [[nodiscard]] Pending accessesOfIterations(ir::Op &loop);

  llvm::DenseMap<const ir::TypeStorage *, std::unique_ptr<TileInfo>> infos_;
  Pending pending_;
  bool sharedInUse_ = true;
  /// i64, of a thread that claims bodies in a cluster (claimBody): the body that it claimed last,
  /// and the distance from its first one to the next one.
  llvm::AllocaInst *claimed_ = nullptr, *claimedBefore_ = nullptr;
  /// What was pending where each op with regions began, and at the ends of its regions so far.
  struct Fork {
    Pending before, after;
    bool sharedBefore, sharedAfter;
  };
  llvm::SmallVector<Fork, 4> forks_;
  llvm::SmallDenseMap<const ir::Op *, MultistageLoop *, 2> multistageLoops_;
  llvm::DenseMap<ir::Op *, std::unique_ptr<Pending>> accesses_;
};

/// 16 zero bytes in global memory: what is read where nothing exists.
[[nodiscard]] llvm::Value *zeroBytes(llvm::IRBuilder<> &b);

/// What lowers the bodies of a space: by how its loads are staged.
[[nodiscard]] std::unique_ptr<BodyLowering>
makeBodyLowering(GpuModule &module, const KernelScaffold &kernel, ir::Op &space);

} // namespace dtile::backend::gpu
