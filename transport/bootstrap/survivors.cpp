// Those that are left of a job's ranks, numbered anew: a view of the bootstrap in which they met,
// where the hub has zeros for everybody else.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/report.h"

namespace sk {
namespace {

constexpr size_t kHostIdBytes = 16;

// What each gives, plain bytes; of who is gone all is 0.
struct Presence {
  uint16_t here = 1;
  uint16_t lost_count = 0;
  std::array<uint16_t, 30> lost = {};  // To whom its connection was lost; of more the first ones.
};

class SurvivorsBootstrap final : public Bootstrap {
 public:
  SurvivorsBootstrap(std::unique_ptr<Bootstrap> all, std::vector<int> left,
                     const std::vector<Presence>& told, const BootstrapConfig& config)
      : Bootstrap(int(std::lower_bound(left.begin(), left.end(), all->rank()) - left.begin()),
                  int(left.size()), config.cancel),
        all_(std::move(all)),
        left_(std::move(left)),
        leave_out_(config.leave_out) {
    for (const int rank : left_) {
      const Presence& presence = told[size_t(rank)];
      for (size_t i = 0; i < std::min<size_t>(presence.lost_count, presence.lost.size()); ++i)
        lost_.insert(std::minmax<int>(rank, presence.lost[i]));
    }
    std::erase_if(lost_, [&](const std::pair<int, int>& pair) {
      return !std::ranges::binary_search(left_, pair.first) ||
             !std::ranges::binary_search(left_, pair.second);
    });
    std::vector<std::byte> host_ids(left_.size() * kHostIdBytes);
    for (size_t i = 0; i < left_.size(); ++i) {
      const int host = all_->host_of()[size_t(left_[i])];
      std::memcpy(&host_ids[i * kHostIdBytes], &host, sizeof(host));
    }
    place(host_ids);
  }

  int launched_as(int rank) const override { return left_[size_t(rank)]; }
  int launched_count() const override { return all_->world_size(); }
  bool was_lost(int rank, int other) const override {
    return lost_.contains(std::minmax<int>(launched_as(rank), launched_as(other)));
  }
  bool any_lost() const override { return !lost_.empty(); }
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

  void add_polls(std::vector<pollfd>& polls) const override { all_->add_polls(polls); }
  Status news() override { return all_->news(); }

 private:
  const std::unique_ptr<Bootstrap> all_;
  const std::vector<int> left_;  // Ranks of `all_`, ascending.
  const std::function<void(int)> leave_out_;
  std::set<std::pair<int, int>> lost_;  // Of those in `left_`, the lesser first.
};

}  // namespace

BootstrapResult make_survivors_bootstrap(std::unique_ptr<Bootstrap> all,
                                         const BootstrapConfig& config) {
  Presence mine;
  for (int rank = 0; rank < all->world_size() && mine.lost_count < mine.lost.size(); ++rank)
    if (rank != all->rank() && config.gone(rank) == Gone::kUnreachable)
      mine.lost[mine.lost_count++] = uint16_t(rank);
  SK_ASSIGN_OR_RETURN(const std::vector<Presence> told, gather_each(*all, mine, config.timeout_ns));
  std::vector<int> left;
  for (size_t rank = 0; rank < told.size(); ++rank)
    if (told[rank].here != 0) left.push_back(int(rank));
  return std::unique_ptr<Bootstrap>(
      std::make_unique<SurvivorsBootstrap>(std::move(all), std::move(left), told, config));
}

}  // namespace sk
