// What the doctor says: one line each of what was found, whether that is fine, and what to do.
#ifndef SK_TOOLS_SK_DOCTOR_FINDING_H_
#define SK_TOOLS_SK_DOCTOR_FINDING_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/text/text.h"

namespace sk::doctor {

using Json = nlohmann::json;

enum class State : uint8_t {
  kOk,     // Looked at, and nothing is in the way.
  kInfo,   // Told, and not judged.
  kLimit,  // Works, and less of it than there could be.
  kFault,  // Will make work fail.
};

struct Finding {
  std::string id;  // What was looked at; stable, for programs.
  State state = State::kOk;
  std::string found;   // In one line.
  std::string advice;  // The command or setting; of kLimit and kFault always.
};

class Findings {
 public:
  void ok(const std::string& id, const std::string& found) { add({id, State::kOk, found, ""}); }
  void info(const std::string& id, const std::string& found) { add({id, State::kInfo, found, ""}); }
  void limit(const std::string& id, const std::string& found, const std::string& advice) {
    add({id, State::kLimit, found, advice});
  }
  void fault(const std::string& id, const std::string& found, const std::string& advice) {
    add({id, State::kFault, found, advice});
  }
  void add(Finding finding);

  const std::vector<Finding>& all() const { return all_; }
  size_t count(State state) const;
  bool faulty() const { return count(State::kFault) > 0; }

 private:
  std::vector<Finding> all_;
};

const char* state_name(State state);  // "ok", "info", "limit", "fault".

Json to_json(const Finding& finding);
Finding from_json(const Json& json);

// A line for each, below it what to do; at last how many there are of each kind.
std::string to_text(const Findings& findings);

// "1.5 GiB"
std::string bytes_text(uint64_t bytes);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_FINDING_H_
