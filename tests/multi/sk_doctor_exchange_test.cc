// What two ranks of the doctor say of the bytes that crossed, over a library that is made up: its
// sends and receives are queues, which can be told to fail or to change a bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "tools/sk_doctor/exchange.h"
#include "tools/sk_doctor/facts.h"
#include "tools/sk_doctor/reached.h"

namespace {

using namespace sk::doctor;
using testing::Contains;
using testing::HasSubstr;

std::mutex wire_lock;
std::condition_variable wire_changed;
std::deque<std::vector<int64_t>> wires[2];  // By who receives.
int64_t flip_at = -1;                       // Word of a large message to rank 1.
bool large_are_lost = false;

sk_status fake_send(sk_comm*, const void* in, int64_t count, int32_t, int32_t peer,
                    const sk_run_options*) noexcept {
  const std::lock_guard lock(wire_lock);
  const auto* words = static_cast<const int64_t*>(in);
  if (large_are_lost && count > 1) return SK_ERR_TIMEOUT;
  wires[peer].emplace_back(words, words + count);
  if (count > 1 && peer == 1 && flip_at >= 0) wires[1].back()[size_t(flip_at)] ^= 4;
  wire_changed.notify_all();
  return SK_OK;
}

sk_status fake_recv(sk_comm*, void* out, int64_t count, int32_t, int32_t peer,
                    const sk_run_options*) noexcept {
  std::unique_lock lock(wire_lock);
  if (large_are_lost && count > 1) return SK_ERR_TIMEOUT;
  auto& wire = wires[1 - peer];
  wire_changed.wait(lock, [&] { return !wire.empty(); });
  std::memcpy(out, wire.front().data(), size_t(count) * sizeof(int64_t));
  wire.pop_front();
  return SK_OK;
}

const char* fake_last_error() noexcept { return "nothing came"; }

// Both sides' word on one exchange.
std::vector<Exchanged> both() {
  Library library;
  library.send = fake_send;
  library.recv = fake_recv;
  library.last_error = fake_last_error;
  std::vector<Exchanged> said(2);
  std::thread other([&] { said[1] = exchange(library, nullptr, 1, 0, 7, true); });
  said[0] = exchange(library, nullptr, 0, 1, 7, true);
  other.join();
  for (auto& wire : wires) wire.clear();
  return said;
}

TEST(DoctorExchange, BytesThatCameAsTheyWereSentAreFine) {
  flip_at = -1;
  large_are_lost = false;
  for (const Exchanged& each : both()) {
    EXPECT_EQ(each.code, SK_OK) << each.failure;
    EXPECT_TRUE(each.small_came);
    EXPECT_GT(each.round_trip_us, 0);
    EXPECT_GT(each.bytes_per_s, 0);
  }
}

TEST(DoctorExchange, OneBitThatChangedIsFoundWhereItCame) {
  large_are_lost = false;
  for (const int64_t word : {int64_t{0}, int64_t{4099}, kExchangeBytes / 8 - 1}) {
    flip_at = word;
    const auto said = both();
    EXPECT_EQ(said[0].code, SK_OK);
    EXPECT_EQ(said[1].code, SK_ERR_INTERNAL);
    EXPECT_THAT(said[1].failure, HasSubstr("from byte " + std::to_string(word * 8) + " on"));
  }
  flip_at = -1;
}

TEST(DoctorExchange, LargeMessagesThatAreLostAreToldFromSmallOnes) {
  large_are_lost = true;
  const auto said = both();
  large_are_lost = false;
  std::vector<sk::doctor::Meeting::Row> rows(3);
  for (auto& row : rows) row.with.resize(3);
  rows[0].with[1] = exchanged_from(to_json(said[0]));
  rows[1].with[0] = exchanged_from(to_json(said[1]));
  const auto pairs = pairs_of(rows);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_TRUE(pairs[0].small_came);
  EXPECT_EQ(pairs[0].failure, "nothing came");
  EXPECT_EQ(matrix_text(pairs, 3),
            "  rank    0    1    2\n"
            "     0    . FAIL    ?\n"
            "     1 FAIL    .    ?\n"
            "     2    ?    ?    .\n");
}

TEST(DoctorFacts, VersionsThatDifferAreAFaultAndMachinesFindingsAreToldOnce) {
  std::vector<Json> facts(4, Json{{"host", "a"}, {"sk", "1"}, {"libsk", "1"}, {"isa", "amx"}});
  facts[3]["host"] = "b";
  facts[3]["libsk"] = "2";
  Findings machine;
  machine.limit("cpus", "few", "more");
  for (const int rank : {0, 1, 3})
    facts[size_t(rank)]["findings"] = Json::array({to_json(machine.all()[0])});
  Findings findings;
  compare_facts(facts, &findings);
  std::vector<std::string> lines;
  for (const Finding& each : findings.all())
    lines.push_back(each.id + " " + state_name(each.state) + " " + each.found);
  EXPECT_THAT(lines, Contains("differs.libsk fault 1: ranks 0-2 | 2: rank 3"));
  EXPECT_THAT(lines, Contains("cpus limit ranks 0-1,3 (a, b): few"));
  EXPECT_THAT(lines, Contains("hosts info a: ranks 0-2 | b: rank 3"));
  EXPECT_EQ(lines.size(), 3u);
}

TEST(DoctorFindings, WhatOthersSaidIsPrintable) {
  EXPECT_EQ(sk::printable("a\nb\x1b[31mc"), "a b [31mc");
  EXPECT_EQ(sk::printable("\xff"), "\xEF\xBF\xBD");
  EXPECT_EQ(sk::numbers_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
