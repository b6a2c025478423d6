// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stacks by mmap, switches by Boost.Context's fcontext (its one interface without exceptions),
// annotated for the sanitizers.
#include "backend/runtime/host/fiber.h"

#include <boost/context/detail/fcontext.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DTILE_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define DTILE_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define DTILE_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define DTILE_TSAN 1
#endif

#if DTILE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if DTILE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace dtile::runtime {

namespace {

constexpr size_t kGuardedStacks = 8192;
constexpr size_t kStacksPerSlab = 64;
constexpr uint64_t kPattern = 0x6474696c6573746bu;
constexpr size_t kPatternWords = 8;

void writePattern(char *base) {
  for (size_t i = 0; i < kPatternWords; ++i)
    std::memcpy(base + i * sizeof kPattern, &kPattern, sizeof kPattern);
}

bool patternIntact(const char *base) {
  uint64_t word;
  std::memcpy(&word, base + (kPatternWords - 1) * sizeof word, sizeof word);
  return word == kPattern;
}

} // namespace

StackPool::StackPool(size_t stackBytes) : pageBytes_(size_t(sysconf(_SC_PAGESIZE))) {
  stackBytes_ = (stackBytes + pageBytes_ - 1) / pageBytes_ * pageBytes_;
}

StackPool::~StackPool() {
  for (const Slab &slab : slabs_)
    munmap(slab.base, slab.bytes);
}

bool StackPool::addSlab() {
  guarded_ = given_ < kGuardedStacks;
  size_t each = stackBytes_ + (guarded_ ? pageBytes_ : 0);
  size_t bytes = each * kStacksPerSlab;
  void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (base == MAP_FAILED)
    return false;
  // A huge page would make each touched stack cost 2 MiB.
  madvise(base, bytes, MADV_NOHUGEPAGE);
  next_ = static_cast<char *>(base);
  end_ = next_ + bytes;
  slabs_.push_back({next_, bytes});
  return true;
}

Stack StackPool::allocate() {
  if (next_ == end_ && !addSlab())
    return {};
  char *base = next_;
  if (guarded_) {
    if (mprotect(base, pageBytes_, PROT_NONE) != 0)
      return {};
    base += pageBytes_;
  }
  next_ = base + stackBytes_;
  ++given_;
  return {base, stackBytes_};
}

/// Both sides of a switch, where the sanitizers want a word before and after.
struct Fiber::Switch {
  static void enter(boost::context::detail::transfer_t transfer) {
    auto *fiber = static_cast<Fiber *>(transfer.data);
    fiber->outer_ = transfer.fctx;
    fiber->arrived();
    fiber->entry_(fiber->argument_);
    std::abort();
  }
};

Fiber::~Fiber() {
#if DTILE_TSAN
  if (sanitizerFiber_)
    __tsan_destroy_fiber(sanitizerFiber_);
#endif
}

void Fiber::giveStack(Stack stack) {
  stack_ = stack;
  writePattern(stack_.base);
}

void Fiber::reset(Entry entry, void *argument) {
  entry_ = entry;
  argument_ = argument;
#if DTILE_ASAN
  __asan_unpoison_memory_region(stack_.base, stack_.bytes);
  fakeStack_ = nullptr;
#endif
#if DTILE_TSAN
  if (sanitizerFiber_)
    __tsan_destroy_fiber(sanitizerFiber_);
  sanitizerFiber_ = __tsan_create_fiber(0);
#endif
  self_ = boost::context::detail::make_fcontext(stack_.base + stack_.bytes, stack_.bytes,
                                                &Switch::enter);
}

void Fiber::arrived() {
#if DTILE_ASAN
  __sanitizer_finish_switch_fiber(fakeStack_, &outerBottom_, &outerBytes_);
#endif
}

void Fiber::resume() {
#if DTILE_ASAN
  void *workerFakeStack = nullptr;
  __sanitizer_start_switch_fiber(&workerFakeStack, stack_.base, stack_.bytes);
#endif
#if DTILE_TSAN
  sanitizerOuter_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(sanitizerFiber_, 0);
#endif
  self_ = boost::context::detail::jump_fcontext(self_, this).fctx;
#if DTILE_ASAN
  __sanitizer_finish_switch_fiber(workerFakeStack, nullptr, nullptr);
#endif
  if (!patternIntact(stack_.base)) {
    // Memory below the stack may be damaged: nothing can be trusted any more.
    std::fprintf(stderr,
                 "dtile: a body overflowed its stack of %zu bytes; set stack_bytes of "
                 "dtile_team_options higher\n",
                 stack_.bytes);
    std::abort();
  }
}

void Fiber::suspend() {
#if DTILE_ASAN
  __sanitizer_start_switch_fiber(&fakeStack_, outerBottom_, outerBytes_);
#endif
#if DTILE_TSAN
  __tsan_switch_to_fiber(sanitizerOuter_, 0);
#endif
  outer_ = boost::context::detail::jump_fcontext(outer_, this).fctx;
  arrived();
}

} // namespace dtile::runtime
