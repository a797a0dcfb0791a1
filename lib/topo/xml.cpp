#include "lib/topo/xml.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace sk::topo {
namespace {

constexpr int kDepthMax = 64;  // Files go to 10; recursion must end before the stack does.
constexpr size_t kElementsMax = 1u << 20;

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' ||
         c == ':';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<XmlElement> document() {
    SK_RETURN_IF_ERROR(skip_to_tag());
    if (at_ == text_.size()) return wrong("there is no element");
    XmlElement root;
    SK_RETURN_IF_ERROR(element(root, 0));
    SK_RETURN_IF_ERROR(skip_to_tag());
    if (at_ != text_.size()) return wrong("a second element follows the first");
    return root;
  }

 private:
  // Counted when asked for: only errors and element starts need them.
  void move_to(size_t at) {
    for (; counted_ < at; ++counted_) {
      if (text_[counted_] == '\n') {
        ++line_;
        line_start_ = counted_ + 1;
      }
    }
  }
  Status wrong(const std::string& what) {
    move_to(at_);
    return error(SK_ERR_INVALID_ARGUMENT, "line {}, column {}: {}", line_, at_ - line_start_ + 1,
                 what);
  }

  bool starts(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  Status skip_past(std::string_view what) {
    const size_t found = text_.find(what, at_);
    if (found == std::string_view::npos) return wrong(fmt::format("\"{}\" is missing", what));
    at_ = found + what.size();
    return {};
  }

  // To the '<' of an element or its end, or to the end of the text.
  Status skip_to_tag() {
    while (true) {
      at_ = std::min(text_.find('<', at_), text_.size());
      if (starts("<!--")) {
        SK_RETURN_IF_ERROR(skip_past("-->"));
      } else if (starts("<?")) {
        SK_RETURN_IF_ERROR(skip_past("?>"));
      } else if (starts("<!")) {
        SK_RETURN_IF_ERROR(skip_past(">"));
      } else {
        return {};
      }
    }
  }

  Result<std::string> name() {
    const size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == start) return wrong("a name is missing");
    return std::string(text_.substr(start, at_ - start));
  }

  Status element(XmlElement& out, int depth) {
    if (depth == kDepthMax) return wrong(fmt::format("elements nest deeper than {}", kDepthMax));
    if (++elements_ > kElementsMax)
      return wrong(fmt::format("more than {} elements", kElementsMax));
    move_to(at_);
    out.line = line_;
    out.column = at_ - line_start_ + 1;
    ++at_;  // The '<'.
    SK_ASSIGN_OR_RETURN(out.name, name());
    SK_RETURN_IF_ERROR(attributes(out));
    if (starts("/>")) {
      at_ += 2;
      return {};
    }
    ++at_;  // The '>'.
    while (true) {
      const size_t start = at_;
      SK_RETURN_IF_ERROR(skip_to_tag());
      out.text += text_.substr(start, at_ - start);
      if (at_ == text_.size()) return wrong(fmt::format("</{}> is missing", out.name));
      if (starts("</")) break;
      out.children.emplace_back();
      SK_RETURN_IF_ERROR(element(out.children.back(), depth + 1));
    }
    at_ += 2;
    SK_ASSIGN_OR_RETURN(const std::string closing, name());
    skip_blanks();
    if (closing != out.name || !starts(">")) {
      return wrong(fmt::format("</{}> must stand here, not </{}>", out.name, closing));
    }
    ++at_;
    return {};
  }

  Status attributes(XmlElement& out) {
    while (true) {
      skip_blanks();
      if (starts(">") || starts("/>")) return {};
      const size_t key_at = at_;
      SK_ASSIGN_OR_RETURN(const std::string key, name());
      if (out.attributes.contains(key)) {
        at_ = key_at;
        return wrong(fmt::format("{} comes twice", key));
      }
      skip_blanks();
      if (!starts("=")) return wrong(fmt::format("= must follow {}", key));
      ++at_;
      skip_blanks();
      if (!starts("\"") && !starts("'")) return wrong("a value in quotes must stand here");
      const char quote = text_[at_++];
      const size_t end = text_.find(quote, at_);
      if (end == std::string_view::npos) return wrong("the quotes do not end");
      SK_ASSIGN_OR_RETURN(std::string value, unescape(text_.substr(at_, end - at_)));
      at_ = end + 1;
      out.attributes.emplace(key, std::move(value));
    }
  }

  Result<std::string> unescape(std::string_view raw) {
    static const std::map<std::string_view, char> kNamed = {
        {"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
    std::string out;
    while (!raw.empty()) {
      const size_t amp = std::min(raw.find('&'), raw.size());
      out += raw.substr(0, amp);
      raw.remove_prefix(amp);
      if (raw.empty()) break;
      const size_t end = raw.find(';');
      if (end == std::string_view::npos) return wrong("an entity does not end in ;");
      const std::string_view entity = raw.substr(1, end - 1);
      raw.remove_prefix(end + 1);
      if (const auto it = kNamed.find(entity); it != kNamed.end()) {
        out += it->second;
        continue;
      }
      const bool hex = entity.substr(0, 2) == "#x";
      const std::string_view digits = entity.substr(std::min<size_t>(hex ? 2 : 1, entity.size()));
      unsigned value = 0;
      const char* last = digits.data() + digits.size();
      const auto [stop, code] = std::from_chars(digits.data(), last, value, hex ? 16 : 10);
      if (entity.substr(0, 1) != "#" || code != std::errc() || stop != last || value == 0 ||
          value > 127) {
        return wrong(fmt::format("the entity &{}; is not known", entity.substr(0, 40)));
      }
      out += char(value);
    }
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t counted_ = 0;
  size_t line_ = 1;
  size_t line_start_ = 0;
  size_t elements_ = 0;
};

}  // namespace

std::optional<std::string> XmlElement::get(const std::string& attribute) const {
  const auto it = attributes.find(attribute);
  if (it == attributes.end() || it->second.empty()) return std::nullopt;
  return it->second;
}

Status XmlElement::wrong(const std::string& what) const {
  return error(SK_ERR_INVALID_ARGUMENT, "line {}, column {}: {}", line, column, what);
}

Result<uint64_t> XmlElement::integer(const std::string& attribute, uint64_t missing) const {
  const auto value = get(attribute);
  if (!value) return missing;
  uint64_t out = 0;
  const bool hex = value->substr(0, 2) == "0x";
  const char* end = value->data() + value->size();
  const auto [stop, code] = std::from_chars(value->data() + (hex ? 2 : 0), end, out, hex ? 16 : 10);
  if (code == std::errc() && stop == end) return out;
  return wrong(
      fmt::format("{} is \"{}\": it must be a whole number", attribute, value->substr(0, 40)));
}

Result<double> XmlElement::leading_number(const std::string& attribute, double missing) const {
  const auto value = get(attribute);
  if (!value) return missing;
  double out = 0;
  const auto [stop, code] = std::from_chars(value->data(), value->data() + value->size(), out);
  if (code == std::errc() && out >= 0 && out <= 1e15) return out;
  return wrong(fmt::format("{} is \"{}\": it must start with a number from 0 to 1e15", attribute,
                           value->substr(0, 40)));
}

Result<XmlElement> parse_xml(std::string_view text) { return Reader(text).document(); }

}  // namespace sk::topo
