// Ranks that are forked processes of the test, which tells each when to go on and hears what it
// says, line by line.
#ifndef SK_TESTS_MULTI_FORKED_RANKS_H_
#define SK_TESTS_MULTI_FORKED_RANKS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "sk.h"

namespace sk::testing_ops {

// In the process of a rank.
struct ForkedRank {
  int number = 0;  // As the launcher counts.
  sk_context* context = nullptr;
  sk_comm* comm = nullptr;
  int out = -1, in = -1;

  void say(const std::string& line) const;
  void wait() const;  // Until the test lets it go on.
};

enum class Meets {
  kHere,        // As sk run starts ranks: all on this host, and no address.
  kAtAnAddress  // RANK, WORLD_SIZE, MASTER_ADDR: nothing says that they are on one host.
};

class ForkedRanks {
 public:
  // Each makes a communicator and runs `body`; what that returns is its last line.
  ForkedRanks(int count, Meets meets, const std::function<std::string(ForkedRank&)>& body,
              int64_t timeout_ms = 60'000);
  ~ForkedRanks();
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  // The next line of a rank; "" where it has ended, "(nothing for a minute)" where none comes.
  std::string said(int rank);
  // As all of them say it.
  std::vector<std::string> all_said(const std::vector<int>& ranks);
  void go_on(int rank);
  void kill(int rank);  // Returns once it has ended.

 private:
  struct Process {
    pid_t pid;
    int out, in;
  };
  std::vector<Process> processes_;
};

// "SK_ERR_TIMEOUT: the sentence".
std::string failed(sk_status status);

// Sums 2^number over the ranks of `comm`: "rank 1 of 3: 11", which says who they are.
std::string who_is_there(const ForkedRank& self, sk_comm* comm);

// The same of what is left of `comm`, which is freed, or is `out`.
std::string shrunk(const ForkedRank& self, sk_comm* comm, int64_t timeout_ms = 0,
                   sk_comm** out = nullptr);

// Gives the ranks that wait somewhere time to be there: more changes nothing, less only what is
// tested.
void pass_ms(int ms);

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_FORKED_RANKS_H_
