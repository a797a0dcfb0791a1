#include "tools/sk_doctor/meeting.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "transport/bootstrap/env.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/secret_fd.h"
#include "transport/local/secret.h"

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

// This program has taken the secret in, and the library that is loaded has a memory of its own. As
// a file, for a secret may have any bytes, and a variable none behind a NUL.
Status hand_over_secret(bool here) {
  SK_ASSIGN_OR_RETURN(const std::string secret, read_job_secret(process_env, here));
  if (secret.empty()) return {};
  SK_ASSIGN_OR_RETURN(local::Fd file, local::keep_job_secret(secret));
  SK_ASSIGN_OR_RETURN(const std::string name, name_secret_fd(file.get(), file.get()));
  setenv("SK_JOB_SECRET_FD", name.c_str(), 1);
  (void)file.release();  // Whoever reads it closes it.
  return {};
}

}  // namespace

Meeting::Meeting(std::unique_ptr<Bootstrap> bootstrap, double timeout_s)
    : bootstrap_(std::move(bootstrap)), timeout_ns_(int64_t(timeout_s * 1e9)) {}

Result<Meeting> Meeting::join(double timeout_s, bool here) {
  BootstrapConfig config;
  config.kind = SK_BOOTSTRAP_ENV;
  config.name = "sk doctor";
  config.timeout_ns = int64_t(timeout_s * 1e9);
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> bootstrap, make_bootstrap(config));
  SK_RETURN_IF_ERROR(hand_over_secret(here));
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

// Heads first, then as many bytes as the longest has: where a path takes small packets only, what
// is small still comes.
Result<std::vector<Meeting::Step>> Meeting::step(const Step& mine) {
  struct Head {
    uint32_t stands_still, enough, bytes;
  };
  const Head head = {mine.stands_still, mine.enough, uint32_t(mine.bytes.size())};
  SK_ASSIGN_OR_RETURN(const std::vector<std::byte> all,
                      gather_bytes(std::as_bytes(std::span(&head, 1))));
  std::vector<Head> heads(all.size() / sizeof(Head));
  std::memcpy(heads.data(), all.data(), all.size());
  uint32_t most = 0;
  for (const Head& each : heads) most = std::max(most, each.bytes);
  std::vector<std::byte> padded = mine.bytes, parts;
  padded.resize(most);
  if (most > 0) {
    SK_ASSIGN_OR_RETURN(parts, gather_bytes(padded));
  }
  std::vector<Step> steps;
  for (size_t rank = 0; rank < heads.size(); ++rank) {
    const std::byte* from = parts.data() + rank * most;
    steps.push_back({heads[rank].stands_still != 0, heads[rank].enough != 0,
                     std::vector<std::byte>(from, from + heads[rank].bytes)});
  }
  return steps;
}

}  // namespace sk::doctor
