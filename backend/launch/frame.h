// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The frame of a launch: what the prologue works out once on the host, and everything else of the
// kernel reads.
#pragma once

#include "backend/launch/launch_module.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

#include <cstdint>

namespace dtile::backend::launch {

/// Who reads the frame.
enum class FrameKind : uint8_t {
  /// Bodies of the host target: one frame a launch.
  Host,
  /// GPU code. A captured graph replays the frame, so what changes from launch to launch (the
  /// epoch, this launch's copy of scratch objects, and what follows from them) is not in it.
  Device,
};

/// What the rest of a kernel takes from its prologue: constants, and places in the frame. Rank,
/// num_ranks and epoch (the prologue's, for the host side) come first in it, then objects of
/// devices (dtile_device_object, dtile_device_cells), then each value that is not constant once.
class Frame {
public:
  static constexpr int64_t kRank = 0;
  static constexpr int64_t kNumRanks = 8;
  static constexpr int64_t kEpoch = 16;

  /// One part of a value.
  struct Part {
    /// Null when it is in the frame.
    llvm::Constant *constant = nullptr;
    int64_t offset = 0;
  };

  /// A tensor map that device code asks for: boxes of a tensor parameter, innermost dimension
  /// last. There is one a copy of a scratch object, one after the other.
  struct TensorMap {
    ir::Op *param = nullptr;
    llvm::SmallVector<int32_t, 4> box;
    int32_t swizzle = 0;
    /// f32 that are rounded to tf32 on their way.
    bool isTf32 = false;
    /// It can be used where these are multiples of `wholeElements`
    /// (ir/analysis/boxes/box_starts.h).
    llvm::SmallVector<ir::Value *, 2> wholes;
    int64_t wholeElements = 1;
    int64_t copies = 1;
    /// Of the first map (64-aligned), and of the i64 that says what can be used (enum Use).
    int64_t offset = 0;
    int64_t usable = 0;

    /// Rows that begin at no multiple of 16 bytes: rows r, r + wholeElements, ... of the object do
    /// lie multiples of 16 bytes apart. So the object is described as a matrix whose rows are
    /// `wholeElements` rows of the object, one after the other ("folded"), and which begins at a
    /// multiple of 16 bytes before the object. If the last of these rows is not whole, its rows of
    /// the object are out of the first map's bounds; a second map has them and no others.
    struct Folded {
      /// Of a box; no rows: folded maps are not wanted, or there was no room for them.
      int32_t rows = 0, columns = 0;
      /// The object's dimension whose positions are rows of tiles.
      unsigned rowDim = 0;
      /// Of the second map of each copy (64-aligned). The first takes the place of the map of whole
      /// boxes, which cannot be used then.
      int64_t offset = 0;
      /// Of i64: elements from a row to the next; rows of the object in the last, incomplete row
      /// of the folded matrix; by copy, the elements before the object.
      int64_t pitch = 0, rest = 0, before = 0;
      /// Of i64, by dimension but the last: rows from a position to the next one.
      int64_t rowsApart = 0;

      [[nodiscard]] bool isFor(const Folded &other) const {
        return rows == other.rows && columns == other.columns && rowDim == other.rowDim;
      }
    };
    Folded folded;

    [[nodiscard]] bool isFor(const TensorMap &other) const {
      return param == other.param && box == other.box && swizzle == other.swizzle &&
             isTf32 == other.isTf32 && wholes == other.wholes &&
             wholeElements == other.wholeElements &&
             (folded.rows == 0 || other.folded.rows == 0 || folded.isFor(other.folded));
    }
  };
  /// What a launch can use of a tensor map, as the frame says it.
  enum Use : uint64_t { kNoMap, kWholeMap, kFoldedMaps };
  static constexpr int64_t kTensorMapBytes = 128;
  /// Of a number.
  static constexpr int64_t kFrameWordBytes = 8;

  /// Finds the values of the kernel's region that spaces and signals use.
  explicit Frame(ir::Op &kernel) : Frame(kernel, FrameKind::Host, INT64_MAX) {}
  /// `room`: bytes that it can have.
  Frame(ir::Op &kernel, FrameKind kind, int64_t room);

  [[nodiscard]] ir::Op &kernel() const { return kernel_; }
  [[nodiscard]] FrameKind kind() const { return kind_; }
  [[nodiscard]] const llvm::SetVector<ir::Value *> &captured() const { return captured_; }
  /// Also holds a value that no body uses. Values of bodies are not held.
  void capture(ir::Value *value);
  /// Where the parts of a captured value are; the prologue says it before anybody asks.
  void place(ir::Value *value, llvm::SmallVector<Part, 4> parts) {
    places_[value] = std::move(parts);
  }
  [[nodiscard]] bool isPlaced(ir::Value *value) const { return places_.contains(value); }
  [[nodiscard]] llvm::ArrayRef<Part> parts(ir::Value *value) const;
  /// Devices: whether a value of the kernel's region may differ between replays of a frame.
  [[nodiscard]] bool isVarying(const ir::Value *value) const { return varying_.contains(value); }
  /// Devices: where the object of a scratch or signal parameter is.
  [[nodiscard]] int64_t object(const ir::Op &param) const;
  /// Devices: asks for tensor maps, before the prologue is lowered. An equal one is made once.
  /// (`copies` and the places are found here.)
  const TensorMap &addTensorMap(TensorMap asked);
  /// Makes room for folded maps, once all else has its place. Tensors for which there is none have
  /// no such maps.
  void placeFoldedMaps();
  [[nodiscard]] llvm::ArrayRef<std::unique_ptr<TensorMap>> tensorMaps() const {
    return tensorMaps_;
  }

  /// New bytes.
  [[nodiscard]] int64_t allocate(int64_t size = 8, int64_t align = 8);
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] int64_t room() const { return room_; }

private:
  void captureOperands(ir::Op &op);
  void findVarying();
  ir::Op &kernel_;
  FrameKind kind_;
  int64_t room_;
  llvm::SetVector<ir::Value *> captured_;
  llvm::DenseSet<const ir::Value *> varying_;
  llvm::DenseMap<const ir::Op *, int64_t> objects_;
  llvm::SmallVector<std::unique_ptr<TensorMap>, 0> tensorMaps_;
  llvm::DenseMap<ir::Value *, llvm::SmallVector<Part, 4>> places_;
  int64_t bytes_ = 24;
};

/// Objects of a scratch parameter, taken in turn by launch. Zeroed ones have two at least: on
/// devices a launch makes the next one's zeros.
[[nodiscard]] int64_t scratchCopies(const ir::Op &param);
/// A whole scratch object. Rows of one that holds LL messages (attribute `ll`) begin at multiples
/// of 8 bytes of data; what is `n` bytes of data after `data` in the view is 2 n bytes after it in
/// memory, if n is a multiple of 4.
[[nodiscard]] View scratchView(ViewBuilder &views, llvm::IRBuilder<> &b, const ir::Op &param,
                               llvm::Value *data, llvm::ArrayRef<llvm::Value *> sizes);
/// The sizes of its memory, in elements.
[[nodiscard]] llvm::SmallVector<llvm::Value *, 4>
scratchMemory(llvm::IRBuilder<> &b, const ir::Op &param, llvm::ArrayRef<llvm::Value *> sizes);

/// A function of this machine that reads the frame.
class FrameFunction : public FunctionLowering {
public:
  FrameFunction(LaunchModule &module, const Frame *frame)
      : FunctionLowering(module), launch_(module), layout_(frame) {}

  /// Starts a new LLVM function whose argument `frameArgument` is the frame.
  void begin(llvm::Function *function, unsigned frameArgument);
  /// Ends it: the entry block jumps to what was emitted.
  void end();
  [[nodiscard]] llvm::IRBuilder<> &builder() { return b; }

protected:
  Parts outside(ir::Value *value) override;
  void lowerTargetOp(ir::Op &op) override;
  llvm::Value *fact(ir::OpKind kind) override;
  void checkCell(ir::Op &op, llvm::Value *position, llvm::Value *size) override {}
  void checkRank(ir::Op &op, llvm::Value *rank) override {}

  /// Loads a part of the frame, in the entry block.
  [[nodiscard]] llvm::Value *loadFrame(int64_t offset, llvm::Type *type);
  /// A static stack slot.
  [[nodiscard]] llvm::Value *stackSlot(llvm::Type *type, llvm::StringRef name);

  LaunchModule &launch_;
  const Frame *layout_;
  llvm::Function *function_ = nullptr;
  llvm::Value *frame_ = nullptr;
  llvm::BasicBlock *entry_ = nullptr;
  llvm::BasicBlock *start_ = nullptr;
  llvm::DenseMap<int64_t, llvm::Value *> loaded_;
};

/// Emits the prologue of a kernel, which decides where things are in the frame.
[[nodiscard]] llvm::Function *lowerPrologue(LaunchModule &module, Frame &frame,
                                            llvm::StringRef name);
/// Emits `i64 count(frame)`: the number of bodies of a space on this rank.
[[nodiscard]] llvm::Function *lowerCount(LaunchModule &module, const Frame &frame, ir::Op &space,
                                         llvm::StringRef name);

/// Number of blocks of each dimension, then the positions of body `linear`, of a space. Where
/// `paired` (i1, or null: never) holds, that of TileOrder::pairedDimension is made even: the last
/// blocks may lie outside of the space. `areFew`: the space has less than 2^31 bodies.
[[nodiscard]] llvm::SmallVector<llvm::Value *, 4> blockCounts(FunctionLowering &function,
                                                              llvm::IRBuilder<> &builder,
                                                              ir::Op &space,
                                                              llvm::Value *paired = nullptr);
[[nodiscard]] llvm::SmallVector<llvm::Value *, 4>
positions(FunctionLowering &function, llvm::IRBuilder<> &builder, ir::Op &space, llvm::Value *rank,
          llvm::Value *linear, llvm::Value *paired = nullptr, bool areFew = false);
/// The derived count of a cell, by its row-major number: the region of a signal parameter, which
/// must have one.
[[nodiscard]] llvm::Value *expectedCount(FunctionLowering &function, llvm::IRBuilder<> &builder,
                                         ir::Op &signalParam, llvm::Value *cell);

} // namespace dtile::backend::launch
