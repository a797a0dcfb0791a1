#include "lib/comm/arguments.h"

#include <fcntl.h>

#include <algorithm>

#include "lib/comm/checks.h"
#include "lib/comm/limits.h"
#include "lib/op/ops/collectives.h"

namespace sk {

namespace check {

Status count(int64_t value, DType dtype, uint64_t copies) {
  const uint64_t limit = (uint64_t(1) << 46) / (dtype_bytes(dtype) * copies);
  if (value < 0 || uint64_t(value) > limit) {
    return error(SK_ERR_INVALID_ARGUMENT, "count is {}, it must be 0 to {}", value, limit);
  }
  return {};
}

Status pointer(const char* name, const void* data, uint64_t bytes, DType dtype) {
  if (bytes == 0) return {};
  if (data == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "{} is null", name);
  const size_t align = dtype_bytes(dtype);
  if (reinterpret_cast<uintptr_t>(data) % align != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} is {}, which is not aligned to one {} ({} bytes)",
                 name, data, dtype_name(dtype), align);
  }
  return {};
}

Result<DType> dtype(const char* name, int32_t value) {
  if (!is_dtype(value)) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} is {}, it must be one of enum sk_dtype (SK_F32 1 to SK_I64 6)", name, value);
  }
  return DType(value);
}

Result<RedOp> redop(int32_t value, DType dtype) {
  if (!is_redop(value)) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "op is {}, it must be one of enum sk_redop (SK_SUM 1 to SK_AVG 5)", value);
  }
  if (RedOp(value) == RedOp::kAvg && !is_float(dtype)) {
    return error(SK_ERR_INVALID_ARGUMENT, "op is SK_AVG with {}, it is for floating types only",
                 dtype_name(dtype));
  }
  return RedOp(value);
}

Status rank(const char* name, int32_t value, int32_t world_size) {
  if (value < 0 || value >= world_size) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} is {}, it must be 0 to {}", name, value,
                 world_size - 1);
  }
  return {};
}

Status apart(const char* a_name, const void* a, uint64_t a_bytes, const char* b_name, const void* b,
             uint64_t b_bytes) {
  const auto a0 = reinterpret_cast<uintptr_t>(a), b0 = reinterpret_cast<uintptr_t>(b);
  if (a_bytes == 0 || b_bytes == 0 || a0 + a_bytes <= b0 || b0 + b_bytes <= a0) return {};
  return error(SK_ERR_INVALID_ARGUMENT,
               "{} ({}, {} bytes) and {} ({}, {} bytes) overlap; they must be apart, or the same "
               "where the call can work in place",
               a_name, a, a_bytes, b_name, b, b_bytes);
}

std::string device_text(const DeviceId& device) {
  return device.type == SK_DEVICE_CPU
             ? "the CPU (0:0)"
             : fmt::format("GPU {} ({}:{})", device.id, device.type, device.id);
}

Status timeout_ms(const char* name, int64_t value) {
  if (value >= 0 && value <= kTimeoutMsMax) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{} is {}, it must be 0 to {}", name, value, kTimeoutMsMax);
}

Result<RunOptions> run_options(const DeviceId& device, const sk_run_options* options) {
  if (options == nullptr) return RunOptions();
  SK_ASSIGN_OR_RETURN(const sk_run_options read, read_struct("sk_run_options", options));
  const DeviceId asked = {read.device_type, read.device_id};
  const bool on_cpu = device.type == SK_DEVICE_CPU;
  if ((asked != DeviceId() && asked != device) || (on_cpu && read.stream != nullptr)) {
    return error(on_cpu ? SK_ERR_UNSUPPORTED : SK_ERR_INVALID_ARGUMENT,
                 "options ask for device {}:{}{}; the communicator is on {}", read.device_type,
                 read.device_id, read.stream != nullptr ? " with a stream" : "",
                 device_text(device));
  }
  if (read.reserved != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "options.reserved is {}, it must be 0", read.reserved);
  }
  SK_RETURN_IF_ERROR(timeout_ms("options.timeout_ms", read.timeout_ms));
  return RunOptions{read.timeout_ms * 1'000'000, read.stream};
}

}  // namespace check

Status take_options(World world, const sk_run_options* options, Call& call) {
  SK_ASSIGN_OR_RETURN(const check::RunOptions read, check::run_options(world.device, options));
  call.timeout_ns = read.timeout_ns;
  call.stream = read.stream;
  return {};
}

namespace {

// What all element-wise calls have in common. `in_blocks` and `out_blocks` count blocks of `count`.
struct Elements {
  Call call;       // All but the op,
  VectorCall say;  // which this becomes.

  Call done(const Schema& schema) {
    call.op = describe(schema, say);
    return call;
  }
};

Result<Elements> elements(World world, const void* in, uint64_t in_blocks, void* out,
                          uint64_t out_blocks, int64_t count, int32_t dtype,
                          const sk_run_options* options) {
  Elements of;
  SK_ASSIGN_OR_RETURN(of.say.dtype, check::dtype("dtype", dtype));
  SK_RETURN_IF_ERROR(
      check::count(count, of.say.dtype, std::max<uint64_t>(1, std::max(in_blocks, out_blocks))));
  of.say.count = count;
  const uint64_t block = uint64_t(count) * dtype_bytes(of.say.dtype);
  of.call.operands[0] = {in, block * in_blocks};
  of.call.operands[1] = {out, block * out_blocks};
  SK_RETURN_IF_ERROR(check::pointer("in", in, of.call.operands[0].bytes, of.say.dtype));
  SK_RETURN_IF_ERROR(check::pointer("out", out, of.call.operands[1].bytes, of.say.dtype));
  SK_RETURN_IF_ERROR(take_options(world, options, of.call));
  return of;
}

// In place: the whole operand is passed once, as `whole`, and the other is part of it.
Status settle_overlap(Elements& of, const void* in_place_in, const void* in_place_out) {
  if (of.say.count == 0) return {};
  if (in_place_in == in_place_out) {
    of.say.in_place = true;
    return {};
  }
  const Call& call = of.call;
  return check::apart("in", call.operands[0].data, call.operands[0].bytes, "out",
                      call.operands[1].data, call.operands[1].bytes);
}

const std::byte* at(const void* base, uint64_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}

}  // namespace

Result<Call> allreduce_call(World world, const void* in, void* out, int64_t count, int32_t dtype,
                            int32_t op, const sk_run_options* options) {
  SK_ASSIGN_OR_RETURN(Elements of, elements(world, in, 1, out, 1, count, dtype, options));
  SK_ASSIGN_OR_RETURN(of.say.redop, check::redop(op, of.say.dtype));
  SK_RETURN_IF_ERROR(settle_overlap(of, in, out));
  return of.done(ops::kAllreduce);
}

Result<Call> allgather_call(World world, const void* in, void* out, int64_t count, int32_t dtype,
                            const sk_run_options* options) {
  SK_ASSIGN_OR_RETURN(Elements of,
                      elements(world, in, 1, out, uint64_t(world.size), count, dtype, options));
  if (of.call.operands[0].bytes > 0) {
    SK_RETURN_IF_ERROR(
        settle_overlap(of, in, at(out, of.call.operands[0].bytes * uint64_t(world.rank))));
  }
  if (of.say.in_place) of.call.operands[0] = {};
  return of.done(ops::kAllgather);
}

Result<Call> reduce_scatter_call(World world, const void* in, void* out, int64_t count,
                                 int32_t dtype, int32_t op, const sk_run_options* options) {
  SK_ASSIGN_OR_RETURN(Elements of,
                      elements(world, in, uint64_t(world.size), out, 1, count, dtype, options));
  SK_ASSIGN_OR_RETURN(of.say.redop, check::redop(op, of.say.dtype));
  if (of.call.operands[0].bytes > 0) {
    SK_RETURN_IF_ERROR(
        settle_overlap(of, at(in, of.call.operands[1].bytes * uint64_t(world.rank)), out));
  }
  if (of.say.in_place) of.call.operands[1] = {};
  return of.done(ops::kReduceScatter);
}

Result<Call> broadcast_call(World world, const void* in, void* out, int64_t count, int32_t dtype,
                            int32_t root, const sk_run_options* options) {
  SK_RETURN_IF_ERROR(check::rank("root", root, world.size));
  const bool is_root = root == world.rank;
  SK_ASSIGN_OR_RETURN(Elements of, elements(world, is_root ? in : nullptr, is_root ? 1 : 0, out, 1,
                                            count, dtype, options));
  of.say.root = root;
  // Whether the root works in place is the root's own business: its output is its input then, and
  // the plan of all ranks is the same. The root's copy onto itself is a no-op of the copy kernel.
  if (is_root && in != out) {
    SK_RETURN_IF_ERROR(
        check::apart("in", in, of.call.operands[0].bytes, "out", out, of.call.operands[1].bytes));
  }
  return of.done(ops::kBroadcast);
}

Result<Call> barrier_call(World world, const sk_run_options* options) {
  Call call;
  SK_RETURN_IF_ERROR(take_options(world, options, call));
  return call;
}

namespace {

Result<Call> pair_call(World world, Elements of, int32_t peer, bool sends) {
  SK_RETURN_IF_ERROR(check::rank("peer", peer, world.size));
  if (peer == world.rank) {
    return error(SK_ERR_INVALID_ARGUMENT, "peer is {}, which is this rank itself", peer);
  }
  of.say.root = sends ? world.rank : peer;
  of.say.peer = sends ? peer : world.rank;
  return of.done(ops::kSendRecv);
}

}  // namespace

Result<Call> send_call(World world, const void* in, int64_t count, int32_t dtype, int32_t peer,
                       const sk_run_options* options) {
  SK_ASSIGN_OR_RETURN(Elements of, elements(world, in, 1, nullptr, 0, count, dtype, options));
  return pair_call(world, of, peer, /*sends=*/true);
}

Result<Call> recv_call(World world, void* out, int64_t count, int32_t dtype, int32_t peer,
                       const sk_run_options* options) {
  SK_ASSIGN_OR_RETURN(Elements of, elements(world, nullptr, 0, out, 1, count, dtype, options));
  return pair_call(world, of, peer, /*sends=*/false);
}

Result<Communicator::Config> comm_config(const sk_comm_config* config) {
  SK_ASSIGN_OR_RETURN(const sk_comm_config read, read_struct("sk_comm_config", config));
  if (read.bootstrap < SK_BOOTSTRAP_AUTO || read.bootstrap > SK_BOOTSTRAP_CALLBACK) {
    return error(SK_ERR_INVALID_ARGUMENT, "config.bootstrap is {}, it must be 0 to 3",
                 read.bootstrap);
  }
  SK_RETURN_IF_ERROR(check::timeout_ms("config.timeout_ms", read.timeout_ms));
  if ((read.flags & ~uint32_t(SK_COMM_PUT_ONLY)) != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "config.flags is {:#x}, known bits are {:#x}", read.flags,
                 uint32_t(SK_COMM_PUT_ONLY));
  }
  if (read.workers < 0 || read.workers > int32_t(kWorkersMax)) {
    return error(SK_ERR_INVALID_ARGUMENT, "config.workers is {}, it must be 0 to {}", read.workers,
                 kWorkersMax);
  }
  if (read.symmetric_bytes_max > (uint64_t(1) << 44)) {
    return error(SK_ERR_INVALID_ARGUMENT, "config.symmetric_bytes_max is {}, it must be 0 to {}",
                 read.symmetric_bytes_max, uint64_t(1) << 44);
  }
  if (read.device_type != SK_DEVICE_CPU && read.device_type != SK_DEVICE_CUDA) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "config.device_type is {}, it must be {} (CPU) or {} (GPU)", read.device_type,
                 int(SK_DEVICE_CPU), int(SK_DEVICE_CUDA));
  }
  if (read.device_id < 0 || (read.device_type == SK_DEVICE_CPU && read.device_id != 0)) {
    return error(SK_ERR_INVALID_ARGUMENT, "config.device_id is {}, it must be {}", read.device_id,
                 read.device_type == SK_DEVICE_CPU ? "0 on the CPU" : "a GPU's number, from 0");
  }
  if (read.cancel_fd != 0 && fcntl(read.cancel_fd, F_GETFD) < 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "config.cancel_fd is {}, which is no open descriptor",
                 read.cancel_fd);
  }
  Communicator::Config out;
  if (read.cancel_fd != 0) out.cancel_fd = read.cancel_fd;
  out.timeout_ns = (read.timeout_ms == 0 ? 300'000 : read.timeout_ms) * 1'000'000;
  out.put_only = (read.flags & SK_COMM_PUT_ONLY) != 0;
  out.workers = uint32_t(read.workers);
  out.device = {read.device_type, read.device_id};
  if (out.workers == 0 && out.device.type == SK_DEVICE_CPU) {
    SK_ASSIGN_OR_RETURN(out.workers, workers_from_environment());
  }
  out.waiting = {read.waiting, read.waiting_user};
  out.heap_bytes_max = read.symmetric_bytes_max;
  out.bootstrap.kind = read.bootstrap;
  out.bootstrap.rank = read.rank;
  out.bootstrap.world_size = read.world_size;
  out.bootstrap.name = read.name == nullptr ? "" : read.name;
  out.bootstrap.allgather = read.allgather;
  out.bootstrap.user = read.bootstrap_user;
  out.bootstrap.timeout_ns = out.timeout_ns;
  return out;
}

}  // namespace sk
