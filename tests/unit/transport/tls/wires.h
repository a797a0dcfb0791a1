// Two ends of a wire in memory, with little room and whims, and streams under TLS on them.
#ifndef SK_TESTS_UNIT_TRANSPORT_TLS_WIRES_H_
#define SK_TESTS_UNIT_TRANSPORT_TLS_WIRES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/stream/pipe.h"
#include "transport/tls/tls.h"

namespace sk::tls::testing_support {

inline constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

// One way of a wire, and all that was ever put on it.
struct Lane {
  std::string bytes;
  size_t read = 0;
  size_t room = size_t{1} << 20;      // Bytes that may be under way.
  bool dead = false;                  // Nobody answers there.
  bool closed = false;                // By its writer.
  std::map<size_t, uint8_t> changes;  // Bits that are turned over, by place.
  size_t cut = kNowhere;              // Nothing from here on arrives, and the lane ends.

  size_t arriving() const { return std::min(bytes.size(), cut); }
  bool at_end() const { return read == arriving() && (closed || bytes.size() > cut); }
};

// Counts of what one end was asked.
struct Asked {
  int sends = 0, receives = 0;
  int sent_none = 0, received_none = 0;
};

class WireEnd final : public stream::Pipe {
 public:
  // `random`: how much it takes and gives is left to chance.
  WireEnd(std::shared_ptr<Lane> out, std::shared_ptr<Lane> in, std::mt19937* random, Asked* asked)
      : out_(std::move(out)), in_(std::move(in)), random_(random), asked_(asked) {}
  ~WireEnd() override { out_->closed = true; }

  Result<size_t> send(std::span<const iovec> parts) override;
  Result<size_t> receive(std::span<std::byte> room) override;
  bool ended() const override { return in_->at_end(); }
  bool delivered() const override { return out_->read == out_->bytes.size(); }
  Status look_after() override {
    return out_->dead ? Status(SK_ERR_TRANSPORT, "no word") : Status();
  }
  int fd() const override { return 4711; }

 private:
  size_t some(size_t most);

  const std::shared_ptr<Lane> out_, in_;
  std::mt19937* const random_;
  Asked* const asked_;
};

std::vector<std::byte> key_of(char letter);

struct Who {
  char key = 'k';
  std::string identity = "sk/job/0-1";
  uint64_t records_per_key = kRecordsPerKey;
};

// Both ends of one stream.
struct Stream {
  explicit Stream(std::mt19937* random = nullptr, const Who& dials = {}, const Who& accepts = {});

  std::shared_ptr<Lane> there = std::make_shared<Lane>();  // From the dialing end.
  std::shared_ptr<Lane> back = std::make_shared<Lane>();
  Asked dialer_asked, acceptor_asked;
  std::unique_ptr<stream::Pipe> dialer, acceptor;
};

Result<size_t> send_text(stream::Pipe& pipe, std::string_view text);
// All that comes until nothing comes any more; the error it ends in goes to `error`.
std::string receive_all(stream::Pipe& pipe, Status* error = nullptr);

// Both ends go on until neither lane moves. What each ended in; nothing is sent.
struct Ends {
  Status dialer, acceptor;
};
Ends shake(Stream& stream);

}  // namespace sk::tls::testing_support

#endif  // SK_TESTS_UNIT_TRANSPORT_TLS_WIRES_H_
