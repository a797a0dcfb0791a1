/* A stranger's program: the smallest useful call of each kind, in plain C. */
#include <sk.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int holds, const char* what) {
  if (!holds) {
    printf("client: %s; sk_last_error: %s\n", what, sk_last_error());
    ++failures;
  }
}

static void use(sk_comm* comm) {
  float in[5] = {1, 2, 3, 4, 5};
  float out[5] = {-1, -1, -1, -1, -1};
  expect(sk_allreduce(comm, in, out, 5, SK_F32, SK_SUM, NULL) == SK_OK, "all-reduce failed");
  expect(memcmp(in, out, sizeof in) == 0, "an all-reduce over one rank is a copy");
  expect(sk_barrier(comm, NULL) == SK_OK, "barrier failed");
  expect(sk_allreduce(comm, in, out, -5, SK_F32, SK_SUM, NULL) == SK_ERR_INVALID_ARGUMENT,
         "a negative count was taken");
  expect(strstr(sk_last_error(), "-5") != NULL, "the sentence does not name the value");
}

int main(void) {
  sk_context* context = NULL;
  sk_comm* comm = NULL;
  expect(sk_version() / 1000000 == SK_VERSION_MAJOR, "header and library differ in major version");
  expect(strcmp(sk_status_name(SK_ERR_TIMEOUT), "SK_ERR_TIMEOUT") == 0, "a code lost its name");
  expect(sk_init(NULL, &context) == SK_OK, "sk_init failed");
  expect(sk_comm_create(context, NULL, &comm) == SK_OK, "a world of one failed");
  if (comm != NULL) use(comm);
  expect(sk_comm_free(comm) == SK_OK, "sk_comm_free failed");
  expect(sk_finalize(context) == SK_OK, "sk_finalize failed");
  if (failures == 0) printf("client: all as it should be\n");
  return failures == 0 ? 0 : 1;
}
