#include "cuda/exec/operands.h"

#include <cstring>

namespace sk::cuda {
namespace {

struct Place {
  uint32_t memory = abi::kUnknownMemory;
  uint32_t managed = 0;
  int32_t ordinal = -1;
};

// Says nothing of how much memory lies there: an allocation that was mapped in parts has no one
// size.
Result<Place> place_of(const Device& device, const void* pointer) {
  Place place;
  abi::PointerAttribute wanted[] = {abi::kMemoryType, abi::kIsManaged, abi::kDeviceOrdinal};
  void* values[] = {&place.memory, &place.managed, &place.ordinal};
  // An address that CUDA does not know is no error: its memory type is 0.
  SK_DEVICE_TRY(device, cuPointerGetAttributes, 3, wanted, values,
                reinterpret_cast<abi::DevicePtr>(pointer));
  return place;
}

Status check_operand(const Device& device, const OpDesc& op, const Buffer& buffer,
                     const void* pointer) {
  const char* name = operand_name(op, buffer.operand);
  if (pointer == nullptr) {
    return error(SK_ERR_INVALID_ARGUMENT, "rank {}: {} is null; {} bytes of {}'s memory are due",
                 buffer.owner, name, buffer.bytes, device.name());
  }
  const DType dtype = op.type(buffer.operand);
  const auto address = reinterpret_cast<uint64_t>(pointer);
  if (address % dtype_bytes(dtype) != 0) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "rank {}: {} at {:#x} is no address for {}, which takes {} bytes", buffer.owner,
                 name, address, dtype_name(dtype), dtype_bytes(dtype));
  }
  return check_place(device, fmt::format("rank {}: {}", buffer.owner, name), pointer);
}

}  // namespace

Status check_place(const Device& device, const std::string& what, const void* pointer) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  SK_ASSIGN_OR_RETURN(const Place place, place_of(device, pointer));
  if (place.managed != 0) return {};  // Reached from everywhere.
  if (place.memory != abi::kDeviceMemory) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} at {:#x} is memory of the host; memory of GPU {} is due", what, address,
                 device.ordinal());
  }
  if (place.ordinal != device.ordinal()) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} at {:#x} is memory of GPU {}; memory of GPU {} is due", what, address,
                 place.ordinal, device.ordinal());
  }
  return {};
}

Status check_operands(const Device& device, const Plan& plan, std::span<const RankOperands> ranks) {
  if (ranks.size() != plan.world_size()) {
    return error(SK_ERR_INVALID_ARGUMENT, "operands of {} ranks; the plan has {}", ranks.size(),
                 plan.world_size());
  }
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == BufferKind::kWorkspace || buffer.bytes == 0) continue;
    if (!has_operand(plan.op, buffer.operand, buffer.owner)) continue;
    SK_RETURN_IF_ERROR(check_operand(device, plan.op, buffer, ranks[buffer.owner][buffer.operand]));
  }
  return {};
}

Status encode_view(const Device& device, const BoxView& view, TensorMap& map) {
  const uint64_t sizes[] = {view.columns, view.rows};
  const uint64_t pitches[] = {view.pitch};  // Of all dimensions but the first.
  const uint32_t box[] = {kBoxDepth, view.box_rows};
  const uint32_t steps[] = {1, 1};
  abi::TensorMap made{};
  SK_DEVICE_TRY(device, cuTensorMapEncodeTiled, &made,
                view.dtype == DType::kBF16 ? abi::kTensorBf16 : abi::kTensorF16, 2,
                pointer<void>(view.address), sizes, pitches, box, steps, abi::kInterleaveNone,
                abi::kSwizzle128, abi::kPromote128, abi::kFillZero);
  static_assert(sizeof map == sizeof made);
  std::memcpy(&map, &made, sizeof map);
  return {};
}

Result<bool> is_captured(const Device& device, abi::Stream stream) {
  if (stream == abi::per_thread_stream()) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the stream is CUDA's per-thread default stream, which is another one in each "
                 "thread, and one rank launches for all; pass a stream of its own");
  }
  const Driver& driver = device.driver();
  abi::CaptureStatus status = abi::kNotCapturing;
  const abi::Result result = driver.cuStreamIsCapturing(stream, &status);
  if (result == abi::kStreamCaptureImplicit) {
    return error(
        SK_ERR_INVALID_ARGUMENT,
        "the default stream takes no work while a stream that waits for it is captured: pass "
        "the stream that is captured");
  }
  SK_RETURN_IF_ERROR(device.check(result, "cuStreamIsCapturing"));
  if (status == abi::kCaptureInvalidated) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the capture of this stream has failed already; end it before the next call");
  }
  abi::Context context = nullptr;
  SK_DEVICE_TRY(device, cuStreamGetCtx, stream, &context);
  if (context != device.context()) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the stream is not of GPU {}'s primary context, which the communicator uses",
                 device.ordinal());
  }
  return status == abi::kCapturing;
}

}  // namespace sk::cuda
