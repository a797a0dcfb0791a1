// Communicators among the ranks of a meeting, and what goes through them.
#include <dirent.h>

#include <algorithm>
#include <cstring>

#include "tools/sk_doctor/child.h"
#include "tools/sk_doctor/meeting.h"
#include "tools/sk_doctor/rounds.h"

namespace sk::doctor {
namespace {

constexpr int64_t kPairNs = 8'000'000'000;    // A host that fell silent is noticed in less.
constexpr int64_t kPairsNs = 90'000'000'000;  // For all rounds of pairs.
constexpr int kThoroughRanksMax = 8;          // More: little of each pair, since they are many.
constexpr size_t kHostIdBytes = 16;           // What a communicator gathers first: see place.cpp.

int open_descriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int count = -3;  // The folder's own, "." and "..".
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// A communicator whose ranks gather by `gather`, and its context.
class Made {
 public:
  Made(const Library& library, int rank, int world_size, int64_t timeout_ns, sk_allgather_fn gather,
       void* user)
      : library_(library) {
    code_ = library.init(nullptr, &context_);
    if (code_ == SK_OK) {
      sk_comm_config config{};
      config.struct_size = sizeof(config);
      config.bootstrap = SK_BOOTSTRAP_CALLBACK;
      config.rank = rank;
      config.world_size = world_size;
      config.allgather = gather;
      config.bootstrap_user = user;
      config.timeout_ms = timeout_ns / 1'000'000;
      code_ = library.comm_create(context_, &config, &comm_);
    }
    if (code_ != SK_OK) failure_ = library.last_error();
  }
  ~Made() {
    if (comm_ != nullptr) (void)library_.comm_free(comm_);
    if (context_ != nullptr) (void)library_.finalize(context_);
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

  sk_comm* comm() const { return comm_; }
  sk_status code() const { return code_; }
  const std::string& failure() const { return failure_; }

 private:
  const Library& library_;
  sk_context* context_ = nullptr;
  sk_comm* comm_ = nullptr;
  sk_status code_ = SK_OK;
  std::string failure_;
};

uint64_t seed_of(int a, int b) { return uint64_t(std::min(a, b)) << 20 | uint64_t(std::max(a, b)); }

}  // namespace

namespace {

struct Gathering {
  Bootstrap& bootstrap;
  int64_t timeout_ns;
  bool apart;
  int calls = 0;
  std::string failure;
};

// Apart, the others' host ids become other ones, each its own; the own one is looked at and stays.
int32_t gather_all(void* user, const void* in, size_t bytes, void* out) {
  auto& gathering = *static_cast<Gathering*>(user);
  const auto all = gathering.bootstrap.allgather(
      std::span(static_cast<const std::byte*>(in), bytes), gathering.timeout_ns);
  if (!all.ok()) {
    gathering.failure = all.status().message();
    return 1;
  }
  auto* const to = static_cast<std::byte*>(out);
  std::memcpy(to, all.value().data(), all.value().size());
  if (gathering.calls++ > 0 || !gathering.apart || bytes != kHostIdBytes) return 0;
  for (int rank = 0; rank < gathering.bootstrap.world_size(); ++rank) {
    if (rank == gathering.bootstrap.rank()) continue;
    to[size_t(rank) * bytes] ^= std::byte((rank + 1) & 0xff);
    to[size_t(rank) * bytes + 1] ^= std::byte((rank + 1) >> 8);
  }
  return 0;
}

}  // namespace

Meeting::Row Meeting::exchange_all(const Library& library, bool apart) {
  Row row;
  row.with.resize(size_t(world_size()));
  Gathering gathering{*bootstrap_, timeout_ns_ + timeout_ns_ / 4, apart, 0, ""};
  const Connections before = open_connections();
  const Made made(library, rank(), world_size(), timeout_ns_, gather_all, &gathering);
  row.code = made.code();
  row.broken = gathering.failure.empty() ? made.failure() : gathering.failure;
  if (made.comm() == nullptr) return row;
  row.connections = opened_since(before);
  sk_comm_info info{};
  info.struct_size = sizeof(info);
  if (library.comm_query(made.comm(), &info) == SK_OK && apart && info.local_size != 1) {
    row.broken = "this library cannot be made to take ranks of one host for several";
    row.code = SK_ERR_UNSUPPORTED;
    return row;
  }
  for (int round = 0; round < round_count(world_size()); ++round) {
    const int peer = partner_in(round, rank(), world_size());
    if (peer >= 0) {
      Exchanged& with = row.with[size_t(peer)];
      with = exchange(library, made.comm(), rank(), peer, seed_of(rank(), peer),
                      world_size() > kThoroughRanksMax);
      if (with.code != SK_OK && with.code != SK_ERR_INTERNAL) {
        row.broken = with.failure;
        row.code = with.code;
        return row;
      }
    }
    // Else a rank without a partner would be rounds ahead, and what holds it up unknown.
    row.code = library.barrier(made.comm(), nullptr);
    if (row.code != SK_OK) {
      row.broken = library.last_error();
      return row;
    }
  }
  row.descriptors = open_descriptors();
  return row;
}

namespace {

// What a pair gathers goes through steps of all: who has nothing to gather stands still meanwhile.
struct PairGathering {
  std::function<int32_t(const void* in, size_t bytes, void* out)> gather;
};

int32_t gather_pair(void* user, const void* in, size_t bytes, void* out) {
  return static_cast<PairGathering*>(user)->gather(in, bytes, out);
}

}  // namespace

Exchanged Meeting::exchange_pair(const Library& library, int round, Status* over) {
  const int peer = partner_in(round, rank(), world_size());
  const int64_t timeout_ns = std::min(timeout_ns_, kPairNs);
  Exchanged out;
  bool left = false;  // The peer has failed by itself, and says why.
  PairGathering gathering{[&](const void* in, size_t bytes, void* all) -> int32_t {
    Step mine;
    mine.stands_still = false;
    const auto* from = static_cast<const std::byte*>(in);
    mine.bytes.assign(from, from + bytes);
    auto steps = step(mine);
    if (!steps.ok()) {
      *over = steps.status().clone();
      return 1;
    }
    const Step& theirs = steps.value()[size_t(peer)];
    if (theirs.stands_still || theirs.bytes.size() != bytes) {
      left = true;
      return 2;
    }
    auto* const to = static_cast<std::byte*>(all);
    std::memcpy(to + (rank() < peer ? 0 : bytes), in, bytes);
    std::memcpy(to + (rank() < peer ? bytes : 0), theirs.bytes.data(), bytes);
    return 0;
  }};
  const auto stand_still = [&] {
    while (over->ok()) {
      auto steps = step({});
      if (!steps.ok()) {
        *over = steps.status().clone();
      } else if (std::all_of(steps->begin(), steps->end(),
                             [](const Step& each) { return each.stands_still; })) {
        return;
      }
    }
  };
  if (peer < 0) {
    stand_still();
    return out;
  }
  const int mine = rank() < peer ? 0 : 1;
  const Connections before = open_connections();
  const Made made(library, mine, 2, timeout_ns, gather_pair, &gathering);
  stand_still();
  if (made.comm() != nullptr) {
    out = exchange(library, made.comm(), mine, 1 - mine, seed_of(rank(), peer), true);
    out.connections = opened_since(before);
  } else if (over->ok()) {  // Else the meeting has ended, which says nothing of the pair.
    out.tried = true;
    out.code = left ? SK_ERR_PEER_LOST : made.code();
    out.failure = left ? fmt::format("rank {} gave up", peer) : made.failure();
  }
  return out;
}

// Each round begins with what became of the one before, so a meeting that ends keeps the rounds.
Status Meeting::exchange_pairs(const Library& library, std::vector<Row>* rows) {
  const size_t own = size_t(rank());
  const int64_t until_ns = clock_ns() + kPairsNs;
  Exchanged last;
  for (int round = 0;; ++round) {
    Step mine;
    mine.enough = clock_ns() > until_ns || round == round_count(world_size());
    const std::string told = to_json(last).dump();
    const auto bytes = std::as_bytes(std::span(told));
    mine.bytes.assign(bytes.begin(), bytes.end());
    SK_ASSIGN_OR_RETURN(const std::vector<Step> steps, step(mine));
    for (size_t each = 0; round > 0 && each < steps.size(); ++each) {
      const int peer = partner_in(round - 1, int(each), world_size());
      const auto* const text = reinterpret_cast<const char*>(steps[each].bytes.data());
      const Json said = Json::parse(text, text + steps[each].bytes.size(), nullptr, false);
      if (peer >= 0 && said.is_object()) (*rows)[each].with[size_t(peer)] = exchanged_from(said);
    }
    if (steps[0].enough) return {};
    Status over;
    last = exchange_pair(library, round, &over);
    const int peer = partner_in(round, rank(), world_size());
    if (peer >= 0) (*rows)[own].with[size_t(peer)] = last;
    SK_RETURN_IF_ERROR(std::move(over));
  }
}

}  // namespace sk::doctor
