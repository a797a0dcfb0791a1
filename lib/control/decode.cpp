// Bytes to messages: every enum, count and text is checked before a Message comes out.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstring>

#include "lib/control/codec.h"
#include "lib/control/control.capnp.h"
#include "lib/control/rank_set.h"

namespace sk::control {
namespace {

constexpr uint32_t kListMax = 65'536;        // Entries of any list.
constexpr uint64_t kOffsetMax = 1ull << 48;  // Into a log.
constexpr uint64_t kTokenBytesMax = 256;
constexpr const char* kNameCharacters = "0123456789abcdefghijklmnopqrstuvwxyz-";

std::string text(capnp::Data::Reader reader) {
  return {reinterpret_cast<const char*>(reader.begin()), reader.size()};
}
std::vector<std::string> get_strings(capnp::List<capnp::Data>::Reader list) {
  std::vector<std::string> out;
  out.reserve(list.size());
  for (auto entry : list) out.push_back(text(entry));
  return out;
}
std::vector<Mime> get_mimes(capnp::List<wire::Mime>::Reader list) {
  std::vector<Mime> out;
  out.reserve(list.size());
  for (auto entry : list) out.push_back({text(entry.getType()), text(entry.getData())});
  return out;
}

Status bad(const char* field, uint64_t value) {
  return error(SK_ERR_TRANSPORT, "control message: {} is {}", field, value);
}

// Checks shared by several messages. MIME types are short printable ASCII with a slash.
Status check(const std::vector<Mime>& mimes) {
  if (mimes.size() > 256) return bad("number of MIME types", mimes.size());
  for (const Mime& mime : mimes) {
    if (mime.type.empty() || mime.type.size() > 255) return bad("MIME type size", mime.type.size());
    if (mime.type.find('/') == std::string::npos) return bad("MIME type slash count", 0);
    for (unsigned char c : mime.type)
      if (c <= 0x20 || c >= 0x7f) return bad("MIME type character", c);
  }
  return {};
}

Result<Message> get(wire::Hello::Reader r) {
  Hello m{r.getVersion(), r.getRank(), r.getPid(), r.getCaptures(), text(r.getLanguage())};
  if (m.version != kProtocolVersion)
    return error(SK_ERR_TRANSPORT, "protocol version {} meets {}", m.version, kProtocolVersion);
  if (m.rank >= kRankCountMax) return bad("rank", m.rank);
  if (m.language.size() > 256) return bad("language size", m.language.size());
  return Message(std::move(m));
}
Result<Message> get(wire::Welcome::Reader r) {
  if (r.getVersion() != kProtocolVersion)
    return error(SK_ERR_TRANSPORT, "protocol version {} meets {}", r.getVersion(),
                 kProtocolVersion);
  return Message(
      Welcome{r.getVersion(), r.getRanks(), r.getLastCell(), text(r.getLastTag()), r.getPid()});
}
Result<Message> get(wire::Open::Reader r) {
  Open m{r.getVersion(),          r.getRanks(),       get_strings(r.getArgv()),
         get_strings(r.getEnv()), text(r.getCwd()),   r.getStartTimeoutMs(),
         r.getLeaseMs(),          r.getForks(),       r.getInterruptMs(),
         text(r.getName()),       text(r.getToken()), r.getNotebook()};
  if (m.version != kProtocolVersion)
    return error(SK_ERR_TRANSPORT, "protocol version {} meets {}", m.version, kProtocolVersion);
  if (m.ranks < 1 || m.ranks > kRankCountMax) return bad("ranks", m.ranks);
  if (m.argv.empty() || m.argv[0].empty()) return bad("argv size", m.argv.size());
  if (m.start_timeout_ms > kMillisMax) return bad("start timeout", m.start_timeout_ms);
  if (m.lease_ms > kMillisMax) return bad("lease", m.lease_ms);
  if (m.interrupt_ms > kMillisMax) return bad("interrupt time", m.interrupt_ms);
  if (m.token.size() > kTokenBytesMax) return bad("token size", m.token.size());
  if (m.name.find_first_not_of(kNameCharacters) != std::string::npos || m.name.size() > 64)
    return bad("session name size, or a character of it:", m.name.size());
  for (const auto* list : {&m.argv, &m.env})
    for (const std::string& s : *list)
      if (s.find('\0') != std::string::npos) return bad("NUL in argv or env at", s.find('\0'));
  for (const std::string& s : m.env)
    if (s.find('=') == std::string::npos || s[0] == '=') return bad("env entry's '=' position", 0);
  if (m.cwd.find('\0') != std::string::npos) return bad("NUL in cwd at", m.cwd.find('\0'));
  return Message(std::move(m));
}
Result<Message> get(wire::Execute::Reader r) {
  Execute m{r.getCell(),           text(r.getRanks()),
            text(r.getCode()),     r.getSilent(),
            r.getStoreHistory(),   r.getGoOn(),
            r.getExecutionCount(), r.getKind(),
            r.getAllowInput(),     text(r.getExpressions()),
            text(r.getTag())};
  if (m.cell == 0) return bad("cell", m.cell);
  if (m.execution_count < 0) return bad("execution count sign", 1);
  if (m.kind != SK_REQUEST_EXECUTE && m.kind != SK_REQUEST_ACTION)
    return bad("kind of cell", m.kind);
  if (m.ranks.size() > kRankSetBytesMax) return bad("rank set size", m.ranks.size());
  return Message(std::move(m));
}
Result<Message> get(wire::Interrupt::Reader r) {
  if (r.getLevel() > 2) return bad("interrupt level", r.getLevel());
  return Message(Interrupt{r.getCell(), r.getLevel()});
}
Result<Message> get(wire::Ask::Reader r) {
  Ask m{r.getRequest(), r.getKind(),   text(r.getCode()),
        r.getCursor(),  r.getDetail(), r.getSnapshot()};
  const bool of_main_thread = m.kind >= SK_REQUEST_COMPLETE && m.kind <= SK_REQUEST_IS_COMPLETE;
  const bool of_others = m.kind >= kAskStatus && m.kind <= kAskStack;
  if (!of_main_thread && !of_others) return bad("kind of question", m.kind);
  if (m.cursor > m.code.size()) return bad("cursor", m.cursor);
  if (m.detail < 0 || m.detail > 1) return bad("detail", static_cast<uint32_t>(m.detail));
  return Message(std::move(m));
}
Result<Reply> get_reply(wire::Reply::Reader r) {
  Reply m{r.getRequest(),
          r.getStatus(),
          r.getAnswer(),
          r.getStart(),
          r.getEnd(),
          get_strings(r.getStrings()),
          get_mimes(r.getMimes()),
          text(r.getText()),
          r.getTotal(),
          text(r.getMetadata())};
  if (m.start > m.end) return bad("start of the replaced text", m.start);
  if (m.answer < 0 || m.answer > 3) return bad("answer", static_cast<uint32_t>(m.answer));
  if (m.strings.size() > kListMax) return bad("number of matches", m.strings.size());
  SK_RETURN_IF_ERROR(check(m.mimes));
  return m;
}
Result<Message> get(wire::Reply::Reader r) {
  SK_ASSIGN_OR_RETURN(Reply m, get_reply(r));
  return Message(std::move(m));
}
Result<ErrorRecord> get_error(wire::Error::Reader r) {
  ErrorRecord m{text(r.getEname()), text(r.getEvalue()), get_strings(r.getTraceback()),
                r.getFlags()};
  if (m.flags > 3) return bad("error flags", m.flags);
  return m;
}
Result<Record> get_record(wire::Record::Reader r) {
  switch (r.which()) {
    case wire::Record::STREAM: {
      StreamRecord m{r.getStream().getStream(), text(r.getStream().getText())};
      if (m.stream != SK_STREAM_STDOUT && m.stream != SK_STREAM_STDERR)
        return bad("stream", m.stream);
      return Record{r.getTimeNs(), std::move(m)};
    }
    case wire::Record::DISPLAY: {
      auto d = r.getDisplay();
      DisplayRecord m{d.getKind(), get_mimes(d.getMimes()), text(d.getDisplayId()),
                      text(d.getMetadata())};
      if (m.kind < SK_DISPLAY_DATA || m.kind > SK_DISPLAY_PAGE)
        return bad("kind of display", m.kind);
      if (m.display_id.size() > 4096) return bad("display id size", m.display_id.size());
      if (m.metadata.size() > kMetadataBytesMax) return bad("metadata size", m.metadata.size());
      SK_RETURN_IF_ERROR(check(m.mimes));
      return Record{r.getTimeNs(), std::move(m)};
    }
    case wire::Record::ERROR: {
      SK_ASSIGN_OR_RETURN(ErrorRecord m, get_error(r.getError()));
      return Record{r.getTimeNs(), std::move(m)};
    }
  }
  return bad("kind of record", static_cast<uint32_t>(r.which()));
}
Result<Message> get(wire::Output::Reader r) {
  Output m{r.getCell(), r.getSeq(), {}};
  if (m.seq == 0) return bad("sequence number", 0);
  if (r.getRecords().size() > kListMax) return bad("number of records", r.getRecords().size());
  for (auto entry : r.getRecords()) {
    SK_ASSIGN_OR_RETURN(Record record, get_record(entry));
    m.records.push_back(std::move(record));
  }
  return Message(std::move(m));
}
Result<Message> get(wire::Configure::Reader r) {
  const Configure m{r.getTag(), r.getShownLines(), r.getShownBytes(), r.getKeptBytes()};
  if (m.tag > SK_TAG_HOST) return bad("tag mode", m.tag);
  if (m.shown_lines > kShownLinesMax) return bad("shown lines", m.shown_lines);
  if (m.shown_bytes > kShownBytesMax) return bad("shown bytes", m.shown_bytes);
  if (m.kept_bytes > kKeptBytesMax) return bad("kept bytes", m.kept_bytes);
  return Message(m);
}
Result<Message> get(wire::Note::Reader r) {
  Note m{text(r.getName()), text(r.getText()), r.getKept()};
  if (m.name.empty() || m.name.size() > kNoteNameMax) return bad("note name size", m.name.size());
  return Message(std::move(m));
}
Result<Message> get(wire::LogRequest::Reader r) {
  LogRequest m{r.getRequest(),     r.getWhat(),   r.getCell(), r.getExecutionCount(),
               text(r.getRanks()), r.getOffset(), r.getLimit()};
  if (m.what < SK_LOG_TEXT || m.what > SK_LOG_DISPLAY) return bad("kind of log", m.what);
  if (m.ranks.size() > kRankSetBytesMax) return bad("rank set size", m.ranks.size());
  if (m.offset > kOffsetMax) return bad("log offset", m.offset);
  return Message(std::move(m));
}
Result<Message> get(wire::Done::Reader r) {
  if (r.getStatus() < SK_CELL_OK || r.getStatus() > SK_CELL_ERROR)
    return bad("status of a cell", r.getStatus());
  if (r.getWallNs() < 0 || r.getCpuNs() < 0) return bad("time sign", 1);
  Done m{r.getCell(),   r.getStatus(), r.getSeqLast(),
         r.getWallNs(), r.getCpuNs(),  text(r.getReply())};
  m.lingers = r.getLingers();
  return Message(std::move(m));
}
Result<Message> get(wire::InputRequest::Reader r) {
  InputRequest m{r.getCell(),     r.getRequest(),   text(r.getPrompt()),
                 r.getPassword(), r.getWithdrawn(), r.getInterrupts()};
  if (m.request == 0) return bad("number of a prompt", 0);
  if (m.prompt.size() > kPromptBytesMax) return bad("prompt size", m.prompt.size());
  return Message(std::move(m));
}
Result<Message> get(wire::InputReply::Reader r) {
  if (r.getState() < SK_INPUT_TEXT || r.getState() > SK_INPUT_REFUSED)
    return bad("state of an answer", r.getState());
  return Message(InputReply{r.getRequest(), r.getState(), text(r.getText())});
}
Result<Comm> get_comm(wire::Comm::Reader r) {
  Comm m{r.getCell(),
         r.getKind(),
         text(r.getId()),
         text(r.getTarget()),
         text(r.getData()),
         text(r.getMetadata()),
         get_strings(r.getBuffers())};
  if (m.kind < SK_COMM_OPEN || m.kind > SK_COMM_CLOSE) return bad("kind of comm message", m.kind);
  if (m.id.empty() || m.id.size() > kCommNameMax) return bad("comm id size", m.id.size());
  if (m.target.size() > kCommNameMax) return bad("comm target size", m.target.size());
  if (m.buffers.size() > kListMax) return bad("number of buffers", m.buffers.size());
  return m;
}
Result<Message> get(wire::Comm::Reader r) {
  SK_ASSIGN_OR_RETURN(Comm m, get_comm(r));
  return Message(std::move(m));
}
bool known_event(uint32_t kind) {
  return (kind >= SK_EVENT_STATUS && kind <= SK_EVENT_CELL_QUEUED) ||
         (kind >= SK_EVENT_INPUT && kind <= SK_EVENT_COMM);
}
Result<Message> get(wire::Event::Reader r) {
  Event m;
  m.kind = r.getKind();
  if (!known_event(m.kind)) return bad("kind of event", m.kind);
  m.seq = r.getSeq();
  m.cell = r.getCell();
  m.ranks = text(r.getRanks());
  m.all_ranks = r.getAllRanks();
  m.status = r.getStatus();
  m.stream = r.getStream();
  m.display = r.getDisplay();
  m.text = text(r.getText());
  m.ename = text(r.getEname());
  m.evalue = text(r.getEvalue());
  m.traceback = get_strings(r.getTraceback());
  m.mimes = get_mimes(r.getMimes());
  m.display_id = text(r.getDisplayId());
  m.metadata = text(r.getMetadata());
  for (auto time : r.getTimes())
    m.times.push_back({time.getRank(), time.getWallNs(), time.getCpuNs()});
  m.tag = text(r.getTag());
  uint64_t failures = 0;  // Few bytes may name many ranks.
  for (auto each : r.getErrors()) {
    const std::string ranks = text(each.getRanks());
    auto set = parse_ranks(ranks, kRankCountMax);
    if (!set.ok() || ranks.empty()) return bad("ranks of an error", 0);
    failures += set->size();
    if (failures > kFailuresMax) return bad("number of ranks' errors", failures);
    SK_ASSIGN_OR_RETURN(ErrorRecord error, get_error(each.getError()));
    m.errors.push_back({std::move(*set), std::move(error)});
  }
  SK_RETURN_IF_ERROR(check(m.mimes));
  if (m.stream > SK_STREAM_STDERR) return bad("stream", m.stream);
  if (m.display > SK_DISPLAY_PAGE) return bad("kind of display", m.display);
  // By its kind, as it was written: a comm's event without the comm is none.
  const bool asked = m.kind == SK_EVENT_INPUT || m.kind == SK_EVENT_INPUT_END;
  if (m.kind == SK_EVENT_REPLY || asked) {
    SK_ASSIGN_OR_RETURN(m.reply, get_reply(r.getReply()));
  }
  if (m.kind == SK_EVENT_COMM) {
    SK_ASSIGN_OR_RETURN(m.comm, get_comm(r.getComm()));
  }
  return Message(std::move(m));
}

Result<Message> get(wire::Attach::Reader r) {
  Attach m{r.getVersion(), text(r.getToken())};
  if (m.version != kProtocolVersion)
    return error(SK_ERR_TRANSPORT, "protocol version {} meets {}", m.version, kProtocolVersion);
  if (m.token.size() > kTokenBytesMax) return bad("token size", m.token.size());
  return Message(std::move(m));
}
Result<Message> get(wire::Group::Reader r) {
  RankGroup m{r.getEpoch(), {}, r.getTorchPort(), r.getJaxPort(), r.getWanted()};
  if (r.getMissing().size() > kRankCountMax)
    return bad("number of missing ranks", r.getMissing().size());
  for (const uint32_t rank : r.getMissing()) {
    if (rank >= kRankCountMax) return bad("missing rank", rank);
    m.missing.push_back(rank);
  }
  return Message(std::move(m));
}

Result<Message> get(wire::Absent::Reader r) {
  Absent m{r.getCell(), {}};
  if (m.cell == 0) return bad("cell", 0);
  if (r.getGroups().size() > kAbsentGroupsMax) return bad("groups", r.getGroups().size());
  for (const auto group : r.getGroups()) {
    if (group.getWhy().size() > kAbsentWhyMax) return bad("reason size", group.getWhy().size());
    const std::string ranks = text(group.getRanks());
    auto set = parse_ranks(ranks, kRankCountMax);
    if (!set.ok() || ranks.empty()) return bad("absent ranks", 0);
    m.groups.push_back({std::move(*set), text(group.getWhy())});
  }
  return Message(std::move(m));
}

Result<Message> get(wire::Heartbeat::Reader r) {
  Heartbeat m{r.getCell(), text(r.getWaitsIn()), {}, r.getLingers(), r.getLeft()};
  if (m.waits_in.size() > kWaitsInMax) return bad("wait size", m.waits_in.size());
  if (m.waits_in.empty()) return Message(std::move(m));
  const std::string ranks = text(r.getWaitsFor());
  auto set = parse_ranks(ranks, kRankCountMax);
  if (!set.ok() || ranks.empty()) return bad("awaited ranks", 0);
  m.waits_for = std::move(*set);
  return Message(std::move(m));
}

Result<Message> get(wire::Message::Reader r) {
  switch (r.which()) {
    case wire::Message::HELLO:
      return get(r.getHello());
    case wire::Message::WELCOME:
      return get(r.getWelcome());
    case wire::Message::HEARTBEAT:
      return get(r.getHeartbeat());
    case wire::Message::OPEN:
      return get(r.getOpen());
    case wire::Message::EXECUTE:
      return get(r.getExecute());
    case wire::Message::INTERRUPT:
      return get(r.getInterrupt());
    case wire::Message::ASK:
      return get(r.getAsk());
    case wire::Message::REPLY:
      return get(r.getReply());
    case wire::Message::OUTPUT:
      return get(r.getOutput());
    case wire::Message::DONE:
      return get(r.getDone());
    case wire::Message::EVENT:
      return get(r.getEvent());
    case wire::Message::CONFIGURE:
      return get(r.getConfigure());
    case wire::Message::LOG_REQUEST:
      return get(r.getLogRequest());
    case wire::Message::SHUTDOWN:
      return Message(Shutdown{});
    case wire::Message::INPUT_REQUEST:
      return get(r.getInputRequest());
    case wire::Message::INPUT_REPLY:
      return get(r.getInputReply());
    case wire::Message::COMM:
      return get(r.getComm());
    case wire::Message::FRAGMENT: {
      auto f = r.getFragment();
      return Message(Fragment{f.getTotalBytes(), f.getOffset(), text(f.getData())});
    }
    case wire::Message::ATTACH:
      return get(r.getAttach());
    case wire::Message::ACK:
      return Message(Ack{r.getAck().getCell()});
    case wire::Message::NOTE:
      return get(r.getNote());
    case wire::Message::GROUP:
      return get(r.getGroup());
    case wire::Message::ABSENT:
      return get(r.getAbsent());
    case wire::Message::REGROUP:
      return Message(Regroup{r.getRegroup().getEpoch(), r.getRegroup().getAfterCell()});
  }
  return bad("kind of message", static_cast<uint32_t>(r.which()));
}

}  // namespace

Result<Message> decode(std::span<const char> bytes) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0)
    return bad("size, not a multiple of 8:", bytes.size());
  // Copied: the bytes may be unaligned, and the reader needs words.
  kj::Array<capnp::word> words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  std::memcpy(words.begin(), bytes.data(), bytes.size());
  uint32_t segments_less_one = 0;
  std::memcpy(&segments_less_one, bytes.data(), sizeof segments_less_one);
  if (segments_less_one != 0) return bad("segments less one", segments_less_one);
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 4 * words.size() + 64;
  options.nestingLimit = 16;
  Result<Message> result = error(SK_ERR_TRANSPORT, "control message: not decoded");
  // Cap'n Proto reports malformed input by exception; it goes no further than this line.
  const auto exception = kj::runCatchingExceptions([&] {
    capnp::FlatArrayMessageReader reader(words, options);
    result = get(reader.getRoot<wire::Message>());
  });
  KJ_IF_MAYBE (thrown, exception) {
    return error(SK_ERR_TRANSPORT, "control message: malformed ({})",
                 thrown->getDescription().cStr());
  }
  return result;
}

}  // namespace sk::control
