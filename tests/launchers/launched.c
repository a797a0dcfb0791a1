/* A rank of any launcher: an all-reduce, an all-gather and a ring, and one line with what came of
 * them. launched.py says the same of the same numbers. A second line says where it ran. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sk.h"

enum { COUNT = 70001, RANKS_MAX = 64 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, sk_last_error());
  return 1;
}

/* What the left neighbour had. Even ranks send first, for a send waits for its receiver. */
static sk_status pass_on(sk_comm* comm, int rank, int size, const int64_t* mine, int64_t* left) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  if (size == 1) {
    *left = *mine;
    return SK_OK;
  }
  for (int step = 0; step < 2; ++step) {
    const sk_status status = (rank % 2 == 0) == (step == 0)
                                 ? sk_send(comm, mine, 1, SK_I64, next, NULL)
                                 : sk_recv(comm, left, 1, SK_I64, before, NULL);
    if (status != SK_OK) return status;
  }
  return SK_OK;
}

int main(void) {
  static int64_t part[COUNT], sum[COUNT];
  int64_t all[RANKS_MAX], left = -1, total = 0;
  sk_context* context;
  sk_comm* comm;
  sk_comm_info info = {.struct_size = sizeof info};
  sk_comm_config config = {.struct_size = sizeof config};
  config.bootstrap = SK_BOOTSTRAP_ENV;
  config.timeout_ms = 60000;
  if (sk_init(NULL, &context) != SK_OK) return failed("init");
  if (sk_comm_create(context, &config, &comm) != SK_OK) return failed("create");
  if (sk_comm_query(comm, &info) != SK_OK) return failed("query");
  if (info.world_size > RANKS_MAX) return fprintf(stderr, "too many ranks\n"), 1;

  for (int64_t i = 0; i < COUNT; ++i) part[i] = (i + 1) * (info.rank + 1) % 1009;
  if (sk_allreduce(comm, part, sum, COUNT, SK_I64, SK_SUM, NULL)) return failed("allreduce");
  for (int64_t i = 0; i < COUNT; ++i) total += sum[i] * (i % 17 + 1);
  const int64_t mine = 100 + info.rank * info.rank;
  if (sk_allgather(comm, &mine, all, 1, SK_I64, NULL)) return failed("allgather");
  if (pass_on(comm, info.rank, info.world_size, &mine, &left)) return failed("ring");

  /* In one write, for launchers put the lines of ranks together as they come. */
  char text[2048], host[256] = "";
  gethostname(host, sizeof host - 1);
  int at = snprintf(text, sizeof text, "rank %d of %d: sum %lld, gathered", info.rank,
                    info.world_size, (long long)total);
  for (int r = 0; r < info.world_size; ++r)
    at += snprintf(text + at, sizeof text - (size_t)at, " %lld", (long long)all[r]);
  at += snprintf(text + at, sizeof text - (size_t)at,
                 ", from the left %lld\nplace of rank %d: %s, %d of %d there\n", (long long)left,
                 info.rank, host, info.local_rank, info.local_size);
  if (write(1, text, (size_t)at) != at) return 1;
  return sk_comm_free(comm) || sk_finalize(context);
}
