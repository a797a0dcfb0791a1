#include "lib/record/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace sk::record {
namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

bool read_all(int fd, void* to, size_t bytes, uint64_t offset) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(fd, at, bytes, off_t(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    offset += uint64_t(got);
    bytes -= size_t(got);
  }
  return true;
}

// Up to its NUL or its end; what cannot be shown on a line becomes a space.
template <size_t kRoom>
std::string text_of(const char (&text)[kRoom]) {
  std::string out(text, strnlen(text, kRoom));
  for (char& c : out) c = uint8_t(c) < 0x20 || c == 0x7f ? ' ' : c;
  return out;
}

template <typename Number>
Number get(const std::atomic<Number>& word) {
  return word.load(std::memory_order_relaxed);
}

// A moment within the years that people speak of; 0 for what is none.
int64_t moment(int64_t ns) { return ns < 0 || ns > int64_t{4'000'000'000'000'000'000} ? 0 : ns; }

bool is_call_state(uint64_t word) { return word >= 1 && word <= 3; }

// `first` and `second` are two copies, one made after the other: where the stamp is the same in
// both, what stands beside it in the first is of the call that the stamp names.
std::optional<Call> call_of(const Area& first, const Area& second, uint32_t index) {
  const CallRecord& record = first.calls[index];
  const uint64_t stamp = get(record.stamp), number = stamp >> 2;
  if (!is_call_state(stamp & 3) || number == 0 || number % kCalls != index) return std::nullopt;
  if (get(second.calls[index].stamp) != stamp) return std::nullopt;
  const uint32_t line = get(record.line);
  if (line >= kLines || get(first.lines[line].there) == 0) return std::nullopt;
  const uint64_t seq = get(record.seq);
  return Call{.number = number,
              .state = CallState(stamp & 3),
              .pair = (seq & kPairBit) != 0,
              .seq = seq & ~kPairBit,
              .entered_ns = moment(get(record.entered_ns)),
              .left_ns = moment(get(record.left_ns)),
              .bytes = get(record.bytes),
              .code = CallState(stamp & 3) == CallState::kFailed ? get(record.code) : 0,
              .kind = text_of(first.lines[line].kind),
              .text = text_of(first.lines[line].text)};
}

void read_calls(const Area& first, const Area& second, CommView& view) {
  std::vector<uint32_t> torn;
  for (uint32_t i = 0; i < kCalls; ++i) {
    if (auto call = call_of(first, second, i)) {
      view.calls.push_back(std::move(*call));
      continue;
    }
    // One that nobody has written yet is none.
    const CallRecord& record = first.calls[i];
    if (get(record.stamp) != 0 || get(record.entered_ns) != 0) torn.push_back(i);
  }
  std::sort(view.calls.begin(), view.calls.end(),
            [](const Call& a, const Call& b) { return a.number < b.number; });
  // What is older than a whole turn before the latest was never written over: not by a writer.
  if (!view.calls.empty()) {
    const uint64_t latest = view.calls.back().number;
    const auto recent = [&](const Call& call) { return call.number + kCalls > latest; };
    view.torn += uint32_t(std::erase_if(view.calls, [&](const Call& c) { return !recent(c); }));
  }
  view.torn += uint32_t(torn.size());
  const uint64_t next = view.calls.empty() ? 1 : view.calls.back().number + 1;
  view.writing = std::find(torn.begin(), torn.end(), next % kCalls) != torn.end();
}

void read_totals(const Area& area, CommView& view) {
  for (const OpLine& line : area.lines) {
    const bool unused = &line == &area.lines.back() && get(line.calls) == 0;
    if (get(line.there) == 0 || unused) continue;
    view.totals.push_back({text_of(line.kind), text_of(line.text), get(line.calls),
                           get(line.failures), get(line.bytes), moment(get(line.ns))});
  }
}

std::optional<CommView> view_of(const Area& first, const Area& second, uint32_t index) {
  CommView view;
  view.stage = Stage(get(first.stage));
  view.area = index;
  view.serial = get(first.serial);
  view.rank = get(first.rank);
  view.world_size = get(first.world_size);
  // Given to another communicator meanwhile, or just being given.
  if (view.stage == Stage::kFree || view.stage > Stage::kFreed) return std::nullopt;
  if (get(second.serial) != view.serial || view.world_size == 0) return std::nullopt;
  if (view.world_size > uint32_t(kWorldSizeMax) || view.rank >= view.world_size)
    return std::nullopt;
  view.comm = get(first.comm);
  view.job = text_of(first.job);
  view.launcher = text_of(first.launcher);
  view.name = text_of(first.name);
  view.far = text_of(first.far);
  view.began_ns = moment(get(first.began_ns));
  view.over_ns = moment(get(first.over_ns));
  view.timeout_ns = moment(get(first.timeout_ns));
  view.over_code = get(first.over_code);
  if (view.over_code != 0) view.over_sentence = text_of(first.over_sentence);
  const uint32_t awaited = get(first.awaited);
  if (awaited != 0 && awaited <= view.world_size) view.awaited = awaited - 1;
  if (get(first.here_known) != 0) {
    view.here.resize(view.world_size);
    for (uint32_t r = 0; r < view.world_size; ++r)
      view.here[r] = (first.here[r / 8] >> r % 8 & 1) != 0;
  }
  read_calls(first, second, view);
  read_totals(first, view);
  return view;
}

Status check_file(int fd, const std::string& path, uint64_t& bytes) {
  struct stat what = {};
  if (fstat(fd, &what) != 0) return system_error(path);
  if (!S_ISREG(what.st_mode)) return error(SK_ERR_INVALID_ARGUMENT, "{} is no file", path);
  if (what.st_uid != geteuid())
    return error(SK_ERR_TRUST, "{} is of user {}, not of {}", path, what.st_uid, geteuid());
  bytes = uint64_t(what.st_size);
  if (bytes < kHeadBytes) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} has {} bytes: a record has {} at least", path, bytes,
                 kHeadBytes);
  }
  return {};
}

Status check_head(const ProcessHead& head, const std::string& path, uint64_t bytes) {
  if (head.magic != kMagic) return error(SK_ERR_INVALID_ARGUMENT, "{} is no flight record", path);
  if (head.version != kVersion) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} is of version {}: this program reads version {}",
                 path, head.version, kVersion);
  }
  const uint32_t areas = get(head.areas);
  if (areas > kAreasMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} says that it has {} communicators: {} is the most",
                 path, areas, kAreasMax);
  }
  if (bytes < kHeadBytes + areas * kAreaBytes) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} has {} bytes, too few for the {} communicators that it says", path, bytes,
                 areas);
  }
  return {};
}

}  // namespace

Result<ProcessView> read_record(const std::string& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT)
    return error(SK_ERR_PEER_LOST, "{} is not there any more", path);
  if (file.get() < 0) return system_error(path);
  uint64_t bytes = 0;
  SK_RETURN_IF_ERROR(check_file(file.get(), path, bytes));
  ProcessHead head;
  if (!read_all(file.get(), static_cast<void*>(&head), sizeof(head), 0))
    return error(SK_ERR_INVALID_ARGUMENT, "{} has become shorter while it was read", path);
  SK_RETURN_IF_ERROR(check_head(head, path, bytes));
  ProcessView view;
  view.space = head.space;
  view.start_time = head.start_time;
  view.pid = head.pid;
  view.end = End(get(head.end)) <= End::kGone ? End(get(head.end)) : End::kUnknown;
  view.end_code = get(head.end_code);
  view.end_wall_ns = moment(get(head.end_wall_ns));
  view.began_ns = moment(head.began_ns);
  view.began_wall_ns = moment(head.began_wall_ns);
  view.host = text_of(head.host);
  view.program = text_of(head.program);
  const auto copies = std::make_unique<Area[]>(2);
  for (uint32_t i = 0; i < get(head.areas); ++i) {
    for (const uint32_t copy : {0, 1}) {
      if (!read_all(file.get(), static_cast<void*>(&copies[copy]), sizeof(Area),
                    kHeadBytes + i * kAreaBytes))
        return error(SK_ERR_INVALID_ARGUMENT, "{} has become shorter while it was read", path);
    }
    if (auto comm = view_of(copies[0], copies[1], i)) view.comms.push_back(std::move(*comm));
  }
  return view;
}

}  // namespace sk::record
