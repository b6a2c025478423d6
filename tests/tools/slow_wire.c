// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A wire between two network namespaces that is as long and as narrow as is asked for: a network
// device `cable` in each, and a queue each way. For kernels that have no netem.
//
//   slow_wire PID PID MICROSECONDS MEGABITS     namespaces of these processes; prints `ready`
//
// A packet leaves when the one before it has left, at that rate, and arrives so much later.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kMtu = 9000, kPackets = 256 };

struct packet {
  int64_t due;
  ssize_t size;
  char bytes[kMtu];
};

// What is on its way to one side, oldest first. One that is full takes no more until a packet has
// arrived, so that senders wait for it.
struct way {
  struct packet *ring;
  size_t first, count;
  int64_t free_at;
};

static void give_up(const char *what) {
  fprintf(stderr, "slow_wire: %s: %s\n", what, strerror(errno));
  exit(1);
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static long number(const char *text, long least) {
  char *end;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < least) {
    fprintf(stderr, "slow_wire: `%s` is no number of at least %ld\n", text, least);
    exit(2);
  }
  return value;
}

static int open_device(const char *pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/ns/net", number(pid, 1));
  const int namespace = open(path, O_RDONLY | O_CLOEXEC);
  if (namespace < 0 || setns(namespace, CLONE_NEWNET) != 0)
    give_up(path);
  close(namespace);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  struct ifreq request = {.ifr_name = "cable", .ifr_flags = IFF_TUN | IFF_NO_PI};
  if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0)
    give_up("/dev/net/tun");
  const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  request.ifr_mtu = kMtu;
  if (any < 0 || ioctl(any, SIOCSIFMTU, &request) != 0)
    give_up("mtu");
  close(any);
  return device;
}

int main(int count, char **arguments) {
  if (count != 5) {
    fputs("usage: slow_wire PID PID MICROSECONDS MEGABITS\n", stderr);
    return 2;
  }
  const int64_t delay = number(arguments[3], 0) * INT64_C(1000);
  const int64_t megabits = number(arguments[4], 1);
  int devices[2];
  struct way ways[2] = {0}; // ways[i]: to devices[1 - i]
  for (int i = 0; i < 2; ++i) {
    devices[i] = open_device(arguments[1 + i]);
    ways[i].ring = malloc(kPackets * sizeof(struct packet));
    if (!ways[i].ring)
      give_up("memory");
  }
  prctl(PR_SET_TIMERSLACK, 1);
  // Before the programs that it carries for, which may be more than there are processors.
  sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
  puts("ready");
  fflush(stdout);
  for (;;) {
    int64_t next = INT64_MAX;
    struct pollfd polled[2];
    for (int i = 0; i < 2; ++i) {
      struct way *way = &ways[i];
      for (; way->count != 0 && way->ring[way->first].due <= now(); --way->count) {
        const struct packet *packet = &way->ring[way->first];
        // What a receiver has no room for is lost, as on a wire.
        if (write(devices[1 - i], packet->bytes, (size_t)packet->size) < 0 && errno != EAGAIN &&
            errno != EIO && errno != EINVAL)
          give_up("write");
        way->first = (way->first + 1) % kPackets;
      }
      while (way->count < kPackets) {
        struct packet *packet = &way->ring[(way->first + way->count) % kPackets];
        packet->size = read(devices[i], packet->bytes, kMtu);
        if (packet->size <= 0)
          break;
        const int64_t begins = way->free_at > now() ? way->free_at : now();
        way->free_at = begins + packet->size * 8000 / megabits;
        packet->due = way->free_at + delay;
        ++way->count;
      }
      if (way->count != 0 && way->ring[way->first].due < next)
        next = way->ring[way->first].due;
      polled[i] = (struct pollfd){devices[i], way->count < kPackets ? POLLIN : 0, 0};
    }
    const int64_t left = next == INT64_MAX ? 1000000000 : next - now();
    const struct timespec timeout = {left > 0 ? left / 1000000000 : 0,
                                     left > 0 ? left % 1000000000 : 0};
    if (ppoll(polled, 2, &timeout, NULL) < 0 && errno != EINTR)
      give_up("poll");
  }
}
