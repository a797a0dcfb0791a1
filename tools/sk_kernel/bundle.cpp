#include "lib/base/base64.h"
#include "tools/sk_kernel/front.h"

namespace sk::kernel {
namespace {

bool is_json(std::string_view type) {
  return type == "application/json" || type.ends_with("+json");
}

bool is_text(std::string_view type) {
  return type.starts_with("text/") || type.ends_with("+xml") || type == "application/javascript" ||
         type == "application/xml" || type == "application/x-latex";
}

}  // namespace

uint64_t code_points_in(std::string_view text) {
  uint64_t count = 0;
  for (unsigned char c : text) count += (c & 0xc0) != 0x80;
  return count;
}

uint64_t byte_of_code_point(std::string_view text, uint64_t code_point) {
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (code_point-- == 0) return i;
  }
  return text.size();
}

Json bundle(const sk_mime* mimes, uint64_t count) {
  Json out = Json::object();
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view data(static_cast<const char*>(mimes[i].data), mimes[i].bytes);
    const std::string_view type = mimes[i].type;
    Json& value = out[mimes[i].type];
    if (is_json(type)) {
      value = Json::parse(data, nullptr, /*allow_exceptions=*/false);
      if (value.is_discarded()) value = std::string(data);
    } else {
      value = is_text(type) ? std::string(data) : base64(data);
    }
  }
  return out;
}

}  // namespace sk::kernel
