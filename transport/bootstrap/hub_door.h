// Who comes to the rank at which a job meets: strangers, until they have shown who they are.
#ifndef SK_TRANSPORT_BOOTSTRAP_HUB_DOOR_H_
#define SK_TRANSPORT_BOOTSTRAP_HUB_DOOR_H_

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/port.h"
#include "transport/bootstrap/wire.h"

namespace sk {

class HubDoor {
 public:
  enum class Place { kFree, kTaken, kLeftOut };
  using PlaceOf = std::function<Place(uint32_t rank)>;
  using Admit = std::function<void(const MemberHello& hello, Channel channel)>;

  // For rank `rank` of `job`: a place that is free by `place_of` is given by `admit`.
  HubDoor(const JobEnv& job, int rank, int world_size, PlaceOf place_of, Admit admit)
      : job_(job),
        rank_(rank),
        world_size_(world_size),
        place_of_(std::move(place_of)),
        admit_(std::move(admit)) {}

  void add_polls(const Port& port, std::vector<pollfd>& polls) const;
  // Hears those that are ready in `polls`, which begin with what add_polls() added, and takes in
  // who knocks. SK_ERR_NO_MEMORY: this process has had no descriptor for that for some time, and no
  // stranger has one.
  Status hear(const Port& port, std::span<const pollfd> polls);
  // Connections that were refused, as the end of a sentence that begins with whom nobody saw.
  std::string refused() const;
  bool refused_unproven() const { return unproven_ > 0; }

 private:
  // A connection that has not shown who it is.
  struct Stranger {
    Stranger(int fd, int64_t until_ns) : channel(fd), until_ns(until_ns) { channel.send_at_once(); }
    Channel channel;
    int64_t until_ns;
    bool said_hello = false;
    bool right_hello = false;  // Of the secret's holder, who need not be the one that says it.
    bool leaving = false;      // Refused: only its answer is still to be sent.
    MemberHello hello;
    SessionKeys keys{};
  };

  Status accept_some(int listener);
  bool has_room() const;
  Status no_room();
  bool send_one_away(int64_t proof_ns);
  bool is_over(Stranger& stranger, bool ready);
  Status hear(Stranger& stranger);
  Status answer_hello(Stranger& stranger);
  Status judge_proof(Stranger& stranger, const MemberProof& proof);
  Result<Verdict> verdict_on(const MemberHello& hello);
  Result<Verdict> verdict_on_other_job(const MemberHello& hello);

  const JobEnv& job_;
  int rank_;
  int world_size_;
  PlaceOf place_of_;
  Admit admit_;
  std::list<Stranger> strangers_;
  std::set<std::array<std::byte, 32>> nonces_;  // Of right hellos.
  Status no_room_;                              // Why nobody can be taken in,
  int64_t room_at_ns_ = 0;                      // when to try again,
  int64_t no_room_since_ns_ = 0;                // and since when it is so.
  // Who was refused, for refused().
  int unproven_ = 0;     // Connections that could not show the job's secret, or had one too many.
  int other_users_ = 0;  // Connections of other users, turned away unheard.
  int other_jobs_ = 0;   // Connections of another job, without this one's secret.
  // Those that held the secret, by the ranks that they said they are.
  std::set<uint32_t> ranks_of_other_jobs_;
  std::map<uint32_t, uint32_t> other_sizes_;
  std::set<uint32_t> ranks_come_twice_;
};

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_HUB_DOOR_H_
