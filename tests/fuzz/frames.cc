// Fuzzes the way from bytes to messages: framing and decoding must refuse or understand, never
// more; however the bytes are cut; and what was understood is said the same way again.
#include <span>

#include "lib/control/codec.h"
#include "lib/control/framing.h"
#include "tests/fuzz/driver.h"

namespace sk::fuzz {
namespace {

using namespace sk::control;

struct Outcome {
  std::vector<std::string> messages;  // Encoded again.
  std::string error;
};

Outcome read_in_pieces(std::string_view bytes, size_t piece) {
  Outcome outcome;
  FrameReader reader;
  while (true) {
    auto message = reader.next();
    if (!message.ok()) {
      outcome.error = message.status().message();
      return outcome;
    }
    if (message->has_value()) {
      outcome.messages.push_back(encode(**message));
      continue;
    }
    if (bytes.empty()) return outcome;
    const std::string_view next = bytes.substr(0, piece);
    reader.feed(std::span<const char>(next.data(), next.size()));
    bytes.remove_prefix(next.size());
  }
}

std::string frames_of(const std::vector<Message>& messages) {
  std::string bytes;
  for (const Message& message : messages)
    require(append_frames(message, bytes).ok(), "a seed can be encoded");
  return bytes;
}

}  // namespace

std::vector<std::string> seeds() {
  Open open;
  open.ranks = 4;
  open.argv = {"program", "argument"};
  open.env = {"NAME=value"};
  open.cwd = "/";
  Event event;
  event.kind = SK_EVENT_DISPLAY;
  event.display = SK_DISPLAY_DATA;
  event.mimes = {{"text/plain", "a"}, {"image/png", "\x89PNG"}};
  event.traceback = {"line", "line"};
  event.metadata = "{}";
  event.errors = {{{0, 3}, {"E", "v", {"frame"}, SK_ERROR_INTERRUPT}}};
  Output output{1, 1, {}};
  output.records.push_back({1, StreamRecord{SK_STREAM_STDOUT, "text\n"}});
  output.records.push_back(
      {2, DisplayRecord{SK_DISPLAY_DATA, {{"text/html", "<b>"}}, "id", "{\"a\":1}"}});
  output.records.push_back({3, ErrorRecord{"E", "v", {"frame"}, SK_ERROR_INTERRUPT}});
  Reply reply;
  reply.strings = {"print"};
  reply.text = "t";
  std::vector<Message> all;
  all.emplace_back(Hello{kProtocolVersion, 1, 2, true, "python"});
  all.emplace_back(Welcome{});
  all.emplace_back(Heartbeat{7, "", {}, true});
  all.emplace_back(Heartbeat{8, "barrier()", {1, 2}});
  all.emplace_back(open);
  Execute execute;
  execute.cell = 1;
  execute.ranks = "0-3";
  execute.code = "print(1)";
  all.emplace_back(execute);
  InputReply input;
  input.text = "typed";
  all.emplace_back(input);
  Comm comm;
  comm.kind = SK_COMM_OPEN;
  comm.id = "id";
  comm.target = "jupyter.widget";
  comm.data = "{}";
  all.emplace_back(comm);
  all.emplace_back(Interrupt{1, 0});
  all.emplace_back(Ask{1, SK_REQUEST_COMPLETE, "pri", 3, 0});
  all.emplace_back(reply);
  all.emplace_back(output);
  all.emplace_back(Done{1, SK_CELL_OK, 3});
  all.emplace_back(event);
  event.kind = SK_EVENT_COMM;
  event.comm = comm;
  all.emplace_back(event);
  event.kind = SK_EVENT_REPLY;
  event.reply = reply;
  all.emplace_back(event);
  all.emplace_back(Shutdown{});
  all.emplace_back(Configure{SK_TAG_SPEC, 100, 4096, 65'536});
  all.emplace_back(LogRequest{1, SK_LOG_TEXT, 1, 0, "0-3", 5, 6});
  all.emplace_back(Note{"queue/1", "a cell", true});
  std::vector<std::string> out;
  for (const Message& message : all) out.push_back(frames_of(std::vector<Message>(1, message)));
  out.push_back(frames_of(all));
  // A message in two fragments, so small only here.
  const std::string whole = encode(Shutdown{});
  out.push_back(frames_of(
      {Fragment{whole.size(), 0, whole.substr(0, 8)}, Fragment{whole.size(), 8, whole.substr(8)}}));
  return out;
}

std::vector<std::string> words() { return seeds(); }

}  // namespace sk::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sk::fuzz;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = read_in_pieces(bytes, std::max<size_t>(1, size));
  const Outcome cut = read_in_pieces(bytes, 1 + size % 13);
  require(whole.messages == cut.messages, "the pieces do not matter");
  require(whole.error == cut.error, "the error does not depend on the pieces");
  for (const std::string& message : whole.messages) {
    auto again = sk::control::decode(message);
    require(again.ok(), "what was understood is understood again");
    require(sk::control::encode(*again) == message, "and is said the same way");
  }
  return 0;
}
