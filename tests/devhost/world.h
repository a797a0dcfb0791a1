// A world of ranks whose plans run as device code on the CPU.
#ifndef SK_TESTS_DEVHOST_WORLD_H_
#define SK_TESTS_DEVHOST_WORLD_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/exec/image.h"
#include "cuda/exec/views.h"
#include "lib/exec/reference.h"

namespace sk::devhost {

// Memory at an address that the widest accesses take.
struct Aligned {
  explicit Aligned(size_t bytes, std::byte fill = std::byte{0})
      : size(bytes), all(bytes + 256, fill) {}
  std::byte* data() {
    return all.data() + (256 - reinterpret_cast<uintptr_t>(all.data()) % 256) % 256;
  }
  size_t size;
  std::vector<std::byte> all;
};

cuda::TensorMap map_of(const cuda::BoxView& view);

struct Options {
  bool one_launch = true;  // All ranks in one; else each in its own, and they drift apart.
  uint64_t timeout_ns = 60'000'000'000;
  bool trace = false;
  bool pairs = false;  // Two blocks serve a queue, where all matrices have views.
};

// What runs on every block. `boxes`: the arguments have views of all matrices.
using Kernel = std::function<void(const cuda::BoxLaunchArgs& args, bool boxes)>;

class DeviceWorld {
 public:
  // `plan` has all ranks' parts.
  DeviceWorld(const Plan& plan, Kernel kernel, const Options& options);
  ~DeviceWorld();

  // As run_reference(). May be called again: the next runs go on from there.
  Status run(World& world);
  // Launches of a world that is abandoned end as kAborted.
  void abort();
  // Returns once rank 1 has heard of rank 0, which is in a run of the first two then.
  void wait_for_entry() const;
  // Whether no byte of the rank's outputs was written in a run that failed.
  bool untouched(uint32_t rank) const;

  const cuda::TaskTimes* times(uint32_t rank) const;

 private:
  struct Rank;
  struct Launch;
  Status run_once(Launch& launch, World& world, uint32_t run);
  static cuda::RankOperands operands_of(const Rank& rank);
  bool place_views(cuda::BoxLaunchArgs& args) const;
  void begin(Rank& rank, const OperandBytes& inputs);
  void end(Rank& rank, OperandBytes& outputs);

  const Plan& plan_;
  const Kernel kernel_;
  const Options options_;
  std::optional<cuda::ViewTable> views_;
  std::vector<uint64_t> bases_;  // Of ranks' memories.
  uint32_t abort_ = 0, nobody_ = 0;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::unique_ptr<Launch>> launches_;
};

}  // namespace sk::devhost

#endif  // SK_TESTS_DEVHOST_WORLD_H_
