#include "tools/sk_kernel/wire.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>

namespace sk::kernel {
namespace {

constexpr const char* kDelimiter = "<IDS|MSG>";
constexpr size_t kReplayWindow = 32'768;

std::string utc_now() {
  timeval now{};
  gettimeofday(&now, nullptr);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char date[40];
  const size_t n = strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  return std::string(date, n) + fmt::format(".{:06d}Z", now.tv_usec);
}

std::string hex(const unsigned char* bytes, size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

// `flaw` says what keeps the text from being a JSON object, which is empty then.
Json parse_object(const std::string& text, std::string& flaw) {
  try {
    Json json = Json::parse(text);
    if (json.is_object()) return json;
    flaw = "is no JSON object";
  } catch (const Json::exception& thrown) {
    // "[json.exception.parse_error.101] parse error at line 1, column 9: ...; last read: '...'"
    const std::string_view what = thrown.what();
    const size_t begin = what.find("] ") == std::string_view::npos ? 0 : what.find("] ") + 2;
    flaw = fmt::format("is no JSON text of UTF-8: {}",
                       what.substr(begin, what.find("; last read", begin) - begin));
  }
  return Json::object();
}

}  // namespace

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> random_id() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return system_error("getrandom");
  return hex(bytes, sizeof bytes);
}

std::string Wire::sign(const std::vector<std::string>& parts, size_t first) const {
  std::string signed_bytes;
  for (size_t i = first; i < first + 4; ++i) signed_bytes += parts[i];
  return keyed_hash(key_, signed_bytes);
}

std::string keyed_hash(const std::string& key, const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  return hex(digest, size);
}

bool Wire::seen_before(const std::string& signature) {
  if (seen_.contains(signature) || seen_older_.contains(signature)) return true;
  seen_.insert(signature);
  if (seen_.size() > kReplayWindow) seen_older_ = std::exchange(seen_, {});
  return false;
}

Result<Message> Wire::parse(std::vector<std::string> parts) {
  const auto delimiter = std::find(parts.begin(), parts.end(), kDelimiter);
  const auto at = static_cast<size_t>(delimiter - parts.begin());
  if (parts.size() < at + 6)
    return error(SK_ERR_TRANSPORT, "a message of {} parts, which is no Jupyter message",
                 parts.size());
  const std::string expected = sign(parts, at + 2);
  const std::string& given = parts[at + 1];
  if (given.size() != expected.size() ||
      CRYPTO_memcmp(given.data(), expected.data(), given.size()) != 0)
    return error(SK_ERR_TRUST, "a message with a wrong signature");
  if (seen_before(given)) return error(SK_ERR_TRUST, "a message that was sent before");
  Message message;
  Json* const targets[] = {&message.header, &message.parent, &message.metadata, &message.content};
  for (size_t i = 0; i < 4; ++i) {
    std::string flaw;
    *targets[i] = parse_object(parts[at + 2 + i], flaw);
    if (flaw.empty()) continue;
    if (i < 3) return error(SK_ERR_TRANSPORT, "part {} of a message {}", i, flaw);
    message.flaw = "the message's content " + flaw;
  }
  if (!message.header.contains("msg_type") || !message.header["msg_type"].is_string())
    return error(SK_ERR_TRANSPORT, "a message without msg_type");
  message.identities.assign(parts.begin(), delimiter);
  message.buffers.assign(parts.begin() + static_cast<std::ptrdiff_t>(at) + 6, parts.end());
  return message;
}

std::vector<std::string> Wire::build(const std::string& type,
                                     const std::vector<std::string>& identities, const Json& parent,
                                     const Json& content, const Json& metadata) {
  ++count_;
  const Json header = {{"msg_id", last_id()}, {"session", session_}, {"username", "kernel"},
                       {"date", utc_now()},   {"msg_type", type},    {"version", kProtocol}};
  std::vector<std::string> parts = identities;
  parts.emplace_back(kDelimiter);
  parts.emplace_back();
  const size_t first = parts.size();
  for (const Json* part : {&header, &parent, &metadata, &content}) parts.push_back(dump(*part));
  parts[first - 1] = sign(parts, first);
  return parts;
}

}  // namespace sk::kernel
