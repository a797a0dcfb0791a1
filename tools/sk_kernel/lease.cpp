#include "tools/sk_kernel/lease.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "sk/session.h"

namespace sk::kernel {
namespace {

constexpr int64_t kDefaultSeconds = 300;
constexpr int64_t kSecondsMax = 7 * 86'400;

}  // namespace

Result<int64_t> parse_lease(const std::string& text) {
  int64_t seconds = 0;
  const char* end = text.data() + text.size();
  const auto [last, failure] = std::from_chars(text.data(), end, seconds);
  if (failure != std::errc() || last != end || seconds < 0 || seconds > kSecondsMax)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "SK_LEASE_S is \"{}\"; it must be a number of seconds from 0 to {}", text,
                 kSecondsMax);
  return seconds;
}

Result<Lease> choose_lease(const std::string& key) {
  int64_t seconds = kDefaultSeconds;
  if (const char* text = std::getenv("SK_LEASE_S")) {
    SK_ASSIGN_OR_RETURN(seconds, parse_lease(text));
  }
  Lease lease;
  lease.ms = seconds * 1000;
  if (seconds == 0) return lease;
  lease.name = keyed_hash(key, "superkernel session: name").substr(0, 32);
  lease.token = keyed_hash(key, "superkernel session: token");
  return lease;
}

Result<OpenedSession> attach_or_open(const Lease& lease, sk_session_config config) {
  OpenedSession opened;
  if (!lease.name.empty()) {
    const sk_status found =
        sk_session_attach(lease.name.c_str(), lease.token.c_str(), &opened.session, &opened.ranks);
    opened.attached = found == SK_OK;
    if (opened.attached) return opened;
    if (found != SK_ERR_PEER_LOST)
      std::fprintf(stderr, "sk kernel: the session of before is out of reach: %s\n",
                   sk_last_error());
    config.name = lease.name.c_str();
    config.token = lease.token.c_str();
    config.lease_ms = lease.ms;
  }
  opened.ranks = config.ranks;
  if (sk_session_open(&config, &opened.session) == SK_OK) return opened;
  const std::string why = sk_last_error();
  if (config.name == nullptr) return Status(SK_ERR_SYSTEM, why);
  config.name = config.token = nullptr;
  config.lease_ms = 0;
  const sk_status status = sk_session_open(&config, &opened.session);
  if (status != SK_OK) return Status(status, sk_last_error());
  std::fprintf(stderr, "sk kernel: cells will not outlive this process: %s\n", why.c_str());
  return opened;
}

}  // namespace sk::kernel
