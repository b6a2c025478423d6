// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands between a program and OpenSHMEM, by LD_PRELOAD: what is sent lands as late as the library
// allows, and in any order that fences and quiets allow. LATE_SHMEM_SEED chooses among the orders.
//
//   oshcc -shared -fPIC -o late_shmem.so late_shmem.c
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A put, or (no bytes) an addition of 1; after so many fences.
struct message {
  void *to;
  void *bytes;
  size_t size;
  int pe;
  long fences;
};

// Waits look seldom, so that more would take long.
enum { kMost = 6 };
static struct message messages[kMost];
static size_t count = 0;
static long fences = 0;
static unsigned seed = 0;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// The library comes here from its own functions, too.
static __thread int isInside = 0;

static void *next(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) {
    fprintf(stderr, "late_shmem: no `%s`\n", name);
    abort();
  }
  return found;
}

static int enter(void) {
  if (isInside)
    return 0;
  pthread_mutex_lock(&mutex);
  isInside = 1;
  if (seed == 0) {
    const char *given = getenv("LATE_SHMEM_SEED");
    seed = 1 + 1000 * (given ? (unsigned)atoi(given) : 0) + (unsigned)getpid() % 1000;
  }
  return 1;
}

static void leave(void) {
  isInside = 0;
  pthread_mutex_unlock(&mutex);
}

static void putNow(void *to, const void *from, size_t size, int pe) {
  void (*put)(void *, const void *, size_t, int);
  void *found = next("shmem_putmem");
  memcpy(&put, &found, sizeof put);
  put(to, from, size, pe);
}

static void incNow(unsigned long *to, int pe) {
  void (*inc)(unsigned long *, int);
  void *found = next("shmem_ulong_atomic_inc");
  memcpy(&inc, &found, sizeof inc);
  inc(to, pe);
}

static void call(const char *name) {
  void (*function)(void);
  void *found = next(name);
  memcpy(&function, &found, sizeof function);
  function();
}

static int mayLand(const struct message *m) {
  for (size_t i = 0; i < count; ++i)
    if (messages[i].pe == m->pe && messages[i].fences < m->fences)
      return 0;
  return 1;
}

// Lands any one that may.
static void landOne(void) {
  size_t chosen = (size_t)rand_r(&seed) % count;
  while (!mayLand(&messages[chosen]))
    chosen = (chosen + 1) % count;
  struct message m = messages[chosen];
  messages[chosen] = messages[--count];
  if (m.bytes) {
    putNow(m.to, m.bytes, m.size, m.pe);
    free(m.bytes);
  } else {
    incNow(m.to, m.pe);
  }
  call("shmem_quiet");
}

static void send(void *to, const void *bytes, size_t size, int pe) {
  while (count >= kMost)
    landOne();
  struct message m = {to, NULL, size, pe, fences};
  if (bytes) {
    m.bytes = malloc(size + 1);
    if (!m.bytes)
      abort();
    memcpy(m.bytes, bytes, size);
  }
  messages[count++] = m;
}

void shmem_putmem(void *to, const void *from, size_t size, int pe) {
  if (!enter())
    return putNow(to, from, size, pe);
  send(to, from, size, pe);
  leave();
}

void shmem_ulong_atomic_inc(unsigned long *to, int pe) {
  if (!enter())
    return incNow(to, pe);
  send(to, NULL, 0, pe);
  leave();
}

void shmem_fence(void) {
  if (!enter())
    return call("shmem_fence");
  ++fences;
  leave();
}

static void landAll(const char *name) {
  const int isOutside = enter();
  while (isOutside && count > 0)
    landOne();
  call(name);
  if (isOutside)
    leave();
}
void shmem_quiet(void) { landAll("shmem_quiet"); }
void shmem_barrier_all(void) { landAll("shmem_barrier_all"); }
void shmem_finalize(void) { landAll("shmem_finalize"); }

// What waits call.
void opal_progress(void);
void opal_progress(void) {
  static unsigned rounds = 0;
  if (!isInside && pthread_mutex_trylock(&mutex) == 0) {
    isInside = 1;
    for (unsigned i = ++rounds % 4; i > 1 && count > 0; --i)
      landOne();
    leave();
  }
  call("opal_progress");
}
