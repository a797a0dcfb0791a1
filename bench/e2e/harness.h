/* What every collective benchmark shares, C11 and C++: one clock, one barrier, one way to write and
 * check inputs, one way to time. libsk's side and each MPI's side are compiled from this file, so
 * that a difference between them is a difference of the library under test.
 *
 * An `area` is memory that all ranks of one launch map: anonymous memory made before fork(), or a
 * file given by path where something else starts them. */
#ifndef SK_BENCH_E2E_HARNESS_H_
#define SK_BENCH_E2E_HARNESS_H_

/* Needs _GNU_SOURCE: a C file that includes it is compiled with -D_GNU_SOURCE. */
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/e2e/place.h"

#define BENCH_RANKS_MAX 16
#define BENCH_ITERS_MAX 400
#define BENCH_SLOT_BYTES 65536
#define BENCH_WAIT_SECONDS_MAX 120.0

typedef struct bench_area {
  bench_flag arrived[BENCH_RANKS_MAX];
  bench_flag gathered[BENCH_RANKS_MAX];
  bench_meeting meeting; /* Of the two ranks that read where their cores lie. */
  uint32_t slow;
  uint32_t iters; /* Chosen by rank 0, read by all after a barrier. */
  uint32_t failed;
  double start[BENCH_RANKS_MAX][BENCH_ITERS_MAX];
  double end[BENCH_RANKS_MAX][BENCH_ITERS_MAX];
  char slot[BENCH_RANKS_MAX][BENCH_SLOT_BYTES];
} bench_area;

typedef struct bench_world {
  bench_area* area;
  int rank;
  int ranks;
  int spins; /* Polls before the first sched_yield(). */
  uint32_t barriers;
  uint32_t gathers;
  int read_outputs; /* Callers read their result between two calls. */
  float sink;       /* Keeps those reads alive. */
  double budget;    /* Seconds of calls per candidate, size and launch. */
  int iters_min;
  int batches; /* Into which that budget is cut, candidates taking turns. */
  uint32_t meetings;
  bench_place before, after; /* Of the last batch; rank 0's. */
} bench_world;

/* The file of such a launch; NULL, and errno. */
static inline bench_area* bench_map_area(const char* path) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  void* p = mmap(NULL, sizeof(bench_area), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return p == MAP_FAILED ? NULL : (bench_area*)p;
}

static inline void bench_die(bench_world* w, const char* what) {
  __atomic_store_n(&w->area->failed, 1u, __ATOMIC_RELEASE);
  fprintf(stderr, "bench: rank %d: %s\n", w->rank, what);
  fflush(stderr);
  _exit(3);
}

/* Waits until *flag has reached `target`; ends the process when another rank failed or after
 * BENCH_WAIT_SECONDS_MAX. */
static inline void bench_wait(bench_world* w, const uint32_t* flag, uint32_t target) {
  double deadline = 0.0;
  for (long polls = 0;; ++polls) {
    if ((int32_t)(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - target) >= 0) return;
    if (polls < w->spins) {
      bench_pause();
      continue;
    }
    sched_yield();
    if ((polls & 1023) != 0) continue;
    if (__atomic_load_n(&w->area->failed, __ATOMIC_ACQUIRE)) _exit(4);
    if (deadline == 0.0) deadline = bench_now() + BENCH_WAIT_SECONDS_MAX;
    if (bench_now() > deadline) bench_die(w, "waited too long in the harness's barrier");
  }
}

static inline void bench_barrier(bench_world* w) {
  const uint32_t turn = ++w->barriers;
  __atomic_store_n(&w->area->arrived[w->rank].value, turn, __ATOMIC_RELEASE);
  for (int r = 0; r < w->ranks; ++r) {
    if (r != w->rank) bench_wait(w, &w->area->arrived[r].value, turn);
  }
}

/* rank r on core r % cores, for every side alike: after MPI_Init() and sk_comm_create(), for a
 * library may take a rank's mask at its start for all the cores there are. */
static inline void bench_pin(int rank) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(rank % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) perror("bench: sched_setaffinity");
}

static inline void bench_world_init(bench_world* w, bench_area* area, int rank, int ranks) {
  memset(w, 0, sizeof *w);
  w->area = area;
  w->rank = rank;
  w->ranks = ranks;
  w->spins = ranks > (int)sysconf(_SC_NPROCESSORS_ONLN) ? 200 : 20000;
  w->budget = 0.1;
  w->iters_min = 4;
  w->batches = 3;
}

/* Element i of rank `rank` in round `round`: an integer in [-512, 511], so that sums of 16 ranks
 * are exact in f32 in every order and a stale or foreign element shows. */
static inline float bench_value(uint32_t rank, uint32_t round, uint32_t i) {
  uint32_t x = i * 0x9E3779B1u + rank * 0x85EBCA6Bu + round * 0xC2B2AE35u;
  x ^= x >> 15;
  x *= 0x2C1B3C6Du;
  x ^= x >> 13;
  return (float)((int32_t)(x & 1023u) - 512);
}

/* The real producer: stores every element anew before each timed call. */
__attribute__((noinline, unused)) static void bench_fill(float* x, int64_t count, int rank,
                                                         int round) {
  for (int64_t i = 0; i < count; ++i)
    x[i] = bench_value((uint32_t)rank, (uint32_t)round, (uint32_t)i);
}

/* The real consumer: loads every element, so that the result's lines are where it is needed. */
__attribute__((noinline, unused)) static float bench_read(const float* x, int64_t count) {
  float sum = 0.0f;
  for (int64_t i = 0; i < count; i += 16) sum += x[i]; /* One load brings its line. */
  return sum;
}

static inline void bench_poison(float* x, int64_t count) {
  memset(x, 0xFF, (size_t)count * sizeof *x); /* NaN in every element. */
}

/* Every element against the sum over ranks; ends the process at the first wrong one. */
__attribute__((noinline, unused)) static void bench_check_sum(bench_world* w, const float* x,
                                                              int64_t count, int round,
                                                              const char* who) {
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0.0f;
    for (int r = 0; r < w->ranks; ++r) {
      sum += bench_value((uint32_t)r, (uint32_t)round, (uint32_t)i);
    }
    if (x[i] == sum) continue;
    char line[200];
    snprintf(line, sizeof line, "%s: wrong result at element %lld of %lld: %g instead of %g", who,
             (long long)i, (long long)count, (double)x[i], (double)sum);
    bench_die(w, line);
  }
}

/* One candidate at one size. `prepare` runs before each timed call and outside its time; `call`
 * returns 0 or ends the launch. */
typedef struct bench_case {
  const char* name;
  int64_t bytes; /* Operand size; a label. */
  void (*prepare)(void* user, int round);
  int (*call)(void* user);
  void* user;
  int iters; /* Filled by bench_calibrate(). */
} bench_case;

static inline void bench_run(bench_world* w, bench_case* c, int iters, int first_round) {
  for (int i = 0; i < iters; ++i) {
    if (c->prepare) c->prepare(c->user, first_round + i);
    bench_barrier(w);
    const double start = bench_now();
    const int failed = c->call(c->user);
    const double end = bench_now();
    if (failed) bench_die(w, c->name);
    w->area->start[w->rank][i] = start;
    w->area->end[w->rank][i] = end;
  }
  bench_barrier(w);
}

/* Where the two cores lie, into *place of rank 0. With more ranks than two whoever waits would
 * disturb it: the caller of the program reads it around the launch instead, and *place stays 0. */
static inline void bench_look(bench_world* w, bench_place* place) {
  if (w->ranks != 2 || sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
  bench_barrier(w);
  if (!bench_read_place(&w->area->meeting, w->rank, &w->meetings, &w->area->failed,
                        BENCH_WAIT_SECONDS_MAX, place)) {
    bench_die(w, "waited too long for the other rank's core");
  }
}

/* The timed calls of one batch, with a look at the cores before and after. */
static inline void bench_batch(bench_world* w, bench_case* c, int first_round) {
  bench_look(w, &w->before);
  bench_run(w, c, c->iters, first_round);
  bench_look(w, &w->after);
}

/* Rank 0's choice from its times of the last `trial_count` calls; all ranks read it after a
 * barrier, for a rank that looked at the times itself could see those of the next run already. */
static inline void bench_choose_iters(bench_world* w, int trial_count, double give_up) {
  double t[3];
  for (int i = 0; i < trial_count; ++i) t[i] = w->area->end[0][i] - w->area->start[0][i];
  qsort(t, (size_t)trial_count, sizeof t[0], bench_less);
  const double time = t[0] > 1e-7 ? t[0] : 1e-7; /* The least: others may have had the core. */
  const double fit = w->budget / w->batches / time;
  const double cap = (double)BENCH_ITERS_MAX / 2, least = (double)w->iters_min;
  const double chosen = fit < least ? least : fit > cap ? cap : fit;
  const uint32_t iters = time >= give_up ? 0u : (uint32_t)chosen;
  __atomic_store_n(&w->area->iters, iters, __ATOMIC_RELEASE);
  __atomic_store_n(&w->area->slow, time > 0.1 ? 1u : 0u, __ATOMIC_RELEASE);
}

/* An untimed call, then one or four that tell how many fit the budget. Collective: all ranks get
 * the same number. A case whose call takes `give_up` seconds or more gets 0: it is left out. */
static inline void bench_calibrate(bench_world* w, bench_case* c, double give_up) {
  bench_run(w, c, 1, 0);
  uint32_t slow = 0;
  for (int trial_count = 1; trial_count <= 3 && !slow; trial_count += 2) {
    bench_run(w, c, trial_count, 1);
    if (w->rank == 0) bench_choose_iters(w, trial_count, give_up);
    bench_barrier(w);
    c->iters = (int)__atomic_load_n(&w->area->iters, __ATOMIC_ACQUIRE);
    slow = __atomic_load_n(&w->area->slow, __ATOMIC_ACQUIRE); /* Known after one call. */
    bench_barrier(w); /* Nobody may choose anew before all have read. */
  }
}

/* Rank 0 writes one JSON line: where the cores lay before and after (bench_place), per call the
 * mean over ranks of the time inside the call (the figure that is compared: an asymmetric algorithm
 * must not win by letting rank 0 go first), and the span from the first rank's start to the last
 * rank's end. */
static inline void bench_report(bench_world* w, const bench_case* c, int iters) {
  if (w->rank == 0) {
    printf("{\"case\": \"%s\", \"bytes\": %lld, \"ranks\": %d, ", c->name, (long long)c->bytes,
           w->ranks);
    if (w->before.handoff_ns > 0.0) {
      printf("\"place\": [[%.1f, %.3f, %.3f], [%.1f, %.3f, %.3f]], ", w->before.handoff_ns,
             w->before.together, w->before.chain_us, w->after.handoff_ns, w->after.together,
             w->after.chain_us);
    }
    printf("\"us\": [");
    for (int i = 0; i < iters; ++i) {
      double sum = 0.0;
      for (int r = 0; r < w->ranks; ++r) sum += w->area->end[r][i] - w->area->start[r][i];
      printf("%s%.3f", i ? ", " : "", sum / w->ranks * 1e6);
    }
    printf("], \"span_us\": [");
    for (int i = 0; i < iters; ++i) {
      double first = w->area->start[0][i], last = w->area->end[0][i];
      for (int r = 1; r < w->ranks; ++r) {
        if (w->area->start[r][i] < first) first = w->area->start[r][i];
        if (w->area->end[r][i] > last) last = w->area->end[r][i];
      }
      printf("%s%.3f", i ? ", " : "", (last - first) * 1e6);
    }
    printf("]}\n");
    fflush(stdout);
  }
  bench_barrier(w); /* The next batch overwrites the times. */
}

/* Parses "512,4096"; returns how many. */
static inline int bench_parse_list(const char* text, int64_t* out, int capacity) {
  int n = 0;
  while (*text && n < capacity) {
    char* rest;
    out[n++] = strtoll(text, &rest, 10);
    if (rest == text || out[n - 1] <= 0) return -1;
    text = *rest == ',' ? rest + 1 : rest;
  }
  return n;
}

#endif /* SK_BENCH_E2E_HARNESS_H_ */
