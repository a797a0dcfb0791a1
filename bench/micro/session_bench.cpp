// What a hand-off between two processes costs through a session, beside a bare exchange of two
// flags in the same memory: ns one way, all variants interleaved in one run.
//
// Each sample is a burst of hand-offs so short that most bursts run undisturbed on a shared
// machine; the least and the tenth of a hundred samples are those, the median includes the others.
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "transport/bootstrap/bootstrap.h"
#include "transport/shm/shm.h"

namespace sk {
namespace {

constexpr int kHandOffs = 100;  // There and back, in one sample.
constexpr int kSamples = 4000;
constexpr int64_t kTimeoutNs = 30'000'000'000;
constexpr uint32_t kRawSignal = 0, kPostSignal = 1, kPutSignal = 2, kBothSignal = 3;

// The callback bootstrap's gathering: two processes and the memory they share.
struct Shared {
  std::atomic<uint32_t> round[2];
  std::byte blob[2][2][4096];
};
struct Side {
  Shared* shared;
  int rank;
  uint32_t round = 0;
};

int32_t gather(void* user, const void* in, size_t bytes, void* out) {
  auto& side = *static_cast<Side*>(user);
  if (bytes > sizeof(side.shared->blob[0][0])) return 1;
  ++side.round;
  memcpy(side.shared->blob[side.round & 1][side.rank], in, bytes);
  side.shared->round[side.rank].store(side.round, std::memory_order_release);
  for (int rank = 0; rank < 2; ++rank) {
    while (side.shared->round[rank].load(std::memory_order_acquire) < side.round) sched_yield();
    memcpy(static_cast<std::byte*>(out) + rank * bytes, side.shared->blob[side.round & 1][rank],
           bytes);
  }
  return 0;
}

class Player {
 public:
  explicit Player(Endpoint& endpoint)
      : endpoint_(endpoint), rank_(endpoint.rank()), peer_(endpoint.session(1 - rank_)) {}

  // One hand-off to the peer and one back; the count is `n`.
  template <typename Send, typename Seen>
  void exchange(const Send& send, const Seen& seen) {
    if (rank_ == 0) send();
    while (!seen()) __builtin_ia32_pause();
    if (rank_ == 1) send();
  }
  auto signal_is(uint32_t signal, uint64_t n) {
    return [word = &endpoint_.signals()[signal].value, n] {
      return word->load(std::memory_order_acquire) >= n;
    };
  }

  void raw(uint64_t n) {
    SignalWord* words = peer_.mapped()->control.signals;
    exchange([&] { words[kRawSignal].value.store(n, std::memory_order_release); },
             signal_is(kRawSignal, n));
  }
  void post(uint64_t n) {
    exchange([&] { broken_ |= !peer_.post(kPostSignal, 1).ok(); }, signal_is(kPostSignal, n));
  }
  void put(uint64_t n, size_t bytes) {
    const PutTarget target = {endpoint_.layout().workspace_offset()};
    exchange([&] { broken_ |= !peer_.put(target, source_, bytes, kPutSignal, 1).ok(); },
             signal_is(kPutSignal, n));
  }
  void enter(uint64_t n) {
    exchange([&] { broken_ |= !peer_.enter(entry_, kCollectiveLane, n).ok(); },
             [slot = &endpoint_.entry(1 - rank_, kCollectiveLane, n), n] {
               return slot->seq.load(std::memory_order_acquire) == n;
             });
  }
  // What a call without data does: both enter, both await, then one signal each way.
  void enter_and_post(uint64_t n) {
    broken_ |= !peer_.enter(entry_, kPairLane, n).ok();
    const EntrySlot& slot = endpoint_.entry(1 - rank_, kPairLane, n);
    while (slot.seq.load(std::memory_order_acquire) != n) __builtin_ia32_pause();
    broken_ |= !peer_.post(kBothSignal, 1).ok();
    const auto seen = signal_is(kBothSignal, n);
    while (!seen()) __builtin_ia32_pause();
  }
  bool broken() const { return broken_; }

 private:
  Endpoint& endpoint_;
  uint32_t rank_;
  Session& peer_;
  EntrySlot entry_ = {};
  char source_[4096] = {};
  bool broken_ = false;
};

Status run(Shared& shared, int rank) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(rank, &core);
  if (sched_setaffinity(0, sizeof(core), &core) != 0) return system_error("cannot pin a process");
  Side side = {&shared, rank};
  BootstrapConfig config;
  config.kind = SK_BOOTSTRAP_CALLBACK;
  config.rank = rank;
  config.world_size = 2;
  config.allgather = gather;
  config.user = &side;
  SK_ASSIGN_OR_RETURN(const auto bootstrap, make_bootstrap(config));
  const SegmentLayout layout = {.world_size = 2, .workspace_bytes_max = 4096};
  SK_ASSIGN_OR_RETURN(const auto endpoint,
                      connect_shm(*bootstrap, layout, {.timeout_ns = kTimeoutNs}));
  SK_RETURN_IF_ERROR(endpoint->commit(layout.workspace_offset(), 4096));
  std::byte ready{};
  SK_ASSIGN_OR_RETURN(const auto all_ready, bootstrap->allgather({&ready, 1}, kTimeoutNs));

  Player player(*endpoint);
  struct Variant {
    std::string name;
    std::function<void(uint64_t)> play;  // Called for n = 1, 2, 3 ...
    int hand_offs;                       // One after the other, in one play.
    std::vector<double> ns = {};
    uint64_t n = 0;
  };
  std::vector<Variant> variants = {
      {"two flags, bare stores", [&](uint64_t n) { player.raw(n); }, 2},
      {"session.post", [&](uint64_t n) { player.post(n); }, 2},
      {"session.put of 8 bytes", [&](uint64_t n) { player.put(n, 8); }, 2},
      {"session.enter", [&](uint64_t n) { player.enter(n); }, 2},
      {"enter both, post both", [&](uint64_t n) { player.enter_and_post(n); }, 2},
  };
  for (int sample = 0; sample < kSamples; ++sample) {
    for (Variant& variant : variants) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kHandOffs; ++i) variant.play(++variant.n);
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - start;
      variant.ns.push_back(took.count() / (kHandOffs * variant.hand_offs));
    }
  }
  if (player.broken() || all_ready.size() != 2) return error(SK_ERR_INTERNAL, "a call failed");
  for (Variant& variant : variants) {
    std::sort(variant.ns.begin(), variant.ns.end());
    if (rank != 0) continue;
    fmt::print("{:<24} least {:6.0f}  p10 {:6.0f}  median {:6.0f} ns one way\n", variant.name,
               variant.ns[0], variant.ns[kSamples / 10], variant.ns[kSamples / 2]);
  }
  return {};
}

int main_of() {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* shared = new (memory) Shared();
  const pid_t child = fork();
  if (child < 0) return 1;
  const Status status = run(*shared, child == 0 ? 1 : 0);
  if (!status.ok()) fmt::print(stderr, "session_bench: {}\n", status.message());
  if (child == 0) _exit(status.ok() ? 0 : 1);
  int state = 0;
  waitpid(child, &state, 0);
  return status.ok() && state == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sk

int main() { return sk::main_of(); }
