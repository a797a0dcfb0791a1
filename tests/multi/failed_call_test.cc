// A call that fails behind its entry, whatever it is that fails, ends the communicator for all
// ranks: at once, and with its sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sk.h"
#include "tests/multi/fault_backend.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

using testing::HasSubstr;

// In the place of a run of `rank`, or nothing.
using Instead = std::function<std::optional<Status>(uint32_t rank, const RunArgs& args)>;
using Failure = std::function<Status()>;

class OtherProgram final : public Program {
 public:
  OtherProgram(std::unique_ptr<Program> sound, Instead instead)
      : sound_(std::move(sound)), instead_(std::move(instead)) {}
  const Plan& plan() const override { return sound_->plan(); }
  Status run(const RunArgs& args) override {
    std::optional<Status> status = instead_(plan().ranks.front().rank, args);
    return status ? std::move(*status) : sound_->run(args);
  }
  Status decline(const RunArgs& args, const OpDesc& op, int32_t code) override {
    return sound_->decline(args, op, code);
  }
  Refusal take_refusal() override { return sound_->take_refusal(); }

 private:
  std::unique_ptr<Program> sound_;
  Instead instead_;
};

class OtherExecutor final : public Executor {
 public:
  OtherExecutor(std::unique_ptr<Executor> sound, Instead instead)
      : sound_(std::move(sound)), instead_(std::move(instead)) {}
  const char* name() const override { return "other"; }
  Result<std::unique_ptr<Program>> prepare(std::shared_ptr<const Plan> plan,
                                           uint64_t fingerprint) override {
    SK_ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                        sound_->prepare(std::move(plan), fingerprint));
    return std::unique_ptr<Program>(std::make_unique<OtherProgram>(std::move(program), instead_));
  }
  void set_trace(TraceBuffer* trace) override { sound_->set_trace(trace); }
  void set_hosts(std::span<const uint32_t> host_of) override { sound_->set_hosts(host_of); }
  void set_waiting(const Waiting& waiting) override { sound_->set_waiting(waiting); }

 private:
  std::unique_ptr<Executor> sound_;
  Instead instead_;
};

void use_instead(const Instead& instead) {
  use_backend(nullptr, [instead](std::unique_ptr<Executor> sound, Ledger&) {
    return std::make_unique<OtherExecutor>(std::move(sound), instead);
  });
}

struct Kind {
  const char* name;
  sk_status code;
  const char* sentence;
  Failure failure;
};

const std::array<Kind, 6> kKinds = {{
    {"Internal", SK_ERR_INTERNAL, "a put of 8 bytes",
     [] { return error(SK_ERR_INTERNAL, "a put of 8 bytes"); }},
    {"Transport", SK_ERR_TRANSPORT, "the link is down",
     [] { return error(SK_ERR_TRANSPORT, "the link is down"); }},
    {"Timeout", SK_ERR_TIMEOUT, "a wait of its own",
     [] { return error(SK_ERR_TIMEOUT, "a wait of its own"); }},
    {"NoMemoryHalfway", SK_ERR_NO_MEMORY, "no memory for a put",
     [] { return error(SK_ERR_NO_MEMORY, "no memory for a put"); }},
    {"BadAlloc", SK_ERR_NO_MEMORY, "memory ran out", []() -> Status { throw std::bad_alloc(); }},
    {"Exception", SK_ERR_INTERNAL, "thrown on purpose",
     []() -> Status { throw std::runtime_error("thrown on purpose"); }},
}};

class FailedCall : public testing::TestWithParam<Kind> {
 protected:
  ~FailedCall() override { use_backend(nullptr); }
};

TEST_P(FailedCall, EndsTheCommunicatorForAllRanksWithItsSentence) {
  const Kind& kind = GetParam();
  use_instead([&](uint32_t rank, const RunArgs& args) -> std::optional<Status> {
    if (rank != 0 || args.seq != 2) return std::nullopt;
    return kind.failure();
  });
  std::barrier<> first_done(3);  // Else rank 0 may have failed before another has left its first.
  in_thread_ranks(3, [&](sk_comm* comm, int rank) {
    std::vector<float> in(1000, 1.0f), out(1000);
    const auto reduce = [&] {
      return sk_allreduce(comm, in.data(), out.data(), 1000, SK_F32, SK_SUM, nullptr);
    };
    EXPECT_EQ(reduce(), SK_OK) << sk_last_error();
    first_done.arrive_and_wait();
    for (int call = 0; call < 3; ++call) {
      const sk_status status = reduce();
      EXPECT_THAT(sk_last_error(), HasSubstr(kind.sentence));
      if (rank == 0) {
        EXPECT_EQ(status, kind.code) << sk_last_error();
        continue;
      }
      EXPECT_EQ(status, kind.code == SK_ERR_TIMEOUT ? SK_ERR_TIMEOUT : SK_ERR_ABORTED);
      EXPECT_THAT(sk_last_error(), HasSubstr("rank 0 "));
    }
    sk_comm_info info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(sk_comm_query(comm, &info), SK_OK);
    EXPECT_NE(info.over, SK_OK);
  });
}

INSTANTIATE_TEST_SUITE_P(All, FailedCall, testing::ValuesIn(kKinds),
                         [](const auto& info) { return info.param.name; });

// A peer inside a tile may touch what was registered, also when all is over.
TEST(RegisteredMemory, StaysWithTheCommunicatorWhileAPeerIsInsideACall) {
  std::atomic<bool> is_inside{false}, may_leave{false};
  use_instead([&](uint32_t rank, const RunArgs& args) -> std::optional<Status> {
    if (args.seq != 2) return std::nullopt;
    if (rank == 0) return error(SK_ERR_INTERNAL, "on purpose");
    is_inside = true;
    while (!may_leave) std::this_thread::yield();
    return error(SK_ERR_INTERNAL, "told to leave");
  });
  in_thread_ranks(
      2,
      [&](sk_comm* comm, int rank) {
        std::vector<float> data(1024, 1.0f);
        ASSERT_EQ(sk_register(comm, data.data(), 4096), SK_OK) << sk_last_error();
        const auto reduce = [&] {
          return sk_allreduce(comm, data.data(), data.data(), 1024, SK_F32, SK_SUM, nullptr);
        };
        if (rank == 1) {
          EXPECT_EQ(reduce(), SK_ERR_INTERNAL);
          return;
        }
        while (!is_inside) std::this_thread::yield();
        EXPECT_EQ(reduce(), SK_ERR_INTERNAL);
        EXPECT_EQ(sk_comm_free(comm), SK_ERR_TIMEOUT);
        EXPECT_THAT(sk_last_error(), HasSubstr("rank 1 is inside a call"));
        may_leave = true;
        EXPECT_EQ(sk_deregister(comm, data.data()), SK_ERR_INTERNAL);  // Of the communicator.
        EXPECT_EQ(sk_deregister(comm, data.data()), SK_ERR_INVALID_ARGUMENT) << "still registered";
      },
      [](sk_comm_config& config) { config.timeout_ms = 2000; });
  use_backend(nullptr);
}

sk_tensor matrix(std::vector<float>& data, int64_t rows, int64_t columns) {
  sk_tensor tensor{};
  tensor.struct_size = sizeof(tensor);
  tensor.data = data.data();
  tensor.dtype = SK_F32;
  tensor.ndim = 2;
  tensor.shape[0] = rows;
  tensor.shape[1] = tensor.strides[0] = columns;
  tensor.strides[1] = 1;
  return tensor;
}

// That one rank has no plan for a call is no want of memory: the others are told what it is.
TEST(DeclinedCall, IsSaidWithItsError) {
  in_thread_ranks(3, [&](sk_comm* comm, int rank) {
    // Nothing that this rank packs fits into so little.
    if (rank == 1) use_tiles([](GemmTiles& tiles) { tiles.packed_bytes = 64; });
    std::vector<float> a(64 * 64, 1.0f), b(64 * 64, 1.0f), c(64 * 64, -1.0f);
    const sk_tensor ta = matrix(a, 64, 64), tb = matrix(b, 64, 64);
    sk_tensor tc = matrix(c, 64, 64);
    EXPECT_EQ(sk_allreduce_gemm(comm, &ta, &tb, nullptr, &tc, 0, nullptr), SK_ERR_UNSUPPORTED);
    EXPECT_THAT(sk_last_error(),
                HasSubstr(rank == 1 ? "has no plan that could be run"
                                    : "rank 1 cannot take part in allreduce_gemm("));
    EXPECT_THAT(sk_last_error(), HasSubstr(rank == 1 ? "" : "SK_ERR_UNSUPPORTED"));
    EXPECT_EQ(c[0], -1.0f);
    use_tiles(nullptr);
    EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
  });
  use_backend(nullptr);
}

// Its own workers are no peers: a rank is as slow as it is.
TEST(OwnWorkers, AreWaitedForAsLongAsTheyTake) {
  constexpr int64_t kM = 512, kN = 32, kK = 20'000;
  in_thread_ranks(
      1,
      [&](sk_comm* comm, int) {
        std::vector<float> a(kM * kK, 1.0f), b(kK * kN, 1.0f), c(kM * kN);
        const sk_tensor ta = matrix(a, kM, kK), tb = matrix(b, kK, kN);
        sk_tensor tc = matrix(c, kM, kN);
        for (int call = 0; call < 4; ++call) {
          ASSERT_EQ(sk_allreduce_gemm(comm, &ta, &tb, nullptr, &tc, 0, nullptr), SK_OK)
              << "call " << call << ": " << sk_last_error();
          for (const float value : c) ASSERT_EQ(value, float(kK));
        }
      },
      [](sk_comm_config& config) {
        config.workers = 3;
        config.timeout_ms = 1;
      });
}

// Rank 0's time is short, and runs out for rank 1 only; whatever comes of it is said by both.
TEST(OwnWorkers, OfARankInAHurryEndNothingInSilence) {
  constexpr int64_t kM = 1024, kN = 128, kK = 1000;
  in_thread_ranks(
      2,
      [&](sk_comm* comm, int rank) {
        std::vector<float> a(kM * kK, 1.0f), b(kK * kN, 1.0f), c(kM * kN);
        const sk_tensor ta = matrix(a, kM, kK), tb = matrix(b, kK, kN);
        sk_tensor tc = matrix(c, kM, kN);
        sk_run_options options{};
        options.struct_size = sizeof options;
        options.timeout_ms = rank == 0 ? 2 : 0;
        sk_status status = SK_OK;
        for (int call = 0; call < 40 && status == SK_OK; ++call)
          status = sk_allreduce_gemm(comm, &ta, &tb, nullptr, &tc, 0, &options);
        if (status == SK_OK) return;
        EXPECT_EQ(status, SK_ERR_TIMEOUT) << sk_last_error();
        EXPECT_THAT(sk_last_error(), HasSubstr("rank 0 waited 0.0 s for rank 1"));
        EXPECT_EQ(sk_barrier(comm, nullptr), SK_ERR_TIMEOUT);
        EXPECT_THAT(sk_last_error(), HasSubstr("rank 0 waited 0.0 s for rank 1"));
      },
      [](sk_comm_config& config) { config.workers = 4; });
}

// Rank 0 waits for rank 1, which waits for rank 2, which is late: the sentence ends with who is.
TEST(GivingUp, NamesWhoIsLateAndNotOnlyWhoWaitsToo) {
  std::barrier over(3);
  in_thread_ranks(
      3,
      [&](sk_comm* comm, int rank) {
        float value = 1;
        sk_run_options options{};
        options.struct_size = sizeof options;
        options.timeout_ms = rank == 0 ? 2500 : 0;
        if (rank < 2) {
          EXPECT_EQ(sk_recv(comm, &value, 1, SK_F32, rank + 1, &options), SK_ERR_TIMEOUT);
          EXPECT_THAT(
              sk_last_error(),
              HasSubstr("rank 0 waited 2.5 s for rank 1, which waits for rank 2, in send_recv("));
        }
        over.arrive_and_wait();
      },
      [](sk_comm_config& config) { config.timeout_ms = 60'000; });
}

}  // namespace
}  // namespace sk::testing_ops
