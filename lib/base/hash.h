// A running hash of 64-bit words: for fingerprints that ranks compare.
#ifndef SK_LIB_BASE_HASH_H_
#define SK_LIB_BASE_HASH_H_

#include <cstdint>

namespace sk {

// `hash` with `value` behind what it has; order matters. (The finaliser of splitmix64.)
constexpr uint64_t hash_mix(uint64_t hash, uint64_t value) {
  uint64_t z = hash + 0x9e3779b97f4a7c15u + value;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace sk

#endif  // SK_LIB_BASE_HASH_H_
