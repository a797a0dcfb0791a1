#include "tools/sk_kernel/kernelspec.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sk::kernel {
namespace {

Status write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file.good()) return {};
  return system_error("writing " + path.string());
}

}  // namespace

Result<std::string> fill_spec(std::string_view text, const SpecValues& values) {
  auto spec = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!spec.is_object() || !spec["argv"].is_array())
    return error(SK_ERR_INTERNAL, "the kernelspec's template is no JSON object with argv");
  nlohmann::json argv = nlohmann::json::array();
  for (const auto& entry : spec["argv"]) {
    if (entry == "@SK@")
      argv.push_back(values.sk);
    else if (entry == "@PYTHON@")
      argv.push_back(values.python);
    else if (entry == "@LANGUAGE_VERSION@")
      argv.push_back(values.language_version);
    else if (entry != "@OPTIONS@")
      argv.push_back(entry);
    else {
      if (!values.ranks.empty()) argv.insert(argv.end(), {"--ranks", values.ranks});
      if (!values.preload.empty()) argv.insert(argv.end(), {"--preload", values.preload});
    }
  }
  spec["argv"] = std::move(argv);
  spec["display_name"] = values.display_name;
  for (const auto& [name, value] : values.env) spec["env"][name] = value;
  return spec.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Status write_spec(const std::string& folder, const SpecValues& values) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    return error(SK_ERR_SYSTEM, "cannot make the folder {}: {}", folder, failure.message());
  for (const SpecFile& file : spec_files()) {
    const std::filesystem::path path = std::filesystem::path(folder) / file.name;
    if (path.extension() != ".in") {
      SK_RETURN_IF_ERROR(write_file(path, file.bytes));
      continue;
    }
    SK_ASSIGN_OR_RETURN(const std::string text, fill_spec(file.bytes, values));
    SK_RETURN_IF_ERROR(write_file(path.parent_path() / path.stem(), text));
  }
  return {};
}

}  // namespace sk::kernel
