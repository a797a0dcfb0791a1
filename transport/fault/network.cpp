#include "transport/fault/network.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sk::fault {

Status Network::send(Message message) {
  const std::lock_guard lock(mutex_);
  if (dead(message)) return {};
  message.number = ++sent_;
  bool done = false;
  if (message.from == config_.kill_rank && sent_by_victim_++ == config_.kill_message) {
    // It dies in the middle of this message, if it has pieces, or just before it.
    while (message.pieces.size() > 1 && chance(50)) SK_RETURN_IF_ERROR(deliver(message, done));
    killed_.insert(config_.kill_rank);
    return {};
  }
  if (chance(config_.hold_percent)) {
    held_.push_back(std::move(message));
  } else {
    while (!done) SK_RETURN_IF_ERROR(deliver(message, done));
  }
  return deliver_some(/*percent=*/10, /*at_least_one=*/held_.size() > config_.held_max);
}

std::vector<Message::Piece> Network::cut(uint64_t offset, const void* src, size_t bytes,
                                         bool whole) {
  const std::lock_guard lock(mutex_);
  std::vector<Message::Piece> pieces;
  const auto* from = static_cast<const std::byte*>(src);
  const size_t count = whole ? 1 : std::min<size_t>(bytes, 1 + random_() % 4);
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t end = i + 1 == count ? bytes : at + random_() % (bytes - at - (count - 1 - i)) + 1;
    pieces.push_back({offset + at, std::vector<std::byte>(from + at, from + end)});
    at = end;
  }
  std::shuffle(pieces.begin(), pieces.end(), random_);
  return pieces;
}

// One step of a message: a piece of a put, or all of it.
Status Network::deliver(Message& message, bool& done) {
  done = message.pieces.size() <= 1;
  if (done) note_arrival(message);
  switch (message.kind) {
    case Message::Kind::kPut: {
      if (message.pieces.empty())
        return message.session->put({0}, nullptr, 0, message.signal, message.add);
      const Message::Piece piece = std::move(message.pieces.front());
      message.pieces.erase(message.pieces.begin());
      return message.session->put({piece.offset}, piece.bytes.data(), piece.bytes.size(),
                                  message.signal, done ? message.add : 0);
    }
    case Message::Kind::kPost:
      return message.session->post(message.signal, message.add);
    case Message::Kind::kEnter: {
      EntrySlot entry = {};
      entry.fingerprint = message.fingerprint;
      entry.other_lane = message.other_lane;
      memcpy(entry.words, message.words, sizeof(entry.words));
      return message.session->enter(entry, message.lane, message.seq);
    }
  }
  return error(SK_ERR_INTERNAL, "a held message of an unknown kind");
}

void Network::note_arrival(const Message& message) {
  uint64_t& newest = newest_[{message.from, message.to}];
  if (message.number < newest) ++overtaken_;
  newest = std::max(newest, message.number);
}

Status Network::deliver_some(uint32_t percent, bool at_least_one) {
  std::erase_if(held_, [&](const Message& message) { return dead(message); });
  std::shuffle(held_.begin(), held_.end(), random_);
  std::vector<Message> rest;
  Status status;
  for (Message& message : held_) {
    bool done = false;
    const bool now = std::exchange(at_least_one, false) || chance(percent) ||
                     message.passed_over >= config_.passed_over_max;
    if (now && status.ok()) {
      status = deliver(message, done);
    } else {
      ++message.passed_over;
    }
    if (!done) rest.push_back(std::move(message));
  }
  held_ = std::move(rest);
  return status;
}

Status Network::drive() {
  const std::lock_guard lock(mutex_);
  if (drives_in_vain_++ < config_.drives_in_vain) return {};
  drives_in_vain_ = 0;
  return deliver_some(/*percent=*/50, /*at_least_one=*/true);
}

void Network::flush(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  for (Message& message : held_) {
    bool done = message.from != rank || dead(message);
    // What cannot be delivered any more is missed by the receiver, whose wait says so.
    while (!done) done = !deliver(message, done).ok() || done;
  }
  std::erase_if(held_, [&](const Message& message) { return message.from == rank; });
}

void Network::kill(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  killed_.insert(rank);
}

uint64_t Network::overtaken() const {
  const std::lock_guard lock(mutex_);
  return overtaken_;
}

uint32_t Network::killed() const {
  const std::lock_guard lock(mutex_);
  return killed_.empty() ? FaultConfig::kNobody : *killed_.begin();
}

}  // namespace sk::fault
