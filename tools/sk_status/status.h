// The forms in which `sk status` answers.
#ifndef SK_TOOLS_SK_STATUS_STATUS_H_
#define SK_TOOLS_SK_STATUS_STATUS_H_

#include <string>

#include "tools/sk_status/jobs.h"

namespace sk::status {

// `calls`: so many of the last of each rank.
std::string to_text(const Found& found, size_t calls);
std::string to_json(const Found& found, size_t calls);
// As OpenMetrics 1.0 has it, or the text format 0.0.4 that Prometheus had before.
enum class Metrics { kOpenMetrics, kPrometheus };
std::string to_metrics(const Found& found, Metrics form);

}  // namespace sk::status

#endif  // SK_TOOLS_SK_STATUS_STATUS_H_
