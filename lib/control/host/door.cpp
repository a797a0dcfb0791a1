#include "lib/control/host/door.h"

#include <algorithm>
#include <utility>

#include "transport/local/named_socket.h"

namespace sk::control {
namespace {

constexpr size_t kAttachBytesMax = 4096;  // A version and a token.

// In a time that does not tell where they differ.
bool same_token(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

}  // namespace

Door::~Door() {
  if (listener_.open() && !name_.empty()) local::remove_name(name_);
}

void Door::set(std::string name, std::string token) {
  name_ = std::move(name);
  token_ = std::move(token);
}

void Door::admit() {
  auto fd = local::accept_same_user(listener_.get());
  if (!fd.ok() || token_.empty()) return;
  auto link = local::Link::adopt(std::move(fd).value());
  if (!link.ok()) return;
  // A free place; else that of the one who has said nothing of use for the longest time.
  const auto place = std::min_element(strangers_.begin(), strangers_.end(), [](auto& a, auto& b) {
    return std::pair(a.link.open(), a.number) < std::pair(b.link.open(), b.number);
  });
  const auto index = static_cast<uint32_t>(place - strangers_.begin());
  Stranger& stranger = *place;
  send_away(stranger);
  stranger.link = std::move(link).value();
  stranger.reader = FrameReader();
  stranger.bytes = 0;
  stranger.number = ++came_;
  if (!poller_.add(stranger.link.fd(), first_token_ + index * token_step_).ok())
    stranger.link.close();
}

void Door::send_away(Stranger& stranger) {
  if (!stranger.link.open()) return;
  poller_.remove(stranger.link.fd());
  stranger.link.close();
}

std::optional<local::Link> Door::hear(uint32_t index, bool free) {
  Stranger& stranger = strangers_[index % kStrangersMax];
  if (!stranger.link.open()) return std::nullopt;
  std::string bytes;
  const local::ReadResult result = stranger.link.read(bytes);
  stranger.bytes += bytes.size();
  if (stranger.bytes > kAttachBytesMax) {
    send_away(stranger);
    return std::nullopt;
  }
  stranger.reader.feed(bytes);
  auto message = stranger.reader.next();
  const bool waits = message.ok() && !message->has_value() && result != local::ReadResult::kClosed;
  if (waits) return std::nullopt;
  const Attach* attach =
      message.ok() && message->has_value() ? std::get_if<Attach>(&**message) : nullptr;
  if (attach == nullptr || !free || !same_token(attach->token, token_)) {
    send_away(stranger);
    return std::nullopt;
  }
  poller_.remove(stranger.link.fd());
  return std::move(stranger.link);
}

}  // namespace sk::control
