// What a user may say of a tile, and what is wrong with all else: each planted mistake has its
// sentence, which names the tile and the place.
#include "lib/tile/user_tile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "lib/op/describe_schema.h"
#include "lib/tile/describe_user.h"
#include "lib/tile/user_table.h"
#include "tests/support/own_texts.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

int32_t done(void* const*, const sk_tile_view*, const sk_tile_value*, void*) { return 1; }
int32_t also_done(void* const*, const sk_tile_view*, const sk_tile_value*, void*) { return 1; }

// "" or what is wrong.
std::string refusal(const TileText& text, TileFunction function = {done, nullptr}) {
  TileSet set;
  const Result<OpKind> added = set.add(text, function);
  if (added.ok()) return "";
  EXPECT_EQ(added.status().code(), SK_ERR_INVALID_ARGUMENT) << added.status().message();
  return added.status().message();
}

struct Mistake {
  std::function<void(TileText&)> plant;
  const char* sentence;
};

void expect_refused(const TileText& good, const std::vector<Mistake>& mistakes) {
  EXPECT_EQ(refusal(good), "");
  for (const Mistake& mistake : mistakes) {
    TileText text = good;
    mistake.plant(text);
    EXPECT_THAT(refusal(text), HasSubstr(mistake.sentence));
  }
}

using T = TileText&;

TEST(UserTiles, TheirNamesAreNames) {
  for (const char* name : {"", "Scale", "2x", "a b", "sk::x", "caf\xc3\xa9", "x\n", "x_", "../x"}) {
    TileText text = saxpy_text();
    text.name = name;
    EXPECT_THAT(refusal(text), HasSubstr("it must be made of a to z, 0 to 9 and _")) << name;
  }
  expect_refused(
      saxpy_text(),
      {{[](T t) { t.name = "lambda"; },
        "name is \"lambda\", it is a word that libsk or a language"},
       {[](T t) { t.name = "rmsnorm"; }, "name is \"rmsnorm\", which is an operation of libsk"},
       {[](T t) { t.name = std::string(65, 'a'); }, "it has 65 characters, at most 64"},
       {[](T t) { t.regions[1].name = "Y"; }, "tile saxpy: the name of region 1 is \"Y\", it must"},
       {[](T t) { t.regions[1].name = "world"; },
        "the name of region 1 is \"world\", it is a word"},
       {[](T t) { t.regions[1].name = "x"; }, "tile saxpy: two regions are named x"},
       {[](T t) { t.numbers[0].name = "x"; }, "tile saxpy: two things are named x"},
       {[](T t) { t.numbers[0].name = "float"; }, "the name of parameter 0 is \"float\", it is a"},
       {[](T t) { t.numbers.push_back(t.numbers[0]); }, "two things are named alpha"},
       {[](T t) { t.summary = "two\nlines"; }, "summary must be printable ASCII"},
       {[](T t) { t.regions[0].doc = "\x7f"; }, "the doc of x must be printable ASCII"}});
}

TEST(UserTiles, TheirRegionsAreWhatArraysCanBe) {
  expect_refused(
      saxpy_text(),
      {{[](T t) { t.version = 0; }, "tile saxpy: version is 0, allowed are 1 to 65535"},
       {[](T t) { t.regions.resize(1); }, "it has 1 regions, allowed are 2 to 6"},
       {[](T t) { t.regions.resize(17, t.regions[0]); }, "it has 17 regions, allowed are 2 to 6"},
       {[](T t) { t.regions.pop_back(); }, "it must read one region at least, and write one"},
       {[](T t) { t.regions[0].types = ""; }, "the types of x are \"\"; give \"any\""},
       {[](T t) { t.regions[0].types = "y"; }, "the types of x are \"y\"; give \"any\""},
       {[](T t) { t.regions[0].types = "f32|f33"; }, "the types of x are \"f32|f33\""},
       {[](T t) { t.regions[0].shape = ""; },
        "the shape of x is \"\", it must have one axis or two"},
       {[](T t) { t.regions[0].shape = "b, m, n"; }, "it must have one axis or two"},
       {[](T t) { t.regions[0].shape = "m, n +"; }, "an axis of x is \"n +\", which cannot be"},
       {[](T t) { t.regions[0].shape = "m, q // 2"; }, "an axis of x is \"q // 2\", which"},
       {[](T t) { t.regions[2].in_place = "z"; }, "z may be in the memory of \"z\", which must be"},
       {[](T t) { t.regions[0].in_place = "y"; }, "x may be in the memory of \"y\", which must be"},
       {[](T t) { t.regions[2].types = "f32"; }, "its types must be \"y\" and its shape \"m, n\""},
       {[](T t) { t.numbers.resize(9, t.numbers[0]); }, "it has 9 parameters, allowed are 0 to 8"},
       {[](T t) { t.numbers[0].least = "x"; }, "a bound of alpha is \"x\", it must be a number"},
       {[](T t) { t.numbers[0].least = "2", t.numbers[0].most = "1"; }, "from 2 to 1"},
       {[](T t) {
          t.numbers[0].kind = AttributeKind::kInt;
          t.numbers[0].most = "q";
        },
        "a bound of alpha is \"q\", which cannot be read"},
       {[](T t) { t.regions[0].shape = "x, n"; }, "two things are named x"},
       {[](T t) { t.numbers[0].name = "m"; }, "two things are named m"},
       {[](T t) { t.regions[0].shape = "m, world"; }, "\"world\", which is a word that libsk"},
       {[](T t) { t.tile_rows = -1; }, "tile_rows is -1, it must be 0 or more"},
       {[](T t) {
          t.over = TileOver::kAll;
          t.tile_rows = 4;
        },
        "tile_rows is 4, it must be 0, for nothing is cut"},
       {[](T t) { t.effect.clear(); },
        "an opaque tile is never cut: over must be SK_TILE_OVER_ALL"}});
  EXPECT_EQ(refusal(saxpy_text(), {}), "tile saxpy: function is null");
}

TEST(UserTiles, TheirEffectsSayWhereEachRegionIs) {
  const auto says = [](const char* effect) { return [effect](T t) { t.effect = effect; }; };
  expect_refused(
      saxpy_text(),
      {{says("z = f(x)"), "the effect \"z = f(x)\" cannot be read; a step is \"y[i, j] = scale"},
       {says("z[i, j] = f(x[i, j]"), "cannot be read"},
       {says("x[i, j] = f(y[i, j])"),
        "the step of x makes \"x\", which is no region that is written"},
       {says("z[i, j] = f(q[i, j])"), "the step of z reads \"q\", which is no region that is read"},
       {says("z[i, j] = f(z[i, j])"), "the step of z reads \"z\", which is no region that is read"},
       {says("z[i, j] = f(x[i, j])"), "tile saxpy: no step reads y"},
       {says("z[i, j] = f(x@r[i, j], y[i, j])"), "x@r: a tile knows no ranks"},
       {says("z[i, j] = f(x[i], y[i, j])"), "x[i] has 1 indices, and the shape \"m, n\""},
       {says("z[i, j] = f(x[i, 0], y[i, j])"), "x[i, 0]: an index is an iterator alone"},
       {says("z[i, j] = f(x[i, j + 1], y[i, j])"), "not \"j + 1\""},
       {says("z[i, m] = f(x[i, m], y[i, m])"), "z[i, m]: an index is an iterator alone"},
       {says("z[i, alpha] = f(x[i, alpha], y[i, alpha])"), "not \"alpha\""},
       {says("z[i, j] = f(x[j, i], y[i, j])"), "x[j, i]: j goes over \"m\" here and over \"n\""},
       {says("z[i, j] = f(x[i, j], x[i, k], y[i, j])"),
        "it reads x[i, j] and x[i, k]: give it as two"},
       {says("z[i, j] = f(x[i, k], y[i, j])"), "a step's input has an iterator that nothing binds"},
       {says("z[i, j] = f(x[i, j], y[i, j]); z[i, j] = g(x[i, j], y[i, j])"), "two steps make z"},
       {says("z[i, j] = f(x[i, j], y[i, j], alpha = alpha)"), "the step of z binds alpha"},
       {says("z[i, j] = x[i, j]"), "has no function that the parameter alpha could be bound to"},
       {says("z[i, j] = f[k](x[i, j], y[i, j])"),
        "the step of z is inside of k, which is no iterator"},
       {says("z[i, j] = sum(k) f(x[i, k], y[i, j])"), "joins over k: write sum(k uncut)"},
       {says("z[i, j] = f[i](x[i, j], y[i, j])"),
        "the step of z has all of i at once, which is not cut"},
       {says("z[j, i] = f(x[i, j], y[i, j])"), "i goes over \"m\" here and over \"n\""}});
}

TEST(UserTiles, TheirCutsAreThoseOfWhatIsWritten) {
  expect_refused(
      normed_text(),
      {{[](T t) { t.over = TileOver::kBlocks; },
        "the step of y has all of j at once, which is not"},
       {[](T t) { t.effect = "y[i, j] = f[j](x[i, j], w[j]); s[k] = g[i, j](x[i, j], w[j])"; },
        "over rows all regions written have one iterator along axis 0, s has k, not i"},
       {[](T t) {
          t.effect = "y[i, j] = f[j](x[i, j], w[j]); s[i] = sum(i uncut) f(x[i, j], w[j])";
        },
        "the step of s joins over i, which is not cut over rows then"}});
  TileText vectors = normed_text();
  vectors.over = TileOver::kBlocks;
  vectors.effect = "y[i, j] = f(x[i, j], w[j]); s[i] = rowsum[j](x[i, j], w[j])";
  EXPECT_THAT(refusal(vectors),
              HasSubstr("over blocks every region written has two axes, s has one"));
  TileText square = saxpy_text();
  for (auto& region : square.regions) region.shape = "m, m";
  square.effect = "z[i, j] = f(x[j, i], y[i, j])";
  EXPECT_EQ(refusal(square), "");
  square.effect = "z[i, j] = f(x[i, j], y[j, i])";
  EXPECT_THAT(refusal(square), HasSubstr("z may be in the memory of y, and has other indices"));
  square.effect = "z[i, i] = f(x[i, i], y[i, i])";
  square.over = TileOver::kBlocks;
  EXPECT_THAT(refusal(square), HasSubstr("i goes along both axes"));
}

TEST(UserTiles, OpaqueOnesNeedNoEffect) {
  TileText text = normed_text();
  text.effect.clear();
  text.over = TileOver::kAll;
  EXPECT_EQ(refusal(text), "");
  const UserEffect effect = UserEffect::read(text).value();
  EXPECT_EQ(effect.iterators.size(), 2u);
  text.regions[3].shape = "q";  // Of a result alone.
  EXPECT_EQ(refusal(text), "");
  for (auto& region : text.regions) region.shape = region.name == "s" ? "n" : "n, n";
  EXPECT_EQ(refusal(text), "");
  text.regions[0].shape = "a, b";
  text.regions[1].shape = "c, d";
  text.regions[2].shape = "e, f";
  EXPECT_THAT(refusal(text), HasSubstr("it goes over more than 5 axes"));
}

TEST(UserTiles, ANameIsOneRecordsUntilThatIsTakenAway) {
  TileSet set;
  const TileFunction first{done, nullptr};
  const int32_t id = int32_t(set.add(saxpy_text(), first).value());
  EXPECT_EQ(id, 1000);
  EXPECT_EQ(int32_t(set.add(saxpy_text(), first).value()), id);  // The same in all.
  TileText other = saxpy_text();
  other.version = 2;
  EXPECT_THAT(set.add(other, first).status().message(),
              HasSubstr("a tile saxpy is registered already, as operation 1000 and with another "
                        "description: unregister"));
  EXPECT_THAT(set.add(saxpy_text(), {also_done, nullptr}).status().message(),
              HasSubstr("with another function"));
  {
    const Result<TileSet::Use> use = set.use(id);
    ASSERT_TRUE(use.ok());
    const Status busy = set.remove(id);
    EXPECT_EQ(busy.code(), SK_ERR_BUSY);
    EXPECT_THAT(busy.message(), HasSubstr("1 thread(s) are inside a call of tile saxpy"));
  }
  EXPECT_TRUE(set.remove(id).ok());
  EXPECT_THAT(set.use(id).status().message(),
              HasSubstr("op is 1000, which is no tile of this context: there are none"));
  EXPECT_FALSE(set.remove(id).ok());
  EXPECT_EQ(int32_t(set.add(other, first).value()), id + 1);  // Numbers are not used again.
  EXPECT_THAT(set.use(-1).status().message(), HasSubstr("there are 1001 saxpy"));
  EXPECT_THAT(set.use("sax").status().message(),
              HasSubstr("no tile of this context is called \"sax\""));
}

// Of another context the same name is another's.
TEST(UserTiles, SetsShareNothing) {
  TileSet a, b;
  TileText other = saxpy_text();
  other.version = 7;
  const OpKind of_a = a.add(saxpy_text(), {done, nullptr}).value();
  const OpKind of_b = b.add(other, {done, nullptr}).value();
  EXPECT_EQ(of_a, of_b);
  const auto tile_a = a.use(int32_t(of_a)), tile_b = b.use(int32_t(of_b));
  EXPECT_NE(tile_a.value()->id, tile_b.value()->id);
  EXPECT_EQ(user_tile(tile_a.value()->id), &*tile_a.value());
  EXPECT_NE(tile_a.value()->schema().digest, tile_b.value()->schema().digest);
  EXPECT_NE(OpDesc(tile_a.value()->schema()).hash(), OpDesc(tile_b.value()->schema()).hash());
}

TEST(UserTiles, NumbersAreFoundAgainOnceASetIsGone) {
  TaskOp number{};
  {
    TileSet set;
    number = set.use(int32_t(set.add(saxpy_text(), {done, nullptr}).value())).value()->id;
    EXPECT_NE(user_tile(number), nullptr);
  }
  EXPECT_EQ(user_tile(number), nullptr);
  EXPECT_EQ(tile_op(number), nullptr);
}

TEST(UserTiles, AreDescribedAsOperationsAre) {
  TileSet set;
  EXPECT_EQ(describe_tiles(set, nullptr).value(), "[]");
  const OpKind id = set.add(saxpy_text(), {done, nullptr}).value();
  const std::string text = describe_tiles(set, "saxpy").value();
  EXPECT_THAT(text, HasSubstr("\"name\": \"saxpy\", \"id\": 1000, \"scope\": \"local\""));
  EXPECT_THAT(text,
              HasSubstr("\"meaning\": \"z@r[i, j] = saxpy(x@r[i, j], y@r[i, j], alpha = alpha)\""));
  EXPECT_THAT(text, HasSubstr("\"version\": 1, \"over\": \"rows\", \"serial\": false"));
  EXPECT_EQ(describe_tiles(set, nullptr).value(), "[" + text + "]");
  EXPECT_THAT(describe_tiles(set, "rmsnorm").status().message(), HasSubstr("there are 1000 saxpy"));
  ASSERT_TRUE(set.remove(int32_t(id)).ok());
  EXPECT_EQ(describe_tiles(set, nullptr).value(), "[]");
}

}  // namespace
}  // namespace sk
