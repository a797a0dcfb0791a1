// Preloaded: the wall clock jumps by up to a day, back or forth, from one reading to the next, as
// if somebody set it all the time, and CLOCK_BOOTTIME runs ahead by up to an hour at each reading,
// as if the machine had been suspended. CLOCK_MONOTONIC, by which alone time may be told, is as it
// is.
//
// JUMPING_CLOCKS_SEED begins the jumps. What the program hands to the kernel is in its jumped time:
// a wait until a moment of the wall clock ends at once, or a day late.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { kDayS = 86400, kHourS = 3600 };

static uint64_t draws;
static int64_t suspended_s;

// Splitmix64, of a number for each reading: threads and signal handlers may read.
static uint64_t draw(void) {
  static uint64_t seed;
  if (seed == 0) {
    const char* text = getenv("JUMPING_CLOCKS_SEED");
    seed = text == NULL ? 1 : strtoull(text, NULL, 10) + 1;
  }
  uint64_t x = seed + 0x9e3779b97f4a7c15 * (__atomic_add_fetch(&draws, 1, __ATOMIC_RELAXED) + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

static int64_t jump_s(void) { return (int64_t)(draw() % (2 * kDayS + 1)) - kDayS; }

int clock_gettime(clockid_t clock, struct timespec* at) {
  const int failed = (int)syscall(SYS_clock_gettime, clock, at);
  if (failed != 0) return failed;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) at->tv_sec += jump_s();
  if (clock == CLOCK_BOOTTIME) {
    const int64_t ahead = (int64_t)(draw() % kHourS);
    at->tv_sec += __atomic_add_fetch(&suspended_s, ahead, __ATOMIC_RELAXED);
  }
  return 0;
}

int gettimeofday(struct timeval* restrict at, void* restrict zone) {
  (void)zone;
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* at) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  if (at != NULL) *at = now.tv_sec;
  return now.tv_sec;
}
