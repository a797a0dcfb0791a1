// Cells on ranks: the thin C shell over lib/control/host.
#include <atomic>
#include <memory>

#include "lib/api/exec_handles.h"
#include "lib/api/guard.h"
#include "sk/output.h"
#include "sk/session.h"

namespace {

using namespace sk::api;  // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using sk::error;
using sk::Status;

std::atomic<bool> worker_exists{false};

sk::Result<std::unique_ptr<WorkerHandle>> join(sk::control::WorkerConfig settings) {
  settings.collectives = [] { return collectives().load(); };
  auto handle = std::make_unique<WorkerHandle>();
  SK_ASSIGN_OR_RETURN(handle->worker, sk::control::Worker::join(settings));
  return handle;
}

}  // namespace

extern "C" {

// ---- the session half -------------------------------------------------------------------------

sk_status sk_session_open(const sk_session_config* config, sk_session** out_session) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_session_open", "out_session", out_session));
    *out_session = nullptr;
    SK_ASSIGN_OR_RETURN(auto asked, sk::control::to_open(config));
    auto handle = std::make_unique<SessionHandle>();
    SK_ASSIGN_OR_RETURN(handle->session,
                        sk::control::Session::open(std::move(asked.open), asked.sk_program));
    SK_ASSIGN_OR_RETURN(void* made, sessions.add(std::move(handle)));
    *out_session = static_cast<sk_session*>(made);
    return {};
  });
}

sk_status sk_exec(sk_session* session, const char* ranks, const char* code, uint64_t code_bytes,
                  const sk_exec_options* options, uint64_t* out_cell) noexcept {
  return with_session("sk_exec", session, [&](SessionHandle& handle) -> Status {
    SK_ASSIGN_OR_RETURN(auto request, sk::control::to_execute(ranks, code, code_bytes, options));
    SK_ASSIGN_OR_RETURN(const uint64_t cell, handle.session->execute(std::move(request)));
    if (out_cell != nullptr) *out_cell = cell;
    return {};
  });
}

sk_status sk_session_ask(sk_session* session, int32_t kind, const char* code, uint64_t code_bytes,
                         uint64_t cursor, int32_t detail, uint64_t* out_request) noexcept {
  return with_session("sk_session_ask", session, [&](SessionHandle& handle) -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_session_ask", "out_request", out_request));
    SK_ASSIGN_OR_RETURN(auto ask, sk::control::to_ask(kind, code, code_bytes, cursor, detail));
    SK_ASSIGN_OR_RETURN(*out_request, handle.session->ask(std::move(ask)));
    return {};
  });
}

sk_status sk_session_configure(sk_session* session, const sk_session_settings* settings) noexcept {
  return with_session("sk_session_configure", session, [&](SessionHandle& handle) -> Status {
    SK_ASSIGN_OR_RETURN(const auto configure, sk::control::to_configure(settings));
    return handle.session->configure(configure);
  });
}

sk_status sk_session_log(sk_session* session, const sk_log_query* query,
                         uint64_t* out_request) noexcept {
  return with_session("sk_session_log", session, [&](SessionHandle& handle) -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_session_log", "out_request", out_request));
    SK_ASSIGN_OR_RETURN(auto request, sk::control::to_log_request(query));
    SK_ASSIGN_OR_RETURN(*out_request, handle.session->log(std::move(request)));
    return {};
  });
}

sk_status sk_session_interrupt(sk_session* session) noexcept {
  return with_session("sk_session_interrupt", session, [&](SessionHandle& handle) -> Status {
    return handle.session->interrupt(0);
  });
}

sk_status sk_session_cancel(sk_session* session, uint64_t cell) noexcept {
  return with_session("sk_session_cancel", session, [&](SessionHandle& handle) -> Status {
    if (cell == 0)
      return error(SK_ERR_INVALID_ARGUMENT,
                   "sk_session_cancel: cell is 0; cells count from 1, as sk_exec() says");
    return handle.session->interrupt(cell);
  });
}

sk_status sk_session_poll(sk_session* session, int64_t timeout_ms, sk_event* event) noexcept {
  return with_session("sk_session_poll", session, [&](SessionHandle& handle) -> Status {
    SK_RETURN_IF_ERROR(sk::check_struct("sk_event", "event", event));
    SK_RETURN_IF_ERROR(sk::control::check_timeout("sk_session_poll", timeout_ms));
    return handle.session->poll(
        timeout_ms, [&](sk::control::Event next) { handle.view.fill(std::move(next), event); });
  });
}

sk_status sk_session_fd(sk_session* session, int32_t* out_fd) noexcept {
  return with_session("sk_session_fd", session, [&](SessionHandle& handle) -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_session_fd", "out_fd", out_fd));
    *out_fd = handle.session->fd();
    return {};
  });
}

sk_status sk_session_close(sk_session* session) noexcept {
  return guard([&]() -> Status {
    if (session == nullptr) return {};
    auto owned = sessions.remove_idle(session);
    if (!owned.ok()) return std::move(owned.status()).with_context("sk_session_close");
    return (*owned)->session->close();
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

sk_status sk_worker_template_note(const char* text, uint64_t bytes) noexcept {
  return guard([&]() -> Status {
    if (text == nullptr)
      return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_template_note: text is NULL");
    return sk::control::Worker::note_template({text, bytes});
  });
}

sk_status sk_worker_join(const sk_worker_config* config, sk_worker** out_worker) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_worker_join", "out_worker", out_worker));
    *out_worker = nullptr;
    SK_ASSIGN_OR_RETURN(auto settings, sk::control::to_worker_config(config));
    if (worker_exists.exchange(true))
      return error(SK_ERR_BUSY, "sk_worker_join: this process has joined already");
    auto joined = join(std::move(settings));
    auto made = joined.ok() ? workers.add(std::move(*joined)) : std::move(joined.status());
    worker_exists = made.ok();
    if (!made.ok()) return std::move(made.status());
    home_thread() = std::this_thread::get_id();  // It will run the cells.
    *out_worker = static_cast<sk_worker*>(*made);
    return {};
  });
}

sk_status sk_worker_next(sk_worker* worker, int64_t timeout_ms, sk_request* request) noexcept {
  return with_worker("sk_worker_next", worker, [&](WorkerHandle& handle) -> Status {
    SK_RETURN_IF_ERROR(sk::check_struct("sk_request", "request", request));
    SK_RETURN_IF_ERROR(sk::control::check_timeout("sk_worker_next", timeout_ms));
    const std::unique_lock only_one(handle.next_mutex, std::try_to_lock);
    if (!only_one.owns_lock())
      return error(SK_ERR_BUSY, "sk_worker_next: another thread waits here for a request");
    SK_ASSIGN_OR_RETURN(auto next, handle.worker->next(timeout_ms));
    handle.view.fill(std::move(next), request);
    return {};
  });
}

sk_status sk_worker_fds(sk_worker* worker, int32_t* out_requests,
                        int32_t* out_interrupts) noexcept {
  return with_worker("sk_worker_fds", worker, [&](WorkerHandle& handle) -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_worker_fds", "out_requests", out_requests));
    SK_RETURN_IF_ERROR(check_out("sk_worker_fds", "out_interrupts", out_interrupts));
    auto fds = handle.worker->event_fds();
    if (!fds.ok()) return std::move(fds.status()).with_context("sk_worker_fds");
    *out_requests = fds->first;
    *out_interrupts = fds->second;
    return {};
  });
}

sk_status sk_worker_interrupted(sk_worker* worker, uint64_t* out_cell) noexcept {
  return with_worker("sk_worker_interrupted", worker, [&](WorkerHandle& handle) -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_worker_interrupted", "out_cell", out_cell));
    auto cell = handle.worker->interrupted();
    if (!cell.ok()) return std::move(cell.status()).with_context("sk_worker_interrupted");
    *out_cell = *cell;
    return {};
  });
}

sk_status sk_worker_group(const sk_worker* worker, sk_group* group) noexcept {
  return with_worker("sk_worker_group", worker, [&](WorkerHandle& handle) -> Status {
    SK_RETURN_IF_ERROR(sk::check_struct("sk_group", "group", group));
    const sk::control::RankGroup now = handle.worker->group();
    sk_group view{};
    view.missing_count = static_cast<int32_t>(now.missing.size());
    view.first_missing = now.missing.empty() ? -1 : static_cast<int32_t>(now.missing[0]);
    view.wanted = now.wanted ? 1 : 0;
    view.epoch = now.epoch;
    view.master_port = now.torch_port;
    view.coordinator_port = now.jax_port;
    sk::fill_struct(view, group);
    return {};
  });
}

sk_status sk_worker_regroup(sk_worker* worker, uint64_t epoch, int64_t timeout_ms) noexcept {
  return with_worker("sk_worker_regroup", worker, [&](WorkerHandle& handle) -> Status {
    if (timeout_ms != SK_AFTER_CELL)
      SK_RETURN_IF_ERROR(sk::control::check_timeout("sk_worker_regroup", timeout_ms));
    return handle.worker->regroup(epoch, timeout_ms);
  });
}

sk_status sk_worker_stream(sk_worker* worker, int32_t stream, const char* text,
                           uint64_t bytes) noexcept {
  return with_worker("sk_worker_stream", worker, [&](WorkerHandle& handle) -> Status {
    if (stream != SK_STREAM_STDOUT && stream != SK_STREAM_STDERR)
      return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_stream: stream is {}; 1 and 2 are allowed",
                   stream);
    SK_RETURN_IF_ERROR(check_text("text", text, bytes).with_context("sk_worker_stream"));
    return handle.worker->stream(static_cast<uint32_t>(stream), {text, bytes});
  });
}

sk_status sk_worker_display(sk_worker* worker, int32_t kind, const sk_mime* mimes,
                            uint64_t mime_count, const char* display_id,
                            const char* metadata) noexcept {
  return with_worker("sk_worker_display", worker, [&](WorkerHandle& handle) -> Status {
    SK_ASSIGN_OR_RETURN(auto display,
                        sk::control::to_display(kind, mimes, mime_count, display_id, metadata));
    return handle.worker->display(std::move(display));
  });
}

sk_status sk_worker_error(sk_worker* worker, const char* ename, const char* evalue,
                          const char* const* traceback, uint64_t traceback_count,
                          uint32_t flags) noexcept {
  return with_worker("sk_worker_error", worker, [&](WorkerHandle& handle) -> Status {
    SK_ASSIGN_OR_RETURN(auto record,
                        sk::control::to_error(ename, evalue, traceback, traceback_count, flags));
    return handle.worker->fail(std::move(record));
  });
}

sk_status sk_worker_code_ended(sk_worker* worker) noexcept {
  return with_worker("sk_worker_code_ended", worker,
                     [](WorkerHandle& handle) { return handle.worker->code_ended(); });
}

sk_status sk_worker_threads(sk_worker* worker, int32_t count) noexcept {
  return with_worker("sk_worker_threads", worker, [&](WorkerHandle& handle) -> Status {
    if (count < 0)
      return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_threads: count is {}; it cannot be negative",
                   count);
    return handle.worker->threads(static_cast<uint32_t>(count));
  });
}

sk_status sk_worker_output_cell(sk_worker* worker, uint64_t cell) noexcept {
  return with_worker("sk_worker_output_cell", worker, [&](WorkerHandle& handle) -> Status {
    return handle.worker->output_cell(cell);
  });
}

sk_status sk_worker_done(sk_worker* worker, int32_t status) noexcept {
  return with_worker("sk_worker_done", worker, [&](WorkerHandle& handle) -> Status {
    if (status != SK_CELL_OK && status != SK_CELL_ERROR)
      return error(SK_ERR_INVALID_ARGUMENT,
                   "sk_worker_done: status is {}; OK and ERROR are allowed", status);
    return handle.worker->done(static_cast<uint32_t>(status));
  });
}

sk_status sk_worker_reply(sk_worker* worker, uint64_t id, const sk_reply* reply) noexcept {
  return with_worker("sk_worker_reply", worker, [&](WorkerHandle& handle) -> Status {
    SK_ASSIGN_OR_RETURN(auto answer, sk::control::to_reply(id, reply));
    return handle.worker->reply(std::move(answer));
  });
}

int32_t sk_worker_cancelled(const sk_worker* worker) noexcept {
  const auto use = workers.try_pin(worker);
  return use ? (*use)->worker->how_cancelled() : 0;
}

sk_status sk_worker_leave(sk_worker* worker) noexcept {
  return guard([&]() -> Status {
    if (worker == nullptr) return {};
    SK_RETURN_IF_ERROR(workers.check_owner(worker).with_context("sk_worker_leave"));
    auto ending = workers.end(worker);
    if (!ending.ok()) return std::move(ending.status()).with_context("sk_worker_leave");
    ending->close();
    Status left = (*ending)->worker->leave();  // Ends what other threads wait for.
    SK_RETURN_IF_ERROR(ending->drain().with_context("sk_worker_leave"));
    const auto gone = std::move(*ending).take();
    worker_exists = false;
    return left;
  });
}

}  // extern "C"
