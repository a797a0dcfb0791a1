// What a call of sk_call() was given, as words: two calls with the same ones are the same call.
//
// Each operand's address, type, place, shape and strides as far as they are used, or the handle of
// packed weights, which whoever runs a known call must see to be alive; and the attributes. Calls
// with lists have none (these would be read twice, and remembered instead of others), nor such
// whose structs are of another version.
#ifndef SK_LIB_COMM_CALL_WORDS_H_
#define SK_LIB_COMM_CALL_WORDS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/op/call_layout.h"

namespace sk {

class CallWords {
 public:
  static constexpr size_t kWordsMax = 120;

  // False where there are none, or too many.
  bool read(const Schema& schema, const ArgLayout& layout, const void* args);

  // Whether some of them are handles of packed weights.
  bool has_packed() const { return has_packed_; }
  std::span<const uint64_t> words() const { return {words_.data(), count_}; }
  uint64_t hash() const { return hash_; }

 private:
  bool read_tensor(const void* tensor);
  bool push(uint64_t word) {
    if (count_ == kWordsMax) return false;
    words_[count_++] = word;
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15u;
    return true;
  }

  std::array<uint64_t, kWordsMax> words_;  // Not cleared: `count_` of them are set.
  size_t count_ = 0;
  uint64_t hash_ = 0;
  bool has_packed_ = false;
};

// The last call with each of some hashes, and what became of it.
template <typename Known>
class WordMemory {
 public:
  Known* find(const CallWords& call) {
    Place& place = places_[index(call)];
    const std::span<const uint64_t> words = call.words();
    const bool same = place.known != nullptr && place.count == words.size() &&
                      std::equal(words.begin(), words.end(), place.words.get());
    return same ? place.known.get() : nullptr;
  }
  void remember(const CallWords& call, Known known) {
    Place& place = places_[index(call)];
    const std::span<const uint64_t> words = call.words();
    place.known.reset();
    place.words = std::make_unique<uint64_t[]>(words.size());
    place.count = words.size();
    std::copy(words.begin(), words.end(), place.words.get());
    place.known = std::make_unique<Known>(std::move(known));
  }
  void forget_all() { places_ = {}; }

 private:
  static constexpr size_t kPlaces = 32;  // A power of two; one call each.
  static size_t index(const CallWords& call) { return size_t(call.hash() >> 59); }
  static_assert(kPlaces == 1 << (64 - 59));

  struct Place {
    std::unique_ptr<uint64_t[]> words;
    size_t count = 0;
    std::unique_ptr<Known> known;
  };
  std::array<Place, kPlaces> places_;
};

}  // namespace sk

#endif  // SK_LIB_COMM_CALL_WORDS_H_
