// The door of a session without a front end: those who only knock keep nobody out.
#include "lib/control/host/door.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "transport/local/named_socket.h"

namespace sk::control {
namespace {

constexpr uint64_t kStep = 16;
constexpr int64_t kLimitMs = 60'000;

class DoorTest : public testing::Test {
 protected:
  void SetUp() override {
    char made[] = "/tmp/sk-door-XXXXXX";
    ASSERT_NE(mkdtemp(made), nullptr);
    home_ = made;
    setenv("XDG_RUNTIME_DIR", made, 1);
    auto poller = local::Poller::create();
    ASSERT_TRUE(poller.ok());
    poller_.emplace(std::move(*poller));
    auto listener = local::listen_by_name("door");
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    door_.emplace(*poller_, std::move(*listener), /*first_token=*/1, kStep);
    door_->set("door", "the token");
  }
  void TearDown() override {
    door_.reset();
    unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(home_);
  }

  local::Fd knock() {
    auto fd = local::connect_by_name("door");
    EXPECT_TRUE(fd.ok()) << fd.status().message();
    door_->admit();
    return std::move(*fd);
  }
  static void say(const local::Fd& fd, const std::string& bytes) {
    EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  static std::string attach_with(const std::string& token) {
    std::string frame;
    EXPECT_TRUE(append_frames(Attach{kProtocolVersion, token}, frame).ok());
    return frame;
  }
  // Lets the door hear all who have said something; the one it lets in.
  std::optional<local::Link> hear_all() {
    for (const auto& ready : poller_->wait(kLimitMs)) {
      auto link = door_->hear(static_cast<uint32_t>((ready.token - 1) / kStep), /*free=*/true);
      if (link) return link;
    }
    return std::nullopt;
  }
  static bool was_sent_away(const local::Fd& fd) {
    char byte = 0;
    return local::wait_for(fd.get(), false, kLimitMs) && recv(fd.get(), &byte, 1, 0) <= 0;
  }

  std::optional<local::Poller> poller_;
  std::optional<Door> door_;

 private:
  std::string home_;
};

TEST_F(DoorTest, OneWhoComesFirstIsNotSentAwayForThoseWhoComeAndGo) {
  const local::Fd front = knock();
  for (uint32_t i = 0; i < 10 * Door::kStrangersMax; ++i) {
    knock().reset();
    EXPECT_FALSE(hear_all().has_value());
  }
  say(front, attach_with("the token"));
  EXPECT_TRUE(hear_all().has_value());
}

TEST_F(DoorTest, OfThoseWhoSayNothingTheOldestGivesWay) {
  std::vector<local::Fd> silent;
  for (uint32_t i = 0; i < Door::kStrangersMax; ++i) silent.push_back(knock());
  const local::Fd front = knock();
  EXPECT_TRUE(was_sent_away(silent.front()));
  say(front, attach_with("the token"));
  EXPECT_TRUE(hear_all().has_value());
}

TEST_F(DoorTest, WhoSaysTooMuchOrHasAnotherTokenIsSentAway) {
  const local::Fd stranger = knock();
  say(stranger, attach_with("another"));
  EXPECT_FALSE(hear_all().has_value());
  EXPECT_TRUE(was_sent_away(stranger));
  const local::Fd talker = knock();
  // The head of a frame within the limit, of which much comes and the end does not.
  std::string much(8192, 'x');
  much.replace(0, 4, std::string("\x00\x00\x0f\x00", 4));
  say(talker, much);
  EXPECT_FALSE(hear_all().has_value());
  EXPECT_TRUE(was_sent_away(talker));
}

}  // namespace
}  // namespace sk::control
