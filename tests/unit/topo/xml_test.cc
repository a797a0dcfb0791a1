#include "lib/topo/xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace sk::topo {
namespace {

using testing::StartsWith;

const char kSample[] =
    "<?xml version=\"1.0\"?>\n<!DOCTYPE a SYSTEM \"a.dtd\">\n<!-- <no> -->\n"
    "<a one='1' two=\"&lt;&#65;&#x42;&amp;&quot;\">\n  <b/><c k = 'v'> 1 2 <d/>3</c >\n</a>\n";

TEST(TopoXml, ReadsElementsAttributesTextAndEntities) {
  const auto root = parse_xml(kSample);
  ASSERT_TRUE(root.ok()) << root.status().message();
  const XmlElement& a = root.value();
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.line, 4u);
  EXPECT_EQ(a.get("one"), "1");
  EXPECT_EQ(a.get("two"), "<AB&\"");
  EXPECT_EQ(a.get("three"), std::nullopt);
  ASSERT_EQ(a.children.size(), 2u);
  EXPECT_EQ(a.children[1].line, 5u);
  EXPECT_EQ(a.children[1].column, 7u);
  EXPECT_EQ(a.children[1].text, " 1 2 3");
  EXPECT_EQ(a.children[1].children.at(0).name, "d");
}

TEST(TopoXml, MistakesAreToldWithTheirPlace) {
  struct {
    const char* text;
    const char* sentence;
  } const table[] = {
      {"", "line 1, column 1: there is no element"},
      {"<a>\n<b>\n</a>", "line 3, column 4: </b> must stand here, not </a>"},
      {"<a>\n", "line 2, column 1: </a> is missing"},
      {"<a b></a>", "line 1, column 5: = must follow b"},
      {"<a b=c></a>", "line 1, column 6: a value in quotes must stand here"},
      {"<a b='c></a>", "line 1, column 7: the quotes do not end"},
      {"<a b='' b=''/>", "line 1, column 9: b comes twice"},
      {"<a b='&nbsp;'/>", "line 1, column 7: the entity &nbsp; is not known"},
      {"<a b='&#0;'/>", "line 1, column 7: the entity &#0; is not known"},
      {"<a b='&lt'/>", "line 1, column 7: an entity does not end in ;"},
      {"<a/><b/>", "line 1, column 5: a second element"},
      {"<a/><!-- ", "line 1, column 5: \"-->\" is missing"},
      {"< a/>", "line 1, column 2: a name is missing"},
      {"<a", "line 1, column 3: a name is missing"},
  };
  for (const auto& row : table) {
    const auto root = parse_xml(row.text);
    EXPECT_EQ(root.status().code(), SK_ERR_INVALID_ARGUMENT) << row.text;
    EXPECT_THAT(root.status().message(), StartsWith(row.sentence)) << row.text;
  }
}

TEST(TopoXml, DepthIsBounded) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "<a>";
  EXPECT_THAT(parse_xml(text).status().message(), testing::HasSubstr("nest deeper than"));
}

TEST(TopoXml, NumbersAreChecked) {
  const auto root = parse_xml("<a n='17' h='0x1f' s='16.0 GT/s' bad='x' neg='-1' nan='nan'/>");
  ASSERT_TRUE(root.ok());
  const XmlElement& a = root.value();
  EXPECT_EQ(a.integer("n", 0).value(), 17u);
  EXPECT_EQ(a.integer("h", 0).value(), 31u);
  EXPECT_EQ(a.integer("none", 5).value(), 5u);
  EXPECT_EQ(a.leading_number("s", 0).value(), 16.0);
  for (const char* name : {"bad", "neg"}) {
    EXPECT_EQ(a.integer(name, 0).status().code(), SK_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(a.leading_number(name, 0).status().code(), SK_ERR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(a.leading_number("nan", 0).status().code(), SK_ERR_INVALID_ARGUMENT);
}

TEST(TopoXml, MutatedTextsEndInATreeOrASentence) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::string text = kSample;
    for (size_t i = 1 + random() % 3; i > 0; --i) {
      const size_t at = random() % text.size();
      if (random() % 2) {
        text[at] = char(random());
      } else {
        text.erase(at, 1 + random() % 8);
      }
    }
    const auto root = parse_xml(text);
    if (root.ok()) continue;
    EXPECT_THAT(root.status().message(), testing::ContainsRegex("^line [0-9]+, column [0-9]+: "));
  }
}

}  // namespace
}  // namespace sk::topo
