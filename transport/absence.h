// Peers that will not enter any call meanwhile, as somebody outside the communicator knows: the
// cell of a notebook has ended there, or does not run there. A call that waits for their entry can
// never complete, and ends. What they have entered before counts.
#ifndef SK_TRANSPORT_ABSENCE_H_
#define SK_TRANSPORT_ABSENCE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sk {

struct AbsentPeers {
  std::vector<uint32_t> ranks;  // Sorted.
  std::string why;              // One clause: "the cell has ended there".
};

struct AwaitedPeers {
  std::string call;  // "": nothing waits.
  std::vector<uint32_t> ranks;
};

class Absence {
 public:
  // `home`: the thread that runs the cells. Only its waits end; another thread's calls are part of
  // no cell, here as at the peers.
  explicit Absence(std::thread::id home) : home_(home) {}
  Absence(const Absence&) = delete;
  Absence& operator=(const Absence&) = delete;

  // Any thread. The first groups are named first; none: nobody is absent.
  void set(std::vector<AbsentPeers> groups);

  // Called by a thread that waits in `call` for the entries of `lacking`, every few ms: the first
  // group that has any of them, and which; nullopt where the wait may yet end well.
  std::optional<AbsentPeers> among(const std::string& call,
                                   const std::vector<uint32_t>& lacking) const;

  // What `home` waits in: as it said a moment ago. Any thread.
  AwaitedPeers waiting() const;

  // A communicator says so of each call: when a thread beside `home` will come, nobody can say.
  void note_call(std::thread::id caller) {
    if (caller != home_) [[unlikely]]
      called_elsewhere_.store(true, std::memory_order_relaxed);
  }
  // Whether such a thread has called since this was last asked: what it did once is over then.
  bool take_called_elsewhere() { return called_elsewhere_.exchange(false); }

 private:
  const std::thread::id home_;
  mutable std::mutex mutex_;
  std::vector<AbsentPeers> groups_;
  mutable AwaitedPeers awaited_;
  mutable std::chrono::steady_clock::time_point awaited_at_{};
  std::atomic<bool> called_elsewhere_{false};
};

}  // namespace sk

#endif  // SK_TRANSPORT_ABSENCE_H_
