// `sk prefix`: where the installation lies that this program belongs to, for compilers.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tools/sk/verbs.h"

namespace {

constexpr char kUsage[] =
    "usage: sk prefix\n\n"
    "Prints the folder that holds include/sk.h and lib/, of a system's installation as of a "
    "Python\n"
    "environment's:\n\n"
    "  PKG_CONFIG_PATH=$(sk prefix)/lib/pkgconfig pkg-config --cflags --libs sk\n"
    "  cmake -DCMAKE_PREFIX_PATH=$(sk prefix) ...\n";

}  // namespace

int run_prefix(int argc, char** argv) {
  if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (argc > 1) {
    std::fprintf(stderr, "sk prefix: %s is too much; it takes no argument\n", argv[1]);
    return 2;
  }
  std::error_code none;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none);
  const std::filesystem::path prefix = program.parent_path().parent_path();
  if (!std::filesystem::exists(prefix / "include" / "sk.h", none)) {
    std::fprintf(stderr, "sk prefix: %s is not installed: there is no %s/include/sk.h\n",
                 program.c_str(), prefix.c_str());
    return 1;
  }
  std::puts(prefix.c_str());
  return 0;
}
