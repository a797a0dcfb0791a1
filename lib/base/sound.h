// Records that are checked where they are compiled: the compiler shows what is wrong with one, not
// only that something is.
#ifndef SK_LIB_BASE_SOUND_H_
#define SK_LIB_BASE_SOUND_H_

#include <cstddef>
#include <string_view>

namespace sk {

// A text that a template can take.
template <size_t kSize>
struct Sentence {
  char text[kSize + 1] = {};
  // NOLINTNEXTLINE(google-explicit-constructor)  Made from what a function answers.
  constexpr Sentence(std::string_view of) {
    for (size_t i = 0; i < kSize; ++i) text[i] = of[i];
  }
};

template <Sentence kFlaw>
struct Sound {
  static_assert(sizeof kFlaw.text == 1, "a record has the flaw that this Sound is of");
  static constexpr bool kIs = true;
};

}  // namespace sk

// `flaw`: a constant sentence about a record, "" where it has none.
#define SK_SOUND(flaw) \
  static_assert(::sk::Sound<::sk::Sentence<std::string_view(flaw).size()>(flaw)>::kIs)

#endif  // SK_LIB_BASE_SOUND_H_
