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
  const char* name;
  std::string_view bytes;
};
// The files of kernelspec/superkernel-python, as they were when this program was built.
std::vector<SpecFile> spec_files();

struct SpecValues {
  std::string sk;      // The program's path.
  std::string python;  // The interpreter's path.
  std::string language_version;
  std::string display_name;
  std::string ranks;                       // "": chosen at each start.
  std::string preload;                     // Modules that ranks share; "": none.
  std::map<std::string, std::string> env;  // Variables of the kernel.
};

// kernel.json from its template.
Result<std::string> fill_spec(std::string_view text, const SpecValues& values);

// Writes the whole folder, over what is there.
Status write_spec(const std::string& folder, const SpecValues& values);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_KERNELSPEC_H_
