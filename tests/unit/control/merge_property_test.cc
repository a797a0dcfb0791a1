// What must hold of every merge: the outcome is the same in whatever order records arrive and
// however often the live view is taken; and no rank's line is lost, doubled, altered or moved.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "tests/unit/control/merge_testing.h"

namespace sk::control {
namespace {

using namespace testing_support;
using Random = std::mt19937_64;

// Lines from few words, so that ranks share many; sometimes a rank says something of its own.
std::deque<Record> random_records(Random& random, uint32_t rank, bool streams_only) {
  std::deque<Record> records;
  for (size_t i = random() % 12; i > 0; --i) {
    const std::string word(1, static_cast<char>('a' + random() % 4));
    const std::string own = random() % 4 == 0 ? word + " of " + std::to_string(rank) : word;
    switch (streams_only ? random() % 3 : random() % 8) {
      case 0:
        records.push_back(out(own + "\n" + word + "\n"));
        break;
      case 1:
        records.push_back(out(own + "\n"));
        break;
      case 2:
        records.push_back(out(own));
        records.push_back(out("+\n"));
        break;
      case 3:
        records.push_back(err(own + "\r" + word + "\n"));
        break;
      case 4:
        records.push_back(shown(SK_DISPLAY_DATA, own, word));
        break;
      case 5:
        records.push_back(shown(SK_DISPLAY_UPDATE, own, word));
        break;
      case 6:
        records.push_back(shown(SK_DISPLAY_RESULT, own));
        break;
      default:
        records.push_back(random() % 6 == 0 ? clear(random() % 2 == 0) : err(own));
        break;
    }
  }
  return records;
}

// Feeds the records in a random order of ranks, with live views at random times.
std::vector<Event> run(const std::vector<std::deque<Record>>& records, Random& random, bool live) {
  MergeEngine engine(all_ranks(static_cast<uint32_t>(records.size())), MergeOptions{});
  std::vector<std::deque<Record>> left = records;
  Reader reader;
  int64_t now = 0;
  std::vector<uint32_t> running = all_ranks(static_cast<uint32_t>(records.size()));
  while (!running.empty()) {
    const size_t pick = random() % running.size();
    const uint32_t rank = running[pick];
    if (left[rank].empty()) {
      engine.end_rank(rank);
      running.erase(running.begin() + static_cast<ptrdiff_t>(pick));
    } else {
      engine.add(rank, left[rank].front(), now);
      left[rank].pop_front();
    }
    now += static_cast<int64_t>(random() % 80'000'000);
    if (live) reader.read(engine.live(now));
  }
  reader.read(engine.finish({}, now));
  return reader.kept();
}

std::string plain(const std::vector<Event>& kept) {
  Reader reader;
  reader.read(kept);
  return reader.text();
}

TEST(MergeProperty, ArrivalNeverChangesTheOutcome) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<std::deque<Record>> records;
    for (uint32_t rank = 0, ranks = 1 + random() % 6; rank < ranks; ++rank)
      records.push_back(random_records(random, rank, /*streams_only=*/false));
    const std::string expected = plain(run(records, random, /*live=*/false));
    for (int order = 0; order < 4; ++order)
      ASSERT_EQ(plain(run(records, random, /*live=*/true)), expected);
  }
}

// How wide the column of tags is.
size_t tag_width(const std::string& text) {
  const size_t tag = text.starts_with('[') ? 0 : text.find("\n[") + 1;  // npos + 1 is 0.
  return text.empty() || text[tag] != '[' ? 0 : text.find("] ", tag) + 2 - tag;
}

// What `rank` says according to the merged text.
std::string project(const std::string& text, uint32_t rank, uint32_t ranks) {
  const size_t width = tag_width(text);
  std::string own;
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line[0] == '[') {
      const size_t close = line.find("] ");
      const RankSet set = parse_ranks(line.substr(1, close - 1), ranks).value();
      EXPECT_EQ(close + 2, width) << line;
      if (!std::binary_search(set.begin(), set.end(), rank)) continue;
      line = line.substr(close + 2);
    } else if (!line.empty()) {
      EXPECT_EQ(line.substr(0, width), std::string(width, ' '));
      line = line.substr(width);
    }
    own += line + "\n";
  }
  return own;
}

TEST(MergeProperty, EachRanksLinesAreThereOnceAndInOrder) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<std::deque<Record>> records;
    const auto ranks = static_cast<uint32_t>(1 + random() % 7);
    for (uint32_t rank = 0; rank < ranks; ++rank)
      records.push_back(random_records(random, rank, /*streams_only=*/true));
    const std::vector<Event> kept = run(records, random, /*live=*/true);
    ASSERT_LE(kept.size(), 1u);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::string said;
      for (const Record& record : records[rank]) said += std::get<StreamRecord>(record.body).text;
      ASSERT_EQ(kept.empty() ? "" : project(kept[0].text, rank, ranks), said) << "rank " << rank;
    }
  }
}

// Between two lines that all ranks share, the lines of each rank follow each other.
TEST(MergeProperty, EachRanksLinesStayTogether) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<std::deque<Record>> records;
    const auto ranks = static_cast<uint32_t>(2 + random() % 6);
    for (uint32_t rank = 0; rank < ranks; ++rank)
      records.push_back(random_records(random, rank, /*streams_only=*/true));
    const std::vector<Event> kept = run(records, random, /*live=*/true);
    const std::string text = kept.empty() ? "" : kept[0].text;
    RankSet over, speaks;                              // Since the last line of all.
    bool fills = text.find('[') == std::string::npos;  // Some tag its column: it is no wider.
    for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
      end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      const RankSet before = std::exchange(speaks, {});
      fills = fills || (line.starts_with('[') && line[1] != ' ');
      if (line.starts_with('['))
        speaks = parse_ranks(line.substr(1, line.find("] ") - 1), ranks).value();
      else
        over.clear();
      if (speaks == before) continue;
      for (const uint32_t rank : speaks)
        ASSERT_EQ(std::count(over.begin(), over.end(), rank), 0) << "rank " << rank << "\n" << text;
      if (!speaks.empty()) over.insert(over.end(), before.begin(), before.end());
    }
    EXPECT_TRUE(fills) << text;
  }
}

// Equal output is one line, however many ranks and lines there are; and it takes linear time.
TEST(MergeProperty, ManyRanksThatSayTheSameAreOne) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "step " + std::to_string(i) + "\n";
  Script script;
  for (uint32_t rank = 0; rank < 64; ++rank) script.push_back({rank, out(text)});
  EXPECT_EQ(merged(64, script), "out<" + text + ">");
}

TEST(MergeProperty, ManyRanksThatAllDifferKeepEverything) {
  Script script;
  for (uint32_t rank = 0; rank < 64; ++rank) {
    std::string text;
    for (int i = 0; i < 70; ++i) text += std::to_string(rank) + ":" + std::to_string(i) + "\n\n";
    script.push_back({rank, out(text)});
  }
  const std::string all = merged(64, script);
  const std::string stream = all.substr(4, all.size() - 5);
  // Blank lines, which all have, part what differs.
  EXPECT_EQ(project(stream, 17, 64), std::get<StreamRecord>(script[17].second.body).text);
}

}  // namespace
}  // namespace sk::control
