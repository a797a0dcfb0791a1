#include "tools/sk/relay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sk::tools {
namespace {

constexpr size_t kLineBytesMax = 65536;        // A longer line is passed on in pieces.
constexpr size_t kPendingBytesMax = 1u << 20;  // Then the ranks have to wait, as with any pipe.
constexpr size_t kWriteBytes = 4096;  // POLLOUT on a pipe promises room for PIPE_BUF bytes.

bool can_write(int fd) {
  pollfd one = {fd, POLLOUT, 0};
  return poll(&one, 1, 0) > 0;
}

}  // namespace

Relay::~Relay() {
  for (const Source& source : sources_) {
    if (source.fd >= 0) close(source.fd);
  }
}

void Relay::add(int from, int to, int rank) {
  fcntl(from, F_SETFL, fcntl(from, F_GETFL) | O_NONBLOCK);
  sources_.push_back({from, to, rank, {}});
}

Relay::Target& Relay::target(int fd) { return fd == STDERR_FILENO ? err_ : out_; }
const Relay::Target& Relay::target(int fd) const { return fd == STDERR_FILENO ? err_ : out_; }

void Relay::append_polls(std::vector<pollfd>& polls) const {
  for (const Source& source : sources_) {
    if (source.fd < 0 || target(source.to).pending.size() > kPendingBytesMax) continue;
    polls.push_back({source.fd, POLLIN, 0});
  }
  for (const Target* to : {&out_, &err_}) {
    if (!to->pending.empty()) polls.push_back({to->fd, POLLOUT, 0});
  }
}

void Relay::pump() {
  for (Source& source : sources_) {
    if (source.fd >= 0) read_source(source);
  }
  write_target(out_);
  write_target(err_);
}

bool Relay::has_pending() const { return !out_.pending.empty() || !err_.pending.empty(); }

bool Relay::done() const {
  return !has_pending() && std::all_of(sources_.begin(), sources_.end(),
                                       [](const Source& source) { return source.fd < 0; });
}

void Relay::finish() {
  for (Source& source : sources_) {
    if (source.fd >= 0) close(source.fd);
    source.fd = -1;
    emit(source, source.line.size());
  }
}

void Relay::read_source(Source& source) {
  char chunk[16384];
  while (target(source.to).pending.size() <= kPendingBytesMax) {
    const ssize_t got = read(source.fd, chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      close(source.fd);
      source.fd = -1;
      return emit(source, source.line.size());
    }
    source.line.append(chunk, size_t(got));
    const size_t newline = source.line.rfind('\n');
    if (newline != std::string::npos) emit(source, newline + 1);
    if (source.line.size() >= kLineBytesMax) emit(source, source.line.size());
  }
}

// Whole lines only, so that lines of two ranks never run into each other.
void Relay::emit(Source& source, size_t end) {
  Target& to = target(source.to);
  for (size_t at = 0; at < end;) {
    const size_t newline = std::min(source.line.find('\n', at), end);
    to.pending += fmt::format("[rank {}] {}\n", source.rank,
                              std::string_view(source.line).substr(at, newline - at));
    at = newline + 1;
  }
  source.line.erase(0, end);
}

void Relay::write_target(Target& to) {
  size_t at = 0;
  while (at < to.pending.size() && !to.broken && can_write(to.fd)) {
    const ssize_t wrote =
        write(to.fd, &to.pending[at], std::min(kWriteBytes, to.pending.size() - at));
    if (wrote > 0) at += size_t(wrote);
    if (wrote < 0 && errno != EINTR && errno != EAGAIN) to.broken = true;
  }
  if (to.broken) at = to.pending.size();
  to.pending.erase(0, at);
}

}  // namespace sk::tools
