#include "tools/sk_kernel/install_julia.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <vector>

#include "tools/sk_kernel/progress.h"
#include "tools/sk_kernel/spec_places.h"
#include "transport/local/link.h"
#include "transport/local/process.h"

namespace sk::kernel {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAskMs = 120'000;
constexpr int64_t kImageMs = 1'800'000;
constexpr int64_t kTickMs = 1'000;
constexpr size_t kSaidMax = 600;  // Of a failure's words.
// Lines of make_image.jl, among others, that tell what it does from there on.
constexpr std::string_view kStep = "step: ";

// Says what is wrong by its exit status; else its version and its system image, one a line. The
// last test is whether exceptions through compiled code work.
constexpr const char* kProbe =
    "VERSION >= v\"1.5\" || (println(VERSION); exit(3))\n"
    "for name in (\"Base64\", \"FileWatching\", \"InteractiveUtils\", \"Libdl\", \"Logging\", "
    "\"Markdown\", \"REPL\")\n"
    "  Base.find_package(name) === nothing && (println(name); exit(4))\n"
    "end\n"
    "println(VERSION, '\\n', unsafe_string(Base.JLOptions().image_file))\n"
    "flush(stdout)\n"
    "thrown(x) = try error(\"x\") catch; x end\n"
    "thrown(7)\n";

struct Finished {
  bool in_time = false;
  local::ExitStatus end;
  std::vector<std::string> lines;  // On stdout.
  std::string said;                // On stderr, the end of it.
};

// Shows the steps in the lines of `text` behind `shown`, which then is behind them.
void show_steps(Progress& progress, std::string_view text, size_t& shown) {
  for (size_t end; (end = text.find('\n', shown)) != std::string_view::npos; shown = end + 1) {
    const std::string_view line = text.substr(shown, end - shown);
    if (line.starts_with(kStep)) progress.step(line.substr(kStep.size()));
  }
}

// Reads stdout to its end. False: it did not come in time.
bool read_all(int fd, std::string& text, int64_t timeout_ms, Progress* progress) {
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  size_t shown = 0;
  while (steady_clock::now() < until) {
    if (local::wait_for(fd, false, progress == nullptr ? timeout_ms : kTickMs)) {
      if (local::read_some(fd, text) != local::ReadResult::kData) return true;
      if (progress != nullptr) show_steps(*progress, text, shown);
    }
    if (progress != nullptr) progress->tick();
  }
  return false;
}

Result<Finished> run(const std::vector<std::string>& argv, int64_t timeout_ms,
                     Progress* progress = nullptr) {
  SK_ASSIGN_OR_RETURN(auto out, local::pipe_pair());
  SK_ASSIGN_OR_RETURN(auto errors, local::pipe_pair());
  local::SpawnSpec spec;
  spec.argv = argv;
  spec.fds = {{out.second.get(), 1}, {errors.second.get(), 2}};
  SK_ASSIGN_OR_RETURN(local::Process process, local::Process::spawn(spec));
  out.second.reset();
  errors.second.reset();
  Finished finished;
  std::string text;
  // Each to its end; a program that writes pages to the other meanwhile is none that we run.
  const bool ended = read_all(out.first.get(), text, timeout_ms, progress);
  while (local::wait_for(errors.first.get(), false, 1'000) &&
         local::read_some(errors.first.get(), finished.said) == local::ReadResult::kData) {
  }
  if (ended) local::wait_for(process.pidfd(), false, kAskMs);
  const auto end = process.try_reap();
  finished.in_time = end.has_value();
  if (!end)
    process.signal_group(SIGKILL);
  else
    finished.end = *end;
  if (finished.said.size() > kSaidMax) finished.said.erase(0, finished.said.size() - kSaidMax);
  while (!finished.said.empty() && finished.said.back() == '\n') finished.said.pop_back();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) finished.lines.push_back(line);
  return finished;
}

bool ended_well(const Finished& finished) {
  return finished.in_time && !finished.end.signaled && finished.end.code == 0;
}

// A wrapper may be between, which turns the signal into a status.
bool crashed(const Finished& finished) {
  return finished.in_time &&
         (finished.end.signaled ? finished.end.code == SIGSEGV || finished.end.code == SIGABRT
                                : finished.end.code == 128 + SIGSEGV);
}

// Its path; "": it is not there.
std::string in_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return fs::absolute(program).lexically_normal();
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string found = folder.append("/").append(program);
    if (access(found.c_str(), X_OK) == 0) return found;
  }
  return "";
}

Result<Finished> ask_julia(const std::string& julia) {
  SK_ASSIGN_OR_RETURN(Finished asked, run({julia, "--startup-file=no", "-e", kProbe}, kAskMs));
  const std::string first = asked.lines.empty() ? "" : asked.lines[0];
  const int code = asked.in_time && !asked.end.signaled ? asked.end.code : 0;
  if (code == 3)
    return error(SK_ERR_INVALID_ARGUMENT, "{} is Julia {}; 1.5 or later is needed", julia, first);
  if (code == 4)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} has no package {}, which belongs to Julia's own (in Debian julia-common)",
                 julia, first);
  if (crashed(asked) && asked.lines.size() == 2)
    return error(
        SK_ERR_INVALID_ARGUMENT,
        "{} crashes when an exception leaves compiled code: it runs with a libunwind that "
        "it was not built for. Debian 11's Julia needs Debian 11's libunwind8 loaded first "
        "(LD_PRELOAD): name a program that does so with --julia",
        julia);
  if (!ended_well(asked) || asked.lines.size() != 2)
    return error(SK_ERR_SYSTEM, "{} did not say its version{}{}", julia,
                 asked.said.empty() ? "" : ": ", asked.said);
  return asked;
}

// The linker by a compiler's name, which every distribution has with it.
std::string linker() {
  for (const char* name : {"cc", "gcc", "clang"})
    if (std::string path = in_path(name); !path.empty()) return path;
  return "";
}

}  // namespace

Status find_julia(const std::string& given, SpecValues& values) {
  const std::string julia = in_path(given.empty() ? "julia" : given);
  if (julia.empty() || !why_not_startable(julia).empty())
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} is not there or no program; install Julia 1.5 or later, or name it with "
                 "--julia FILE",
                 julia.empty() ? "julia (in PATH)" : julia);
  SK_ASSIGN_OR_RETURN(const Finished asked, ask_julia(julia));
  values.program = julia;
  values.language_version = asked.lines[0];
  const char* said = std::getenv("SK_LIBRARY");
  values.libsk =
      said != nullptr && *said != 0 ? fs::absolute(said).string() : library_beside_program();
  if (values.libsk.empty() || access(values.libsk.c_str(), R_OK) != 0)
    return error(SK_ERR_INVALID_ARGUMENT, "libsk.so.0 {}; name it with the variable SK_LIBRARY",
                 values.libsk.empty() ? "does not lie with " + values.sk
                                      : "cannot be read at " + values.libsk);
  return {};
}

Result<std::string> make_julia_image(const std::string& folder, const SpecValues& values) {
  const std::string cc = linker();
  if (cc.empty())
    return error(SK_ERR_UNSUPPORTED, "no C compiler (cc, gcc, clang) is in PATH to link it");
  SK_ASSIGN_OR_RETURN(const Finished asked, ask_julia(values.program));
  const std::string object = folder + "/rank/image.o", image = folder + "/rank/image.so";
  std::error_code none;
  fs::remove(image, none);
  Progress progress(stdout);
  progress.step("starting julia");
  SK_ASSIGN_OR_RETURN(
      const Finished made,
      run({values.program, "--startup-file=no", "-J", asked.lines[1], "--cpu-target=generic",
           "--output-o", object, folder + "/rank/make_image.jl"},
          kImageMs, &progress));
  if (!ended_well(made) || !fs::exists(object, none)) {
    fs::remove(object, none);
    return error(SK_ERR_SYSTEM, "julia --output-o failed{}{}", made.said.empty() ? "" : ": ",
                 made.said);
  }
  progress.step("linking");
  SK_ASSIGN_OR_RETURN(const Finished linked, run({cc, "-shared", "-o", image, "-Wl,--whole-archive",
                                                  object, "-Wl,--no-whole-archive"},
                                                 kImageMs, &progress));
  fs::remove(object, none);
  if (!ended_well(linked)) {
    fs::remove(image, none);
    return error(SK_ERR_SYSTEM, "{} failed{}{}", cc, linked.said.empty() ? "" : ": ", linked.said);
  }
  // One that does not start is worse than none.
  progress.step("trying it");
  auto tried =
      run({values.program, "-J", image, "--startup-file=no", "-e", "print(1)"}, kAskMs, &progress);
  if (tried.ok() && ended_well(*tried) && tried->lines == std::vector<std::string>{"1"})
    return image;
  fs::remove(image, none);
  return error(SK_ERR_SYSTEM, "julia does not start from it{}{}",
               tried.ok() && !tried->said.empty() ? ": " : "", tried.ok() ? tried->said : "");
}

}  // namespace sk::kernel
