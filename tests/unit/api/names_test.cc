// Objects that are made for others, which are claimed in their names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "lib/api/handles.h"

namespace sk::api {
namespace {

using testing::HasSubstr;
using Parents = HandleTable<int, HandleKind::kComm>;
using Children = HandleTable<std::vector<int>, HandleKind::kPlan>;

// A thread does not wait for itself, so whatever waits for the test's own use does so on another.
template <typename Body>
void elsewhere(const Body& body) {
  std::thread(body).join();
}

TEST(Handles, WhatIsMadeForAnotherNeedsNoClaimOfItsOwn) {
  auto parents = std::make_unique<Parents>();
  auto children = std::make_unique<Children>();
  void* const parent = parents->add(std::make_unique<int>(7)).value();
  const auto make = [&] {
    return children->add(std::make_unique<std::vector<int>>(3, 1), 0, parent).value();
  };
  void *const one = make(), *const other = make();
  {
    const auto use = children->use_for(*parents, one);
    ASSERT_TRUE(use.ok());
    EXPECT_EQ(*use.value().first, 7);
    EXPECT_EQ(use.value().second->size(), 3u);
    elsewhere([&] {
      const auto again = children->use_for(*parents, one);
      EXPECT_EQ(again.status().code(), SK_ERR_BUSY);
      EXPECT_THAT(again.status().message(), HasSubstr("is inside a call on this plan"));
      EXPECT_THAT(children->use_for(*parents, other).status().message(),
                  HasSubstr("is inside a call on this communicator"));
      EXPECT_THAT(children->remove_from(*parents, one).status().message(),
                  HasSubstr("another thread is inside a call on this plan"));
    });
    EXPECT_THAT(children->use_for(*parents, one).status().message(),
                HasSubstr("inside a call on the same plan"));
    const auto kept = children->remove_from(*parents, one);
    EXPECT_EQ(kept.status().code(), SK_ERR_BUSY);
    EXPECT_THAT(kept.status().message(), HasSubstr("inside a call on the same plan"));
    EXPECT_TRUE(children->remove_from(*parents, other).ok());
  }
  EXPECT_TRUE(
      children->use_for(*parents, one).ok());  // The removal that was refused changed nothing.
  {
    const auto call = parents->use(parent);  // Of somebody else.
    EXPECT_EQ(children->use_for(*parents, one).status().code(), SK_ERR_BUSY);
    EXPECT_TRUE(children->remove_from(*parents, make()).ok());
  }
  ASSERT_TRUE(parents->remove(parent).ok());
  EXPECT_THAT(children->use_for(*parents, one).status().message(),
              HasSubstr("the plan's communicator was freed"));
  EXPECT_TRUE(children->remove_from(*parents, one).ok());
  EXPECT_EQ(children->use_for(*parents, one).status().code(), SK_ERR_BAD_HANDLE);
}

// Whoever has the turn before claims in the name of the next.
TEST(Handles, ATurnPassedOnIsANamesClaim) {
  auto parents = std::make_unique<Parents>();
  auto children = std::make_unique<Children>();
  void* const parent = parents->add(std::make_unique<int>(7), kTurnNs).value();
  void* const child = children->add(std::make_unique<std::vector<int>>(3, 1), 0, parent).value();
  auto held = std::make_optional(parents->use(parent));
  elsewhere([&] {
    const auto late = children->use_for(*parents, child, {.limit_ns = 20'000'000});
    EXPECT_EQ(late.status().code(), SK_ERR_TIMEOUT);
  });
  struct Waiter {
    std::atomic<bool> waits{false}, inside{false}, leave{false};
  } its;
  const auto looks = [](void* user) -> int32_t {
    static_cast<Waiter*>(user)->waits = true;
    return 0;
  };
  std::thread waiter([&] {
    const auto use = children->use_for(*parents, child, {.waiting = looks, .user = &its});
    EXPECT_TRUE(use.ok());
    its.inside = true;
    while (!its.leave) std::this_thread::yield();
  });
  while (!its.waits) std::this_thread::yield();
  EXPECT_NE(parents->claim_of(parent), Children::name_of(child));
  held.reset();
  while (!its.inside) std::this_thread::yield();
  EXPECT_EQ(parents->claim_of(parent), Children::name_of(child));
  EXPECT_EQ(children->remove_from(*parents, child).status().code(), SK_ERR_BUSY);
  EXPECT_EQ(children->use_for(*parents, child, {.limit_ns = 20'000'000}).status().code(),
            SK_ERR_TIMEOUT);  // Of one object, too, calls come one after another.
  its.leave = true;
  waiter.join();
  EXPECT_EQ(parents->claim_of(parent), 0u);
  EXPECT_TRUE(children->remove_from(*parents, child).ok());
  EXPECT_TRUE(parents->remove(parent).ok());
}

// Either a removal finds a use inside and changes nothing, or no use has the object any more: where
// the user claims the parent itself, and where a rival passes it on.
class RemovalsRace : public testing::TestWithParam<bool> {};

TEST_P(RemovalsRace, WithUsesForAnother) {
  const bool passed_on = GetParam();
  auto parents = std::make_unique<Parents>();
  auto children = std::make_unique<Children>();
  void* const parent = parents->add(std::make_unique<int>(0), passed_on ? kTurnNs : 0).value();
  std::atomic<void*> child{nullptr};
  std::atomic<bool> over{false};
  std::atomic<int> uses{0}, wrong{0};
  const auto make = [&] {
    return children->add(std::make_unique<std::vector<int>>(64, 5), 0, parent).value();
  };
  child = make();
  std::thread user([&] {
    while (!over) {
      const auto use = children->use_for(*parents, child);
      if (!use.ok()) {
        if (use.status().code() != SK_ERR_BAD_HANDLE) ++wrong;
        continue;
      }
      ++uses;
      for (int& each : *use.value().second) wrong += each++ < 5;
    }
  });
  std::thread rival([&] {
    while (passed_on && !over) {
      const auto use = parents->use(parent);
      wrong += use.ok() ? 0 : 1;
      std::this_thread::yield();
    }
  });
  int refused = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto is_late = [&] { return std::chrono::steady_clock::now() > until; };
  for (int round = 0; round < 20'000 || ((uses < 100 || refused == 0) && !is_late()); ++round) {
    auto removed = children->remove_from(*parents, child);
    if (!removed.ok()) {
      ++refused;
      EXPECT_EQ(removed.status().code(), SK_ERR_BUSY);
      continue;
    }
    std::ranges::fill(*removed.value(), -1);  // Whoever still has it sees this.
    removed.value().reset();
    child = make();
  }
  over = true;
  user.join();
  rival.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(children->remove_from(*parents, child).ok());
  EXPECT_TRUE(parents->remove(parent).ok());
}

INSTANTIATE_TEST_SUITE_P(Handles, RemovalsRace, testing::Bool());

}  // namespace
}  // namespace sk::api
