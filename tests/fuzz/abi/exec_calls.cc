// Sessions and workers: cells, questions, output, input, comms.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>

#include "tests/fuzz/abi/fuzz.h"

namespace sk::fuzz_abi {
namespace {

// Bytes with their count: as many as there are, or more than anything has.
struct Text {
  explicit Text(Caller& c, size_t most = 4096) {
    bytes = c.random.below(most);
    data = static_cast<char*>(c.operand(c.in, bytes));
    if (data != nullptr) std::memset(data, c.random.one_in(2) ? 'x' : 0xff, bytes);
    if (data != nullptr && bytes > 8 && c.random.one_in(2)) std::memcpy(data, "print a\n", 8);
    if (c.random.one_in(8)) bytes = UINT64_MAX - c.random.below(3);
  }
  char* data;
  uint64_t bytes;
};

struct Mimes {
  explicit Mimes(Caller& c) : text(c, 256) {
    static constexpr const char* kTypes[] = {"text/plain", "image/png", "", "x", "a/b c", nullptr};
    for (sk_mime& mime : all) mime = {kTypes[c.random.below(6)], text.data, text.bytes};
    for (sk_mime& mime : all)
      if (c.random.one_in(2)) mime = {"text/plain", "abc", 3};
    count = c.random.one_in(8) ? uint64_t(c.random.bits()) | 1 << 20 : c.random.below(5);
    pointer = c.random.one_in(8) ? nullptr : all;
  }
  Text text;
  sk_mime all[4];
  uint64_t count;
  const sk_mime* pointer;
};

struct Strings {
  explicit Strings(Caller& c) {
    for (const char*& each : all) each = c.random.one_in(12) ? nullptr : "a line";
    all[std::size(all) - 1] = nullptr;
    count = c.random.one_in(8) ? uint64_t(c.random.bits()) | 1 << 20 : c.random.below(5);
    pointer = c.random.one_in(8) ? nullptr : all;
  }
  const char* all[5];
  uint64_t count;
  const char* const* pointer;
};

uint64_t* out_of(Caller& c, uint64_t& room) { return c.random.one_in(12) ? nullptr : &room; }
sk_session* session_of(Caller& c) { return c.handle<sk_session>(kSession); }
sk_worker* worker_of(Caller& c) { return c.handle<sk_worker>(kWorker); }

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

struct Message {
  explicit Message(Caller& c) : mimes(c), data(c, 64), given(c.random, make(c)) {}
  sk_comm_message make(Caller& c) {
    sk_comm_message message{};
    message.kind = int32_t(c.random.around(SK_COMM_OPEN, SK_COMM_CLOSE));
    message.comm = c.random.text(c.rooms[0]);
    message.target = c.random.text(c.rooms[1]);
    message.data = data.data;
    message.data_bytes = data.bytes;
    metadata = c.random.json();
    message.metadata = c.random.one_in(2) ? nullptr : metadata.c_str();
    message.buffers = mimes.pointer;
    message.buffer_count = mimes.count;
    return message;
  }
  Mimes mimes;
  Text data;
  std::string metadata;
  Given<sk_comm_message> given;
};

void session_comm(Caller& c) {
  Message message(c);
  uint64_t cell = 0;
  c.check(sk_session_comm(session_of(c), message.given.get(), out_of(c, cell)));
  message.given.check("sk_session_comm", false);
}

// ---- the worker half --------------------------------------------------------------------------

void worker_template(Caller& c) {
  int32_t forked = -1;
  c.check(sk_worker_template(c.random.one_in(4) ? nullptr : &forked));
  if (forked == 1) fail("no template, and yet forked from one");
}

void worker_join(Caller& c) {
  sk_worker_config config{};
  config.flags = c.random.one_in(4) ? uint32_t(c.random.bits()) : uint32_t(c.random.below(4));
  config.language = c.random.text(c.rooms[0]);
  config.stack_signal = int32_t(c.random.around(0, 64));
  config.language_stack_signal = int32_t(c.random.around(0, 64));
  config.language_stack_fd = int32_t(c.random.around(-1, 3));
  Given given(c.random, config);
  sk_worker* made = nullptr;
  c.check(sk_worker_join(given.get(), c.random.one_in(16) ? nullptr : &made));
  given.check("sk_worker_join", false);
  if (made != nullptr) fail("a second worker, or one without a controller");
}

void worker_next(Caller& c) {
  Given given(c.random, sk_request{});
  c.check(sk_worker_next(worker_of(c), c.random.timeout_ms(), given.get()));
  given.check("sk_worker_next", true);
}
void worker_stream(Caller& c) {
  const Text text(c);
  const auto stream = int32_t(c.random.around(1, 2));
  c.check(sk_worker_stream(worker_of(c), stream, text.data, text.bytes));
}
void worker_display(Caller& c) {
  const Mimes mimes(c);
  const std::string json = c.random.json();
  c.check(sk_worker_display(worker_of(c), int32_t(c.random.around(1, 6)), mimes.pointer,
                            mimes.count, c.random.text(c.rooms[0]),
                            c.random.one_in(2) ? nullptr : json.c_str()));
}
void worker_error(Caller& c) {
  const Strings lines(c);
  c.check(sk_worker_error(worker_of(c), c.random.text(c.rooms[0]), c.random.text(c.rooms[1]),
                          lines.pointer, lines.count, uint32_t(c.random.around(0, 3))));
}
void worker_code_ended(Caller& c) { c.check(sk_worker_code_ended(worker_of(c))); }
void worker_threads(Caller& c) {
  c.check(sk_worker_threads(worker_of(c), int32_t(c.random.around(-1, 3))));
}
void worker_output_cell(Caller& c) {
  c.check(sk_worker_output_cell(worker_of(c), uint64_t(c.random.around(0, 2))));
}
void worker_done(Caller& c) {
  c.check(sk_worker_done(worker_of(c), int32_t(c.random.around(0, 3))));
}
void worker_reply(Caller& c) {
  const Strings strings(c);
  const Mimes mimes(c);
  sk_reply reply{};
  reply.answer = int32_t(c.random.around(0, 3));
  reply.start = uint64_t(c.random.around(0, 4));
  reply.end = uint64_t(c.random.around(0, 9));
  reply.strings = strings.pointer;
  reply.string_count = strings.count;
  reply.mimes = mimes.pointer;
  reply.mime_count = mimes.count;
  Given given(c.random, reply);
  c.check(sk_worker_reply(worker_of(c), c.random.bits(), given.get()));
  given.check("sk_worker_reply", false);
}
void worker_cancelled(Caller& c) {
  const int32_t cancelled = sk_worker_cancelled(worker_of(c));
  if (cancelled != 0) fail("cancelled by nobody");
  c.check(SK_OK);
}
void worker_group(Caller& c) {
  Given given(c.random, sk_group{});
  c.check(sk_worker_group(worker_of(c), given.get()));
  given.check("sk_worker_group", true);
}
void worker_regroup(Caller& c) {
  c.check(sk_worker_regroup(worker_of(c), uint64_t(c.random.around(0, 1)), c.random.timeout_ms()));
}
void worker_input(Caller& c) {
  Given given(c.random, sk_input{});
  const char* prompt = c.random.text(c.rooms[0]);
  c.check(sk_worker_input(worker_of(c), prompt, int32_t(c.random.below(2)), c.random.timeout_ms(),
                          given.get()));
  given.check("sk_worker_input", true);
}
void worker_comm(Caller& c) {
  Message message(c);
  c.check(sk_worker_comm(worker_of(c), message.given.get()));
  message.given.check("sk_worker_comm", false);
}
void worker_cell_reply(Caller& c) {
  const Text json(c);
  c.check(sk_worker_cell_reply(worker_of(c), json.data, json.bytes));
}
void worker_snapshot(Caller& c) {
  sk_name names[4];
  for (sk_name& name : names) name = {c.random.one_in(8) ? nullptr : "root.name", "help"};
  const uint64_t count =
      c.random.one_in(8) ? uint64_t(c.random.bits()) | 1 << 20 : c.random.below(5);
  c.check(sk_worker_snapshot(worker_of(c), c.random.one_in(2) ? "root" : c.random.text(c.rooms[0]),
                             c.random.one_in(8) ? nullptr : names, count));
}
// The one worker stays, too.
void worker_leave(Caller& c) {
  void* handle = c.pool.any(c.random, kWorker).value;
  if (c.pool.is_live(kWorker, handle)) handle = nullptr;
  c.check(sk_worker_leave(static_cast<sk_worker*>(handle)));
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

void join_worker(Pool& pool) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("no pair of sockets");
  setenv("SK_WORKER_FD", std::to_string(ends[1]).c_str(), 1);
  setenv("RANK", "0", 1);
  sk_worker* worker = nullptr;
  if (sk_worker_join(nullptr, &worker) != SK_OK) fail(sk_last_error());
  unsetenv("RANK");
  pool.add(kWorker, {worker});
  // Its controller: takes all that it says, and says nothing.
  std::thread([end = ends[0]] {
    char bytes[65536];
    while (read(end, bytes, sizeof bytes) > 0) {
    }
    close(end);
  }).detach();
}

const std::vector<Function>& exec_functions() {
  static const std::vector<Function> all = {
      {"sk_session_open", 3, true, session_open},
      {"sk_session_attach", 5, true, session_attach},
      {"sk_session_close", 10, true, session_close},
      {"sk_exec", 20, true, exec},
      {"sk_session_ask", 20, true, session_ask},
      {"sk_session_interrupt", 2, true, session_interrupt},
      {"sk_session_poll", 60, true, session_poll},
      {"sk_session_fd", 10, true, session_fd},
      {"sk_session_configure", 20, true, session_configure},
      {"sk_session_log", 15, true, session_log},
      {"sk_session_status", 10, true, session_status},
      {"sk_session_revive", 5, true, session_revive},
      {"sk_session_stack", 5, true, session_stack},
      {"sk_session_keep", 10, true, session_keep},
      {"sk_session_ack", 10, true, session_ack},
      {"sk_session_answer", 10, true, session_answer},
      {"sk_session_comm", 10, true, session_comm},
      {"sk_worker_template", 5, true, worker_template},
      {"sk_worker_join", 10, true, worker_join},
      {"sk_worker_next", 20, true, worker_next},
      {"sk_worker_stream", 20, true, worker_stream},
      {"sk_worker_display", 20, true, worker_display},
      {"sk_worker_error", 20, true, worker_error},
      {"sk_worker_code_ended", 20, true, worker_code_ended},
      {"sk_worker_threads", 20, true, worker_threads},
      {"sk_worker_output_cell", 20, true, worker_output_cell},
      {"sk_worker_done", 10, true, worker_done},
      {"sk_worker_reply", 20, true, worker_reply},
      {"sk_worker_cancelled", 20, true, worker_cancelled},
      {"sk_worker_group", 20, true, worker_group},
      {"sk_worker_regroup", 20, true, worker_regroup},
      {"sk_worker_input", 20, true, worker_input},
      {"sk_worker_comm", 20, true, worker_comm},
      {"sk_worker_cell_reply", 20, true, worker_cell_reply},
      {"sk_worker_snapshot", 20, true, worker_snapshot},
      {"sk_worker_leave", 10, true, worker_leave},
  };
  return all;
}

}  // namespace sk::fuzz_abi
