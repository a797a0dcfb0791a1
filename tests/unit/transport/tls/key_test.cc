// Keys that are derived from a secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "transport/tls/tls.h"

namespace sk::tls {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string hex_key(const std::string& secret, const std::string& label, const std::string& about) {
  auto key = derive_key(bytes_of(secret), label, bytes_of(about));
  EXPECT_TRUE(key.ok()) << key.status().message();
  std::string hex;
  for (const std::byte byte : *key) hex += fmt::format("{:02x}", std::to_integer<int>(byte));
  return hex;
}

// The figure is Python's: HKDF by hmac.new() over the same salt, secret and info (RFC 5869).
TEST(TlsKey, IsHkdfOfLabelAndContext) {
  EXPECT_EQ(hex_key("correct horse battery staple", "streams", "meeting 7"),
            "bfa8c89b52a801439aa644a22eec8d75ec8f7de228f1720438a54234746cc63e");
}

TEST(TlsKey, IsAnotherForEachUse) {
  const std::string secret = "correct horse battery staple";
  const std::set<std::string> keys = {hex_key(secret, "ab", "c"), hex_key(secret, "a", "bc"),
                                      hex_key(secret, "", "abc"), hex_key(secret, "abc", ""),
                                      hex_key(secret, "", ""),    hex_key(secret + "s", "ab", "c")};
  EXPECT_EQ(keys.size(), 6U);
  EXPECT_EQ(hex_key(secret, "ab", "c"), hex_key(secret, "ab", "c"));
}

TEST(TlsKey, NeedsASecret) {
  const auto key = derive_key({}, "label", {});
  EXPECT_EQ(key.status().code(), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(key.status().message(), testing::HasSubstr("secret has 0 bytes"));
}

}  // namespace
}  // namespace sk::tls
