// Tiles of the user's own: descriptions of which many are wrong somewhere, and calls of those that
// came about.

#include "tests/fuzz/abi/tensors.h"

namespace sk::fuzz_abi {
namespace {

constexpr int32_t kFirst = 1000;

// A tile's, or none's; far ones wrap around.
int32_t number_near(Caller& c) {
  return int32_t(uint32_t(kFirst) + uint32_t(c.random.around(0, 30)));
}

// Writes all that it may, and nothing else: canaries of the caller's memory are looked at.
int32_t fill(void* const* data, const sk_tile_view* views, const sk_tile_value*, void* user) {
  const auto bytes = int64_t(element_bytes(int32_t(views[1].dtype)));
  for (int64_t i = 0; i < views[1].rows; ++i) {
    std::memset(static_cast<char*>(data[1]) + i * views[1].stride * bytes, 7,
                size_t(views[1].cols * bytes));
  }
  return user == nullptr ? 1 : 0;
}

const char* one_of(Caller& c, std::initializer_list<const char*> good, std::string& room) {
  if (c.random.one_in(20)) return c.random.text(room);
  return good.begin()[c.random.below(good.size())];
}

sk_tile_region region(Caller& c, int32_t role, const char* name, const char* types,
                      std::string* rooms) {
  sk_tile_region is{};
  is.role = c.random.one_in(24) ? int32_t(c.random.number()) : role;
  is.name = c.random.one_in(24) ? c.random.text(rooms[0]) : name;
  is.types = one_of(c, {types, types, "any"}, rooms[1]);
  is.shape =
      one_of(c, {"m, n", "m, n", "m, n", "m", "n, m", "cdiv(m, 2), n", "m // n, n"}, rooms[2]);
  is.in_place = c.random.one_in(8) ? "x" : nullptr;
  is.doc = c.random.one_in(16) ? c.random.text(rooms[3]) : nullptr;
  return is;
}

void tile_register(Caller& c) {
  std::string rooms[12];
  Given<sk_tile_region> x(c.random, region(c, SK_TILE_READ, "x", "any", rooms));
  Given<sk_tile_region> y(c.random, region(c, SK_TILE_WRITE, "y", "x", rooms + 4));
  sk_tile_parameter number{};
  number.kind = int32_t(c.random.around(1, 2));
  number.name = "by";
  number.least = c.random.one_in(4) ? c.random.text(rooms[8]) : nullptr;
  Given<sk_tile_parameter> by(c.random, number);
  const sk_tile_region* regions[] = {x.get(), y.get()};
  const sk_tile_parameter* parameters[] = {by.get()};
  sk_tile_desc desc{};
  desc.version = uint32_t(c.random.around(1, 2));
  desc.name = one_of(c, {"fuzzed", "another", "third", "rmsnorm"}, rooms[9]);
  desc.summary = c.random.one_in(8) ? c.random.text(rooms[10]) : nullptr;
  desc.effect = one_of(c,
                       {"y[i, j] = f(x[i, j])", "y[i, j] = f(x[i, j])", "y[i, j] = f[j](x[i, j])",
                        "y[i] = sum(j uncut) x[i, j]", "y[i // 2, j] = sum(i uncut) f(x[i, j])",
                        "y[j, i] = f(x[i, j])", "y[i] = f(x[i])", "opaque", "y[i, j] = x[i, j]"},
                       rooms[11]);
  desc.over = int32_t(c.random.around(1, 3));
  desc.flags = uint32_t(c.random.around(0, 3));
  desc.regions = c.random.one_in(24) ? nullptr : regions;
  desc.parameters = c.random.one_in(24) ? nullptr : parameters;
  // What is said to be there is read.
  desc.region_count = c.random.one_in(24) ? 1000 : c.random.one_in(24) ? 1 : 2;
  desc.parameter_count = uint32_t(c.random.below(2));
  desc.tile_rows = c.random.one_in(4) ? c.random.number() : 0;
  desc.function = c.random.one_in(24) ? nullptr : fill;
  static int fails;
  desc.user = c.random.one_in(8) ? &fails : nullptr;
  Given<sk_tile_desc> given(c.random, desc);
  int32_t op = 0;
  c.check(sk_tile_register(c.handle<sk_context>(kContext), given.get(),
                           c.random.one_in(24) ? nullptr : &op));
  x.check("sk_tile_register", false);
  y.check("sk_tile_register", false);
  given.check("sk_tile_register", false);
}

void tile_unregister(Caller& c) {
  const int32_t op = number_near(c);
  c.check(sk_tile_unregister(c.handle<sk_context>(kContext), op));
}

void tile_describe(Caller& c) {
  constexpr const char* kNames[] = {nullptr, "fuzzed", "", "no such", "rms\xff\n\"norm"};
  std::string room(c.random.below(300), '#');
  size_t size = 0;
  c.check(sk_tile_describe(c.handle<sk_context>(kContext), kNames[c.random.below(5)], room.data(),
                           room.size(), c.random.one_in(8) ? nullptr : &size));
}

}  // namespace

// Whatever tile has that number: all have two arrays, and at most one number.
void call_tile(Caller& c) {
  sk_comm* self = nullptr;
  const sk_status status = sk_comm_self(c.handle<sk_context>(kContext), &self);
  c.check(status);
  if (self == nullptr) return;
  const int64_t rows = int64_t(c.random.below(24)), columns = int64_t(c.random.below(24));
  const int32_t dtype = int32_t(1 + c.random.below(6)), axes = c.random.one_in(3) ? 1 : 2;
  Given<sk_tensor> x = matrix(c, c.in, rows, columns, dtype, axes);
  Given<sk_tensor> y = matrix(c, c.out, c.random.one_in(3) ? columns : rows,
                              c.random.one_in(3) ? rows : columns, dtype, axes);
  struct {
    uint32_t struct_size;
    int32_t operation;
    const sk_tensor *x, *y;
    int64_t by;
    unsigned char rest[4096];
  } args = {};
  args.struct_size =
      c.random.one_in(8) ? struct_size(c.random, 32) : 24 + 8 * uint32_t(c.random.below(2));
  args.x = x.get();
  args.y = y.get();
  args.by = int64_t(c.random.below(3));
  c.check(sk_call(self, kFirst + int32_t(c.random.below(30)), &args, nullptr));
  x.check("sk_call", false);
  y.check("sk_call", false);
}

namespace {

// With arguments of no call: a child for each would take all the time.
void tile_check(Caller& c) {
  unsigned char args[4096] = {};
  const uint32_t size = struct_size(c.random, 24);
  std::memcpy(args, &size, sizeof size);
  c.check(sk_tile_check(c.handle<sk_context>(kContext), number_near(c),
                        c.random.one_in(4) ? nullptr : args, nullptr));
}

}  // namespace

const std::vector<Function>& tile_functions() {
  static const std::vector<Function> all = {
      {"sk_tile_check", 3, true, tile_check},
      {"sk_tile_register", 20, true, tile_register},
      {"sk_tile_unregister", 3, true, tile_unregister},
      {"sk_tile_describe", 5, true, tile_describe},
  };
  return all;
}

}  // namespace sk::fuzz_abi
