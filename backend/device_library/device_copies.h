// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the threads of a program copy rows: by plain accesses, or by TMA where that is
// there and the rows are long. README.md says when. A part of device.c.
#pragma once

#include "backend/device_library/device.h"
#include "backend/device_library/provider.h"

// ---- Copies by plain accesses ----

typedef uint32_t Words4 __attribute__((ext_vector_type(4)));
typedef uint32_t Words2 __attribute__((ext_vector_type(2)));

// Elements are taken in row-major order, thread by thread: where a thread's first one is, how it
// gets from one to the next, and how many it has.
typedef struct Steps {
  char DTILE_GLOBAL *to;
  const char DTILE_GLOBAL *from;
  // In elements.
  int64_t left, col, cols, step;
  // In bytes; the latter two where the next one is in a later row than `step` columns say.
  int64_t to_step, from_step, to_wrap, from_wrap;
} Steps;

DTILE_INLINE Steps stepsOf(void *to, const void *from, uint32_t unit, Rows r, uint32_t threads) {
  const uint32_t thread = (uint32_t)threadIndex();
  const int64_t left = r.rows * r.cols - thread;
  const int isLong = r.cols > threads;
  const int64_t col = isLong ? thread : thread % (uint32_t)r.cols;
  const int64_t row = isLong ? 0 : thread / (uint32_t)r.cols;
  const int64_t step = isLong ? threads : threads % (uint32_t)r.cols;
  const int64_t stepRow = isLong ? 0 : threads / (uint32_t)r.cols;
  const int64_t toStep = stepRow * r.destination_row + step * r.destination_col;
  const int64_t fromStep = stepRow * r.source_row + step * r.source_col;
  return (Steps){
      .to = (char DTILE_GLOBAL *)to + (row * r.destination_row + col * r.destination_col) * unit,
      .from = (const char DTILE_GLOBAL *)from + (row * r.source_row + col * r.source_col) * unit,
      .left = left > 0 ? (left + threads - 1) / threads : 0,
      .col = col,
      .cols = r.cols,
      .step = step,
      .to_step = toStep * unit,
      .from_step = fromStep * unit,
      .to_wrap = (toStep + r.destination_row - r.cols * r.destination_col) * unit,
      .from_wrap = (fromStep + r.source_row - r.cols * r.source_col) * unit};
}

DTILE_INLINE void advance(Steps *s) {
  s->col += s->step;
  const int isOver = s->col >= s->cols;
  s->col -= isOver ? s->cols : 0;
  s->to += isOver ? s->to_wrap : s->to_step;
  s->from += isOver ? s->from_wrap : s->from_step;
}

// A thread has several loads in flight, for what is far away wants many: 8 of 16 bytes (16 where
// there are few threads), 4 of less. In its last round it loads its first element again where it
// has no more, so that no load waits for a branch, and stores nothing there. Only copies of 16
// bytes have a loop without these comparisons for the rounds before it: elsewhere they cost less
// than what every kernel that sends would be longer by.
#define DTILE_COPY(NAME, TYPE, AT_ONCE, HAS_WHOLE_ROUNDS)                                          \
  DTILE_INLINE void NAME(Steps s) {                                                                \
    const char DTILE_GLOBAL *const first = s.from;                                                 \
    TYPE value[AT_ONCE];                                                                           \
    char DTILE_GLOBAL *place[AT_ONCE];                                                             \
    for (; HAS_WHOLE_ROUNDS && s.left >= AT_ONCE; s.left -= AT_ONCE) {                             \
      _Pragma("unroll") for (int i = 0; i < AT_ONCE; ++i) {                                        \
        value[i] = *(const TYPE DTILE_GLOBAL *)s.from;                                             \
        place[i] = s.to;                                                                           \
        advance(&s);                                                                               \
      }                                                                                            \
      _Pragma("unroll") for (int i = 0; i < AT_ONCE; ++i) {                                        \
        *(TYPE DTILE_GLOBAL *)place[i] = value[i];                                                 \
      }                                                                                            \
    }                                                                                              \
    _Pragma("unroll 1") for (; s.left > 0; s.left -= AT_ONCE) {                                    \
      _Pragma("unroll") for (int i = 0; i < AT_ONCE; ++i) {                                        \
        value[i] = *(const TYPE DTILE_GLOBAL *)(i < s.left ? s.from : first);                      \
        place[i] = s.to;                                                                           \
        advance(&s);                                                                               \
      }                                                                                            \
      _Pragma("unroll") for (int i = 0; i < AT_ONCE; ++i) {                                        \
        if (i < s.left)                                                                            \
          *(TYPE DTILE_GLOBAL *)place[i] = value[i];                                               \
      }                                                                                            \
    }                                                                                              \
  }
DTILE_COPY(copy1, uint8_t, 4, 0)
DTILE_COPY(copy2, uint16_t, 4, 0)
DTILE_COPY(copy4, uint32_t, 4, 0)
DTILE_COPY(copy8, Words2, 4, 0)
DTILE_COPY(copy16, Words4, 8, 1)
DTILE_COPY(copy16ByFew, Words4, 16, 1)
#undef DTILE_COPY

// Bytes that addresses and sizes are all multiples of, at most 16.
DTILE_INLINE uint32_t granule(const void *to, const void *from, int32_t bytes, Rows r) {
  uint64_t all = (uint64_t)to | (uint64_t)from | (uint64_t)(r.cols * bytes) | 16;
  if (r.rows > 1)
    all |= (uint64_t)(r.destination_row * bytes) | (uint64_t)(r.source_row * bytes);
  return (uint32_t)(all & -all);
}

// ---- Rows that begin at another byte of a word than where they go ----

// Below that most of a row is its ends.
enum { kLeastShiftedBytes = 512, kShiftedAtOnce = 4 };

typedef struct Shift {
  int byPair, byOne;
  uint32_t bits;
} Shift;

// The 16 bytes that begin some bytes after the first of two words.
DTILE_INLINE Words4 shifted(Words4 low, Words4 high, Shift shift) {
  uint32_t x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  for (int i = 0; i < 6; ++i)
    x[i] = shift.byPair ? x[i + 2] : x[i];
  for (int i = 0; i < 5; ++i)
    x[i] = shift.byOne ? x[i + 1] : x[i];
  for (int i = 0; i < 4; ++i)
    x[i] = (uint32_t)(((uint64_t)x[i + 1] << 32 | x[i]) >> shift.bits);
  return (Words4){x[0], x[1], x[2], x[3]};
}

DTILE_INLINE void copyBytes(char *to, const char *from, int64_t bytes, uint32_t thread,
                            uint32_t threads) {
#pragma unroll 1
  for (int64_t i = thread; i < bytes; i += threads)
    *((uint8_t DTILE_GLOBAL *)to + i) = *((const uint8_t DTILE_GLOBAL *)from + i);
}

// A row's whole words where they go, each of two words of the source that are there whole.
typedef struct ShiftedRow {
  // Bytes before the first one.
  int64_t head;
  int64_t words;
  // The word that the first one begins in, so many bytes after it.
  const char *source;
  uint32_t skipped;
} ShiftedRow;

DTILE_INLINE ShiftedRow shiftedRow(const char *to, const char *from, int64_t bytes) {
  const int64_t head = (int64_t)(-(uint64_t)to & 15);
  const uint64_t begin = (uint64_t)from + (uint64_t)head;
  const char *const source = (const char *)(begin & ~(uint64_t)15);
  const uint32_t skipped = (uint32_t)(begin & 15);
  return (ShiftedRow){head, (from + bytes - source - (skipped == 0 ? 0 : 16)) / 16, source,
                      skipped};
}

DTILE_INLINE Shift shiftBy(uint32_t bytes) {
  return (Shift){(bytes & 8) != 0, (bytes & 4) != 0, 8 * (bytes & 3)};
}

// What is no whole word of a row, by some threads.
DTILE_INLINE void copyEnds(ShiftedRow row, char *to, const char *from, int64_t bytes,
                           uint32_t thread, uint32_t threads) {
  copyBytes(to, from, row.head, thread, threads);
  const int64_t done = row.head + 16 * row.words;
  copyBytes(to + done, from + done, bytes - done, thread, threads);
}

// By some threads, of which this one is number `thread`.
static __attribute__((noinline)) void copyShiftedRow(char *to, const char *from, int64_t bytes,
                                                     uint32_t thread, uint32_t threads) {
  const ShiftedRow row = shiftedRow(to, from, bytes);
  const Shift shift = shiftBy(row.skipped);
  // Where nothing is skipped, the second word is the first one.
  const int64_t second = row.skipped == 0 ? 0 : 16;
  const int64_t step = (int64_t)threads * kShiftedAtOnce;
#pragma unroll 1
  for (int64_t first = thread; first < row.words; first += step) {
    Words4 low[kShiftedAtOnce], high[kShiftedAtOnce];
    _Pragma("unroll") for (int i = 0; i < kShiftedAtOnce; ++i) {
      const int64_t word = first + (int64_t)i * threads;
      const char *at = row.source + 16 * (word < row.words ? word : first);
      low[i] = *(const Words4 DTILE_GLOBAL *)at;
      high[i] = *(const Words4 DTILE_GLOBAL *)(at + second);
    }
    _Pragma("unroll") for (int i = 0; i < kShiftedAtOnce; ++i) {
      const int64_t word = first + (int64_t)i * threads;
      if (word < row.words)
        *(Words4 DTILE_GLOBAL *)(to + row.head + 16 * word) = shifted(low[i], high[i], shift);
    }
  }
  copyEnds(row, to, from, bytes, thread, threads);
}

// Rows by the warps in turn; one by all threads.
DTILE_INLINE void copyShifted(char *to, const char *from, int64_t bytes, Rows r, int32_t threads,
                              int32_t element) {
  const uint32_t thread = (uint32_t)threadIndex();
  const int areMany = r.rows > 1 && threads % 32 == 0;
  const uint32_t together = areMany ? 32 : (uint32_t)threads;
#pragma unroll 1
  for (int64_t row = thread / together; row < r.rows; row += (uint32_t)threads / together)
    copyShiftedRow(to + row * r.destination_row * element, from + row * r.source_row * element,
                   bytes, thread % together, together);
}

// ---- Copies in bulk ----

// Walkers, one thread of each of the first warps, have TMA bring bytes to slots of
// shared memory and take them from there to where they go: half of the slots wait for what comes,
// half for what leaves. A slot has parts of rows, as many as it has room for, so that short rows
// keep as much in flight as long ones. One walker alone takes longer to start the copies of a slot
// than a processor takes to move it.
enum {
  kMostWalkers = 4,
  // Of one walker.
  kSlots = 4,
  kSlotsAhead = 2,
  // What the barriers of the slots take, in front of them.
  kBarrierBytes = 128,
  // 64 KiB in all are what fills a processor's way to a link; twice that where programs beside it
  // keep memory busy.
  kMostSlotBytes = 8192,
  kLeastSlotBytes = 2048,
  // Shorter rows take the one thread more instructions than the bytes take time.
  kLeastRowBytes = 2048,
  // Below that most of the time goes to the first load and the last store, and all threads at once
  // have the same two behind each other. Where slots are smaller, as nothing keeps memory busy,
  // twice that: all slots once.
  kLeastBulkBytes = 32768
};

// Which bytes of rows are next: an address, how many its row has left, and how rows lie.
typedef struct Walk {
  char *at;
  int64_t left;
  int64_t row_bytes, gap;
} Walk;

// From the byte number `within` of a row on.
DTILE_INLINE Walk walkRows(const void *start, int64_t row, int64_t within, int64_t row_bytes,
                           int64_t pitch) {
  return (Walk){(char *)start + row * pitch + within, row_bytes - within, row_bytes,
                pitch - row_bytes};
}

// Starts copies of the next `bytes` bytes between a slot and the rows.
DTILE_INLINE void moveSlot(Walk *walk, char *slot, int64_t bytes, char *barrier, int isLoad) {
#pragma unroll 1
  while (bytes > 0) {
    const int64_t part = walk->left < bytes ? walk->left : bytes;
    if (isLoad)
      bulkLoad(slot, walk->at, (uint32_t)part, barrier);
    else
      bulkStore(walk->at, slot, (uint32_t)part);
    slot += part;
    bytes -= part;
    walk->at += part;
    walk->left -= part;
    if (walk->left == 0) {
      walk->at += walk->gap;
      walk->left = walk->row_bytes;
    }
  }
}

// The bytes from number `first` on, `bytes` of them, by one walker with its buffer.
static __attribute__((noinline)) void copyInBulk(void *destination, const void *source,
                                                 int64_t first, int64_t bytes, int64_t row_bytes,
                                                 int64_t destination_pitch, int64_t source_pitch,
                                                 char *buffer, int32_t slot_bytes) {
  const int64_t row = first < row_bytes ? 0 : first / row_bytes;
  const int64_t within = first - row * row_bytes;
  Walk from = walkRows(source, row, within, row_bytes, source_pitch);
  Walk to = walkRows(destination, row, within, row_bytes, destination_pitch);
  char *const slots = buffer + kBarrierBytes;
  const int64_t count = (bytes + slot_bytes - 1) / slot_bytes;
  const int64_t lastBytes = bytes - (count - 1) * slot_bytes;
#pragma unroll 1
  for (int32_t slot = 0; slot < kSlots; ++slot)
    bulkBarrierBegin(buffer + 8 * slot);
  bulkBegin();
  int32_t loadSlot = 0, storeSlot = 0;
  uint32_t phase = 0;
#pragma unroll 1
  for (int64_t i = 0; i < count + kSlotsAhead; ++i) {
    if (i < count) {
      // Of the stores from this slot on.
      bulkAwaitRead(kSlots - kSlotsAhead - 1);
      char *const barrier = buffer + 8 * loadSlot;
      const int64_t part = i + 1 == count ? lastBytes : slot_bytes;
      bulkExpect(barrier, (uint32_t)part);
      moveSlot(&from, slots + loadSlot * slot_bytes, part, barrier, 1);
      loadSlot = (loadSlot + 1) & (kSlots - 1);
    }
    if (i >= kSlotsAhead) {
      bulkAwaitLoad(buffer + 8 * storeSlot, phase);
      const int64_t part = i + 1 == count + kSlotsAhead ? lastBytes : slot_bytes;
      moveSlot(&to, slots + storeSlot * slot_bytes, part, 0, 0);
      bulkCommit();
      storeSlot = (storeSlot + 1) & (kSlots - 1);
      phase ^= storeSlot == 0;
    }
  }
  bulkAwaitAll();
#pragma unroll 1
  for (int32_t slot = 0; slot < kSlots; ++slot)
    bulkBarrierEnd(buffer + 8 * slot);
}

// ---- Such rows in bulk ----

// Warps are the walkers. A slot has the words of the source that one part of a row needs; all lanes
// shift them where they lie, and then they are where TMA takes words from.
typedef struct ShiftedPart {
  char *to;
  const char *from;
  // Bytes that come, and that go.
  uint32_t loaded, stored, skipped;
} ShiftedPart;

typedef struct PartNumber {
  int64_t row, part;
} PartNumber;

// The part that is `step` further; rows have `parts` of them.
DTILE_INLINE PartNumber partAfter(PartNumber at, uint32_t step, int64_t parts) {
  at.part += step;
#pragma unroll 1
  for (; at.part >= parts; at.part -= parts)
    ++at.row;
  return at;
}

// `most`: words that a part has.
DTILE_INLINE ShiftedPart shiftedPart(char *to, const char *from, int64_t bytes, Rows r,
                                     int32_t element, PartNumber at, int64_t most) {
  to += at.row * r.destination_row * element;
  from += at.row * r.source_row * element;
  const ShiftedRow row = shiftedRow(to, from, bytes);
  const int64_t first = at.part * most;
  int64_t words = row.words - first;
  words = words < 0 ? 0 : words < most ? words : most;
  const uint32_t stored = 16 * (uint32_t)words;
  const uint32_t loaded = stored == 0 || row.skipped == 0 ? stored : stored + 16;
  return (ShiftedPart){to + row.head + 16 * first, row.source + 16 * first, loaded, stored,
                       row.skipped};
}

// By all lanes of a warp, in order, so that words are read before they are written.
DTILE_INLINE void shiftSlot(char *slot, ShiftedPart part, uint32_t lane) {
  const Shift shift = shiftBy(part.skipped);
  const uint32_t words = part.stored / 16;
#pragma unroll 1
  for (uint32_t first = lane; first - lane < words; first += 32 * kShiftedAtOnce) {
    Words4 word[kShiftedAtOnce];
    _Pragma("unroll") for (uint32_t i = 0; i < kShiftedAtOnce; ++i) {
      const uint32_t at = first + 32 * i < words ? first + 32 * i : 0;
      const Words4 DTILE_SHARED *low = (const Words4 DTILE_SHARED *)(slot + 16 * at);
      word[i] = shifted(low[0], low[1], shift);
    }
    warpSync();
    _Pragma("unroll") for (uint32_t i = 0; i < kShiftedAtOnce; ++i) {
      if (first + 32 * i < words)
        *(Words4 DTILE_SHARED *)(slot + 16 * (first + 32 * i)) = word[i];
    }
    warpSync();
  }
}

// By warp `walker` of `walkers`, with a buffer of its own.
static __attribute__((noinline)) void copyShiftedInBulk(char *to, const char *from, int64_t bytes,
                                                        Rows r, int32_t element, char *buffer,
                                                        int32_t slot_bytes, uint32_t walker,
                                                        uint32_t walkers) {
  const uint32_t lane = (uint32_t)threadIndex() % 32;
  char *const slots = buffer + kBarrierBytes;
  // A slot has a word more than what goes from there.
  const int64_t most = slot_bytes / 16 - 8;
  const int64_t parts = (bytes / 16 + most - 1) / most;
  const int64_t all = r.rows * parts;
  const int64_t count = walker < all ? (all - walker + walkers - 1) / walkers : 0;
  if (lane == 0) {
#pragma unroll 1
    for (int32_t slot = 0; slot < kSlots; ++slot)
      bulkBarrierBegin(buffer + 8 * slot);
    bulkBegin();
  }
  PartNumber load = partAfter((PartNumber){0, 0}, walker, parts), store = load;
  int32_t loadSlot = 0, storeSlot = 0;
  uint32_t phase = 0;
#pragma unroll 1
  for (int64_t i = 0; i < count + kSlotsAhead; ++i) {
    if (i < count) {
      if (lane == 0) {
        const ShiftedPart part = shiftedPart(to, from, bytes, r, element, load, most);
        char *const barrier = buffer + 8 * loadSlot;
        // Of the stores from this slot on.
        bulkAwaitRead(kSlots - kSlotsAhead - 1);
        bulkExpect(barrier, part.loaded);
        if (part.loaded > 0)
          bulkLoad(slots + loadSlot * slot_bytes, part.from, part.loaded, barrier);
      }
      load = partAfter(load, walkers, parts);
      loadSlot = (loadSlot + 1) & (kSlots - 1);
    }
    if (i >= kSlotsAhead) {
      const ShiftedPart part = shiftedPart(to, from, bytes, r, element, store, most);
      char *const slot = slots + storeSlot * slot_bytes;
      if (lane == 0)
        bulkAwaitLoad(buffer + 8 * storeSlot, phase);
      warpSync();
      shiftSlot(slot, part, lane);
      bulkFence();
      warpSync();
      if (lane == 0) {
        if (part.stored > 0)
          bulkStore(part.to, slot, part.stored);
        bulkCommit();
      }
      store = partAfter(store, walkers, parts);
      storeSlot = (storeSlot + 1) & (kSlots - 1);
      phase ^= storeSlot == 0;
    }
  }
#pragma unroll 1
  for (int64_t i = walker; i < r.rows; i += walkers) {
    char *const toRow = to + i * r.destination_row * element;
    const char *const fromRow = from + i * r.source_row * element;
    copyEnds(shiftedRow(toRow, fromRow, bytes), toRow, fromRow, bytes, lane, 32);
  }
  if (lane == 0) {
    bulkAwaitAll();
#pragma unroll 1
    for (int32_t slot = 0; slot < kSlots; ++slot)
      bulkBarrierEnd(buffer + 8 * slot);
  }
}

// How the threads of a program walk in bulk: none where that is not worth it.
typedef struct Walkers {
  int32_t count;
  // Of the buffer of each, and of a slot in it.
  int32_t bytes, slot_bytes;
} Walkers;

DTILE_INLINE Walkers walkersOf(Rows r, int64_t row, int32_t threads) {
  int32_t walkers = threads / 32;
  walkers = walkers < kMostWalkers ? walkers : kMostWalkers;
  const int32_t part = walkers > 0 ? r.buffer_bytes / walkers / 128 * 128 : 0;
  int32_t slot = (part - kBarrierBytes) / kSlots / 128 * 128;
  slot = slot < kMostSlotBytes ? slot : kMostSlotBytes;
  const int64_t least = slot < kMostSlotBytes ? 2 * kLeastBulkBytes : kLeastBulkBytes;
  const int isLarge = slot >= kLeastSlotBytes && row >= kLeastRowBytes && row * r.rows >= least;
  return (Walkers){hasBulkCopies() && r.buffer && isLarge ? walkers : 0, part, slot};
}

DTILE_INLINE void copyRowsHere(void *destination, const void *source, int32_t bytes, Rows r,
                               int32_t threads, int byFew) {
  if (r.rows <= 0 || r.cols <= 0)
    return;
  if (r.cols == 1) {
    // A column is a row.
    r.cols = r.rows;
    r.destination_col = r.destination_row;
    r.source_col = r.source_row;
    r.rows = 1;
  }
  if (r.destination_row == r.cols * r.destination_col && r.source_row == r.cols * r.source_col) {
    r.cols *= r.rows;
    r.rows = 1;
  }
  uint32_t unit = (uint32_t)bytes;
  if (r.destination_col == 1 && r.source_col == 1) {
    unit = granule(destination, source, bytes, r);
    const int64_t row = r.cols * bytes;
    const Walkers walkers = walkersOf(r, row, threads);
    const int32_t walker = threadIndex() / 32;
    char *const buffer = (char *)r.buffer + walker * walkers.bytes;
    if (walkers.count > 0 && unit == 16) {
      const int64_t all = row * r.rows;
      const int64_t each = (all / walkers.count + 127) / 128 * 128;
      const int64_t first = walker * each;
      if (threadIndex() % 32 == 0 && walker < walkers.count && first < all)
        copyInBulk(destination, source, first, all - first < each ? all - first : each, row,
                   r.destination_row * bytes, r.source_row * bytes, buffer, walkers.slot_bytes);
      return;
    }
    if (walkers.count > 0 && threads % 32 == 0) {
      if (walker < walkers.count)
        copyShiftedInBulk((char *)destination, (const char *)source, row, r, bytes, buffer,
                          walkers.slot_bytes, (uint32_t)walker, (uint32_t)walkers.count);
      return;
    }
    if (unit < 16 && row >= kLeastShiftedBytes && threads >= 32)
      return copyShifted((char *)destination, (const char *)source, row, r, threads, bytes);
    // A power of two, of which all of these are multiples: no division, which takes longer than a
    // small copy.
    const int32_t shift = __builtin_ctz(unit);
    r.cols = r.cols * bytes >> shift;
    r.destination_row = r.destination_row * bytes >> shift;
    r.source_row = r.source_row * bytes >> shift;
  }
  const Steps steps = stepsOf(destination, source, unit, r, (uint32_t)threads);
  switch (unit) {
  case 1:
    return copy1(steps);
  case 2:
    return copy2(steps);
  case 4:
    return copy4(steps);
  case 8:
    return copy8(steps);
  case 16:
    return byFew ? copy16ByFew(steps) : copy16(steps);
  }
}
