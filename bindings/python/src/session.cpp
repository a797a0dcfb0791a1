// Sessions: cells on ranks, seen from who asks (sk/exec.h, sk/session.h, sk/output.h, sk/talk.h).
#include "sk/session.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "gil.h"
#include "sk/exec.h"
#include "sk/output.h"
#include "sk/talk.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

using MaybeText = std::optional<std::string>;

const char* pointer_of(const MaybeText& text) { return text ? text->c_str() : nullptr; }

// Ends with a null pointer.
std::vector<const char*> pointers_of(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  for (const std::string& string : strings) pointers.push_back(string.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

// A call that may wait, so without the interpreter's lock. Signals are left to the caller: what the
// call made is to reach it first.
template <typename Call>
sk_status try_outside(Call&& call, std::string& sentence) {
  GilReleased released;
  const sk_status status = call();
  if (status != SK_OK) sentence = sk_last_error();
  return status;
}
template <typename Call>
void outside(Call&& call) {
  std::string sentence;
  const sk_status status = try_outside(std::forward<Call>(call), sentence);
  check(status, sentence);
}

nb::object text_of_wire(const char* text, uint64_t bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(bytes), "replace"));
}
nb::object text_of_wire(const char* text) {
  return text_of_wire(text, std::char_traits<char>::length(text));
}

nb::list strings_of(const char* const* strings, uint64_t count) {
  nb::list out;
  for (uint64_t i = 0; i < count; ++i) out.append(text_of_wire(strings[i]));
  return out;
}

nb::list mimes_of(const sk_event& event) {
  nb::list out;
  for (uint64_t i = 0; i < event.mime_count; ++i) {
    const sk_mime& mime = event.mimes[i];
    out.append(nb::make_tuple(text_of_wire(mime.type), nb::bytes(mime.data, size_t(mime.bytes))));
  }
  return out;
}

nb::list times_of(const sk_event& event) {
  nb::list out;
  for (uint64_t i = 0; i < event.time_count; ++i) {
    const sk_rank_time& time = event.times[i];
    out.append(nb::make_tuple(time.rank, time.wall_ns, time.cpu_ns));
  }
  return out;
}

// By rank: its number, flags, name, value, lines. Ranks that are alike share what they say.
nb::list errors_of(const sk_event& event) {
  nb::list out;
  std::map<const char*, nb::tuple> words;  // Alike is what lies in one place.
  for (uint64_t i = 0; i < event.error_count; ++i) {
    const sk_rank_error& error = event.errors[i];
    const auto [place, is_new] = words.try_emplace(error.evalue);
    if (is_new)
      place->second = nb::make_tuple(text_of_wire(error.ename), text_of_wire(error.evalue),
                                     strings_of(error.traceback, error.traceback_count));
    out.append(nb::make_tuple(error.rank, error.flags, place->second));
  }
  return out;
}

// What every kind has, and what only some have.
nb::dict fields_of(const sk_event& event) {
  nb::dict fields;
  fields["kind"] = event.kind;
  fields["cell"] = event.cell;
  fields["request"] = event.request;
  fields["ranks"] = event.ranks;
  fields["status"] = event.status;
  // A log's piece may end within a character.
  fields["text"] = event.kind == SK_EVENT_REPLY
                       ? nb::object(nb::bytes(event.text, size_t(event.text_bytes)))
                       : text_of_wire(event.text, event.text_bytes);
  fields["tag"] = text_of_wire(event.tag);
  fields["answer"] = event.answer;
  if (event.kind == SK_EVENT_STREAM) fields["stream"] = event.stream;
  if (event.kind == SK_EVENT_DISPLAY || event.kind == SK_EVENT_REPLY) {
    fields["display"] = event.display;
    fields["mimes"] = mimes_of(event);
    fields["metadata"] = text_of_wire(event.metadata);
    fields["display_id"] = text_of_wire(event.display_id);
  }
  if (event.kind == SK_EVENT_REPLY) {
    fields["start"] = event.start;
    fields["end"] = event.end;
    fields["total"] = event.total;
    fields["strings"] = strings_of(event.strings, event.string_count);
  }
  if (event.kind == SK_EVENT_ERROR) {
    fields["ename"] = text_of_wire(event.ename);
    fields["evalue"] = text_of_wire(event.evalue);
    fields["traceback"] = strings_of(event.traceback, event.traceback_count);
    fields["errors"] = errors_of(event);
  }
  if (event.kind == SK_EVENT_CELL_DONE) fields["times"] = times_of(event);
  return fields;
}

class Polls {
 public:
  explicit Polls(bool& polls) : polls_(polls) { polls_ = true; }
  ~Polls() { polls_ = false; }
  Polls(const Polls&) = delete;
  Polls& operator=(const Polls&) = delete;

 private:
  bool& polls_;
};

class Session {
 public:
  Session(int32_t ranks, const std::vector<std::string>& argv, const std::vector<std::string>& env,
          const MaybeText& cwd, const MaybeText& program, int64_t start_timeout_ms,
          int64_t lease_ms, uint32_t flags, int64_t interrupt_ms, const MaybeText& name,
          const MaybeText& token)
      : ranks(ranks) {
    const std::vector<const char*> words = pointers_of(argv), lines = pointers_of(env);
    sk_session_config config = {};
    config.struct_size = sizeof config;
    config.ranks = ranks;
    config.argv = words.data();
    config.env = lines.data();
    config.cwd = pointer_of(cwd);
    config.sk_path = pointer_of(program);
    config.start_timeout_ms = start_timeout_ms;
    config.lease_ms = lease_ms;
    config.flags = flags;
    config.interrupt_ms = interrupt_ms;
    config.name = pointer_of(name);
    config.token = pointer_of(token);
    outside([&] { return sk_session_open(&config, &session_); });
  }
  Session(const std::string& name, const std::string& token) {
    on_drop_ = sk_session_leave;
    outside([&] { return sk_session_attach(name.c_str(), token.c_str(), &session_, &ranks); });
  }
  // What nobody has closed. In a forked child this is refused, and the parent's stays.
  ~Session() {
    std::string unsaid;
    if (session_ != nullptr) (void)!try_outside([&] { return on_drop_(session_); }, unsaid);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int32_t ranks = 0;

  uint64_t exec(const MaybeText& ranks, const std::string& code, bool silent,
                int64_t execution_count, bool allow_input, bool go_on, const MaybeText& tag) {
    sk_exec_options options = {};
    options.struct_size = sizeof options;
    options.silent = silent ? 1 : 0;
    options.execution_count = execution_count;
    options.allow_input = allow_input ? 1 : 0;
    options.go_on_after_error = go_on ? 1 : 0;
    options.tag = pointer_of(tag);
    uint64_t cell = 0;
    outside([&] {
      return sk_exec(session_, pointer_of(ranks), code.data(), code.size(), &options, &cell);
    });
    return cell;
  }

  uint64_t ask(int32_t kind, const std::string& code, uint64_t cursor, int32_t detail) {
    uint64_t request = 0;
    outside([&] {
      return sk_session_ask(session_, kind, code.data(), code.size(), cursor, detail, &request);
    });
    return request;
  }

  uint64_t log(int32_t what, uint64_t cell, const MaybeText& ranks, uint64_t offset,
               uint64_t limit) {
    sk_log_query query = {};
    query.struct_size = sizeof query;
    query.what = what;
    query.cell = cell;
    query.ranks = pointer_of(ranks);
    query.offset = offset;
    query.limit = limit;
    uint64_t request = 0;
    outside([&] { return sk_session_log(session_, &query, &request); });
    return request;
  }

  uint64_t status() {
    uint64_t request = 0;
    outside([&] { return sk_session_status(session_, &request); });
    return request;
  }
  uint64_t revive(const MaybeText& ranks) {
    uint64_t request = 0;
    outside([&] { return sk_session_revive(session_, pointer_of(ranks), &request); });
    return request;
  }
  uint64_t stack(const MaybeText& ranks) {
    uint64_t request = 0;
    outside([&] { return sk_session_stack(session_, pointer_of(ranks), &request); });
    return request;
  }

  void configure(int32_t tag, uint64_t shown_lines, uint64_t shown_bytes, uint64_t kept_bytes) {
    sk_session_settings settings = {};
    settings.struct_size = sizeof settings;
    settings.tag = tag;
    settings.shown_lines = shown_lines;
    settings.shown_bytes = shown_bytes;
    settings.kept_bytes = kept_bytes;
    outside([&] { return sk_session_configure(session_, &settings); });
  }

  void interrupt() {
    outside([&] { return sk_session_interrupt(session_); });
  }
  void cancel(uint64_t cell) {
    outside([&] { return sk_session_cancel(session_, cell); });
  }
  void answer(uint64_t request, const MaybeText& text) {
    outside([&] {
      return sk_session_answer(session_, request, text ? text->data() : nullptr,
                               text ? text->size() : 0);
    });
  }
  void keep(const std::string& name, const MaybeText& text) {
    outside([&] {
      return sk_session_keep(session_, name.c_str(), text ? text->data() : nullptr,
                             text ? text->size() : 0);
    });
  }
  void ack(uint64_t cell) {
    outside([&] { return sk_session_ack(session_, cell); });
  }

  // None: there was none. An event's memory is the session's until the next poll, so a second one
  // is refused until this one is read, too.
  nb::object poll(int64_t timeout_ms) {
    if (polls_) check(SK_ERR_BUSY, "session: another thread is polling it");
    sk_event event = {};
    event.struct_size = sizeof event;
    const Polls inside(polls_);
    outside([&] { return sk_session_poll(session_, timeout_ms, &event); });
    if (event.kind == SK_EVENT_NONE) return nb::none();
    return fields_of(event);
  }
  int32_t fd() {
    int32_t fd = -1;
    check(sk_session_fd(session_, &fd));
    return fd;
  }

  // These, refused while another thread is inside a call, or in a forked child, change nothing.
  void close() { free(sk_session_close); }
  // Leaves its ranks to their lease.
  void leave() { free(sk_session_leave); }

 private:
  void free(sk_status (*function)(sk_session*) noexcept) {
    if (session_ == nullptr) return;
    std::string sentence;
    const sk_status status = try_outside([&] { return function(session_); }, sentence);
    if (status == SK_OK || status == SK_ERR_TIMEOUT) session_ = nullptr;
    check(status, sentence);
  }

  sk_session* session_ = nullptr;
  sk_status (*on_drop_)(sk_session*) noexcept = sk_session_close;
  bool polls_ = false;
};

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<Session>(module, "Session")
      .def(nb::init<int32_t, const std::vector<std::string>&, const std::vector<std::string>&,
                    const MaybeText&, const MaybeText&, int64_t, int64_t, uint32_t, int64_t,
                    const MaybeText&, const MaybeText&>(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none())
      .def(nb::init<const std::string&, const std::string&>())
      .def_ro("ranks", &Session::ranks)
      .def("exec", &Session::exec, nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg(), nb::arg().none())
      .def("ask", &Session::ask)
      .def("log", &Session::log, nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg())
      .def("status", &Session::status)
      .def("revive", &Session::revive, nb::arg().none())
      .def("stack", &Session::stack, nb::arg().none())
      .def("configure", &Session::configure)
      .def("interrupt", &Session::interrupt)
      .def("cancel", &Session::cancel)
      .def("answer", &Session::answer, nb::arg(), nb::arg().none())
      .def("keep", &Session::keep, nb::arg(), nb::arg().none())
      .def("ack", &Session::ack)
      .def("poll", &Session::poll)
      .def("fd", &Session::fd)
      .def("close", &Session::close)
      .def("leave", &Session::leave);
}

}  // namespace sk::python
