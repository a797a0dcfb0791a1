// What the emulator is told while it runs, a line each:
//
//   cut FROM TO [both]                   drops all that FROM sends to TO, and what is under way
//   restore FROM TO [both]
//   set FROM TO [both] NAME VALUE ...    by the names of Settings
//   stats                                a line for each direction: FROM TO NAME COUNT ...
//
// FROM and TO are hosts' names or "*" for each; "both" adds the other direction. The last line of
// an answer is "ok", or "error: " and a sentence, and then nothing has changed.
#ifndef SK_TESTS_NET_COMMANDS_H_
#define SK_TESTS_NET_COMMANDS_H_

#include <span>
#include <string>
#include <string_view>

#include "tests/net/hub.h"

namespace sk::net {

// `names` are the hub's hosts. The answer ends with a newline.
std::string obey(Hub& hub, std::span<const std::string> names, std::string_view line);

}  // namespace sk::net

#endif  // SK_TESTS_NET_COMMANDS_H_
