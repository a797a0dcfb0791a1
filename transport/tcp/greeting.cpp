#include "transport/tcp/greeting.h"

#include <cstring>
#include <utility>

namespace sk::tcp {
namespace {

constexpr std::array<char, 8> kChoice = {'t', 'h', 'i', 's', ' ', 'o', 'n', 'e'};

}  // namespace

Result<std::unique_ptr<Greeting>> Greeting::dial(const MeetingKey& key, uint32_t own, uint32_t peer,
                                                 std::unique_ptr<stream::Pipe> pipe) {
  std::unique_ptr<Greeting> greeting(new Greeting(key, own, 0, true, std::move(pipe)));
  greeting->peer_ = peer;
  greeting->hello_.from = own;
  greeting->hello_.to = peer;
  SK_RETURN_IF_ERROR(fill_random(greeting->hello_.nonce));
  greeting->say(greeting->hello_);
  greeting->next_ = Next::kAnswer;
  return greeting;
}

Result<std::unique_ptr<Greeting>> Greeting::accept(const MeetingKey& key, uint32_t own,
                                                   uint32_t world_size,
                                                   std::unique_ptr<stream::Pipe> pipe) {
  std::unique_ptr<Greeting> greeting(new Greeting(key, own, world_size, false, std::move(pipe)));
  SK_RETURN_IF_ERROR(fill_random(greeting->answer_.nonce));
  return greeting;
}

template <typename T>
void Greeting::say(const T& words) {
  const auto bytes = std::as_bytes(std::span(&words, 1));
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

// Not a byte more than is due: what follows is the channel's.
template <typename T>
Result<bool> Greeting::hear(T& words) {
  while (in_.size() < sizeof(words)) {
    std::array<std::byte, sizeof(words)> room;
    SK_ASSIGN_OR_RETURN(const size_t came,
                        pipe_->receive(std::span(room).first(sizeof(words) - in_.size())));
    if (came == 0 && pipe_->ended()) return Status(SK_ERR_PEER_LOST, "its end is closed");
    if (came == 0) return false;
    in_.insert(in_.end(), room.begin(), room.begin() + ptrdiff_t(came));
  }
  memcpy(&words, in_.data(), sizeof(words));
  in_.clear();
  return true;
}

Result<Mac> Greeting::proof(const char* of) const {
  return hmac(key_.bytes,
              {std::as_bytes(std::span(of, strlen(of))), std::as_bytes(std::span(&hello_, 1)),
               std::as_bytes(std::span(answer_.nonce))});
}

Status Greeting::hear_hello() {
  if (hello_.magic != Hello{}.magic)
    return Status(SK_ERR_TRUST, "what connected speaks another protocol");
  if (hello_.to != own_ || hello_.from >= world_size_ || hello_.from == own_)
    return error(SK_ERR_TRUST, "rank {} was looked for at rank {}", hello_.to, own_);
  peer_ = hello_.from;
  SK_ASSIGN_OR_RETURN(answer_.proof, proof("accepts"));
  say(answer_);
  next_ = Next::kProof;
  return {};
}

Status Greeting::hear_answer() {
  SK_ASSIGN_OR_RETURN(const Mac due, proof("accepts"));
  if (!equal_mac(due, answer_.proof)) return Status(SK_ERR_TRUST, "another program listens there");
  SK_ASSIGN_OR_RETURN(const Mac mine, proof("dials"));
  say(mine);
  prove();
  return {};
}

void Greeting::prove() {
  state_ = State::kProven;
  next_ = own_ < peer_ ? Next::kNothing : Next::kChoice;
}

Result<bool> Greeting::step() {
  switch (next_) {
    case Next::kHello: {
      SK_ASSIGN_OR_RETURN(const bool whole, hear(hello_));
      if (whole) SK_RETURN_IF_ERROR(hear_hello());
      return whole;
    }
    case Next::kAnswer: {
      SK_ASSIGN_OR_RETURN(const bool whole, hear(answer_));
      if (whole) SK_RETURN_IF_ERROR(hear_answer());
      return whole;
    }
    case Next::kProof: {
      Mac came;
      SK_ASSIGN_OR_RETURN(const bool whole, hear(came));
      if (!whole) return false;
      SK_ASSIGN_OR_RETURN(const Mac due, proof("dials"));
      if (!equal_mac(due, came)) return Status(SK_ERR_TRUST, "what connected is no rank");
      prove();
      return true;
    }
    case Next::kChoice: {
      std::array<char, 8> choice;
      SK_ASSIGN_OR_RETURN(const bool whole, hear(choice));
      if (!whole) return false;
      if (choice != kChoice) return Status(SK_ERR_TRUST, "another word than was due");
      state_ = State::kChosen;
      next_ = Next::kNothing;
      return true;
    }
    case Next::kNothing:
      return false;
  }
  return false;
}

Status Greeting::send() {
  while (wants_room()) {
    const iovec part = {out_.data() + out_at_, out_.size() - out_at_};
    SK_ASSIGN_OR_RETURN(const size_t taken, pipe_->send(std::span(&part, 1)));
    out_at_ += taken;
    if (taken == 0) break;
  }
  return {};
}

Result<Greeting::State> Greeting::go_on() {
  bool went = true;
  while (went) {
    SK_RETURN_IF_ERROR(send());
    SK_ASSIGN_OR_RETURN(went, step());
  }
  SK_RETURN_IF_ERROR(send());
  return state_;
}

Status Greeting::choose() {
  say(kChoice);
  next_ = Next::kNothing;
  state_ = State::kChosen;
  return send();
}

}  // namespace sk::tcp
