#include "base/json_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {
namespace {

using testing::HasSubstr;

const Json& Example() {
  static const Json json = Json::parse(R"({
    "name": "a", "count": 3, "ratio": 0.5, "on": true, "memory": "16 GiB", "latency": "5 us",
    "bandwidth": "10 Gbit/s", "sizes": [5, 3, 0],
    "node": {"devices": [{"type": "v100"}, {"type": 7}]}
  })");
  return json;
}

JsonField Root() { return JsonField(Example(), "f.json"); }

template <class T>
std::string ErrorOf(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.error().ToString();
}

TEST(JsonFieldTest, ValuesOfEveryType) {
  EXPECT_EQ(Root().String("name").value(), "a");
  EXPECT_EQ(Root().Int("count", 0, 9).value(), 3);
  EXPECT_DOUBLE_EQ(Root().Number("ratio").value(), 0.5);
  EXPECT_DOUBLE_EQ(Root().Number("count").value(), 3);
  EXPECT_TRUE(Root().Bool("on").value());
  EXPECT_EQ(Root().BytesOf("memory").value().value, 16LL << 30);
  EXPECT_DOUBLE_EQ(Root().SecondsOf("latency").value().value, 5e-6);
  EXPECT_DOUBLE_EQ(Root().BandwidthOf("bandwidth").value().value, 1.25e9);
  EXPECT_EQ(Root().Ints("sizes", 0, 9).value(), (std::vector<int64_t>{5, 3, 0}));
  EXPECT_TRUE(Root().Has("node"));
  EXPECT_FALSE(Root().Has("nodes"));
}

TEST(JsonFieldTest, ErrorsNameFileAndPath) {
  const JsonField devices = Root().Object("node").value().Array("devices").value();
  EXPECT_EQ(ErrorOf(devices.Element(1).String("type")),
            "f.json: node.devices[1].type: found number, expected text");
  EXPECT_EQ(ErrorOf(devices.Element(0).String("memory")),
            "f.json: node.devices[0].memory: missing\n  hint: add this field");
  EXPECT_EQ(ErrorOf(Root().Array("name")), "f.json: name: found string, expected a list");
  EXPECT_EQ(ErrorOf(Root().Object("count")), "f.json: count: found number, expected a table");
  EXPECT_EQ(ErrorOf(Root().Bool("count")), "f.json: count: found number, expected true or false");
  EXPECT_EQ(ErrorOf(Root().Ints("sizes", 1, 9)),
            "f.json: sizes[2]: 0 is out of range\n  hint: expected 1 to 9");
}

TEST(JsonFieldTest, NumbersOutOfRange) {
  const Json json = Json::parse(R"({"big": 18446744073709551615, "half": 1.5, "low": -3})");
  const JsonField field(json, "f");
  EXPECT_THAT(ErrorOf(field.Int("big", 0, INT64_MAX)), HasSubstr("is out of range"));
  EXPECT_THAT(ErrorOf(field.Int("half", 0, 9)), HasSubstr("found 1.5, expected a whole number"));
  EXPECT_THAT(ErrorOf(field.Int("low", 0, 9)), HasSubstr("-3 is out of range"));
}

TEST(JsonFieldTest, AQuantityNeedsItsUnit) {
  EXPECT_THAT(ErrorOf(Root().BytesOf("count")), HasSubstr("f.json: count: 3 has no unit"));
  EXPECT_THAT(ErrorOf(Root().BytesOf("latency")), HasSubstr("unknown unit \"us\""));
}

TEST(JsonFieldTest, OnlyKnownKeys) {
  EXPECT_TRUE(Root().Object("node").value().OnlyKeys({"devices", "name"}).ok());
  EXPECT_EQ(ErrorOf(Root().Object("node").value().OnlyKeys({"device", "name"})),
            "f.json: node: unknown field \"devices\"\n  hint: did you mean \"device\"? known: "
            "device, name");
}

TEST(JsonFieldTest, SyntaxErrorsNameTheFile) {
  EXPECT_THAT(ErrorOf(ParseJson("{\"a\": ", "f.json")), HasSubstr("f.json: not valid JSON"));
  EXPECT_THAT(ErrorOf(ParseJson("", "f.json")), HasSubstr("f.json: not valid JSON"));
  EXPECT_THAT(ErrorOf(ParseJson("\"\xcc\xaa\xff\"", "f.json")), HasSubstr("not valid JSON"));
  EXPECT_EQ(ParseJson(" {\"a\": [1, {}]} ", "f").value().dump(), R"({"a":[1,{}]})");
}

TEST(JsonFieldTest, HostileShapesAreRefused) {
  EXPECT_THAT(ErrorOf(ParseJson(std::string(1000000, '['), "f")), HasSubstr("nested too deeply"));
  std::string wide = "{";
  for (int k = 0; k < 100000; ++k) wide += "\"" + std::to_string(k) + "\":0,";
  EXPECT_THAT(ErrorOf(ParseJson(wide + "\"x\":0}", "f")), HasSubstr("more than 16,384 fields"));
  // Brackets and colons inside text are text.
  const std::string text =
      "[\"" + std::string(1000, '[') + "\\\"" + std::string(20000, ':') + "\"]";
  EXPECT_TRUE(ParseJson(text, "f").ok());
}

// A long list of tables is as quick as it is long.
TEST(JsonFieldTest, LongLists) {
  std::string list = "[";
  for (int k = 0; k < 300000; ++k) list += "{},";
  EXPECT_EQ(ParseJson(list + "{}]", "f").value().size(), 300001U);
}

}  // namespace
}  // namespace heddle
