#include "transport/bootstrap/report.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace sk {

Report report_of(const Status& status) {
  Report report;
  report.code = status.code();
  strncpy(report.message, status.message().c_str(), sizeof(report.message) - 1);
  return report;
}

Status verdict(const Bootstrap& bootstrap, const std::vector<Report>& reports, const char* step) {
  const auto failed = [](const Report& report) { return report.code != SK_OK; };
  auto worst = std::find_if(reports.begin(), reports.end(), [&](const Report& report) {
    return failed(report) && report.secondary == 0;
  });
  if (worst == reports.end()) worst = std::find_if(reports.begin(), reports.end(), failed);
  if (worst == reports.end()) return {};
  const std::string message(worst->message, strnlen(worst->message, sizeof(worst->message)));
  const int rank = bootstrap.launched_as(int(worst - reports.begin()));
  return error(worst->code, "{}, rank {}: {}", step, rank, message);
}

}  // namespace sk
