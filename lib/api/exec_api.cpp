// Cells on ranks: the thin C shell over lib/control/host.
#include <atomic>
#include <memory>

#include "lib/api/exec_handles.h"
#include "lib/api/guard.h"
#include "sk/output.h"
#include "sk/session.h"

namespace {

using sk::error;
using sk::Status;
using sk::api::add_handle;
using sk::api::check_handle;
using sk::api::check_out;
using sk::api::check_size;
using sk::api::collectives;
using sk::api::guard;
using sk::api::remove_handle;

std::atomic<bool> worker_exists{false};

sk::Result<sk::control::WorkerConfig> join_settings(const sk_worker_config* config) {
  SK_ASSIGN_OR_RETURN(auto settings, sk::control::to_worker_config(config));
  settings.collectives = [] { return collectives().load(); };
  sk::api::home_thread() = std::this_thread::get_id();  // It will run the cells.
  return settings;
}

}  // namespace

extern "C" {

// ---- the session half -------------------------------------------------------------------------

sk_status sk_session_open(const sk_session_config* config, sk_session** out_session) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_session_open", "out_session", out_session));
    *out_session = nullptr;
    SK_ASSIGN_OR_RETURN(sk::control::Open open, sk::control::to_open(config));
    auto handle = std::make_unique<sk_session>();
    const char* program = config->sk_path == nullptr ? "" : config->sk_path;
    SK_ASSIGN_OR_RETURN(handle->session, sk::control::Session::open(std::move(open), program));
    add_handle(handle.get());
    *out_session = handle.release();
    return {};
  });
}

sk_status sk_exec(sk_session* session, const char* ranks, const char* code, uint64_t code_bytes,
                  const sk_exec_options* options, uint64_t* out_cell) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_exec", session));
    SK_ASSIGN_OR_RETURN(auto request, sk::control::to_execute(ranks, code, code_bytes, options));
    SK_ASSIGN_OR_RETURN(const uint64_t cell, session->session->execute(std::move(request)));
    if (out_cell != nullptr) *out_cell = cell;
    return {};
  });
}

sk_status sk_session_ask(sk_session* session, int32_t kind, const char* code, uint64_t code_bytes,
                         uint64_t cursor, int32_t detail, uint64_t* out_request) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_session_ask", session));
    SK_RETURN_IF_ERROR(check_out("sk_session_ask", "out_request", out_request));
    SK_ASSIGN_OR_RETURN(auto ask, sk::control::to_ask(kind, code, code_bytes, cursor, detail));
    SK_ASSIGN_OR_RETURN(*out_request, session->session->ask(std::move(ask)));
    return {};
  });
}

sk_status sk_session_configure(sk_session* session, const sk_session_settings* settings) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_session_configure", session));
    SK_ASSIGN_OR_RETURN(const auto configure, sk::control::to_configure(settings));
    return session->session->configure(configure);
  });
}

sk_status sk_session_log(sk_session* session, const sk_log_query* query,
                         uint64_t* out_request) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_session_log", session));
    SK_RETURN_IF_ERROR(check_out("sk_session_log", "out_request", out_request));
    SK_ASSIGN_OR_RETURN(auto request, sk::control::to_log_request(query));
    SK_ASSIGN_OR_RETURN(*out_request, session->session->log(std::move(request)));
    return {};
  });
}

sk_status sk_session_interrupt(sk_session* session) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_session_interrupt", session));
    return session->session->interrupt();
  });
}

sk_status sk_session_poll(sk_session* session, int64_t timeout_ms, sk_event* event) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_session_poll", session));
    SK_RETURN_IF_ERROR(
        check_size("sk_session_poll", "event", event == nullptr ? nullptr : &event->struct_size));
    SK_RETURN_IF_ERROR(sk::control::check_timeout("sk_session_poll", timeout_ms));
    return session->session->poll(
        timeout_ms, [&](sk::control::Event next) { session->view.fill(std::move(next), event); });
  });
}

sk_status sk_session_fd(sk_session* session, int32_t* out_fd) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_session_fd", session));
    SK_RETURN_IF_ERROR(check_out("sk_session_fd", "out_fd", out_fd));
    *out_fd = session->session->fd();
    return {};
  });
}

sk_status sk_session_close(sk_session* session) noexcept {
  return guard([&]() -> Status {
    if (session == nullptr) return {};
    SK_RETURN_IF_ERROR(check_handle("sk_session_close", session));
    remove_handle(session);
    const std::unique_ptr<sk_session> owned(session);
    return owned->session->close();
  });
}

// ---- the worker half --------------------------------------------------------------------------

sk_status sk_worker_template(int32_t* out_forked) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_worker_template", "out_forked", out_forked));
    *out_forked = 0;
    SK_ASSIGN_OR_RETURN(const bool forked, sk::control::Worker::serve_template());
    *out_forked = forked ? 1 : 0;
    return {};
  });
}

sk_status sk_worker_join(const sk_worker_config* config, sk_worker** out_worker) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_worker_join", "out_worker", out_worker));
    *out_worker = nullptr;
    SK_ASSIGN_OR_RETURN(const auto settings, join_settings(config));
    if (worker_exists.exchange(true))
      return error(SK_ERR_BUSY, "sk_worker_join: this process has joined already");
    auto handle = std::make_unique<sk_worker>();
    auto worker = sk::control::Worker::join(settings);
    worker_exists = worker.ok();
    if (!worker.ok()) return std::move(worker.status());
    handle->worker = std::move(worker).value();
    add_handle(handle.get());
    *out_worker = handle.release();
    return {};
  });
}

sk_status sk_worker_next(sk_worker* worker, int64_t timeout_ms, sk_request* request) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_worker_next", worker));
    SK_RETURN_IF_ERROR(check_size("sk_worker_next", "request",
                                  request == nullptr ? nullptr : &request->struct_size));
    SK_RETURN_IF_ERROR(sk::control::check_timeout("sk_worker_next", timeout_ms));
    SK_ASSIGN_OR_RETURN(auto next, worker->worker->next(timeout_ms));
    worker->view.fill(std::move(next), request);
    return {};
  });
}

sk_status sk_worker_group(const sk_worker* worker, sk_group* group) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_worker_group", worker));
    SK_RETURN_IF_ERROR(
        check_size("sk_worker_group", "group", group == nullptr ? nullptr : &group->struct_size));
    const sk::control::RankGroup now = worker->worker->group();
    sk_group view{};
    view.missing_count = static_cast<int32_t>(now.missing.size());
    view.first_missing = now.missing.empty() ? -1 : static_cast<int32_t>(now.missing[0]);
    view.epoch = now.epoch;
    view.master_port = now.torch_port;
    view.coordinator_port = now.jax_port;
    sk::control::copy_struct(&view, sizeof view, group, group->struct_size);
    return {};
  });
}

sk_status sk_worker_regroup(sk_worker* worker, uint64_t epoch, int64_t timeout_ms) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_worker_regroup", worker));
    SK_RETURN_IF_ERROR(sk::control::check_timeout("sk_worker_regroup", timeout_ms));
    return worker->worker->regroup(epoch, timeout_ms);
  });
}

sk_status sk_worker_stream(sk_worker* worker, int32_t stream, const char* text,
                           uint64_t bytes) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_worker_stream", worker));
    if (stream != SK_STREAM_STDOUT && stream != SK_STREAM_STDERR)
      return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_stream: stream is {}; 1 and 2 are allowed",
                   stream);
    if (text == nullptr && bytes > 0)
      return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_stream: text is NULL but has {} bytes",
                   bytes);
    return worker->worker->stream(static_cast<uint32_t>(stream), {text, bytes});
  });
}

sk_status sk_worker_display(sk_worker* worker, int32_t kind, const sk_mime* mimes,
                            uint64_t mime_count, const char* display_id,
                            const char* metadata) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_worker_display", worker));
    SK_ASSIGN_OR_RETURN(auto display,
                        sk::control::to_display(kind, mimes, mime_count, display_id, metadata));
    return worker->worker->display(std::move(display));
  });
}

sk_status sk_worker_error(sk_worker* worker, const char* ename, const char* evalue,
                          const char* const* traceback, uint64_t traceback_count,
                          uint32_t flags) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_worker_error", worker));
    SK_ASSIGN_OR_RETURN(auto record,
                        sk::control::to_error(ename, evalue, traceback, traceback_count, flags));
    return worker->worker->fail(std::move(record));
  });
}

sk_status sk_worker_output_cell(sk_worker* worker, uint64_t cell) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_worker_output_cell", worker));
    return worker->worker->output_cell(cell);
  });
}

sk_status sk_worker_done(sk_worker* worker, int32_t status) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_worker_done", worker));
    if (status != SK_CELL_OK && status != SK_CELL_ERROR)
      return error(SK_ERR_INVALID_ARGUMENT,
                   "sk_worker_done: status is {}; OK and ERROR are allowed", status);
    return worker->worker->done(static_cast<uint32_t>(status));
  });
}

sk_status sk_worker_reply(sk_worker* worker, uint64_t id, const sk_reply* reply) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_handle("sk_worker_reply", worker));
    SK_ASSIGN_OR_RETURN(auto answer, sk::control::to_reply(id, reply));
    return worker->worker->reply(std::move(answer));
  });
}

int32_t sk_worker_cancelled(const sk_worker* worker) noexcept {
  return worker != nullptr && worker->worker->cancelled() ? 1 : 0;
}

sk_status sk_worker_leave(sk_worker* worker) noexcept {
  return guard([&]() -> Status {
    if (worker == nullptr) return {};
    SK_RETURN_IF_ERROR(check_handle("sk_worker_leave", worker));
    remove_handle(worker);
    const std::unique_ptr<sk_worker> owned(worker);
    const Status status = owned->worker->leave();
    worker_exists = false;
    return status.clone();
  });
}

}  // extern "C"
