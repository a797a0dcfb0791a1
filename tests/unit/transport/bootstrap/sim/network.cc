#include "tests/unit/transport/bootstrap/sim/network.h"

#include <algorithm>
#include <cerrno>

namespace sk::sim {
namespace {

Network* of_running_fibers = nullptr;

constexpr int kLossesMost = 3;  // Of one packet in a row.
constexpr int64_t kAgainNs = 200 * kMs;

}  // namespace

Network::Network(Fibers& fibers, uint64_t seed, const Weather& weather, size_t hosts)
    : fibers_(fibers),
      random_(seed),
      weather_(weather),
      cut_(hosts, std::vector<bool>(hosts)),
      cut_since_ns_(hosts, std::vector<int64_t>(hosts)) {
  of_running_fibers = this;
}

Network::~Network() { of_running_fibers = nullptr; }

Network* Network::current() { return Fibers::running() != nullptr ? of_running_fibers : nullptr; }

int Network::start(int host, int64_t when_ns, std::function<void()> body) {
  const int number = int(processes_.size());
  Process& process = processes_.emplace_back();
  process.host = host;
  process.fiber = fibers_.spawn(when_ns, std::move(body));
  process_of_fiber_[process.fiber] = number;
  return number;
}

int Network::self() const { return process_of_fiber_.at(fibers_.self()); }

int64_t Network::clock_ns() { return now_ns() + (process(self()).alive ? 0 : past_ns_ += kS); }

bool Network::anybody_spins() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& each) { return each.spins; });
}

// As the kernel ends a process: its sockets are closed, in the order of their numbers.
void Network::kill(int number) {
  Process& it = process(number);
  if (!it.alive || fibers_.ended(it.fiber)) return;
  it.alive = false;
  if (it.died) it.died();
  while (!it.open.empty()) let_go(*it.open.begin());
  fibers_.kill(it.fiber);
}

void Network::stop(int number, int64_t until_ns) {
  fibers_.stop_until(process(number).fiber, until_ns);
}

void Network::cut(int from, int to) {
  cut_[size_t(from)][size_t(to)] = true;
  cut_since_ns_[size_t(from)][size_t(to)] = now_ns();
}

// What was sent meanwhile is sent again, ever more rarely: the longer it was cut, the later.
void Network::heal(int from, int to) {
  if (!is_cut(from, to)) return;
  cut_[size_t(from)][size_t(to)] = false;
  const int64_t lasted_ns = now_ns() - cut_since_ns_[size_t(from)][size_t(to)];
  const int64_t due_ns = now_ns() + kAgainNs + int64_t(draw(uint64_t(lasted_ns) + 1));
  for (size_t id = 0; id < sockets_.size(); ++id) {
    Socket& it = sockets_[id];
    if (it.out.empty() || it.host != from || at(it.peer).host != to) continue;
    for (auto& [when_ns, what] : it.out) when_ns = std::max(when_ns, due_ns);
    fibers_.at(due_ns, [this, id] { deliver(int(id)); });
  }
}

int64_t Network::delay() {
  const int64_t most_ns = weather_.delay_most_ns - weather_.delay_least_ns;
  return weather_.delay_least_ns + int64_t(draw(uint64_t(most_ns) + 1));
}

int64_t Network::arrival(bool dials) {
  int64_t when_ns = now_ns() + delay();
  int64_t again_ns = dials ? kS : kAgainNs;
  for (int i = 0; i < (dials ? 1 : kLossesMost) && draw(1000) < weather_.lost_of_1000; ++i) {
    when_ns += again_ns;
    again_ns *= 2;
  }
  return when_ns;
}

void Network::carry(int id, std::function<void()> what) {
  Socket& from = at(id);
  const int64_t last_ns = from.out.empty() ? 0 : from.out.back().first;
  const int64_t when_ns = std::max(last_ns, arrival(false));
  from.out.emplace_back(when_ns, std::move(what));
  fibers_.at(when_ns, [this, id] { deliver(id); });
}

// Where the path is cut it stays until that heals.
void Network::deliver(int id) {
  Socket& from = at(id);
  while (!from.out.empty() && from.out.front().first <= now_ns() &&
         !is_cut(from.host, at(from.peer).host)) {
    const std::function<void()> what = std::move(from.out.front().second);
    from.out.pop_front();
    what();
  }
}

int Network::add(int host, int process) {
  Socket& made = sockets_.emplace_back();
  made.host = host;
  made.process = process;
  return int(sockets_.size()) - 1;
}

Socket* Network::find(int fd) {
  if (owns(fd) && at(fd - kFirst).open && at(fd - kFirst).process == self())
    return &at(fd - kFirst);
  errno = EBADF;
  return nullptr;
}

void Network::wake(int id) {
  const Socket& it = at(id);
  if (it.process >= 0 && it.open) fibers_.wake(process(it.process).fiber);
}

void Network::ring(int number) {
  if (!process(number).alive) return;
  for (const int id : process(number).open) {
    if (at(id).state != Socket::State::kEvent) continue;
    ++at(id).count;
    wake(id);
  }
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
  if (may_die && own.alive && own.dies_at_send != INT64_MAX && own.dies_at_send-- == 0) {
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

short Network::ready(int fd) {
  if (find(fd) == nullptr) return POLLNVAL;
  const Socket& it = at(fd - kFirst);
  switch (it.state) {
    case Socket::State::kEvent:
      return it.count > 0 ? POLLIN : 0;
    case Socket::State::kListens:
      return it.queue.empty() ? 0 : POLLIN;
    case Socket::State::kConnects:
      return 0;
    case Socket::State::kNew:
      return POLLOUT | POLLHUP;
    case Socket::State::kRefused:
      return POLLIN | POLLOUT | POLLERR | POLLHUP;
    case Socket::State::kStands:
      break;
  }
  short out = 0;
  if (!it.in.empty() || it.in_ended || it.reset) out |= POLLIN;
  if (it.under_way < weather_.room_bytes || it.reset) out |= POLLOUT;
  if (it.error != 0) out |= POLLERR;
  if (it.reset || (it.in_ended && it.out_ended)) out |= POLLHUP;
  return out;
}

int Network::poll(pollfd* entries, size_t count, int timeout_ms) {
  const int64_t until_ns = timeout_ms < 0 ? INT64_MAX : now_ns() + timeout_ms * kMs;
  while (true) {
    int found = 0;
    for (size_t i = 0; i < count; ++i) {
      entries[i].revents = 0;
      if (entries[i].fd < 0) continue;
      entries[i].revents =
          short(ready(entries[i].fd) & (entries[i].events | POLLERR | POLLHUP | POLLNVAL));
      found += entries[i].revents != 0 ? 1 : 0;
    }
    Process& own = process(self());
    if (found > 0 && ++own.hasty > kHastyMost) {
      own.spins = true;
      kill(self());
      throw Killed();
    }
    if (found > 0 || now_ns() >= until_ns) return found;
    own.hasty = 0;
    fibers_.wait(until_ns);
  }
}

}  // namespace sk::sim
