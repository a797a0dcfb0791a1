// A strict reader of OpenMetrics 1.0 text, as far as `sk status --metrics` uses it.
#ifndef SK_TESTS_MULTI_OPEN_METRICS_H_
#define SK_TESTS_MULTI_OPEN_METRICS_H_

#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace sk::testing_support {

struct OpenMetrics {
  struct Family {
    std::string type, unit, help;
  };
  struct Sample {
    std::string name;
    std::map<std::string, std::string> labels;
    double value = 0;
  };
  std::map<std::string, Family> families;
  std::vector<Sample> samples;

  // What is wrong with `text`; "" where nothing is.
  std::string parse(const std::string& text) {
    if (!text.ends_with("# EOF\n")) return "the end is missing";
    std::istringstream in(text.substr(0, text.size() - 6));
    for (std::string line; std::getline(in, line);) {
      if (std::string why = line.starts_with("# ") ? meta(line) : sample(line); !why.empty())
        return why + ": " + line;
    }
    return "";
  }

 private:
  std::string meta(const std::string& line) {
    static const std::regex form(R"(# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))");
    std::smatch is;
    if (!std::regex_match(line, is, form)) return "no line of metadata";
    const std::string what = is[1], name = is[2], value = is[3];
    if (what == "TYPE") {
      if (families.contains(name)) return "a family comes twice";
      static const std::set<std::string> types = {"counter", "gauge", "stateset"};
      if (!types.contains(value)) return "an unknown type";
      current_ = name;
      families[name].type = value;
      return "";
    }
    if (name != current_) return "metadata of another family";
    if (!samples_of_current_.empty() && samples_family_ == name) return "metadata behind samples";
    if (what == "UNIT") {
      if (!name.ends_with("_" + value)) return "a name without its unit";
      families[name].unit = value;
    } else {
      families[name].help = value;
    }
    return "";
  }

  std::string sample(const std::string& line) {
    static const std::regex form(R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(.*)\})? (\S+))re");
    static const std::regex label(
        R"re(([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$))re");
    std::smatch is;
    if (!std::regex_match(line, is, form)) return "no sample";
    Sample out;
    out.name = is[1];
    std::string labels = is[3];
    for (std::smatch each; !labels.empty(); labels = each.suffix()) {
      if (!std::regex_search(labels, each, label, std::regex_constants::match_continuous))
        return "no labels";
      if (!out.labels.emplace(each[1], each[2]).second) return "a label comes twice";
    }
    const std::string number = is[4];
    char* end = nullptr;
    out.value = std::strtod(number.c_str(), &end);
    if (*end != '\0') return "no number";
    if (current_.empty()) return "a sample before its family";
    const Family& family = families[current_];
    if (out.name != current_ + (family.type == "counter" ? "_total" : ""))
      return "a sample of another family";
    if (family.type == "counter" && out.value < 0) return "a counter below 0";
    if (family.type == "stateset" &&
        (!out.labels.contains(current_) || (out.value != 0 && out.value != 1)))
      return "no state";
    if (samples_family_ != current_) samples_of_current_.clear();
    samples_family_ = current_;
    if (!samples_of_current_.insert(std::string(is[1]) + std::string(is[2])).second)
      return "a sample comes twice";
    samples.push_back(std::move(out));
    return "";
  }

  std::string current_, samples_family_;
  std::set<std::string> samples_of_current_;
};

}  // namespace sk::testing_support

#endif  // SK_TESTS_MULTI_OPEN_METRICS_H_
