// Frames: whatever is sent arrives whole whatever the pieces; whatever is hostile is refused.
#include "lib/control/framing.h"

#include <gtest/gtest.h>

#include <random>

#include "lib/control/codec.h"

namespace sk::control {
namespace {

Execute random_execute(std::mt19937& random, size_t bytes_max) {
  Execute m;
  m.cell = 1 + random();
  m.code.resize(random() % bytes_max);
  for (char& c : m.code) c = static_cast<char>(random());
  m.silent = random() % 2 == 0;
  return m;
}

// All messages of `bytes`, fed in random pieces; the last result says how it ended.
std::vector<Message> read_all(const std::string& bytes, std::mt19937& random, Status* end) {
  FrameReader reader;
  std::vector<Message> messages;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t n = std::min<size_t>(bytes.size() - begin, 1 + random() % 70'000);
    reader.feed({bytes.data() + begin, n});
    begin += n;
    while (true) {
      auto next = reader.next();
      if (!next.ok()) {
        *end = std::move(next.status());
        return messages;
      }
      if (!next->has_value()) break;
      messages.push_back(std::move(**next));
    }
  }
  return messages;
}

TEST(Framing, MessagesOfAnySizeArriveInAnyPieces) {
  std::mt19937 random(11);
  for (size_t bytes_max : {1, 100, 5'000, 3'000'000}) {
    std::string bytes;
    std::vector<Execute> sent;
    for (int i = 0; i < 5; ++i) {
      sent.push_back(random_execute(random, bytes_max));
      ASSERT_TRUE(append_frames(sent.back(), bytes).ok());
    }
    Status end;
    const auto got = read_all(bytes, random, &end);
    ASSERT_TRUE(end.ok()) << end.message();
    ASSERT_EQ(got.size(), sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(std::get<Execute>(got[i]).code, sent[i].code);
      EXPECT_EQ(std::get<Execute>(got[i]).cell, sent[i].cell);
    }
  }
}

TEST(Framing, RefusesAnOversizeFrameBeforeItsBytesCome) {
  FrameReader reader;
  const char length[] = {1, 0, 16, 0};  // 1 MiB + 1.
  reader.feed({length, 4});
  const auto next = reader.next();
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.status().message(), "frame of 1048577 bytes; the limit is 1048576");
}

TEST(Framing, RefusesAMessageThatIsTooLarge) {
  Execute m;
  m.cell = 1;
  m.code.resize(kMessageBytesMax + 1);
  std::string bytes = "before";
  EXPECT_EQ(append_frames(m, bytes).code(), SK_ERR_OUT_OF_RANGE);
  EXPECT_EQ(bytes, "before");
}

std::string frame(const Message& message) {
  std::string bytes;
  EXPECT_TRUE(append_frames(message, bytes).ok());
  return bytes;
}

TEST(Framing, RefusesFragmentsThatDoNotFit) {
  const std::string inner = encode(Shutdown{});
  const auto n = static_cast<uint64_t>(inner.size());
  const std::string half = inner.substr(0, n / 2);
  const std::string cases[] = {
      frame(Fragment{n, 1, inner}),                                       // Not at the start.
      frame(Fragment{n, 0, ""}),                                          // Empty: no progress.
      frame(Fragment{kMessageBytesMax + 1, 0, half}),                     // Too large a promise.
      frame(Fragment{n - 1, 0, inner}),                                   // More than promised.
      frame(Fragment{n, 0, half}) + frame(Shutdown{}),                    // Broken off.
      frame(Fragment{n, 0, half}) + frame(Fragment{n + 8, n / 2, half}),  // Another total.
      frame(Fragment{n, 0, half}) + frame(Fragment{n, n / 2 + 1, half}),  // A gap.
  };
  for (const std::string& bytes : cases) {
    FrameReader reader;
    reader.feed(bytes);
    EXPECT_FALSE(reader.next().ok()) << &bytes - cases;
  }
  const std::string nested = encode(Fragment{8, 0, "12345678"});
  FrameReader reader;
  reader.feed(frame(Fragment{nested.size(), 0, nested}));
  EXPECT_FALSE(reader.next().ok());
}

// Method: valid frames with random bytes changed or cut. Anything but a crash or a hang is fine,
// and what does decode has passed the checks of the codec.
TEST(Framing, SurvivesDamage) {
  std::mt19937 random(13);
  size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = frame(random_execute(random, 300));
    Output output{3, 1, {}};
    output.records.push_back({5, DisplayRecord{1, {{"text/plain", "x"}}, "id", ""}});
    output.records.push_back({6, ErrorRecord{"E", "v", {"a", "b"}, 1}});
    bytes += frame(output);
    for (unsigned hits = 1 + random() % 4; hits > 0; --hits)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    Status end;
    read_all(bytes, random, &end);
    refused += end.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 500u);
}

}  // namespace
}  // namespace sk::control
