#include "lib/control/host/stack_probe.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <errno.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/control/host/clock.h"
#include "lib/control/host/own_unwinder.h"
#include "lib/control/stack_text.h"

namespace sk::control {
namespace {

constexpr int kFramesMax = 64;
constexpr int kOwnFrames = 2;  // The handler, and the trampoline that the kernel returns to.
constexpr int kBlockedTries = 10;
constexpr size_t kTextMax = 256 * 1024;

// Written by the handler on the main thread, read by the I/O thread once `answered` says so.
struct Answer {
  std::array<void*, kFramesMax> frames;
  int count = 0;
  std::atomic<uint64_t> answered{0};
};
Answer answer;
std::atomic<uint64_t> asked{0};
std::atomic<uint64_t> language_asked{0}, language_answered{0};
struct sigaction language_handler = {};  // The language's own.

// Files in memory, by where they begin; null: there is none.
struct Files {
  void* library = nullptr;      // libsk, where it is not part of the program.
  void* interpreter = nullptr;  // The language's handler is part of it.
  void* binding = nullptr;      // Called libsk for the language.
  void* c_library = nullptr;
};
Files files;

void* file_of(void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// The binding is known by its call, which this is a part of.
Files find_files(void* language_function) {
  void* const program = file_of(std::bit_cast<void*>(getauxval(AT_ENTRY)));
  void* const own = file_of(reinterpret_cast<void*>(&file_of));
  Files found;
  found.c_library = file_of(reinterpret_cast<void*>(&::poll));
  if (own != program) found.library = own;
  if (language_function == nullptr) return found;
  found.interpreter = file_of(language_function);
  if (found.library == nullptr) return found;
  std::array<void*, kFramesMax> frames;
  const int count = callers(frames);
  for (int i = 0; i < count; ++i) {
    void* const caller = file_of(frames[static_cast<size_t>(i)]);
    if (caller == own) continue;
    if (caller != program && caller != found.interpreter) found.binding = caller;
    break;
  }
  return found;
}

// By what Python calls a C function by name: the user knows which one, and its steps have no names.
bool is_bridge(const char* path) {
  const std::string_view file(path == nullptr ? "" : path);
  const std::string_view name = file.substr(file.rfind('/') + 1);  // From 0 where there is none.
  for (const std::string_view each : {"_ctypes.", "_cffi_backend.", "libffi."})
    if (name.starts_with(each)) return true;
  return false;
}

NativeFrame frame_at(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return {FrameOf::kOther, false};
  const auto is = [&](void* file) { return file != nullptr && info.dli_fbase == file; };
  const FrameOf of = is(files.library)                                    ? FrameOf::kLibrary
                     : is(files.interpreter) || is_bridge(info.dli_fname) ? FrameOf::kInterpreter
                     : is(files.binding)                                  ? FrameOf::kBinding
                     : is(files.c_library)                                ? FrameOf::kCLibrary
                                                                          : FrameOf::kOther;
  return {of, info.dli_sname != nullptr};
}

// Async-signal-safe once callers() was called before, which install() sees to.
void on_signal(int) {
  const int saved = errno;
  const uint64_t question = asked.load(std::memory_order_acquire);
  answer.count = callers(answer.frames);
  answer.answered.store(question, std::memory_order_release);
  errno = saved;
}

// Around the language's handler, whose return is the end of what it writes.
void on_language_signal(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  const uint64_t question = language_asked.load(std::memory_order_acquire);
  if ((language_handler.sa_flags & SA_SIGINFO) != 0)
    language_handler.sa_sigaction(number, info, context);
  else
    language_handler.sa_handler(number);
  language_answered.store(question, std::memory_order_release);
  errno = saved;
}

Status install_around_language(int number) {
  struct sigaction action = {};
  if (sigaction(number, nullptr, &action) != 0)
    return system_error("sk_worker_join: language_stack_signal");
  const bool with_info = (action.sa_flags & SA_SIGINFO) != 0;
  if (with_info && action.sa_sigaction == on_language_signal) return {};
  if (!with_info && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN))
    return error(SK_ERR_INVALID_ARGUMENT,
                 "sk_worker_join: language_stack_signal is {}, which has no handler; install the "
                 "language's own first",
                 number);
  language_handler = action;
  files = find_files(with_info ? reinterpret_cast<void*>(action.sa_sigaction)
                               : reinterpret_cast<void*>(action.sa_handler));
  action.sa_sigaction = on_language_signal;
  // Not blocked while it returns: that would read as a thread that takes no signal.
  action.sa_flags |= SA_SIGINFO | SA_NODEFER;
  if (sigaction(number, &action, nullptr) != 0)
    return system_error("sk_worker_join: language_stack_signal");
  return {};
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string describe(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return fmt::format("{}", address);
  const std::string file = base_name(info.dli_fname);
  if (info.dli_sname == nullptr) {
    // The distance to the file's start is the same on every rank, the address is not.
    const auto offset = static_cast<char*>(address) - static_cast<char*>(info.dli_fbase);
    return fmt::format("+{:#x} ({})", offset, file);
  }
  int failure = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &failure), std::free);
  return fmt::format("{} ({})", plain ? plain.get() : info.dli_sname, file);
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void pause_ms(int ms) { ::poll(nullptr, 0, ms); }

}  // namespace

Status StackProbe::install(const StackProbeConfig& config) {
  config_ = config;
  main_ = pthread_self();
  main_tid_ = static_cast<pid_t>(syscall(SYS_gettid));
  if (files.c_library == nullptr) files = find_files(nullptr);
  if (config.language_signal != 0)
    SK_RETURN_IF_ERROR(install_around_language(config.language_signal));
  if (config.native_signal == 0) return {};
  std::array<void*, 1> frame;
  callers(frame);  // Sets its tables up.
  return handle_native(SA_RESTART);
}

Status StackProbe::handle_native(int flags) const {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = flags | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  if (sigaction(config_.native_signal, &action, nullptr) != 0)
    return system_error("sk_worker_join: stack_signal");
  return {};
}

bool StackProbe::wake_main() {
  if (config_.native_signal == 0 || !handle_native(0).ok()) return false;
  return pthread_kill(main_, config_.native_signal) == 0;
}

bool StackProbe::is_blocked(int signal_number) const {
  const std::string name = fmt::format("/proc/self/task/{}/status", main_tid_);
  std::ifstream status(name);
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigBlk:")) continue;
    const uint64_t blocked = std::strtoull(line.c_str() + 7, nullptr, 16);
    return (blocked >> (signal_number - 1) & 1) != 0;
  }
  return false;
}

// False when the main thread blocks the signal, and not only for a moment, as it does while it
// starts a thread.
bool StackProbe::ask(int signal_number) const {
  for (int tries = 0; is_blocked(signal_number); ++tries) {
    if (tries == kBlockedTries) return false;
    pause_ms(1);
  }
  return pthread_kill(main_, signal_number) == 0;
}

std::string StackProbe::native() {
  if (config_.native_signal == 0) return "";
  (void)handle_native(SA_RESTART);  // A question ends no call of the system.
  const uint64_t question = asked.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (!ask(config_.native_signal)) return from_proc();
  const int64_t until_ns = monotonic_ns() + config_.answer_ns;
  while (answer.answered.load(std::memory_order_acquire) < question) {
    if (monotonic_ns() >= until_ns) return from_proc();
    pause_ms(1);
  }
  std::vector<NativeFrame> frames;
  for (int i = kOwnFrames; i < answer.count; ++i)
    frames.push_back(frame_at(answer.frames[static_cast<size_t>(i)]));
  const bool is_whole = files.interpreter != nullptr && answer.count < kFramesMax;
  std::string text;
  for (const size_t i : telling_frames(frames, is_whole))
    text += describe(answer.frames[i + kOwnFrames]) + "\n";
  return text;
}

// What the kernel says of a thread that takes no signal.
std::string StackProbe::from_proc() const {
  const std::string folder = fmt::format("/proc/self/task/{}/", main_tid_);
  const std::string waits = first_line(folder + "wchan");
  const std::string call = first_line(folder + "syscall");
  const std::string number = call.substr(0, call.find(' '));
  if (number == "running" || waits.empty() || waits == "0")
    return "computing (it blocks signals)\n";
  return fmt::format("{} (the kernel, system call {}; it blocks signals)\n", waits, number);
}

std::string StackProbe::language() {
  if (config_.language_signal == 0) return "";
  if (ftruncate(config_.language_fd, 0) != 0 || lseek(config_.language_fd, 0, SEEK_SET) != 0)
    return "";
  const uint64_t question = language_asked.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (!ask(config_.language_signal)) return "";
  // Another handler may have taken the place of ours: then what is there in time is all.
  const int64_t until_ns = monotonic_ns() + config_.answer_ns;
  while (language_answered.load(std::memory_order_acquire) < question && monotonic_ns() < until_ns)
    pause_ms(1);
  struct stat written {};
  if (fstat(config_.language_fd, &written) != 0) return "";
  std::string text(std::min(static_cast<size_t>(written.st_size), kTextMax), '\0');
  const ssize_t got = pread(config_.language_fd, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

}  // namespace sk::control
