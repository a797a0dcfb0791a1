#include <iterator>
#include <type_traits>

#include "lib/plan/task_info.h"
#include "lib/plan/text.h"
#include "lib/plan/text_fields.h"
#include "lib/plan/text_reader.h"
#include "lib/plan/text_words.h"

namespace sk {
namespace {

using Out = std::back_insert_iterator<std::string>;

struct FieldWriter {
  std::string& text;

  template <typename T>
  void operator()(const char* name, const T& value) const {
    if constexpr (std::is_enum_v<T>) {
      if (const std::string_view known = text::value_name(value); !known.empty()) {
        fmt::format_to(Out(text), " {}={}", name, known);
        return;
      }
      fmt::format_to(Out(text), " {}={}", name, uint32_t(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      fmt::format_to(Out(text), " {}={}", name, value ? 1 : 0);
    } else {
      fmt::format_to(Out(text), " {}={}", name, value);
    }
  }
};

void write_op(std::string& text, const Task& task) {
  if (const Signature* signature = signature_of(task.op)) {
    text += signature->name;
  } else {
    fmt::format_to(Out(text), "op{}", uint32_t(task.op));
  }
  uint8_t rest = task.flags;
  for (const auto& [flag, word] : text::kFlagWords) {
    if ((rest & flag) == 0) continue;
    fmt::format_to(Out(text), " {}", word);
    rest &= uint8_t(~flag);
  }
  if (rest != 0) fmt::format_to(Out(text), " flags{}", rest);
}

void write_params(std::string& text, const RankPlan& part, const Task& task) {
  const Signature* signature = signature_of(task.op);
  const std::span<const int64_t> params = part.params_of(task);
  for (size_t i = 0; i < params.size(); ++i) {
    if (signature == nullptr || i >= signature->parameters.size()) {
      fmt::format_to(Out(text), " param{}={}", i, params[i]);
      continue;
    }
    const Parameter& parameter = signature->parameters[i];
    fmt::format_to(Out(text), " {}={}", parameter.name, text::value_text(parameter, params[i]));
  }
}

void write_region(std::string& text, const Region& region) {
  if (region.access == kRead) {
    text += " read=";
  } else if (region.access == kWrite) {
    text += " write=";
  } else {
    fmt::format_to(Out(text), " access{}=", region.access);
  }
  fmt::format_to(Out(text), "b{}", region.buffer);
  // Ranges that have no last id in 32 bits are written by their count.
  const uint64_t last = uint64_t(region.buffer) + region.buffer_count - 1;
  if (region.buffer_count == 0 || last > UINT32_MAX) {
    fmt::format_to(Out(text), "*{}", region.buffer_count);
  } else if (region.buffer_count > 1) {
    fmt::format_to(Out(text), "..b{}", last);
  }
  fmt::format_to(Out(text), "@{}:", region.offset);
  if (region.rows == 1 && region.pitch == region.row_bytes) {
    fmt::format_to(Out(text), "{}", region.row_bytes);
  } else {
    fmt::format_to(Out(text), "{}x{}/{}", region.rows, region.row_bytes, region.pitch);
  }
}

void write_part(std::string& text, const RankPlan& part) {
  fmt::format_to(Out(text), "rank {} peers=", part.rank);
  if (part.peers.empty()) text += '-';
  for (size_t i = 0; i < part.peers.size(); ++i) {
    fmt::format_to(Out(text), "{}{}", i == 0 ? "" : ",", part.peers[i]);
  }
  text += '\n';
  for (const Signal& signal : part.signals) {
    fmt::format_to(Out(text), "signal r{}.s{} posts={}\n", signal.producer, signal.number,
                   signal.posts_per_run);
  }
  for (const Queue& queue : part.queues) {
    text += "queue\n";
    for (uint32_t i = 0; i < queue.task_count; ++i) {
      text += "  ";
      text += dump_task(part, part.tasks[queue.first_task + i]);
      text += '\n';
    }
  }
}

}  // namespace

std::string dump_task(const RankPlan& part, const Task& task) {
  std::string text;
  write_op(text, task);
  write_params(text, part, task);
  for (const Region& region : part.regions_of(task)) write_region(text, region);
  for (const Wait& wait : part.waits_of(task)) {
    fmt::format_to(Out(text), " wait=r{}.s{}>={}", wait.producer, wait.signal, wait.target);
  }
  for (const Post& post : part.posts_of(task)) {
    fmt::format_to(Out(text), " post=r{}.s{}+{}", post.rank, post.signal, post.add);
  }
  return text;
}

std::string dump(const Plan& plan) {
  std::string text(text::kMagic);
  fmt::format_to(Out(text), "\nop kind={}{}", plan.op.schema().name, text::op_words(plan.op));
  text += "\ntarget";
  text::visit_target(plan.target, FieldWriter{text});
  if (plan.target.raw_b) fmt::format_to(Out(text), " {}", text::kRawB);
  if (text::has_shares(plan.target)) text::visit_shares(plan.target, FieldWriter{text});
  for (size_t rank = 0; rank < plan.target.host_of.size(); ++rank) {
    if (rank == 0) fmt::format_to(Out(text), " {}", text::kHostOf);
    fmt::format_to(Out(text), "{}{}", rank == 0 ? "" : ",", plan.target.host_of[rank]);
  }
  if (plan.target.one_level && !plan.target.host_of.empty())
    fmt::format_to(Out(text), " {}", text::kOneLevel);
  text += '\n';
  if (plan.free.number != 0 || plan.free.block != 0) {
    text += "free";
    text::visit_free(plan.free, FieldWriter{text});
    text += '\n';
  }
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    fmt::format_to(Out(text), "buffer {}", i);
    text::visit_buffer(plan.buffers[i], FieldWriter{text});
    text += '\n';
  }
  for (const RankPlan& part : plan.ranks) write_part(text, part);
  return text;
}

}  // namespace sk
