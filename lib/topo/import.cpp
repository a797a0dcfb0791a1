#include "lib/topo/import.h"

#include "lib/topo/text.h"

namespace sk::topo {

Result<Graph> from_xml(std::string_view text) {
  SK_ASSIGN_OR_RETURN(const XmlElement root, parse_xml(text));
  if (root.name == "system") return from_nccl(root);
  if (root.name == "topology") return from_hwloc(root);
  return error(SK_ERR_INVALID_ARGUMENT,
               "line {}, column {}: the root element is \"{}\": it must be \"topology\" (hwloc) or "
               "\"system\" (NCCL)",
               root.line, root.column, root.name.substr(0, 40));
}

Result<Graph> from_any(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool xml = first != std::string_view::npos && text[first] == '<';
  return xml ? from_xml(text) : parse(text);
}

}  // namespace sk::topo
