// The messages under way, and who is dead.
#ifndef SK_TRANSPORT_FAULT_NETWORK_H_
#define SK_TRANSPORT_FAULT_NETWORK_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "transport/fault/fault.h"

namespace sk::fault {

// Whose sources are still to be read, of one session's puts. With the network's lock; others only
// read the counts.
struct Sources {
  std::set<uint64_t> open;
  std::atomic<uint64_t> puts{0}, sent{0};
  void settle() { sent.store(open.empty() ? puts.load() : *open.begin() - 1); }
};

struct Message {
  enum class Kind { kPut, kPost, kEnter };
  Kind kind = Kind::kPost;
  uint32_t from = 0;
  uint32_t to = 0;
  Session* session = nullptr;  // Of the inner endpoint: `from`'s session to `to`.
  uint32_t passed_over = 0;
  uint64_t number = 0;  // In order of sending.

  uint32_t signal = 0;
  uint32_t add = 0;
  struct Piece {
    uint64_t offset;  // In the peer's segment.
    size_t bytes;
    const std::byte* source;  // Read only when it arrives, where the sender was told kLater.
    std::vector<std::byte> copy;
  };
  std::vector<Piece> pieces;  // Of a put: what has not arrived yet, in order of arrival.

  std::shared_ptr<Sources> sources;  // Of a put whose source is free later, which is this one:
  uint64_t put = 0;

  EntryLane lane = kCollectiveLane;
  uint64_t seq = 0;
  uint64_t fingerprint = 0;
  uint64_t other_lane = 0;
  uint64_t words[kEntryWords] = {};
};

class Network final : public FaultNetwork, public std::enable_shared_from_this<Network> {
 public:
  explicit Network(const FaultConfig& config) : config_(config), random_(config.seed) {}

  const FaultConfig& config() const { return config_; }

  std::unique_ptr<Endpoint> wrap(std::unique_ptr<Endpoint> inner) override;
  void kill(uint32_t rank) override;
  uint64_t overtaken() const override;

  // Takes the message over. The status is that of whatever was delivered by the way.
  Status send(Message message);
  // Cuts `bytes` into pieces in the order in which they will arrive.
  void cut(Message& message, uint64_t offset, const void* src, size_t bytes, bool whole);
  // Whether a put shall be told that there is no room, or that its source is free later.
  bool full() { return chosen(config_.again_percent); }
  bool later() { return chosen(config_.later_percent); }
  // Delivers some of what is held; at least one message where there is any and the config lets it.
  Status drive();
  // Delivers a little, unless the config lets nothing be delivered.
  void progress();
  // Delivers all that `rank` has sent: before its sessions go.
  void flush(uint32_t rank);
  // Drops what would read memory of `rank`, whose calls have ended.
  void forget_sources(uint32_t rank);
  // The first rank that was killed, or FaultConfig::kNobody.
  uint32_t killed() const;

 private:
  bool chance(uint32_t percent) { return random_() % 100 < percent; }
  bool chosen(uint32_t percent) {
    const std::lock_guard lock(mutex_);
    return chance(percent);
  }
  bool dead(const Message& message) const {
    return killed_.contains(message.from) || killed_.contains(message.to);
  }
  Status deliver(Message& message, bool& done);
  void note_arrival(const Message& message);
  Status deliver_some(uint32_t percent, bool at_least_one);

  const FaultConfig config_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::vector<Message> held_;
  std::set<uint32_t> killed_;
  uint64_t sent_by_victim_ = 0;
  uint32_t drives_in_vain_ = 0;
  uint64_t sent_ = 0;
  uint64_t overtaken_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> newest_;  // Arrived, by sender and receiver.
};

}  // namespace sk::fault

#endif  // SK_TRANSPORT_FAULT_NETWORK_H_
