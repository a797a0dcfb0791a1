// What a communicator needs from below, so that only lib/api/backends.cpp names the concrete ones.
#ifndef SK_LIB_COMM_BACKEND_H_
#define SK_LIB_COMM_BACKEND_H_

#include <functional>
#include <memory>

#include "lib/base/memory_limit.h"
#include "lib/comm/gemm_tiles.h"
#include "lib/comm/gpu_backend.h"
#include "lib/exec/executor.h"
#include "transport/bootstrap/bootstrap.h"
#include "transport/session.h"

namespace sk {

// Where a communicator's memory is.
struct DeviceId {
  int32_t type = 0;  // enum sk_device_type.
  int32_t id = 0;
  bool operator==(const DeviceId&) const = default;
};

struct Backend {
  // Whether the environment asks for something that this machine cannot give.
  std::function<Status()> check;
  std::function<Result<std::unique_ptr<Endpoint>>(Bootstrap&, const SegmentLayout&,
                                                  int64_t timeout_ns, bool put_only)>
      connect;
  std::function<std::unique_ptr<Executor>(Endpoint&, Ledger&, uint32_t workers, bool shared_cores)>
      make_executor;
  // Of workspace, for the executor's own areas; in large worlds staging_in() of it.
  uint64_t staging_bytes = 0;
  std::function<MemoryRoom()> memory_room;
  // Which of the sets of tile kernels this rank uses: a number below 32 with one meaning in all
  // builds of a version.
  std::function<uint32_t()> kernel_set;
  const char* kernel_set_name = "?";  // For the log,
  // like this, of ranks on one host or on several.
  const char* (*transport_name)(bool one_host) = nullptr;
  // For records: what links a rank to those of other hosts, "tcp".
  const char* (*far_link)() = nullptr;
  // For ranks that use these sets, as bits: tiles that all of them can take, and room for B as any
  // of them packs it.
  std::function<GemmTiles(DType, int64_t m, int64_t n, int64_t k, uint32_t parts,
                          uint32_t kernel_sets)>
      gemm_tiles;
  std::function<void(DType, const void* b, int64_t ldb, bool transpose_b, int64_t k, int64_t n,
                     void* packed)>
      pack;
  // A GPU of this machine, as the driver counts; SK_ERR_UNSUPPORTED says what is absent.
  std::function<Result<std::shared_ptr<GpuExecutor>>(int32_t ordinal)> open_gpu;
};

}  // namespace sk

#endif  // SK_LIB_COMM_BACKEND_H_
