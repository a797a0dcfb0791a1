#include "lib/record/comm_record.h"

#include <algorithm>
#include <cstring>

namespace sk::record {
namespace {

void copy(std::string_view text, char* to, size_t room) {
  const size_t bytes = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = '\0';
}

bool is_there(const OpLine& line) { return line.there.load(std::memory_order_relaxed) != 0; }

void write(OpLine& line, const char* kind, std::string_view text) {
  copy(kind, line.kind, sizeof(line.kind));
  copy(text, line.text, sizeof(line.text));
  line.there.store(1, std::memory_order_release);
}

}  // namespace

CommRecord& CommRecord::operator=(CommRecord&& other) noexcept {
  if (this == &other) return *this;
  reset();
  area_ = std::exchange(other.area_, nullptr);
  number_ = other.number_;
  return *this;
}

void CommRecord::reset() {
  if (Area* area = std::exchange(area_, nullptr)) give_back(area);
}

Result<CommRecord> CommRecord::make(const Settings& settings, const EnvLookup& env,
                                    const Meeting& meeting) {
  SK_ASSIGN_OR_RETURN(Area* const area, take_area(settings, env, /*tidies=*/meeting.rank == 0));
  CommRecord record;
  record.area_ = area;
  copy(meeting.job, area->job, sizeof(area->job));
  copy(meeting.launcher, area->launcher, sizeof(area->launcher));
  copy(meeting.name, area->name, sizeof(area->name));
  write(area->lines[kLines - 1], "other", "other");
  area->rank.store(meeting.rank, std::memory_order_relaxed);
  area->timeout_ns.store(meeting.timeout_ns, std::memory_order_relaxed);
  area->world_size.store(meeting.world_size, std::memory_order_release);  // All is told.
  return record;
}

void CommRecord::stands(uint64_t comm, int rank, const std::vector<int>& host_of, const char* far) {
  if (area_ == nullptr) return;
  area_->rank.store(uint32_t(rank), std::memory_order_relaxed);
  area_->world_size.store(uint32_t(host_of.size()), std::memory_order_relaxed);
  for (size_t other = 0; other < host_of.size() && other / 8 < area_->here.size(); ++other) {
    if (host_of[other] == host_of[size_t(rank)])
      area_->here[other / 8] = uint8_t(area_->here[other / 8] | 1u << other % 8);
  }
  copy(far, area_->far, sizeof(area_->far));
  area_->here_known.store(1, std::memory_order_release);
  area_->comm.store(comm, std::memory_order_release);
  area_->stage.store(uint32_t(Stage::kStands), std::memory_order_release);
}

// Also where it is found again: how often a program is made anew is no reason for another line.
uint32_t CommRecord::line(const char* kind, const std::string& text) {
  const std::string_view shown = std::string_view(text).substr(0, sizeof(OpLine::text) - 1);
  for (uint32_t i = 0; i < kOwnLines; ++i) {
    OpLine& line = area_->lines[i];
    if (!is_there(line)) write(line, kind, shown);
    if (shown == line.text) return i;
  }
  for (uint32_t i = kOwnLines; i < kLines; ++i) {
    OpLine& line = area_->lines[i];
    const bool last = i + 1 == kLines;
    if (!is_there(line)) write(line, kind, kind);
    if (last || std::strncmp(kind, line.kind, sizeof(line.kind) - 1) == 0) return i;
  }
  return kLines - 1;
}

void CommRecord::over(int32_t code, const std::string& sentence) {
  if (area_ == nullptr || area_->over_code.load(std::memory_order_relaxed) != 0) return;
  copy(sentence, area_->over_sentence, sizeof(area_->over_sentence));
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  area_->over_ns.store(int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec,
                       std::memory_order_relaxed);
  area_->over_code.store(code, std::memory_order_release);
  area_->stage.store(uint32_t(Stage::kOver), std::memory_order_release);
}

}  // namespace sk::record
