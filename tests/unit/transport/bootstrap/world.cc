#include "tests/unit/transport/bootstrap/world.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

namespace sk::testing_support {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out.sin_port = htons(uint16_t(port));
  return out;
}

}  // namespace

HeldPort::HeldPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  EXPECT_EQ(setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
  sockaddr_in address = loopback(0);
  socklen_t bytes = sizeof(address);
  EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), bytes), 0);
  EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  number_ = ntohs(address.sin_port);
}

HeldPort::~HeldPort() { close(fd_); }

int HeldPort::listen() const {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
  const sockaddr_in address = loopback(number_);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::listen(fd, 16), 0);
  return fd;
}

Variables job_variables(int rank, int world_size, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(world_size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"SK_JOB_SECRET", "a secret of all tests"}};
}

Variables here_variables(int rank, int world_size, const std::string& job) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(world_size)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(world_size)},
          {"TORCHELASTIC_RUN_ID", job}};
}

std::string unique_job() {
  static std::atomic<int> count = 0;
  return std::to_string(std::random_device{}()) + "." + std::to_string(getpid()) + "." +
         std::to_string(++count);
}

BootstrapConfig env_config(const Variables& variables, int64_t timeout_ns) {
  BootstrapConfig config;
  config.kind = SK_BOOTSTRAP_ENV;
  config.timeout_ns = timeout_ns;
  config.env = [variables](const char* name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    if (it == variables.end()) return std::nullopt;
    return it->second;
  };
  return config;
}

BootstrapConfig threads_config(int rank, int world_size, const std::string& name,
                               int64_t timeout_ns) {
  BootstrapConfig config;
  config.kind = SK_BOOTSTRAP_THREADS;
  config.rank = rank;
  config.world_size = world_size;
  config.name = name;
  config.timeout_ns = timeout_ns;
  return config;
}

Result<JobEnv> read_job_env(const EnvLookup& env, const std::string& name) {
  SK_ASSIGN_OR_RETURN(const std::optional<Identity> identity, read_identity(env));
  if (!identity) return error(SK_ERR_INVALID_ARGUMENT, "no launcher");
  return sk::read_job_env(env, *identity, name);
}

void on_ranks(int world_size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < world_size; ++r) threads.emplace_back(body, r);
  for (std::thread& thread : threads) thread.join();
}

void pass(int64_t ns) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

std::vector<std::byte> blob(int rank, size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed * 1000 + uint64_t(rank));
  std::vector<std::byte> out(bytes);
  for (std::byte& b : out) b = std::byte(random());
  return out;
}

void expect_gathers(Bootstrap& bootstrap, size_t bytes, uint64_t seed) {
  const auto whole = bootstrap.allgather(blob(bootstrap.rank(), bytes, seed), kLong);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  std::vector<std::byte> expected;
  for (int r = 0; r < bootstrap.world_size(); ++r) {
    const auto part = blob(r, bytes, seed);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(whole.value(), expected);
}

int dial(int port) {
  const sockaddr_in address = loopback(port);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < give_up) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
    close(fd);
    std::this_thread::yield();
  }
  ADD_FAILURE() << "nobody listens at port " << port;
  return -1;
}

}  // namespace sk::testing_support
