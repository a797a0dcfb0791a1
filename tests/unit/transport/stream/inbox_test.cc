#include "transport/stream/inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/tape.h"

namespace sk::stream {
namespace {

using ::testing::HasSubstr;
using testing_support::Tape;

class InboxTest : public ::testing::Test {
 protected:
  InboxTest() {
    layout_.world_size = 3;
    layout_.signal_count_max = 64;
    layout_.heap_bytes_max = 1 << 20;
    memory_.resize((layout_.control_bytes() + layout_.bytes()) / 64);
    auto* start = reinterpret_cast<std::byte*>(memory_.data());
    own_.control = control_block_at(start, layout_);
    own_.segment = start + layout_.control_bytes();
  }
  template <typename T>
  void add(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    tape_.insert(tape_.end(), bytes.begin(), bytes.end());
  }
  Status receive(size_t piece = SIZE_MAX) {
    Tape tape(tape_, piece);
    Inbox inbox(1, own_, layout_);
    while (!tape.ended()) SK_RETURN_IF_ERROR(std::move(inbox.receive(tape, 1 << 20).status()));
    return {};
  }
  bool untouched() const {
    return std::all_of(memory_.begin(), memory_.end(), [](const Line& line) {
      return std::all_of(std::begin(line.bytes), std::end(line.bytes),
                         [](char c) { return c == 0; });
    });
  }

  struct alignas(64) Line {
    char bytes[64] = {};
  };
  SegmentLayout layout_;
  std::vector<Line> memory_;
  MappedView own_;
  std::vector<std::byte> tape_;
};

TEST_F(InboxTest, WhatNoRankSendsTouchesNothing) {
  struct Row {
    FrameHeader header;
    const char* says;
  };
  const uint64_t end = layout_.bytes();
  const FrameHeader put = {.kind = FrameKind::kPut, .signal = 1, .add = 1, .offset = 0, .bytes = 8};
  auto with = [&](auto change) {
    FrameHeader header = put;
    change(header);
    return header;
  };
  const Row rows[] = {
      {with([&](FrameHeader& h) { h.offset = end - 7; }), "8 bytes for offset"},
      {with([&](FrameHeader& h) { h.offset = UINT64_MAX - 3; }), "8 bytes for offset"},
      {with([&](FrameHeader& h) { h.bytes = UINT64_MAX; }), "bytes for offset 0"},
      {with([&](FrameHeader& h) { h.signal = 64; }), "signal 64 of 64"},
      {{.kind = FrameKind::kPost, .signal = 64, .add = 1}, "signal 64 of 64"},
      {{.kind = FrameKind::kEnter, .lane = 3, .offset = 1}, "entry 1 in lane 3"},
      {{.kind = FrameKind::kEnter, .lane = 0, .offset = 0}, "entry 0 in lane 0"},
      {{.kind = FrameKind::kAbort, .signal = 0, .add = 0}, "an abort word 0x0"},
      {{.kind = FrameKind::kAbort, .signal = abort_word(AbortCause::kAborted, 3)}, "an abort word"},
      {{.kind = FrameKind::kAbort, .signal = abort_word(AbortCause::kAborted, 1), .add = 209},
       "with 209 bytes"},
      {{.kind = FrameKind(0)}, "a frame of kind 0"},
      {{.kind = FrameKind::kAwait, .signal = 4}, "a wait for rank 3 of 3"},
      {{.kind = FrameKind::kTell, .add = 15}, "15 bytes of what ranks are at"},
      {{.kind = FrameKind::kTell, .add = 16 * 1025}, "16400 bytes of what ranks are at"},
      {{.kind = FrameKind(9)}, "a frame of kind 9"},
  };
  for (const Row& row : rows) {
    tape_.clear();
    add(row.header);
    tape_.resize(tape_.size() + 300);
    const Status status = receive();
    EXPECT_EQ(status.code(), SK_ERR_TRANSPORT) << row.says;
    EXPECT_THAT(status.message(), HasSubstr("rank 1 sent what no rank sends"));
    EXPECT_THAT(status.message(), HasSubstr(row.says));
    EXPECT_TRUE(untouched()) << row.says;
  }
}

// Puts that come straight to their place, and what follows each of them.
TEST_F(InboxTest, WhatComesWithTheEndOfALargePut) {
  constexpr size_t kBytes[] = {100'000, 8 << 10, 65'536, (8 << 10) - 1, 20'000};
  size_t at = 0;
  for (const size_t bytes : kBytes) {
    add(FrameHeader{.kind = FrameKind::kPut, .signal = 5, .add = 1, .offset = at, .bytes = bytes});
    for (size_t i = 0; i < bytes; ++i) tape_.push_back(std::byte((at + i) * 7 >> 3));
    at += bytes;
    for (uint32_t post = 0; post < 40; ++post)  // More than are taken with the end of a put.
      add(FrameHeader{.kind = FrameKind::kPost, .signal = 6, .add = 1});
  }
  for (const size_t piece : {31u, 513u, 4'000u, 9'000u, 70'000u, 1u << 20}) {
    for (const bool at_two : {false, true}) {
      std::fill(memory_.begin(), memory_.end(), Line{});
      Tape tape(tape_, piece, at_two);
      Inbox inbox(1, own_, layout_);
      while (!tape.ended()) ASSERT_TRUE(inbox.receive(tape, 50'000).ok());
      EXPECT_FALSE(inbox.inside_frame());
      EXPECT_EQ(own_.control.signals[5].value.load(), std::size(kBytes));
      EXPECT_EQ(own_.control.signals[6].value.load(), 40 * std::size(kBytes));
      for (size_t i = 0; i < at; ++i) ASSERT_EQ(own_.segment[i], std::byte(i * 7 >> 3)) << i;
      EXPECT_EQ(own_.segment[at], std::byte(0));
    }
  }
}

// Each call in vain is one more before the waiting rank sees what has come.
TEST_F(InboxTest, AsksOnceForWhatCameAtOnce) {
  add(FrameHeader{.kind = FrameKind::kPut, .signal = 5, .add = 1, .offset = 0, .bytes = 8});
  tape_.resize(tape_.size() + 8);
  Tape tape(tape_);
  Inbox inbox(1, own_, layout_);
  ASSERT_TRUE(inbox.receive(tape, 1 << 20).value());
  EXPECT_EQ(own_.control.signals[5].value.load(), 1u);
  EXPECT_EQ(tape.calls(), 1);
}

// With a place for what is behind each put, a stream of large ones takes no more calls than it has.
TEST_F(InboxTest, AStreamOfLargePutsTakesACallForEach) {
  for (uint32_t i = 0; i < 10; ++i) {
    add(FrameHeader{.kind = FrameKind::kPut, .signal = 5, .add = 1, .offset = 0, .bytes = 90'000});
    tape_.resize(tape_.size() + 90'000);
  }
  Tape tape(tape_, SIZE_MAX, true);
  Inbox inbox(1, own_, layout_);
  while (!tape.ended()) ASSERT_TRUE(inbox.receive(tape, 1 << 20).ok());
  EXPECT_EQ(own_.control.signals[5].value.load(), 10u);
  EXPECT_LE(tape.calls(), 11);
}

TEST_F(InboxTest, NothingComesBehindTheLastFrame) {
  add(FrameHeader{.kind = FrameKind::kLeave});
  add(FrameHeader{.kind = FrameKind::kPost, .signal = 1, .add = 1});
  const Status status = receive();
  EXPECT_THAT(status.message(), HasSubstr("a frame behind its last one"));
  EXPECT_TRUE(untouched());
}

TEST_F(InboxTest, InPiecesOfAnySize) {
  for (const size_t piece : {1u, 3u, 31u, 32u, 33u, 100u, 9'000u, 1u << 20}) {
    tape_.clear();
    std::fill(memory_.begin(), memory_.end(), Line{});
    add(FrameHeader{.kind = FrameKind::kPut, .signal = 5, .add = 2, .offset = 77, .bytes = 30'001});
    for (size_t i = 0; i < 30'001; ++i) tape_.push_back(std::byte(i * 7));
    EntryFrame entry = {.fingerprint = 9, .other_lane = 8, .words = {1, 2, 3, 4, 5}, .entered = 6};
    add(FrameHeader{.kind = FrameKind::kEnter, .lane = 1, .offset = 3});
    add(entry);
    add(FrameHeader{.kind = FrameKind::kPost, .signal = 5, .add = 40});
    Tape tape(tape_, piece);
    Inbox inbox(1, own_, layout_);
    while (!tape.ended()) ASSERT_TRUE(inbox.receive(tape, 10'000).ok());
    EXPECT_EQ(own_.control.signals[5].value.load(), 42u);
    for (size_t i = 0; i < 30'001; ++i) ASSERT_EQ(own_.segment[77 + i], std::byte(i * 7)) << i;
    const EntrySlot& slot = own_.control.entries[(1 * kEntryLaneCount + 1) * 2 + 1];
    EXPECT_EQ(slot.seq.load(), 3u);
    EXPECT_EQ(slot.fingerprint, 9u);
    EXPECT_EQ(slot.words[4], 5u);
    EXPECT_EQ(inbox.entered(), 6u);
  }
}

// Any bytes at all end with a sentence or are frames; none of them writes outside.
TEST_F(InboxTest, NoiseIsRefused) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20'000; ++round) {
    tape_.resize(random() % 400);
    for (std::byte& each : tape_) each = std::byte(random() % 3 == 0 ? random() : random() % 7);
    (void)receive(1 + random() % 100);
  }
}

}  // namespace
}  // namespace sk::stream
