// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/fork_check.h"

#include <sys/mman.h>

namespace dtile::runtime {

namespace {
size_t pageBytes() { return size_t(sysconf(_SC_PAGESIZE)); }
} // namespace

ForkCheck::ForkCheck() : process_(getpid()) {
  void *page =
      mmap(nullptr, pageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return;
  if (madvise(page, pageBytes(), MADV_WIPEONFORK) != 0) {
    munmap(page, pageBytes());
    return;
  }
  word_ = static_cast<volatile uint64_t *>(page);
  *word_ = 1;
}

ForkCheck::~ForkCheck() {
  if (word_)
    munmap(const_cast<uint64_t *>(word_), pageBytes());
}

} // namespace dtile::runtime
