// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu and the vendors' folders: the LLVM module of one device's code.
#pragma once

#include "backend/gpu/device.h"
#include "backend/gpu/launch_kinds.h"
#include "backend/gpu/whole_words.h"
#include "backend/launch/frame.h"
#include "backend/llvm/lowering.h"
#include "backend/runtime/device_abi.h"

#include <cstdint>
#include <optional>

namespace dtile::backend::gpu {

/// Functions of the device library, one enumerator a row of device_calls.def.
enum class DeviceCall : uint8_t {
#define CALL(NAME, SIGNATURE) NAME,
#include "backend/gpu/device_calls.def"
};

/// Bytes that a frame can have on a device.
[[nodiscard]] int64_t frameRoom(const Device &device);

/// How code is made.
struct CodeOptions {
  /// Line tables.
  bool debugInfo = false;
  /// Kernels run only where each rank addresses the memory of all others.
  bool areMapped = true;
  /// Kernels have one function for all launches.
  bool isBatchInvariant = false;
  /// Bodies may print.
  bool prints = false;
  /// Bodies record what they do where a team is traced.
  bool isTraced = false;
};

/// The module and what all of its functions use.
class GpuModule : public ModuleLowering {
public:
  GpuModule(ir::Module &source, llvm::Module &module, const Device &device,
            const CodeOptions &options)
      : ModuleLowering(source, module, options.debugInfo), device(device),
        areMapped(options.areMapped), isBatchInvariant(options.isBatchInvariant),
        prints(options.prints), isTraced(options.isTraced) {}

  const Device &device;
  const bool areMapped;
  const bool isBatchInvariant;
  const bool prints;
  const bool isTraced;

  [[nodiscard]] llvm::FunctionCallee call(DeviceCall call);
  /// That function, or null where nothing has called it.
  [[nodiscard]] const llvm::Function *declared(DeviceCall call) const;
  /// The number of a place in the kernel's list of sites; `what` names the object or is the message
  /// of an assert.
  [[nodiscard]] int32_t site(const ir::Op &op, llvm::StringRef what);
  /// A place that reports name.
  struct Site {
    const ir::Op *op;
    std::string what;
  };
  /// The places of the kernel that was lowered last, which are forgotten.
  [[nodiscard]] std::vector<Site> takeSites() { return std::exchange(sites_, {}); }
  /// The op accesses other ranks' memory, which must be mapped here.
  void needsMapped(const ir::Op &op, llvm::StringRef object);
  /// Of the first such op of the kernel that was lowered last, or -1; begins anew.
  [[nodiscard]] int32_t takeMappedSite() { return std::exchange(mappedSite_, -1); }

  /// Bytes of the program's shared memory (kShared): until releaseShared.
  [[nodiscard]] llvm::Value *shared(llvm::IRBuilder<> &b, int64_t bytes, int64_t align);
  /// How many more bytes there are to ask for, from a multiple of `ir::kScratchAlignBytes` on.
  /// Without a limit (limitShared) there are always enough: then sharedPeak says what all would
  /// take.
  [[nodiscard]] int64_t sharedRoom() const;
  void limitShared(std::optional<int64_t> bytes) { sharedLimit_ = bytes; }
  /// What is handed out now; giving it back to releaseShared frees all that came after. The memory
  /// is used again, so all threads must have met in between.
  [[nodiscard]] int64_t sharedMark() const { return sharedUsed_; }
  void releaseShared(int64_t mark) { sharedUsed_ = mark; }
  /// The most that was handed out at once by the kernel that was lowered last; begins anew.
  [[nodiscard]] int64_t takeSharedBytes() {
    sharedUsed_ = 0;
    return std::exchange(sharedPeak_, {}).bytes;
  }

  /// The most so far, what of it stood there before, and the op that asked for the rest, of those
  /// that were told (lowersOp), or null.
  struct Peak {
    int64_t bytes = 0, standing = 0;
    ir::Op *user = nullptr;
  };
  [[nodiscard]] const Peak &sharedPeak() const { return sharedPeak_; }
  /// What is asked for from now on is for this op.
  void lowersOp(ir::Op &op) { op_ = &op; }

  /// The kernel that was lowered last is lowered again: its places and shared memory begin anew.
  void forgetKernel() {
    sites_.clear();
    mappedSite_ = -1;
    (void)takeSharedBytes();
  }

  /// A function of this module's code that is inlined everywhere.
  [[nodiscard]] llvm::Function *function(llvm::StringRef name, llvm::FunctionType *type);

private:
  std::vector<Site> sites_;
  int32_t mappedSite_ = -1;
  int64_t sharedUsed_ = 0;
  Peak sharedPeak_;
  std::optional<int64_t> sharedLimit_;
  ir::Op *op_ = nullptr;
};

/// The kernel around the bodies: its parameters and what they hold, loaded once.
struct KernelScaffold {
  ir::Op *kernel = nullptr;
  const launch::Frame *layout = nullptr;
  llvm::Function *function = nullptr;
  /// Where loads that are uniform over the launch stand; ends in a branch to the rest.
  llvm::BasicBlock *entry = nullptr;
  /// Addresses of the two parameters (constant memory).
  llvm::Value *launch = nullptr;
  llvm::Value *frame = nullptr;
  /// i64; where `epoch` is null, it is the whole launches of `ended`, which is in parts.
  llvm::Value *rank = nullptr, *ranks = nullptr, *epoch = nullptr, *ended = nullptr;
  /// i32: the spaces whose transfers the copy engine makes in this launch, a bit each; null where
  /// that is none in any.
  llvm::Value *engine = nullptr;
  /// Where each thread keeps what it has under way to ranks that are not mapped (i32, dtile_sends);
  /// null where all are mapped.
  llvm::Value *sends = nullptr;
  /// i32: the thread in its program, the program in the launch.
  llvm::Value *thread = nullptr, *program = nullptr;
  unsigned threads = 128;
  /// Parts of the frame that have been loaded.
  mutable llvm::DenseMap<int64_t, llvm::Value *> loaded;
  /// Functions that count notifies, by signal parameter: i64 (launch, frame, cell).
  mutable llvm::DenseMap<const ir::Op *, llvm::Function *> expected;
  /// What is known of launches by their kind.
  mutable llvm::SmallVector<LaunchFact, 8> facts;
  /// Accesses of tiles that may be known to be of whole words, when the function is complete.
  mutable std::vector<WholeWords::Access> accesses;
};

/// Bodies of a space that a program runs: first, first + step, … below count. All i64.
struct BodyRange {
  llvm::Value *first = nullptr, *step = nullptr, *count = nullptr;
  /// Address of an i64 in device memory: how many have been taken. Where it is not null, a program
  /// runs the next that nobody has taken instead, until there are none.
  llvm::Value *taken = nullptr;
  /// Where the programs of a cluster may share the loops of bodies (For, split_sums): how many they
  /// are, and which of them this one is, i32. Then `first` and `step` count clusters. Null
  /// elsewhere.
  llvm::Value *parts = nullptr, *part = nullptr;
  /// Where the programs of a cluster may share loads (Load, multicast): whether they do in this
  /// launch (i1), and which of its two programs this one is (i32, 0 where they do not). Then bodies
  /// 2 n and 2 n + 1 run at once. Null elsewhere.
  llvm::Value *paired = nullptr, *half = nullptr;
  /// Where bodies of the last round may be divided between programs (divided_bodies.h): whether
  /// they are in this launch (i1). Null elsewhere.
  llvm::Value *divided = nullptr;
};

/// Threads of a program that run bodies.
[[nodiscard]] inline unsigned bodyThreads(const ir::Op &kernel) {
  return unsigned(kernel.getOr(ir::attr::threads, 128));
}

/// Those, and what else a program has.
[[nodiscard]] unsigned launchedThreads(ir::Op &kernel);

/// What is known of a kernel's launches.
struct LoweredKernel {
  /// By their kind.
  llvm::SmallVector<LaunchFact, 8> facts;
  /// Without tensor maps: what launches of plain kinds are.
  WholeWords words;
};

/// Emits the GPU function of a kernel, called `entry`. The frame's places must be known.
LoweredKernel lowerKernel(GpuModule &module, ir::Op &kernel, const launch::Frame &frame,
                          llvm::StringRef entry);

} // namespace dtile::backend::gpu
