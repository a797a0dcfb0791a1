// The calls of a process, as Linux answers them.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "tests/unit/transport/bootstrap/sim/network.h"

namespace sk::sim {

int Network::add(int host, int process) {
  Socket& made = sockets_.emplace_back();
  made.host = host;
  made.process = process;
  return int(sockets_.size()) - 1;
}

int Network::socket(int family, int) {
  Process& own = process(self());
  if (!own.alive || own.open.size() >= own.open_most) {
    errno = own.alive ? EMFILE : EBADF;
    return -1;
  }
  const int id = add(own.host, self());
  at(id).family = family;
  own.open.insert(id);
  return kFirst + id;
}

int Network::event() {
  const int fd = socket(0, 0);
  if (fd >= 0) at(fd - kFirst).state = Socket::State::kEvent;
  return fd;
}

int Network::bind(int fd, const sockaddr_in& address) {
  Socket* it = find(fd);
  if (it == nullptr) return -1;
  Place place{ntohl(address.sin_addr.s_addr), ntohs(address.sin_port)};
  if (place.address != 0 && place.address != address_of(it->host)) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  if (place.port == 0) place.port = next_port_++;
  if (listener_at(it->host, place) >= 0) {
    errno = EADDRINUSE;
    return -1;
  }
  it->bound = true;
  it->local = place;
  return 0;
}

// Nobody dials it here.
int Network::bind_any6(int fd, uint16_t port) {
  Socket* it = find(fd);
  if (it == nullptr) return -1;
  it->local = {0, port};
  return 0;
}

int Network::owner_of(int host, const std::string& name) {
  const auto it = owners_.find({host, name});
  return it == owners_.end() ? -1 : it->second;
}

int Network::bind_name(int fd, const std::string& name) {
  Socket* it = find(fd);
  if (it == nullptr) return -1;
  if (owner_of(it->host, name) >= 0) {
    errno = EADDRINUSE;
    return -1;
  }
  it->name = name;
  owners_[{it->host, name}] = fd - kFirst;
  return 0;
}

// At once, or not.
int Network::connect_name(int fd, const std::string& name) {
  Socket* it = find(fd);
  if (it == nullptr) return -1;
  const int listener = owner_of(it->host, name);
  if (listener < 0 || at(listener).state != Socket::State::kListens) {
    errno = ECONNREFUSED;
    return -1;
  }
  if (at(listener).queue.size() >= at(listener).queue_most) {
    errno = EAGAIN;
    return -1;
  }
  const int far = add(it->host, -1);
  it->peer = far;
  at(far).peer = fd - kFirst;
  it->state = at(far).state = Socket::State::kStands;
  at(listener).queue.push_back(far);
  wake(listener);
  return 0;
}

int Network::listener_at(int host, Place place) {
  for (const int id : listeners_) {
    const Socket& it = at(id);
    if (it.host == host && it.bound && it.local.port == place.port &&
        (it.local.address == 0 || place.address == 0 || it.local.address == place.address))
      return id;
  }
  return -1;
}

int Network::listen(int fd, int backlog) {
  Socket* it = find(fd);
  if (it == nullptr) return -1;
  if (it->bound && listener_at(it->host, it->local) >= 0) {
    errno = EADDRINUSE;
    return -1;
  }
  it->state = Socket::State::kListens;
  listeners_.push_back(fd - kFirst);
  it->queue_most = size_t(std::min(backlog, weather_.backlog_most)) + 1;
  return 0;
}

int Network::accept(int fd) {
  Socket* it = find(fd);
  if (it == nullptr) return -1;
  Process& own = process(self());
  // The number is taken before it is looked whether somebody has come.
  if (own.open.size() >= own.open_most || it->queue.empty()) {
    errno = own.open.size() >= own.open_most ? EMFILE : EAGAIN;
    return -1;
  }
  const int id = it->queue.front();
  it->queue.pop_front();
  at(id).process = self();
  own.open.insert(id);
  return kFirst + id;
}

int Network::connect(int fd, const sockaddr_in& address) {
  Socket* it = find(fd);
  if (it == nullptr) return -1;
  it->state = Socket::State::kConnects;
  it->dialed = true;
  it->remote = {ntohl(address.sin_addr.s_addr), ntohs(address.sin_port)};
  it->local = {address_of(it->host), next_port_++};
  if (it->remote.address - address_of(0) < cut_.size()) dial(fd - kFirst, 0);
  errno = EINPROGRESS;
  return -1;
}

// A packet that says that somebody wants to connect, sent again after a second, then two, while
// nothing comes back. Nobody answers for an address that no host has.
void Network::dial(int id, int times) {
  if (!at(id).open || at(id).state != Socket::State::kConnects) return;
  const int to = int(at(id).remote.address - address_of(0));
  fibers_.at(arrival(true), [this, id, to] {
    if (!is_cut(at(id).host, to)) knock(id);
  });
  fibers_.at(now_ns() + (kS << times), [this, id, times] { dial(id, times + 1); });
}

void Network::knock(int id) {
  Socket& from = at(id);
  const int host = int(from.remote.address - address_of(0));
  if (from.peer >= 0 || from.state != Socket::State::kConnects) return;
  const int listener = listener_at(host, from.remote);
  if (listener >= 0 && at(listener).queue.size() >= at(listener).queue_most) return;
  const int64_t back_ns = arrival(false);
  if (listener < 0) {
    fibers_.at(back_ns, [this, id, host] {
      Socket& it = at(id);
      if (is_cut(host, it.host) || it.state != Socket::State::kConnects) return;
      it.state = Socket::State::kRefused;
      it.error = ECONNREFUSED;
      wake(id);
    });
    return;
  }
  const int far = add(host, -1);
  from.peer = far;
  Socket& other = at(far);
  other.state = Socket::State::kStands;
  other.peer = id;
  other.local = from.remote;
  other.remote = from.local;
  carry(far, [this, id, far, listener] {
    Socket& it = at(id);
    if (!it.open) {  // It has given up meanwhile.
      at(far).open = false;
      return;
    }
    it.state = Socket::State::kStands;
    wake(id);
    carry(id, [this, listener, far] { enqueue(listener, far); });
  });
}

// A full queue: tried again. One that is not there any more: a reset.
void Network::enqueue(int listener, int id) {
  if (!at(listener).open) {
    send_reset(id);
    at(id).open = false;
  } else if (at(listener).queue.size() >= at(listener).queue_most) {
    fibers_.at(now_ns() + kS, [this, listener, id] { enqueue(listener, id); });
  } else {
    at(listener).queue.push_back(id);
    wake(listener);
  }
}

ssize_t Network::send(int fd, const void* bytes, size_t count, bool may_die) {
  Process& own = process(self());
  if (may_die && own.alive && weather_.dawdle_of_1000 > 0 && draw(1000) < weather_.dawdle_of_1000)
    fibers_.pause(1 + int64_t(draw(uint64_t(weather_.dawdle_most_ns))));
  const bool counts = may_die && own.alive && own.dies_at_send != INT64_MAX;
  const bool dies = counts && own.dies_at_send == 0;
  if (counts) --own.dies_at_send;
  if (dies) {
    kill(self());
    throw Killed();
  }
  Socket* it = find(fd);
  if (it == nullptr) return -1;
  if (it->state != Socket::State::kStands) {
    errno = it->state == Socket::State::kConnects ? EAGAIN : EPIPE;
    return -1;
  }
  if (it->reset || it->out_ended) {
    errno = it->error != 0 ? std::exchange(it->error, 0) : EPIPE;
    return -1;
  }
  const size_t room = weather_.room_bytes - std::min(weather_.room_bytes, it->under_way);
  if (room == 0 && count > 0) {
    errno = EAGAIN;
    return -1;
  }
  const size_t taken = std::min(room, count);
  it->under_way += taken;
  const char* from = static_cast<const char*>(bytes);
  if (std::exchange(it->dialed, false) && overheard.size() < kOverheardMost)
    overheard.emplace_back(from, taken);
  for (size_t sent = 0; sent < taken;) {
    const size_t piece = std::min(taken - sent, 1 + size_t(draw(weather_.piece_bytes_most)));
    bring(fd - kFirst, std::string(from + sent, piece));
    sent += piece;
  }
  return ssize_t(taken);
}

void Network::bring(int id, std::string bytes) {
  const int to = at(id).peer;
  carry(id, [this, id, to, bytes = std::move(bytes)] {
    Socket& it = at(to);
    if (!it.open) return send_reset(to);
    if (it.reset || at(id).reset) return;
    it.in += bytes;
    wake(to);
  });
}

ssize_t Network::receive(int fd, void* room, size_t count) {
  Socket* it = find(fd);
  if (it == nullptr) return -1;
  if (it->in.empty()) {
    if (it->error != 0) {
      errno = std::exchange(it->error, 0);
      return -1;
    }
    if (it->in_ended || it->reset) return 0;
    errno = EAGAIN;
    return -1;
  }
  const size_t taken = std::min(count, it->in.size());
  std::copy_n(it->in.begin(), taken, static_cast<char*>(room));
  it->in.erase(0, taken);
  // The sender hears that there is room again.
  if (const int peer = it->peer; !at(peer).reset) {
    carry(fd - kFirst, [this, peer, taken] {
      at(peer).under_way -= std::min(taken, at(peer).under_way);
      wake(peer);
    });
  }
  return ssize_t(taken);
}

void Network::end_output(int id) {
  Socket& it = at(id);
  if (it.out_ended || it.reset) return;
  it.out_ended = true;
  carry(id, [this, to = it.peer] {
    if (!at(to).open || at(to).reset) return;
    at(to).in_ended = true;
    wake(to);
  });
}

// Half of them overtake what is under way.
void Network::send_reset(int id) {
  const int to = at(id).peer;
  if (draw(2) == 0) {
    carry(id, [this, to] { get_reset(to); });
    return;
  }
  fibers_.at(now_ns() + delay(), [this, to, a = at(id).host, b = at(to).host] {
    if (!is_cut(a, b)) get_reset(to);  // Nobody sends it again.
  });
}

void Network::get_reset(int id) {
  Socket& it = at(id);
  if (it.reset) return;
  it.reset = true;
  it.error = ECONNRESET;
  wake(id);
}

int Network::shut(int fd) {
  Socket* it = find(fd);
  if (it == nullptr) return -1;
  if (it->state != Socket::State::kStands) {
    errno = ENOTCONN;
    return -1;
  }
  end_output(fd - kFirst);
  return 0;
}

int Network::close(int fd) {
  if (find(fd) == nullptr) return -1;
  let_go(fd - kFirst);
  return 0;
}

void Network::let_go(int id) {
  Socket& it = at(id);
  process(it.process).open.erase(id);
  it.open = false;
  if (!it.name.empty()) owners_.erase({it.host, it.name});
  if (it.state == Socket::State::kListens) {
    std::erase(listeners_, id);
    for (const int each : std::exchange(it.queue, {})) {
      send_reset(each);
      at(each).open = false;
    }
  } else if (it.state == Socket::State::kStands && it.in.empty()) {
    end_output(id);
  } else if (it.state == Socket::State::kStands && !it.reset) {
    send_reset(id);
  }
}

}  // namespace sk::sim
