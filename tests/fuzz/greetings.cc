// Fuzzes the first words on a connection: nobody is taken for a rank who does not hold the
// meeting's key, and nothing that was changed on its way is believed.
//
// An input's first byte says what it is: words for one who accepts, for one who dials, or changes
// (lane, place, bits) of what two who hold the key say to each other.
#include <map>
#include <memory>
#include <string>

#include "tests/fuzz/driver.h"
#include "tests/support/tape.h"
#include "transport/tcp/greeting.h"

namespace sk::fuzz {
namespace {

using namespace sk::tcp;
using State = Greeting::State;

const MeetingKey g_key = {.bytes = {std::byte{1}, std::byte{2}, std::byte{3}}};
constexpr uint32_t kDialer = 1, kAcceptor = 2, kWorldSize = 4;

// One way between two ends.
struct Lane {
  std::string bytes;
  size_t read = 0;
  std::map<size_t, uint8_t> changes;  // Bits that are turned over, by place.
  bool changed = false;               // One that arrived was.
};

class End final : public stream::Pipe {
 public:
  End(std::shared_ptr<Lane> out, std::shared_ptr<Lane> in)
      : out_(std::move(out)), in_(std::move(in)) {}
  Result<size_t> send(std::span<const iovec> parts) override {
    size_t taken = 0;
    for (const iovec& part : parts) {
      out_->bytes.append(static_cast<const char*>(part.iov_base), part.iov_len);
      taken += part.iov_len;
    }
    return taken;
  }
  Result<size_t> receive(std::span<std::byte> room) override {
    const size_t count = std::min(room.size(), in_->bytes.size() - in_->read);
    for (size_t i = 0; i < count; ++i, ++in_->read) {
      auto byte = static_cast<uint8_t>(in_->bytes[in_->read]);
      if (const auto change = in_->changes.find(in_->read); change != in_->changes.end()) {
        byte ^= change->second;
        in_->changed = in_->changed || change->second != 0;
      }
      room[i] = std::byte{byte};
    }
    return count;
  }
  bool ended() const override { return false; }
  int fd() const override { return -1; }

 private:
  const std::shared_ptr<Lane> out_, in_;
};

// Any words at all, of somebody without the key.
void hear(std::span<const std::byte> words, bool dials) {
  auto tape = std::make_unique<testing_support::Tape>(words, 1 + words.size() % 41);
  auto greeting = dials ? Greeting::dial(g_key, kDialer, kAcceptor, std::move(tape))
                        : Greeting::accept(g_key, kAcceptor, kWorldSize, std::move(tape));
  require(greeting.ok(), "a greeting can be made");
  auto state = (*greeting)->go_on();
  require(!state.ok() || *state == State::kUnderWay, "who does not hold the key proves nothing");
}

void shake(std::span<const std::byte> changes) {
  const auto there = std::make_shared<Lane>(), back = std::make_shared<Lane>();
  for (; changes.size() >= 3; changes = changes.subspan(3))
    (changes[0] == std::byte{0} ? there : back)->changes[size_t(changes[1])] ^= uint8_t(changes[2]);
  auto dialer = Greeting::dial(g_key, kDialer, kAcceptor, std::make_unique<End>(there, back));
  auto acceptor =
      Greeting::accept(g_key, kAcceptor, kWorldSize, std::make_unique<End>(back, there));
  require(dialer.ok() && acceptor.ok(), "greetings can be made");
  Result<State> dialed = State::kUnderWay, accepted = State::kUnderWay;
  for (int turn = 0; turn < 4; ++turn) {
    if (dialed.ok() && *dialed != State::kChosen) dialed = (*dialer)->go_on();
    if (dialed.ok() && *dialed == State::kProven) {
      require(!there->changed && !back->changed, "what was changed proves nothing to who dials");
      require((*dialer)->choose().ok(), "it may be chosen then");
      dialed = State::kChosen;
    }
    if (accepted.ok() && *accepted != State::kChosen) accepted = (*acceptor)->go_on();
    const bool believes = accepted.ok() && *accepted != State::kUnderWay;
    require(!believes || (!there->changed && !back->changed && (*acceptor)->peer() == kDialer),
            "nor to who accepts");
  }
  const bool changed = there->changed || back->changed;
  require(changed || (accepted.ok() && *accepted == State::kChosen),
          "what was not changed comes about");
}

std::string said_by_a_dialer() {
  const auto out = std::make_shared<Lane>();
  auto dialer = Greeting::dial(g_key, kDialer, kAcceptor,
                               std::make_unique<End>(out, std::make_shared<Lane>()));
  require(dialer.ok() && (*dialer)->go_on().ok(), "a seed can be made");
  return out->bytes;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string hello = said_by_a_dialer();
  return {std::string("0") + hello, std::string("0") + hello + std::string(40, 'p'),
          std::string("1") + std::string(64, 'x'), std::string("2"),
          std::string("2\0\5\1\1\7\2", 7)};
}

std::vector<std::string> words() {
  return {said_by_a_dialer(), std::string("\0\0\1", 3), "\1\x20\x80"};
}

}  // namespace sk::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sk::fuzz;
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] % 3 == 0)
    hear(rest, false);
  else if (data[0] % 3 == 1)
    hear(rest, true);
  else
    shake(rest);
  return 0;
}
