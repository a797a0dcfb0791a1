// Every operation through communicator and executor while puts, posts and entries are held back,
// cut into pieces and delivered in random order: results equal the oracle's, bit for bit.
//
// SK_TEST_SEED=N replays cases and faults; how threads interleave is the machine's.
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/multi/fault_backend.h"
#include "tests/multi/op_case.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

struct Unkind {
  const char* name;
  int ranks;
  FaultConfig faults;
};

void PrintTo(const Unkind& unkind, std::ostream* out) { *out << unkind.name; }

class FaultOps : public testing::TestWithParam<Unkind> {};

TEST_P(FaultOps, EqualTheOracleInWhateverOrder) {
  Row row;
  row.ranks = GetParam().ranks;
  row.cases = row.ranks <= 4 ? 120 : row.ranks <= 8 ? 60 : 20;
  row.seed = base_seed();
  row.workers = int(1 + row.seed % 2);
  SCOPED_TRACE("replay with SK_TEST_SEED=" + std::to_string(row.seed));
  FaultConfig faults = GetParam().faults;
  faults.seed = row.seed + 1;
  const std::shared_ptr<FaultNetwork> network = make_fault_network(faults);
  use_backend(network);
  const std::string wrong = run_threads(row);
  use_backend(nullptr);
  ASSERT_EQ(wrong, "");
  // Else the network was kind, and nothing is shown.
  EXPECT_GT(network->overtaken(), uint64_t(row.cases / 10));
  RecordProperty("overtaken", std::to_string(network->overtaken()));
}

// What agreement cannot see, as another build of the library: the plans' fingerprints do.
TEST(Plans, ThatDifferAreADesyncAndMoveNothing) {
  use_backend(nullptr);
  in_thread_ranks(3, [](sk_comm* comm, int rank) {
    if (rank == 1) use_tiles([](GemmTiles& tiles) { tiles.tile_m = 8; });
    float a[16 * 4] = {}, b[4 * 8] = {}, c[16 * 8];
    for (float& value : c) value = 7;
    const auto matrix = [](void* data, int64_t rows, int64_t cols) {
      sk_tensor t{};
      t.struct_size = sizeof t;
      t.dtype = SK_F32;
      t.data = data;
      t.ndim = 2;
      t.shape[0] = rows;
      t.shape[1] = t.strides[0] = cols;
      t.strides[1] = 1;
      return t;
    };
    const sk_tensor ta = matrix(a, 16, 4), tb = matrix(b, 4, 8);
    sk_tensor tc = matrix(c, 16, 8);
    EXPECT_EQ(sk_allreduce_gemm(comm, &ta, &tb, nullptr, &tc, 0, nullptr), SK_ERR_DESYNC);
    const std::string sentence = sk_last_error();
    EXPECT_EQ(sentence.rfind("rank 1 called allreduce_gemm(f32 to f32, 16 x 8 x 4) while the other "
                             "2 ranks called allreduce_gemm(f32 to f32, 16 x 8 x 4): it is the "
                             "same call, by plans that differ",
                             0),
              0u)
        << sentence;
    for (const float value : c) ASSERT_EQ(value, 7.0f);
    use_tiles(nullptr);
    EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
  });
}

// Each rank alone would find enough for itself; the kernel would end processes.
TEST(Memory, OfAWorldThatIsTooLargeIsRefusedOnAllRanksAlike) {
  constexpr int kRanks = 36;
  use_backend(nullptr);
  use_memory_left(32 << 20);
  std::set<std::string> sentences;
  std::mutex mutex;
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      sk_comm_config config{};
      config.struct_size = sizeof(config);
      config.bootstrap = SK_BOOTSTRAP_THREADS;
      config.rank = rank;
      config.world_size = kRanks;
      config.timeout_ms = 60'000;
      sk_comm* comm = nullptr;
      EXPECT_EQ(sk_comm_create(context, &config, &comm), SK_ERR_NO_MEMORY);
      EXPECT_EQ(comm, nullptr);
      const std::lock_guard lock(mutex);
      sentences.insert(sk_last_error());
    });
  }
  for (std::thread& thread : threads) thread.join();
  use_memory_left(UINT64_MAX);
  EXPECT_EQ(sk_finalize(context), SK_OK);
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_EQ(sentences.begin()->rfind("connecting 36 ranks takes ", 0), 0u) << *sentences.begin();
  EXPECT_NE(sentences.begin()->find("32 MiB left"), std::string::npos) << *sentences.begin();
  in_thread_ranks(kRanks, [](sk_comm* comm, int) {
    EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
  });
}

// Rank 1 enters a barrier, then sends; often the second entry comes first, and the other long after
// rank 0 has begun to look whether the ranks wait for each other in different calls. They do not.
TEST(FaultEntry, AnEntryThatIsOvertakenIsNoMismatch) {
  use_backend(make_fault_network(
      {.seed = base_seed(), .hold_percent = 100, .passed_over_max = 1000, .drives_in_vain = 100}));
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    for (int64_t i = 0; i < 12; ++i) {
      int64_t value = rank == 1 ? i : -1;
      ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
      ASSERT_EQ(rank == 1 ? sk_send(comm, &value, 1, SK_I64, 0, nullptr)
                          : sk_recv(comm, &value, 1, SK_I64, 1, nullptr),
                SK_OK)
          << sk_last_error();
      EXPECT_EQ(value, i);
    }
  });
  use_backend(nullptr);
}

constexpr FaultConfig kMild = {};
constexpr FaultConfig kNarrow = {.put_bytes_max = 1000};  // Planners cut what they put.
constexpr FaultConfig kHarsh = {.hold_percent = 100, .held_max = 256, .passed_over_max = 64};

INSTANTIATE_TEST_SUITE_P(All, FaultOps,
                         testing::Values(Unkind{"two", 2, kMild}, Unkind{"two_harsh", 2, kHarsh},
                                         Unkind{"three", 3, kMild},
                                         Unkind{"three_narrow", 3, kNarrow},
                                         Unkind{"four_harsh", 4, kHarsh}, Unkind{"five", 5, kMild},
                                         Unkind{"eight_harsh", 8, kHarsh},
                                         Unkind{"sixteen", 16, kMild}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sk::testing_ops
