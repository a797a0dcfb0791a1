// The three things a doctor is: of a machine, of the ranks that it starts there, of a job's ranks.
#ifndef SK_TOOLS_SK_DOCTOR_MODES_H_
#define SK_TOOLS_SK_DOCTOR_MODES_H_

#include "tools/sk_doctor/checks.h"
#include "tools/sk_doctor/finding.h"
#include "tools/sk_doctor/library.h"
#include "transport/bootstrap/identity.h"

namespace sk::doctor {

struct Options {
  bool help = false;
  bool json = false;
  bool is_started_rank = false;  // One of those that check_live() starts.
  double timeout_s = 20;
};

// What a rank stands on, wherever its peers are.
// `identity`: of a job's rank; null: of any rank that this machine may have.
Probe check_rank(const Identity* identity, Findings* findings);

// What this machine allows, all but its ranks.
void check_machine(Findings* findings, Run run);

// Starts ranks here through `sk run`, over shared memory and over TCP on the loopback, and says how
// they fared.
void check_live(const Options& options, Findings* findings);

// Such a rank. Its exit status; rank 0 prints what check_live() reads.
int be_started_rank(const Options& options);

// A rank of a job that somebody else has started. Rank 0 prints. The exit status is every rank's.
int be_rank(const Options& options, const Identity& identity);

// What is printed at the end: `more` is beside the findings in JSON, `table` below them in text.
int report(const Options& options, const Findings& findings, const Json& more,
           const std::string& table);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_MODES_H_
