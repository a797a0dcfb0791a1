#include <limits>
#include <type_traits>

#include "lib/op/ops/memory.h"
#include "lib/plan/task_info.h"
#include "lib/plan/text.h"
#include "lib/plan/text_fields.h"
#include "lib/plan/text_reader.h"
#include "lib/plan/text_words.h"

namespace sk {
namespace {

using text::Reader;

// "name=value" in the order of text_fields.h; keeps the first failure.
struct FieldReader {
  Reader& reader;
  Status status = {};

  template <typename T>
  void operator()(const char* name, T& value) {
    if (!status.ok()) return;
    status = read(name, value);
    reader.skip_spaces();
  }

  template <typename T>
  Status read(const char* name, T& value) {
    if (!reader.take(name) || !reader.take("=")) return reader.fail("expected {}=", name);
    if constexpr (std::is_same_v<T, bool>) {
      if (reader.take_word("0")) return value = false, Status();
      if (reader.take_word("1")) return value = true, Status();
      return reader.fail("{} is 0 or 1", name);
    } else if constexpr (std::is_enum_v<T>) {
      for (uint32_t i = 0; i < text::kEnumMax; ++i) {
        const std::string_view known = text::value_name(T(i));
        if (!known.empty() && reader.take_word(known)) return value = T(i), Status();
      }
      std::underlying_type_t<T> number = 0;
      SK_RETURN_IF_ERROR(reader.take_number(number, name));
      value = T(number);
      return Status();
    } else {
      return reader.take_number(value, name);
    }
  }
};

class Parser {
 public:
  explicit Parser(std::string_view text) : reader_(text) {}

  Result<Plan> run() {
    SK_RETURN_IF_ERROR(header());
    while (reader_.next_line()) {
      SK_RETURN_IF_ERROR(line());
      SK_RETURN_IF_ERROR(reader_.finish_line());
    }
    return std::move(plan_);
  }

 private:
  Status header() {
    if (!reader_.next_line() || !reader_.take_word(text::kMagic)) {
      return reader_.fail("expected \"{}\"", text::kMagic);
    }
    SK_RETURN_IF_ERROR(reader_.finish_line());
    FieldReader fields{reader_};
    if (!reader_.next_line() || !reader_.take_word("op")) return reader_.fail("expected op");
    SK_ASSIGN_OR_RETURN(plan_.op, op());
    SK_RETURN_IF_ERROR(reader_.finish_line());
    fields.status = Status();
    if (!reader_.next_line() || !reader_.take_word("target")) {
      return reader_.fail("expected target");
    }
    text::visit_target(plan_.target, fields);
    if (fields.status.ok()) plan_.target.raw_b = reader_.take_word(text::kRawB);
    if (fields.status.ok()) SK_RETURN_IF_ERROR(hosts(fields));
    SK_RETURN_IF_ERROR(std::move(fields.status));
    return reader_.finish_line();
  }

  // Where there are any, and shares before them.
  Status hosts(FieldReader& fields) {
    bool has = reader_.take(text::kHostOf);
    if (!has && !reader_.at_line_end()) {
      text::visit_shares(plan_.target, fields);
      has = fields.status.ok() && reader_.take(text::kHostOf);
    }
    while (has) {
      uint32_t host = 0;
      SK_RETURN_IF_ERROR(reader_.take_number(host, "host_of"));
      plan_.target.host_of.push_back(host);
      has = reader_.take(",");
    }
    reader_.skip_spaces();
    if (!plan_.target.host_of.empty()) plan_.target.one_level = reader_.take_word(text::kOneLevel);
    return Status();
  }

  Result<OpDesc> op() {
    std::string names;
    for (const Schema* schema : all_schemas()) {
      if (is_of_memory(*schema)) continue;
      if (reader_.take_word(fmt::format("kind={}", schema->name)))
        return text::read_op_words(*schema, reader_);
      names += fmt::format("{}{}", names.empty() ? "" : ", ", schema->name);
    }
    return reader_.fail("expected kind= and one of {}", names);
  }

  Status line() {
    if (reader_.take_word("free")) return free();
    if (reader_.take_word("buffer")) return buffer();
    if (reader_.take_word("rank")) return rank();
    if (reader_.take_word("signal")) return signal();
    if (reader_.take_word("queue")) return queue();
    if (plan_.ranks.empty()) return reader_.fail("expected buffer or rank");
    if (plan_.ranks.back().queues.empty()) return reader_.fail("expected signal, queue or rank");
    return task();
  }

  Status free() {
    if (!plan_.buffers.empty() || !plan_.ranks.empty() || plan_.free.number != 0) {
      return reader_.fail("what is free comes once, before buffers and ranks");
    }
    FieldReader fields{reader_};
    text::visit_free(plan_.free, fields);
    return std::move(fields.status);
  }

  Status buffer() {
    if (!plan_.ranks.empty()) return reader_.fail("buffers come before ranks");
    SK_RETURN_IF_ERROR(index(plan_.buffers.size(), "the buffer's number"));
    Buffer buffer;
    FieldReader fields{reader_};
    text::visit_buffer(buffer, fields);
    SK_RETURN_IF_ERROR(std::move(fields.status));
    plan_.buffers.push_back(buffer);
    return Status();
  }

  // A number that is there for the reader's eyes and has one right value.
  Status index(size_t expected, const char* what) {
    uint64_t number = 0;
    SK_RETURN_IF_ERROR(reader_.take_number(number, what));
    if (number != expected) return reader_.fail("{} is {} here, not {}", what, expected, number);
    reader_.skip_spaces();
    return Status();
  }

  Status rank() {
    RankPlan part;
    SK_RETURN_IF_ERROR(reader_.take_number(part.rank, "the rank"));
    reader_.skip_spaces();
    if (!reader_.take("peers=")) return reader_.fail("expected peers=");
    if (!reader_.take("-")) {
      do {
        uint32_t peer = 0;
        SK_RETURN_IF_ERROR(reader_.take_number(peer, "a peer"));
        part.peers.push_back(peer);
      } while (reader_.take(","));
    }
    plan_.ranks.push_back(std::move(part));
    return Status();
  }

  Status signal() {
    if (plan_.ranks.empty()) return reader_.fail("a signal comes before the first rank");
    RankPlan& part = plan_.ranks.back();
    if (!part.queues.empty()) return reader_.fail("signals come before queues");
    Signal signal{};
    if (!reader_.take("r")) return reader_.fail("expected r, the producing rank");
    SK_RETURN_IF_ERROR(edge_signal(signal.producer, signal.number));
    reader_.skip_spaces();
    if (!reader_.take("posts=")) return reader_.fail("expected posts=");
    SK_RETURN_IF_ERROR(reader_.take_number(signal.posts_per_run, "the posts of a run"));
    part.signals.push_back(signal);
    return Status();
  }

  // Behind "r": the edge's other end and the number on it.
  Status edge_signal(uint32_t& rank, uint32_t& number) {
    SK_RETURN_IF_ERROR(reader_.take_number(rank, "a rank"));
    if (!reader_.take(".s")) return reader_.fail("expected .s, a signal");
    return reader_.take_number(number, "a signal");
  }

  Status queue() {
    if (plan_.ranks.empty()) return reader_.fail("a queue comes before the first rank");
    RankPlan& part = plan_.ranks.back();
    part.queues.push_back({uint32_t(part.tasks.size()), 0});
    return Status();
  }

  Status task() {
    RankPlan& part = plan_.ranks.back();
    Task task{};
    SK_RETURN_IF_ERROR(task_op(task));
    task.first_region = uint32_t(part.regions.size());
    task.first_param = uint32_t(part.params.size());
    task.first_wait = uint32_t(part.waits.size());
    task.first_post = uint32_t(part.posts.size());
    SK_RETURN_IF_ERROR(params(task, part));
    while (!reader_.at_line_end()) {
      SK_RETURN_IF_ERROR(item(task, part));
      reader_.skip_spaces();
    }
    part.tasks.push_back(task);
    ++part.queues.back().task_count;
    return Status();
  }

  Status task_op(Task& task) {
    uint16_t op = 0;
    while (const Signature* signature = signature_of(TaskOp(op))) {
      if (reader_.take_word(signature->name)) return task.op = TaskOp(op), flags(task);
      ++op;
    }
    if (!reader_.take("op")) return reader_.fail("expected a task");
    SK_RETURN_IF_ERROR(reader_.take_number(op, "the operation"));
    // A user's is a function of some context of this process, which a text cannot keep alive.
    if (TaskOp(op) >= TaskOp::kUserFirst) return reader_.fail("a user's tile is in no plan's text");
    reader_.skip_spaces();
    task.op = TaskOp(op);
    return flags(task);
  }

  Status flags(Task& task) {
    for (const auto& [flag, word] : text::kFlagWords) {
      if (reader_.take_word(word)) task.flags |= flag;
    }
    if (reader_.take("flags")) {
      uint8_t rest = 0;
      SK_RETURN_IF_ERROR(reader_.take_number(rest, "the flags"));
      task.flags |= rest;
      reader_.skip_spaces();
    }
    return Status();
  }

  Status params(Task& task, RankPlan& part) {
    const Signature* signature = signature_of(task.op);
    for (size_t i = 0;; ++i) {
      const bool named = signature != nullptr && i < signature->parameters.size();
      const Parameter* parameter = named ? &signature->parameters[i] : nullptr;
      const std::string name = named ? parameter->name : fmt::format("param{}", i);
      if (!reader_.take(name + "=")) return Status();
      if (i == std::numeric_limits<uint16_t>::max()) return reader_.fail("too many parameters");
      int64_t value = 0;
      SK_RETURN_IF_ERROR(param(parameter, name.c_str(), value));
      reader_.skip_spaces();
      part.params.push_back(value);
      ++task.param_count;
    }
  }

  Status param(const Parameter* parameter, const char* name, int64_t& value) {
    if (parameter != nullptr && parameter->has_words()) {
      for (int64_t i = parameter->min; i <= parameter->max; ++i) {
        if (reader_.take_word(parameter->word(i))) return value = i, Status();
      }
    }
    if (parameter != nullptr && parameter->kind == ParamKind::kFloat) {
      return reader_.take_float(value, name);
    }
    return reader_.take_number(value, name);
  }

  // Regions, then waits, then posts: dump() writes them so, and only so they come back the same.
  Status item(Task& task, RankPlan& part) {
    if (reader_.take("post=r")) return post(task, part);
    if (task.post_count > 0) return reader_.fail("expected post=");
    if (reader_.take("wait=r")) return wait(task, part);
    if (task.wait_count > 0) return reader_.fail("expected wait= or post=");
    Region region{};
    if (reader_.take("read=")) {
      region.access = kRead;
    } else if (reader_.take("write=")) {
      region.access = kWrite;
    } else if (reader_.take("access")) {
      SK_RETURN_IF_ERROR(reader_.take_number(region.access, "the access"));
      if (!reader_.take("=")) return reader_.fail("expected =");
    } else {
      return reader_.fail("expected a parameter, read=, write=, wait= or post=");
    }
    SK_RETURN_IF_ERROR(this->region(region));
    if (task.region_count == kRegionCountMax) {
      return reader_.fail("a task has at most {} regions", kRegionCountMax);
    }
    part.regions.push_back(region);
    ++task.region_count;
    return Status();
  }

  Status region(Region& region) {
    if (!reader_.take("b")) return reader_.fail("expected b, a buffer");
    SK_RETURN_IF_ERROR(reader_.take_number(region.buffer, "a buffer"));
    region.buffer_count = 1;
    if (reader_.take("..b")) {
      uint32_t last = 0;
      SK_RETURN_IF_ERROR(reader_.take_number(last, "the last buffer"));
      if (last <= region.buffer || last - region.buffer == UINT32_MAX) {
        return reader_.fail("the last buffer, {}, is not behind the first, {}", last,
                            region.buffer);
      }
      region.buffer_count = last - region.buffer + 1;
    } else if (reader_.take("*")) {
      SK_RETURN_IF_ERROR(reader_.take_number(region.buffer_count, "the number of buffers"));
    }
    if (!reader_.take("@")) return reader_.fail("expected @");
    SK_RETURN_IF_ERROR(reader_.take_number(region.offset, "the offset"));
    if (!reader_.take(":")) return reader_.fail("expected :");
    SK_RETURN_IF_ERROR(reader_.take_number(region.row_bytes, "the size"));
    region.rows = 1;
    region.pitch = region.row_bytes;
    if (!reader_.take("x")) return Status();
    if (region.row_bytes > UINT32_MAX) return reader_.fail("too many rows: {}", region.row_bytes);
    region.rows = uint32_t(region.row_bytes);
    SK_RETURN_IF_ERROR(reader_.take_number(region.row_bytes, "the bytes of a row"));
    if (!reader_.take("/")) return reader_.fail("expected /");
    return reader_.take_number(region.pitch, "the pitch");
  }

  Status wait(Task& task, RankPlan& part) {
    Wait wait{};
    SK_RETURN_IF_ERROR(edge_signal(wait.producer, wait.signal));
    if (!reader_.take(">=")) return reader_.fail("expected >=");
    SK_RETURN_IF_ERROR(reader_.take_number(wait.target, "the target"));
    if (task.wait_count == std::numeric_limits<uint16_t>::max()) {
      return reader_.fail("too many waits");
    }
    part.waits.push_back(wait);
    ++task.wait_count;
    return Status();
  }

  Status post(Task& task, RankPlan& part) {
    Post post{};
    SK_RETURN_IF_ERROR(edge_signal(post.rank, post.signal));
    if (!reader_.take("+")) return reader_.fail("expected +");
    SK_RETURN_IF_ERROR(reader_.take_number(post.add, "what is added"));
    part.posts.push_back(post);
    ++task.post_count;
    return Status();
  }

  Reader reader_;
  Plan plan_;
};

}  // namespace

Result<Plan> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace sk
