// The rank program's side of cells: requests in, text, displays and errors out (sk/worker.h).
#include "sk/worker.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "blocking.h"
#include "captured.h"
#include "gil.h"
#include "sk/session.h"
#include "sk/talk.h"
#include "this_rank.h"
#include "wire_text.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace sk::python {
namespace {

using Bundle = std::vector<std::pair<Text, nb::bytes>>;

std::vector<sk_mime> mimes_of(const Bundle& bundle) {
  std::vector<sk_mime> mimes;
  mimes.reserve(bundle.size());
  for (const auto& [type, data] : bundle) {
    mimes.push_back({type.c_str(), data.data(), uint64_t(data.size())});
  }
  return mimes;
}

std::vector<const char*> pointers_of(const std::vector<Text>& strings) {
  std::vector<const char*> pointers;
  pointers.reserve(strings.size());
  for (const Text& string : strings) pointers.push_back(string.c_str());
  return pointers;
}

// None where this process is no template. In a forked process: its environment, line by line.
nb::object worker_template() {
  if (std::getenv("SK_TEMPLATE_FD") == nullptr) return nb::none();
  int32_t forked = 0;
  // What os.fork() does around fork(2): hooks run, locks are made anew.
  PyOS_BeforeFork();
  const sk_status status = sk_worker_template(&forked);
  if (forked != 0)
    PyOS_AfterFork_Child();
  else
    PyOS_AfterFork_Parent();
  check(status);
  nb::list lines;
  for (char** line = environ; *line != nullptr; ++line)
    lines.append(nb::bytes(*line, std::strlen(*line)));
  return lines;
}

// What the template is about to do, for the front end.
void template_note(const std::string& text) {
  out([&] { return sk_worker_template_note(text.data(), text.size()); });
}

void add_comm(nb::dict& fields, const sk_request& request) {
  fields["comm_kind"] = request.comm_kind;
  fields["comm"] = request.comm;
  fields["target"] = request.target;
  fields["metadata"] = request.metadata;
  nb::list buffers;
  for (uint64_t i = 0; i < request.buffer_count; ++i)
    buffers.append(nb::bytes(request.buffers[i].data, size_t(request.buffers[i].bytes)));
  fields["buffers"] = buffers;
}

class Worker {
 public:
  Worker(const std::string& language, uint32_t flags, int32_t stack_signal, int32_t language_signal,
         int32_t language_fd) {
    sk_worker_config config = {};
    config.struct_size = sizeof config;
    config.flags = flags;
    config.language = language.c_str();
    config.stack_signal = stack_signal;
    config.language_stack_signal = language_signal;
    config.language_stack_fd = language_fd;
    check(sk_worker_join(&config, &worker_));
    joined.worker = worker_;
    joined.pid = getpid();
    keep_descriptors();
  }
  ~Worker() {
    if (worker_ == nullptr) return;
    retire();
    sk_worker_leave(worker_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // None when nothing came in time, or a signal ended the wait.
  nb::object next(int64_t timeout_ms) {
    sk_request request = {};
    request.struct_size = sizeof request;
    out([&] { return sk_worker_next(worker_, timeout_ms, &request); });
    if (request.kind == 0) return nb::none();
    nb::dict fields;
    fields["kind"] = request.kind;
    fields["id"] = request.id;
    fields["code"] = nb::steal<nb::str>(
        PyUnicode_DecodeUTF8(request.code, static_cast<Py_ssize_t>(request.code_bytes), "replace"));
    fields["cursor"] = request.cursor;
    fields["execution_count"] = request.execution_count;
    fields["silent"] = request.silent != 0;
    fields["store_history"] = request.store_history != 0;
    fields["detail"] = request.detail;
    fields["expressions"] = request.expressions;
    if (request.kind == SK_REQUEST_COMM) add_comm(fields, request);
    return fields;
  }

  void stream(int32_t which, const RawText& text) {
    out([&] { return sk_worker_stream(worker_, which, text.utf8.data(), text.utf8.size()); });
  }

  void display(int32_t kind, const Bundle& bundle, const std::optional<Text>& display_id,
               const std::optional<Text>& metadata) {
    const std::vector<sk_mime> mimes = mimes_of(bundle);
    out([&] {
      return sk_worker_display(worker_, kind, mimes.data(), mimes.size(),
                               display_id ? display_id->c_str() : nullptr,
                               metadata ? metadata->c_str() : nullptr);
    });
  }

  void error(const Text& ename, const Text& evalue, const std::vector<Text>& traceback,
             uint32_t flags) {
    const std::vector<const char*> lines = pointers_of(traceback);
    out([&] {
      return sk_worker_error(worker_, ename.c_str(), evalue.c_str(), lines.data(), lines.size(),
                             flags);
    });
  }

  void code_ended() {
    out([&] { return sk_worker_code_ended(worker_); });
  }

  void threads(int32_t count) {
    out([&] { return sk_worker_threads(worker_, count); });
  }

  void output_cell(uint64_t cell) {
    out([&] { return sk_worker_output_cell(worker_, cell); });
  }

  void done(int32_t status) {
    out([&] { return sk_worker_done(worker_, status); });
  }

  void reply(uint64_t id, int32_t answer, uint64_t start, uint64_t end,
             const std::vector<Text>& strings, const Bundle& bundle) {
    const std::vector<const char*> lines = pointers_of(strings);
    const std::vector<sk_mime> mimes = mimes_of(bundle);
    sk_reply reply = {};
    reply.struct_size = sizeof reply;
    reply.answer = answer;
    reply.start = start;
    reply.end = end;
    reply.strings = lines.data();
    reply.string_count = lines.size();
    reply.mimes = mimes.data();
    reply.mime_count = mimes.size();
    out([&] { return sk_worker_reply(worker_, id, &reply); });
  }

  // Epoch, how many ranks are missing, the least of them, the ports of rank 0's servers.
  std::tuple<uint64_t, int32_t, int32_t, int32_t, int32_t> group() const {
    sk_group group = {};
    group.struct_size = sizeof group;
    check(sk_worker_group(worker_, &group));
    return {group.epoch, group.missing_count, group.first_missing, group.master_port,
            group.coordinator_port};
  }

  void regroup(uint64_t epoch, int64_t timeout_ms) {
    out([&] { return sk_worker_regroup(worker_, epoch, timeout_ms); });
  }

  void cell_reply(const RawText& json) {
    out([&] { return sk_worker_cell_reply(worker_, json.utf8.data(), json.utf8.size()); });
  }

  // The state and the text. A signal's exception goes before, and takes the question back.
  nb::tuple input(const Text& prompt, bool password) {
    sk_input answer = {};
    answer.struct_size = sizeof answer;
    while (answer.state == SK_INPUT_NONE) {
      sk_status status;
      std::string sentence;
      {
        GilReleased released;
        status = sk_worker_input(worker_, prompt.c_str(), password ? 1 : 0, 3'600'000, &answer);
        sentence = status == SK_OK ? "" : sk_last_error();
      }
      try {
        check_signals();
      } catch (...) {
        const sk_status withdrawn = sk_worker_input(worker_, nullptr, 0, 0, &answer);
        (void)withdrawn;  // Also where another thread waits: then it is not ours to take back.
        throw;
      }
      check(status, sentence);
    }
    PyObject* const text =
        PyUnicode_DecodeUTF8(answer.text, static_cast<Py_ssize_t>(answer.bytes), "replace");
    return nb::make_tuple(answer.state, nb::steal<nb::str>(text));
  }

  void comm(int32_t kind, const Text& comm, const Text& target, const RawText& data,
            const Text& metadata, const std::vector<nb::bytes>& buffers) {
    std::vector<sk_mime> parts;
    for (const nb::bytes& buffer : buffers)
      parts.push_back({nullptr, buffer.data(), uint64_t(buffer.size())});
    sk_comm_message message = {};
    message.struct_size = sizeof message;
    message.kind = kind;
    message.comm = comm.c_str();
    message.target = target.c_str();
    message.data = data.utf8.data();
    message.data_bytes = data.utf8.size();
    message.metadata = metadata.c_str();
    message.buffers = parts.data();
    message.buffer_count = parts.size();
    out([&] { return sk_worker_comm(worker_, &message); });
  }

  void snapshot(const Text& root, const std::vector<std::pair<Text, Text>>& names) {
    std::vector<sk_name> entries;
    entries.reserve(names.size());
    for (const auto& [name, help] : names) entries.push_back({name.c_str(), help.c_str()});
    out([&] { return sk_worker_snapshot(worker_, root.c_str(), entries.data(), entries.size()); });
  }

  bool cancelled() const { return sk_worker_cancelled(worker_) != 0; }

  void leave() {
    retire();
    sk_worker* const worker = std::exchange(worker_, nullptr);
    out([&] { return sk_worker_leave(worker); });
  }

 private:
  // Other threads may print on; those that are within are waited for, each at most 60 s.
  void retire() {
    joined.worker = nullptr;
    while (joined.writing > 0 && joined.pid == getpid()) {
      GilReleased released;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  sk_worker* worker_ = nullptr;
};

}  // namespace

void bind_worker(nb::module_& module) {
  bind_captured(module);
  module.def("worker_template", &worker_template);
  module.def("template_note", &template_note);
  module.def("to_wire",
             [](const RawText& text) { return nb::bytes(text.utf8.data(), text.utf8.size()); });
  nb::class_<Worker>(module, "Worker")
      .def(nb::init<const std::string&, uint32_t, int32_t, int32_t, int32_t>(), "language"_a,
           "flags"_a, "stack_signal"_a = 0, "language_signal"_a = 0, "language_fd"_a = 0)
      .def("next", &Worker::next)
      .def("stream", &Worker::stream)
      .def("display", &Worker::display, nb::arg(), nb::arg(), nb::arg().none(),
           nb::arg().none() = nb::none())
      .def("error", &Worker::error)
      .def("code_ended", &Worker::code_ended)
      .def("threads", &Worker::threads)
      .def("output_cell", &Worker::output_cell)
      .def("done", &Worker::done)
      .def("reply", &Worker::reply)
      .def("group", &Worker::group)
      .def("regroup", &Worker::regroup)
      .def("cell_reply", &Worker::cell_reply)
      .def("input", &Worker::input)
      .def("comm", &Worker::comm)
      .def("snapshot", &Worker::snapshot)
      .def("cancelled", &Worker::cancelled)
      .def("leave", &Worker::leave);
}

}  // namespace sk::python
