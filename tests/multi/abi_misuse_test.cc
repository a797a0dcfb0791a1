// Handles and structs that are not what they should be, through the library as strangers load it:
// each call gives a code and a sentence, and whatever was right before stays usable.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <barrier>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"

namespace {

void expect_refused(sk_status status, int32_t code, const std::string& word) {
  EXPECT_STREQ(sk_status_name(status), sk_status_name(code)) << sk_last_error();
  EXPECT_NE(std::string(sk_last_error()).find(word), std::string::npos)
      << "'" << sk_last_error() << "' does not name '" << word << "'";
}

// A struct in memory that holds what a newer or an older caller may have, poisoned behind it.
template <typename Struct>
struct Framed {
  Struct value{};
  unsigned char tail[64] = {};
};

// One handle of every kind that needs no other process; the worker's controller is a socket here.
class Misuse : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sk_init(nullptr, &context_), SK_OK) << sk_last_error();
    ASSERT_EQ(sk_comm_create(context_, nullptr, &comm_), SK_OK) << sk_last_error();
    float b[16] = {};
    sk_tensor tensor = {sizeof(sk_tensor), SK_F32, b, 2, 0, 0, 0, {4, 4}, {4, 1}};
    ASSERT_EQ(sk_pack(comm_, &tensor, 0, &packed_), SK_OK) << sk_last_error();
    sk_plan_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = SK_OP_BARRIER;
    ASSERT_EQ(sk_plan_create(comm_, &desc, &plan_), SK_OK) << sk_last_error();
    ASSERT_EQ(sk_topo_synthetic("cores:2", &topo_), SK_OK) << sk_last_error();
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, link_), 0);
    setenv("SK_WORKER_FD", std::to_string(link_[1]).c_str(), 1);
    setenv("RANK", "0", 1);
    ASSERT_EQ(sk_worker_join(nullptr, &worker_), SK_OK) << sk_last_error();
    unsetenv("RANK");
  }
  void TearDown() override {
    EXPECT_EQ(sk_worker_leave(worker_), SK_OK) << sk_last_error();
    close(link_[0]);
    EXPECT_EQ(sk_topo_free(topo_), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_plan_free(plan_), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_packed_free(packed_), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_comm_free(comm_), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_finalize(context_), SK_OK) << sk_last_error();
  }

  // What calls on each kind say to `handle`.
  struct Call {
    const char* kind;
    sk_status status;
    std::string sentence;
  };
  static std::vector<Call> try_all(void* handle) {
    std::vector<Call> calls;
    const auto add = [&](const char* kind, sk_status status) {
      calls.push_back({kind, status, sk_last_error()});
    };
    uint64_t request = 0;
    size_t size = 0;
    sk_comm* comm = nullptr;
    sk_group group{};
    group.struct_size = sizeof group;
    add("context", sk_comm_create(static_cast<sk_context*>(handle), nullptr, &comm));
    if (comm != nullptr) {
      EXPECT_EQ(sk_comm_free(comm), SK_OK);
    }
    add("communicator", sk_barrier(static_cast<sk_comm*>(handle), nullptr));
    add("packed weights", SK_OK);
    add("plan", sk_plan_dump(static_cast<sk_plan*>(handle), nullptr, 0, &size));
    add("topology", sk_topo_dump(static_cast<sk_topo*>(handle), nullptr, 0, &size));
    add("session", sk_session_status(static_cast<sk_session*>(handle), &request));
    add("worker", sk_worker_group(static_cast<sk_worker*>(handle), &group));
    EXPECT_EQ(sk_worker_cancelled(static_cast<sk_worker*>(handle)), 0);
    return calls;
  }

  sk_context* context_ = nullptr;
  sk_comm* comm_ = nullptr;
  sk_packed* packed_ = nullptr;
  sk_plan* plan_ = nullptr;
  sk_topo* topo_ = nullptr;
  sk_worker* worker_ = nullptr;
  int link_[2] = {-1, -1};
};

TEST_F(Misuse, AHandleOfOneKindIsRefusedByCallsOfAllOthers) {
  const std::vector<std::pair<std::string, void*>> handles = {
      {"context", context_}, {"communicator", comm_}, {"packed weights", packed_},
      {"plan", plan_},       {"topology", topo_},     {"worker", worker_}};
  for (const auto& [kind, handle] : handles) {
    for (const Call& call : try_all(handle)) {
      SCOPED_TRACE(kind + " given as " + call.kind);
      if (call.kind == kind || call.kind == std::string("packed weights")) continue;
      EXPECT_STREQ(sk_status_name(call.status), "SK_ERR_BAD_HANDLE");
      EXPECT_NE(call.sentence.find(call.kind), std::string::npos) << call.sentence;
    }
  }
  expect_refused(sk_packed_free(reinterpret_cast<sk_packed*>(comm_)), SK_ERR_BAD_HANDLE,
                 "of kind communicator");
  expect_refused(sk_worker_leave(reinterpret_cast<sk_worker*>(topo_)), SK_ERR_BAD_HANDLE,
                 "of kind topology");
  expect_refused(sk_session_close(reinterpret_cast<sk_session*>(worker_)), SK_ERR_BAD_HANDLE,
                 "of kind worker");
  EXPECT_EQ(sk_barrier(comm_, nullptr), SK_OK) << sk_last_error();
}

TEST_F(Misuse, NoHandleAtAllIsRefusedByEveryKind) {
  int local = 0;
  void* const heap = std::malloc(64);
  for (void* handle : {static_cast<void*>(nullptr), static_cast<void*>(&local), heap,
                       std::bit_cast<void*>(uintptr_t(1)), std::bit_cast<void*>(~uintptr_t(0)),
                       std::bit_cast<void*>(uintptr_t(0xdeadbeefdeadbeef))}) {
    for (const Call& call : try_all(handle)) {
      if (call.kind == std::string("packed weights")) continue;
      EXPECT_STREQ(sk_status_name(call.status), "SK_ERR_BAD_HANDLE") << call.kind << handle;
    }
  }
  std::free(heap);
}

// Every call on a worker that is gone, also from other threads that were inside one.
TEST_F(Misuse, AWorkerThatLeavesEndsItsOtherThreadsCalls) {
  sk_request request{};
  request.struct_size = sizeof request;
  sk_status waited = SK_OK;
  std::thread other([&] { waited = sk_worker_regroup(worker_, 0, 60'000); });
  char hello[4096];
  // The other thread's question is on the link once it waits.
  for (std::string seen; seen.size() < 200;) {
    const ssize_t n = read(link_[0], hello, sizeof hello);
    ASSERT_GT(n, 0);
    seen.append(hello, size_t(n));
  }
  EXPECT_EQ(sk_worker_leave(worker_), SK_OK) << sk_last_error();
  other.join();
  EXPECT_TRUE(waited == SK_ERR_PEER_LOST || waited == SK_ERR_BAD_HANDLE) << waited;
  expect_refused(sk_worker_next(worker_, 0, &request), SK_ERR_BAD_HANDLE, "freed");
  EXPECT_EQ(sk_worker_cancelled(worker_), 0);
  close(link_[0]);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, link_), 0);  // For TearDown().
  setenv("SK_WORKER_FD", std::to_string(link_[1]).c_str(), 1);
  setenv("RANK", "0", 1);
  ASSERT_EQ(sk_worker_join(nullptr, &worker_), SK_OK) << sk_last_error();
  unsetenv("RANK");
}

// ---- structs ----------------------------------------------------------------------------------

struct StructCase {
  const char* name;
  size_t bytes;
  // Calls with the struct at `data`, which says its own size.
  std::function<sk_status(void* data)> call;
  bool is_filled;  // By the library: what is behind is not looked at.
};

class Structs : public Misuse {
 protected:
  std::vector<StructCase> cases() {
    const auto of = [](const char* name, size_t bytes, auto call, bool filled = false) {
      return StructCase{name, bytes, std::move(call), filled};
    };
    return {
        of("sk_config", sizeof(sk_config),
           [](void* p) {
             sk_context* made = nullptr;
             const sk_status status = sk_init(static_cast<sk_config*>(p), &made);
             if (status == SK_OK) {
               EXPECT_EQ(sk_finalize(made), SK_OK);
             }
             return status;
           }),
        of("sk_comm_config", sizeof(sk_comm_config),
           [this](void* p) {
             sk_comm* made = nullptr;
             const auto* config = static_cast<sk_comm_config*>(p);
             const sk_status status = sk_comm_create(context_, config, &made);
             if (status == SK_OK) {
               EXPECT_EQ(sk_comm_free(made), SK_OK);
             }
             return status;
           }),
        of("sk_run_options", sizeof(sk_run_options),
           [this](void* p) { return sk_barrier(comm_, static_cast<sk_run_options*>(p)); }),
        of("sk_tensor", sizeof(sk_tensor),
           [this](void* p) {
             auto* c = static_cast<sk_tensor*>(p);
             return sk_allreduce_gemm(comm_, c, c, nullptr, c, 0, nullptr);
           }),
        of("sk_plan_desc", sizeof(sk_plan_desc),
           [this](void* p) {
             sk_plan* made = nullptr;
             return sk_plan_create(comm_, static_cast<sk_plan_desc*>(p), &made);
           }),
        of("sk_session_config", sizeof(sk_session_config),
           [](void* p) {
             sk_session* made = nullptr;
             return sk_session_open(static_cast<sk_session_config*>(p), &made);
           }),
        of("sk_worker_config", sizeof(sk_worker_config),
           [](void* p) {
             sk_worker* made = nullptr;
             return sk_worker_join(static_cast<sk_worker_config*>(p), &made);
           }),
        of("sk_reply", sizeof(sk_reply),
           [this](void* p) { return sk_worker_reply(worker_, 1, static_cast<sk_reply*>(p)); }),
        of("sk_comm_message", sizeof(sk_comm_message),
           [this](void* p) { return sk_worker_comm(worker_, static_cast<sk_comm_message*>(p)); }),
        of(
            "sk_comm_info", sizeof(sk_comm_info),
            [this](void* p) { return sk_comm_query(comm_, static_cast<sk_comm_info*>(p)); }, true),
        of(
            "sk_topo_info", sizeof(sk_topo_info),
            [this](void* p) { return sk_topo_summary(topo_, static_cast<sk_topo_info*>(p)); },
            true),
        of(
            "sk_request", sizeof(sk_request),
            [this](void* p) { return sk_worker_next(worker_, 0, static_cast<sk_request*>(p)); },
            true),
        of(
            "sk_group", sizeof(sk_group),
            [this](void* p) { return sk_worker_group(worker_, static_cast<sk_group*>(p)); }, true),
        of(
            "sk_input", sizeof(sk_input),
            [this](void* p) {
              return sk_worker_input(worker_, nullptr, 0, 0, static_cast<sk_input*>(p));
            },
            true),
    };
  }
};

// Sizes that cut a field in two are refused: half of a pointer is a wild one.
TEST_F(Structs, ASizeThatNoReleaseHadIsRefused) {
  for (const StructCase& each : cases()) {
    for (const uint32_t size : {0u, 1u, 3u, 4u, 7u, 12u, 20u, 4104u, 1u << 20, ~0u}) {
      SCOPED_TRACE(std::string(each.name) + " of " + std::to_string(size));
      alignas(8) unsigned char memory[8192];
      std::memset(memory, 0x5a, sizeof memory);
      std::memcpy(memory, &size, sizeof size);
      const sk_status status = each.call(memory);
      EXPECT_STREQ(sk_status_name(status), "SK_ERR_INVALID_ARGUMENT");
      const std::string wanted =
          std::string(each.name) + ": struct_size is " + std::to_string(size);
      EXPECT_NE(std::string(sk_last_error()).find(wanted), std::string::npos) << sk_last_error();
      for (size_t i = sizeof size; i < sizeof memory; ++i) ASSERT_EQ(memory[i], 0x5a) << i;
    }
  }
}

TEST_F(Structs, AFieldThatThisReleaseDoesNotKnowIsRefusedUnlessItIsZero) {
  for (const StructCase& each : cases()) {
    SCOPED_TRACE(each.name);
    alignas(8) unsigned char memory[1024] = {};
    const auto size = uint32_t(each.bytes + 16);
    std::memcpy(memory, &size, sizeof size);
    const sk_status zero = each.call(memory);
    EXPECT_STRNE(sk_status_name(zero), "SK_ERR_UNSUPPORTED") << sk_last_error();
    std::memset(memory, 0, sizeof memory);
    std::memcpy(memory, &size, sizeof size);
    memory[each.bytes + 9] = 1;
    const sk_status set = each.call(memory);
    if (each.is_filled) {
      EXPECT_STREQ(sk_status_name(set), "SK_OK") << sk_last_error();
      EXPECT_EQ(memory[each.bytes + 9], 1);
    } else {
      expect_refused(set, SK_ERR_UNSUPPORTED, std::string(each.name) + ": a field at byte");
    }
  }
}

// What an older caller does not have is not read, here what lies behind its struct.
TEST_F(Structs, AnOlderCallersConfigIsReadAsFarAsItGoes) {
  const char* const argv[] = {"true", nullptr};
  sk_session_config config;
  std::memset(&config, 0x5a, sizeof config);
  config.struct_size = offsetof(sk_session_config, env);
  config.ranks = 0;
  config.argv = argv;
  sk_session* session = nullptr;
  expect_refused(sk_session_open(&config, &session), SK_ERR_INVALID_ARGUMENT, "ranks is 0");
  setenv("SK_PROGRAM", "/nowhere/at/all", 1);
  config.ranks = 1;
  expect_refused(sk_session_open(&config, &session), SK_ERR_SYSTEM, "SK_PROGRAM may name another");
  unsetenv("SK_PROGRAM");
}

// While ranks are waited for, the context is theirs already.
TEST_F(Misuse, AContextIsNotFinalizedWhileACommunicatorComesAbout) {
  struct Seen {
    sk_context* context = nullptr;
    sk_status status = SK_OK;
    std::string sentence;
  } seen{};
  ASSERT_EQ(sk_init(nullptr, &seen.context), SK_OK);
  sk_comm_config config{};
  config.struct_size = sizeof config;
  config.bootstrap = SK_BOOTSTRAP_CALLBACK;
  config.world_size = 1;
  config.bootstrap_user = &seen;
  config.allgather = [](void* user, const void* in, size_t bytes, void* out) -> int32_t {
    auto* all = static_cast<Seen*>(user);
    all->status = sk_finalize(all->context);
    all->sentence = sk_last_error();
    std::memcpy(out, in, bytes);
    return 0;
  };
  sk_comm* comm = nullptr;
  ASSERT_EQ(sk_comm_create(seen.context, &config, &comm), SK_OK) << sk_last_error();
  EXPECT_STREQ(sk_status_name(seen.status), "SK_ERR_BUSY") << seen.sentence;
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_finalize(seen.context), SK_OK) << sk_last_error();
}

// Each test is a process of its own under ctest, so that these are its first calls. What a thread
// that came second still wrote, others read already: under ThreadSanitizer that was a race.
TEST(FirstUse, ByManyThreadsAtOnceIsWhole) {
  constexpr int kThreads = 8;
  std::barrier start(kThreads);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&start] {
      start.arrive_and_wait();
      sk_context* context = nullptr;
      ASSERT_EQ(sk_init(nullptr, &context), SK_OK) << sk_last_error();
      sk_comm* self = nullptr;
      ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
      EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
    });
}

}  // namespace
