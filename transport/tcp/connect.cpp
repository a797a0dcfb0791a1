#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>
#include <utility>

#include "lib/base/descriptors.h"
#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/report.h"
#include "transport/tcp/eager.h"
#include "transport/tcp/endpoint.h"
#include "transport/tcp/epoll.h"
#include "transport/tcp/late.h"
#include "transport/tcp/meeting.h"
#include "transport/tcp/networks.h"
#include "transport/tcp/parting.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp.h"

namespace sk {
namespace tcp {
namespace {

constexpr size_t kAddressesMax = 8;
constexpr uint64_t kOwnDescriptors = 3;  // A listener, and what the driving thread sleeps in.
constexpr uint64_t kDescriptorsOfStrangers = 64;
constexpr uint64_t kDescriptorsToDial = 64;  // Of pairs that connect later; more when they do.

// Plain bytes, in the same form on every host.
struct Place {
  uint16_t family = 0;  // 4, 6; 0: none.
  uint16_t port = 0;
  std::array<std::byte, 16> address = {};
};

// What a rank tells the others: where it can be reached, and what nobody else knows of this
// meeting.
struct Offer {
  Report report;
  uint32_t wrapped = 0;
  uint32_t eager_ranks = 0;
  int64_t left_ns = 0;  // Of the time that it may take.
  std::array<Place, kAddressesMax> places = {};
  std::array<std::byte, 32> nonce = {};
};
static_assert(std::is_trivially_copyable_v<Offer>);

Place place_of(const Address& address) {
  Place place;
  if (address.family() == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address.storage);
    place.family = 4;
    place.port = ntohs(in->sin_port);
    memcpy(place.address.data(), &in->sin_addr, 4);
  } else {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    place.family = 6;
    place.port = ntohs(in6->sin6_port);
    memcpy(place.address.data(), &in6->sin6_addr, 16);
  }
  return place;
}

Address address_of(const Place& place) {
  Address address;
  if (place.family == 4) {
    auto* in = reinterpret_cast<sockaddr_in*>(&address.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(place.port);
    memcpy(&in->sin_addr, place.address.data(), 4);
    address.bytes = sizeof(*in);
  } else {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(place.port);
    memcpy(&in6->sin6_addr, place.address.data(), 16);
    address.bytes = sizeof(*in6);
  }
  return address;
}

class Connector {
 public:
  Connector(Bootstrap& bootstrap, const SegmentLayout& layout, const TcpConfig& config)
      : bootstrap_(bootstrap),
        layout_(layout),
        config_(config),
        rank_(uint32_t(bootstrap.rank())),
        eager_(eager_peers(bootstrap.host_of(), rank_, config.eager_ranks)),
        deadline_ns_(bootstrap_clock_ns() + config.timeout_ns) {}

  Result<std::unique_ptr<Endpoint>> run();

 private:
  Status make_room() const;
  Status prepare(Offer& offer);
  Status check_alike(const std::vector<Offer>& offers) const;
  Result<MeetingKey> key_of(const std::vector<Offer>& offers) const;
  Status meet(const std::vector<Offer>& offers);
  Status part();
  Result<std::unique_ptr<Endpoint>> finish(std::unique_ptr<Endpoint> local);
  Result<std::unique_ptr<stream::Joiner>> prepare_late(std::vector<stream::Remote>& remotes,
                                                       Epoll& epoll);

  template <typename T>
  Result<std::vector<T>> gather(const T& mine) {
    return gather_each(bootstrap_, mine, time_left_ns(deadline_ns_));
  }

  Bootstrap& bootstrap_;
  const SegmentLayout& layout_;
  const TcpConfig& config_;
  const uint32_t rank_;
  const std::vector<uint32_t> eager_;  // Whom this rank meets; others connect later.
  int64_t deadline_ns_;                // Of all, from their first gather on: the first one's.
  std::vector<SocketPtr> listeners_;
  std::vector<std::vector<Address>> addresses_;  // By rank.
  MeetingKey key_;
  std::vector<Met> met_;
  std::vector<uint8_t> missed_;  // A bit for each rank, of those that were not reached.
  std::vector<uint8_t> silent_;  // Likewise, of those whose connection of before fell silent.
};

// For a stream to each rank that it meets, and while they meet a second dial each and some of
// strangers; the ranks of this host are connected meanwhile.
Status Connector::make_room() const {
  const auto here = uint64_t(bootstrap_.local_size());
  const uint64_t far = eager_.size();
  const bool all = here + far == layout_.world_size;
  return make_room_for_descriptors(
      far + kOwnDescriptors + (all ? 0 : 1),
      2 * far + 2 * here + kAddressesMax + (all ? 0 : kDescriptorsToDial) + kDescriptorsOfStrangers,
      fmt::format("a rank with streams to {} ranks of other hosts", far));
}

Status Connector::prepare(Offer& offer) {
  offer.wrapped = config_.wrap ? 1 : 0;
  offer.eager_ranks = config_.eager_ranks;
  SK_RETURN_IF_ERROR(fill_random(offer.nonce));
  SK_ASSIGN_OR_RETURN(const auto ports, port_range(config_.ports));
  Address proven;
  const bool is_proven = bootstrap_.proven_address(proven);
  SK_ASSIGN_OR_RETURN(
      const std::vector<Address> addresses,
      own_addresses(config_.networks, kAddressesMax, is_proven ? &proven : nullptr));
  Status refused;
  for (const Address& address : addresses) {
    Address bound;
    Result<SocketPtr> listener = listen_at(address, ports.first, ports.second, &bound);
    if (!listener.ok()) {
      if (refused.ok()) refused = std::move(listener.status());  // It may be about to go.
      continue;
    }
    offer.places[listeners_.size()] = place_of(bound);
    listeners_.push_back(std::move(listener).value());
  }
  return listeners_.empty() ? std::move(refused) : Status();
}

// Of the secret, and of what each rank has drawn: of this meeting alone.
Result<MeetingKey> Connector::key_of(const std::vector<Offer>& offers) const {
  std::vector<std::byte> nonces;
  for (const Offer& offer : offers)
    nonces.insert(nonces.end(), offer.nonce.begin(), offer.nonce.end());
  MeetingKey key;
  SK_ASSIGN_OR_RETURN(key.bytes, hmac(as_bytes(config_.secret), {as_bytes("hosts meet"), nonces}));
  return key;
}

Status Connector::meet(const std::vector<Offer>& offers) {
  SK_ASSIGN_OR_RETURN(key_, key_of(offers));
  for (const Offer& offer : offers) {
    std::vector<Address>& addresses = addresses_.emplace_back();
    for (const Place& place : offer.places)
      if (place.family != 0) addresses.push_back(address_of(place));
  }
  MeetingInput input = {.rank = rank_,
                        .world_size = layout_.world_size,
                        .peers = eager_,
                        .addresses = addresses_,
                        .listeners = listeners_,
                        .key = key_,
                        .deadline_ns = deadline_ns_,
                        .bootstrap = bootstrap_,
                        .config = config_};
  SK_ASSIGN_OR_RETURN(Reached reached, tcp::meet(input));
  met_ = std::move(reached.met);
  silent_.assign((layout_.world_size + 7) / 8, 0);
  for (const uint32_t peer : reached.silent) silent_[peer / 8] |= uint8_t(1u << peer % 8);
  missed_.assign((layout_.world_size + 7) / 8, 0);
  for (const uint32_t peer : input.peers) missed_[peer / 8] |= uint8_t(1u << peer % 8);
  for (const Met& each : met_) missed_[each.rank / 8] &= uint8_t(~(1u << each.rank % 8));
  return {};
}

// Of those that have met before some may not reach each other any more: those go on who do, and
// meet anew. Nothing else may have failed.
Status Connector::part() {
  if (!bootstrap_.of_survivors()) return {};
  std::vector<uint8_t> mine = missed_;
  mine.insert(mine.end(), silent_.begin(), silent_.end());
  SK_ASSIGN_OR_RETURN(
      const std::vector<std::byte> all,
      bootstrap_.allgather(std::as_bytes(std::span(mine)), time_left_ns(deadline_ns_)));
  using Pairs = std::set<std::pair<uint32_t, uint32_t>>;
  Pairs missed, silent;
  for (uint32_t rank = 0; rank < layout_.world_size; ++rank) {
    const auto has = [&](size_t list, uint32_t other) {
      const size_t at = rank * mine.size() + list * missed_.size() + other / 8;
      return (all[at] >> other % 8 & std::byte{1}) != std::byte{0};
    };
    for (uint32_t other = 0; other < layout_.world_size; ++other) {
      if (has(0, other)) missed.insert(std::minmax(rank, other));
      if (has(1, other)) silent.insert(std::minmax(rank, other));
    }
  }
  // Who was heard a moment ago is late, and nobody is sent away for that.
  Pairs apart, late;
  for (const auto& pair : missed) (silent.contains(pair) ? apart : late).insert(pair);
  const auto launched = [&](uint32_t rank) { return bootstrap_.launched_as(int(rank)); };
  if (apart.empty() && !late.empty()) {
    return error(SK_ERR_TIMEOUT, "ranks {} and {} have not connected in time",
                 launched(late.begin()->first), launched(late.begin()->second));
  }
  if (apart.empty()) return {};
  std::vector<int> going;
  for (const uint32_t rank : who_goes(apart)) going.push_back(int(rank));
  bootstrap_.leave_out(going);
  const auto own = std::ranges::find_if(apart, [&](const auto& pair) {
    return (pair.first == rank_ || pair.second == rank_) &&
           std::ranges::find(going, int(rank_)) != going.end();
  });
  if (own != apart.end()) {
    const uint32_t other = own->first == rank_ ? own->second : own->first;
    return error(SK_ERR_TRANSPORT,
                 "rank {} does not reach rank {} any more, nor that it: the others go on without "
                 "rank {}",
                 launched(rank_), launched(other), launched(rank_));
  }
  const auto& [lower, higher] = *apart.begin();
  return error(SK_ERR_PEER_LOST, "ranks {} and {} do not reach each other any more",
               launched(lower), launched(higher));
}

Result<std::unique_ptr<Endpoint>> Connector::finish(std::unique_ptr<Endpoint> local) {
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Epoll> epoll, Epoll::make(layout_.world_size));
  std::vector<stream::Remote> remotes;
  for (Met& met : met_) {
    SK_RETURN_IF_ERROR(epoll->add(met.rank, met.pipe->fd()));
    remotes.push_back({met.rank, std::move(met.where), std::move(met.pipe)});
  }
  SK_ASSIGN_OR_RETURN(std::unique_ptr<stream::Joiner> joiner, prepare_late(remotes, *epoll));
  auto endpoint = std::make_unique<TcpEndpoint>(std::move(local), std::move(remotes),
                                                std::move(epoll), std::move(joiner));
  SK_RETURN_IF_ERROR(endpoint->start());
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

// Null where all have met.
Result<std::unique_ptr<stream::Joiner>> Connector::prepare_late(
    std::vector<stream::Remote>& remotes, Epoll& epoll) {
  const std::vector<int>& hosts = bootstrap_.host_of();
  LateInput input = {.rank = rank_,
                     .world_size = layout_.world_size,
                     .peers = {},
                     .addresses = std::move(addresses_),
                     .listeners = std::move(listeners_),
                     .key = key_,
                     .config = config_};
  for (uint32_t rank = 0; rank < layout_.world_size; ++rank) {
    if (hosts[rank] == hosts[rank_] || std::ranges::binary_search(eager_, rank)) continue;
    input.peers.push_back(rank);
    const std::vector<Address>& addresses = input.addresses[rank];
    remotes.push_back({rank, addresses.empty() ? "" : addresses[0].text(), nullptr});
  }
  input.config.secret.clear();  // The key is all that is needed of it.
  if (input.peers.empty()) return std::unique_ptr<stream::Joiner>();
  for (stream::Remote& remote : remotes) remote.host = uint32_t(hosts[remote.rank]);
  SK_ASSIGN_OR_RETURN(std::unique_ptr<LateJoiner> joiner,
                      LateJoiner::make(std::move(input), epoll));
  return std::unique_ptr<stream::Joiner>(std::move(joiner));
}

Status Connector::check_alike(const std::vector<Offer>& offers) const {
  for (uint32_t rank = 0; rank < offers.size(); ++rank) {
    const int first = bootstrap_.launched_as(0), other = bootstrap_.launched_as(int(rank));
    if (offers[rank].wrapped != offers[0].wrapped) {
      return error(SK_ERR_INVALID_ARGUMENT, "rank {} has SK_NET_TLS=0, and rank {} has not",
                   offers[0].wrapped == 0 ? first : other, offers[0].wrapped == 0 ? other : first);
    }
    if (offers[rank].eager_ranks != offers[0].eager_ranks) {
      return error(SK_ERR_INVALID_ARGUMENT,
                   "SK_NET_EAGER_RANKS is {} on rank {} and {} on rank {}: it must be the same",
                   offers[0].eager_ranks, first, offers[rank].eager_ranks, other);
    }
  }
  return {};
}

Result<std::unique_ptr<Endpoint>> Connector::run() {
  const Status room = make_room();
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Endpoint> local, config_.local(bootstrap_, layout_));
  Offer offer;
  offer.report = report_of(room.ok() ? prepare(offer) : room.clone());
  offer.left_ns = time_left_ns(deadline_ns_);
  SK_ASSIGN_OR_RETURN(const std::vector<Offer> offers, gather(offer));
  std::vector<Report> reports;
  for (const Offer& other : offers) {
    reports.push_back(other.report);
    deadline_ns_ = std::min(deadline_ns_, bootstrap_clock_ns() + other.left_ns);
  }
  SK_RETURN_IF_ERROR(verdict(bootstrap_, reports, "connecting hosts"));
  SK_RETURN_IF_ERROR(check_alike(offers));

  Status met = meet(offers);
  Result<std::unique_ptr<Endpoint>> endpoint = std::unique_ptr<Endpoint>();
  const bool all_met = std::ranges::all_of(missed_, [](uint8_t bits) { return bits == 0; });
  if (met.ok() && all_met) endpoint = finish(std::move(local));
  listeners_.clear();  // Where pairs connect later the endpoint has them.
  if (met.ok() && !endpoint.ok()) met = endpoint.status().clone();
  // Every rank reports once more, also one that failed: the others are told why. Who has not found
  // one that does not listen any more knows least.
  Report report = report_of(met);
  if (met.code() == SK_ERR_PEER_LOST) {
    report.code = SK_ERR_TRANSPORT;
    report.secondary = 1;
  }
  Result<std::vector<Report>> gathered = gather(report);
  if (!gathered.ok()) return std::move(met.ok() ? gathered.status() : met);
  SK_RETURN_IF_ERROR(verdict(bootstrap_, *gathered, "connecting hosts"));
  SK_RETURN_IF_ERROR(part());
  return endpoint;
}

}  // namespace
}  // namespace tcp

Result<std::unique_ptr<Endpoint>> connect_tcp(Bootstrap& bootstrap, const SegmentLayout& layout,
                                              const TcpConfig& config) {
  if (layout.world_size != uint32_t(bootstrap.world_size())) {
    return error(SK_ERR_INVALID_ARGUMENT, "a layout for {} ranks in a world of {}",
                 layout.world_size, bootstrap.world_size());
  }
  return tcp::Connector(bootstrap, layout, config).run();
}

}  // namespace sk
