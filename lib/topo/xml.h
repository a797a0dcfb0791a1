// The part of XML that topology files use: elements, attributes, comments, prologs, the five named
// entities and numeric ones. Declarations are skipped.
#ifndef SK_LIB_TOPO_XML_H_
#define SK_LIB_TOPO_XML_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace sk::topo {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::vector<XmlElement> children;
  std::string text;  // What stands between its tags, without that of its children.
  size_t line = 1;   // Where it starts, counted from 1.
  size_t column = 1;

  // The attribute's value; nullopt when it is missing or empty.
  std::optional<std::string> get(const std::string& attribute) const;
  // The attribute as a whole number ("0x10" in hexadecimal); `missing` without it.
  Result<uint64_t> integer(const std::string& attribute, uint64_t missing) const;
  // The number from 0 to 1e15 that it starts with: 16 for "16.0 GT/s PCIe".
  Result<double> leading_number(const std::string& attribute, double missing) const;
  // An error about this element, with its place.
  Status wrong(const std::string& what) const;
};

// The root element. The sentence of an error starts with line and column.
Result<XmlElement> parse_xml(std::string_view text);

}  // namespace sk::topo

#endif  // SK_LIB_TOPO_XML_H_
