// What `sk doctor` says when a shell starts it.
#ifndef SK_TESTS_MULTI_SK_DOCTOR_SAID_H_
#define SK_TESTS_MULTI_SK_DOCTOR_SAID_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/shell.h"

namespace sk::doctor_test {

using Json = nlohmann::json;
using testing_support::Outcome;

// `script` has the program's path for DOCTOR. Of stdout alone.
inline Outcome shell(std::string script) {
  const std::string word = "DOCTOR";
  for (size_t at; (at = script.find(word)) != std::string::npos;)
    script.replace(at, word.size(), SK_PROGRAM " doctor");
  return testing_support::shell("unset RANK WORLD_SIZE; " + script);
}

// "state: found -> advice" of all findings of this name.
inline std::vector<std::string> found(const Json& said, const std::string& id) {
  std::vector<std::string> lines;
  for (const Json& each : said["findings"]) {
    if (each["id"] != id) continue;
    lines.push_back(each["state"].get<std::string>() + ": " + each["found"].get<std::string>() +
                    " -> " + each["advice"].get<std::string>());
  }
  return lines;
}

struct Said {
  int status;
  Json json;
};

inline Said json_of(const std::string& script) {
  const Outcome outcome = shell(script);
  Said said{outcome.status, Json::parse(outcome.text, nullptr, false)};
  EXPECT_TRUE(said.json.is_object()) << outcome.text;
  if (!said.json.is_object()) said.json = {{"findings", Json::array()}};
  return said;
}

// Nothing of the caller's kernels or settings.
inline constexpr const char* kBare = "JUPYTER_DATA_DIR=/nonexistent JUPYTER_PATH= ";

}  // namespace sk::doctor_test

#endif  // SK_TESTS_MULTI_SK_DOCTOR_SAID_H_
