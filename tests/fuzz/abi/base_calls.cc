// Contexts, communicators, memory, traces, topologies.
#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/fuzz/abi/fuzz.h"

namespace sk::fuzz_abi {
namespace {

constexpr size_t kAliveMax = 6;  // Of one kind; then creations free one first.

void log_line(void*, int32_t level, const char* component, const char* message) {
  if (level < SK_LOG_DEBUG || level > SK_LOG_ERROR || *component == '\0' || *message == '\0')
    fail("a line of the log has no level, component or sentence");
}

void finalize(Caller& c) {
  auto* context = c.handle<sk_context>(kContext);
  const sk_status status = sk_finalize(context);
  if (status == SK_OK) c.pool.drop(kContext, context);
  c.check(status);
}

void init(Caller& c) {
  if (c.pool.count(kContext) >= kAliveMax) return finalize(c);
  sk_config config{};
  config.log_level = c.random.one_in(2) ? int32_t(c.random.number()) : SK_LOG_ERROR;
  config.log = c.random.one_in(4) ? nullptr : log_line;
  Given given(c.random, config);
  // Without a function of its own a context would print here what it is asked to.
  if (given.get() == nullptr || given.value().log == nullptr)
    return c.check(sk_init(nullptr, nullptr));
  sk_context* made = nullptr;
  sk_context** out = c.random.one_in(16) ? nullptr : &made;
  const sk_status status = sk_init(given.get(), out);
  c.check(status);
  given.check("sk_init", false);
  if (status == SK_OK) c.pool.add(kContext, {made});
}

void last_error(Caller& c) {
  if (sk_last_error() == nullptr) fail("sk_last_error() is null");
  c.check(SK_OK);
}

void names(Caller& c) {
  const char* name = sk_status_name(int32_t(c.random.number()));
  if (name == nullptr || std::strncmp(name, "SK_", 3) != 0) fail("a status without a name");
  c.check(SK_OK);
}

void version(Caller& c) {
  if (sk_version() < 0) fail("sk_version() is negative");
  c.check(SK_OK);
}

// Callbacks throw what no handler of exceptions derived from std::exception would catch.
// NOLINTBEGIN(bugprone-std-exception-baseclass)
int32_t gather(void* user, const void* in, size_t bytes, void* out) {
  const auto way = reinterpret_cast<uintptr_t>(user) % 8;
  if (way == 0) return -1;
  if (way == 7) throw way;
  if (way != 1) std::memcpy(out, in, bytes);  // Else: says it is done, and is not.
  return 0;
}

void look(void* user) {
  if (user != nullptr) throw user;
}
// NOLINTEND(bugprone-std-exception-baseclass)

sk_comm_config comm_config(Caller& c, uint32_t size) {
  static constexpr int64_t kTimeouts[] = {1, 3, 10, -1, INT64_MIN, INT64_MAX};
  sk_comm_config config{};
  config.bootstrap = int32_t(c.random.around(0, 3));
  config.timeout_ms = kTimeouts[c.random.below(c.random.one_in(4) ? 6 : 3)];
  // A world of several waits as long as it is told to: not where the caller's struct ends before.
  const bool bounded = size >= offsetof(sk_comm_config, timeout_ms) + sizeof(int64_t);
  constexpr int32_t kNever[] = {0, -1, INT32_MIN, INT32_MAX, 1 << 20};
  if (c.random.one_in(6))
    config.world_size = kNever[c.random.below(5)];
  else
    config.world_size = bounded && c.random.one_in(3) ? 2 + int32_t(c.random.below(2)) : 1;
  config.rank = c.random.one_in(4)
                    ? int32_t(c.random.number())
                    : int32_t(c.random.below(uint64_t(std::max(1, config.world_size))));
  config.name = c.random.one_in(2) ? nullptr : c.random.text(c.rooms[0]);
  config.allgather = c.random.one_in(4) ? nullptr : gather;
  config.bootstrap_user = std::bit_cast<void*>(c.random.bits());
  if (config.world_size > 3) config.bootstrap_user = nullptr;  // It has no room for all.
  config.flags = c.random.one_in(8) ? uint32_t(c.random.bits()) : uint32_t(c.random.below(2));
  config.workers =
      c.random.one_in(8) ? int32_t(c.random.number() | 0x200) : int32_t(c.random.below(3));
  config.symmetric_bytes_max = c.random.one_in(8) ? uint64_t(c.random.number()) : 1 << 20;
  config.cancel_fd = c.random.one_in(16) ? -1 - int32_t(c.random.below(9)) : 0;
  if (c.random.one_in(32)) config.device_type = int32_t(c.random.number());
  if (c.random.one_in(32)) config.device_id = int32_t(c.random.number());
  if (c.random.one_in(2)) config.waiting = look;
  if (c.random.one_in(32)) config.waiting_user = std::bit_cast<void*>(c.random.bits());
  return config;
}

void comm_create(Caller& c) {
  if (c.pool.count(kComm) >= kAliveMax) {
    auto* old = static_cast<sk_comm*>(c.pool.live(c.random, kComm).value);
    const sk_status status = sk_comm_free(old);
    if (status == SK_OK) c.pool.drop(kComm, old);
    return c.check(status);
  }
  const uint32_t size = struct_size(c.random, sizeof(sk_comm_config));
  Given given(c.random, comm_config(c, size), size);
  sk_comm* made = nullptr;
  sk_comm** out = c.random.one_in(16) ? nullptr : &made;
  const sk_status status = sk_comm_create(c.handle<sk_context>(kContext), given.get(), out);
  c.check(status);
  given.check("sk_comm_create", false);
  if (status == SK_OK) c.pool.add(kComm, {made});
}

void comm_free(Caller& c) {
  auto* comm = c.handle<sk_comm>(kComm);
  const sk_status status = sk_comm_free(comm);
  if (status == SK_OK) c.pool.drop(kComm, comm);
  c.check(status);
}

void comm_shrink(Caller& c) {
  if (c.pool.count(kComm) >= kAliveMax) return comm_free(c);
  sk_comm* made = nullptr;
  sk_comm** out = c.random.one_in(16) ? nullptr : &made;
  const sk_status status =
      sk_comm_shrink(c.handle<sk_comm>(kComm), c.random.around(0, int64_t{1} << 40), out);
  c.check(status);
  if (status == SK_OK) c.pool.add(kComm, {made});
}

void comm_abort(Caller& c) {
  c.check(sk_comm_abort(c.handle<sk_comm>(kComm), c.random.text(c.rooms[0])));
}

void comm_query(Caller& c) {
  Given given(c.random, sk_comm_info{});
  c.check(sk_comm_query(c.handle<sk_comm>(kComm), given.get()));
  given.check("sk_comm_query", true);
}

// In a world of its own, which no other thread frees, what it gets is written to the last byte.
void use_memory(Caller& c) {
  sk_context* context = nullptr;
  sk_comm* comm = nullptr;
  if (const sk_status status = sk_init(nullptr, &context); status != SK_OK) return c.check(status);
  const sk_status made = sk_comm_create(context, nullptr, &comm);
  if (made == SK_ERR_FORKED) {
    c.check(made);
    return c.check(sk_finalize(context));
  }
  if (made != SK_OK) fail(sk_last_error());
  void* memory = nullptr;
  const auto bytes = uint64_t(c.random.around(1, 100'000));
  const sk_status status = sk_alloc(comm, bytes, &memory);
  if (status == SK_OK && bytes <= 100'000) {
    std::memset(memory, 1, bytes);
    if (sk_allreduce(comm, memory, memory, int64_t(bytes / 4), SK_I32, SK_SUM, nullptr) != SK_OK ||
        sk_free(comm, memory) != SK_OK)
      fail(sk_last_error());
  }
  c.check(status);
  if (sk_comm_free(comm) != SK_OK || sk_finalize(context) != SK_OK) fail(sk_last_error());
}

void alloc(Caller& c) {
  if (c.random.one_in(16)) return use_memory(c);
  void* memory = nullptr;
  auto* comm = c.handle<sk_comm>(kComm);
  const auto bytes = uint64_t(c.random.around(0, 8192));
  const sk_status status = sk_alloc(comm, bytes, c.random.one_in(16) ? nullptr : &memory);
  c.check(status);
  if (status == SK_OK && c.random.one_in(2)) c.check(sk_free(comm, memory));
}

void free_memory(Caller& c) {
  auto* comm = c.handle<sk_comm>(kComm);
  c.check(sk_free(
      comm, c.random.one_in(2) ? c.operand(c.out, 64) : std::bit_cast<void*>(c.random.bits())));
}

void register_memory(Caller& c) {
  auto* comm = c.handle<sk_comm>(kComm);
  void* memory = c.operand(c.out, 4096);
  const uint64_t bytes = c.random.one_in(3) ? uint64_t(c.random.number()) : c.random.below(4097);
  const sk_status status = sk_register(comm, memory, bytes);
  c.check(status);
  if (status == SK_OK) c.check(sk_deregister(comm, memory));
}

void deregister_memory(Caller& c) {
  c.check(sk_deregister(c.handle<sk_comm>(kComm), c.operand(c.out, 64)));
}

void trace_start(Caller& c) {
  c.check(sk_trace_start(c.handle<sk_comm>(kComm), uint64_t(c.random.around(0, 1000))));
}

void trace_stop(Caller& c) { c.check(sk_trace_stop(c.handle<sk_comm>(kComm))); }

// The two-call pattern: as much room as is said, or none.
struct Text {
  explicit Text(Caller& c) {
    capacity = c.random.below(4096);
    buffer = static_cast<char*>(c.operand(c.out, capacity));
    // A pointer into the memory has what is behind it, no more.
    if (buffer != nullptr && c.random.one_in(8)) capacity = 0;
    size = c.random.one_in(16) ? nullptr : &bytes;
  }
  char* buffer;
  size_t capacity, bytes = 0;
  size_t* size;
};

void trace_dump(Caller& c) {
  const Text text(c);
  c.check(sk_trace_dump(c.handle<sk_comm>(kComm), text.buffer, text.capacity, text.size));
}

void add_topo(Caller& c, sk_status status, sk_topo* made) {
  c.check(status);
  if (status == SK_OK) c.pool.add(kTopo, {made});
}

void free_one_topo(Caller& c, sk_topo* topo) {
  const sk_status status = sk_topo_free(topo);
  if (status == SK_OK) c.pool.drop(kTopo, topo);
  c.check(status);
}

bool has_room_for_topo(Caller& c) {
  if (c.pool.count(kTopo) < kAliveMax) return true;
  free_one_topo(c, static_cast<sk_topo*>(c.pool.live(c.random, kTopo).value));
  return false;
}

void topo_discover(Caller& c) {
  if (!has_room_for_topo(c)) return;
  sk_topo* made = nullptr;
  const sk_status status = sk_topo_discover(c.random.one_in(4) ? nullptr : &made);
  add_topo(c, status, made);
}

void topo_parse(Caller& c) {
  if (!has_room_for_topo(c)) return;
  std::string text(4096, '\0');
  size_t size = 0;
  auto* from = static_cast<sk_topo*>(c.pool.live(c.random, kTopo).value);
  if (sk_topo_dump(from, text.data(), text.size(), &size) != SK_OK) size = c.random.below(4096);
  text.resize(std::min(size, text.size()));
  for (uint64_t n = c.random.below(4); n > 0 && !text.empty(); --n)
    text[c.random.below(text.size())] = char(c.random.bits());
  auto* bytes = static_cast<char*>(c.operand(c.in, text.size()));
  if (bytes != nullptr) std::copy(text.begin(), text.end(), bytes);  // Without an end: of a length.
  const size_t length = c.random.one_in(8) ? size_t(-1) - c.random.below(9) : text.size();
  sk_topo* made = nullptr;
  const sk_status status = sk_topo_parse(bytes, length, c.random.one_in(16) ? nullptr : &made);
  add_topo(c, status, made);
}

void topo_synthetic(Caller& c) {
  if (!has_room_for_topo(c)) return;
  sk_topo* made = nullptr;
  const char* spec = c.random.text(c.rooms[0]);
  const sk_status status = sk_topo_synthetic(spec, c.random.one_in(16) ? nullptr : &made);
  add_topo(c, status, made);
}

void topo_dump(Caller& c) {
  const Text text(c);
  c.check(sk_topo_dump(c.handle<sk_topo>(kTopo), text.buffer, text.capacity, text.size));
}

void topo_summary(Caller& c) {
  Given given(c.random, sk_topo_info{});
  c.check(sk_topo_summary(c.handle<sk_topo>(kTopo), given.get()));
  given.check("sk_topo_summary", true);
}

void topo_free(Caller& c) { free_one_topo(c, c.handle<sk_topo>(kTopo)); }

void host_facts(Caller& c) {
  const Text text(c);
  c.check(sk_host_facts(text.buffer, text.capacity, text.size));
}

}  // namespace

const std::vector<Function>& base_functions() {
  static const std::vector<Function> all = {
      {"sk_init", 10, true, init},
      {"sk_finalize", 10, true, finalize},
      {"sk_last_error", 5, true, last_error},
      {"sk_status_name", 5, true, names},
      {"sk_version", 5, true, version},
      {"sk_comm_create", 20, true, comm_create},
      {"sk_comm_free", 5, true, comm_free},
      {"sk_comm_shrink", 5, true, comm_shrink},
      {"sk_comm_abort", 3, true, comm_abort},
      {"sk_comm_query", 30, true, comm_query},
      {"sk_alloc", 20, true, alloc},
      {"sk_free", 20, true, free_memory},
      {"sk_register", 20, true, register_memory},
      {"sk_deregister", 20, true, deregister_memory},
      {"sk_trace_start", 10, true, trace_start},
      {"sk_trace_stop", 10, true, trace_stop},
      {"sk_trace_dump", 10, true, trace_dump},
      {"sk_topo_discover", 1, false, topo_discover},
      {"sk_topo_parse", 20, true, topo_parse},
      {"sk_topo_synthetic", 20, true, topo_synthetic},
      {"sk_topo_dump", 20, true, topo_dump},
      {"sk_topo_summary", 20, true, topo_summary},
      {"sk_topo_free", 10, true, topo_free},
      {"sk_host_facts", 1, false, host_facts},
  };
  return all;
}

}  // namespace sk::fuzz_abi
