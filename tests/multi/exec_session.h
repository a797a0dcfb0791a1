// A session of stub ranks, through the C ABI alone.
#ifndef SK_TESTS_MULTI_EXEC_SESSION_H_
#define SK_TESTS_MULTI_EXEC_SESSION_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "sk/exec.h"

namespace sk::testing_support {

inline constexpr int64_t kWaitMs = 60'000;

// Holds a cell of the stub back until open(): a FIFO that one rank reads to its end.
class Gate {
 public:
  Gate() {
    EXPECT_NE(mkdtemp(folder_), nullptr);
    EXPECT_EQ(mkfifo(path().c_str(), 0600), 0);
  }
  ~Gate() { std::filesystem::remove_all(folder_); }
  std::string wait(int rank = 0) const {
    return "on " + std::to_string(rank) + " sh cat " + path() + "\n";
  }
  void open() const {
    const int fd = ::open(path().c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_GE(fd, 0);
    ::close(fd);
  }

 private:
  std::string path() const { return std::string(folder_) + "/gate"; }
  char folder_[32] = "/tmp/sk-gate-XXXXXX";
};

class Session {
 public:
  // `variable`: "NAME=value" for the ranks.
  explicit Session(int32_t ranks, const char* variable = nullptr) {
    const char* argv[] = {SK_STUB_RANK, nullptr};
    const char* env[] = {variable, nullptr};
    sk_session_config config = {};
    config.struct_size = sizeof config;
    config.ranks = ranks;
    config.argv = argv;
    config.env = env;
    config.sk_path = SK_TOOL;
    EXPECT_EQ(sk_session_open(&config, &handle_), SK_OK) << sk_last_error();
  }
  ~Session() {
    if (handle_ != nullptr) close();
  }
  void close() { EXPECT_EQ(sk_session_close(std::exchange(handle_, nullptr)), SK_OK); }
  sk_session* get() const { return handle_; }

  uint64_t start(const std::string& code, const char* ranks = nullptr) {
    uint64_t cell = 0;
    EXPECT_EQ(sk_exec(handle_, ranks, code.data(), code.size(), nullptr, &cell), SK_OK)
        << sk_last_error();
    return cell;
  }
  // The text of all streams up to the cell's end; `*status` is how it ended.
  std::string finish(uint64_t cell, int32_t* status) {
    std::string text;
    while (true) {
      sk_event event = {};
      event.struct_size = sizeof event;
      if (sk_session_poll(handle_, kWaitMs, &event) != SK_OK || event.kind == SK_EVENT_NONE) {
        ADD_FAILURE() << "cell " << cell << " has no end: " << sk_last_error();
        return text;
      }
      if (event.kind == SK_EVENT_STREAM && event.cell == cell)
        text.append(event.text, event.text_bytes);
      // The live view may be replaced by the canonical one: then only that stays.
      if (event.kind == SK_EVENT_DISPLAY && event.display == SK_DISPLAY_CLEAR_WAIT) text.clear();
      if (event.kind == SK_EVENT_CELL_DONE && event.cell == cell) {
        *status = event.status;
        return text;
      }
    }
  }
  std::string run(const std::string& code, const char* ranks = nullptr) {
    int32_t status = 0;
    std::string text = finish(start(code, ranks), &status);
    EXPECT_EQ(status, SK_CELL_OK);
    return text;
  }

  // Waits for the answer to `request` and lets `look` read it.
  template <typename Look>
  void answer(uint64_t request, Look look) {
    while (true) {
      sk_event event = {};
      event.struct_size = sizeof event;
      if (sk_session_poll(handle_, kWaitMs, &event) != SK_OK || event.kind == SK_EVENT_NONE) {
        ADD_FAILURE() << "request " << request << " has no answer: " << sk_last_error();
        return;
      }
      if (event.kind == SK_EVENT_REPLY && event.request == request) return look(event);
    }
  }

 private:
  sk_session* handle_ = nullptr;
};

}  // namespace sk::testing_support

#endif  // SK_TESTS_MULTI_EXEC_SESSION_H_
