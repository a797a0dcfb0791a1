// Passes the ranks' output on, line by line with "[rank N] " before each. Never blocks.
#ifndef SK_TOOLS_SK_RELAY_H_
#define SK_TOOLS_SK_RELAY_H_

#include <poll.h>

#include <string>
#include <vector>

namespace sk::tools {

class Relay {
 public:
  Relay() = default;
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay();

  // `from` is the reading end of a pipe, owned from here on; `to` is STDOUT_FILENO or
  // STDERR_FILENO.
  void add(int from, int to, int rank);

  void append_polls(std::vector<pollfd>& polls) const;
  void pump();               // Reads and writes what can be.
  bool has_pending() const;  // Something was read that is not written yet.
  bool done() const;         // Every pipe has ended and all is written.
  void finish();             // No more will be read: lines without an end get one.

 private:
  struct Source {
    int fd;  // -1 after its end.
    int to;
    int rank;
    std::string line;
  };
  struct Target {
    int fd;
    std::string pending;
    bool broken = false;  // Nobody reads it any more: what comes is dropped.
  };
  Target& target(int fd);
  const Target& target(int fd) const;
  void read_source(Source& source);
  void emit(Source& source, size_t end);
  void write_target(Target& target);

  std::vector<Source> sources_;
  Target out_{1, {}};
  Target err_{2, {}};
};

}  // namespace sk::tools

#endif  // SK_TOOLS_SK_RELAY_H_
