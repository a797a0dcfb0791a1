// The bytes between rank 0 (the hub) and the other ranks (members) while they find each other.
//
// A member says hello and shows that it holds the job's secret, the hub answers with a proof of the
// same, the member proves that its hello is no repeated one; from then on both send frames, each
// with a MAC under keys of this connection alone, so nothing can be added, changed, repeated or
// reordered. Without a secret the MACs use an empty key and are mere checksums; that is allowed
// where the kernel says whose process the other is.
#ifndef SK_TRANSPORT_BOOTSTRAP_WIRE_H_
#define SK_TRANSPORT_BOOTSTRAP_WIRE_H_

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include "transport/bootstrap/env.h"
#include "transport/bootstrap/secret.h"

namespace sk {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

inline constexpr std::array<char, 8> kMagic = {'s', 'k', 'b', 'o', 'o', 't', '0', '3'};
inline constexpr uint64_t kPartBytesMax = 16u << 20;
inline constexpr uint64_t kWholeBytesMax = 1u << 30;

struct MemberHello {
  std::array<char, 8> magic = kMagic;
  uint32_t rank = 0;
  uint32_t world_size = 0;
  uint32_t has_secret = 0;
  uint32_t reserved = 0;
  std::array<std::byte, 16> job{};
  std::array<std::byte, 16> name{};
  std::array<std::byte, 16> host{};
  std::array<std::byte, 32> nonce{};
  Mac proof{};  // hello_proof() of what is above. The hub gives its time to none without it, and
                // none its trust for it: it may be a repeated one.
};
static_assert(sizeof(MemberHello) == 136 && std::is_trivially_copyable_v<MemberHello>);

enum class Verdict : uint32_t {
  kJoined = 0,
  kLater = 1,      // Another communicator's ranks are meeting here now.
  kOtherJob = 2,   // Another job's rank 0 listens here.
  kWorldSize = 3,  // `number` is the hub's world size.
  kTaken = 4,      // A living member has this rank, or the hub.
  kSecret = 5,     // Only one side has a secret, or the proof was wrong.
  kLeftOut = 6,    // The others have given this rank up, and are not waiting for it.
};

struct HubHello {
  std::array<char, 8> magic = kMagic;
  Verdict verdict = Verdict::kJoined;
  uint32_t number = 0;
  std::array<std::byte, 32> nonce{};
  Mac proof{};  // SessionKeys::hub_proof, with kJoined and kWorldSize.
};
static_assert(sizeof(HubHello) == 80 && std::is_trivially_copyable_v<HubHello>);

// All zero: the member found the hub's proof wrong and leaves.
using MemberProof = Mac;

struct HubVerdict {
  std::array<char, 8> magic = kMagic;
  Verdict verdict = Verdict::kJoined;
  uint32_t rank = 0;  // The hub's.
};
static_assert(sizeof(HubVerdict) == 16);

Result<Mac> hello_proof(const std::string& secret, const MemberHello& hello);

// What both sides derive from the secret and both hellos.
struct SessionKeys {
  Mac hub_proof;
  Mac member_proof;
  Mac hub_frames;
  Mac member_frames;
};
Result<SessionKeys> derive_keys(const std::string& secret, const MemberHello& member,
                                const HubHello& hub);

enum class FrameKind : uint32_t {
  kPart = 1,      // Member: its blob.
  kWhole = 2,     // Hub: all blobs in rank order.
  kError = 3,     // Hub: `code` and the sentence.
  kProgress = 4,  // Hub: which ranks are still missing, for a member's own sentence.
  kWho = 5,       // Member: its time is up, which are missing now? WhoAsks.
};

// Of a question: how often its member has had the whole. It may cross with the next one, and then
// its time was not up: what it asked is over.
struct WhoAsks {
  uint32_t wholes = 0;
};

struct Frame {
  FrameKind kind;
  int32_t code;
  std::string payload;
};

// A non-blocking socket with buffers on both sides. Owns the descriptor.
class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  int fd() const { return fd_; }
  void send_at_once();  // A gather is one small message each way: not to be held back for more.
  bool own_address(Address& out) const;  // False of what is no network.
  short wanted_events() const;
  bool has_output() const { return out_at_ < out_.size(); }
  size_t input_bytes() const { return in_.size(); }

  // Reads and writes what can be without waiting. An error: the other side is gone. Nothing more
  // is read once there are more than `input_bytes_max` that nobody took.
  Status pump(uint64_t input_bytes_max = UINT64_MAX);
  Status pump_output();

  template <typename T>
  void put(const T& value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  template <typename T>
  bool take(T& value) {
    if (in_.size() < sizeof(T)) return false;
    std::memcpy(&value, in_.data(), sizeof(T));
    in_.erase(0, sizeof(T));
    return true;
  }

  void start_frames(const Mac& send_key, const Mac& receive_key);
  Status put_frame(FrameKind kind, int32_t code, std::span<const std::byte> payload);
  // The next whole frame, if it is there. A frame that is too large or has a wrong MAC is an error.
  Result<std::optional<Frame>> take_frame(uint64_t payload_bytes_max);

 private:
  int fd_;
  std::string in_;
  std::string out_;
  size_t out_at_ = 0;
  bool at_end_ = false;
  Mac send_key_{};
  Mac receive_key_{};
  uint64_t send_sequence_ = 0;
  uint64_t receive_sequence_ = 0;
};

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_WIRE_H_
