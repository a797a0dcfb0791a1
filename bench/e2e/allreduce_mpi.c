/* MPI_Allreduce beside libsk's all-reduce: f32 sum, inputs rewritten before every call, ranks
 * pinned and released by the harness's own barrier.
 *
 * usage: mpirun -n R allreduce_mpi AREA_FILE SIZES BUDGET_MS BATCHES GIVE_UP_MS READ(0|1) */
#include <mpi.h>

#include "bench/e2e/harness.h"

typedef struct {
  bench_world* world;
  float* in;
  float* out;
  int64_t count;
  int rank;
  int round; /* Of the last prepare(): what the result is checked against. */
} state;

static void prepare(void* user, int round) {
  state* s = (state*)user;
  s->round = round;
  if (s->world->read_outputs) s->world->sink = bench_read(s->out, s->count);
  bench_fill(s->in, s->count, s->rank, round);
}

static int call(void* user) {
  state* s = (state*)user;
  return MPI_Allreduce(s->in, s->out, (int)s->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) !=
         MPI_SUCCESS;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int64_t sizes[16];
  const int size_count = argc == 7 ? bench_parse_list(argv[2], sizes, 16) : -1;
  if (size_count <= 0) {
    fprintf(stderr,
            "usage: allreduce_mpi AREA_FILE SIZES BUDGET_MS BATCHES GIVE_UP_MS READ(0|1)\n");
    return 2;
  }
  bench_area* area = bench_map_area(argv[1]);
  if (!area) {
    perror("bench: the area file");
    return 2;
  }
  bench_world w;
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  bench_world_init(&w, area, rank, ranks);
  bench_pin(rank);
  w.budget = atof(argv[3]) * 1e-3;
  w.batches = atoi(argv[4]);
  w.read_outputs = atoi(argv[6]);
  if (rank == 0) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    for (char* p = version; *p; ++p) {
      if (*p == '"' || *p == '\\' || *p == '\n' || *p == '\t') *p = ' ';
    }
    printf("{\"version\": \"%.80s\"}\n", version);
  }
  state s = {&w, NULL, NULL, 0, rank, 0};
  if (posix_memalign((void**)&s.in, 4096, 16 << 20) ||
      posix_memalign((void**)&s.out, 4096, 16 << 20)) {
    bench_die(&w, "out of memory");
  }
  int gave_up = 0; /* A larger size takes longer still. */
  for (int q = 0; q < size_count && !gave_up; ++q) {
    s.count = sizes[q] / (int64_t)sizeof(float);
    bench_case c = {"mpi", sizes[q], prepare, call, &s, 0};
    bench_calibrate(&w, &c, atof(argv[5]) * 1e-3);
    gave_up = c.iters == 0;
    for (int b = 0; b < w.batches && c.iters; ++b) {
      bench_poison(s.out, s.count);
      bench_batch(&w, &c, 5 + b * c.iters);
      bench_check_sum(&w, s.out, s.count, s.round, "MPI_Allreduce");
      bench_report(&w, &c, c.iters);
    }
    if (gave_up && rank == 0) {
      printf("{\"case\": \"mpi\", \"bytes\": %lld, \"gave_up\": true}\n", (long long)sizes[q]);
    }
  }
  MPI_Finalize();
  return 0;
}
