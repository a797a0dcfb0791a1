#include "tools/sk_doctor/meeting.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "transport/bootstrap/env.h"
#include "transport/bootstrap/secret.h"

namespace sk::doctor {
namespace {

// Who waits may have begun so much before whom it waits for has come to its own limit.
constexpr int64_t kLaterNs = 5'000'000'000;
constexpr int kClockLooks = 5;

double day_clock_s() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return double(now.tv_sec) + double(now.tv_nsec) / 1e9;
}

}  // namespace

Meeting::Meeting(std::unique_ptr<Bootstrap> bootstrap, double timeout_s)
    : bootstrap_(std::move(bootstrap)), timeout_ns_(int64_t(timeout_s * 1e9)) {}

Result<Meeting> Meeting::join(double timeout_s) {
  BootstrapConfig config;
  config.kind = SK_BOOTSTRAP_ENV;
  config.name = "sk doctor";
  config.timeout_ns = int64_t(timeout_s * 1e9);
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> bootstrap, make_bootstrap(config));
  // This program has taken the secret in, and the library that is loaded has a memory of its own.
  SK_ASSIGN_OR_RETURN(const std::string secret, read_job_secret(process_env));
  if (!secret.empty()) setenv("SK_JOB_SECRET", secret.c_str(), 1);
  return Meeting(std::move(bootstrap), timeout_s);
}

Result<std::vector<std::byte>> Meeting::gather_bytes(std::span<const std::byte> mine) {
  return bootstrap_->allgather(mine, timeout_ns_ + kLaterNs);
}

// Parts of one size: first how many bytes each has, then as many as the longest.
Result<std::vector<Json>> Meeting::gather(const Json& mine) {
  const std::string text = mine.dump(-1, ' ', false, Json::error_handler_t::replace);
  const uint64_t size = text.size();
  SK_ASSIGN_OR_RETURN(const std::vector<std::byte> sizes,
                      gather_bytes(std::as_bytes(std::span(&size, 1))));
  std::vector<uint64_t> size_of(sizes.size() / sizeof(uint64_t));
  std::memcpy(size_of.data(), sizes.data(), sizes.size());
  const uint64_t most = *std::max_element(size_of.begin(), size_of.end());
  std::string padded = text;
  padded.resize(most);
  SK_ASSIGN_OR_RETURN(const std::vector<std::byte> all,
                      gather_bytes(std::as_bytes(std::span(padded.data(), most))));
  std::vector<Json> out;
  for (size_t rank = 0; rank < size_of.size(); ++rank) {
    const auto* begin = reinterpret_cast<const char*>(all.data()) + rank * most;
    out.push_back(Json::parse(begin, begin + std::min(size_of[rank], most), nullptr, false));
  }
  return out;
}

// Each gathering ends, on every rank, after all have begun it: rank r's clock read at its end is
// later than rank 0's read before, and earlier than rank 0's read after the next.
Result<Meeting::Clocks> Meeting::compare_clocks() {
  Clocks clocks;
  clocks.give_or_take_s = 1e9;
  for (int look = 0; look < kClockLooks; ++look) {
    double here_s = day_clock_s();
    SK_RETURN_IF_ERROR(gather_bytes(std::as_bytes(std::span(&here_s, 1))).status().clone());
    const double before_s = here_s;
    here_s = day_clock_s();
    SK_ASSIGN_OR_RETURN(const std::vector<std::byte> all,
                        gather_bytes(std::as_bytes(std::span(&here_s, 1))));
    const double width_s = day_clock_s() - before_s;
    if (width_s / 2 >= clocks.give_or_take_s) continue;
    clocks.give_or_take_s = width_s / 2;
    std::vector<double> read_s(all.size() / sizeof(double));
    std::memcpy(read_s.data(), all.data(), all.size());
    clocks.ahead_s.clear();
    for (const double each : read_s) clocks.ahead_s.push_back(each - before_s - width_s / 2);
  }
  return clocks;
}

Result<std::vector<Meeting::Step>> Meeting::step(const Step& mine) {
  constexpr size_t kHead = 8, kStepBytes = 16 << 10;  // A communicator of two gathers less at once.
  const auto size = uint32_t(mine.bytes.size());
  if (size > kStepBytes)
    return error(SK_ERR_OUT_OF_RANGE, "{} bytes in a step of at most {}", size, kStepBytes);
  std::vector<std::byte> part(kHead + kStepBytes);
  part[0] = std::byte(mine.stands_still);
  part[1] = std::byte(mine.enough);
  std::memcpy(&part[4], &size, sizeof(size));
  std::copy(mine.bytes.begin(), mine.bytes.end(), part.begin() + kHead);
  SK_ASSIGN_OR_RETURN(const std::vector<std::byte> all, gather_bytes(part));
  std::vector<Step> steps(all.size() / part.size());
  for (size_t rank = 0; rank < steps.size(); ++rank) {
    const std::byte* from = all.data() + rank * part.size();
    uint32_t bytes = 0;
    std::memcpy(&bytes, from + 4, sizeof(bytes));
    bytes = std::min(bytes, uint32_t(kStepBytes));
    steps[rank] = {from[0] != std::byte(0), from[1] != std::byte(0),
                   std::vector<std::byte>(from + kHead, from + kHead + bytes)};
  }
  return steps;
}

}  // namespace sk::doctor
