// What a C caller hands over, checked and copied: structs, lists and text of include/sk/exec.h as
// the messages of the control plane, or a sentence that says which argument is wrong.
#ifndef SK_LIB_CONTROL_HOST_ARGUMENTS_H_
#define SK_LIB_CONTROL_HOST_ARGUMENTS_H_

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/base/structs.h"
#include "lib/control/host/worker.h"
#include "lib/control/message.h"
#include "sk/output.h"

namespace sk::control {

// "x of N MIME types is null" and the like, or the copy.
Result<std::vector<Mime>> to_mimes(const char* call, const sk_mime* mimes, uint64_t count);
Result<std::vector<std::string>> to_strings(const char* call, const char* what,
                                            const char* const* strings, uint64_t count);
// A list that ends with NULL; NULL is empty.
std::vector<std::string> to_strings(const char* const* strings);

struct OpenArguments {
  Open open;
  std::string sk_program;  // "": to be looked for.
};
Result<OpenArguments> to_open(const sk_session_config* config);
Result<Execute> to_execute(const char* ranks, const char* code, uint64_t code_bytes,
                           const sk_exec_options* options);
Result<Ask> to_ask(int32_t kind, const char* code, uint64_t code_bytes, uint64_t cursor,
                   int32_t detail);
// A question of AskKind about `ranks`, NULL for all.
Result<Ask> to_rank_ask(uint32_t kind, const char* ranks);
Result<Configure> to_configure(const sk_session_settings* settings);
Result<LogRequest> to_log_request(const sk_log_query* query);
Result<WorkerConfig> to_worker_config(const sk_worker_config* config);
Result<DisplayRecord> to_display(int32_t kind, const sk_mime* mimes, uint64_t mime_count,
                                 const char* display_id, const char* metadata);
Result<ErrorRecord> to_error(const char* ename, const char* evalue, const char* const* traceback,
                             uint64_t traceback_count, uint32_t flags);
Result<Reply> to_reply(uint64_t id, const sk_reply* reply);
Result<Note> to_note(const std::string& name, const char* text, uint64_t bytes);
// A name and a token that a session can have; the name may be "" where it need not have one.
Status check_name(const std::string& name, const std::string& token);
Status check_timeout(const char* call, int64_t timeout_ms);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_ARGUMENTS_H_
