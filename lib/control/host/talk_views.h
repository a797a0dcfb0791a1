// The structs of include/sk/talk.h as messages.
#ifndef SK_LIB_CONTROL_HOST_TALK_VIEWS_H_
#define SK_LIB_CONTROL_HOST_TALK_VIEWS_H_

#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/message.h"
#include "lib/control/talk/snapshot.h"

namespace sk::control {

Result<Comm> to_comm(const char* call, const sk_comm_message* message);
Result<InputReply> to_input_reply(uint64_t request, const char* text, uint64_t bytes);
Result<std::vector<Snapshot::Name>> to_names(const char* root, const sk_name* names,
                                             uint64_t count);
Result<std::string> to_cell_reply(const char* json, uint64_t bytes);

// The answer of the last sk_worker_input().
class InputView {
 public:
  void fill(std::optional<InputReply> reply, sk_input* out);

 private:
  InputReply reply_;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_TALK_VIEWS_H_
