// The ranks of a bootstrap as if so many of them shared a host each, and were reached over the
// loopback from the others.
#ifndef SK_TESTS_SUPPORT_APART_H_
#define SK_TESTS_SUPPORT_APART_H_

#include <memory>
#include <vector>

#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/tls/tls.h"

namespace sk::testing_support {

class Apart final : public Bootstrap {
 public:
  Apart(Bootstrap& inner, int ranks_per_host)
      : Bootstrap(inner.rank(), inner.world_size()), inner_(inner) {
    std::vector<std::byte> hosts(size_t(world_size()) * 16);
    for (int rank = 0; rank < world_size(); ++rank)
      hosts[size_t(rank) * 16] = std::byte(rank / ranks_per_host);
    place(hosts);
  }
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override {
    return inner_.allgather(mine, timeout_ns);
  }
  void add_polls(std::vector<pollfd>& polls) const override { inner_.add_polls(polls); }
  Status news() override { return inner_.news(); }

 private:
  Bootstrap& inner_;
};

inline Result<std::unique_ptr<Endpoint>> connect_apart(Bootstrap& bootstrap,
                                                       const SegmentLayout& layout,
                                                       int ranks_per_host, int64_t timeout_ns,
                                                       bool tls = false,
                                                       uint32_t eager_ranks = kEagerRanks) {
  Apart apart(bootstrap, ranks_per_host);
  TcpConfig config;
  config.timeout_ns = timeout_ns;
  config.networks = "127.0.0.0/8";
  config.eager_ranks = eager_ranks;
  config.secret = "sixteen bytes and more";
  if (tls) {
    config.wrap = [](std::unique_ptr<stream::Pipe> pipe, bool dials,
                     std::span<const std::byte> key) {
      return tls::make_tls(std::move(pipe), dials ? tls::Side::kDials : tls::Side::kAccepts, key,
                           "ranks apart");
    };
  }
  config.local = [timeout_ns](Bootstrap& all, const SegmentLayout& of_all) {
    return connect_shm(all, of_all,
                       {.timeout_ns = timeout_ns, .hide_mapped = true, .one_of_several = true});
  };
  return connect_tcp(apart, layout, config);
}

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_APART_H_
