#include "tools/sk_doctor/variables.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "lib/base/flag.h"
#include "lib/record/folder.h"
#include "tools/sk_kernel/lease.h"
#include "tools/sk_kernel/preload.h"
#include "tools/sk_kernel/rank_count.h"
#include "transport/bootstrap/env.h"
#include "transport/bootstrap/identity.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/secret_fd.h"
#include "transport/local/fd.h"
#include "transport/tcp/tcp.h"

namespace sk::doctor {
namespace {

constexpr double kPreloadSecondsMax = 86'400;

EnvLookup only(const char* name, const std::string& text) {
  return [name, text](const char* asked) {
    return std::string_view(asked) == name ? std::optional(text) : std::nullopt;
  };
}

template <typename T>
Status status_of(Result<T> result) {
  return result.ok() ? Status() : std::move(result.status());
}

Status check_port(const std::string& text) {
  return status_of(read_number(only("SK_MASTER_PORT", text), "SK_MASTER_PORT", 1, 65535));
}

Status check_listen(const std::string& text) {
  return status_of(listens_anywhere(only("SK_LISTEN", text)));
}

// It is looked at and left as it is: a pipe gives its bytes once.
Status check_secret_fd(const std::string& text) { return status_of(find_secret_fd(text)); }

Status check_secret_file(const std::string& text) {
  return status_of(read_job_secret(only("SK_JOB_SECRET_FILE", text)));
}

Status check_secret_text(const std::string& text) {
  return status_of(read_job_secret(only("SK_JOB_SECRET", text)));
}

Status check_tls_flag(const std::string& text) { return status_of(parse_flag("SK_NET_TLS", text)); }
Status check_silence(const std::string& text) { return status_of(read_silence_ms(text)); }
Status check_eager_ranks(const std::string& text) { return status_of(read_eager_ranks(text)); }
Status check_pairs(const std::string& text) { return status_of(parse_flag("SK_GPU_PAIRS", text)); }
Status check_template(const std::string& text) {
  return status_of(parse_flag("SK_TEMPLATE", text));
}

Status check_rank_count(const std::string& text) {
  return status_of(kernel::parse_rank_count("SK_NRANKS", text));
}

Status check_modules(const std::string& text) {
  return text.empty() ? Status() : status_of(kernel::parse_modules("SK_PRELOAD", text));
}

// Read by the rank's Python, which takes its default where there is no sense in it.
Status check_preload_limit(const std::string& text) {
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, seconds);
  if (code == std::errc() && stop == end && seconds > 0 && seconds <= kPreloadSecondsMax) return {};
  return error(SK_ERR_INVALID_ARGUMENT,
               "SK_PRELOAD_LIMIT_S is \"{}\": it must be a number of seconds above 0, {} at most",
               text, kPreloadSecondsMax);
}

Status check_lease(const std::string& text) { return status_of(kernel::parse_lease(text)); }

Status check_record(const std::string& text) {
  return status_of(record::read_settings(only("SK_RECORD", text)));
}
Status check_record_folder(const std::string& text) {
  return status_of(record::read_settings(only("SK_RECORD_DIR", text)));
}
Status check_record_time(const std::string& text) {
  return status_of(record::read_settings(only("SK_RECORD_KEEP_S", text)));
}

// As a shell would find it.
Status check_program(const std::string& text) {
  if (text.empty()) return {};
  const char* path = std::getenv("PATH");
  std::istringstream folders(text.find('/') == std::string::npos && path != nullptr ? path : "");
  std::vector<std::string> places;
  for (std::string folder; std::getline(folders, folder, ':');)
    places.push_back(fmt::format("{}/{}", folder, text));
  if (places.empty()) places.push_back(text);
  std::error_code missing;
  for (const std::string& place : places)
    if (std::filesystem::is_regular_file(place, missing) && access(place.c_str(), X_OK) == 0)
      return {};
  return error(SK_ERR_SYSTEM, "SK_PROGRAM is \"{}\": there is no such program", text);
}

Status check_folder(const std::string& text) {
  if (text.empty()) return {};
  const local::Fd file(open(text.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.open()) return {};
  return system_error(fmt::format("TMPDIR is \"{}\", where no temporary file can be", text));
}

// Which its controller sets for a rank, which takes them out.
Status check_private(const std::string&) {
  return error(SK_ERR_INVALID_ARGUMENT,
               "a variable that notebooks set for a rank alone is set here: SK_WORKER_FD, "
               "SK_TEMPLATE_FD or SK_CAPTURE_FDS");
}

// All that docs/env.md has and that begin so, and what others set that notebooks read.
constexpr std::array<Variable, 30> kVariables = {{
    {"SK_BOOTSTRAP", Reader::kRanks, nullptr},  // See read_identity(): "job".
    {"SK_JOB_ID", Reader::kRanks, nullptr},
    {"SK_MASTER_PORT", Reader::kRanksOfHosts, check_port},
    {"SK_LISTEN", Reader::kRanksOfHosts, check_listen},
    {"SK_JOB_SECRET_FD", Reader::kRanksOfHosts, check_secret_fd},
    {"SK_JOB_SECRET_FILE", Reader::kRanks, check_secret_file},
    {"SK_JOB_SECRET", Reader::kRanks, check_secret_text},
    {"SK_NET", Reader::kRanksOfHosts, nullptr},         // "network"
    {"SK_PORT_RANGE", Reader::kRanksOfHosts, nullptr},  // "ports"
    {"SK_NET_TLS", Reader::kRanksOfHosts, check_tls_flag},
    {"SK_NET_SILENCE_S", Reader::kRanksOfHosts, check_silence},
    {"SK_NET_EAGER_RANKS", Reader::kRanksOfHosts, check_eager_ranks},
    {"SK_WORKERS", Reader::kRanks, nullptr},  // "isa", and the next.
    {"SK_CPU_ISA", Reader::kRanks, nullptr},
    {"SK_GPU_PAIRS", Reader::kRanks, check_pairs},
    {"SK_LIBRARY", Reader::kRanks, nullptr},  // "library"
    {"SK_LOG", Reader::kRanks, nullptr},      // "isa"
    {"SK_RECORD", Reader::kRanks, check_record},
    {"SK_RECORD_DIR", Reader::kRanks, check_record_folder},
    {"SK_RECORD_KEEP_S", Reader::kRanks, check_record_time},
    {"SK_NRANKS", Reader::kNotebooks, check_rank_count},
    {"SK_PROGRAM", Reader::kNotebooks, check_program},
    {"SK_WORKER_FD", Reader::kNotebooks, check_private},
    {"SK_PRELOAD", Reader::kNotebooks, check_modules},
    {"SK_PRELOAD_LIMIT_S", Reader::kNotebooks, check_preload_limit},
    {"SK_TEMPLATE", Reader::kNotebooks, check_template},
    {"SK_TEMPLATE_FD", Reader::kNotebooks, check_private},
    {"SK_CAPTURE_FDS", Reader::kNotebooks, check_private},
    {"SK_LEASE_S", Reader::kNotebooks, check_lease},
    {"TMPDIR", Reader::kNotebooks, check_folder},
}};

}  // namespace

std::span<const Variable> variables() { return kVariables; }

bool is_read_in(Reader reader, Run run) {
  if (run == Run::kMachine || reader == Reader::kRanks) return true;
  return reader == Reader::kRanksOfHosts && run == Run::kRanksOfHosts;
}

bool is_known_variable(std::string_view name) {
  return std::any_of(kVariables.begin(), kVariables.end(),
                     [&](const Variable& each) { return each.name == name; });
}

bool is_secret(std::string_view name) { return name.rfind("SK_JOB_SECRET", 0) == 0; }

}  // namespace sk::doctor
