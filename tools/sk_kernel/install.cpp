// `sk install`: makes the kernel known to Jupyter, as `ipykernel install` does for its own.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/sk/verbs.h"
#include "tools/sk_kernel/install_julia.h"
#include "tools/sk_kernel/kernelspec.h"
#include "tools/sk_kernel/preload.h"
#include "tools/sk_kernel/rank_count.h"
#include "tools/sk_kernel/spec_places.h"
#include "transport/local/link.h"
#include "transport/local/process.h"

namespace sk::kernel {
namespace {

constexpr const char* kUsage =
    "usage: sk install [--user | --sys-prefix | --prefix DIR] [--name NAME]\n"
    "                  [--display-name TEXT] [--ranks N] [--env NAME VALUE]...\n"
    "                  [--python FILE] [--preload MODULES]\n"
    "                  [--language julia [--julia FILE] [--no-image]]\n\n"
    "Writes the kernelspec, by default superkernel-python for this user.\n"
    "  --sys-prefix    into the environment of the Python interpreter\n"
    "  --prefix DIR    into DIR/share/jupyter/kernels\n"
    "  --ranks N       start N ranks (SK_NRANKS outranks it); else one per GPU, else per core\n"
    "  --preload MODULES  import them once for all ranks: numpy,torch (SK_PRELOAD outranks it)\n"
    "  --env NAME VALUE  set a variable for the kernel; may be repeated\n"
    "  --python FILE   the interpreter that ranks run; default: that of DIR, of this program's\n"
    "                  environment, or python3 in PATH\n"
    "  --language julia  the kernel superkernel-julia, whose ranks run Julia\n"
    "  --julia FILE    the program that they run; default: julia in PATH\n"
    "  --no-image      do not make a system image, with which ranks start faster\n";

constexpr int64_t kPythonMs = 30'000;

struct Options {
  PlaceOption place;
  std::string name;     // "": superkernel-LANGUAGE.
  std::string program;  // Of the language; "": found.
  bool image = true;
  Names modules;
  SpecValues values;
};

// How many words stand behind an option; 0: it is none.
int values_behind(const std::string& option) {
  if (option == "--env") return 2;
  for (const char* known :
       {"--name", "--display-name", "--ranks", "--preload", "--language", "--python", "--julia"})
    if (option == known) return 1;
  return 0;
}

Result<Options> parse(int argc, char** argv) {
  Options options;
  bool has_name = false;
  std::string program_of;  // The language that a program was named for.
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    SK_ASSIGN_OR_RETURN(const int taken, take_place(options.place, i, argc, argv));
    if (taken > 0) {
      i += taken - 1;
      continue;
    }
    if (argument == "--no-image") {
      options.image = false;
      continue;
    }
    const int values = values_behind(argument);
    if (values == 0)
      return error(SK_ERR_INVALID_ARGUMENT, "{} is no option of sk install", argument);
    if (i + values >= argc)
      return error(SK_ERR_INVALID_ARGUMENT, "{} needs {} after it", argument,
                   values == 1 ? "a value" : "a name and a value");
    const std::string value = argv[i + 1];
    if (argument == "--name") {
      options.name = value;
      has_name = true;
    } else if (argument == "--display-name") {
      options.values.display_name = value;
    } else if (argument == "--ranks") {
      SK_ASSIGN_OR_RETURN(const int32_t ranks, parse_rank_count("--ranks", value));
      options.values.ranks = std::to_string(ranks);
    } else if (argument == "--preload") {
      options.values.preload += "," + value;
      SK_ASSIGN_OR_RETURN(options.modules, parse_modules("--preload", options.values.preload));
    } else if (argument == "--env") {
      if (value.empty() || value.find('=') != std::string::npos)
        return error(SK_ERR_INVALID_ARGUMENT,
                     "--env has the name \"{}\"; a name is not empty, and has no '='", value);
      if (value == "SK_PRELOAD") {
        const auto names = parse_modules("--env SK_PRELOAD", argv[i + 2]);
        if (!names.ok()) return Status(names.status().code(), names.status().message());
      }
      options.values.env[value] = argv[i + 2];
    } else if (argument == "--language") {
      if (value != "python" && value != "julia")
        return error(SK_ERR_INVALID_ARGUMENT, "--language is \"{}\"; python and julia are allowed",
                     value);
      options.values.language = value;
    } else {  // --python, --julia
      options.program = value;
      program_of = argument.substr(2);
    }
    i += values;
  }
  options.values.preload = joined(options.modules, ",");
  const std::string& language = options.values.language;
  if (!program_of.empty() && program_of != language)
    return error(SK_ERR_INVALID_ARGUMENT, "--{} is for --language {}, not {}", program_of,
                 program_of, language);
  if (!options.modules.empty() && language != "python")
    return error(SK_ERR_INVALID_ARGUMENT, "--preload is for --language python, not {}", language);
  if (!options.image && language != "julia")
    return error(SK_ERR_INVALID_ARGUMENT, "--no-image is for --language julia, not {}", language);
  if (options.name.empty() && !has_name) options.name = "superkernel-" + language;
  const auto allowed = [](unsigned char c) { return std::isalnum(c) || std::strchr("._-", c); };
  if (options.name.empty() || !std::all_of(options.name.begin(), options.name.end(), allowed))
    return error(SK_ERR_INVALID_ARGUMENT,
                 "--name is \"{}\"; letters, digits, '.', '_' and '-' are allowed", options.name);
  return options;
}

// The interpreter that was meant: of the prefix, of the environment that this program is installed
// in (ENV/lib/python3.x/site-packages/libsk/bin/sk), or of PATH.
std::string choose_python(const Options& options) {
  if (!options.program.empty()) return options.program;
  for (const std::string& prefix : {options.place.prefix, environment_prefix()}) {
    const std::string own = prefix + "/bin/python";
    if (!prefix.empty() && why_not_startable(own).empty())
      return std::filesystem::absolute(own).lexically_normal();
  }
  return "python3";
}

// What the interpreter says of itself: its path, version and prefix, one a line, and then those of
// `modules` that it does not have.
Result<std::vector<std::string>> ask_python(const std::string& python, const Names& modules) {
  SK_ASSIGN_OR_RETURN(auto out, local::pipe_pair());
  local::SpawnSpec spec;
  spec.argv = {python, "-c",
               "import importlib.machinery, importlib.util, platform, sys\n"
               "if importlib.util.find_spec('libsk') is None: sys.exit(3)\n"
               "print(sys.executable, platform.python_version(), sys.prefix, sep='\\n')\n"
               "for name in sys.argv[1:]:\n"
               "  first, *rest = name.split('.')\n"
               "  spec = importlib.util.find_spec(first)\n"
               "  for part in rest:\n"  // Not by find_spec(name), which imports what is around it.
               "    folders = spec and spec.submodule_search_locations\n"
               "    whole = f'{spec.name}.{part}' if spec else ''\n"
               "    spec = importlib.machinery.PathFinder.find_spec(whole, folders or [])\n"
               "  if spec is None and name not in sys.modules: print(name)"};
  spec.argv.insert(spec.argv.end(), modules.begin(), modules.end());
  spec.fds = {{out.second.get(), 1}};
  SK_ASSIGN_OR_RETURN(local::Process process, local::Process::spawn(spec));
  out.second.reset();
  std::string text;
  while (local::wait_for(out.first.get(), false, kPythonMs) &&
         local::read_some(out.first.get(), text) == local::ReadResult::kData) {
  }
  local::wait_for(process.pidfd(), false, kPythonMs);
  const auto end = process.try_reap();
  if (!end) process.signal_group(SIGKILL);
  if (end && !end->signaled && end->code == 3)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} has no package libsk; install it there, or name another interpreter with "
                 "--python",
                 python);
  std::vector<std::string> lines;
  for (size_t begin = 0, at; (at = text.find('\n', begin)) != std::string::npos; begin = at + 1)
    lines.push_back(text.substr(begin, at - begin));
  if (!end || end->signaled || end->code != 0 || lines.size() < 3)
    return error(SK_ERR_SYSTEM, "{} did not say its version", python);
  return lines;
}

std::string kernels_folder(const Options& options, const std::string& sys_prefix) {
  if (options.place.where == "--sys-prefix") return prefix_kernels(sys_prefix);
  if (options.place.where == "--prefix") return prefix_kernels(options.place.prefix);
  return user_kernels();
}

Result<std::string> install(Options options) {
  options.values.sk = this_program();
  Names missing;  // Of the modules that are to be preloaded.
  std::string sys_prefix = options.place.where == "--sys-prefix" ? environment_prefix() : "";
  if (options.values.language == "julia") {
    SK_RETURN_IF_ERROR(find_julia(options.program, options.values));
    if (options.values.display_name.empty()) options.values.display_name = "SuperKernel (Julia)";
  } else {
    SK_ASSIGN_OR_RETURN(const auto about, ask_python(choose_python(options), options.modules));
    options.values.program = about[0];
    options.values.language_version = about[1];
    sys_prefix = about[2];
    missing.assign(about.begin() + 3, about.end());
    if (options.values.display_name.empty()) options.values.display_name = "SuperKernel (Python)";
  }
  if (options.place.where == "--sys-prefix" && sys_prefix.empty())
    return error(SK_ERR_INVALID_ARGUMENT,
                 "--sys-prefix: this program lies in no environment of Python, and there is no "
                 "python3 in PATH; name the folder with --prefix DIR");
  // Jupyter compares kernel names in lower case.
  std::transform(options.name.begin(), options.name.end(), options.name.begin(), ::tolower);
  const std::string folder = kernels_folder(options, sys_prefix) + "/" + options.name;
  if (std::filesystem::exists(folder + "/kernel.json") && !read_spec(folder))
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} is a kernel of another program; take another --name, or remove it first",
                 folder);
  SK_RETURN_IF_ERROR(write_spec(folder, options.values));
  if (!missing.empty())
    std::fprintf(stderr,
                 "sk install: %s has no module %s yet; --preload leaves out what is missing\n",
                 options.values.program.c_str(), joined(missing, ", ").c_str());
  if (options.values.language != "julia" || !options.image) return folder;
  std::printf("Making a system image, which takes some minutes; --no-image leaves it out\n");
  std::fflush(stdout);
  auto image = make_julia_image(folder, options.values);
  if (!image.ok()) {
    std::printf("There is no system image, so ranks start slower: %s\n",
                image.status().message().c_str());
    return folder;
  }
  options.values.image = std::move(image).value();
  SK_RETURN_IF_ERROR(write_spec(folder, options.values));
  return folder;
}

int run(int argc, char** argv) {
  if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  auto options = parse(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "sk install: %s\nsk install --help says more\n",
                 options.status().message().c_str());
    return 2;
  }
  const auto folder = install(std::move(options).value());
  if (!folder.ok()) {
    std::fprintf(stderr, "sk install: %s\n", folder.status().message().c_str());
    return 1;
  }
  std::printf("Installed the kernelspec in %s\n", folder.value().c_str());
  return 0;
}

}  // namespace
}  // namespace sk::kernel

int run_install(int argc, char** argv) { return sk::kernel::run(argc, argv); }
