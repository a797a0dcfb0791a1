// What is wrong with a call, made from the schema: each operand and each number in turn. Each gets
// a sentence that names it, changes nothing, and the call that was right goes on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "lib/op/judge.h"
#include "lib/op/stored.h"
#include "lib/op/types.h"
#include "lib/op/values.h"
#include "tests/multi/derived/cover.h"
#include "tests/multi/derived/given.h"
#include "tests/multi/derived/run_cases.h"
#include "tests/multi/thread_ranks.h"

namespace sk::derived {
namespace {

struct Break {
  std::string what;
  std::string named;  // What the sentence must name; empty: any operand or dimension.
  std::function<void(Given&)> apply;
};

// All that can be broken of one call.
class Breaks {
 public:
  Breaks(const Case& c, int64_t rank) : c_(c), op_(c.shape.op), schema_(op_.schema()), rank_(rank) {
    const ArgLayout& layout = arg_layout(schema_);
    add("args.struct_size", "struct_size", [](Given& given) {
      const uint32_t size = 7;
      std::memcpy(given.bytes().data(), &size, sizeof size);
    });
    add("args.operation", "operation", [](Given& given) {
      const int32_t other = 99;
      std::memcpy(given.bytes().data() + ArgLayout::kOpOffset, &other, sizeof other);
    });
    for (const ArgField& field : layout.fields()) {
      if (field.kind == ArgField::kTensor) {
        if (!has(c_.shape, field.index, rank_) || op_.storage(field.index) == Storage::kPackedB)
          continue;
        tensor(field.index, schema_.operands[field.index].name);
        if (!schema_.operands[field.index].optional) null(field);
      } else if (field.kind == ArgField::kList) {
        list(field);
      } else if (field.kind == ArgField::kLength) {
        for (const int64_t length : {int64_t(-1), int64_t(1) << 40})
          add("length", "length", [field, length](Given& given) { given.put(field, length); });
      } else if (field.is_number()) {
        number(field);
      }
    }
  }
  std::vector<Break> take() { return std::move(all_); }

 private:
  void add(std::string what, std::string named, std::function<void(Given&)> apply) {
    all_.push_back({std::move(what), std::move(named), std::move(apply)});
  }
  void change(uint32_t i, const char* what, std::string named,
              const std::function<void(sk_tensor&)>& change) {
    add(std::string(schema_.operands[i].name) + " " + what, std::move(named),
        [i, change](Given& given) { change(given.tensor(i)); });
  }

  void null(const ArgField& field) {
    const std::string name = schema_.operands[field.index].name;
    add(name + " null", name,
        [field](Given& given) { given.put(field, static_cast<const void*>(nullptr)); });
  }
  // One tensor of it in all ways, which the sentence must say; and what is wrong with lists alone.
  void list(const ArgField& field) {
    const uint32_t i = field.index;
    const std::vector<int64_t>& lengths = c_.shape.lengths;
    if (lengths.empty()) return;
    null(field);
    const std::string name =
        fmt::format("{}[{}]", schema_.operands[i].name, Given::broken(c_.shape));
    tensor(i, name);
    const size_t first = Given::broken(c_.shape), last = lengths.size() - 1;
    add(name + " null", name, [i, first](Given& given) { given.list(i)[first] = nullptr; });
    add("the last of a list longer", "", [i, more = lengths[last] + 1, last](Given& given) {
      sk_tensor& longer = given.entry(i, last);
      longer.data = given.tensor(i).data;  // Some memory, where that one has none.
      longer.ndim = 1;
      longer.shape[0] = more;
      longer.strides[0] = 1;
    });
    if (first == last || lengths[last] == 0 || !schema_.is_written(i)) return;
    add(name + " twice", "overlap",
        [i, first, last](Given& given) { given.entry(i, last).data = given.entry(i, first).data; });
  }

  void tensor(uint32_t i, const std::string& name) {
    if (!c_.expected.at(schema_.operands[i].name)[size_t(rank_)].elements.empty()) {
      change(i, "data null", name, [](sk_tensor& t) { t.data = nullptr; });
      const size_t bytes = dtype_bytes(op_.type(i));
      change(i, "a byte off", name, [bytes](sk_tensor& t) {
        t.data = static_cast<std::byte*>(t.data) + (bytes > 1 ? 1 : 0);
      });
    }
    change(i, "struct_size 3", schema_.operands[i].list ? name : "struct_size",
           [](sk_tensor& t) { t.struct_size = 3; });
    change(i, "dtype 99", name, [](sk_tensor& t) { t.dtype = 99; });
    change(i, "ndim 0", name, [](sk_tensor& t) { t.ndim = 0; });
    change(i, "ndim 9", name, [](sk_tensor& t) { t.ndim = 9; });
    change(i, "shape[0] -1", name, [](sk_tensor& t) { t.shape[0] = -1; });
    change(i, "shape[0] huge", "", [](sk_tensor& t) { t.shape[0] = int64_t(1) << 62; });
    change(i, "reserved 1", name, [](sk_tensor& t) { t.reserved = 1; });
    change(i, "on a GPU", name, [](sk_tensor& t) { t.device_type = SK_DEVICE_CUDA; });
    change(i, "device_type 99", name, [](sk_tensor& t) { t.device_type = 99; });
    change(i, "device_id 1", name, [](sk_tensor& t) { t.device_id = 1; });
    types(i);
    if (op_.storage(i) == Storage::kRows) rows(i);
    sizes(i);
    shared(i);
  }
  // What is written lies in another operand's memory, and not as in place.
  void shared(uint32_t i) {
    const auto many = [&](uint32_t of) {
      return has(c_.shape, of, rank_) && op_.storage(of) != Storage::kPackedB &&
             stored(op_, of, uint32_t(c_.shape.setting.ranks)).columns > 1 &&
             c_.expected.at(schema_.operands[of].name)[size_t(rank_)].elements.size() > 1;
    };
    if (schema_.operands[i].role != Role::kOut || !many(i)) return;
    for (uint32_t other = 0; other < schema_.operands.size(); ++other) {
      if (other == i || !many(other) || op_.aliased(i) || op_.aliased(other) ||
          dtype_bytes(op_.type(other)) != dtype_bytes(op_.type(i)))
        continue;
      add(std::string(schema_.operands[i].name) + " an element into " +
              schema_.operands[other].name,
          "overlap", [i, other, bytes = dtype_bytes(op_.type(other))](Given& given) {
            given.tensor(i).data = static_cast<std::byte*>(given.tensor(other).data) + bytes;
          });
    }
  }
  // Another type that the schema does not allow there, or that makes another operand's wrong.
  void types(uint32_t i) {
    // Where the other one is another rank's, no rank can see it alone.
    for (uint32_t other = 0; other < schema_.operands.size(); ++other) {
      if (!op_.absent(other) && !has(c_.shape, other, rank_)) return;
    }
    for (int32_t type = SK_F32; type <= SK_I64; ++type) {
      OpDesc other = op_;
      other.set(OpDesc::type_field(i), type);
      for (uint32_t k = 0; k < schema_.operands.size(); ++k) {
        const OperandSchema& each = schema_.operands[k];
        if (each.only_in_place && std::string_view(each.alias) == schema_.operands[i].name)
          other.set(OpDesc::type_field(k), type);
      }
      if (other == op_ || mistake_in(other, uint32_t(c_.shape.setting.ranks)).empty()) continue;
      change(i, dtype_name(DType(type)), "", [type](sk_tensor& t) { t.dtype = type; });
    }
  }
  void rows(uint32_t i) {
    const Array shape = shaped(op_, c_.shape.setting.ranks, schema_.operands[i].shape);
    const bool turned = flag(op_, schema_.operands[i].turned_by);
    const int64_t columns = turned ? shape.rows : shape.columns;
    const int64_t count = turned ? shape.columns : shape.rows;
    if (columns > 1 && count > 0)
      change(i, "columns apart", schema_.operands[i].name, [](sk_tensor& t) { t.strides[1] = 2; });
    if (columns > 1 && count > 1)
      change(i, "rows overlap", schema_.operands[i].name, [](sk_tensor& t) { t.strides[0] = 1; });
    if (columns > 0 && count > 1)
      change(i, "rows backwards", schema_.operands[i].name,
             [](sk_tensor& t) { t.strides[0] = -8; });
  }
  // One more, where another operand of this rank says how many there are.
  void sizes(uint32_t i) {
    size_t axis = 0;
    for_each_axis(schema_.operands[i].shape, [&](std::string_view text) {
      const size_t number = axis++;
      bool elsewhere = false;
      for (const Dimension& dimension : schema_.dimensions) {
        if (text.find(dimension.name) == text.npos) continue;
        for (uint32_t other = 0; other < schema_.operands.size(); ++other) {
          elsewhere |= other != i && has(c_.shape, other, rank_) &&
                       std::string_view(schema_.operands[other].shape).find(dimension.name) !=
                           std::string_view::npos;
        }
      }
      if (!elsewhere || op_.storage(i) == Storage::kDense) return;
      const bool turned = flag(op_, schema_.operands[i].turned_by);
      const size_t stored = turned ? 1 - number : number;
      change(i, "one more", "", [stored](sk_tensor& t) {
        ++t.shape[stored];
        if (stored == 1) t.strides[0] = std::max(t.strides[0], t.shape[1]);
      });
    });
    if (op_.storage(i) != Storage::kDense) return;
    bool alone = true;
    for (uint32_t other = 0; other < schema_.operands.size(); ++other)
      alone &= other == i || !has(c_.shape, other, rank_);
    if (alone) return;
    change(i, "one more", "", [](sk_tensor& t) {
      t.ndim = 1;
      t.shape[0] = t.shape[0] * (t.strides[0] == 1 ? 1 : t.shape[1]) + 1;
      t.strides[0] = 1;
    });
  }

  void number(const ArgField& field) {
    const Attribute& attribute = schema_.attributes[field.index];
    const auto put = [&](const std::string& what, auto value, std::string named) {
      add(std::string(attribute.name) + " " + what, std::move(named),
          [field, value](Given& given) { given.put(field, value); });
    };
    switch (attribute.kind) {
      case AttributeKind::kBool:
        put("2", int32_t(2), attribute.name);
        return put("-1", int32_t(-1), attribute.name);
      case AttributeKind::kRank:
        put("-1", int32_t(-1), attribute.spoken());
        return put("too large", int32_t(c_.shape.setting.ranks), attribute.spoken());
      case AttributeKind::kRedOp:
        put("0", int32_t(0), attribute.name);
        put("9", int32_t(9), attribute.name);
        for (int32_t op = SK_SUM; op <= SK_AVG; ++op) {
          OpDesc other = op_;
          other.set(schema_.attribute_field(field.index), op);
          if (!mistake_in(other, uint32_t(c_.shape.setting.ranks)).empty()) put("unfit", op, "");
        }
        return;
      case AttributeKind::kInt:
        if (attribute.least[0] == '\0') return;
        return put("too small",
                   evaluate(attribute.least, OpScope(op_, c_.shape.setting.ranks)).value - 1,
                   attribute.name);
      case AttributeKind::kFloat:
        break;
    }
    put("NaN", std::numeric_limits<double>::quiet_NaN(), attribute.name);
    if (std::isfinite(attribute.lowest))
      put("-inf", -std::numeric_limits<double>::infinity(), attribute.name);
    if (std::isfinite(attribute.lowest)) put("too small", attribute.lowest - 1, attribute.name);
    if (std::isfinite(attribute.highest)) put("too large", attribute.highest + 1, attribute.name);
  }

  const Case& c_;
  const OpDesc& op_;
  const Schema& schema_;
  const int64_t rank_;
  std::vector<Break> all_;
};

bool names_any(const Schema& schema, const std::string& sentence) {
  const auto has = [&](const char* name) { return sentence.find(name) != sentence.npos; };
  return std::any_of(schema.operands.begin(), schema.operands.end(),
                     [&](const OperandSchema& each) { return has(each.name); }) ||
         std::any_of(schema.dimensions.begin(), schema.dimensions.end(),
                     [&](const Dimension& each) { return has(each.name); }) ||
         std::any_of(schema.attributes.begin(), schema.attributes.end(),
                     [&](const Attribute& each) { return has(each.spoken()); });
}

// How many things were refused.
size_t refuse_all(sk_comm* comm, const Case& c, int rank, uint64_t seed) {
  const Schema& schema = c.shape.op.schema();
  const auto id = int32_t(schema.id);
  const std::vector<Break> breaks = Breaks(c, rank).take();
  for (const Break& each : breaks) {
    SCOPED_TRACE(each.what + " of " + text_of(c.shape));
    Random random(seed);
    Given given(comm, c, rank, random);
    each.apply(given);
    const sk_status status = sk_call(comm, id, given.args(), nullptr);
    const std::string sentence = sk_last_error();
    EXPECT_TRUE(status == SK_ERR_INVALID_ARGUMENT || status == SK_ERR_UNSUPPORTED ||
                status == SK_ERR_OUT_OF_RANGE)
        << sk_status_name(status) << ": " << sentence;
    if (each.named.empty())
      EXPECT_TRUE(names_any(schema, sentence)) << sentence;
    else
      EXPECT_THAT(sentence, testing::HasSubstr(each.named));
    sk_op* op = nullptr;
    EXPECT_EQ(sk_op_create(comm, id, given.args(), &op), status) << sentence;
    EXPECT_EQ(op, nullptr);
    const RankMemory after = given.memory();
    for (size_t i = 0; i < after.operands.size(); ++i)
      EXPECT_EQ(after.operands[i].bytes, c.before[size_t(rank)].operands[i].bytes);
  }
  Random random(seed);
  Given given(comm, c, rank, random);
  EXPECT_EQ(sk_call(comm, id, given.args(), nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(wrong_in(c, rank, given.memory()), "") << text_of(c.shape);
  return breaks.size();
}

class DerivedBad : public testing::TestWithParam<const Schema*> {};

// Calls of two ranks, or of one: nothing that is refused is waited for by the other.
TEST_P(DerivedBad, CallsAreRefusedWithASentenceAndChangeNothing) {
  const uint64_t seed = std::random_device()();
  Random random(seed);
  const int ranks = GetParam()->scope == Scope::kLocal ? 1 : 2;
  std::vector<Case> cases;
  Wishes wishes;
  if (ranks == 2) wishes.emplace("ranks", "2");
  if (ranks == 1) wishes.emplace("workers", "1");
  for (const Shape& shape : covering_pairs(*GetParam(), random, wishes, {"map"}).shapes) {
    if (!shape.op.any_symmetric()) cases.push_back(make_case(shape, random));
  }
  ASSERT_FALSE(cases.empty());
  testing_ops::in_thread_ranks(ranks, [&](sk_comm* comm, int rank) {
    size_t refused = 0;
    for (const Case& c : cases) refused += refuse_all(comm, c, rank, seed + uint64_t(rank));
    EXPECT_GE(refused, 2 * cases.size());
    if (rank == 0) std::printf("%zu calls refused, of %zu\n", refused, cases.size());
  });
}

// Names that nobody has, each a letter away from one that there is.
TEST_P(DerivedBad, AnUnknownNameSuggestsTheNearOne) {
  const std::string name = GetParam()->name;
  for (const std::string& wrong :
       {name + "x", "x" + name, name.substr(0, name.size() - 1), name.substr(1)}) {
    EXPECT_EQ(sk_op_describe(wrong.c_str(), nullptr, 0, nullptr), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(sk_last_error(), testing::HasSubstr("\"" + wrong + "\"; did you mean " + name));
  }
}

INSTANTIATE_TEST_SUITE_P(All, DerivedBad, testing::ValuesIn(schemas()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace sk::derived
