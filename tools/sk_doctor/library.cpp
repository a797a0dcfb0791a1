#include "tools/sk_doctor/library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>

#include "tools/sk_doctor/child.h"
#include "tools/sk_kernel/spec_places.h"

namespace sk::doctor {
namespace {

constexpr int64_t kProbeNs = 30'000'000'000;  // A GPU's first context takes seconds.

std::string file_of(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  char* real = realpath(info.dli_fname, nullptr);
  const std::string path = real != nullptr ? real : info.dli_fname;
  std::free(real);
  return path;
}

// Keeps what follows "target: " of the communicator's log.
void keep_target(void* user, int32_t, const char*, const char* message) {
  const std::string line = message;
  constexpr std::string_view kMark = "target: ";
  const size_t at = line.find(kMark);
  if (at != std::string::npos) *static_cast<std::string*>(user) = line.substr(at + kMark.size());
}

std::string facts_of(const Library& library) {
  std::string text(4096, '\0');
  size_t size = 0;
  while (library.host_facts(text.data(), text.size(), &size) == SK_ERR_OUT_OF_RANGE)
    text.resize(size + 1);
  text.resize(size);
  return text;
}

// A world of one, on the CPU or on the first GPU.
void ask(const Library& library, bool gpu, Json* said) {
  std::string target;
  sk_config config{};
  config.struct_size = sizeof(config);
  config.log_level = SK_LOG_INFO;
  config.log = keep_target;
  config.log_user = &target;
  sk_context* context = nullptr;
  sk_comm* comm = nullptr;
  sk_status status = library.init(&config, &context);
  if (status == SK_OK) {
    sk_comm_config one{};
    one.struct_size = sizeof(one);
    one.bootstrap = SK_BOOTSTRAP_THREADS;
    one.world_size = 1;
    one.name = "sk doctor";
    one.device_type = gpu ? SK_DEVICE_CUDA : SK_DEVICE_CPU;
    status = library.comm_create(context, &one, &comm);
  }
  if (status != SK_OK) (*said)["refused"] = printable(library.last_error());
  if (comm != nullptr) (void)library.comm_free(comm);
  if (context != nullptr) (void)library.finalize(context);
  (*said)["target"] = printable(target);
}

int answer(const std::string& name, Wanted wanted) {
  if (wanted == Wanted::kCpuAtItsBest) unsetenv("SK_CPU_ISA");
  auto library = Library::load(name);
  Json said = Json::object();
  if (!library.ok()) {
    said["failure"] = printable(library.status().message());
  } else {
    said["path"] = printable(library->path);
    said["version"] = version_text(library->version());
    if (wanted != Wanted::kVersion) {
      said["facts"] = Json::parse(facts_of(*library), nullptr, false);
      ask(*library, wanted == Wanted::kGpu, &said);
    }
  }
  const std::string text = said.dump(-1, ' ', false, Json::error_handler_t::replace);
  return write(1, text.data(), text.size()) == ssize_t(text.size()) ? 0 : 124;
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const size_t begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? -1 : begin));
}

}  // namespace

Result<Library> Library::load(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return error(SK_ERR_SYSTEM, "{}", dlerror());
  Library library;
#define SK_DOCTOR_LOOK_UP(call)                                                        \
  library.call = reinterpret_cast<decltype(library.call)>(dlsym(handle, "sk_" #call)); \
  if (library.call == nullptr) return error(SK_ERR_UNSUPPORTED, "{} has no sk_" #call "()", name);
  SK_DOCTOR_CALLS(SK_DOCTOR_LOOK_UP)
#undef SK_DOCTOR_LOOK_UP
  library.path = file_of(reinterpret_cast<void*>(library.version));
  return library;
}

std::string version_text(int32_t version) {
  return fmt::format("{}.{}.{}", version / 1'000'000, version / 1'000 % 1'000, version % 1'000);
}

std::string own_version() {
  return fmt::format("{}.{}.{}", SK_VERSION_MAJOR, SK_VERSION_MINOR, SK_VERSION_PATCH);
}

std::string chosen_library() {
  const std::string beside = kernel::library_beside_program();
  return beside.empty() ? "libsk.so.0" : beside;
}

std::string Probe::isa() const {
  const size_t end = target.rfind(" here");
  if (end == std::string::npos) return "";
  const size_t begin = target.find_last_of(' ', end - 1);
  return target.substr(begin == std::string::npos ? 0 : begin + 1, end - begin - 1);
}

Probe probe(const std::string& name, Wanted wanted) {
  const Outcome outcome = in_child([&] { return answer(name, wanted); }, kProbeNs);
  const Json said = Json::parse(outcome.out, nullptr, false);
  Probe probe;
  probe.not_started = outcome.not_started;
  if (!said.is_object()) {
    probe.failure = fmt::format("its process {} {}", outcome.failure, last_line(outcome.err));
    return probe;
  }
  probe.path = said.value("path", "");
  probe.version = said.value("version", "");
  probe.failure = said.value("failure", "");
  probe.target = said.value("target", "");
  probe.refused = said.value("refused", "");
  probe.facts = said.value("facts", Json::object());
  if (probe.failure.empty() && !outcome.failure.empty())
    probe.failure = fmt::format("its process {} behind the answer", outcome.failure);
  return probe;
}

}  // namespace sk::doctor
