// The five sockets of a Jupyter kernel, bound as its connection file says.
#ifndef SK_TOOLS_SK_KERNEL_CHANNELS_H_
#define SK_TOOLS_SK_KERNEL_CHANNELS_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "lib/base/status.h"

namespace sk::kernel {

struct Connection {
  std::string transport = "tcp";
  std::string ip = "127.0.0.1";
  int shell_port = 0;
  int iopub_port = 0;
  int stdin_port = 0;
  int control_port = 0;
  int hb_port = 0;
  std::string key;
  std::string curve_public;  // Z85 of 32 bytes, both or neither.
  std::string curve_secret;

  std::string address(int port) const;
  // Whoever connects has shown that it read the connection file: by CURVE, or as this user by a
  // Unix socket. Else it is known only by the signatures of its messages.
  bool keeps_strangers_out() const { return !curve_public.empty() || transport == "ipc"; }
};

// The ports, as a connect_reply tells them.
struct Ports {
  int shell = 0;
  int iopub = 0;
  int input = 0;
  int control = 0;
  int heartbeat = 0;
};

// `any_address`: the file may name an address that stands for all of this host.
Result<Connection> read_connection_file(const std::string& path, bool any_address);

// One thread uses all but the heartbeat, which has its own: it must answer while we are busy.
class Channels {
 public:
  static Result<std::unique_ptr<Channels>> bind(const Connection& connection);
  ~Channels();

  zmq::socket_t& shell() { return shell_; }
  zmq::socket_t& control() { return control_; }
  zmq::socket_t& iopub() { return iopub_; }
  zmq::socket_t& input() { return input_; }
  const Ports& ports() const { return ports_; }

 private:
  Channels();
  Status bind_one(zmq::socket_t& socket, const Connection& connection, int port, const char* name);
  void echo();

  Ports ports_;
  zmq::context_t context_;
  zmq::socket_t shell_;
  zmq::socket_t control_;
  zmq::socket_t iopub_;  // XPUB: subscriptions are answered by a welcome.
  zmq::socket_t input_;
  zmq::socket_t heartbeat_;
  std::thread echo_thread_;
};

// All parts of the next message, without waiting; nothing when there is none. One of more parts
// than any client's comes as none at all: {}.
std::optional<std::vector<std::string>> receive(zmq::socket_t& socket);
// False when the message could not be sent.
bool send(zmq::socket_t& socket, const std::vector<std::string>& parts);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_CHANNELS_H_
