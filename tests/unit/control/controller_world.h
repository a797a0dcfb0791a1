// The controller's state machine with everything around it played by hand.
#ifndef SK_TESTS_UNIT_CONTROL_CONTROLLER_WORLD_H_
#define SK_TESTS_UNIT_CONTROL_CONTROLLER_WORLD_H_

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "lib/control/controller.h"

namespace sk::control {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMs;

// Plays processes and session: keeps what is sent, obeys SIGKILL.
class World : public ControllerPorts {
 public:
  explicit World(uint32_t ranks, uint64_t lease_ms = 0, bool notebook = false)
      : seq(ranks, 0), controller(*this, ControllerTimers{}, Job{"job", "6:1:2", {1, 2}, 3}) {
    Open open;
    open.ranks = ranks;
    open.argv = {"program"};
    open.lease_ms = lease_ms;
    open.notebook = notebook;
    if (lease_ms > 0) open.name = "test";
    controller.on_session_message(open, now);
  }

  Status spawn(uint32_t rank, const std::vector<std::string>&, const std::vector<std::string>& env,
               const std::string&) override {
    environment[rank] = env;
    ++spawned[rank];
    seq[rank] = 0;
    return rank == cannot_spawn ? error(SK_ERR_SYSTEM, "no such program") : Status();
  }
  void send(uint32_t rank, const Message& message) override { sent[rank].push_back(message); }
  void signal(uint32_t rank, int number) override { signals.push_back({rank, number}); }
  void hand_over_capture(uint32_t rank) override { handed_over.push_back(rank); }
  bool has_unread(uint32_t rank) override { return unread.contains(rank); }
  bool is_starved(uint32_t rank) override { return starved.contains(rank); }
  Result<ServerPorts> hold_ports() override {
    if (no_ports) return error(SK_ERR_SYSTEM, "no ports");
    ports_held += 10;
    return ServerPorts{uint16_t(ports_held + 1), uint16_t(ports_held + 2)};
  }
  RankFacts rank_facts(uint32_t rank) override { return {1000 + rank, 4096}; }
  HostFacts host_facts() override { return {"here \"quoted\"", 7, 2, 1 << 20, 1 << 10}; }
  void send_event(const Event& event) override {
    EXPECT_EQ(event.seq, ++last_seq);
    events.push_back(event);
  }

  void from(uint32_t rank, Message message) {
    controller.agent().on_message(rank, std::move(message), now);
  }
  void join(uint32_t rank) { from(rank, Hello{kProtocolVersion, rank, 100 + rank, true, "stub"}); }
  void join_all() {
    for (uint32_t rank = 0; rank < seq.size(); ++rank) join(rank);
  }
  // Sends a question of AskKind and returns its request.
  uint64_t ask(uint32_t kind, const std::string& ranks = "") {
    controller.on_session_message(Ask{++requests, kind, ranks, 0, 0}, now);
    return requests;
  }
  uint64_t execute(const std::string& ranks = "", bool go_on = false, const std::string& tag = "") {
    Execute request;
    request.cell = ++cells;
    request.ranks = ranks;
    request.code = "x";
    request.go_on = go_on;
    request.tag = tag;
    controller.on_session_message(request, now);
    return cells;
  }
  void print(uint32_t rank, uint64_t cell, const std::string& text) {
    from(rank, Output{cell, ++seq[rank], {{now, StreamRecord{SK_STREAM_STDOUT, text}}}});
  }
  void done(uint32_t rank, uint64_t cell, uint32_t status = SK_CELL_OK) {
    from(rank, Done{cell, status, seq[rank]});
  }
  void die(uint32_t rank) { controller.agent().on_exit(rank, {true, SIGKILL}, now); }
  void advance(int64_t ns) {
    for (const int64_t until = now + ns; now < until;) {
      now = std::min(until, std::max(now + 1, controller.deadline_ns()));
      controller.on_time(now);
    }
  }

  // The status of the cell's end; 0 while it has none.
  int32_t ended(uint64_t cell) const {
    for (const Event& event : events)
      if (event.kind == SK_EVENT_CELL_DONE && event.cell == cell) return event.status;
    return 0;
  }
  const Event* find(uint32_t kind) const {
    for (auto event = events.rbegin(); event != events.rend(); ++event)
      if (event->kind == kind) return &*event;
    return nullptr;
  }
  const Event* reply_to(uint64_t request) const {
    for (const Event& event : events)
      if (event.kind == SK_EVENT_REPLY && event.reply.request == request) return &event;
    return nullptr;
  }
  template <typename Kind>
  const Kind* last_sent(uint32_t rank) {
    for (auto message = sent[rank].rbegin(); message != sent[rank].rend(); ++message)
      if (const auto* found = std::get_if<Kind>(&*message)) return found;
    return nullptr;
  }
  template <typename Kind>
  size_t count_sent(uint32_t rank) {
    return static_cast<size_t>(
        std::count_if(sent[rank].begin(), sent[rank].end(),
                      [](const Message& m) { return std::holds_alternative<Kind>(m); }));
  }
  bool told_stuck(uint32_t rank) const {
    return std::any_of(events.begin(), events.end(), [&](const Event& event) {
      return event.kind == SK_EVENT_RANK && event.status == SK_RANK_STUCK &&
             event.ranks == std::to_string(rank);
    });
  }
  bool was_killed(uint32_t rank) const {
    return std::find(signals.begin(), signals.end(), std::pair(rank, SIGKILL)) != signals.end();
  }

  int64_t now = 5 * kSecond;
  uint32_t cannot_spawn = UINT32_MAX;
  bool no_ports = false;
  int ports_held = 0;
  std::map<uint32_t, std::vector<std::string>> environment;
  std::map<uint32_t, std::vector<Message>> sent;
  std::vector<std::pair<uint32_t, int>> signals;
  std::vector<uint32_t> handed_over;
  std::set<uint32_t> unread;   // What these have said waits in their links.
  std::set<uint32_t> starved;  // These get no processor.
  std::vector<Event> events;
  uint64_t last_seq = 0;
  uint64_t cells = 0;
  uint64_t requests = 0;
  std::map<uint32_t, int> spawned;
  std::vector<uint64_t> seq;
  Controller controller;
};

}  // namespace sk::control

#endif  // SK_TESTS_UNIT_CONTROL_CONTROLLER_WORLD_H_
