// libsk as programs see it: a shared library, loaded by its path, and its C ABI.
//
// This program has parts of the library inside; only what is loaded tells what a rank will run, and
// that the two are of different installations.
#ifndef SK_TOOLS_SK_DOCTOR_LIBRARY_H_
#define SK_TOOLS_SK_DOCTOR_LIBRARY_H_

#include <string>

#include "lib/base/status.h"
#include "sk.h"
#include "tools/sk_doctor/finding.h"

namespace sk::doctor {

// What of the C ABI is used here.
#define SK_DOCTOR_CALLS(call)                                                                      \
  call(version) call(status_name) call(last_error) call(init) call(finalize) call(send) call(recv) \
      call(barrier) call(host_facts) call(comm_create) call(comm_free) call(comm_query)

struct Library {
#define SK_DOCTOR_FIELD(name) decltype(&::sk_##name) name = nullptr;
  SK_DOCTOR_CALLS(SK_DOCTOR_FIELD)
#undef SK_DOCTOR_FIELD
  std::string path;  // Of the file that was loaded.

  // For the rest of this process. `name`: a path, or what the loader looks up.
  static Result<Library> load(const std::string& name);

  // This thread's last failed call, whose code this is.
  Status failure(sk_status code) const { return {code, last_error()}; }
};

// "0.1.0"
std::string version_text(int32_t version);
std::string own_version();

// The library of this installation, else what the loader finds.
std::string chosen_library();

// What a library says in a process of its own.
struct Probe {
  std::string path, version;
  std::string failure;       // Why it cannot be loaded, or what it did to its process; "": nothing.
  bool not_started = false;  // There was no process to load it.
  std::string
      target;  // What a rank computes on, as its log has it: "1 workers a rank, ..., amx here"
  std::string refused;  // The sentence of a world of one that was refused; "": it was not.
  Json facts;           // sk_host_facts().

  std::string isa() const;  // The last of `target`: "amx".
};

enum class Wanted : uint8_t {
  kVersion,       // path and version alone.
  kCpu,           // All of it.
  kCpuAtItsBest,  // Without SK_CPU_ISA.
  kGpu,           // `refused` is what it says of a communicator on the first GPU.
};

Probe probe(const std::string& name, Wanted wanted);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_LIBRARY_H_
