// Updates of displays that earlier cells made.
#include "lib/control/merge/display_ids.h"

#include <gtest/gtest.h>

#include "tests/unit/control/merge_testing.h"

namespace sk::control {
namespace {

using testing_support::shown;

// What a cell shows on `ranks` ranks whose records these are, and what is known afterwards.
std::vector<Event> cell(uint32_t ranks, const testing_support::Script& script, DisplayIds& ids) {
  MergeOptions options;
  options.style.past = &ids;
  MergeEngine engine(all_ranks(ranks), options);
  for (const auto& [rank, record] : script) engine.add(rank, record, 0);
  std::vector<Event> events = engine.finish({}, 0);
  ids.learn(engine.shown(), options.style.live_id);
  return events;
}

TEST(DisplayIds, ASharedDisplayIsUpdatedByAllOfItsRanks) {
  DisplayIds ids;
  cell(2, {{0, shown(1, "a", "h")}, {1, shown(1, "a", "h")}}, ids);
  const auto events = cell(2, {{0, shown(3, "b", "h")}, {1, shown(3, "b", "h")}}, ids);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].display, uint32_t(SK_DISPLAY_UPDATE));
  EXPECT_EQ(events[0].display_id, "h");
}

TEST(DisplayIds, EachRankUpdatesItsOwn) {
  DisplayIds ids;
  cell(2, {{0, shown(1, "a", "h")}, {1, shown(1, "b", "h")}}, ids);
  auto events = cell(2, {{1, shown(3, "c", "h")}}, ids);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].display_id, "h@1");
  events = cell(2, {{0, shown(3, "same", "h")}, {1, shown(3, "same", "h")}}, ids);
  ASSERT_EQ(events.size(), 2u) << "both of their displays";
  EXPECT_EQ(events[0].display_id, "h@0");
  EXPECT_EQ(events[1].display_id, "h@1");
}

TEST(DisplayIds, OneRankDoesNotChangeWhatItsPeersShow) {
  DisplayIds ids;
  cell(2, {{0, shown(1, "a", "h")}, {1, shown(1, "a", "h")}}, ids);
  auto events = cell(2, {{1, shown(3, "mine", "h")}}, ids);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].mimes[0].data, "rank 1, display h");
  EXPECT_EQ(events[1].display, uint32_t(SK_DISPLAY_DATA));
  EXPECT_EQ(events[1].display_id, "h@1");
  events = cell(2, {{0, shown(3, "new", "h")}, {1, shown(3, "newer", "h")}}, ids);
  ASSERT_EQ(events.size(), 2u) << "from now on each has its own";
  EXPECT_EQ(events[0].display_id, "h");
  EXPECT_EQ(events[1].display_id, "h@1");
}

TEST(DisplayIds, AnUnknownOneIsPassedOn) {
  DisplayIds ids;
  const auto events = cell(2, {{0, shown(3, "x", "g")}, {1, shown(3, "x", "g")}}, ids);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].display_id, "g");
}

}  // namespace
}  // namespace sk::control
