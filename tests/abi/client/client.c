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

static int32_t doubled(void* const* data, const sk_tile_view* views, const sk_tile_value* values,
                       void* user) {
  const float* x = data[0];
  float* y = data[1];
  int64_t j;
  for (j = 0; j < views[0].cols; ++j) y[j] = (float)values[0].f * x[j];
  return user == NULL ? 1 : 0;
}

static void own_tile(sk_context* context, sk_comm* comm) {
  const sk_tile_region x = {sizeof x, SK_TILE_READ, "x", "f32", "m", NULL, NULL};
  const sk_tile_region y = {sizeof y, SK_TILE_WRITE, "y", "x", "m", NULL, NULL};
  const sk_tile_parameter by = {sizeof by, SK_TILE_FLOAT, "by", NULL, NULL, NULL};
  const sk_tile_region* regions[] = {&x, &y};
  const sk_tile_parameter* parameters[] = {&by};
  float in[3] = {1, 2, 3}, out[3] = {0, 0, 0};
  sk_tensor from = {sizeof from, SK_F32, in, 1, 0, 0, 0, {3}, {1}};
  sk_tensor to = {sizeof to, SK_F32, out, 1, 0, 0, 0, {3}, {1}};
  struct {
    uint32_t struct_size;
    int32_t operation;
    const sk_tensor* x;
    sk_tensor* y;
    double by;
  } args = {sizeof args, 0, &from, &to, 2.0};
  sk_tile_desc desc;
  int32_t op = 0;
  memset(&desc, 0, sizeof desc);
  desc.struct_size = sizeof desc;
  desc.version = 1;
  desc.name = "doubled";
  desc.effect = "y[i] = doubled(x[i])";
  desc.over = SK_TILE_OVER_ROWS;
  desc.regions = regions;
  desc.region_count = 2;
  desc.parameters = parameters;
  desc.parameter_count = 1;
  desc.function = doubled;
  expect(sk_tile_register(context, &desc, &op) == SK_OK, "a tile was not registered");
  expect(sk_tile_check(context, op, &args, NULL) == SK_OK, "a good tile was refused");
  expect(sk_call(comm, op, &args, NULL) == SK_OK, "a tile's call failed");
  expect(out[0] == 2 && out[1] == 4 && out[2] == 6, "a tile computed something else");
  expect(sk_tile_unregister(context, op) == SK_OK, "a tile stayed");
  desc.user = &op;
  expect(sk_tile_register(context, &desc, &op) == SK_OK, "its name was not free");
  expect(sk_call(comm, op, &args, NULL) == SK_ERR_TILE, "a tile that failed did not fail its call");
}

int main(void) {
  sk_context* context = NULL;
  sk_comm* comm = NULL;
  expect(sk_version() / 1000000 == SK_VERSION_MAJOR, "header and library differ in major version");
  expect(strcmp(sk_status_name(SK_ERR_TIMEOUT), "SK_ERR_TIMEOUT") == 0, "a code lost its name");
  expect(sk_init(NULL, &context) == SK_OK, "sk_init failed");
  expect(sk_comm_create(context, NULL, &comm) == SK_OK, "a world of one failed");
  if (comm != NULL) {
    use(comm);
    own_tile(context, comm);
  }
  expect(sk_comm_free(comm) == SK_OK, "sk_comm_free failed");
  expect(sk_finalize(context) == SK_OK, "sk_finalize failed");
  if (failures == 0) printf("client: all as it should be\n");
  return failures == 0 ? 0 : 1;
}
