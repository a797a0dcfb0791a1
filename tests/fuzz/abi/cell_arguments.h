// What the calls of sessions and workers take: text, outputs of several kinds, comms' messages.
#ifndef SK_TESTS_FUZZ_ABI_CELL_ARGUMENTS_H_
#define SK_TESTS_FUZZ_ABI_CELL_ARGUMENTS_H_

#include <cstring>
#include <iterator>
#include <string>

#include "tests/fuzz/abi/fuzz.h"

namespace sk::fuzz_abi {

// Bytes with their count: as many as there are, or more than anything has.
struct Text {
  explicit Text(Caller& c, size_t most = 4096) {
    bytes = c.random.below(most);
    data = static_cast<char*>(c.operand(c.in, bytes));
    if (data != nullptr) std::memset(data, c.random.one_in(2) ? 'x' : 0xff, bytes);
    if (data != nullptr && bytes > 8 && c.random.one_in(2)) std::memcpy(data, "print a\n", 8);
    if (c.random.one_in(8)) bytes = UINT64_MAX - c.random.below(3);
  }
  char* data;
  uint64_t bytes;
};

struct Mimes {
  explicit Mimes(Caller& c) : text(c, 256) {
    static constexpr const char* kTypes[] = {"text/plain", "image/png", "", "x", "a/b c", nullptr};
    for (sk_mime& mime : all) mime = {kTypes[c.random.below(6)], text.data, text.bytes};
    for (sk_mime& mime : all)
      if (c.random.one_in(2)) mime = {"text/plain", "abc", 3};
    count = c.random.one_in(8) ? uint64_t(c.random.bits()) | 1 << 20 : c.random.below(5);
    pointer = c.random.one_in(8) ? nullptr : all;
  }
  Text text;
  sk_mime all[4];
  uint64_t count;
  const sk_mime* pointer;
};

struct Strings {
  explicit Strings(Caller& c) {
    for (const char*& each : all) each = c.random.one_in(12) ? nullptr : "a line";
    all[std::size(all) - 1] = nullptr;
    count = c.random.one_in(8) ? uint64_t(c.random.bits()) | 1 << 20 : c.random.below(5);
    pointer = c.random.one_in(8) ? nullptr : all;
  }
  const char* all[5];
  uint64_t count;
  const char* const* pointer;
};

struct Message {
  explicit Message(Caller& c) : mimes(c), data(c, 64), given(c.random, make(c)) {}
  sk_comm_message make(Caller& c) {
    sk_comm_message message{};
    message.kind = int32_t(c.random.around(SK_COMM_OPEN, SK_COMM_CLOSE));
    message.comm = c.random.text(c.rooms[0]);
    message.target = c.random.text(c.rooms[1]);
    message.data = data.data;
    message.data_bytes = data.bytes;
    metadata = c.random.json();
    message.metadata = c.random.one_in(2) ? nullptr : metadata.c_str();
    message.buffers = mimes.pointer;
    message.buffer_count = mimes.count;
    return message;
  }
  Mimes mimes;
  Text data;
  std::string metadata;
  Given<sk_comm_message> given;
};

}  // namespace sk::fuzz_abi

#endif  // SK_TESTS_FUZZ_ABI_CELL_ARGUMENTS_H_
