// The Jupyter wire format: signed multipart messages of four JSON parts.
#ifndef SK_TOOLS_SK_KERNEL_WIRE_H_
#define SK_TOOLS_SK_KERNEL_WIRE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <vector>

#include "lib/base/status.h"

namespace sk::kernel {

using Json = nlohmann::json;

inline constexpr const char* kProtocol = "5.5";

struct Message {
  std::vector<std::string> identities;
  Json header = Json::object();
  Json parent = Json::object();
  Json metadata = Json::object();
  Json content = Json::object();
  std::vector<std::string> buffers;
  std::string flaw;  // Not "": why the content could not be read; it is empty then.

  std::string type() const { return header.value("msg_type", ""); }
};

// Signs with HMAC-SHA256, and takes nothing that is not signed.
class Wire {
 public:
  Wire(std::string key, std::string session) : key_(std::move(key)), session_(std::move(session)) {}

  // SK_ERR_TRUST for a wrong or repeated signature, SK_ERR_TRANSPORT for parts that are no message.
  // A message whose content alone cannot be read comes with a flaw, so that it can be answered.
  Result<Message> parse(std::vector<std::string> parts);

  // A message of ours with a fresh header, as parts.
  std::vector<std::string> build(const std::string& type,
                                 const std::vector<std::string>& identities, const Json& parent,
                                 const Json& content, const Json& metadata = Json::object());

  // Of the newest message of ours.
  std::string last_id() const { return session_ + "_" + std::to_string(count_); }

 private:
  std::string sign(const std::vector<std::string>& parts, size_t first) const;
  bool seen_before(const std::string& signature);

  const std::string key_;
  const std::string session_;
  uint64_t count_ = 0;
  std::unordered_set<std::string> seen_;  // Two generations: a replay window of bounded size.
  std::unordered_set<std::string> seen_older_;
};

// JSON text; what is not UTF-8 is replaced.
std::string dump(const Json& json);

// HMAC-SHA256 of `text` as hexadecimal digits.
std::string keyed_hash(const std::string& key, const std::string& text);

// 32 hexadecimal digits from the kernel's random numbers.
Result<std::string> random_id();

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_WIRE_H_
