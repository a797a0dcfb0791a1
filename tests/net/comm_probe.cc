// A rank for the tests of many hosts: makes a communicator as its environment says, sums numbers
// over all ranks, a few and many, and prints SK_OK, or what was refused and why. It ends with 0
// either way.
//
// The environment says how it differs: SK_PROBE_ROUNDS, how often it sums; SK_PROBE_COUNT_MAX, how
// many numbers at most; SK_PROBE_TIMEOUT_MS, how long it waits for others; SK_PROBE_FORK=1: a child
// that does nothing is forked first, and lives on; SK_PROBE_END=exit, _exit or quick_exit: it ends
// behind its rounds and frees nothing; SK_PROBE_END=atexit: what exit() runs frees everything;
// SK_PROBE_END=thread: another thread ends it while it calls on; SK_PROBE_END=idle: it calls
// nothing any more, and does not end; SK_PROBE_ALARM_US: a signal comes so often, whose handler
// does nothing, and system calls are interrupted;
// SK_PROBE_SHRINK=1: where a rank or a connection is lost, those that are left sum three times
// more, and say who they are; SK_PROBE_ALL=N: behind its rounds it runs every operation once, with
// messages to N ranks at most; SK_PROBE_BEHIND=N: then it sends to the rank that many behind it;
// SK_PROBE_USED=1: at last it says what it has of descriptors and memory of its own.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"
#include "tests/net/operations.h"

namespace {

// Whole numbers that f32 holds: the sum is exact.
sk_status sum_over_all(sk_comm* comm, int rank, int world_size, size_t count, bool* right) {
  std::vector<float> in(count), out(count, -1.0f);
  for (size_t i = 0; i < count; ++i) in[i] = float((i + size_t(rank)) % 1000);
  const sk_status status =
      sk_allreduce(comm, in.data(), out.data(), count, SK_F32, SK_SUM, nullptr);
  for (size_t i = 0; i < count && status == SK_OK; ++i) {
    float due = 0;
    for (int each = 0; each < world_size; ++each) due += float((i + size_t(each)) % 1000);
    *right = *right && out[i] == due;
  }
  return status;
}

size_t number_of(const char* variable, size_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : size_t(std::atoll(text));
}

std::string text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

// What is left of `comm`, in its place.
sk_status go_on_without_the_lost(sk_comm*& comm, bool* right) {
  sk_comm* left = nullptr;
  sk_status status = sk_comm_shrink(comm, 0, &left);
  if (status != SK_OK) return status;
  status = sk_comm_free(comm);
  comm = left;
  sk_comm_info info{};
  info.struct_size = sizeof(info);
  if (status == SK_OK) status = sk_comm_query(comm, &info);
  for (const size_t count : {size_t{1}, size_t{4099}, size_t{1} << 20}) {
    if (status == SK_OK) status = sum_over_all(comm, info.rank, info.world_size, count, right);
  }
  if (status == SK_OK) std::printf("left: rank %d of %d\n", info.rank, info.world_size);
  return status;
}

void say(const char* line) {
  std::puts(line);
  std::fflush(stdout);
}

std::atomic<size_t> alarms = 0;

// Whichever thread is there gets it, and what it waits in ends with EINTR.
void interrupt_every(size_t us) {
  struct sigaction action = {};
  action.sa_handler = [](int) { ++alarms; };
  sigaction(SIGALRM, &action, nullptr);
  const timeval period = {time_t(us / 1'000'000), suseconds_t(us % 1'000'000)};
  const itimerval timer = {period, period};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

// What exit() frees, in the order in which a program should.
sk_context* last_context = nullptr;
sk_comm* last_comm = nullptr;

void free_all() {
  const bool freed = sk_comm_free(last_comm) == SK_OK && sk_finalize(last_context) == SK_OK;
  say(freed ? "freed" : sk_last_error());
}

// As SK_PROBE_END says; returns where it says nothing of an end.
void end(const std::string& how, sk_context* context, sk_comm* comm) {
  if (how == "exit") std::exit(0);
  if (how == "_exit") _exit(0);
  if (how == "quick_exit") std::quick_exit(0);
  if (how == "idle") sleep(600);
  if (how == "atexit") {
    last_context = context;
    last_comm = comm;
    std::atexit(free_all);
    std::exit(0);
  }
  if (how == "thread") {
    std::thread([] {
      usleep(100'000);  // tidy: allow sleep: any moment of the calls below is right
      std::exit(0);
    }).detach();
    bool right = true;
    while (true) {
      for (const size_t count : {size_t{1}, size_t{4099}, size_t{1} << 20}) {
        if (sum_over_all(comm, 0, 0, count, &right) != SK_OK) sleep(600);
      }
    }
  }
}

void say_what_is_used() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  const auto descriptors = std::distance(begin(open), end(open)) - 1;  // But for this look itself.
  std::ifstream status("/proc/self/status");
  std::string word;
  long kib = -1;
  while (status >> word && kib < 0)
    if (word == "RssAnon:") status >> kib;
  std::printf("used: %ld descriptors, %ld KiB\n", long(descriptors), kib);
}

}  // namespace

int main() {
  if (const size_t us = number_of("SK_PROBE_ALARM_US", 0); us != 0) interrupt_every(us);
  sk_context* context = nullptr;
  sk_status status = sk_init(nullptr, &context);
  sk_comm* comm = nullptr;
  if (status == SK_OK) {
    sk_comm_config config{};
    config.struct_size = sizeof(config);
    config.bootstrap = SK_BOOTSTRAP_ENV;
    config.timeout_ms = int(number_of("SK_PROBE_TIMEOUT_MS", 60'000));
    config.symmetric_bytes_max = 16 << 20;
    status = sk_comm_create(context, &config, &comm);
  }
  bool right = true;
  const size_t rounds = number_of("SK_PROBE_ROUNDS", 3);
  const size_t count_max = number_of("SK_PROBE_COUNT_MAX", 1 << 20);
  if (status == SK_OK && !text_of("SK_PROBE_FORK").empty() && fork() == 0) {
    sleep(600);  // Whoever made the hosts ends what is in them sooner.
    _exit(0);
  }
  if (status == SK_OK) {
    sk_comm_info info{};
    info.struct_size = sizeof(info);
    status = sk_comm_query(comm, &info);
    for (size_t round = 0; round < rounds; ++round) {
      for (const size_t count : {size_t{1}, size_t{4099}, size_t{1} << 20}) {
        if (status == SK_OK && count <= count_max)
          status = sum_over_all(comm, info.rank, info.world_size, count, &right);
      }
      if (round == 0 && rounds > 3) say("begun");
    }
    const int behind = int(number_of("SK_PROBE_BEHIND", 0));
    const int messages = int(number_of("SK_PROBE_ALL", 0));
    if (status == SK_OK && messages > 0)
      status = sk::net::every_operation(comm, info.rank, info.world_size, messages, &right);
    if (status == SK_OK && behind > 0)
      status = sk::net::send_to_ranks_behind(comm, info.rank, info.world_size, behind, &right);
    if (!text_of("SK_PROBE_USED").empty()) say_what_is_used();
  }
  const bool lost = status == SK_ERR_PEER_LOST || status == SK_ERR_TRANSPORT;
  if (lost && !text_of("SK_PROBE_SHRINK").empty()) status = go_on_without_the_lost(comm, &right);
  if (status == SK_OK) {
    if (alarms != 0) std::printf("interrupted %zu times\n", alarms.load());
    say(right ? "SK_OK" : "a sum is wrong");
    end(text_of("SK_PROBE_END"), context, comm);
  } else {
    std::printf("%s: %s\n", sk_status_name(status), sk_last_error());
    std::fflush(stdout);
  }
  if (comm != nullptr) status = sk_comm_free(comm);
  return status == SK_OK || comm == nullptr ? 0 : 1;
}
