// Message <-> bytes (Cap'n Proto, one segment). Decoding trusts nothing: traversal is limited, and
// every enum, count and text is checked before a Message comes out.
#ifndef SK_LIB_CONTROL_CODEC_H_
#define SK_LIB_CONTROL_CODEC_H_

#include <span>
#include <string>

#include "lib/base/status.h"
#include "lib/control/message.h"

namespace sk::control {

// What decode() refuses, whoever encodes refuses before: to its reader it is the end of the link.
inline constexpr uint64_t kMillisMax = 1ull << 40;  // 34 years: no overflow when turned into ns.
inline constexpr uint64_t kRankSetBytesMax = 65'536;

// A message as one unframed blob; a multiple of 8 bytes.
std::string encode(const Message& message);

// SK_ERR_TRANSPORT with the field that was wrong. `bytes` may have any alignment and content.
Result<Message> decode(std::span<const char> bytes);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_CODEC_H_
