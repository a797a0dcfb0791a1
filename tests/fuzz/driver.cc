#include "tests/fuzz/driver.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace sk::fuzz {
namespace {

using Random = std::mt19937_64;

constexpr size_t kInputBytesMax = 64 * 1024;

std::string current;  // What runs, for the handler below.

extern "C" void keep_input(int signal_number) {
  const int fd = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0 && write(fd, current.data(), current.size()) >= 0) close(fd);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void run(std::string input) {
  current = std::move(input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(current.data()), current.size());
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string number_bytes(Random& random) {
  static constexpr uint64_t kEdges[] = {0,          1,          0x7f,       0x80,       0xff,
                                        0xffff,     0x10000,    0x7fffffff, 0x80000000, 0xffffffff,
                                        1ull << 40, UINT64_MAX, 8,          1u << 20,   16};
  const uint64_t value = kEdges[random() % std::size(kEdges)];
  std::string bytes(size_t{1} << random() % 4, '\0');
  std::memcpy(bytes.data(), &value, bytes.size());
  return bytes;
}

// One change. `other` is a further input to take pieces from.
void mutate(std::string& input, const std::string& other, const std::vector<std::string>& words,
            Random& random) {
  const size_t at = input.empty() ? 0 : random() % input.size();
  const size_t length = std::min<size_t>(input.size() - at, size_t{1} << random() % 8);
  switch (random() % 8) {
    case 0:
      if (!input.empty()) input[at] ^= static_cast<char>(1u << random() % 8);
      break;
    case 1:
      if (!input.empty()) input[at] = static_cast<char>(random());
      break;
    case 2:
      input.erase(at, length);
      break;
    case 3:
      input.insert(at, input.substr(at, length));
      break;
    case 4:
      if (!words.empty()) input.insert(at, words[random() % words.size()]);
      break;
    case 5: {
      const std::string bytes = number_bytes(random);
      input.replace(at, std::min(bytes.size(), input.size() - at), bytes);
      break;
    }
    case 6: {
      const size_t from = other.empty() ? 0 : random() % other.size();
      input.insert(at, other.substr(from, size_t{1} << random() % 10));
      break;
    }
    default:
      input.resize(at);
  }
  if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
}

int fuzz(const std::filesystem::path& corpus, int64_t seconds, uint64_t seed) {
  std::vector<std::string> inputs = seeds();
  for (const auto& entry : std::filesystem::directory_iterator(corpus))
    inputs.push_back(read(entry.path()));
  for (const std::string& input : inputs) run(input);
  const std::vector<std::string> all_words = words();
  Random random(seed);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  uint64_t count = inputs.size();
  for (; std::chrono::steady_clock::now() < until; ++count) {
    std::string input = inputs[random() % inputs.size()];
    const std::string& other = inputs[random() % inputs.size()];
    for (uint64_t changes = 1 + random() % 8; changes > 0; --changes)
      mutate(input, other, all_words, random);
    run(std::move(input));
  }
  std::printf("%llu inputs in %lld s, seed %llu: nothing found\n",
              static_cast<unsigned long long>(count), static_cast<long long>(seconds),
              static_cast<unsigned long long>(seed));
  return 0;
}

int generate(const std::filesystem::path& corpus) {
  std::filesystem::create_directories(corpus);
  int number = 0;
  for (const std::string& input : seeds()) {
    char name[16];
    std::snprintf(name, sizeof name, "%03d", number++);
    std::ofstream(corpus / name, std::ios::binary) << input;
  }
  return 0;
}

}  // namespace

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace sk::fuzz

int main(int argc, char** argv) {
  for (int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    signal(number, sk::fuzz::keep_input);
  int64_t seconds = 10;
  const char* given = std::getenv("SK_TEST_SEED");
  uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  bool generates = false;
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--seconds" && i + 1 < argc)
      seconds = std::atoll(argv[++i]);
    else if (word == "--seed" && i + 1 < argc)
      seed = std::strtoull(argv[++i], nullptr, 10);
    else if (word == "--generate")
      generates = true;
    else
      paths.emplace_back(word);
  }
  if (paths.empty()) {
    std::fprintf(stderr, "usage: %s [--seconds N] [--seed S] [--generate] CORPUS | FILE...\n",
                 argv[0]);
    return 2;
  }
  if (generates) return sk::fuzz::generate(paths[0]);
  if (std::filesystem::is_directory(paths[0])) return sk::fuzz::fuzz(paths[0], seconds, seed);
  for (const auto& path : paths) sk::fuzz::run(sk::fuzz::read(path));
  return 0;
}
