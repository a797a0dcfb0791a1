// Processes, what they wait for, and the paths between their hosts.
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
