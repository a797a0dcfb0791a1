// What a link between two hosts gives libsk's sessions, beside a plain socket on the same link, in
// turn in one run: 8 bytes there and back, and a stream of puts into the peer's segment. The plain
// stream reads into the very same memory. Beside the stream within TLS, what encryption costs.
//
// Rank 0 prints JSON lines; "us" are of a round trip, or of a MiB of a stream.
//
// usage: hosts_link_bench RANK ADDRESS PORT BATCHES TRIPS MIB   one in each host, ADDRESS rank 0's
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/e2e/harness.h"
#include "bench/net/gcm.h"
#include "bench/net/plain_stream.h"
#include "transport/bootstrap/bootstrap.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/tls/tls.h"

namespace sk {
namespace {

using sk_bench::PlainStream;

constexpr int64_t kTimeoutNs = 30'000'000'000;
constexpr size_t kMib = size_t{1} << 20;
constexpr size_t kRegionBytes = 4 * kMib;  // Which a stream goes over again and again.
constexpr size_t kPutSizes[] = {64 << 10, kMib};
constexpr size_t kTripBytes = 8;
constexpr uint32_t kTripSignal = 0, kStreamSignal = 1, kDoneSignal = 2;

struct Gathering {
  PlainStream* plain;
  int rank;
};

int32_t gather(void* user, const void* in, size_t bytes, void* out) {
  const auto& [plain, rank] = *static_cast<Gathering*>(user);
  auto* all = static_cast<std::byte*>(out);
  memcpy(all + size_t(rank) * bytes, in, bytes);
  if (rank == 0) plain->send(in, bytes);
  plain->receive(all + size_t(1 - rank) * bytes, bytes);
  if (rank == 1) plain->send(in, bytes);
  return 0;
}

Result<std::unique_ptr<stream::Pipe>> within_tls(std::unique_ptr<stream::Pipe> pipe, bool dials,
                                                 std::span<const std::byte> key) {
  return tls::make_tls(std::move(pipe), dials ? tls::Side::kDials : tls::Side::kAccepts, key,
                       "hosts_link_bench");
}

Result<std::unique_ptr<Endpoint>> connect(Gathering& gathering, bool tls) {
  BootstrapConfig how;
  how.kind = SK_BOOTSTRAP_CALLBACK;
  how.rank = gathering.rank;
  how.world_size = 2;
  how.allgather = gather;
  how.user = &gathering;
  SK_ASSIGN_OR_RETURN(const auto bootstrap, make_bootstrap(how));
  TcpConfig config;
  config.timeout_ns = kTimeoutNs;
  config.secret = "nobody else is on this link";
  if (tls) config.wrap = within_tls;
  config.local = [](Bootstrap& all, const SegmentLayout& of_all) {
    return connect_shm(all, of_all,
                       {.timeout_ns = kTimeoutNs, .hide_mapped = true, .one_of_several = true});
  };
  const SegmentLayout layout = {.world_size = 2, .workspace_bytes_max = kRegionBytes};
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_tcp(*bootstrap, layout, config));
  SK_RETURN_IF_ERROR(endpoint->commit(layout.workspace_offset(), kRegionBytes));
  memset(endpoint->segment() + layout.workspace_offset(), 0, kRegionBytes);
  return endpoint;
}

// One end of sessions between the two, and how their figures are taken.
class Sessions {
 public:
  Sessions(std::unique_ptr<Endpoint> endpoint, std::span<const std::byte> source)
      : endpoint_(std::move(endpoint)),
        rank_(int(endpoint_->rank())),
        peer_(endpoint_->session(uint32_t(1 - rank_))),
        source_(source) {}

  std::byte* region() { return endpoint_->segment() + endpoint_->layout().workspace_offset(); }

  Status trips(int count) {
    for (int i = 0; i < count; ++i) {
      ++trips_;
      if (rank_ == 0) SK_RETURN_IF_ERROR(put(0, kTripBytes, kTripSignal));
      SK_RETURN_IF_ERROR(await(kTripSignal, trips_));
      if (rank_ == 1) SK_RETURN_IF_ERROR(put(0, kTripBytes, kTripSignal));
    }
    return {};
  }

  // From rank 0 to rank 1, which says when it has all.
  Status stream(size_t bytes, size_t put_bytes) {
    for (size_t done = 0; done < bytes; done += put_bytes) {
      ++puts_;
      if (rank_ == 0) SK_RETURN_IF_ERROR(put(done % kRegionBytes, put_bytes, kStreamSignal));
    }
    ++streams_;
    if (rank_ == 0) return await(kDoneSignal, streams_);
    SK_RETURN_IF_ERROR(await(kStreamSignal, puts_));
    return peer_.post(kDoneSignal, 1);
  }

 private:
  Status put(size_t at, size_t bytes, uint32_t signal) {
    const PutTarget target = {endpoint_->layout().workspace_offset() + at};
    for (;;) {
      SK_ASSIGN_OR_RETURN(const Sent sent,
                          peer_.put(target, source_.data() + at, bytes, signal, 1));
      if (sent != Sent::kAgain) return {};
      endpoint_->progress();
    }
  }
  Status await(uint32_t signal, uint64_t count) {
    const std::atomic<uint64_t>& word = endpoint_->signals()[signal].value;
    for (uint32_t looks = 1; word.load(std::memory_order_acquire) < count; ++looks) {
      endpoint_->progress();
      if (looks % 4096 == 0) SK_RETURN_IF_ERROR(endpoint_->check());
    }
    return {};
  }

  const std::unique_ptr<Endpoint> endpoint_;
  const int rank_;
  Session& peer_;
  const std::span<const std::byte> source_;
  uint64_t trips_ = 0, puts_ = 0, streams_ = 0;
};

void plain_trips(PlainStream& plain, int rank, int count) {
  char bytes[kTripBytes] = {};
  for (int i = 0; i < count; ++i) {
    if (rank == 0) plain.send(bytes, sizeof(bytes));
    plain.receive(bytes, sizeof(bytes));
    if (rank == 1) plain.send(bytes, sizeof(bytes));
  }
}

void plain_stream(PlainStream& plain, int rank, std::span<const std::byte> source, std::byte* to,
                  size_t bytes, size_t part) {
  char word = 0;
  for (size_t done = 0; done < bytes; done += part) {
    const size_t at = done % kRegionBytes;
    if (rank == 0) plain.send(source.data() + at, part);
    if (rank == 1) plain.receive(to + at, part);
  }
  if (rank == 1) plain.send(&word, 1);
  if (rank == 0) plain.receive(&word, 1);
}

struct Plan {
  int batches = 0, trips = 0, mib = 0;
};

Status run(PlainStream& plain, int rank, const Plan& plan) {
  std::vector<std::byte> source(kRegionBytes);
  for (size_t i = 0; i < source.size(); ++i) source[i] = std::byte(i * 2654435761u >> 13);
  Gathering gathering = {&plain, rank};
  SK_ASSIGN_OR_RETURN(auto bare, connect(gathering, false));
  SK_ASSIGN_OR_RETURN(auto encrypted, connect(gathering, true));
  Sessions tcp(std::move(bare), source), tls(std::move(encrypted), source);
  sk_bench::Gcm gcm(rank == 0);
  bench_pin(rank);

  std::map<std::string, std::vector<double>> figures;
  Status failed;
  const auto timed = [&](const std::string& name, double parts, const auto& play) {
    if (!failed.ok()) return;
    plain.meet();
    const double start = bench_now();
    failed = play();
    figures[name].push_back((bench_now() - start) * 1e6 / parts);
  };
  // Once before: who drives an endpoint that has rested is waking up by then.
  const auto trips = [&](const std::string& name, const auto& play) {
    if (failed.ok()) failed = play();
    timed("trip, " + name, plan.trips, play);
  };
  // What came is checked, and gone before the next comes.
  const auto stream = [&](const std::string& name, size_t part, std::byte* to, const auto& play) {
    timed(fmt::format("stream of {} KiB, {}", part >> 10, name), plan.mib, play);
    if (rank == 0 || !failed.ok()) return;
    if (memcmp(to, source.data(), kRegionBytes) != 0)
      failed = error(SK_ERR_INTERNAL, "{}: other bytes came than were sent", name);
    memset(to, 0, kRegionBytes);
  };
  const auto plainly = [](const auto& play) {
    return [&play] {
      play();
      return Status();
    };
  };

  const size_t bytes = size_t(plan.mib) * kMib;
  for (int batch = 0; batch <= plan.batches && failed.ok(); ++batch) {
    if (batch == 1) figures.clear();  // The first one warms up.
    trips("plain", plainly([&] { plain_trips(plain, rank, plan.trips); }));
    trips("tcp", [&] { return tcp.trips(plan.trips); });
    trips("tls", [&] { return tls.trips(plan.trips); });
    for (const size_t part : kPutSizes) {
      stream("plain", part, tcp.region(),
             plainly([&] { plain_stream(plain, rank, source, tcp.region(), bytes, part); }));
      stream("tcp", part, tcp.region(), [&] { return tcp.stream(bytes, part); });
      stream("tls", part, tls.region(), [&] { return tls.stream(bytes, part); });
    }
    plain.meet();
    figures[rank == 0 ? "gcm, sealed" : "gcm, opened"].push_back(gcm.us_per_mib(plan.mib / 2));
  }
  SK_RETURN_IF_ERROR(std::move(failed));
  for (const auto& [name, us] : figures) {
    if (rank == 0 || name.starts_with("gcm"))
      fmt::print("{{\"case\": \"{}\", \"us\": [{:.3f}]}}\n", name, fmt::join(us, ", "));
  }
  plain.meet();  // Nobody leaves while the other may still wait.
  return {};
}

}  // namespace
}  // namespace sk

int main(int argc, char** argv) {
  sk::Plan plan;
  if (argc == 7) plan = {std::atoi(argv[4]), std::atoi(argv[5]), std::atoi(argv[6])};
  const int rank = argc == 7 ? std::atoi(argv[1]) : -1;
  const bool whole = plan.mib > 0 && size_t(plan.mib) * sk::kMib % sk::kRegionBytes == 0;
  if (rank < 0 || rank > 1 || plan.batches < 1 || plan.trips < 1 || !whole) {
    fmt::print(stderr,
               "usage: hosts_link_bench RANK(0|1) ADDRESS PORT BATCHES TRIPS MIB(a multiple of "
               "4)\n");
    return 2;
  }
  sk_bench::PlainStream plain(rank, argv[2], uint16_t(std::atoi(argv[3])));
  const sk::Status status = sk::run(plain, rank, plan);
  if (!status.ok()) fmt::print(stderr, "hosts_link_bench: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
