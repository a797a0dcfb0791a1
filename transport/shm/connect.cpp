#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "transport/bootstrap/report.h"
#include "transport/shm/control.h"
#include "transport/shm/endpoint.h"
#include "transport/shm/join.h"
#include "transport/shm/process_name.h"
#include "transport/shm/shm.h"

namespace sk {
namespace shm {
namespace {

// Ranks whose time is up tell each other so, which takes some more.
constexpr int64_t kReportGraceNs = 1'000'000'000;

// What a rank tells the others first. In its last report the flag says that it sees ends by
// connections: they are to be left open.
struct Offer {
  Report report;
  Contact contact = {};
  SegmentLayout layout;
};
static_assert(std::is_trivially_copyable_v<Offer> && std::is_trivially_copyable_v<Report>);

class Connector {
 public:
  Connector(Bootstrap& bootstrap, const SegmentLayout& layout, const ShmConfig& config)
      : bootstrap_(bootstrap),
        layout_(layout),
        config_(config),
        rank_(static_cast<uint32_t>(bootstrap.rank())),
        deadline_(std::chrono::steady_clock::now() + std::chrono::nanoseconds(config.timeout_ns)) {
    const std::vector<int>& hosts = bootstrap.host_of();
    for (uint32_t rank = 0; rank < layout.world_size; ++rank)
      if (hosts[rank] == hosts[rank_]) ranks_.push_back(rank);
    leader_ = ranks_[0];
  }

  Result<std::unique_ptr<Endpoint>> run();

 private:
  Status prepare(Offer& offer);
  Status join(const std::vector<Offer>& offers);
  Status begin_control();
  std::unique_ptr<Endpoint> finish();

  template <typename T>
  Result<std::vector<T>> gather(const T& mine) {
    const auto left = std::chrono::nanoseconds(deadline_ - std::chrono::steady_clock::now());
    return gather_each(bootstrap_, mine, std::max<int64_t>(left.count(), kReportGraceNs));
  }

  Bootstrap& bootstrap_;
  const SegmentLayout& layout_;
  const ShmConfig& config_;
  const uint32_t rank_;
  const Deadline deadline_;
  std::vector<uint32_t> ranks_;  // Of this host.
  uint32_t leader_ = 0;          // The lowest of them.
  ProcessName process_;
  std::unique_ptr<Published> published_;
  Fd listener_;
  Joined joined_;
};

Status Connector::prepare(Offer& offer) {
  offer.layout = layout_;
  SK_ASSIGN_OR_RETURN(process_, own_process_name());
  offer.contact.process = process_;
  std::shared_ptr<SharedMemory>& own = joined_.segments[rank_];
  SK_ASSIGN_OR_RETURN(own, SharedMemory::create(layout_.bytes(), SharedMemory::Pages::kHuge));
  if (rank_ == leader_) {
    SK_ASSIGN_OR_RETURN(joined_.control, SharedMemory::create(control_file_bytes(layout_),
                                                              SharedMemory::Pages::kSmall));
    joined_.mapped_control = true;
    SK_RETURN_IF_ERROR(joined_.control->commit(0, control_block_offset(0, layout_)));
    host_header(*joined_.control).watcher.store(leader_, std::memory_order_relaxed);
  }
  if (ranks_.size() == 1) return {};
  SK_ASSIGN_OR_RETURN(offer.contact.secret, random_secret());
  SK_ASSIGN_OR_RETURN(offer.contact.name, random_secret());
  published_ = std::make_unique<Published>(offer.contact.secret, Mappings{own, joined_.control});
  // Any user may knock, so there is room for more than the ranks; the kernel cuts what is too much.
  SK_ASSIGN_OR_RETURN(listener_,
                      listen_at(offer.contact.name, static_cast<int>(ranks_.size()) + SOMAXCONN));
  return {};
}

// Ranks that are all threads of this process have each other's mappings already.
Status Connector::join(const std::vector<Offer>& offers) {
  std::vector<Contact> contacts;
  bool all_here = true;
  for (const Offer& offer : offers) contacts.push_back(offer.contact);
  for (const uint32_t rank : ranks_) {
    if (rank == rank_) continue;
    Mappings here = Published::find(offers[rank].contact.secret);
    all_here = all_here && here.segment != nullptr;
    joined_.segments[rank] = std::move(here.segment);
    if (rank == leader_) joined_.control = std::move(here.control);
  }
  if (!all_here) {
    const JoinInput input = {.rank = rank_,
                             .ranks = ranks_,
                             .contacts = contacts,
                             .layout = layout_,
                             .listener = listener_,
                             .deadline = deadline_,
                             .use_pidfd = !config_.hide_pidfd,
                             .cancel = bootstrap_.cancel()};
    SK_RETURN_IF_ERROR(rank_ == leader_ ? lead(input, joined_) : follow(input, joined_));
  }
  return begin_control();
}

// Each commits its own block, so that it counts for its own control group.
Status Connector::begin_control() {
  SK_RETURN_IF_ERROR(
      joined_.control->commit(control_block_offset(rank_, layout_), layout_.control_bytes()));
  control_block(*joined_.control, rank_, layout_).header->process = process_;
  return {};
}

std::unique_ptr<Endpoint> Connector::finish() {
  // Committed by all. Ranks of one process share it, so only one of them closes it.
  if (joined_.mapped_control) joined_.control->close_descriptor();
  return std::make_unique<ShmEndpoint>(rank_, ranks_, layout_, std::move(joined_), config_);
}

Result<std::unique_ptr<Endpoint>> Connector::run() {
  joined_.segments.resize(layout_.world_size);
  Offer offer;
  Status prepared = prepare(offer);
  if (layout_.world_size == 1) {
    SK_RETURN_IF_ERROR(std::move(prepared));
    SK_RETURN_IF_ERROR(begin_control());
    return finish();
  }
  if (!prepared.ok()) offer.report = report_of(prepared);
  SK_ASSIGN_OR_RETURN(const std::vector<Offer> offers, gather(offer));
  std::vector<Report> reports;
  for (const Offer& other : offers) reports.push_back(other.report);
  SK_RETURN_IF_ERROR(verdict(bootstrap_, reports, "shared memory"));
  for (uint32_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].layout == offers[0].layout) continue;
    return error(SK_ERR_DESYNC, "rank {} wants another segment layout than rank 0", rank);
  }

  // Every rank reports once more, also one that failed: the others are told why.
  Status joined = join(offers);
  Report report = report_of(joined);
  report.secondary = joined_.secondary ? 1 : 0;
  report.flag = joined_.by_connection ? 1 : 0;
  if (!joined.ok()) {  // Hangs up, so that nobody waits for this rank.
    listener_.reset();
    joined_.connections.clear();
  }
  Result<std::vector<Report>> gathered = gather(report);
  // Where not all can report, what this rank has seen of it says more.
  if (!gathered.ok()) return std::move(joined.ok() ? gathered.status() : joined);
  SK_RETURN_IF_ERROR(verdict(bootstrap_, *gathered, "shared memory"));
  const bool keep = std::any_of(gathered->begin(), gathered->end(),
                                [](const Report& each) { return each.flag != 0; });
  if (!keep) joined_.connections.clear();
  return finish();
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
  if (away != hosts.end() && !config.one_of_several) {
    return error(SK_ERR_UNSUPPORTED,
                 "shared memory reaches ranks of one host only; rank {} is on another than rank 0",
                 away - hosts.begin());
  }
  return shm::Connector(bootstrap, layout, config).run();
}

}  // namespace sk
