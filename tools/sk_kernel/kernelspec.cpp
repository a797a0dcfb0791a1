#include "tools/sk_kernel/kernelspec.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sk::kernel {
namespace {

constexpr std::string_view kFolder = "@FOLDER@";

Status write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file.good()) return {};
  return system_error("writing " + path.string());
}

}  // namespace

Result<std::string> fill_spec(std::string_view text, const std::string& folder,
                              const SpecValues& values) {
  auto spec = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!spec.is_object() || !spec["argv"].is_array())
    return error(SK_ERR_INTERNAL, "the kernelspec's template is no JSON object with argv");
  nlohmann::json argv = nlohmann::json::array();
  for (const auto& entry : spec["argv"]) {
    if (entry == "@SK@")
      argv.push_back(values.sk);
    else if (entry == "@PROGRAM@")
      argv.push_back(values.program);
    else if (entry == "@LIBSK@")
      argv.push_back(values.libsk);
    else if (entry.is_string() && entry.get_ref<const std::string&>().starts_with(kFolder))
      argv.push_back(folder + entry.get<std::string>().substr(kFolder.size()));
    else if (entry == "@IMAGE@" && !values.image.empty())
      argv.insert(argv.end(), {"-J", values.image});
    else if (entry == "@LANGUAGE_VERSION@")
      argv.push_back(values.language_version);
    else if (entry != "@OPTIONS@" && entry != "@IMAGE@")
      argv.push_back(entry);
    else if (entry == "@OPTIONS@") {
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
  for (const SpecFile& file : spec_files(values.language)) {
    const std::filesystem::path path = std::filesystem::path(folder) / file.name;
    std::filesystem::create_directories(path.parent_path(), failure);
    if (path.extension() != ".in") {
      SK_RETURN_IF_ERROR(write_file(path, file.bytes));
      continue;
    }
    SK_ASSIGN_OR_RETURN(const std::string text, fill_spec(file.bytes, folder, values));
    SK_RETURN_IF_ERROR(write_file(path.parent_path() / path.stem(), text));
  }
  return {};
}

}  // namespace sk::kernel
