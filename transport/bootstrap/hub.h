// The rank at which a job that meets by environment meets: it listens until every member is there
// (hub.cpp), then only carries their all-gathers (hub_gather.cpp). All waiting is one poll() loop
// in the caller's thread.
//
// Where those meet that are left of ranks which have met before, it alone says who is: all others
// see it by the zeros that it gives for the rest.
#ifndef SK_TRANSPORT_BOOTSTRAP_HUB_H_
#define SK_TRANSPORT_BOOTSTRAP_HUB_H_

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/bootstrap/hub_door.h"
#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/port.h"
#include "transport/bootstrap/wire.h"

namespace sk {

class HubBootstrap final : public Bootstrap {
 public:
  HubBootstrap(const JobEnv& job, const BootstrapConfig& config)
      : Bootstrap(job.rank, job.world_size, config.cancel),
        job_(job),
        config_(config),
        members_(size_t(job.world_size)),
        came_(size_t(job.world_size)),
        left_out_(size_t(job.world_size)) {}

  // Closes `port` when all are there.
  Status meet(std::unique_ptr<Port> port, int64_t timeout_ns, int64_t deadline_ns);
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override;
  bool proven_address(Address& out) const override;
  void add_polls(std::vector<pollfd>& polls) const override;
  Status news() override;

 private:
  static constexpr int64_t kTickNs = 100'000'000;  // Between progress reports.

  static bool any(const std::vector<bool>& flags) {
    return std::find(flags.begin(), flags.end(), true) != flags.end();
  }

  // Meeting.
  Status wait_for_members(HubDoor& door, const Port& port, int64_t deadline_ns);
  void hear_members();
  void look_who_is_gone();
  Status make_room();
  void tell_whoever_comes(HubDoor& door, const Port& port, const Status& why, int64_t deadline_ns);
  HubDoor::Place place_of(uint32_t rank) const;
  void admit(const MemberHello& hello, Channel channel);
  Status late(const HubDoor& door, int64_t timeout_ns) const;

  // Gathering.
  Status collect(std::vector<std::string>& parts, std::vector<bool>& missing, int64_t deadline_ns);
  Status hear_member(size_t rank, std::vector<std::string>& parts, std::vector<bool>& missing);
  Status hear_frame(size_t rank, Frame frame, std::vector<std::string>& parts,
                    std::vector<bool>& missing) const;
  Status send_whole(std::span<const std::byte> whole, int64_t deadline_ns);
  Status lost_while_sending(size_t rank, const Status& why);
  Status end_with(Status status);

  void report_progress(const std::string& text);
  std::vector<bool> missing_members() const;
  std::string absent() const { return absent_list(missing_members(), came_); }
  Status flush(int64_t deadline_ns, const Cancel& cancel, bool reports);

  JobEnv job_;
  const BootstrapConfig config_;
  std::vector<std::optional<Channel>> members_;  // This rank's own place stays empty.
  std::vector<bool> came_;                       // Also those that have gone again.
  std::vector<bool> left_out_;                   // Not waited for, and not let in any more.
  std::vector<std::byte> host_ids_;
  uint32_t wholes_ = 0;  // That every member was sent.
  std::string last_progress_;
  int64_t next_progress_ns_ = 0;
  int64_t next_look_ns_ = 0;
  int64_t patience_ends_ns_ = 0;  // With those who are unreachable.
  Status failure_;
};

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_HUB_H_
