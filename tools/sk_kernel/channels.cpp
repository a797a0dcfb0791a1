#include "tools/sk_kernel/channels.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace sk::kernel {
namespace {

constexpr size_t kCurveKeyBytes = 40;  // 32 bytes in Z85.
constexpr int kLingerMs = 1000;        // For the last messages before the exit.

}  // namespace

std::string Connection::address(int port) const {
  if (transport == "ipc") return fmt::format("ipc://{}-{}", ip, port);
  return fmt::format("{}://{}:{}", transport, ip, port);
}

Result<Connection> read_connection_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return error(SK_ERR_INVALID_ARGUMENT, "cannot read the connection file {}", path);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return error(SK_ERR_INVALID_ARGUMENT, "the connection file {} holds no JSON object", path);
  Connection c;
  for (const auto& [name, port] :
       {std::pair("shell_port", &c.shell_port), std::pair("iopub_port", &c.iopub_port),
        std::pair("stdin_port", &c.stdin_port), std::pair("control_port", &c.control_port),
        std::pair("hb_port", &c.hb_port)}) {
    if (!json.contains(name) || !json[name].is_number_integer())
      return error(SK_ERR_INVALID_ARGUMENT, "the connection file {} has no number {}", path, name);
    *port = json[name].get<int>();
    if (*port < 0 || *port > 65'535)
      return error(SK_ERR_INVALID_ARGUMENT, "the connection file {}: {} is {}", path, name, *port);
  }
  for (const auto& [name, text] :
       {std::pair("transport", &c.transport), std::pair("ip", &c.ip), std::pair("key", &c.key),
        std::pair("curve_publickey", &c.curve_public),
        std::pair("curve_secretkey", &c.curve_secret)}) {
    if (json.contains(name) && json[name].is_string()) *text = json[name].get<std::string>();
  }
  if (c.curve_public.empty() != c.curve_secret.empty())
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the connection file {} has one of curve_publickey and curve_secretkey; "
                 "encryption needs both",
                 path);
  for (const std::string* key : {&c.curve_public, &c.curve_secret})
    if (!key->empty() && key->size() != kCurveKeyBytes)
      return error(SK_ERR_INVALID_ARGUMENT,
                   "the connection file {} has a CURVE key of {} characters; Z85 keys have {}",
                   path, key->size(), kCurveKeyBytes);
  const std::string scheme = json.value("signature_scheme", "hmac-sha256");
  if (scheme != "hmac-sha256")
    return error(SK_ERR_UNSUPPORTED, "the connection file {}: signature_scheme is {}; known is {}",
                 path, scheme, "hmac-sha256");
  return c;
}

Channels::Channels()
    : shell_(context_, zmq::socket_type::router),
      control_(context_, zmq::socket_type::router),
      iopub_(context_, zmq::socket_type::xpub),
      input_(context_, zmq::socket_type::router),
      heartbeat_(context_, zmq::socket_type::router) {}

Status Channels::bind_one(zmq::socket_t& socket, const Connection& connection, int port,
                          const char* name) {
  const std::string address = connection.address(port);
  try {
    socket.set(zmq::sockopt::linger, kLingerMs);
    if (!connection.curve_public.empty()) {
      socket.set(zmq::sockopt::curve_server, true);
      socket.set(zmq::sockopt::curve_publickey, connection.curve_public);
      socket.set(zmq::sockopt::curve_secretkey, connection.curve_secret);
    }
    socket.bind(address);
  } catch (const zmq::error_t& thrown) {
    return error(SK_ERR_TRANSPORT, "cannot bind the {} channel to {}: {}", name, address,
                 thrown.what());
  }
  return {};
}

Result<std::unique_ptr<Channels>> Channels::bind(const Connection& c) {
  std::unique_ptr<Channels> channels(new Channels);
  // Replies to a client that went away are dropped by a router; everything else may queue.
  channels->iopub_.set(zmq::sockopt::sndhwm, 0);
  channels->iopub_.set(zmq::sockopt::xpub_verboser, 1);
  channels->shell_.set(zmq::sockopt::router_handover, true);
  channels->control_.set(zmq::sockopt::router_handover, true);
  SK_RETURN_IF_ERROR(channels->bind_one(channels->shell_, c, c.shell_port, "shell"));
  SK_RETURN_IF_ERROR(channels->bind_one(channels->control_, c, c.control_port, "control"));
  SK_RETURN_IF_ERROR(channels->bind_one(channels->iopub_, c, c.iopub_port, "iopub"));
  SK_RETURN_IF_ERROR(channels->bind_one(channels->input_, c, c.stdin_port, "stdin"));
  SK_RETURN_IF_ERROR(channels->bind_one(channels->heartbeat_, c, c.hb_port, "heartbeat"));
  channels->ports_ = {c.shell_port, c.iopub_port, c.stdin_port, c.control_port, c.hb_port};
  channels->echo_thread_ = std::thread([raw = channels.get()] { raw->echo(); });
  return channels;
}

void Channels::echo() {
  try {
    while (true) {
      zmq::message_t part;
      if (!heartbeat_.recv(part)) continue;
      const bool more = part.more();
      heartbeat_.send(part, more ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  } catch (const zmq::error_t&) {
    heartbeat_.close();  // The context was shut down: the end of this thread.
  }
}

Channels::~Channels() {
  // Sockets are closed by their own threads; shutdown() makes the heartbeat's receive return.
  shell_.close();
  control_.close();
  iopub_.close();
  input_.close();
  context_.shutdown();
  if (echo_thread_.joinable()) echo_thread_.join();
}

std::optional<std::vector<std::string>> receive(zmq::socket_t& socket) {
  std::vector<std::string> parts;
  while (true) {
    zmq::message_t part;
    const auto flags = parts.empty() ? zmq::recv_flags::dontwait : zmq::recv_flags::none;
    try {
      if (!socket.recv(part, flags)) return std::nullopt;
    } catch (const zmq::error_t& thrown) {
      if (thrown.num() == EINTR) continue;
      return std::nullopt;
    }
    parts.emplace_back(static_cast<const char*>(part.data()), part.size());
    if (!part.more()) return parts;
  }
}

bool send(zmq::socket_t& socket, const std::vector<std::string>& parts) {
  try {
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool last = i + 1 == parts.size();
      if (!socket.send(zmq::buffer(parts[i]),
                       last ? zmq::send_flags::none : zmq::send_flags::sndmore))
        return false;
    }
  } catch (const zmq::error_t&) {
    return false;
  }
  return true;
}

}  // namespace sk::kernel
