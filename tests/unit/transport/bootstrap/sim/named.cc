#include "tests/unit/transport/bootstrap/sim/named.h"

#include <regex>

namespace sk::sim {
namespace {

std::vector<int> numbers_in(const std::string& list) {
  std::vector<int> out;
  static const std::regex kRange("([0-9]+)(-([0-9]+))?");
  for (std::sregex_iterator it(list.begin(), list.end(), kRange), end; it != end; ++it) {
    const int first = std::stoi((*it)[1]);
    const int last = (*it)[3].matched ? std::stoi((*it)[3]) : first;
    for (int each = first; each <= last; ++each) out.push_back(each);
  }
  return out;
}

}  // namespace

Named named_in(const std::string& sentence) {
  static const std::regex kWho(
      "ranks? ([0-9][-0-9, ]*)(?: and [0-9]+ more ranges)? (did not come|came and gave up|is "
      "gone|did not take)");
  Named named;
  for (std::sregex_iterator it(sentence.begin(), sentence.end(), kWho), end; it != end; ++it) {
    std::vector<int>& list = (*it)[2] == "did not come" ? named.absent : named.gone;
    for (const int each : numbers_in((*it)[1])) list.push_back(each);
  }
  return named;
}

}  // namespace sk::sim
