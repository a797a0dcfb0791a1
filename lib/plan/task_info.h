// What each task operation looks like: the one table that text form, validator and registry read.
#ifndef SK_LIB_PLAN_TASK_INFO_H_
#define SK_LIB_PLAN_TASK_INFO_H_

#include <span>
#include <string_view>

#include "lib/plan/task.h"

namespace sk {

// How a parameter is written in text, and which values it may have.
enum class ParamKind : uint8_t { kInteger, kBool, kDtype, kRedop, kHint, kEpilogue };

struct ParamInfo {
  const char* name;
  ParamKind kind;
  int64_t min, max;
};

struct RegionRole {
  const char* name;
  RegionAccess access;
  bool many_buffers;  // Else buffer_count is 1.
};

struct TaskInfo {
  TaskOp op;
  const char* name;  // As in the text form.
  uint8_t region_count_min, region_count_max;
  std::span<const ParamInfo> params;
  bool touches_peers;  // May read or write other ranks' buffers where they are mapped.
};

// The entry of `op`, or null for a number that is no operation.
const TaskInfo* task_info(TaskOp op);
const TaskInfo* task_info(std::string_view name);

// What region `index` of `count` is to `op`, or null where the operation has no such region.
// kGemm's depends on its epilogue, which is not read otherwise.
const RegionRole* region_role(TaskOp op, int64_t gemm_epilogue, uint32_t index, uint32_t count);

// The name of a parameter's value ("f32", "sum", "stream"), or "" where it is written as a number.
std::string_view param_value_name(ParamKind kind, int64_t value);

// For error sentences and text: "reduce", or "op99".
std::string_view task_op_name(TaskOp op);

}  // namespace sk

#endif  // SK_LIB_PLAN_TASK_INFO_H_
