// A kernelspec: the folder by which Jupyter knows a kernel.
#ifndef SK_TOOLS_SK_KERNEL_KERNELSPEC_H_
#define SK_TOOLS_SK_KERNEL_KERNELSPEC_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace sk::kernel {

struct SpecFile {
  std::string_view language;
  const char* name;  // In the kernelspec's folder.
  std::string_view bytes;
};
// The files of a language's kernelspec, as they were when this program was built.
std::vector<SpecFile> spec_files(std::string_view language);

struct SpecValues {
  std::string language = "python";
  std::string sk;       // This program's path,
  std::string program;  // that of the language's,
  std::string libsk;    // and of the library, where the ranks load it by that.
  std::string image;    // A system image that ranks start from; "": none.
  std::string language_version;
  std::string display_name;
  std::string ranks;                       // "": chosen at each start.
  std::string preload;                     // Modules that ranks share; "": none.
  std::map<std::string, std::string> env;  // Variables of the kernel.
};

// kernel.json of this folder from its template.
Result<std::string> fill_spec(std::string_view text, const std::string& folder,
                              const SpecValues& values);

// Writes the whole folder, over what is there.
Status write_spec(const std::string& folder, const SpecValues& values);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_KERNELSPEC_H_
