#include <unistd.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "tests/fuzz/abi/fuzz.h"

namespace sk::fuzz_abi {

void Pool::add(Kind kind, Handle handle) {
  const std::lock_guard lock(mutex_);
  live_[kind].push_back(handle);
}

Handle Pool::live(Random& random, Kind kind) {
  const std::lock_guard lock(mutex_);
  const std::vector<Handle>& all = live_[kind];
  return all.empty() ? Handle() : all[random.below(all.size())];
}

Handle Pool::any(Random& random, Kind kind) {
  static int somewhere = 0;
  switch (random.below(16)) {
    case 0:
      return {};
    case 1:
      return {&somewhere};
    case 2:
      return {std::bit_cast<void*>(random.bits())};
    case 3: {
      // Nearly right: another generation, slot or kind.
      const auto value = reinterpret_cast<uintptr_t>(live(random, kind).value);
      return {std::bit_cast<void*>(value ^ uintptr_t(1) << (16 + random.below(8)))};
    }
    case 4: {
      const std::lock_guard lock(mutex_);
      return {freed_[kind][random.below(freed_[kind].size())].value};
    }
    case 5: {
      const Kind other = Kind(random.below(kKindCount));
      return other == kind ? Handle() : Handle{live(random, other).value};
    }
    default:
      return live(random, kind);
  }
}

void Pool::drop(Kind kind, void* value) {
  const std::lock_guard lock(mutex_);
  std::erase_if(live_[kind], [&](const Handle& each) { return each.value == value; });
  freed_[kind][freed_count_[kind]++ % freed_[kind].size()] = {value};
}

size_t Pool::count(Kind kind) {
  const std::lock_guard lock(mutex_);
  return live_[kind].size();
}

pid_t Pool::fork_process() {
  const std::lock_guard lock(mutex_);
  return fork();
}

bool Pool::is_live(Kind kind, void* value) {
  const std::lock_guard lock(mutex_);
  return std::any_of(live_[kind].begin(), live_[kind].end(),
                     [&](const Handle& each) { return each.value == value; });
}

void Caller::check(sk_status status) {
  const char* name = call.load();
  ++calls;
  if (std::string(sk_status_name(status)) == "SK_ERR_?")
    fail(std::string(name) + " returned " + std::to_string(status) + ", which is no code");
  if (status == SK_ERR_INTERNAL) fail(std::string(name) + ": " + sk_last_error());
  if (status != SK_OK) {
    ++refused;
    if (*sk_last_error() == '\0') fail(std::string(name) + " failed without a sentence");
  }
  in.check(name);
  out.check(name);
}

void* Caller::operand(Guarded& memory, uint64_t bytes) {
  if (random.one_in(32)) return nullptr;
  // A byte off, where there is room for it: refused for its alignment.
  const bool odd = bytes > 0 && random.one_in(32);
  return memory.tail(std::min<uint64_t>(bytes + (odd ? 1 : 0), memory.bytes()));
}

}  // namespace sk::fuzz_abi
