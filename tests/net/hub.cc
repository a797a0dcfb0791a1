#include "tests/net/hub.h"

#include <algorithm>

#include "tests/net/packet.h"

namespace sk::net {

Hub::Hub(int hosts, uint64_t seed, Draw draw)
    : hosts_(hosts), seed_(seed), draw_(draw), directions_(size_t(hosts) * size_t(hosts)) {}

void Hub::cut(int from, int to) {
  Direction& direction = at(from, to);
  direction.is_cut = true;
  direction.counts.cut += std::erase_if(waiting_, [from, to](const auto& entry) {
    return entry.second.from == from && entry.second.to == to;
  });
  direction.waiting = 0;
  direction.line_free_ns = direction.last_due_ns = 0;  // Nothing is left to wait for or overtake.
}

// When a packet of so many bytes that comes now arrives.
int64_t Hub::due(Direction& direction, const Fate& fate, size_t bytes, int64_t now_ns) const {
  const Settings& settings = direction.settings;
  int64_t at_ns = now_ns;
  if (settings.rate_kbit > 0) {
    at_ns = std::max(at_ns, direction.line_free_ns);
    at_ns += int64_t(bytes) * 8 * 1'000'000 / settings.rate_kbit;
    direction.line_free_ns = at_ns;
  }
  at_ns += settings.delay_us * 1000 + fate.jitter_ns;
  if (fate.late) return at_ns + settings.reorder_us * 1000;
  direction.last_due_ns = std::max(direction.last_due_ns, at_ns);
  return direction.last_due_ns;
}

void Hub::queue(Direction& direction, int64_t due_ns, Arrival arrival) {
  if (direction.waiting >= direction.settings.queue_packets) {
    ++direction.counts.overflowed;
    return;
  }
  ++direction.waiting;
  waiting_.emplace(std::pair(due_ns, queued_++), std::move(arrival));
}

void Hub::send(int from, int to, Packet packet, int64_t now_ns) {
  Direction& direction = at(from, to);
  Counts& counts = direction.counts;
  const Fate fate =
      draw_(direction.settings, seed_, static_cast<uint32_t>(index(from, to)), counts.sent);
  ++counts.sent;
  if (direction.is_cut) {
    ++counts.cut;
    return;
  }
  if (fate.lost || int64_t(packet.size()) > direction.settings.packet_bytes) {
    ++counts.lost;
    return;
  }
  if (fate.corrupted && corrupt(packet, fate.bit)) ++counts.corrupted;
  if (fate.corrupted_unseen && corrupt_unseen(packet, fate.bit)) ++counts.corrupted_unseen;
  if (fate.late) ++counts.late;
  const int64_t due_ns = due(direction, fate, packet.size(), now_ns);
  if (fate.duplicated) {
    ++counts.duplicated;
    queue(direction, due_ns, {from, to, packet});
  }
  queue(direction, due_ns, {from, to, std::move(packet)});
}

std::optional<int64_t> Hub::due_ns() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->first.first;
}

std::optional<Hub::Arrival> Hub::take(int64_t now_ns) {
  if (waiting_.empty() || waiting_.begin()->first.first > now_ns) return std::nullopt;
  Arrival arrival = std::move(waiting_.extract(waiting_.begin()).mapped());
  Direction& direction = at(arrival.from, arrival.to);
  --direction.waiting;
  ++direction.counts.delivered;
  return arrival;
}

void Hub::refuse(int from, int to) {
  --at(from, to).counts.delivered;
  ++at(from, to).counts.refused;
}

}  // namespace sk::net
