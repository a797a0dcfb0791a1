// What is said of ranks: the same sentences in a table and as JSON.
#ifndef SK_TOOLS_SK_STATUS_WORDS_H_
#define SK_TOOLS_SK_STATUS_WORDS_H_

#include <string>
#include <vector>

#include "tools/sk_status/jobs.h"

namespace sk::status {

// "in allreduce(f32, sum, 1000) #42 for 3.1 s, since 04:05:06: waits for rank 2 over shm"
std::string row_text(const Comm& comm, const RankRow& row, const Now& at);

// What links a rank to another: "shm", "tcp", "tls"; "?" where nobody knows.
std::string link_to(const RankRow& row, uint32_t peer);

// What the rows together say: who is missing, dead, stopped or behind, and who waits for whom.
std::vector<std::string> findings(const Comm& comm);

// One of the last calls.
std::string call_text(const Process& process, const record::Call& call, const Now& at);

// By the clock of the day: "04:05:06", of another day than today "2026-11-26 04:05:06".
std::string clock_text(int64_t wall_ns, const Now& at);
// "2026-11-27T04:05:06.789+00:00"
std::string iso_time(int64_t wall_ns);
std::string duration(double seconds);

// Sentences for what could not be read.
std::vector<std::string> unreadable_in(const Look& look);

}  // namespace sk::status

#endif  // SK_TOOLS_SK_STATUS_WORDS_H_
