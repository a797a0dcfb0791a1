// sk-stub-rank: a rank program of a few hundred kilobytes that does what its cells say.
//
// A cell is a script, one command a line, so that tests of the control plane need no language:
//   print TEXT          a line on stdout, with {rank} replaced
//   write TEXT          the same without a newline; \r, \b, \n and \e are understood
//   eprint TEXT         a line on stderr
//   c TEXT              a line by C's printf       fd TEXT   a line by write(2) to descriptor 1
//   sh COMMAND          by system(3)
//   result TEXT         execute_result, text/plain
//   page TEXT           text for the pager
//   display TYPE TEXT   display_data               update ID TEXT   update of display ID
//   show ID TEXT        display_data with an id    clear     clearwait
//   meta JSON TEXT      display_data with metadata (no spaces in JSON)
//   error NAME TEXT     ends the cell with that exception
//   sleep MS            until interrupted          hang MS   with SIGINT blocked
//   spin MS             busy, looks at sk_worker_cancelled()
//   park MS             in its event loop (SK_STUB_LOOP=1), until interrupted there
//   input PROMPT        asks and prints "got TEXT"; password PROMPT   the same, hidden
//   asklate PROMPT      asks, and looks for the answer once the cell was interrupted
//   comm OPEN|MSG|CLOSE ID DATA   (OPEN: of the target "stub")
//   thread MS TEXT      a line by a thread of this cell, that much later
//   name ROOT HELP      what is known of ROOT while the rank is busy
//   reply JSON          what the cell's answer carries
//   exit CODE           die SIGNAL                 flood LINES TEXT
//   lie                 raw bytes into the link    on RANKS COMMAND   only on those ranks (0,2)
//   # TEXT              nothing
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "sk/talk.h"
#include "sk/worker.h"

namespace {

volatile sig_atomic_t interrupted = 0;
void on_sigint(int) { interrupted = 1; }

std::string rank_text;
int link_fd = -1;
sk_worker* worker = nullptr;
uint64_t open_cell = 0;

struct Failure {
  std::string name;
  std::string text;
  uint32_t flags = 0;
};

[[noreturn]] void quit(const char* what) {
  std::fprintf(stderr, "sk-stub-rank: %s: %s\n", what, sk_last_error());
  std::_Exit(3);
}

std::string expand(std::string text) {
  for (size_t at; (at = text.find("{rank}")) != std::string::npos;) text.replace(at, 6, rank_text);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == 'r' || next == 'b' || next == 'n' || next == 'e') {
      out += next == 'r' ? '\r' : next == 'b' ? '\b' : next == 'n' ? '\n' : '\x1b';
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

void put(int32_t stream, const std::string& text) {
  const sk_status status = sk_worker_stream(worker, stream, text.data(), text.size());
  if (status != SK_OK && status != SK_ERR_ABORTED) quit("stream");
}

void put_display(int32_t kind, const std::string& type, const std::string& text,
                 const std::string& id, const std::string& metadata = "") {
  const sk_mime mime = {type.c_str(), text.data(), text.size()};
  const bool clears = kind == SK_DISPLAY_CLEAR || kind == SK_DISPLAY_CLEAR_WAIT;
  if (sk_worker_display(worker, kind, &mime, clears ? 0 : 1, id.c_str(), metadata.c_str()) != SK_OK)
    quit("display");
}

// False when it was interrupted.
bool wait_ms(long ms, bool look_at_flag) {
  using clock = std::chrono::steady_clock;
  const auto until = clock::now() + std::chrono::milliseconds(ms);
  while (clock::now() < until) {
    if (look_at_flag ? sk_worker_cancelled(worker) != 0 : interrupted != 0) return false;
    if (!look_at_flag) usleep(1000);
  }
  return true;
}

// SK_STUB_LOOP=1: this program has an event loop, which these two wake.
int32_t requests_fd = -1;
int32_t interrupts_fd = -1;

// A turn of it, which nothing but one of the two, or the time, ends.
bool turn(int fd, long ms) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, static_cast<int>(ms)) > 0;
}

// False when it was interrupted.
bool park(long ms) {
  while (turn(interrupts_fd, ms)) {
    uint64_t cell = 0;
    if (sk_worker_interrupted(worker, &cell) != SK_OK) quit("interrupted");
    if (cell != open_cell) continue;  // It was an earlier cell's.
    uint64_t again = 0;
    if (sk_worker_interrupted(worker, &again) != SK_OK || again != 0) quit("interrupted, again");
    return false;
  }
  return true;
}

void hang(long ms) {
  sigset_t block, old;
  sigemptyset(&block);
  sigaddset(&block, SIGINT);
  pthread_sigmask(SIG_BLOCK, &block, &old);
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  interrupted = 0;
  signal(SIGINT, SIG_IGN);  // Drops what is pending.
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  signal(SIGINT, on_sigint);
}

void ask_for_input(const std::string& prompt, int32_t password, Failure* failure) {
  sk_input input = {};
  input.struct_size = sizeof input;
  while (input.state == SK_INPUT_NONE) {
    const sk_status status = sk_worker_input(worker, prompt.c_str(), password, 60'000, &input);
    if (status == SK_ERR_ABORTED || interrupted != 0) {
      *failure = {"KeyboardInterrupt", "", SK_ERROR_INTERRUPT};
      return;
    }
    if (status != SK_OK) quit("input");
  }
  const std::string text(input.text, input.bytes);
  if (input.state == SK_INPUT_TEXT) put(SK_STREAM_STDOUT, "got " + text + "\n");
  if (input.state == SK_INPUT_EOF) *failure = {"EOFError", "end of input", 0};
  if (input.state == SK_INPUT_REFUSED) *failure = {"EOFError", text, 0};
}

// Asks, and looks for the answer once the cell was interrupted.
void ask_and_look_late(const std::string& prompt, Failure* failure) {
  sk_input input = {};
  input.struct_size = sizeof input;
  const sk_status asked = sk_worker_input(worker, prompt.c_str(), 0, 0, &input);
  // Answer and interrupt may both have come before this thread goes on behind its question: then it
  // has been told, once.
  if (asked == SK_ERR_ABORTED) {
    *failure = {"KeyboardInterrupt", "", SK_ERROR_INTERRUPT};
    return;
  }
  if (asked != SK_OK) quit("input");
  if (wait_ms(60'000, true)) return;
  ask_for_input(prompt, 0, failure);
}

void send_comm(int32_t kind, const std::string& id, const std::string& data, const sk_mime* buffers,
               uint64_t count) {
  sk_comm_message message = {};
  message.struct_size = sizeof message;
  message.kind = kind;
  message.comm = id.c_str();
  message.target = "stub";
  message.data = data.c_str();
  message.data_bytes = data.size();
  message.buffers = buffers;
  message.buffer_count = count;
  if (sk_worker_comm(worker, &message) != SK_OK) quit("comm");
}

// A comm's message to us: told on stdout and sent back. Only the target "stub" is known.
void handle_comm(const sk_request& request) {
  interrupted = 0;
  const std::string data(request.code, request.code_bytes), id(request.comm);
  if (request.comm_kind == SK_COMM_OPEN && std::strcmp(request.target, "stub") != 0)
    send_comm(SK_COMM_CLOSE, id, R"({"error":"no such target"})", nullptr, 0);
  else
    put(SK_STREAM_STDOUT, "comm " + id + " got " + data + "\n");
  if (request.comm_kind == SK_COMM_MSG && data.find("sleep") != std::string::npos)
    wait_ms(60'000, false);
  if (request.comm_kind == SK_COMM_MSG && data.find("die") != std::string::npos) raise(SIGKILL);
  if (request.comm_kind == SK_COMM_MSG)
    send_comm(SK_COMM_MSG, id, data, request.buffers, request.buffer_count);
  if (sk_worker_done(worker, SK_CELL_OK) != SK_OK) quit("done");
}

std::string rest(std::istringstream& in) {
  std::string text;
  std::getline(in >> std::ws, text);
  return expand(text);
}

void write_all(int fd, const std::string& bytes) {
  if (write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) quit("write");
}

void run_shell(const std::string& command) {
  if (std::system(command.c_str()) == -1) quit("system");
}

// It is there when the next cell is, and this one over.
void print_later(long ms, const std::string& text) {
  std::thread([ms, text, cell = open_cell] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    if (sk_worker_output_cell(worker, cell) != SK_OK) quit("output_cell");
    put(SK_STREAM_STDOUT, text + "\n");
  }).detach();
}

bool run_line(const std::string& line, Failure* failure);

bool run_word(const std::string& word, std::istringstream& in, Failure* failure) {
  std::string a;
  if (word == "print")
    put(SK_STREAM_STDOUT, rest(in) + "\n");
  else if (word == "write")
    put(SK_STREAM_STDOUT, rest(in));
  else if (word == "eprint")
    put(SK_STREAM_STDERR, rest(in) + "\n");
  else if (word == "c")
    std::printf("%s\n", rest(in).c_str());
  else if (word == "fd")
    write_all(1, rest(in) + "\n");
  else if (word == "sh")
    run_shell(rest(in));
  else if (word == "result")
    put_display(SK_DISPLAY_RESULT, "text/plain", rest(in), "");
  else if (word == "page")
    put_display(SK_DISPLAY_PAGE, "text/plain", rest(in), "");
  else if (word == "display")
    in >> a, put_display(SK_DISPLAY_DATA, a, rest(in), "");
  else if (word == "show")
    in >> a, put_display(SK_DISPLAY_DATA, "text/plain", rest(in), a);
  else if (word == "update")
    in >> a, put_display(SK_DISPLAY_UPDATE, "text/plain", rest(in), a);
  else if (word == "meta")
    in >> a, put_display(SK_DISPLAY_DATA, "text/plain", rest(in), "", a);
  else if (word == "clear")
    put_display(SK_DISPLAY_CLEAR, "", "", "");
  else if (word == "clearwait")
    put_display(SK_DISPLAY_CLEAR_WAIT, "", "", "");
  else if (word == "thread")
    in >> a, print_later(std::atol(a.c_str()), rest(in));
  else if (word == "error")
    in >> a, *failure = {a, rest(in), 0};
  else if (word == "input" || word == "password")
    ask_for_input(rest(in), word == "password" ? 1 : 0, failure);
  else if (word == "asklate")
    ask_and_look_late(rest(in), failure);
  else if (word == "comm") {
    std::string id;
    in >> a >> id;
    const int32_t kind = a == "OPEN" ? SK_COMM_OPEN : a == "MSG" ? SK_COMM_MSG : SK_COMM_CLOSE;
    send_comm(kind, expand(id), rest(in), nullptr, 0);
  } else if (word == "name") {
    in >> a;
    const std::string help = rest(in);
    const sk_name name = {a.c_str(), help.c_str()};
    if (sk_worker_snapshot(worker, a.c_str(), &name, 1) != SK_OK) quit("snapshot");
  } else if (word == "reply") {
    a = rest(in);
    if (sk_worker_cell_reply(worker, a.c_str(), a.size()) != SK_OK) quit("cell_reply");
  } else if (word == "exit")
    std::_Exit(std::atoi(rest(in).c_str()));
  else if (word == "die")
    raise(std::atoi(rest(in).c_str()));
  else if (word == "hang")
    hang(std::atol(rest(in).c_str()));
  else if (word == "lie")
    write_all(link_fd, "\xff\xff\xff\x7f lies");
  else if (word == "sleep" || word == "spin") {
    if (!wait_ms(std::atol(rest(in).c_str()), word == "spin"))
      *failure = {"KeyboardInterrupt", "", SK_ERROR_INTERRUPT};
  } else if (word == "park") {
    if (!park(std::atol(rest(in).c_str()))) {
      wait_ms(600, false);  // In which a signal would come.
      *failure = {interrupted == 0 ? "Woken" : "Signalled", "", SK_ERROR_INTERRUPT};
    }
  } else if (word == "flood") {
    long lines = 0;
    in >> lines;
    const std::string text = rest(in);
    for (long i = 0; i < lines && interrupted == 0; ++i)
      put(SK_STREAM_STDOUT, text + " " + std::to_string(i) + "\n");
  } else if (word == "on") {
    in >> a;
    if (("," + a + ",").find("," + rank_text + ",") != std::string::npos)
      return run_line(rest(in), failure);
  } else {
    *failure = {"SyntaxError", "no such command: " + word, 0};
  }
  return failure->name.empty();
}

// False when the cell is over.
bool run_line(const std::string& line, Failure* failure) {
  std::istringstream in(line);
  std::string word;
  if (!(in >> word) || word[0] == '#') return true;
  return run_word(word, in, failure);
}

void execute(const sk_request& request) {
  interrupted = 0;
  open_cell = request.id;
  std::istringstream script(std::string(request.code, request.code_bytes));
  Failure failure;
  for (std::string line; std::getline(script, line);)
    if (!run_line(line, &failure)) break;
  if (!failure.name.empty()) {
    const std::string last = failure.name + ": " + failure.text;
    const char* traceback[] = {"script", last.c_str()};
    if (sk_worker_error(worker, failure.name.c_str(), failure.text.c_str(), traceback, 2,
                        failure.flags) != SK_OK)
      quit("error");
  }
  if (sk_worker_done(worker, failure.name.empty() ? SK_CELL_OK : SK_CELL_ERROR) != SK_OK)
    quit("done");
}

// What every language does for a front end; "facts" differ between the first rank and the others.
void act(const sk_request& request) {
  const std::string action = request.code;
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string failure;
  if (action == "hostname")
    put(SK_STREAM_STDOUT, std::string(host) + "\n");
  else if (action == "facts")
    put_display(SK_DISPLAY_DATA, "application/vnd.superkernel.facts+json",
                std::string("{\"host\": \"") + (rank_text == "0" ? "first" : "other") +
                    "\", \"cores\": 2, \"gpus\": [], \"versions\": {\"stub\": \"<1>\"}}",
                "");
  else if (action == "reset")
    put(SK_STREAM_STDOUT, "a stub has no names to forget\n");
  else
    failure = "no such action: " + action;
  const char* traceback[] = {failure.c_str()};
  const bool failed = !failure.empty();
  if (failed && sk_worker_error(worker, "UsageError", failure.c_str(), traceback, 1, 0) != SK_OK)
    quit("error");
  if (sk_worker_done(worker, failed ? SK_CELL_ERROR : SK_CELL_OK) != SK_OK) quit("done");
}

void answer(const sk_request& request) {
  const char* matches[] = {"print", "printer"};
  const sk_mime mime = {"text/plain", "a stub", 6};
  sk_reply reply = {};
  reply.struct_size = sizeof reply;
  if (request.kind == SK_REQUEST_COMPLETE) {
    reply.strings = matches;
    reply.string_count = 2;
    reply.end = request.cursor;
  } else if (request.kind == SK_REQUEST_INSPECT) {
    reply.answer = 1;
    reply.mimes = &mime;
    reply.mime_count = 1;
  } else {
    reply.answer = SK_COMPLETE_COMPLETE;
  }
  if (sk_worker_reply(worker, request.id, &reply) != SK_OK) quit("reply");
}

// SK_STUB_TEMPLATE: how the template behaves. "": well; fail, hang, thread; notes: it tells of its
// work for longer than the tests' limit.
void become_rank() {
  const char* said = std::getenv("SK_STUB_TEMPLATE");
  const std::string how = std::getenv("SK_TEMPLATE_FD") == nullptr || said == nullptr ? "" : said;
  if (how == "fail") {
    std::fputs("sk-stub-rank: told to fail as a template\n", stderr);
    std::_Exit(9);
  }
  for (int i = 0; how == "notes" && i < 8; ++i) {
    const std::string note = "step " + std::to_string(i);
    if (sk_worker_template_note(note.data(), note.size()) != SK_OK) quit("note");
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
  }
  if (how == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  if (how == "thread")
    std::thread([] { std::this_thread::sleep_for(std::chrono::hours(1)); }).detach();
  int32_t forked = 0;
  const sk_status status = sk_worker_template(&forked);
  if (status == SK_ERR_PEER_LOST) std::_Exit(0);
  if (status != SK_OK) quit("template");
}

}  // namespace

int main() {
  become_rank();
  const char* rank = std::getenv("RANK");
  rank_text = rank == nullptr ? "?" : rank;
  const char* fd = std::getenv("SK_WORKER_FD");
  link_fd = fd == nullptr ? -1 : std::atoi(fd);
  const char* fail = std::getenv("SK_STUB_FAIL");
  if (fail != nullptr && rank_text == fail) {
    std::fputs("sk-stub-rank: told to fail before it joins\n", stderr);
    return 9;
  }
  struct sigaction action = {};
  action.sa_handler = on_sigint;
  sigaction(SIGINT, &action, nullptr);
  sk_worker_config config = {};
  config.struct_size = sizeof config;
  const bool loops = std::getenv("SK_STUB_LOOP") != nullptr;
  config.flags = SK_WORKER_CAPTURE | SK_WORKER_SIGINT | (loops ? SK_WORKER_EVENT_LOOP : 0);
  config.language = "stub";
  if (sk_worker_join(&config, &worker) != SK_OK) quit("join");
  if (loops && sk_worker_fds(worker, &requests_fd, &interrupts_fd) != SK_OK) quit("fds");
  while (true) {
    sk_request request = {};
    request.struct_size = sizeof request;
    if (loops) turn(requests_fd, 60'000);
    if (sk_worker_next(worker, loops ? 0 : 60'000, &request) != SK_OK) return 0;
    if (request.kind == SK_REQUEST_SHUTDOWN) break;
    if (request.kind == SK_REQUEST_EXECUTE)
      execute(request);
    else if (request.kind == SK_REQUEST_ACTION)
      act(request);
    else if (request.kind == SK_REQUEST_COMM)
      handle_comm(request);
    else if (request.kind != 0)
      answer(request);
  }
  return sk_worker_leave(worker) == SK_OK ? 0 : 1;
}
