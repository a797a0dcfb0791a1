#include "tests/multi/process_rows.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace sk::testing_ops {
namespace {

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

int run_rank(const char* text, const char* arrivals_path) {
  Row row;
  std::istringstream(text) >> row.ranks >> row.cases >> row.seed >> row.flags >> row.workers >>
      row.large >> row.uneven;
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

}  // namespace

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

int rank_main() {
  const char* row = std::getenv("SK_TEST_ROW");
  const char* arrivals = std::getenv("SK_TEST_ARRIVALS");
  return row != nullptr && arrivals != nullptr ? run_rank(row, arrivals) : -1;
}

}  // namespace sk::testing_ops
