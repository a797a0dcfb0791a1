#include "tests/fuzz/abi/arguments.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace sk::fuzz_abi {
namespace {

constexpr unsigned char kCanaryByte = 0xc5;

}  // namespace

Guarded::Guarded(size_t bytes) : bytes_(bytes) {
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  const size_t room = (bytes + 2 * kCanary + page - 1) / page * page;
  map_bytes_ = room + page;
  void* map = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED || mprotect(static_cast<char*>(map) + room, page, PROT_NONE) != 0)
    fail("the fuzzer has no memory");
  map_ = static_cast<unsigned char*>(map);
  end_ = map_ + room;
  begin_ = end_ - 2 * kCanary - bytes;
  std::memset(begin_, kCanaryByte, size_t(end_ - begin_));
}

Guarded::~Guarded() { munmap(map_, map_bytes_); }

unsigned char* Guarded::tail(size_t bytes) {
  const size_t now = std::min(bytes, bytes_);
  given_ = std::max(given_, now);
  return end_ - kCanary - now;
}

void Guarded::check(const char* call) {
  const unsigned char* given = end_ - kCanary - given_;
  // All of the canary in front of what was given, as far as a stray tile might reach.
  const unsigned char* front = std::max<const unsigned char*>(begin_, given - 4096);
  const bool whole = std::all_of(front, given, [](unsigned char b) { return b == kCanaryByte; }) &&
                     std::all_of(given + given_, static_cast<const unsigned char*>(end_),
                                 [](unsigned char b) { return b == kCanaryByte; });
  if (!whole) fail(std::string(call) + " wrote outside of what it was given");
  std::memset(end_ - kCanary - given_, kCanaryByte, given_);
  given_ = 0;
}

int64_t Random::number() {
  static constexpr int64_t kEnds[] = {0,
                                      1,
                                      -1,
                                      2,
                                      7,
                                      8,
                                      255,
                                      256,
                                      4095,
                                      4096,
                                      4097,
                                      65535,
                                      65536,
                                      INT32_MAX,
                                      INT32_MIN,
                                      INT64_MAX,
                                      INT64_MIN,
                                      -4096,
                                      100'000,
                                      int64_t(1) << 31,
                                      int64_t(1) << 32,
                                      int64_t(1) << 46,
                                      int64_t(1) << 62};
  switch (below(4)) {
    case 0:
      return int64_t(bits());
    case 1:
      return (int64_t(1) << below(63)) + int64_t(below(3)) - 1;
    default:
      return kEnds[below(std::size(kEnds))];
  }
}

const char* Random::text(std::string& room) {
  switch (below(8)) {
    case 0:
      return nullptr;
    case 1:
      room.clear();
      break;
    case 2:
      room.assign(size_t(1) << below(21), char('a' + below(26)));
      break;
    case 3:
      room = "\xff\xfe\x80{\x01%s%n{}";
      break;
    case 4:
      room = std::to_string(number());
      break;
    case 5:
      room = json();
      break;
    default: {
      static constexpr const char* kWords[] = {
          "0",       "0-3", "all",     "alive",          "host:x", "x",     "reset", "text/plain",
          "print 1", "a.b", "cores:2", "hosts:2 gpus:2", "3-1",    "0,0,0", "-"};
      room = kWords[below(std::size(kWords))];
    }
  }
  return room.c_str();
}

std::string Random::json() {
  static constexpr const char* kTexts[] = {"{}", "{\"a\": 1}", "[]", "{", "}", "", "{\"x\": {}}"};
  return kTexts[below(std::size(kTexts))];
}

uint32_t struct_size(Random& random, size_t bytes) {
  switch (random.below(12)) {
    case 0:
      return uint32_t(random.bits());
    case 1:
      return uint32_t(random.below(bytes + 32));
    case 2:
      return uint32_t(random.below(513) * 8);
    case 3:
      return uint32_t(bytes + 8 * random.below(4));
    default:
      return uint32_t(bytes);
  }
}

}  // namespace sk::fuzz_abi
