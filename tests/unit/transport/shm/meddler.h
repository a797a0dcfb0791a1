// A bootstrap that lets a test interfere while ranks connect.
#ifndef SK_TESTS_UNIT_TRANSPORT_SHM_MEDDLER_H_
#define SK_TESTS_UNIT_TRANSPORT_SHM_MEDDLER_H_

#include <functional>
#include <utility>
#include <vector>

#include "transport/bootstrap/bootstrap.h"

namespace sk::testing_support {

// Does something between the first gathering, when all ranks listen, and what follows.
class Meddler final : public Bootstrap {
 public:
  Meddler(Bootstrap& inner, std::function<void()> meddle, CancelPtr cancel = nullptr)
      : Bootstrap(inner.rank(), inner.world_size(), std::move(cancel)),
        inner_(inner),
        meddle_(std::move(meddle)) {}
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override {
    auto all = inner_.allgather(mine, timeout_ns);
    if (auto meddle = std::exchange(meddle_, {})) meddle();
    return all;
  }

 private:
  Bootstrap& inner_;
  std::function<void()> meddle_;
};

}  // namespace sk::testing_support

#endif  // SK_TESTS_UNIT_TRANSPORT_SHM_MEDDLER_H_
