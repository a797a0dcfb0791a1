// A session of 64 ranks, simulated: the real Controller and Agent, everything around them played.
//
// Links delay what they carry, each on its own, so messages of different ranks overtake each other;
// they break. Ranks die, freeze, ignore interrupts and come back late; the session presses,
// revives, is lost and attaches again. Clock and randomness come from outside, so a seed replays a
// run:
// --gtest_filter and SK_SIM_SEED=N. What must hold, whatever happens:
//   - every cell ends exactly once, and none is given to fewer ranks than it names;
//   - what ranks printed in a cell is on the reader's page exactly once when the cell has ended,
//     also when front ends were lost in between;
//   - no deadline of the controller lies in the past once it was told the time, and a cell that
//     nobody can end ends within its bounds (no hang);
//   - at the end everything is gone.
// Planted, and seen to be found here: start_cell() leaving out the last rank; Journal::add() not
// keeping what nobody heard; watch_interrupt() that never gives up; acknowledge() that forgets
// nothing.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "lib/control/controller.h"

namespace sk::control {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kRanks = 64;
constexpr int kCells = 12;

class Sim : public ControllerPorts {
 public:
  explicit Sim(uint64_t seed)
      : random_(seed), controller_(*this, ControllerTimers{}, Job{}), ranks_(kRanks) {
    Open open;
    open.ranks = kRanks;
    open.argv = {"program"};
    open.lease_ms = 60'000;
    open.name = "sim";
    controller_.on_session_message(open, now_);
  }

  void run();

  // ControllerPorts.
  Status spawn(uint32_t rank, const std::vector<std::string>&, const std::vector<std::string>&,
               const std::string&) override {
    Rank& r = ranks_[rank];
    EXPECT_FALSE(r.lives) << "rank " << rank << " is spawned while its process lives";
    const uint32_t incarnation = r.incarnation + 1;
    r = Rank{};
    r.lives = true;
    r.incarnation = incarnation;
    to_controller(rank, delay(5), Hello{kProtocolVersion, rank, 1000 + rank, true, "sim"});
    return {};
  }
  void send(uint32_t rank, const Message& message) override {
    if (rank == UINT32_MAX) return;
    Rank& r = ranks_[rank];
    // Also where it gets lost on the way: then the rank's end is the cell's error.
    if (const auto* execute = std::get_if<Execute>(&message)) ++given_[execute->cell];
    if (!r.lives || r.link_broken) return;
    at(in_order(r.inbox_ns, delay(3)), [this, rank, n = r.incarnation, message] {
      if (ranks_[rank].lives && ranks_[rank].incarnation == n) on_rank_message(rank, message);
    });
  }
  void signal(uint32_t rank, int number) override {
    if (number == SIGKILL || number == SIGTERM) end_rank(rank, number);
  }
  void hand_over_capture(uint32_t) override {}
  bool has_unread(uint32_t) override { return false; }
  bool is_starved(uint32_t) override { return false; }
  void send_event(const Event& event) override {
    if (attached_) on_event(event);
  }
  Result<ServerPorts> hold_ports() override { return ServerPorts{1, 2}; }
  RankFacts rank_facts(uint32_t rank) override { return {1000 + rank, 1}; }
  HostFacts host_facts() override { return {"sim", 1, 1, 1, 1}; }

 private:
  struct Rank {
    bool lives = false;
    bool link_broken = false;
    bool frozen = false;
    bool deaf = false;   // To interrupts, in this cell.
    bool waits = false;  // In a collective, for ranks that have ended the cell.
    uint32_t incarnation = 0;
    uint64_t seq = 0;
    uint64_t cell = 0;  // Open.
    int64_t inbox_ns = 0;
    int64_t outbox_ns = 0;
  };
  struct CellSeen {
    int ends = 0;
    std::string page;                         // As a reader sees it.
    std::map<uint32_t, std::string> printed;  // By rank: what arrived at the controller.
    uint32_t target = 0;                      // How many ranks it named.
  };

  int64_t pick(int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_);
  }
  int64_t delay(int64_t most_ms) { return now_ + pick(most_ms * kMs) + 1; }
  // A link keeps its own order.
  static int64_t in_order(int64_t& last_ns, int64_t wanted_ns) {
    last_ns = std::max(last_ns + 1, wanted_ns);
    return last_ns;
  }
  void at(int64_t when_ns, std::function<void()> what) {
    pending_.emplace(when_ns, std::move(what));
  }
  void to_controller(uint32_t rank, int64_t when_ns, const Message& message) {
    Rank& r = ranks_[rank];
    at(in_order(r.outbox_ns, when_ns), [this, rank, n = r.incarnation, message] {
      const Rank& now = ranks_[rank];
      if (!now.lives || now.incarnation != n || now.link_broken) return;
      deliver(rank, message);
    });
  }
  void deliver(uint32_t rank, const Message& message) {
    if (const auto* output = std::get_if<Output>(&message))
      for (const Record& record : output->records)
        if (const auto* stream = std::get_if<StreamRecord>(&record.body))
          cells_[output->cell].printed[rank] += stream->text;
    controller_.agent().on_message(rank, message, now_);
  }
  void end_rank(uint32_t rank, int number);
  void on_rank_message(uint32_t rank, const Message& message);
  void work(uint32_t rank, uint64_t cell, int steps);
  void print(uint32_t rank, uint64_t cell, const std::string& text);
  void finish(uint32_t rank, uint32_t status);
  void on_event(const Event& event);
  void front_end_acts();
  void something_happens();
  void check_cell(uint64_t number) const;
  void step();

  std::mt19937_64 random_;
  int64_t now_ = 1'000 * kMs;
  std::multimap<int64_t, std::function<void()>> pending_;
  bool attached_ = true;
  bool over_ = false;
  std::map<uint64_t, CellSeen> cells_;
  std::map<uint64_t, uint32_t> given_;
  std::set<uint64_t> acked_;
  std::set<std::pair<uint64_t, int>> ended_for_;
  int front_end_ = 0;
  uint64_t last_cell_ = 0;
  uint64_t requests_ = 0;
  int64_t heartbeat_ns_ = 0;
  Controller controller_;
  std::vector<Rank> ranks_;
};

void Sim::end_rank(uint32_t rank, int number) {
  Rank& r = ranks_[rank];
  if (!r.lives) return;
  // What it had sent is read before its end is seen, as the host does.
  at(in_order(r.outbox_ns, delay(2)), [this, rank, number, n = r.incarnation] {
    if (!ranks_[rank].lives || ranks_[rank].incarnation != n) return;
    ranks_[rank].lives = false;
    controller_.agent().on_exit(rank, {true, number}, now_);
  });
}

void Sim::on_rank_message(uint32_t rank, const Message& message) {
  Rank& r = ranks_[rank];
  if (const auto* execute = std::get_if<Execute>(&message)) {
    r.cell = execute->cell;
    r.deaf = pick(40) == 0;
    r.waits = false;
    work(rank, r.cell, static_cast<int>(pick(4)));
  } else if (const auto* interrupt = std::get_if<Interrupt>(&message)) {
    if (r.cell == interrupt->cell && r.cell != 0 && !r.frozen && (!r.deaf || pick(4) == 0)) {
      const Record error = {now_, ErrorRecord{"KeyboardInterrupt", "", {}, SK_ERROR_INTERRUPT}};
      to_controller(rank, delay(2), Output{r.cell, ++r.seq, {error}});
      finish(rank, SK_CELL_ERROR);
    }
  } else if (const auto* absent = std::get_if<Absent>(&message)) {
    for (const Absent::Group& group : absent->groups)
      for (const uint32_t other : group.ranks)
        EXPECT_NE(ranks_[other].cell, absent->cell) << "rank " << other << " may yet come";
    if (r.cell == absent->cell && r.waits && !r.frozen) finish(rank, SK_CELL_ERROR);
  } else if (const auto* ask = std::get_if<Ask>(&message)) {
    Reply reply;
    reply.request = ask->request;
    if (!r.frozen) to_controller(rank, delay(20), reply);
  } else if (std::holds_alternative<Shutdown>(message)) {
    if (pick(8) != 0) end_rank(rank, 0);
  }
}

// Prints `steps` lines, some of them the same on every rank, then ends; some never do by
// themselves.
void Sim::work(uint32_t rank, uint64_t cell, int steps) {
  at(delay(30), [this, rank, cell, steps, n = ranks_[rank].incarnation] {
    Rank& r = ranks_[rank];
    if (!r.lives || r.incarnation != n || r.cell != cell || r.frozen) return;
    if (steps > 0) {
      const bool same = (cell + static_cast<uint64_t>(steps)) % 2 == 0;
      print(rank, cell,
            same ? "step " + std::to_string(steps) + "\n"
                 : "r" + std::to_string(rank) + "s" + std::to_string(steps) + "\n");
      return work(rank, cell, steps - 1);
    }
    if (cell % 5 != 0 || rank % 7 != 0) return finish(rank, SK_CELL_OK);
    r.waits = cell % 2 == 0;
  });
}

void Sim::print(uint32_t rank, uint64_t cell, const std::string& text) {
  to_controller(rank, delay(3),
                Output{cell, ++ranks_[rank].seq, {{now_, StreamRecord{SK_STREAM_STDOUT, text}}}});
}

void Sim::finish(uint32_t rank, uint32_t status) {
  Rank& r = ranks_[rank];
  if (r.cell == 0) return;
  to_controller(rank, delay(3), Done{std::exchange(r.cell, 0), status, r.seq});
}

void Sim::on_event(const Event& event) {
  CellSeen& cell = cells_[event.cell];
  if (event.kind == SK_EVENT_STREAM) cell.page += event.text;
  if (event.kind == SK_EVENT_DISPLAY && event.display != SK_DISPLAY_DATA) cell.page.clear();
  if (event.kind == SK_EVENT_CELL_START && !event.ranks.empty())
    cell.target = static_cast<uint32_t>(parse_ranks(event.ranks, kRanks)->size());
  if (event.kind == SK_EVENT_STATUS && event.status == SK_SESSION_OVER) over_ = true;
  if (event.kind != SK_EVENT_CELL_DONE) return;
  // One that was not acknowledged is told once more to the next front end, never to the same.
  EXPECT_TRUE(ended_for_.emplace(event.cell, front_end_).second) << "cell " << event.cell;
  EXPECT_FALSE(acked_.contains(event.cell)) << "cell " << event.cell;
  ++cell.ends;
  check_cell(event.cell);
  if (pick(4) != 0) {
    at(now_ + 1, [this, number = event.cell, by = front_end_] {
      if (!attached_ || front_end_ != by) return;
      controller_.on_session_message(Ack{number}, now_);
      acked_.insert(number);
    });
  }
}

// Every line that arrived is on the page exactly once: a rank's own line as often as it printed it,
// a line of all or some ranks in one row with their numbers.
void Sim::check_cell(uint64_t number) const {
  const CellSeen& cell = cells_.at(number);
  std::map<std::string, int> own;
  std::map<std::string, uint32_t> ranks_of;
  for (const auto& [rank, text] : cell.printed) {
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string line = text.substr(begin, end - begin);
      ++own[line];
      ++ranks_of[line];
    }
  }
  std::map<std::string, int> rows;
  size_t begin = 0;
  for (size_t end; (end = cell.page.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string line = cell.page.substr(begin, end - begin);
    int weight = static_cast<int>(cell.target);
    if (line.starts_with('[')) {
      const size_t close = line.find("] ");
      const auto set = parse_ranks(line.substr(1, close - 1), kRanks);
      ASSERT_TRUE(set.ok()) << line;
      weight = static_cast<int>(set.value().size());
      line = line.substr(close + 2);
    } else {
      line.erase(0, line.find_first_not_of(' '));  // The column of tags.
    }
    rows[line] += weight;
  }
  for (const auto& [line, times] : own)
    EXPECT_EQ(rows[line], times) << "cell " << number << ": \"" << line << "\"\n" << cell.page;
  for (const auto& [line, times] : rows)
    EXPECT_EQ(own[line], times) << "cell " << number << ": \"" << line << "\" on the page";
}

void Sim::front_end_acts() {
  if (!attached_) return;
  const auto say = [&](const Message& message) { controller_.on_session_message(message, now_); };
  const int64_t what = pick(10);
  if (what < 5 && last_cell_ < kCells) {
    Execute request;
    request.cell = ++last_cell_;
    request.ranks = pick(3) == 0 ? "alive" : pick(3) == 0 ? "0-9,20" : "";
    request.tag = std::to_string(request.cell);
    request.go_on = pick(2) == 0;
    cells_[request.cell].ends = 0;
    say(request);
  } else if (what < 7) {
    say(Interrupt{});
  } else if (what < 8) {
    say(Ask{++requests_, kAskRevive, "", 0, 0});
  } else if (what < 9) {
    say(Ask{++requests_, pick(2) == 0 ? kAskStatus : kAskStack, "", 0, 0});
  } else {
    attached_ = false;
    controller_.on_session_lost(now_);
  }
}

void Sim::something_happens() {
  const auto rank = static_cast<uint32_t>(pick(kRanks));
  Rank& r = ranks_[rank];
  const int64_t what = pick(20);
  if (!attached_ && what < 10) {
    attached_ = true;
    ++front_end_;
    controller_.on_session_attached(now_);
  } else if (what == 0) {
    end_rank(rank, SIGSEGV);
  } else if (what == 1 && r.lives) {
    r.frozen = true;
  } else if (what == 2 && r.lives && !r.link_broken) {
    r.link_broken = true;
    controller_.agent().on_link_broken(rank, "", now_);
    end_rank(rank, SIGPIPE);
  } else if (what < 6 && r.lives && r.cell != 0 && r.deaf) {
    r.deaf = false;
    finish(rank, SK_CELL_OK);
  }
}

// The next thing in time: a message, a deadline of the controller, a heartbeat.
void Sim::step() {
  const int64_t next_ns = pending_.empty() ? INT64_MAX : pending_.begin()->first;
  const int64_t deadline_ns = std::max(now_, controller_.deadline_ns());
  now_ = std::min({next_ns, deadline_ns, now_ + 400 * kMs});
  while (!pending_.empty() && pending_.begin()->first <= now_) {
    const auto what = std::move(pending_.begin()->second);
    pending_.erase(pending_.begin());
    what();
  }
  if (now_ >= heartbeat_ns_) {
    heartbeat_ns_ = now_ + 400 * kMs;
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      if (ranks_[rank].lives && !ranks_[rank].frozen && !ranks_[rank].link_broken)
        controller_.agent().on_message(rank, Heartbeat{ranks_[rank].cell}, now_);
  }
  controller_.on_time(now_);
  ASSERT_GT(controller_.deadline_ns(), now_) << "a deadline that was not met";
}

void Sim::run() {
  // Faults for a while; then quiet, in which everything must come to its end by itself.
  const int64_t quiet_ns = now_ + 20'000 * kMs;
  int64_t act_ns = now_, happen_ns = now_;
  while (now_ < quiet_ns && !testing::Test::HasFailure()) {
    if (now_ >= act_ns) {
      act_ns = now_ + pick(600 * kMs);
      front_end_acts();
    }
    if (now_ >= happen_ns) {
      happen_ns = now_ + pick(400 * kMs);
      something_happens();
    }
    step();
  }
  if (!attached_) {
    attached_ = true;
    ++front_end_;
    controller_.on_session_attached(now_);
  }
  controller_.on_session_message(Interrupt{}, now_);
  const int64_t bound_ns = now_ + 10'000 * kMs;
  while (now_ < bound_ns && !testing::Test::HasFailure()) step();
  for (const auto& [number, cell] : cells_) {
    if (number == 0) continue;
    EXPECT_GE(cell.ends, 1) << "cell " << number << " has no end";
  }
  for (const auto& [number, given] : given_)
    EXPECT_EQ(given, cells_[number].target) << "cell " << number << " ran on fewer";
  controller_.on_session_message(Shutdown{}, now_);
  const int64_t end_ns = now_ + 10'000 * kMs;
  while (!controller_.over() && now_ < end_ns && !testing::Test::HasFailure()) step();
  EXPECT_TRUE(controller_.over()) << "something is left";
  EXPECT_TRUE(over_);
  for (const Rank& rank : ranks_) EXPECT_FALSE(rank.lives);
}

// SK_SIM_SEEDS: how many.
uint64_t seed_count() {
  const char* text = std::getenv("SK_SIM_SEEDS");
  return text == nullptr ? 300 : std::strtoull(text, nullptr, 10);
}

TEST(ControlSim, NothingIsLostWhateverHappens) {
  const char* only = std::getenv("SK_SIM_SEED");
  const uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
  const uint64_t last = only == nullptr ? first + seed_count() - 1 : first;
  for (uint64_t seed = first; seed <= last && !HasFailure(); ++seed) {
    SCOPED_TRACE("SK_SIM_SEED=" + std::to_string(seed));
    Sim sim(seed);
    sim.run();
  }
}

}  // namespace
}  // namespace sk::control
