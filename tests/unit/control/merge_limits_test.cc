// Output without measure: views stay bounded, nothing is lost without a word, and time is linear in
// the bytes, whatever they are.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <random>
#include <regex>

#include "lib/control/log/cell_logs.h"
#include "lib/control/merge/render.h"
#include "lib/control/text.h"
#include "tests/unit/control/merge_testing.h"

namespace sk::control {
namespace {

using namespace testing_support;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

uint64_t count_lines(const std::vector<Event>& events) {
  uint64_t lines = 0;
  for (const Event& event : events)
    lines += static_cast<uint64_t>(std::count(event.text.begin(), event.text.end(), '\n'));
  return lines;
}

// How many lines the notes among `events` say are missing.
uint64_t count_elided(const std::vector<Event>& events) {
  static const std::regex kNote("^… ([0-9,]+) lines? elided");
  uint64_t lines = 0;
  for (const Event& event : events) {
    std::smatch match;
    if (event.kind != SK_EVENT_DISPLAY || !std::regex_search(event.mimes[0].data, match, kNote))
      continue;
    std::string digits = match[1];
    digits.erase(std::remove(digits.begin(), digits.end(), ','), digits.end());
    lines += std::stoull(digits);
  }
  return lines;
}

TEST(MergeLimits, WhatIsShownAndWhatIsSaidToBeMissingAreAll) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto ranks = static_cast<uint32_t>(1 + random() % 5);
    MergeOptions options;
    options.style.limits.lines = 16 + random() % 100;
    options.style.limits.bytes = 4096;
    MemoryChunks chunks(100);
    CellLogs logs(chunks, LogLimits{});
    logs.start(1, 0, all_ranks(ranks), 1 << 20);
    MergeEngine engine(all_ranks(ranks), options);
    Reader reader;
    std::vector<std::string> printed(ranks);
    uint64_t total = 0;
    int64_t now = 0;
    for (int i = 0; i < 1000; ++i) {
      const auto rank = static_cast<uint32_t>(random() % ranks);
      const Record record = out(std::to_string(rank) + " says " + std::to_string(i) + "\n");
      printed[rank] += std::get<StreamRecord>(record.body).text;
      engine.add(rank, record, now);
      logs.add(1, rank, record);
      ++total;
      now += static_cast<int64_t>(random() % 20'000'000);
      reader.read(engine.live(now));
    }
    reader.read(engine.finish({}, now));
    EXPECT_EQ(count_lines(reader.kept()) + count_elided(reader.kept()), total);
    EXPECT_LE(count_lines(reader.kept()), options.style.limits.lines);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      LogRequest request;
      request.ranks = std::to_string(rank);
      EXPECT_EQ(logs.answer(request).text, printed[rank]);
    }
  }
}

TEST(MergeLimits, ALongLineIsCutAndSaysBy) {
  MergeEngine engine({0}, MergeOptions{});
  for (int i = 0; i < 500; ++i) engine.add(0, out(std::string(100'000, 'x')), 0);
  engine.add(0, out("\nnext\n"), 0);
  Reader reader;
  reader.read(engine.finish({}, 0));
  const std::string text = reader.text();
  EXPECT_LT(text.size(), 300'000u);
  EXPECT_NE(text.find("… " + grouped(50'000'000 - kLineBytesMax) + " more bytes of this line"),
            std::string::npos);
  EXPECT_TRUE(text.ends_with("\nnext\n>"));
}

TEST(MergeLimits, DisplaysAreBounded) {
  MergeEngine engine(all_ranks(2), MergeOptions{});
  for (int i = 0; i < 20'000; ++i)
    for (uint32_t rank : {0u, 1u}) engine.add(rank, shown(SK_DISPLAY_DATA, std::to_string(i)), 0);
  const auto events = engine.finish({}, 0);
  EXPECT_LE(events.size(), 510u);
  const bool said = std::any_of(events.begin(), events.end(), [](const Event& event) {
    return event.mimes[0].data.find("displays elided") != std::string::npos;
  });
  EXPECT_TRUE(said);
}

TEST(MergeLimits, StreamsThatTakeTurnsAreFewMessages) {
  MergeEngine engine({0}, MergeOptions{});
  for (int i = 0; i < 4000; ++i) {
    engine.add(0, out("o" + std::to_string(i) + "\n"), 0);
    engine.add(0, err("e" + std::to_string(i) + "\n"), 0);
  }
  const auto events = engine.finish({}, 0);
  EXPECT_LE(events.size(), kTurnsMax + 4);
  EXPECT_EQ(count_lines(events), 8000u);
}

TEST(MergeLimits, LiveMessagesKeepTheirPace) {
  MergeEngine engine(all_ranks(3), MergeOptions{});
  size_t messages = 0, bytes = 0;
  std::mt19937_64 random(7);
  constexpr int64_t kSeconds = 20;
  for (int64_t now = 0; now < kSeconds * 1'000'000'000; now += 2'000'000) {
    const auto rank = static_cast<uint32_t>(random() % 3);
    switch (random() % 4) {
      case 0:
        engine.add(rank, err("\r" + std::to_string(now % 100) + "%"), now);
        break;
      case 1:
        engine.add(rank, shown(random() % 2 == 0 ? 1 : 3, "d", "id"), now);
        break;
      default:
        engine.add(rank, out(std::string(random() % 3000, 'x') + "\n"), now);
    }
    for (const Event& event : engine.live(now)) {
      ++messages;
      bytes += event.text.size();
      for (const Mime& mime : event.mimes) bytes += mime.data.size();
    }
  }
  EXPECT_GE(messages, 10u);
  EXPECT_LE(messages, 20 * kSeconds + 40);
  EXPECT_LE(bytes, 500'000 * kSeconds + 200'000);
}

// Processor seconds for about `bytes` bytes of `piece`, shown live.
double cost(const std::string& piece, uint64_t bytes, uint32_t ranks) {
  const double begin = cpu_seconds();
  MergeEngine engine(all_ranks(ranks), MergeOptions{});
  std::string batch;
  while (batch.size() < 32'768) batch += piece;
  int64_t now = 0;
  for (uint64_t sent = 0; sent < bytes; sent += batch.size(), now += 5'000'000) {
    for (uint32_t rank = 0; rank < ranks; ++rank) engine.add(rank, out(batch), now);
    engine.live(now);
  }
  engine.finish({}, now);
  return cpu_seconds() - begin;
}

TEST(MergeLimits, TimeIsLinearInTheBytesWhateverTheyAre) {
  const std::string pieces[] = {"an ordinary line of text\n",
                                "x",
                                "\n",
                                "\r",
                                "x\b",
                                "x\b\b",
                                "\rabc",
                                "\x1b[A",
                                "x\x1b[Ay\n",
                                "\x1b[2Kx\r",
                                "x\x1b[1K",
                                "\x1b[",
                                "\x1b[m",
                                "\xff",
                                "\xe6\x97",
                                "日本\r",
                                "50%\r",
                                std::string(1000, 'x') + "\rabc\x1b[31m\n",
                                "\x1b[mx\r\x1b[m"};
  for (const std::string& piece : pieces) {
    const double small = cost(piece, 512 * 1024, 2);
    const double large = cost(piece, 4 * 512 * 1024, 2);
    // Quadratic would be sixteenfold; below 50 ms the clock decides.
    EXPECT_TRUE(large < 0.05 || large < 10 * small)
        << small << " s, then " << large << " s for "
        << ::testing::PrintToString(piece.substr(0, 20));
  }
}

// Servers drop messages of some megabytes, so a value's text is cut, and says by how much.
TEST(MergeLimits, ResultsAreCut) {
  const auto of = [](char c) {
    return DisplayRecord{SK_DISPLAY_RESULT, {{"text/plain", std::string(3'000'000, c)}}, "", ""};
  };
  const std::vector<DisplayRecord> values = {of('a'), of('b'), of('c')};
  std::vector<RankResult> results;
  for (uint32_t rank = 0; rank < 3; ++rank) results.push_back({rank, &values[rank]});
  const Event table = render_result(results, all_ranks(3), {});
  ASSERT_EQ(table.mimes.size(), 2u);
  for (const Mime& mime : table.mimes) {
    EXPECT_LT(mime.data.size(), 600'000u) << mime.type;
    for (char c : {'a', 'b', 'c'})
      EXPECT_NE(mime.data.find(std::string(100'000, c)), std::string::npos) << mime.type << c;
    EXPECT_NE(mime.data.find(" more bytes of this value"), std::string::npos) << mime.type;
  }
  const Event one = render_result({{0, &values[0]}}, {0}, {});
  EXPECT_EQ(one.mimes[0].data, std::string(524'288, 'a') + "… 2,475,712 more bytes of this value");
}

// What one line comes to while it grows, on ranks that are not equally far.
TEST(MergeLimits, ALongLineIsOneLineWhileItRuns) {
  MergeEngine engine({0, 1}, {});
  Reader reader;
  int64_t now = 0;
  for (size_t piece = 0; piece < 40; ++piece)
    for (const uint32_t rank : {0u, 1u}) {
      engine.add(rank, out(std::string(100'000 + 100 * rank, 'A')), now);
      reader.read(engine.live(now += kHoldNs));
    }
  const auto row_has = [&](const std::string& words) {
    return std::any_of(reader.kept().begin(), reader.kept().end(), [&](const Event& event) {
      return event.kind == SK_EVENT_DISPLAY && event.mimes[0].data.find(words) != std::string::npos;
    });
  };
  EXPECT_TRUE(row_has("… a long line that has not ended"));
  EXPECT_FALSE(row_has("lines elided"));
  engine.add(0, out(std::string(4000, 'A') + "\n"), now);
  engine.add(1, out("\n"), now);
  for (int i = 0; i < 3; ++i) reader.read(engine.live(now += kHoldNs));
  EXPECT_TRUE(row_has("… 1 line elided"));
}

}  // namespace
}  // namespace sk::control
