// The ranks of a job before a communicator stands, and when none can: what each tells all others,
// and communicators of all ranks or of each pair alone.
//
// Ranks meet as the launcher says, through rank 0, with this program's own parts. So they can tell
// each other what they see also where some pairs cannot reach each other; what is then tried
// between them is the library's.
#ifndef SK_TOOLS_SK_DOCTOR_MEETING_H_
#define SK_TOOLS_SK_DOCTOR_MEETING_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/sk_doctor/exchange.h"
#include "tools/sk_doctor/library.h"
#include "transport/bootstrap/bootstrap.h"

namespace sk::doctor {

class Meeting {
 public:
  // SK_ERR_TIMEOUT names who did not come within `timeout_s`, of all that follows too.
  // `here`: the launcher says that all ranks are on this host, where a descriptor of the secret
  // that a wrapper has closed keeps no rank from the others.
  static Result<Meeting> join(double timeout_s, bool here);

  int rank() const { return bootstrap_->rank(); }
  int world_size() const { return bootstrap_->world_size(); }
  const std::vector<int>& host_of() const { return bootstrap_->host_of(); }
  bool one_host() const { return bootstrap_->one_host(); }

  // What every rank gives, in rank order. Collective, as all below.
  Result<std::vector<Json>> gather(const Json& mine);

  // By how much each rank's clock of the day is ahead of rank 0's, and how sure that is.
  struct Clocks {
    std::vector<double> ahead_s;
    double give_or_take_s = 0;
  };
  Result<Clocks> compare_clocks();

  // What rank `rank` has exchanged with each, through one communicator of all. `apart`: as if each
  // were on a host of its own, so that TCP is between them. `broken`: why there was none, or why it
  // ended.
  struct Row {
    std::vector<Exchanged> with;
    std::string broken;
    int32_t code = SK_OK;
    int descriptors = 0;      // That were open while it stood.
    Connections connections;  // Of it.
  };
  Row exchange_all(const Library& library, bool apart);

  // The same through a communicator of each pair, which others' failures do not end, put into
  // `rows` of all ranks as its round ends; those that rank 0 finds no time for are not tried. An
  // error is that of the meeting, and what was put before stays.
  Status exchange_pairs(const Library& library, std::vector<Row>* rows);

 private:
  Meeting(std::unique_ptr<Bootstrap> bootstrap, double timeout_s);

  struct Step {
    bool stands_still = true;  // Needs no further one.
    bool enough = false;       // Rank 0 has no more time.
    std::vector<std::byte> bytes;
  };
  Result<std::vector<Step>> step(const Step& mine);
  Exchanged exchange_pair(const Library& library, int round, Status* over);
  Result<std::vector<std::byte>> gather_bytes(std::span<const std::byte> mine);

  std::unique_ptr<Bootstrap> bootstrap_;
  int64_t timeout_ns_;
};

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_MEETING_H_
