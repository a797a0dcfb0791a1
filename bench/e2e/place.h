/* Where two cores lie to each other right now, C11 and C++: read around every batch of calls, since
 * a host may move its virtual cores from one physical core to two and back within a second.
 *
 * Two parties, each pinned to its core, call bench_read_place() at about the same time. */
#ifndef SK_BENCH_E2E_PLACE_H_
#define SK_BENCH_E2E_PLACE_H_

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t); /* One axis for all processes of a host. */
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void bench_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

typedef struct bench_flag {
  uint32_t value;
  char pad[124]; /* Two lines: adjacent-line prefetch must not couple two ranks' flags. */
} bench_flag;

/* Memory of both parties, zero at first. */
typedef struct bench_meeting {
  bench_flag word[2]; /* Party p writes word[p] alone. */
  bench_flag ball;    /* Both write it in turns: the line that travels. */
} bench_meeting;

typedef struct bench_place {
  double handoff_ns; /* A line's way to the other core and back: the best of short windows. */
  double together;   /* The other core's share: a core's pace while both compute over its pace
                        alone. 1: two cores; about 0.5: two hyper-threads of one. */
  double chain_us;   /* What was computed, alone; follows the clock. */
} bench_place;

/* Waits for `turn`; 0 after `seconds_max`, or when *failed is set. Pauses while the other side
 * computes, for a bare loop would take part of a shared core; not while a line travels. */
static inline int bench_await_turn(const bench_flag* word, uint32_t turn, int pauses,
                                   const uint32_t* failed, double seconds_max) {
  double deadline = 0.0;
  for (uint32_t polls = 1;; ++polls) {
    if (__atomic_load_n(&word->value, __ATOMIC_ACQUIRE) == turn) return 1;
    if (pauses) bench_pause();
    if (polls % 16384 != 0) continue;
    if (__atomic_load_n(failed, __ATOMIC_ACQUIRE)) return 0;
    if (deadline == 0.0) deadline = bench_now() + seconds_max;
    if (bench_now() > deadline) return 0;
    sched_yield(); /* Others may want this core: the partner among them. */
  }
}

#if !defined(__x86_64__)
static inline float bench_opaque(float x) {
  __asm__ volatile("" : "+m"(x));
  return x;
}
#endif

/* Seconds of twelve independent chains of multiplications: they fill the ports of a core, so that a
 * hyper-thread beside it halves their pace. One by one, for vectors would leave ports idle. */
static inline double bench_chains(void) {
  float x[12];
  const float a = 0.999f;
  for (int i = 0; i < 12; ++i) x[i] = 1.0f + (float)i;
  const double start = bench_now();
  for (int step = 0; step < 1500; ++step) {
#if defined(__x86_64__)
#define SK_BENCH_STEP(i) __asm__ volatile("mulss %1, %0" : "+x"(x[i]) : "x"(a))
#else
#define SK_BENCH_STEP(i) x[i] = bench_opaque(x[i] * a)
#endif
    SK_BENCH_STEP(0);
    SK_BENCH_STEP(1);
    SK_BENCH_STEP(2);
    SK_BENCH_STEP(3);
    SK_BENCH_STEP(4);
    SK_BENCH_STEP(5);
    SK_BENCH_STEP(6);
    SK_BENCH_STEP(7);
    SK_BENCH_STEP(8);
    SK_BENCH_STEP(9);
    SK_BENCH_STEP(10);
    SK_BENCH_STEP(11);
#undef SK_BENCH_STEP
  }
  return bench_now() - start;
}

static int bench_less(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

#define BENCH_CHAIN_WINDOWS 7
#define BENCH_TRIP_WINDOWS 8
#define BENCH_TRIPS 100

/* About 0.3 ms. `party` is 0 or 1, `*turns` the party's own count, 0 at first. 1 when party 0 has
 * written *place; party 1 gets no figures. 0: the other side did not come in `seconds_max`. */
static inline int bench_read_place(bench_meeting* meeting, int party, uint32_t* turns,
                                   const uint32_t* failed, double seconds_max, bench_place* place) {
  bench_flag *mine = &meeting->word[party], *other = &meeting->word[1 - party];
  double alone[BENCH_CHAIN_WINDOWS], both[BENCH_CHAIN_WINDOWS], best = 1e9;
  for (int window = 0; window < BENCH_CHAIN_WINDOWS; ++window) {
    const uint32_t turn = ++*turns;
    if (party == 0) {
      alone[window] = bench_chains();
      __atomic_store_n(&mine->value, turn, __ATOMIC_RELEASE);
      both[window] = bench_chains();
      if (!bench_await_turn(other, turn, 1, failed, seconds_max)) return 0;
    } else {
      if (!bench_await_turn(other, turn, 1, failed, seconds_max)) return 0;
      bench_chains(); /* Twice: it begins later and must not end first. */
      bench_chains();
      __atomic_store_n(&mine->value, turn, __ATOMIC_RELEASE);
    }
  }
  for (int window = 0; window < BENCH_TRIP_WINDOWS; ++window) {
    const double start = bench_now();
    for (int trip = 0; trip < BENCH_TRIPS; ++trip) {
      const uint32_t there = 2 * ++*turns, back = there + 1;
      if (party == 0) __atomic_store_n(&meeting->ball.value, there, __ATOMIC_RELEASE);
      const uint32_t awaited = party == 0 ? back : there;
      if (!bench_await_turn(&meeting->ball, awaited, 0, failed, seconds_max)) return 0;
      if (party == 1) __atomic_store_n(&meeting->ball.value, back, __ATOMIC_RELEASE);
    }
    const double time = (bench_now() - start) / BENCH_TRIPS;
    if (time < best) best = time;
  }
  if (party == 1) return 1;
  qsort(alone, BENCH_CHAIN_WINDOWS, sizeof alone[0], bench_less);
  qsort(both, BENCH_CHAIN_WINDOWS, sizeof both[0], bench_less);
  place->handoff_ns = best * 1e9;
  place->chain_us = alone[BENCH_CHAIN_WINDOWS / 2] * 1e6;
  place->together = alone[BENCH_CHAIN_WINDOWS / 2] / both[BENCH_CHAIN_WINDOWS / 2];
  return 1;
}

#endif /* SK_BENCH_E2E_PLACE_H_ */
