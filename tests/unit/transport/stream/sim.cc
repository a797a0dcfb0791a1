#include "tests/unit/transport/stream/sim.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/support/alone.h"

namespace sk::stream::sim {

using testing_support::Alone;

class SimPipe final : public Pipe {
 public:
  SimPipe(World& world, uint32_t own, uint32_t peer) : world_(world), own_(own), peer_(peer) {}
  ~SimPipe() override { out().closed = true; }

  Result<size_t> send(std::span<const iovec> parts) override {
    Stream& to = out();
    if (in().closed && !world_.alive(peer_)) return error(SK_ERR_PEER_LOST, "it is closed");
    size_t room =
        world_.settings_.room_bytes - std::min(world_.settings_.room_bytes, to.bytes.size());
    room = std::min<size_t>(room, 1 + world_.draw(world_.settings_.piece_bytes_max));
    size_t taken = 0;
    for (const iovec& part : parts) {
      const size_t here = std::min(room - taken, part.iov_len);
      const auto* start = static_cast<const std::byte*>(part.iov_base);
      to.bytes.insert(to.bytes.end(), start, start + here);
      taken += here;
    }
    const int64_t last = to.due.empty() ? 0 : to.due.back().first;
    const int64_t due =
        world_.now_ns_ + int64_t(world_.draw(uint64_t(world_.settings_.delay_ns_max) + 1));
    if (taken > 0) to.due.emplace_back(std::max(last, due), taken);
    return taken;
  }

  Result<size_t> receive(std::span<std::byte> room) override {
    Stream& from = in();
    while (!from.cut && !from.due.empty() && from.due.front().first <= world_.now_ns_) {
      from.there += from.due.front().second;
      from.due.pop_front();
    }
    if (from.there == 0 || room.empty()) {
      ended_ = from.closed && !from.cut && from.bytes.empty();
      return size_t{0};
    }
    const size_t count = std::min(
        {room.size(), from.there, size_t(1 + world_.draw(world_.settings_.piece_bytes_max))});
    std::copy_n(from.bytes.begin(), count, room.begin());
    from.bytes.erase(from.bytes.begin(), from.bytes.begin() + ptrdiff_t(count));
    from.there -= count;
    return count;
  }

  bool ended() const override { return ended_; }
  bool delivered() const override {
    return out().due.empty() || out().due.back().first <= world_.now_ns_;
  }
  int fd() const override { return -1; }
  Status look_after() override {
    if (!in().cut || world_.now_ns_ - in().cut_ns < world_.settings_.silence_ns) return {};
    return error(SK_ERR_TRANSPORT, "no word for {} s", world_.settings_.silence_ns / 1'000'000'000);
  }

 private:
  Stream& out() const { return world_.stream(own_, peer_); }
  Stream& in() const { return world_.stream(peer_, own_); }
  World& world_;
  const uint32_t own_, peer_;
  bool ended_ = false;
};

// What refuses does so for a while before it is believed.
constexpr int64_t kRefusedNs = 300'000'000;

class SimJoiner final : public Joiner {
 public:
  SimJoiner(World& world, uint32_t own) : world_(world), own_(own) {}

  void want(uint32_t peer) override {
    Dial& dial = world_.dial(own_, peer);
    const int side = side_of(peer);
    if (!dial.late || dial.has[side] || std::exchange(dial.wanted[side], true)) return;
    dial.asked_ns[side] = world_.now_ns_;
    dial.arrives_ns[side] = world_.now_ns_ + delay();
  }

  std::vector<News> go_on() override {
    std::vector<News> news;
    for (uint32_t peer = 0; peer < world_.ranks_; ++peer) {
      if (peer == own_ || !world_.is_late(own_, peer)) continue;
      make(peer);
      Dial& dial = world_.dial(own_, peer);
      const int side = side_of(peer);
      if (dial.has[side] || dial.over[side]) continue;
      if (dial.made && dial.due_ns[side] <= world_.now_ns_) {
        const bool dialled = dial.maker != side;
        if (world_.settings_.bug == Bug::kOneSided && dialled) continue;
        dial.has[side] = true;
        uint32_t taken_for = peer;
        if (world_.settings_.bug == Bug::kSwapped && dialled) taken_for = swapped(peer);
        news.push_back({taken_for, name(peer), std::make_unique<SimPipe>(world_, own_, peer), {}});
      } else if (Status why = why_not(peer); !why.ok()) {
        dial.over[side] = true;
        news.push_back({peer, "", nullptr, std::move(why)});
      }
    }
    return news;
  }

  int64_t next_ns() const override {
    int64_t next = INT64_MAX;
    for (uint32_t peer = 0; peer < world_.ranks_; ++peer) {
      const Dial& dial = world_.dial(own_, peer);
      const int side = side_of(peer);
      if (peer == own_ || !dial.late || dial.has[side] || dial.over[side]) continue;
      if (dial.made) next = std::min(next, dial.due_ns[side]);
      if (dial.wanted[side] && !dial.made) next = world_.now_ns_;
    }
    return next;
  }

  bool settled() const override {
    if (world_.settings_.bug == Bug::kUnsettled) return true;
    for (uint32_t peer = 0; peer < world_.ranks_; ++peer) {
      const Dial& dial = world_.dial(own_, peer);
      if (peer != own_ && dial.made && !dial.has[side_of(peer)]) return false;
    }
    return true;
  }

  static std::string name(uint32_t rank) { return "host " + std::to_string(rank); }

 private:
  int side_of(uint32_t peer) const { return own_ < peer ? 0 : 1; }
  int64_t delay() { return int64_t(world_.draw(uint64_t(world_.settings_.delay_ns_max) + 1)); }
  // Another one that has no wire yet; the peer itself where there is none.
  uint32_t swapped(uint32_t peer) const {
    for (uint32_t other = 0; other < world_.ranks_; ++other) {
      const Dial& dial = world_.dial(own_, other);
      if (other == own_ || other == peer || !dial.late || dial.has[side_of(other)]) continue;
      return other;
    }
    return peer;
  }

  void make(uint32_t peer) {
    Dial& dial = world_.dial(own_, peer);
    const int side = side_of(peer);
    if (dial.made || !dial.wanted[side] || dial.over[side] || !world_.alive(peer)) return;
    if (dial.arrives_ns[side] > world_.now_ns_ || world_.stream(own_, peer).cut) return;
    dial.made = true;
    dial.maker = side;
    ++world_.made_late_;
    for (int64_t& due : dial.due_ns) due = world_.now_ns_ + delay();
  }

  Status why_not(uint32_t peer) const {
    const Dial& dial = world_.dial(own_, peer);
    const int side = side_of(peer);
    const int64_t waited_ns = world_.now_ns_ - dial.asked_ns[side];
    if (!dial.wanted[side] || dial.made) return {};
    if (world_.stream(own_, peer).cut) {
      return waited_ns < world_.settings_.silence_ns
                 ? Status()
                 : Status(SK_ERR_TRANSPORT, "nothing has answered");
    }
    return world_.alive(peer) || waited_ns < kRefusedNs ? Status()
                                                        : Status(SK_ERR_PEER_LOST, "it refuses");
  }

  World& world_;
  const uint32_t own_;
};

// Waits by letting time pass.
class SimReadiness final : public Readiness {
 public:
  SimReadiness(World& world, uint32_t own)
      : world_(world), own_(own), wants_room_(world.ranks_), forgotten_(world.ranks_) {}
  void wait(int64_t timeout_ns, std::vector<uint32_t>& peers) override {
    world_.pass(std::max<int64_t>(0, timeout_ns));
    peers.clear();
    for (uint32_t peer = 0; peer < world_.ranks_; ++peer) {
      if (peer == own_ || forgotten_[peer] || !has(peer)) continue;
      const Stream &from = world_.stream(peer, own_), &to = world_.stream(own_, peer);
      const bool due = !from.due.empty() && from.due.front().first <= world_.now_ns_;
      const bool input =
          !from.cut && (from.there > 0 || due || (from.closed && from.bytes.empty()));
      const bool room = wants_room_[peer] && to.bytes.size() < world_.settings_.room_bytes;
      if (input || room) peers.push_back(peer);
    }
    for (uint32_t peer = 0; peer < world_.ranks_; ++peer) {
      const Dial& dial = world_.dial(own_, peer);
      const bool due =
          dial.made && !has(peer) && dial.due_ns[own_ < peer ? 0 : 1] <= world_.now_ns_;
      if (peer == own_ || !due) continue;
      peers.push_back(kJoiner);
      return;
    }
  }
  void wants_room(uint32_t peer, bool wants) override { wants_room_[peer] = wants; }
  void forget(uint32_t peer) override { forgotten_[peer] = true; }
  void wake() override {}
  int64_t now_ns() const override { return world_.now_ns(); }

 private:
  bool has(uint32_t peer) const {
    const Dial& dial = world_.dial(own_, peer);
    return !dial.late || dial.has[own_ < peer ? 0 : 1];
  }
  World& world_;
  const uint32_t own_;
  std::vector<bool> wants_room_, forgotten_;
};

World::World(uint32_t ranks, const Settings& settings, const SegmentLayout& layout)
    : ranks_(ranks),
      settings_(settings),
      random_(settings.seed),
      streams_(ranks * ranks),
      dials_(ranks * ranks) {
  bool any = false;
  std::mt19937_64 lates(settings.seed);
  for (uint32_t a = 0; a < ranks; ++a) {
    for (uint32_t b = a + 1; b < ranks; ++b) {
      const bool follows = b == a + 1 || (a == 0 && b == ranks - 1);
      dial(a, b).late = lates() % 100 < settings.late_percent && (!follows || ranks == 2);
      any |= dial(a, b).late;
    }
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<Remote> remotes;
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      auto pipe = is_late(rank, peer) ? nullptr : std::make_unique<SimPipe>(*this, rank, peer);
      remotes.push_back({peer, SimJoiner::name(peer), std::move(pipe), peer});
    }
    auto joiner = any ? std::make_unique<SimJoiner>(*this, rank) : nullptr;
    endpoints_.push_back(std::make_unique<HostsEndpoint>(
        std::make_unique<Alone>(rank, layout), std::move(remotes),
        std::make_unique<SimReadiness>(*this, rank), std::move(joiner)));
  }
}

World::~World() {
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    if (endpoints_[rank]) leave(rank);
}

// What it had given to its kernel still comes; nobody frees its endpoint.
void World::kill(uint32_t rank) {
  for (uint32_t peer = 0; peer < ranks_; ++peer) stream(rank, peer).closed = true;
  dead_.push_back(std::move(endpoints_[rank]));
}

void World::leave(uint32_t rank) {
  std::unique_ptr<HostsEndpoint> leaving = std::move(endpoints_[rank]);
  leaving.reset();
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    const Dial& made = dial(rank, peer);
    if (made.made && !made.has[rank < peer ? 0 : 1]) stream(rank, peer).closed = true;
  }
}

void World::cut(uint32_t a, uint32_t b) {
  for (Stream* each : {&stream(a, b), &stream(b, a)}) {
    each->cut = true;
    each->cut_ns = now_ns_;
  }
}

}  // namespace sk::stream::sim
