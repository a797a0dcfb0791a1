// Ranks as threads of the test, each with an environment of its own.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_WORLD_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_WORLD_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/bootstrap/env.h"

namespace sk::testing_support {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kLong = 60'000 * kMs;  // A wait that must not be needed in full.
// How long one waits that waits in vain. Until then the others must have come, on a busy machine
// too, a member's longest pause between two attempts (250 ms) included.
inline constexpr int64_t kEnough = 2'000 * kMs;

// A loopback port that nobody else gets while this lives, as `sk run` holds it.
class HeldPort {
 public:
  HeldPort();
  ~HeldPort();
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  int number() const { return number_; }
  int listen() const;  // A listening socket at the port, for the test to close.

 private:
  int fd_;
  int number_ = 0;
};

using Variables = std::map<std::string, std::string>;

// The environment of `rank` in a job of `world_size` that meets at `port`.
Variables job_variables(int rank, int world_size, int port);
// The same of a launcher that says that all ranks are on this host: they meet without a port.
// `job`: see unique_job().
Variables here_variables(int rank, int world_size, const std::string& job);
// A job's name that no other test of this machine has.
std::string unique_job();
BootstrapConfig env_config(const Variables& variables, int64_t timeout_ns);
BootstrapConfig threads_config(int rank, int world_size, const std::string& name,
                               int64_t timeout_ns);

// What the variables say of the job.
Result<JobEnv> read_job_env(const EnvLookup& env, const std::string& name);

// Calls body(rank) on one thread per rank and waits for all.
void on_ranks(int world_size, const std::function<void(int rank)>& body);

// Gives others time to be where nothing shows that they are: more changes nothing, less only what
// is tested.
void pass(int64_t ns);

std::vector<std::byte> blob(int rank, size_t bytes, uint64_t seed);

// Gathers `bytes` of every rank and compares with what every rank must have given.
void expect_gathers(Bootstrap& bootstrap, size_t bytes, uint64_t seed);

// A socket connected to the held port: as soon as somebody listens there, for at most 30 s.
int dial(int port);

}  // namespace sk::testing_support

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_WORLD_H_
