#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "transport/shm/endpoint.h"
#include "transport/shm/handshake.h"
#include "transport/shm/shm.h"

namespace sk {
namespace shm {
namespace {

// Ranks whose time is up tell each other so, which takes some more.
constexpr int64_t kReportGraceNs = 1'000'000'000;

// What a rank tells the others: how it fared, and first where it can be reached.
struct Report {
  int32_t code = SK_OK;
  uint32_t secondary = 0;     // Failed only because another rank did.
  uint32_t keep_sockets = 0;  // Sees deaths by sockets: peers must leave theirs open.
  char message[244] = {};
};
struct Offer {
  Report report;
  Secret name = {};
  Secret secret = {};
  SegmentLayout layout;
};
static_assert(std::is_trivially_copyable_v<Offer> && std::is_trivially_copyable_v<Report>);

Report report_of(const Status& status) {
  Report report;
  report.code = status.code();
  strncpy(report.message, status.message().c_str(), sizeof(report.message) - 1);
  return report;
}

// The failure that all ranks return: the first that is not a mere consequence.
Status verdict(const std::vector<Report>& reports) {
  const auto failed = [](const Report& report) { return report.code != SK_OK; };
  auto worst = std::find_if(reports.begin(), reports.end(), [&](const Report& report) {
    return failed(report) && report.secondary == 0;
  });
  if (worst == reports.end()) worst = std::find_if(reports.begin(), reports.end(), failed);
  if (worst == reports.end()) return {};
  const std::string message(worst->message, strnlen(worst->message, sizeof(worst->message)));
  return error(worst->code, "shared memory, rank {}: {}", worst - reports.begin(), message);
}

class Connector {
 public:
  Connector(Bootstrap& bootstrap, const SegmentLayout& layout, const ShmConfig& config)
      : bootstrap_(bootstrap),
        layout_(layout),
        config_(config),
        rank_(static_cast<uint32_t>(bootstrap.rank())),
        deadline_(std::chrono::steady_clock::now() + std::chrono::nanoseconds(config.timeout_ns)) {}

  Result<std::unique_ptr<Endpoint>> run();

 private:
  Status prepare(Offer& offer);
  Status meet(const std::vector<Offer>& offers);
  Status watch_peers();
  std::unique_ptr<Endpoint> finish(const std::vector<Report>& reports);

  // Gathers a T of every rank.
  template <typename T>
  Result<std::vector<T>> gather(const T& mine) {
    const auto left = std::chrono::nanoseconds(deadline_ - std::chrono::steady_clock::now());
    SK_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                        bootstrap_.allgather(std::as_bytes(std::span(&mine, 1)),
                                             std::max<int64_t>(left.count(), kReportGraceNs)));
    std::vector<T> all(layout_.world_size);
    if (bytes.size() != all.size() * sizeof(T)) {
      return error(SK_ERR_INTERNAL, "the bootstrap gathered {} bytes; {} were due", bytes.size(),
                   all.size() * sizeof(T));
    }
    memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }

  Bootstrap& bootstrap_;
  const SegmentLayout& layout_;
  const ShmConfig& config_;
  const uint32_t rank_;
  const Deadline deadline_;
  std::shared_ptr<Segment> own_;
  Secret secret_ = {};
  std::unique_ptr<Published> published_;
  Fd listener_;
  std::vector<PeerWatch> watches_;  // In rank order.
  std::vector<Peer> remote_;        // The ranks in other processes.
  std::vector<Fd> pending_;         // See exchange().
  Fd deaths_;                       // See ShmEndpoint.
  bool secondary_ = false;
};

Status Connector::prepare(Offer& offer) {
  offer.layout = layout_;
  SK_ASSIGN_OR_RETURN(own_, Segment::create(layout_));
  SK_ASSIGN_OR_RETURN(secret_, random_secret());
  SK_ASSIGN_OR_RETURN(offer.name, random_secret());
  offer.secret = secret_;
  published_ = std::make_unique<Published>(secret_, own_);
  SK_ASSIGN_OR_RETURN(listener_, listen_at(offer.name, layout_.world_size));
  return {};
}

Status Connector::meet(const std::vector<Offer>& offers) {
  for (uint32_t rank = 0; rank < offers.size(); ++rank) {
    if (rank == rank_) {
      watches_[rank].segment = own_;
    } else if (auto segment = Published::find(offers[rank].secret)) {
      watches_[rank].segment = std::move(segment);
    } else {
      Peer peer;
      peer.rank = rank;
      peer.name = offers[rank].name;
      peer.secret = offers[rank].secret;
      remote_.push_back(std::move(peer));
    }
  }
  const ExchangeInput input = {.rank = rank_,
                               .secret = secret_,
                               .own = *own_,
                               .layout = layout_,
                               .listener = listener_,
                               .deadline = deadline_,
                               .use_pidfd = !config_.hide_pidfd,
                               .cancel = bootstrap_.cancel()};
  SK_RETURN_IF_ERROR(exchange(input, remote_, pending_, secondary_));
  return watch_peers();
}

// Before the last report: it takes a descriptor, which may be lacking.
Status Connector::watch_peers() {
  if (remote_.empty()) return {};
  deaths_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!deaths_) return system_error("cannot watch the peers");
  for (const Peer& peer : remote_) {
    epoll_event event = {.events = EPOLLIN, .data = {.u32 = peer.rank}};
    const int fd = (peer.pidfd ? peer.pidfd : peer.incoming).get();
    if (epoll_ctl(deaths_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return system_error(fmt::format("cannot watch rank {}", peer.rank));
  }
  return {};
}

std::unique_ptr<Endpoint> Connector::finish(const std::vector<Report>& reports) {
  for (Peer& peer : remote_) {
    PeerWatch& watch = watches_[peer.rank];
    watch.segment = std::move(peer.segment);
    watch.process = peer.process;
    watch.fd = std::move(peer.pidfd ? peer.pidfd : peer.incoming);
    if (reports[peer.rank].keep_sockets != 0) watch.keep_open = std::move(peer.outgoing);
  }
  return std::make_unique<ShmEndpoint>(rank_, layout_, std::move(watches_), std::move(deaths_),
                                       config_.hide_mapped);
}

Result<std::unique_ptr<Endpoint>> Connector::run() {
  watches_.resize(layout_.world_size);
  if (layout_.world_size == 1) {
    SK_ASSIGN_OR_RETURN(watches_[0].segment, Segment::create(layout_));
    return finish({});
  }
  Offer offer;
  if (Status status = prepare(offer); !status.ok()) offer.report = report_of(status);
  SK_ASSIGN_OR_RETURN(const std::vector<Offer> offers, gather(offer));
  std::vector<Report> reports;
  for (const Offer& other : offers) reports.push_back(other.report);
  SK_RETURN_IF_ERROR(verdict(reports));
  for (uint32_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].layout == offers[0].layout) continue;
    return error(SK_ERR_DESYNC, "rank {} wants another segment layout than rank 0", rank);
  }

  // Every rank reports once more, also one that failed: the others are told why.
  Status met = meet(offers);
  Report report = report_of(met);
  report.secondary = secondary_ ? 1 : 0;
  for (const Peer& peer : remote_) report.keep_sockets |= peer.pidfd ? 0 : 1;
  // Hangs up, so that nobody waits for this rank. Not where another rank's end was the cause: all
  // are connected to that one and see it, and whoever saw this one hang up first would name it
  // instead.
  if (!met.ok() && !secondary_) {
    listener_.reset();
    remote_.clear();
    pending_.clear();
  }
  Result<std::vector<Report>> gathered = gather(report);
  // Where not all can report, what this rank has seen of it says more.
  if (!gathered.ok()) return std::move(met.ok() ? gathered.status() : met);
  SK_RETURN_IF_ERROR(verdict(*gathered));
  return finish(*gathered);
}

}  // namespace
}  // namespace shm

Result<std::unique_ptr<Endpoint>> connect_shm(Bootstrap& bootstrap, const SegmentLayout& layout,
                                              const ShmConfig& config) {
  if (layout.world_size != static_cast<uint32_t>(bootstrap.world_size())) {
    return error(SK_ERR_INVALID_ARGUMENT, "a layout for {} ranks in a world of {}",
                 layout.world_size, bootstrap.world_size());
  }
  const std::vector<int>& hosts = bootstrap.host_of();
  const auto away = std::find_if(hosts.begin(), hosts.end(), [](int host) { return host != 0; });
  if (away != hosts.end()) {
    return error(SK_ERR_UNSUPPORTED,
                 "shared memory reaches ranks of one host only; rank {} is on another than rank 0",
                 away - hosts.begin());
  }
  return shm::Connector(bootstrap, layout, config).run();
}

}  // namespace sk
