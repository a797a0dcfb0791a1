#include "lib/comm/tile_arguments.h"

#include <cstring>

#include "lib/base/structs.h"

namespace sk {
namespace {

// Longer ones are no texts, and are refused before they are read to their end.
constexpr size_t kTextMax = 4096;

Result<std::string> text_of(const char* name, const char* text) {
  if (text == nullptr) return std::string();
  const size_t size = strnlen(text, kTextMax);
  if (size < kTextMax) return std::string(text, size);
  return error(SK_ERR_INVALID_ARGUMENT, "{} has {} characters or more", name, kTextMax);
}

Result<TileText::Array> region_of(const sk_tile_region* from, uint32_t number) {
  if (from == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "regions[{}] is null", number);
  SK_ASSIGN_OR_RETURN(const sk_tile_region read, read_struct("sk_tile_region", from));
  if (read.role != SK_TILE_READ && read.role != SK_TILE_WRITE) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "regions[{}].role is {}, it must be SK_TILE_READ (1) or SK_TILE_WRITE (2)", number,
                 read.role);
  }
  TileText::Array out;
  out.role = read.role == SK_TILE_READ ? Role::kIn : Role::kOut;
  SK_ASSIGN_OR_RETURN(out.name, text_of("a region's name", read.name));
  SK_ASSIGN_OR_RETURN(out.types, text_of("a region's types", read.types));
  SK_ASSIGN_OR_RETURN(out.shape, text_of("a region's shape", read.shape));
  SK_ASSIGN_OR_RETURN(out.in_place, text_of("a region's in_place", read.in_place));
  SK_ASSIGN_OR_RETURN(out.doc, text_of("a region's doc", read.doc));
  return out;
}

Result<TileText::Number> number_of(const sk_tile_parameter* from, uint32_t number) {
  if (from == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "parameters[{}] is null", number);
  SK_ASSIGN_OR_RETURN(const sk_tile_parameter read, read_struct("sk_tile_parameter", from));
  if (read.kind != SK_TILE_INT && read.kind != SK_TILE_FLOAT) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "parameters[{}].kind is {}, it must be SK_TILE_INT (1) or SK_TILE_FLOAT (2)",
                 number, read.kind);
  }
  TileText::Number out;
  out.kind = read.kind == SK_TILE_INT ? AttributeKind::kInt : AttributeKind::kFloat;
  SK_ASSIGN_OR_RETURN(out.name, text_of("a parameter's name", read.name));
  SK_ASSIGN_OR_RETURN(out.least, text_of("a parameter's least", read.least));
  SK_ASSIGN_OR_RETURN(out.most, text_of("a parameter's most", read.most));
  SK_ASSIGN_OR_RETURN(out.doc, text_of("a parameter's doc", read.doc));
  return out;
}

// Of more there are none anyhow, and a count that is no count would be read far.
Status check_list(const char* name, const void* list, uint32_t count, size_t most) {
  if (count > most) {
    return error(SK_ERR_INVALID_ARGUMENT, "{0}_count is {1}, there may be {2} {0}s at most", name,
                 count, most);
  }
  if (count > 0 && list == nullptr) {
    return error(SK_ERR_INVALID_ARGUMENT, "{0}s is null, and {0}_count {1}", name, count);
  }
  return {};
}

}  // namespace

Result<TileArguments> tile_arguments(const sk_tile_desc* desc) {
  if (desc == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "desc is null");
  SK_ASSIGN_OR_RETURN(const sk_tile_desc read, read_struct("sk_tile_desc", desc));
  TileArguments out;
  TileText& text = out.text;
  SK_ASSIGN_OR_RETURN(text.name, text_of("name", read.name));
  SK_ASSIGN_OR_RETURN(text.summary, text_of("summary", read.summary));
  SK_ASSIGN_OR_RETURN(text.effect, text_of("effect", read.effect));
  if (text.effect == "opaque") text.effect.clear();
  if (read.version == 0 || read.version > UINT16_MAX) {
    return error(SK_ERR_INVALID_ARGUMENT, "version is {}, allowed are 1 to {}", read.version,
                 UINT16_MAX);
  }
  text.version = uint16_t(read.version);
  if (read.over < SK_TILE_OVER_ROWS || read.over > SK_TILE_OVER_ALL) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "over is {}, it must be one of enum sk_tile_over (SK_TILE_OVER_ROWS 1 to "
                 "SK_TILE_OVER_ALL 3)",
                 read.over);
  }
  text.over = TileOver(read.over);
  if ((read.flags & ~uint32_t{SK_TILE_SERIAL | SK_TILE_REPLACE}) != 0) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "flags is {}, allowed are 0, SK_TILE_SERIAL (1), SK_TILE_REPLACE (2) and both",
                 read.flags);
  }
  text.serial = (read.flags & SK_TILE_SERIAL) != 0;
  out.replaces = (read.flags & SK_TILE_REPLACE) != 0;
  text.tile_rows = read.tile_rows;
  SK_RETURN_IF_ERROR(check_list("region", static_cast<const void*>(read.regions), read.region_count,
                                kTileRegionsMax));
  SK_RETURN_IF_ERROR(check_list("parameter", static_cast<const void*>(read.parameters),
                                read.parameter_count, kTileNumbersMax));
  for (uint32_t i = 0; i < read.region_count; ++i) {
    SK_ASSIGN_OR_RETURN(auto region, region_of(read.regions[i], i));
    text.regions.push_back(std::move(region));
  }
  for (uint32_t i = 0; i < read.parameter_count; ++i) {
    SK_ASSIGN_OR_RETURN(auto number, number_of(read.parameters[i], i));
    text.numbers.push_back(std::move(number));
  }
  out.function = {read.function, read.user};
  return out;
}

}  // namespace sk
