#include "lib/plan/check/flow_watch.h"

#include <algorithm>

namespace sk::check {

using effect::Piece;
using effect::Stream;
using effect::Term;

FlowWatch::FlowWatch(const Scene& scene, const effect::Meaning& meaning, Judge& judge,
                     Budget& budget)
    : scene_(scene),
      meaning_(meaning),
      judge_(judge),
      budget_(budget),
      steps_(scene.plan.ranks[scene.self].queues.size(), 0) {}

FlowWatch::Passing FlowWatch::find(uint32_t from, uint32_t to, uint32_t signal,
                                   uint32_t use) const {
  for (const Flow& flow : scene_.flows) {
    const bool data = flow.from == from && flow.to == to && signal - flow.data < flow.slots;
    const bool credit = flow.from == to && flow.to == from && signal - flow.credit < flow.slots;
    if (!data && !credit) continue;
    const uint64_t chunk = signal - (data ? flow.data : flow.credit) + uint64_t(use) * flow.slots;
    if (chunk >= flow.count()) continue;
    // The last chunks have no credit: the number may be another flow's.
    if (data || flow.has_credit(uint32_t(chunk))) return {&flow, uint32_t(chunk), data};
  }
  return {};
}

FlowWatch::Passing FlowWatch::next(const Where& where, const Post& post) {
  const uint32_t from = where.part.rank;
  return find(from, post.rank, post.signal,
              uses_[{uint64_t(from) << 32 | post.rank, post.signal}]++);
}

void FlowWatch::task(const Where& where) {
  if (!status_.ok()) return;
  if (where.part.rank == scene_.self) {
    status_ = own_task(where);
    return;
  }
  if (where.task().op != TaskOp::kPut) return;
  const Passing passing = next(where, where.part.posts_of(where.task())[0]);
  const Result<Stream> content = stream(*passing.flow, passing.flow->chunks[passing.chunk]);
  if (!content.ok()) {
    status_ = content.status().clone();
  } else {
    judge_.leave(where, content.value());
  }
}

Status FlowWatch::take_status() { return status_.ok() ? judge_.take_status() : std::move(status_); }

Status FlowWatch::own_task(const Where& where) {
  SK_RETURN_IF_ERROR(check_waits(where));
  judge_.task(where);
  if (judge_.failed()) return Status();
  for (const Post& post : where.part.posts_of(where.task())) {
    SK_RETURN_IF_ERROR(check_post(where, post));
  }
  return Status();
}

Status FlowWatch::check_waits(const Where& where) {
  uint64_t& step = steps_[where.queue];
  if (where.task().op == TaskOp::kAwait) {
    step = std::max<uint64_t>(step, 1);
    if (where.queue == 0) {
      admitted_ = std::max(admitted_, step);
    } else {
      step = std::max(step, admitted_);
    }
  }
  for (const Wait& wait : where.part.waits_of(where.task())) {
    if (wait.producer == scene_.self) {
      const std::vector<Told>& told = own_signals_[wait.signal];
      const auto at =
          std::lower_bound(told.begin(), told.end(), wait.target,
                           [](const Told& each, uint64_t target) { return each.reach < target; });
      if (at != told.end()) step = std::max(step, at->step);  // Always: the replay waits for it.
      continue;
    }
    const Passing passing = find(wait.producer, scene_.self, wait.signal, wait.target - 1);
    if (passing.flow == nullptr) {
      return refuse('f', "{} waits for signal {} from rank {}, which no flow has", where,
                    wait.signal, wait.producer);
    }
    const Chunk& chunk = passing.flow->chunks[passing.chunk];
    step = std::max(step, 2 + (passing.data ? chunk.sent : chunk.taken));
  }
  if (where.task().op == TaskOp::kEnter && step > 0) {
    return refuse('a', "{} enters behind a wait for others, who may do so too", where);
  }
  return Status();
}

Status FlowWatch::check_post(const Where& where, const Post& post) {
  const uint64_t step = steps_[where.queue];
  if (post.rank == scene_.self) {
    std::vector<Told>& told = own_signals_[post.signal];
    told.push_back({(told.empty() ? 0 : told.back().reach) + post.add, step});
    return Status();
  }
  const Passing passing = next(where, post);
  if (passing.flow == nullptr || post.add != 1) {
    return refuse('f', "{} adds {} to signal {} to rank {}, which no flow does", where, post.add,
                  post.signal, post.rank);
  }
  if (passing.data != (where.task().op == TaskOp::kPut)) {
    return refuse('f', "{} posts signal {} to rank {}: chunks arrive with puts, credits do not",
                  where, post.signal, post.rank);
  }
  const Chunk& chunk = passing.flow->chunks[passing.chunk];
  const uint64_t promised = passing.data ? chunk.sent : chunk.taken;
  if (step > promised + 1) {
    return refuse('a', "{} posts in step {} what follows a wait for step {}", where, promised,
                  step - 2);
  }
  return passing.data ? check_put(where, passing) : Status();
}

Status FlowWatch::check_put(const Where& where, const Passing& passing) {
  const Flow& flow = *passing.flow;
  const Chunk& chunk = flow.chunks[passing.chunk];
  const Region& to = where.part.regions_of(where.task())[1];
  if (to.buffer != flow.inbox || to.buffer_count != 1 || to.rows != 1 ||
      to.offset != flow.offset(passing.chunk) || to.row_bytes != chunk.bytes) {
    return refuse('f',
                  "{} puts {} bytes to byte {} of buffer {}, chunk {} has {} for byte {} of {}",
                  where, to.row_bytes, to.offset, to.buffer, passing.chunk, chunk.bytes,
                  flow.offset(passing.chunk), flow.inbox);
  }
  SK_ASSIGN_OR_RETURN(const Stream must, stream(flow, chunk));
  const Stream is = judge_.left_by(where);
  if (effect::same(is, must, budget_)) return Status();
  return refuse('e', "{} puts {}; chunk {} must be {}", where,
                is.empty() ? "nothing" : meaning_.describe(is[0]), passing.chunk,
                must.empty() ? "nothing" : meaning_.describe(must[0]));
}

Result<Term> FlowWatch::term(const Content& content) {
  const auto alike = [&](const Joined& each) {
    return each.content.operand == content.operand && each.content.first == content.first &&
           each.content.last == content.last && each.content.joined == content.joined;
  };
  const auto known = std::find_if(joined_.begin(), joined_.end(), alike);
  if (known != joined_.end()) return known->term;
  const effect::Joining* joining = meaning_.joining(content.operand + 1, *content.joined);
  if (joining == nullptr || content.first >= content.last || content.last > joining->count) {
    return refuse('0', "a flow joins what the operation does not");
  }
  std::vector<Term> terms;
  const DType dtype = meaning_.array(content.operand + 1).dtype;
  for (uint32_t rank = content.first; rank < content.last; ++rank) {
    terms.push_back(
        {.array = uint8_t(content.operand + 1), .dtype = dtype, .first = rank, .last = rank + 1});
  }
  budget_.spend(terms.size());
  SK_ASSIGN_OR_RETURN(const Term joined, joining->join(terms));
  joined_.push_back({content, joined});
  return joined;
}

Result<Stream> FlowWatch::stream(const Flow& flow, const Chunk& chunk) {
  const Content& content = chunk.content;
  Stream out;
  bool known = content.operand < scene_.plan.op.schema().operands.size();
  if (known && content.joined) {
    SK_ASSIGN_OR_RETURN(const Term joined, term(content));
    const uint64_t element = dtype_bytes(joined.dtype);
    out = Piece{.term = joined,
                .rows = content.rows,
                .bytes = content.columns * element,
                .row = content.row,
                .column = content.column * element};
  } else if (known) {
    known = meaning_.hold(content.operand + 1, content.first,
                          {content.row, content.rows, content.column, content.columns}, &out);
  }
  if (!known || effect::bytes_of(out) != chunk.bytes) {
    return refuse('0', "the flow from rank {} to rank {} says of {} bytes what cannot be",
                  flow.from, flow.to, chunk.bytes);
  }
  return out;
}

}  // namespace sk::check
