// The ranks before they are connected: who they are, and one collective to find each other.
//
// make_bootstrap() returns once every rank is known, so ranks of one host are counted by what the
// hosts say of themselves, never by environment variables. A Bootstrap is used by one thread at a
// time; every wait of it is bounded, and ends when the creation is cancelled. After an error it
// stays in error: make a new one.
#ifndef SK_TRANSPORT_BOOTSTRAP_BOOTSTRAP_H_
#define SK_TRANSPORT_BOOTSTRAP_BOOTSTRAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "sk/comm.h"
#include "transport/bootstrap/cancel.h"

namespace sk {

// What is known of a rank that was here before.
enum class Gone {
  kNo,
  kUnreachable,  // Its connection was lost, and it may come.
  kYes,
};

struct Address;

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  int local_rank() const { return local_rank_; }  // Rank among those of this host, by rank order.
  int local_size() const { return local_size_; }
  // host_of()[r] is the least rank on rank r's host: equal numbers, same host.
  const std::vector<int>& host_of() const { return host_of_; }
  bool one_host() const { return local_size_ == world_size_; }
  // As the launcher counts, which is how ranks meet: a rank's number, and how many were started.
  // Ascending with the ranks here.
  virtual int launched_as(int rank) const { return rank; }
  virtual int launched_count() const { return world_size_; }
  // Whether these are left of ranks that have met before, on all of them alike,
  virtual bool of_survivors() const { return false; }
  // and what this one knows of `rank` from then, by now.
  virtual Gone gone(int /*rank*/) const { return Gone::kNo; }
  // Those are not waited for when the others meet again.
  virtual void leave_out(std::span<const int> /*ranks*/) {}
  // Watched by every wait until the communicator stands, also by those of others.
  const Cancel& cancel() const { return cancel_ != nullptr ? *cancel_ : Cancel::never(); }

  // An address of this host, to which others have a connection; false: none is known.
  virtual bool proven_address(Address& /*out*/) const { return false; }

  // Gathers equally sized blobs in rank order: world_size * mine.size() bytes. SK_ERR_TIMEOUT names
  // the ranks that did not come, SK_ERR_DESYNC the rank whose blob has another size,
  // SK_ERR_PEER_LOST the rank that is gone.
  virtual Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                                   int64_t timeout_ns) = 0;

  // Between two gathers, where ranks wait for each other elsewhere: what is ready once there may be
  // news(), which waits for nothing. An error is what the next gather would say: a rank is gone.
  virtual void add_polls(std::vector<pollfd>& /*polls*/) const {}
  virtual Status news() { return {}; }

 protected:
  using CancelPtr = std::shared_ptr<const Cancel>;
  // All on one host, until place() says otherwise.
  Bootstrap(int rank, int world_size, CancelPtr cancel = nullptr)
      : rank_(rank),
        world_size_(world_size),
        local_rank_(rank),
        local_size_(world_size),
        host_of_(size_t(world_size)),
        cancel_(std::move(cancel)) {}
  // `host_ids` holds 16 bytes of every rank: equal bytes, same host.
  void place(std::span<const std::byte> host_ids);

 private:
  int rank_;
  int world_size_;
  int local_rank_;
  int local_size_;
  std::vector<int> host_of_;
  CancelPtr cancel_;
};

// A variable of the environment; nullopt when it is not set.
using EnvLookup = std::function<std::optional<std::string>(const char* name)>;

struct BootstrapConfig {
  int32_t kind = SK_BOOTSTRAP_AUTO;      // enum sk_bootstrap.
  int rank = 0;                          // THREADS and CALLBACK; else as the launcher says, or
  int world_size = 0;                    // both 0.
  std::string name;                      // Ranks meet those who give the same name.
  sk_allgather_fn allgather = nullptr;   // CALLBACK.
  void* user = nullptr;                  // CALLBACK.
  int64_t timeout_ns = 300'000'000'000;  // For finding each other, at most.
  // AUTO and ENV: called by this thread with a sentence, first after `notice_after_ns` and then
  // each six times as long, while ranks are still missing. Empty: nobody is told before the end.
  std::function<void(const std::string& sentence)> still_waiting;
  int64_t notice_after_ns = 10'000'000'000;
  EnvLookup env;                         // Empty: the process's environment.
  std::shared_ptr<const Cancel> cancel;  // Null: nobody ends it early. CALLBACK cannot be ended.
  // AUTO and ENV, where those meet that are left of ranks which have met before: whether the
  // launcher's `rank` is not to be waited for, or not for long (unreachable_ns()). Asked again and
  // again, by this thread. Empty: all are waited for.
  std::function<Gone(int rank)> gone;
  // With `gone`: told of each rank, this one too, that is alive and without which the others go on.
  std::function<void(int rank)> leave_out;
  // With `gone`: those ranks were on one host, and PIDs mean the same to them: they need no
  // address.
  bool met_on_one_host = false;
};

// How long who is unreachable is waited for, of such a time in all: a network that comes back does
// so in seconds.
constexpr int64_t unreachable_ns(int64_t timeout_ns) {
  return std::min<int64_t>(timeout_ns / 4, 10'000'000'000);
}

// Monotonic, in nanoseconds: every bound of a wait here is a point on this clock.
int64_t bootstrap_clock_ns();

// How long a step may last of several that end by one deadline: a second more than is left, in
// which those who have used up their time tell the others why.
int64_t time_left_ns(int64_t deadline_ns);

// Finds the other ranks. Communicators of one name made at the same time by several threads of a
// process must be made in the same order on all ranks; with different names any order will do.
// Cancelled before it began, it meets nobody; later, it may still be made if all are there.
Result<std::unique_ptr<Bootstrap>> make_bootstrap(const BootstrapConfig& config);

// 16 bytes that two processes share exactly when each can pass the other descriptors, and so share
// memory with it: machine, boot, and network namespace, to which abstract sockets belong.
Result<std::vector<std::byte>> host_id();

// What two processes share exactly when a PID means the same process to both.
Result<std::string> process_space();

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_BOOTSTRAP_H_
