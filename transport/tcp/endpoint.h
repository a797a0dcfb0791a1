// An endpoint over TCP, and the thread that drives it while nobody waits.
#ifndef SK_TRANSPORT_TCP_ENDPOINT_H_
#define SK_TRANSPORT_TCP_ENDPOINT_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/stream/endpoint.h"

namespace sk::tcp {

class TcpEndpoint final : public stream::HostsEndpoint {
 public:
  TcpEndpoint(std::unique_ptr<Endpoint> local, std::vector<stream::Remote> remotes,
              std::unique_ptr<stream::Readiness> readiness,
              std::unique_ptr<stream::Joiner> joiner = nullptr);
  ~TcpEndpoint() override;
  // Before the first call.
  Status start();

 private:
  void drive_while_nobody_does();
  bool stopping_within_a_look();
  bool drive_once();

  std::unique_ptr<std::thread> thread_;
  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
};

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_ENDPOINT_H_
