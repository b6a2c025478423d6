// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stacks, and the switch between a worker and what runs on a stack. A fiber may continue on any
// worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtile::runtime {

/// A stack; grows down from `base + bytes`.
struct Stack {
  char *base = nullptr;
  size_t bytes = 0;
};

/// Gives stacks and takes them all back at its end. The first kGuardedStacks have an unmapped page
/// below them, which costs two of the kernel's mappings a stack (65530 a process by default);
/// further ones share mappings and are guarded by a pattern that is looked at on each switch. So
/// their number is bounded by memory alone.
class StackPool {
public:
  explicit StackPool(size_t stackBytes);
  ~StackPool();
  StackPool(const StackPool &) = delete;
  StackPool &operator=(const StackPool &) = delete;

  /// A fresh stack, or one without a base when the machine gives no more memory.
  Stack allocate();
  size_t stackBytes() const { return stackBytes_; }

private:
  bool addSlab();

  struct Slab {
    char *base;
    size_t bytes;
  };
  size_t stackBytes_;
  size_t pageBytes_;
  size_t given_ = 0;
  char *next_ = nullptr;
  char *end_ = nullptr;
  bool guarded_ = true;
  std::vector<Slab> slabs_;
};

/// What runs on a stack of its own.
class Fiber {
public:
  using Entry = void (*)(void *argument);

  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  bool hasStack() const { return stack_.base != nullptr; }
  void giveStack(Stack stack);
  /// Forgets whatever was on the stack; the next resume calls `entry`, which must not return.
  void reset(Entry entry, void *argument);
  /// From a worker: runs the fiber until it suspends.
  void resume();
  /// From the fiber: back to the worker that resumed it; returns at the next resume.
  void suspend();

private:
  struct Switch;
  void arrived();

  Stack stack_;
  void *self_ = nullptr;
  void *outer_ = nullptr;
  Entry entry_ = nullptr;
  void *argument_ = nullptr;
  // For the address and thread sanitizers, which must be told of switches.
  [[maybe_unused]] void *sanitizerFiber_ = nullptr;
  [[maybe_unused]] void *sanitizerOuter_ = nullptr;
  [[maybe_unused]] void *fakeStack_ = nullptr;
  [[maybe_unused]] const void *outerBottom_ = nullptr;
  [[maybe_unused]] size_t outerBytes_ = 0;
};

} // namespace dtile::runtime
