// The comms that are open, as the front end sees them, and widget states on their way.
#ifndef SK_TOOLS_SK_KERNEL_COMMS_H_
#define SK_TOOLS_SK_KERNEL_COMMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sk/talk.h"
#include "tools/sk_kernel/wire.h"

namespace sk::kernel {

// The states that ranks answer to a notebook which asks for all widgets (jupyter.widget.control,
// on page load). It takes the first answer for the whole, so the ranks' answers become one.
struct WidgetStates {
  std::string comm;
  Json data;
  std::vector<std::string> buffers;
};

class Comms {
 public:
  // Opened or closed by either side.
  void opened(const std::string& id, const std::string& target) { targets_[id] = target; }
  void closed(const std::string& id) { targets_.erase(id); }
  // The ranks are gone: the headers of the messages that they handled.
  std::vector<Json> clear();

  // The content of a comm_info_reply.
  Json info(const Json& request) const;

  // A message to the ranks begins as `cell`; `end` gives its header back, once.
  void begin(uint64_t cell, const Json& header) { open_cells_[cell] = header; }
  std::optional<Json> end(uint64_t cell);

  // Keeps a rank's widget states until the cell that asked for them ends. False: it is none.
  bool keep_states(uint64_t cell, const std::string& id, const Json& data,
                   const std::vector<std::string>& buffers);
  std::optional<WidgetStates> states(uint64_t cell);

 private:
  std::map<std::string, std::string> targets_;
  std::map<uint64_t, Json> open_cells_;
  std::map<uint64_t, WidgetStates> states_;
};

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_COMMS_H_
