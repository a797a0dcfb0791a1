// Workers: requests, output, errors, replies, input, comms.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "tests/fuzz/abi/cell_arguments.h"

namespace sk::fuzz_abi {
namespace {

sk_worker* worker_of(Caller& c) { return c.handle<sk_worker>(kWorker); }

void worker_template(Caller& c) {
  int32_t forked = -1;
  c.check(sk_worker_template(c.random.one_in(4) ? nullptr : &forked));
  if (forked == 1) fail("no template, and yet forked from one");
}

void worker_template_note(Caller& c) {
  const Text text(c);
  c.check(sk_worker_template_note(text.data, text.bytes));
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
void worker_fds(Caller& c) {
  int32_t requests = -1, interrupts = -1;
  c.check(sk_worker_fds(worker_of(c), c.random.one_in(8) ? nullptr : &requests,
                        c.random.one_in(8) ? nullptr : &interrupts));
}
void worker_interrupted(Caller& c) {
  uint64_t cell = 0;
  c.check(sk_worker_interrupted(worker_of(c), c.random.one_in(8) ? nullptr : &cell));
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

const std::vector<Function>& worker_functions() {
  static const std::vector<Function> all = {
      {"sk_worker_template", 5, true, worker_template},
      {"sk_worker_template_note", 5, true, worker_template_note},
      {"sk_worker_join", 10, true, worker_join},
      {"sk_worker_next", 20, true, worker_next},
      {"sk_worker_fds", 20, true, worker_fds},
      {"sk_worker_interrupted", 20, true, worker_interrupted},
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
