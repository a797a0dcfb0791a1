// What an all-reduce sends from host to host, counted and not timed: bytes and packets at this
// host's device, and segments with data (the kernel sends a small message as one) to each address.
//
// Every rank prints a JSON line for each size: of one call, on the average. What meeting before and
// behind the calls sends is taken off.
//
// usage: hosts_counts_bench SIZES CALLS   one for each rank, as the environment says
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "bench/e2e/harness.h"
#include "sk.h"

namespace {

void must(sk_status status, const char* what) {
  if (status == SK_OK) return;
  fprintf(stderr, "%s: %s\n", what, sk_last_error());
  exit(1);
}

struct Counts {
  uint64_t bytes = 0, packets = 0;           // That left this host.
  std::map<std::string, uint64_t> segments;  // With data, from this rank: by address.
};

uint64_t counter(const char* name) {
  std::ifstream file(std::string("/sys/class/net/sk0/statistics/tx_") + name);
  uint64_t value = 0;
  if (file >> value) return value;
  fprintf(stderr, "hosts_counts_bench: sk0 has no tx_%s\n", name);
  exit(1);
}

void count_segments(int fd, std::map<std::string, uint64_t>& segments) {
  sockaddr_in to = {};
  socklen_t size = sizeof(to);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&to), &size) != 0 || to.sin_family != AF_INET)
    return;
  tcp_info info = {};
  size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  char text[INET_ADDRSTRLEN];
  segments[inet_ntop(AF_INET, &to.sin_addr, text, sizeof(text))] += info.tcpi_data_segs_out;
}

Counts counts() {
  Counts now = {counter("bytes"), counter("packets"), {}};
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count_segments(std::atoi(entry.path().filename().c_str()), now.segments);
  return now;
}

// Of `calls` all-reduces of `count` numbers, and of meeting twice.
Counts count_calls(sk_comm* comm, int64_t count, int calls) {
  const std::vector<float> in(static_cast<size_t>(count), 1.0f);
  std::vector<float> out(in.size());
  must(sk_barrier(comm, nullptr), "sk_barrier");
  const Counts before = counts();
  must(sk_barrier(comm, nullptr), "sk_barrier");
  for (int i = 0; i < calls; ++i)
    must(sk_allreduce(comm, in.data(), out.data(), count, SK_F32, SK_SUM, nullptr), "sk_allreduce");
  must(sk_barrier(comm, nullptr), "sk_barrier");
  Counts after = counts();
  after.bytes -= before.bytes;
  after.packets -= before.packets;
  for (auto& [address, segments] : after.segments)
    if (const auto was = before.segments.find(address); was != before.segments.end())
      segments -= was->second;
  return after;
}

void report(const sk_comm_info& info, int64_t bytes, const Counts& few, const Counts& many,
            int calls) {
  const auto each = [&](uint64_t a, uint64_t b) { return (double(b) - double(a)) / calls; };
  printf(
      "{\"case\": \"counts\", \"rank\": %d, \"bytes\": %lld, \"sent_bytes\": %.1f, "
      "\"sent_packets\": %.2f, \"segments\": {",
      info.rank, static_cast<long long>(bytes), each(few.bytes, many.bytes),
      each(few.packets, many.packets));
  const char* comma = "";
  for (const auto& [address, segments] : many.segments) {
    const auto was = few.segments.find(address);
    printf("%s\"%s\": %.2f", comma, address.c_str(),
           each(was == few.segments.end() ? 0 : was->second, segments));
    comma = ", ";
  }
  printf("}}\n");
}

}  // namespace

int main(int argc, char** argv) {
  int64_t sizes[16];
  const int size_count = argc == 3 ? bench_parse_list(argv[1], sizes, 16) : -1;
  const int calls = argc == 3 ? std::atoi(argv[2]) : 0;
  if (size_count <= 0 || calls < 1) {
    fprintf(stderr, "usage: hosts_counts_bench SIZES CALLS\n");
    return 2;
  }
  sk_context* context = nullptr;
  sk_comm* comm = nullptr;
  must(sk_init(nullptr, &context), "sk_init");
  sk_comm_config config = {};
  config.struct_size = sizeof(config);
  config.bootstrap = SK_BOOTSTRAP_ENV;
  must(sk_comm_create(context, &config, &comm), "sk_comm_create");
  sk_comm_info info = {};
  info.struct_size = sizeof(info);
  must(sk_comm_query(comm, &info), "sk_comm_query");
  for (int i = 0; i < size_count; ++i) {
    const int64_t count = sizes[i] / int64_t(sizeof(float));
    (void)count_calls(comm, count, 1);  // Makes its plan.
    const Counts few = count_calls(comm, count, 1);
    report(info, sizes[i], few, count_calls(comm, count, 1 + calls), calls);
  }
  must(sk_comm_free(comm), "sk_comm_free");
  return sk_finalize(context) == SK_OK ? 0 : 1;
}
