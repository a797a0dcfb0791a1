// Those that are left of a job's ranks, numbered anew: a view of the bootstrap in which they met,
// where the hub has zeros for everybody else.
#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/report.h"

namespace sk {
namespace {

constexpr size_t kHostIdBytes = 16;

class SurvivorsBootstrap final : public Bootstrap {
 public:
  SurvivorsBootstrap(std::unique_ptr<Bootstrap> all, std::vector<int> left,
                     const BootstrapConfig& config)
      : Bootstrap(int(std::lower_bound(left.begin(), left.end(), all->rank()) - left.begin()),
                  int(left.size()), config.cancel),
        all_(std::move(all)),
        left_(std::move(left)),
        gone_(config.gone),
        leave_out_(config.leave_out) {
    std::vector<std::byte> host_ids(left_.size() * kHostIdBytes);
    for (size_t i = 0; i < left_.size(); ++i) {
      const int host = all_->host_of()[size_t(left_[i])];
      std::memcpy(&host_ids[i * kHostIdBytes], &host, sizeof(host));
    }
    place(host_ids);
  }

  int launched_as(int rank) const override { return left_[size_t(rank)]; }
  int launched_count() const override { return all_->world_size(); }
  bool of_survivors() const override { return true; }
  Gone gone(int rank) const override { return gone_(launched_as(rank)); }
  void leave_out(std::span<const int> ranks) override {
    for (const int rank : ranks)
      if (leave_out_) leave_out_(launched_as(rank));
  }

  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override {
    SK_ASSIGN_OR_RETURN(const std::vector<std::byte> whole, all_->allgather(mine, timeout_ns));
    std::vector<std::byte> out;
    out.reserve(left_.size() * mine.size());
    for (const int rank : left_) {
      const auto part = whole.begin() + int64_t(size_t(rank) * mine.size());
      out.insert(out.end(), part, part + int64_t(mine.size()));
    }
    return out;
  }

  bool proven_address(Address& out) const override { return all_->proven_address(out); }
  void add_polls(std::vector<pollfd>& polls) const override { all_->add_polls(polls); }
  Status news() override { return all_->news(); }

 private:
  const std::unique_ptr<Bootstrap> all_;
  const std::vector<int> left_;  // Ranks of `all_`, ascending.
  const std::function<Gone(int)> gone_;
  const std::function<void(int)> leave_out_;
};

}  // namespace

BootstrapResult make_survivors_bootstrap(std::unique_ptr<Bootstrap> all,
                                         const BootstrapConfig& config, int64_t timeout_ns) {
  SK_ASSIGN_OR_RETURN(const std::vector<uint8_t> here, gather_each<uint8_t>(*all, 1, timeout_ns));
  std::vector<int> left;
  for (size_t rank = 0; rank < here.size(); ++rank)
    if (here[rank] != 0) left.push_back(int(rank));
  return std::unique_ptr<Bootstrap>(
      std::make_unique<SurvivorsBootstrap>(std::move(all), std::move(left), config));
}

}  // namespace sk
