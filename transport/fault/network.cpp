#include "transport/fault/network.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sk::fault {
namespace {

// Nothing reads the source any more.
void free_source(const Message& message) {
  if (message.sources == nullptr) return;
  message.sources->open.erase(message.put);
  message.sources->settle();
}

// The sessions beneath take every put at once.
Status taken(const Result<Sent>& put) {
  if (!put.ok()) return put.status().clone();
  return put.value() == Sent::kNow ? Status()
                                   : error(SK_ERR_INTERNAL, "the session beneath is driven itself");
}

}  // namespace

Status Network::send(Message message) {
  const std::lock_guard lock(mutex_);
  if (dead(message)) {
    free_source(message);
    return {};
  }
  message.number = ++sent_;
  bool done = false;
  if (message.from == config_.kill_rank && sent_by_victim_++ == config_.kill_message) {
    // It dies in the middle of this message, if it has pieces, or just before it.
    while (message.pieces.size() > 1 && chance(50)) SK_RETURN_IF_ERROR(deliver(message, done));
    killed_.insert(config_.kill_rank);
    free_source(message);
    return {};
  }
  if (chance(config_.hold_percent)) {
    held_.push_back(std::move(message));
  } else {
    while (!done) SK_RETURN_IF_ERROR(deliver(message, done));
  }
  return deliver_some(/*percent=*/10, /*at_least_one=*/held_.size() > config_.held_max);
}

void Network::cut(Message& message, uint64_t offset, const void* src, size_t bytes, bool whole) {
  const std::lock_guard lock(mutex_);
  const auto* from = static_cast<const std::byte*>(src);
  const size_t count = whole ? 1 : std::min<size_t>(bytes, 1 + random_() % 4);
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t end = i + 1 == count ? bytes : at + random_() % (bytes - at - (count - 1 - i)) + 1;
    Message::Piece piece{offset + at, end - at, from + at, {}};
    if (message.sources == nullptr) piece.copy.assign(from + at, from + end);
    message.pieces.push_back(std::move(piece));
    at = end;
  }
  std::shuffle(message.pieces.begin(), message.pieces.end(), random_);
  if (message.sources == nullptr) return;
  message.put = message.sources->puts.fetch_add(1) + 1;
  message.sources->open.insert(message.put);
}

// One step of a message: a piece of a put, or all of it.
Status Network::deliver(Message& message, bool& done) {
  done = message.pieces.size() <= 1;
  if (done) note_arrival(message);
  switch (message.kind) {
    case Message::Kind::kPut: {
      if (message.pieces.empty())
        return taken(message.session->put({0}, nullptr, 0, message.signal, message.add));
      const Message::Piece piece = std::move(message.pieces.front());
      message.pieces.erase(message.pieces.begin());
      const std::byte* from = message.sources != nullptr ? piece.source : piece.copy.data();
      Status arrived = taken(message.session->put({piece.offset}, from, piece.bytes, message.signal,
                                                  done ? message.add : 0));
      if (done) free_source(message);
      return arrived;
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
  std::erase_if(held_, [&](const Message& message) {
    if (dead(message)) free_source(message);
    return dead(message);
  });
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

void Network::progress() {
  const std::lock_guard lock(mutex_);
  // What ends by it shows again in check().
  if (config_.drives_in_vain == 0) (void)deliver_some(/*percent=*/10, /*at_least_one=*/false);
}

void Network::forget_sources(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  std::erase_if(held_, [&](const Message& message) {
    const bool reads = message.from == rank && message.sources != nullptr;
    if (reads) free_source(message);
    return reads;
  });
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
