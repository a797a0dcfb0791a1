// The links between all pairs of hosts: packets wait here until they are due.
//
// It has no clock and no descriptor: whoever calls says what time it is. Times are nanoseconds of
// one clock that only grows. Every packet that a host sends ends in exactly one count.
#ifndef SK_TESTS_NET_HUB_H_
#define SK_TESTS_NET_HUB_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tests/net/fate.h"

namespace sk::net {

using Packet = std::vector<uint8_t>;

// Packets of one direction. Copies count as delivered, cut, overflowed or refused like others, so
// sent + duplicated = lost + cut + overflowed + delivered + refused + those under way.
struct Counts {
  uint64_t sent = 0;
  uint64_t delivered = 0;
  uint64_t lost = 0;
  uint64_t duplicated = 0;
  uint64_t late = 0;
  uint64_t corrupted = 0;
  uint64_t corrupted_unseen = 0;
  uint64_t cut = 0;         // Sent over a cut link, or under way when it was cut.
  uint64_t overflowed = 0;  // More were under way than queue_packets.
  uint64_t refused = 0;     // The host did not take it.
};

class Hub {
 public:
  using Draw = Fate (*)(const Settings& settings, uint64_t seed, uint32_t direction,
                        uint64_t number);

  Hub(int hosts, uint64_t seed, Draw draw = net::draw);

  int hosts() const { return hosts_; }
  // For packets that come from now on; those under way keep their time.
  Settings& settings(int from, int to) { return at(from, to).settings; }
  const Counts& counts(int from, int to) const { return directions_[index(from, to)].counts; }

  // Ends one direction, and what is under way in it; until restore().
  void cut(int from, int to);
  void restore(int from, int to) { at(from, to).is_cut = false; }

  void send(int from, int to, Packet packet, int64_t now_ns);

  struct Arrival {
    int from = 0;
    int to = 0;
    Packet packet{};
  };
  // When the next packet under way arrives.
  std::optional<int64_t> due_ns() const;
  // The next one that has arrived by now, in the order of their times.
  std::optional<Arrival> take(int64_t now_ns);
  // The host did not take what was taken for it.
  void refuse(int from, int to);

 private:
  struct Direction {
    Settings settings{};
    Counts counts{};
    bool is_cut = false;
    int64_t waiting = 0;
    int64_t line_free_ns = 0;  // When the last packet's last bit has left, under rate_kbit.
    int64_t last_due_ns = 0;   // Of those that keep their order.
  };
  size_t index(int from, int to) const { return size_t(from) * size_t(hosts_) + size_t(to); }
  Direction& at(int from, int to) { return directions_[index(from, to)]; }
  int64_t due(Direction& direction, const Fate& fate, size_t bytes, int64_t now_ns) const;
  void queue(Direction& direction, int64_t due_ns, Arrival arrival);

  int hosts_;
  uint64_t seed_;
  Draw draw_;
  std::vector<Direction> directions_;
  uint64_t queued_ = 0;
  // By time and then by the order in which they came.
  std::map<std::pair<int64_t, uint64_t>, Arrival> waiting_;
};

}  // namespace sk::net

#endif  // SK_TESTS_NET_HUB_H_
