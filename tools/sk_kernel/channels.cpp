#include "tools/sk_kernel/channels.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace sk::kernel {
namespace {

constexpr size_t kCurveKeyBytes = 40;  // 32 bytes in Z85.
constexpr int kLingerMs = 1000;        // For the last messages before the exit.

// A front end that is started again has the ports of the one before, which may still be about to
// end; and each is among those that the system gives to any connection for as long as that lasts.
constexpr std::chrono::seconds kBindWait{15};
constexpr std::chrono::milliseconds kBindPause{20};

// Of one part. Above a cell of 64 MiB as JSON text, and what widgets upload; one that sends a
// larger one is cut off before any of it is kept.
constexpr int64_t kPartBytesMax = 256 << 20;
constexpr int64_t kWordBytesMax = 64 << 10;  // A heartbeat, or the topic of a subscription.
constexpr size_t kPartsMax = 4096;

// Whether it stands for every address of this host, however that is written.
bool is_wildcard(std::string host) {
  if (host == "*") return true;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  bool wild = false;
  for (const addrinfo* each = found; each != nullptr && !wild; each = each->ai_next) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(each->ai_addr);
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(each->ai_addr);
    wild = (each->ai_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY)) ||
           (each->ai_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr));
  }
  freeaddrinfo(found);
  return wild;
}

// What a file would let strangers do that nobody asked for.
Status check_exposed(const Connection& c, const std::string& path, bool any_address) {
  if (c.key.empty())
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the connection file {} has an empty key: whoever reaches the kernel's ports "
                 "could run code as this user. Jupyter writes a key unless Session.key is set to "
                 "\"\"",
                 path);
  if (c.transport == "tcp" && !any_address && is_wildcard(c.ip))
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the connection file {} has ip \"{}\", every address of this host: name one "
                 "(KernelManager.ip), or put --any-address behind `sk kernel` in the kernelspec's "
                 "argv",
                 path, c.ip);
  return {};
}

// Waits a while for a port that another socket has.
void bind_patiently(zmq::socket_t& socket, const std::string& address, const char* name) {
  const auto until = std::chrono::steady_clock::now() + kBindWait;
  for (bool is_first = true;; is_first = false) {
    try {
      return socket.bind(address);
    } catch (const zmq::error_t& thrown) {
      if (thrown.num() != EADDRINUSE || std::chrono::steady_clock::now() > until) throw;
    }
    if (is_first)
      std::fprintf(stderr, "sk kernel: waiting for %s, the %s channel's address, which is in use\n",
                   address.c_str(), name);
    std::this_thread::sleep_for(kBindPause);
  }
}

}  // namespace

std::string Connection::address(int port) const {
  if (transport == "ipc") return fmt::format("ipc://{}-{}", ip, port);
  return fmt::format("{}://{}:{}", transport, ip, port);
}

Result<Connection> read_connection_file(const std::string& path, bool any_address) {
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
  SK_RETURN_IF_ERROR(check_exposed(c, path, any_address));
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
    const bool takes_words = &socket == &heartbeat_ || &socket == &iopub_;
    socket.set(zmq::sockopt::maxmsgsize, takes_words ? kWordBytesMax : kPartBytesMax);
    // One that is gone without a word is noticed, and its identity free again, after a minute.
    socket.set(zmq::sockopt::tcp_keepalive, 1);
    socket.set(zmq::sockopt::tcp_keepalive_idle, 30);
    socket.set(zmq::sockopt::tcp_keepalive_intvl, 10);
    socket.set(zmq::sockopt::tcp_keepalive_cnt, 3);
    if (!connection.curve_public.empty()) {
      socket.set(zmq::sockopt::curve_server, true);
      socket.set(zmq::sockopt::curve_publickey, connection.curve_public);
      socket.set(zmq::sockopt::curve_secretkey, connection.curve_secret);
    }
    // The name of a Unix socket is for this user. No other thread makes a file yet.
    const mode_t mask = umask(0077);
    const auto restore = [mask] { umask(mask); };
    try {
      bind_patiently(socket, address, name);
    } catch (const zmq::error_t&) {
      restore();
      throw;
    }
    restore();
  } catch (const zmq::error_t& thrown) {
    return error(SK_ERR_TRANSPORT,
                 "cannot bind the {} channel to {}: {}; a restart that lets Jupyter choose new "
                 "ports helps",
                 name, address, thrown.what());
  }
  return {};
}

Result<std::unique_ptr<Channels>> Channels::bind(const Connection& c) {
  std::unique_ptr<Channels> channels(new Channels);
  // Replies to a client that went away are dropped by a router; everything else may queue.
  channels->iopub_.set(zmq::sockopt::sndhwm, 0);
  channels->iopub_.set(zmq::sockopt::xpub_verboser, 1);
  // A client whose connection broke off comes again as the one it was. Where anybody can connect,
  // anybody could say that it is that client, and have its replies.
  channels->shell_.set(zmq::sockopt::router_handover, c.keeps_strangers_out());
  channels->control_.set(zmq::sockopt::router_handover, c.keeps_strangers_out());
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
  size_t count = 0;
  while (true) {
    zmq::message_t part;
    const auto flags = count == 0 ? zmq::recv_flags::dontwait : zmq::recv_flags::none;
    try {
      if (!socket.recv(part, flags)) return std::nullopt;
    } catch (const zmq::error_t& thrown) {
      if (thrown.num() == EINTR) continue;
      return std::nullopt;
    }
    if (++count <= kPartsMax)
      parts.emplace_back(static_cast<const char*>(part.data()), part.size());
    else
      parts.clear();
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
