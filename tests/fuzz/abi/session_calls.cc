// Sessions: cells, questions, what is shown and kept, input, comms.
#include <cstddef>
#include <string>

#include "tests/fuzz/abi/cell_arguments.h"

namespace sk::fuzz_abi {
namespace {

uint64_t* out_of(Caller& c, uint64_t& room) { return c.random.one_in(12) ? nullptr : &room; }
sk_session* session_of(Caller& c) { return c.handle<sk_session>(kSession); }

void session_open(Caller& c) {
  const Strings argv(c), env(c);
  sk_session_config config{};
  config.ranks = int32_t(c.random.around(0, 3));
  config.argv = argv.pointer;
  config.env = c.random.one_in(2) ? env.pointer : nullptr;
  config.cwd = c.random.text(c.rooms[0]);
  // No controller: what gets as far as that ends there.
  config.sk_path = "/nowhere/sk";
  config.start_timeout_ms = c.random.number();
  config.lease_ms = c.random.number();
  config.flags = c.random.one_in(8) ? uint32_t(c.random.bits()) : uint32_t(c.random.below(2));
  config.interrupt_ms = c.random.number();
  config.name = c.random.one_in(2) ? nullptr : c.random.text(c.rooms[1]);
  config.token = c.random.one_in(2) ? nullptr : c.random.text(c.rooms[2]);
  Given given(c.random, config);
  // A caller's struct that ends before the path would find the real program.
  if (given.get() == nullptr || given.value().struct_size < offsetof(sk_session_config, lease_ms)) {
    sk_session* never = nullptr;
    config.ranks = -1;
    Given refused(c.random, config);
    return c.check(sk_session_open(refused.get(), &never));
  }
  sk_session* made = nullptr;
  c.check(sk_session_open(given.get(), c.random.one_in(16) ? nullptr : &made));
  given.check("sk_session_open", false);
  if (made != nullptr) fail("a session without a controller");
}

void session_attach(Caller& c) {
  sk_session* made = nullptr;
  int32_t ranks = 0;
  const char* name = c.random.text(c.rooms[0]);
  const char* token = c.random.one_in(2) ? "0123456789abcdef" : c.random.text(c.rooms[1]);
  c.check(sk_session_attach(name, token, c.random.one_in(16) ? nullptr : &made,
                            c.random.one_in(2) ? nullptr : &ranks));
  if (made != nullptr) fail("a session that nobody opened");
}

// The one session stays, but for its end behind all calls; what else is refused.
void session_close(Caller& c) {
  void* handle = c.pool.any(c.random, kSession).value;
  if (c.pool.is_live(kSession, handle)) handle = nullptr;
  c.check(sk_session_close(static_cast<sk_session*>(handle)));
}

void session_leave(Caller& c) {
  void* handle = c.pool.any(c.random, kSession).value;
  if (c.pool.is_live(kSession, handle)) handle = nullptr;
  c.check(sk_session_leave(static_cast<sk_session*>(handle)));
}

void exec(Caller& c) {
  const Text code(c, 64);
  sk_exec_options options{};
  options.silent = int32_t(c.random.below(2));
  options.execution_count = c.random.around(0, 100);
  options.kind = int32_t(c.random.around(0, 6));
  options.allow_input = int32_t(c.random.below(2));
  const std::string json = c.random.json();
  options.expressions = c.random.one_in(2) ? nullptr : json.c_str();
  options.tag = c.random.one_in(8) ? c.random.text(c.rooms[1]) : nullptr;
  Given given(c.random, options);
  uint64_t cell = 0;
  const char* ranks = c.random.one_in(2) ? nullptr : c.random.text(c.rooms[0]);
  c.check(sk_exec(session_of(c), ranks, code.data, code.bytes,
                  c.random.one_in(2) ? nullptr : given.get(), out_of(c, cell)));
  given.check("sk_exec", false);
}

void session_ask(Caller& c) {
  const Text code(c, 64);
  uint64_t request = 0;
  c.check(sk_session_ask(session_of(c), int32_t(c.random.around(0, 7)), code.data, code.bytes,
                         uint64_t(c.random.around(0, 64)), int32_t(c.random.around(0, 1)),
                         out_of(c, request)));
}

void session_interrupt(Caller& c) { c.check(sk_session_interrupt(session_of(c))); }

void session_cancel(Caller& c) {
  c.check(sk_session_cancel(session_of(c), uint64_t(c.random.around(0, 20))));
}

void session_poll(Caller& c) {
  Given given(c.random, sk_event{});
  c.check(sk_session_poll(session_of(c), c.random.timeout_ms(), given.get()));
  given.check("sk_session_poll", true);
}

void session_fd(Caller& c) {
  int32_t fd = -1;
  c.check(sk_session_fd(session_of(c), c.random.one_in(8) ? nullptr : &fd));
}

void session_configure(Caller& c) {
  sk_session_settings settings{};
  settings.tag = int32_t(c.random.around(0, 4));
  settings.shown_lines = uint64_t(c.random.around(0, 1000));
  settings.shown_bytes = uint64_t(c.random.around(0, 100'000));
  settings.kept_bytes = uint64_t(c.random.around(0, 100'000));
  Given given(c.random, settings);
  c.check(sk_session_configure(session_of(c), given.get()));
  given.check("sk_session_configure", false);
}

void session_log(Caller& c) {
  sk_log_query query{};
  query.what = int32_t(c.random.around(0, 2));
  query.cell = uint64_t(c.random.around(0, 20));
  query.execution_count = c.random.around(0, 20);
  query.ranks = c.random.one_in(2) ? nullptr : c.random.text(c.rooms[0]);
  query.offset = uint64_t(c.random.around(0, 100));
  query.limit = uint64_t(c.random.around(0, 100));
  Given given(c.random, query);
  uint64_t request = 0;
  c.check(sk_session_log(session_of(c), given.get(), out_of(c, request)));
  given.check("sk_session_log", false);
}

void session_status(Caller& c) {
  uint64_t request = 0;
  c.check(sk_session_status(session_of(c), out_of(c, request)));
}
void session_revive(Caller& c) {
  uint64_t request = 0;
  c.check(sk_session_revive(session_of(c), c.random.text(c.rooms[0]), out_of(c, request)));
}
void session_stack(Caller& c) {
  uint64_t request = 0;
  c.check(sk_session_stack(session_of(c), c.random.text(c.rooms[0]), out_of(c, request)));
}
void session_keep(Caller& c) {
  const Text text(c);
  c.check(sk_session_keep(session_of(c), c.random.text(c.rooms[0]), text.data, text.bytes));
}
void session_ack(Caller& c) {
  c.check(sk_session_ack(session_of(c), uint64_t(c.random.around(0, 100))));
}
void session_answer(Caller& c) {
  const Text text(c);
  c.check(
      sk_session_answer(session_of(c), uint64_t(c.random.around(0, 100)), text.data, text.bytes));
}

void session_comm(Caller& c) {
  Message message(c);
  uint64_t cell = 0;
  c.check(sk_session_comm(session_of(c), message.given.get(), out_of(c, cell)));
  message.given.check("sk_session_comm", false);
}

}  // namespace

void open_session(Pool& pool, const char* sk_program, const char* rank) {
  const char* const argv[] = {rank, nullptr};
  sk_session_config config{};
  config.struct_size = sizeof config;
  config.ranks = 1;
  config.argv = argv;
  config.sk_path = sk_program;
  sk_session* session = nullptr;
  if (sk_session_open(&config, &session) != SK_OK) fail(sk_last_error());
  pool.add(kSession, {session});
}

const std::vector<Function>& session_functions() {
  static const std::vector<Function> all = {
      {"sk_session_open", 3, true, session_open},
      {"sk_session_attach", 5, true, session_attach},
      {"sk_session_close", 10, true, session_close},
      {"sk_exec", 20, true, exec},
      {"sk_session_ask", 20, true, session_ask},
      {"sk_session_interrupt", 2, true, session_interrupt},
      {"sk_session_cancel", 2, true, session_cancel},
      {"sk_session_poll", 60, true, session_poll},
      {"sk_session_fd", 10, true, session_fd},
      {"sk_session_configure", 20, true, session_configure},
      {"sk_session_log", 15, true, session_log},
      {"sk_session_status", 10, true, session_status},
      {"sk_session_revive", 5, true, session_revive},
      {"sk_session_stack", 5, true, session_stack},
      {"sk_session_keep", 10, true, session_keep},
      {"sk_session_ack", 10, true, session_ack},
      {"sk_session_leave", 5, true, session_leave},
      {"sk_session_answer", 10, true, session_answer},
      {"sk_session_comm", 10, true, session_comm},
  };
  return all;
}

}  // namespace sk::fuzz_abi
