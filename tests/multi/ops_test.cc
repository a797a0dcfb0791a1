// Every operation through the C ABI against an independent oracle: fresh random shapes, types and
// roots for each number of ranks from 1 to 16, and each case in every way there is: ranks as
// threads and as processes under `sk run`, memory mapped and puts only, and its plan in the
// reference executor with ready tasks in random order. All must agree with the oracle bit for bit.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "tests/multi/op_case.h"
#include "tests/multi/op_reference.h"

namespace sk::testing_ops {
namespace {

// A sanitized build is some ten times slower and looks for other things.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kFewer = 4;
#else
constexpr int kFewer = 1;
#endif
constexpr int kWrong = 1, kTold = 33;  // Exit status of a rank that found, or heard of, a fault.

// Memory for Arrivals that processes can open by name; null and "" where there is none.
class SharedArrivals {
 public:
  SharedArrivals() : fd_(memfd_create("sk-test-arrivals", MFD_CLOEXEC)) {
    if (fd_ < 0 || ftruncate(fd_, sizeof(Arrivals)) != 0) return;
    path_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_);
  }
  ~SharedArrivals() {
    if (fd_ >= 0) close(fd_);
  }
  SharedArrivals(const SharedArrivals&) = delete;
  SharedArrivals& operator=(const SharedArrivals&) = delete;
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

std::string row_text(const Row& row) {
  std::ostringstream text;
  text << row.ranks << " " << row.cases << " " << row.seed << " " << row.flags << " "
       << row.workers;
  return text.str();
}

// What a rank started by run_processes() does.
int rank_main(const char* text, const char* arrivals_path) {
  Row row;
  std::istringstream(text) >> row.ranks >> row.cases >> row.seed >> row.flags >> row.workers;
  std::FILE* file = std::fopen(arrivals_path, "r+");
  void* memory = file == nullptr ? MAP_FAILED
                                 : mmap(nullptr, sizeof(Arrivals), PROT_READ | PROT_WRITE,
                                        MAP_SHARED, fileno(file), 0);
  sk_context* context = nullptr;
  if (memory == MAP_FAILED || sk_init(nullptr, &context) != SK_OK) return 2;
  // Zero bytes are an Arrivals nobody has come to: lock-free atomics, made by whoever maps first.
  const std::string wrong =
      run_row(context, row, kFromEnvironment, *static_cast<Arrivals*>(memory));
  munmap(memory, sizeof(Arrivals));
  std::fclose(file);
  if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
  if (!wrong.empty()) return wrong.find("has aborted") != std::string::npos ? kTold : kWrong;
  return sk_finalize(context) == SK_OK ? 0 : 3;
}

// The row with each rank a process: what they printed, "" if all ended well.
std::string run_processes(const Row& row) {
  const SharedArrivals arrivals;
  const std::string command = "SK_TEST_ROW='" + row_text(row) +
                              "' SK_TEST_ARRIVALS=" + arrivals.path() + " " SK_PROGRAM " run -n " +
                              std::to_string(row.ranks) + " /proc/" + std::to_string(getpid()) +
                              "/exe 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "no process can be started";
  std::string printed;
  for (int byte = std::fgetc(pipe); byte != EOF; byte = std::fgetc(pipe)) {
    printed.push_back(char(byte));
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return "sk run ended with " + std::to_string(status) + ": " + printed;
}

class Ops : public testing::TestWithParam<int> {};

TEST_P(Ops, EqualTheOracleInEveryWay) {
  Row row;
  row.ranks = GetParam();
  row.cases = (row.ranks <= 4 ? 24 : row.ranks <= 8 ? 12 : 6) / kFewer + 1;
  row.seed = base_seed();
  row.workers = row.ranks <= 4 ? int(1 + row.seed % 3) : 1;
  SCOPED_TRACE("replay with SK_TEST_SEED=" + std::to_string(row.seed));
  RecordProperty("cases", row.cases);
  ASSERT_EQ(
      run_threads(row, [&](sk_comm* comm,
                           const Case& c) { return differs_in_reference(comm, c, row.ranks); }),
      "");
  ASSERT_EQ(run_processes(row), "") << "processes";
  row.flags = SK_COMM_PUT_ONLY;
  ASSERT_EQ(
      run_threads(row, [&](sk_comm* comm,
                           const Case& c) { return differs_in_reference(comm, c, row.ranks); }),
      "")
      << "puts only";
  ASSERT_EQ(run_processes(row), "") << "processes, puts only";
}

TEST(OpsLarge, EqualTheOracleWithSeveralWorkers) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Row row = {
        .ranks = ranks, .cases = 20 / kFewer, .seed = base_seed(), .workers = 3, .large = true};
    ASSERT_EQ(run_threads(row), "") << "replay with SK_TEST_SEED=" << row.seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Ops, testing::Range(1, kRanksMax + 1),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace sk::testing_ops

int main(int argc, char** argv) {
  const char* row = std::getenv("SK_TEST_ROW");
  const char* arrivals = std::getenv("SK_TEST_ARRIVALS");
  if (row != nullptr && arrivals != nullptr) {
    return sk::testing_ops::rank_main(row, arrivals);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
