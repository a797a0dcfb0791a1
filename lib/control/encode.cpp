// Messages to bytes: the size is known before, so that one segment holds it all.
#include <capnp/message.h>
#include <capnp/serialize.h>

#include "lib/control/codec.h"
#include "lib/control/control.capnp.h"
#include "lib/control/rank_set.h"

namespace sk::control {
namespace {

kj::ArrayPtr<const kj::byte> data(const std::string& text) {
  return {reinterpret_cast<const kj::byte*>(text.data()), text.size()};
}

template <typename Builder>
void put_strings(Builder list, const std::vector<std::string>& strings) {
  for (uint32_t i = 0; i < strings.size(); ++i) list.set(i, data(strings[i]));
}
template <typename Builder>
void put_mimes(Builder list, const std::vector<Mime>& mimes) {
  for (uint32_t i = 0; i < mimes.size(); ++i) {
    list[i].setType(data(mimes[i].type));
    list[i].setData(data(mimes[i].data));
  }
}

void put(wire::Hello::Builder b, const Hello& m) {
  b.setVersion(m.version);
  b.setRank(m.rank);
  b.setPid(m.pid);
  b.setCaptures(m.captures);
  b.setLanguage(data(m.language));
}
void put(wire::Open::Builder b, const Open& m) {
  b.setVersion(m.version);
  b.setRanks(m.ranks);
  put_strings(b.initArgv(m.argv.size()), m.argv);
  put_strings(b.initEnv(m.env.size()), m.env);
  b.setCwd(data(m.cwd));
  b.setStartTimeoutMs(m.start_timeout_ms);
  b.setLeaseMs(m.lease_ms);
  b.setForks(m.forks);
  b.setInterruptMs(m.interrupt_ms);
  b.setName(data(m.name));
  b.setToken(data(m.token));
  b.setNotebook(m.notebook);
}
void put(wire::Execute::Builder b, const Execute& m) {
  b.setCell(m.cell);
  b.setRanks(data(m.ranks));
  b.setCode(data(m.code));
  b.setSilent(m.silent);
  b.setStoreHistory(m.store_history);
  b.setGoOn(m.go_on);
  b.setExecutionCount(m.execution_count);
  b.setKind(m.kind);
  b.setAllowInput(m.allow_input);
  b.setExpressions(data(m.expressions));
  b.setTag(data(m.tag));
}
void put(wire::Ask::Builder b, const Ask& m) {
  b.setRequest(m.request);
  b.setKind(m.kind);
  b.setCode(data(m.code));
  b.setCursor(m.cursor);
  b.setDetail(m.detail);
  b.setSnapshot(m.snapshot);
}
void put(wire::Reply::Builder b, const Reply& m) {
  b.setRequest(m.request);
  b.setStatus(m.status);
  b.setAnswer(m.answer);
  b.setStart(m.start);
  b.setEnd(m.end);
  put_strings(b.initStrings(m.strings.size()), m.strings);
  put_mimes(b.initMimes(m.mimes.size()), m.mimes);
  b.setText(data(m.text));
  b.setTotal(m.total);
  b.setMetadata(data(m.metadata));
}
void put(wire::Configure::Builder b, const Configure& m) {
  b.setTag(m.tag);
  b.setShownLines(m.shown_lines);
  b.setShownBytes(m.shown_bytes);
  b.setKeptBytes(m.kept_bytes);
}
void put(wire::LogRequest::Builder b, const LogRequest& m) {
  b.setRequest(m.request);
  b.setWhat(m.what);
  b.setCell(m.cell);
  b.setExecutionCount(m.execution_count);
  b.setRanks(data(m.ranks));
  b.setOffset(m.offset);
  b.setLimit(m.limit);
}
void put(wire::InputRequest::Builder b, const InputRequest& m) {
  b.setCell(m.cell);
  b.setRequest(m.request);
  b.setPrompt(data(m.prompt));
  b.setPassword(m.password);
  b.setWithdrawn(m.withdrawn);
  b.setInterrupts(m.interrupts);
}
void put(wire::Comm::Builder b, const Comm& m) {
  b.setCell(m.cell);
  b.setKind(m.kind);
  b.setId(data(m.id));
  b.setTarget(data(m.target));
  b.setData(data(m.data));
  b.setMetadata(data(m.metadata));
  put_strings(b.initBuffers(m.buffers.size()), m.buffers);
}
void put(wire::Error::Builder b, const ErrorRecord& m) {
  b.setEname(data(m.ename));
  b.setEvalue(data(m.evalue));
  put_strings(b.initTraceback(m.traceback.size()), m.traceback);
  b.setFlags(m.flags);
}
void put(wire::Record::Builder b, const Record& m) {
  b.setTimeNs(m.time_ns);
  if (const auto* stream = std::get_if<StreamRecord>(&m.body)) {
    auto s = b.initStream();
    s.setStream(stream->stream);
    s.setText(data(stream->text));
  } else if (const auto* display = std::get_if<DisplayRecord>(&m.body)) {
    auto d = b.initDisplay();
    d.setKind(display->kind);
    put_mimes(d.initMimes(display->mimes.size()), display->mimes);
    d.setDisplayId(data(display->display_id));
    d.setMetadata(data(display->metadata));
  } else if (const auto* error = std::get_if<ErrorRecord>(&m.body)) {
    put(b.initError(), *error);
  }
}
void put(wire::Event::Builder b, const Event& m) {
  b.setKind(m.kind);
  b.setSeq(m.seq);
  b.setCell(m.cell);
  b.setRanks(data(m.ranks));
  b.setAllRanks(m.all_ranks);
  b.setStatus(m.status);
  b.setStream(m.stream);
  b.setDisplay(m.display);
  b.setText(data(m.text));
  b.setEname(data(m.ename));
  b.setEvalue(data(m.evalue));
  put_strings(b.initTraceback(m.traceback.size()), m.traceback);
  put_mimes(b.initMimes(m.mimes.size()), m.mimes);
  b.setDisplayId(data(m.display_id));
  b.setMetadata(data(m.metadata));
  const bool asked = m.kind == SK_EVENT_INPUT || m.kind == SK_EVENT_INPUT_END;
  if (m.kind == SK_EVENT_REPLY || asked) put(b.initReply(), m.reply);
  if (m.kind == SK_EVENT_COMM) put(b.initComm(), m.comm);
  auto times = b.initTimes(m.times.size());
  for (uint32_t i = 0; i < m.times.size(); ++i) {
    times[i].setRank(m.times[i].rank);
    times[i].setWallNs(m.times[i].wall_ns);
    times[i].setCpuNs(m.times[i].cpu_ns);
  }
  b.setTag(data(m.tag));
  auto errors = b.initErrors(m.errors.size());
  for (uint32_t i = 0; i < m.errors.size(); ++i) {
    errors[i].setRanks(data(format_ranks(m.errors[i].ranks)));
    put(errors[i].initError(), m.errors[i].error);
  }
}

struct Put {
  wire::Message::Builder b;
  void operator()(const Hello& m) { put(b.initHello(), m); }
  void operator()(const Welcome& m) {
    auto w = b.initWelcome();
    w.setVersion(m.version);
    w.setRanks(m.ranks);
    w.setLastCell(m.last_cell);
    w.setLastTag(data(m.last_tag));
    w.setPid(m.pid);
  }
  void operator()(const Heartbeat& m) {
    auto h = b.initHeartbeat();
    h.setCell(m.cell);
    h.setLingers(m.lingers);
    h.setLeft(m.left);
    if (m.waits_in.empty()) return;
    h.setWaitsIn(data(m.waits_in));
    h.setWaitsFor(data(format_ranks(m.waits_for)));
  }
  void operator()(const Open& m) { put(b.initOpen(), m); }
  void operator()(const Execute& m) { put(b.initExecute(), m); }
  void operator()(const Interrupt& m) {
    auto i = b.initInterrupt();
    i.setCell(m.cell);
    i.setLevel(m.level);
  }
  void operator()(const Ask& m) { put(b.initAsk(), m); }
  void operator()(const Reply& m) { put(b.initReply(), m); }
  void operator()(const Output& m) {
    auto o = b.initOutput();
    o.setCell(m.cell);
    o.setSeq(m.seq);
    auto records = o.initRecords(m.records.size());
    for (uint32_t i = 0; i < m.records.size(); ++i) put(records[i], m.records[i]);
  }
  void operator()(const Done& m) {
    auto d = b.initDone();
    d.setCell(m.cell);
    d.setStatus(m.status);
    d.setSeqLast(m.seq_last);
    d.setWallNs(m.wall_ns);
    d.setCpuNs(m.cpu_ns);
    d.setReply(data(m.reply));
    d.setLingers(m.lingers);
  }
  void operator()(const Event& m) { put(b.initEvent(), m); }
  void operator()(const Configure& m) { put(b.initConfigure(), m); }
  void operator()(const LogRequest& m) { put(b.initLogRequest(), m); }
  void operator()(const Shutdown&) { b.setShutdown(); }
  void operator()(const InputRequest& m) { put(b.initInputRequest(), m); }
  void operator()(const InputReply& m) {
    auto i = b.initInputReply();
    i.setRequest(m.request);
    i.setState(m.state);
    i.setText(data(m.text));
  }
  void operator()(const Comm& m) { put(b.initComm(), m); }
  void operator()(const Fragment& m) {
    auto f = b.initFragment();
    f.setTotalBytes(m.total_bytes);
    f.setOffset(m.offset);
    f.setData(data(m.data));
  }
  void operator()(const Attach& m) {
    auto a = b.initAttach();
    a.setVersion(m.version);
    a.setToken(data(m.token));
  }
  void operator()(const Ack& m) { b.initAck().setCell(m.cell); }
  void operator()(const Note& m) {
    auto n = b.initNote();
    n.setName(data(m.name));
    n.setText(data(m.text));
    n.setKept(m.kept);
  }
  void operator()(const RankGroup& m) {
    auto g = b.initGroup();
    g.setWanted(m.wanted);
    g.setEpoch(m.epoch);
    auto missing = g.initMissing(static_cast<uint32_t>(m.missing.size()));
    for (uint32_t i = 0; i < m.missing.size(); ++i) missing.set(i, m.missing[i]);
    g.setTorchPort(m.torch_port);
    g.setJaxPort(m.jax_port);
  }
  void operator()(const Regroup& m) {
    auto out = b.initRegroup();
    out.setEpoch(m.epoch);
    out.setAfterCell(m.after_cell);
  }
  void operator()(const Absent& m) {
    auto a = b.initAbsent();
    a.setCell(m.cell);
    auto groups = a.initGroups(static_cast<uint32_t>(m.groups.size()));
    for (uint32_t i = 0; i < m.groups.size(); ++i) {
      groups[i].setRanks(data(format_ranks(m.groups[i].ranks)));
      groups[i].setWhy(data(m.groups[i].why));
    }
  }
};

// An upper bound of the encoded size, so that the message is built in one segment.
struct Size {
  uint64_t bytes = 512;
  void add(const std::string& s) { bytes += s.size() + 24; }
  void add(const std::vector<std::string>& v) {
    for (const auto& s : v) add(s);
  }
  void add(const std::vector<Mime>& v) {
    for (const auto& m : v) add(m.type), add(m.data), bytes += 24;
  }
  void add(const ErrorRecord& m) { bytes += 40, add(m.ename), add(m.evalue), add(m.traceback); }
  void add(const Reply& m) { add(m.strings), add(m.mimes), add(m.text), add(m.metadata); }
  void operator()(const Hello& m) { add(m.language); }
  void add(const Comm& m) {
    add(m.id), add(m.target), add(m.data), add(m.metadata), add(m.buffers), bytes += 64;
  }
  void operator()(const Done& m) { add(m.reply); }
  void operator()(const InputRequest& m) { add(m.prompt); }
  void operator()(const InputReply& m) { add(m.text); }
  void operator()(const Comm& m) { add(m); }
  void operator()(const Welcome& m) { add(m.last_tag); }
  void operator()(const Open& m) { add(m.argv), add(m.env), add(m.cwd), add(m.name), add(m.token); }
  void operator()(const Execute& m) { add(m.code), add(m.ranks), add(m.expressions), add(m.tag); }
  void operator()(const Attach& m) { add(m.token); }
  void operator()(const Note& m) { add(m.name), add(m.text); }
  void operator()(const RankGroup& m) { bytes += 4 * m.missing.size(); }
  void operator()(const Absent& m) {
    for (const Absent::Group& group : m.groups)
      add(group.why), bytes += 64 + 6 * group.ranks.size();  // "4095," at most.
  }
  void operator()(const Ask& m) { add(m.code); }
  void operator()(const LogRequest& m) { add(m.ranks); }
  void operator()(const Reply& m) { add(m); }
  void operator()(const Output& m) {
    for (const Record& r : m.records) {
      bytes += 64;
      if (const auto* s = std::get_if<StreamRecord>(&r.body)) bytes += 40, add(s->text);
      if (const auto* d = std::get_if<DisplayRecord>(&r.body))
        bytes += 40, add(d->mimes), add(d->display_id), add(d->metadata);
      if (const auto* e = std::get_if<ErrorRecord>(&r.body)) add(*e);
    }
  }
  void operator()(const Event& m) {
    add(m.ranks), add(m.text), add(m.ename), add(m.evalue), add(m.traceback), add(m.mimes);
    add(m.display_id), add(m.metadata), add(m.reply), add(m.comm), add(m.tag);
    bytes += 32 * m.times.size();
    for (const RankErrors& each : m.errors)
      bytes += 64 + 6 * each.ranks.size(), add(each.error);  // "4095," at most.
  }
  void operator()(const Fragment& m) { add(m.data); }
  template <typename Other>
  void operator()(const Other&) {}
};

}  // namespace

std::string encode(const Message& message) {
  Size size;
  std::visit(size, message);
  capnp::MallocMessageBuilder builder(static_cast<unsigned>(size.bytes / 8),
                                      capnp::AllocationStrategy::FIXED_SIZE);
  std::visit(Put{builder.initRoot<wire::Message>()}, message);
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asChars();
  return {bytes.begin(), bytes.size()};
}

}  // namespace sk::control
