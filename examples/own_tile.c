/* A tile of your own as an operation: rows divided by the root of their mean square, on all cores.
 *
 *   cc own_tile.c $(pkg-config --cflags --libs sk) -lm -o own_tile && ./own_tile
 */
#include <math.h>
#include <sk.h>
#include <stdio.h>
#include <stdlib.h>

/* One tile: some rows of x, all of w, the same rows of y. Several threads are in here at a time. */
static int32_t scaled_rows(void* const* data, const sk_tile_view* views,
                           const sk_tile_value* values, void* user) {
  const float* w = data[1];
  (void)user;
  for (int64_t i = 0; i < views[0].rows; ++i) {
    const float* x = (const float*)data[0] + i * views[0].stride;
    float* y = (float*)data[2] + i * views[2].stride;
    double squares = 0;
    for (int64_t j = 0; j < views[0].cols; ++j) squares += (double)x[j] * x[j];
    const double by = 1 / sqrt(squares / (double)views[0].cols + values[0].f);
    for (int64_t j = 0; j < views[0].cols; ++j) y[j] = (float)(x[j] * by * w[j]);
  }
  return 1; /* Done. */
}

/* The call's arguments: in the order of the description. */
typedef struct scaled_rows_args {
  uint32_t struct_size;
  int32_t operation;
  const sk_tensor *x, *w;
  sk_tensor* y;
  double eps;
} scaled_rows_args;

static void check(sk_status status) {
  if (status == SK_OK) return;
  fprintf(stderr, "%s: %s\n", sk_status_name(status), sk_last_error());
  exit(1);
}

int main(void) {
  enum { kRows = 1000, kColumns = 700 };
  sk_context* context = NULL;
  sk_comm* self = NULL;
  check(sk_init(NULL, &context));
  check(sk_comm_self(context, &self));

  const sk_tile_region x_region = {sizeof x_region, SK_TILE_READ, "x", "f32", "m, n", NULL, NULL};
  const sk_tile_region w_region = {sizeof w_region, SK_TILE_READ, "w", "x", "n", NULL, NULL};
  const sk_tile_region y_region = {sizeof y_region, SK_TILE_WRITE, "y", "x", "m, n", NULL, NULL};
  const sk_tile_region* regions[] = {&x_region, &w_region, &y_region};
  const sk_tile_parameter eps = {sizeof eps, SK_TILE_FLOAT, "eps", "0", NULL, NULL};
  const sk_tile_parameter* parameters[] = {&eps};
  sk_tile_desc desc = {0};
  desc.struct_size = sizeof desc;
  desc.version = 1;
  desc.name = "scaled_rows";
  desc.effect = "y[i, j] = scaled[j](x[i, j], w[j])"; /* [j]: a row needs all of its elements. */
  desc.over = SK_TILE_OVER_ROWS;
  desc.regions = regions;
  desc.region_count = 3;
  desc.parameters = parameters;
  desc.parameter_count = 1;
  desc.function = scaled_rows;
  int32_t op = 0;
  check(sk_tile_register(context, &desc, &op));

  float* x = malloc(sizeof(float) * kRows * kColumns);
  float* y = malloc(sizeof(float) * kRows * kColumns);
  float* w = malloc(sizeof(float) * kColumns);
  if (x == NULL || y == NULL || w == NULL) return 1;
  for (int64_t i = 0; i < (int64_t)kRows * kColumns; ++i) x[i] = (float)(i % 17) - 8;
  for (int64_t j = 0; j < kColumns; ++j) w[j] = 1;
  sk_tensor of_x = {sizeof of_x, SK_F32, x, 2, 0, 0, 0, {kRows, kColumns}, {kColumns, 1}};
  sk_tensor of_w = {sizeof of_w, SK_F32, w, 1, 0, 0, 0, {kColumns}, {1}};
  sk_tensor of_y = {sizeof of_y, SK_F32, y, 2, 0, 0, 0, {kRows, kColumns}, {kColumns, 1}};
  const scaled_rows_args args = {sizeof args, 0, &of_x, &of_w, &of_y, 1e-5};
  check(sk_tile_check(context, op, &args, NULL)); /* Does it keep to what was said? */
  check(sk_call(self, op, &args, NULL));

  double squares = 0;
  for (int64_t j = 0; j < kColumns; ++j) squares += (double)y[j] * y[j];
  printf("operation %d: the mean square of a row is %.4f\n", (int)op, squares / kColumns);
  free(x), free(y), free(w);
  check(sk_finalize(context));
  return fabs(squares / kColumns - 1) < 1e-3 ? 0 : 1;
}
