// Where kernelspecs lie, and which of them are ours.
#ifndef SK_TOOLS_SK_KERNEL_SPEC_PLACES_H_
#define SK_TOOLS_SK_KERNEL_SPEC_PLACES_H_

#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace sk::kernel {

// Which place a command line names.
struct PlaceOption {
  std::string where;   // "--user", "--sys-prefix", "--prefix", or "" for none.
  std::string prefix;  // Of --prefix.
};

// Takes argv[i] (and the value behind it) if it names a place, and says how many it took. Two
// places are an error.
Result<int> take_place(PlaceOption& option, int i, int argc, char** argv);

std::string this_program();

// The libsk.so.0 that lies with this program: installed, in a Python package, in a build; "".
std::string library_beside_program();

// The folder of kernelspecs of this user, and of a prefix.
std::string user_kernels();
std::string prefix_kernels(const std::string& prefix);

// The prefix of the environment that this program is installed in, or of the python3 in PATH; "".
std::string environment_prefix();

// The folders in which Jupyter looks, the first wins; `option` narrows them to one.
std::vector<std::string> kernel_folders(const PlaceOption& option);

struct InstalledSpec {
  std::string name;
  std::string folder;
  std::string ranks;    // "" when each start chooses.
  std::string preload;  // Modules that ranks share; "": none.
  std::string program;  // What the ranks run; Python, for Python.
  std::string missing;  // The program of the two (`sk` or the ranks') that is gone; "" for none.
};

// Nothing where the folder holds no kernelspec of ours.
std::optional<InstalledSpec> read_spec(const std::string& folder);

// All of ours in these folders, by name.
std::vector<InstalledSpec> find_specs(const std::vector<std::string>& folders);

// What keeps `program` from being started by this path; "" when nothing does, or PATH decides.
std::string why_not_startable(const std::string& program);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_SPEC_PLACES_H_
