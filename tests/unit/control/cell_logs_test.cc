// The logs of cells: every byte up to the limit, head and tail beyond, the oldest cells first.
#include "lib/control/log/cell_logs.h"

#include <gtest/gtest.h>

#include <random>

#include "lib/control/text.h"
#include "tests/unit/control/merge_testing.h"

namespace sk::control {
namespace {

using testing_support::err;
using testing_support::out;
using testing_support::shown;

LogRequest text_of(uint64_t cell, std::string ranks, uint64_t offset = 0, uint64_t limit = 0) {
  LogRequest request;
  request.request = 7;
  request.cell = cell;
  request.ranks = std::move(ranks);
  request.offset = offset;
  request.limit = limit;
  return request;
}

std::string read_all(CellLogs& logs, uint64_t cell, const std::string& ranks, uint64_t piece) {
  std::string all;
  while (true) {
    const Reply reply = logs.answer(text_of(cell, ranks, all.size(), piece));
    EXPECT_EQ(reply.status, SK_OK) << reply.text;
    EXPECT_EQ(reply.start, all.size());
    all += reply.text;
    EXPECT_EQ(reply.end, all.size());
    if (reply.text.empty() || all.size() == reply.total) return all;
  }
}

TEST(CellLogs, EveryByteInOrderHoweverItIsRead) {
  MemoryChunks chunks(1000);
  CellLogs logs(chunks, LogLimits{});
  logs.start(1, 0, all_ranks(2), 1 << 20);
  std::string expected;
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = std::to_string(random()) + (i % 7 == 0 ? "\r" : " größe\n");
    logs.add(1, 1, i % 3 == 0 ? err(text) : out(text));
    expected += text;
  }
  EXPECT_EQ(read_all(logs, 1, "1", 0), expected);
  for (uint64_t piece : {10'000u, 16'384u, 40'001u})
    EXPECT_EQ(read_all(logs, 1, "1", piece), expected);
  EXPECT_EQ(read_all(logs, 1, "0", 0), "");
  EXPECT_EQ(read_all(logs, 0, "1", 0), expected) << "cell 0 is the newest";
}

TEST(CellLogs, ACharacterCutInTwoIsWhole) {
  MemoryChunks chunks(10);
  CellLogs logs(chunks, LogLimits{});
  logs.start(1, 0, {0}, 1 << 20);
  logs.add(1, 0, out("\xe6\x97"));
  logs.add(1, 0, out("\xa5\xff"));
  EXPECT_EQ(read_all(logs, 1, "0", 0), "日\xef\xbf\xbd");
}

TEST(CellLogs, BeyondTheLimitTheBeginningAndTheEndStay) {
  MemoryChunks chunks(1000);
  CellLogs logs(chunks, LogLimits{});
  logs.start(1, 0, {0}, 4 * kChunkBytes);
  std::string all;
  for (int i = 0; i < 40'000; ++i) all += std::to_string(i) + "\n";
  logs.add(1, 0, out(all));
  const std::string kept = read_all(logs, 1, "0", 0);
  EXPECT_LE(kept.size(), 5 * kChunkBytes + 200);
  EXPECT_EQ(kept.substr(0, 2 * kChunkBytes), all.substr(0, 2 * kChunkBytes));
  EXPECT_EQ(kept.substr(kept.size() - kChunkBytes), all.substr(all.size() - kChunkBytes));
  const size_t note = kept.find("\n… ");
  ASSERT_EQ(note, 2 * kChunkBytes);
  const size_t tail = kept.find("kept …\n") + std::string("kept …\n").size();
  const uint64_t missing = all.size() - 2 * kChunkBytes - (kept.size() - tail);
  EXPECT_NE(kept.find("(" + grouped(missing) + " bytes) were not kept"), std::string::npos)
      << missing;
}

TEST(CellLogs, OldCellsMakeRoom) {
  MemoryChunks chunks(8);
  CellLogs logs(chunks, LogLimits{.cells = 3});
  const std::string chunk(kChunkBytes * 3, 'x');
  for (uint64_t cell = 1; cell <= 5; ++cell) {
    logs.start(cell, static_cast<int64_t>(10 * cell), {0}, 1 << 20);
    logs.add(cell, 0, out(chunk));
  }
  EXPECT_EQ(read_all(logs, 5, "0", 0), chunk);
  EXPECT_EQ(read_all(logs, 4, "0", 0), chunk);
  const Reply gone = logs.answer(text_of(3, "0"));
  EXPECT_EQ(gone.status, SK_ERR_OUT_OF_RANGE);
  EXPECT_NE(gone.text.find("cell 3 is not kept: 4 to 5 are; older ones were dropped"),
            std::string::npos)
      << gone.text;
  LogRequest by_number = text_of(0, "0");
  by_number.execution_count = 40;
  EXPECT_EQ(logs.answer(by_number).total, chunk.size());
  by_number.execution_count = 41;
  EXPECT_EQ(logs.answer(by_number).status, SK_ERR_OUT_OF_RANGE);
}

TEST(CellLogs, NoRoomForOneCellCutsIt) {
  MemoryChunks chunks(4);
  CellLogs logs(chunks, LogLimits{});
  logs.start(1, 0, all_ranks(2), 1 << 30);
  std::string all;
  for (int i = 0; all.size() < 10 * kChunkBytes; ++i) all += std::to_string(i) + "\n";
  logs.add(1, 0, out(all));
  const std::string kept = read_all(logs, 1, "0", 0);
  EXPECT_NE(kept.find("were not kept"), std::string::npos);
  EXPECT_EQ(kept.substr(kept.size() - 100), all.substr(all.size() - 100));
}

TEST(CellLogs, SeveralRanksAreMerged) {
  MemoryChunks chunks(100);
  CellLogs logs(chunks, LogLimits{.merged_bytes = 1000});
  logs.start(1, 0, all_ranks(3), 1 << 20);
  for (uint32_t rank : {2, 0, 1})
    logs.add(1, rank, out("same\nI am " + std::to_string(rank) + "\n"));
  EXPECT_EQ(read_all(logs, 1, "", 0), "    same\n[0] I am 0\n[1] I am 1\n[2] I am 2\n");
  EXPECT_EQ(read_all(logs, 1, "0,2", 9), "    same\n[0] I am 0\n[2] I am 2\n");
  logs.add(1, 0, out(std::string(2000, 'x')));
  const Reply refused = logs.answer(text_of(1, ""));
  EXPECT_EQ(refused.status, SK_ERR_OUT_OF_RANGE);
  EXPECT_NE(refused.text.find("ask for fewer ranks"), std::string::npos) << refused.text;
}

TEST(CellLogs, DisplaysAreReadOneByOne) {
  MemoryChunks chunks(10);
  CellLogs logs(chunks, LogLimits{.memory_bytes = 100'000});
  logs.start(1, 0, all_ranks(2), 1 << 20);
  logs.add(1, 1, shown(SK_DISPLAY_DATA, "first"));
  logs.add(1, 1, shown(SK_DISPLAY_RESULT, "second"));
  logs.add(1, 1, shown(SK_DISPLAY_DATA, std::string(200'000, 'x')));
  LogRequest request = text_of(1, "1", 1);
  request.what = SK_LOG_DISPLAY;
  const Reply second = logs.answer(request);
  EXPECT_EQ(second.total, 2u);
  ASSERT_EQ(second.mimes.size(), 1u);
  EXPECT_EQ(second.mimes[0].data, "second");
  request.offset = 2;
  EXPECT_NE(logs.answer(request).text.find("2 are kept, 1 were too much"), std::string::npos);
  request.ranks = "0";
  EXPECT_NE(logs.answer(request).text.find("rank 0 displayed nothing"), std::string::npos);
  request.ranks = "";
  EXPECT_EQ(logs.answer(request).status, SK_ERR_INVALID_ARGUMENT);
  request.ranks = "5";
  EXPECT_NE(logs.answer(request).text.find("rank 5 did not run cell 1"), std::string::npos);
}

TEST(CellLogs, CellsAreCalledByTheNotebooksNumber) {
  MemoryChunks chunks(1);
  CellLogs logs(chunks, LogLimits{});
  logs.start(1, 17, {0}, 1 << 20);
  EXPECT_NE(logs.answer(text_of(1, "5")).text.find("did not run cell 17,"), std::string::npos);
}

TEST(CellLogs, NothingHasRun) {
  MemoryChunks chunks(1);
  CellLogs logs(chunks, LogLimits{});
  EXPECT_EQ(logs.answer(text_of(0, "")).text, "no cell has run yet");
}

}  // namespace
}  // namespace sk::control
