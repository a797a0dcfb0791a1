#include "transport/tcp/answers.h"

// Not netinet/tcp.h, whose tcp_info ends before what is counted.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

#include "transport/tcp/tcp.h"

namespace sk {

Result<uint32_t> read_eager_ranks(const std::string& text) {
  if (text.empty()) return kEagerRanks;
  uint32_t ranks = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, ranks);
  if (failed == std::errc() && rest == end && ranks <= 65'535) return ranks;
  return error(SK_ERR_INVALID_ARGUMENT,
               "SK_NET_EAGER_RANKS is \"{}\": it must be a whole number from 0 to 65535", text);
}

Result<int64_t> read_silence_ms(const std::string& text) {
  constexpr int64_t kLeastS = 2, kMostS = 600;
  if (text.empty()) return kSilenceMs;
  int64_t seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [last, failure] = std::from_chars(text.data(), end, seconds);
  if (failure == std::errc() && last == end && seconds >= kLeastS && seconds <= kMostS)
    return seconds * 1000;
  return error(SK_ERR_INVALID_ARGUMENT,
               "SK_NET_SILENCE_S is \"{}\": it must be whole seconds from {} to {}", text, kLeastS,
               kMostS);
}

}  // namespace sk

namespace sk::tcp {

std::optional<Answers> answers_of(int fd) {
  tcp_info info = {};
  socklen_t bytes = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  const uint32_t without_data = info.tcpi_segs_in - info.tcpi_data_segs_in;
  return Answers{.unanswered = std::max<uint32_t>(info.tcpi_retransmits, info.tcpi_probes),
                 .probing = info.tcpi_retransmits == 0,
                 .count = info.tcpi_bytes_acked + without_data};
}

}  // namespace sk::tcp
