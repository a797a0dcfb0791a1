// The bar of the transport between hosts: one socket, and a process that does nothing but use it.
//
// The socket does not block, and whoever waits spins, as libsk's waits do. The same connection
// carries what the two programs have to agree on.
#ifndef SK_BENCH_NET_PLAIN_STREAM_H_
#define SK_BENCH_NET_PLAIN_STREAM_H_

#include <cstddef>
#include <cstdint>

namespace sk_bench {

class PlainStream {
 public:
  // Rank 0 listens at `port`; rank 1 dials `address` until that answers. Ends the process with a
  // sentence where nothing comes of it.
  PlainStream(int rank, const char* address, uint16_t port);
  ~PlainStream();
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  // All of it, or the process ends.
  void send(const void* bytes, size_t size);
  void receive(void* bytes, size_t size);
  // Both are here.
  void meet();

 private:
  int fd_ = -1;
  const int rank_;
};

}  // namespace sk_bench

#endif  // SK_BENCH_NET_PLAIN_STREAM_H_
