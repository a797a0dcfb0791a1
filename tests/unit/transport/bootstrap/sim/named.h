// Whom a sentence of the bootstrap names.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_NAMED_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_NAMED_H_

#include <string>
#include <vector>

namespace sk::sim {

struct Named {
  std::vector<int> absent;  // Who did not come,
  std::vector<int> gone;    // who came and gave up, is gone, or did not take what it was sent.
};

Named named_in(const std::string& sentence);

}  // namespace sk::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_NAMED_H_
