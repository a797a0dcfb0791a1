// What rank 0 tells of a job.
#ifndef SK_TOOLS_SK_DOCTOR_JOB_H_
#define SK_TOOLS_SK_DOCTOR_JOB_H_

#include <string>
#include <vector>

#include "tools/sk_doctor/finding.h"
#include "tools/sk_doctor/meeting.h"

namespace sk::doctor {

struct Job {
  Findings findings;
  Json more = Json::object();  // Beside the findings, for programs.
  std::string table;
};

// What goes between every two ranks: through one communicator of all; where that cannot be had or
// does not last, through one of each pair. `hosts`: of each rank, by name. An error is that of the
// meeting; what was seen before is in `job` nevertheless.
Status exchange_among_all(Meeting& meeting, const std::vector<std::string>& hosts, Job* job);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_JOB_H_
