#include "bench/net/plain_stream.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/e2e/place.h"

namespace sk_bench {
namespace {

constexpr double kMeetSecondsMax = 30.0;
constexpr double kSilentSecondsMax = 60.0;
constexpr int kSpins = 4096;  // Between two looks at the clock.
// Given to the kernel at one time, which was seen fastest: calls of a MiB let so much gather in the
// socket that it leaves the caches, and a stream takes up to twice as long.
constexpr size_t kCallBytes = size_t{128} << 10;

[[noreturn]] void die(const char* what) {
  fprintf(stderr, "bench: the plain stream: %s: %s\n", what, strerror(errno));
  exit(3);
}

int listen_and_accept(const sockaddr_in& at) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  timeval limit = {.tv_sec = long(kMeetSecondsMax), .tv_usec = 0};
  setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0) die("bind()");
  if (listen(listener, 1) != 0) die("listen()");
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) die("nobody has dialled");
  close(listener);
  return fd;
}

int dial(const sockaddr_in& to) {
  const double end = bench_now() + kMeetSecondsMax;
  for (;;) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket()");
    if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) return fd;
    close(fd);
    if (bench_now() > end) die("nobody answers");
    usleep(10'000);
  }
}

// Calls `step` with what is left until nothing is; nobody there for long ends the process.
template <typename Byte, typename Step>
void spin(Byte* bytes, size_t size, const char* what, const Step& step) {
  double end = 0.0;
  for (int spins = 1; size > 0; ++spins) {
    const ssize_t moved = step(bytes, std::min(size, kCallBytes));
    if (moved > 0) {
      bytes += moved;
      size -= size_t(moved);
      continue;
    }
    if (moved == 0) {
      errno = ECONNRESET;
      die(what);
    }
    if (errno != EAGAIN && errno != EINTR) die(what);
    if (spins % kSpins != 0) continue;
    if (end == 0.0) end = bench_now() + kSilentSecondsMax;
    if (bench_now() > end) die(what);
  }
}

}  // namespace

PlainStream::PlainStream(int rank, const char* address, uint16_t port) : rank_(rank) {
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  if (inet_pton(AF_INET, address, &place.sin_addr) != 1) die(address);
  fd_ = rank == 0 ? listen_and_accept(place) : dial(place);
  const int yes = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK) != 0) die("fcntl()");
}

PlainStream::~PlainStream() { close(fd_); }

void PlainStream::send(const void* bytes, size_t size) {
  spin(static_cast<const std::byte*>(bytes), size, "send()",
       [&](const std::byte* at, size_t left) { return ::send(fd_, at, left, MSG_NOSIGNAL); });
}

void PlainStream::receive(void* bytes, size_t size) {
  spin(static_cast<std::byte*>(bytes), size, "recv()",
       [&](std::byte* at, size_t left) { return ::recv(fd_, at, left, 0); });
}

void PlainStream::meet() {
  char word = 0;
  if (rank_ == 0) send(&word, 1);
  receive(&word, 1);
  if (rank_ == 1) send(&word, 1);
}

}  // namespace sk_bench
