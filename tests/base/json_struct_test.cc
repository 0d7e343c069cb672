#include "base/json_struct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {

enum class Fruit : uint8_t { kApple, kPear, kStone };
template <>
struct Choices<Fruit> {
  static constexpr Choice<Fruit> kTable[] = {{Fruit::kApple, "apple"},
                                             {Fruit::kPear, "pear", "birne"},
                                             {Fruit::kStone, "stone", "", /*offered=*/false}};
};

struct Basket {
  Fruit fruit = Fruit::kApple;
  int64_t count = 3;

  bool operator==(const Basket&) const = default;
};
template <>
struct JsonFields<Basket> {
  static constexpr auto kTable = std::tuple(JsonMember("fruit", &Basket::fruit),
                                            JsonMember("count", &Basket::count).Within(1, 10));
};

struct Stall {
  std::string name;
  std::vector<Basket> baskets;
  std::optional<double> price;
  Seconds open{2};
  bool covered = false;
  uint64_t hash = 0;

  bool operator==(const Stall&) const = default;
};
template <>
struct JsonFields<Stall> {
  static constexpr std::string_view kSchema = "test.stall/1";
  static constexpr auto kTable =
      std::tuple(JsonMember("name", &Stall::name), JsonMember("baskets", &Stall::baskets),
                 JsonMember("price", &Stall::price).Above(0),
                 JsonMember("open_seconds", &Stall::open).AtLeast(0),
                 JsonMember("covered", &Stall::covered).Optional(),
                 JsonMember("hash", &Stall::hash).Optional());
};

namespace {

using testing::HasSubstr;

constexpr char kText[] =
    R"({"schema":"test.stall/1","name":"s","baskets":[{"fruit":"pear","count":4}],"price":2.5,)"
    R"("open_seconds":7.0,"covered":true,"hash":18446744073709551615})";

std::string ErrorOf(const std::string& text) {
  const Json json = ParseJson(text, "f").value();
  const Result<Stall> stall = ReadStruct<Stall>(JsonField(json, "f"));
  return stall.ok() ? "" : stall.error().ToString();
}

std::string With(const std::string& old, const std::string& other) {
  std::string text = kText;
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return ErrorOf(text.replace(at, old.size(), other));
}

TEST(JsonStructTest, BothWays) {
  const Json json = ParseJson(kText, "f").value();
  const Stall stall = ReadStruct<Stall>(JsonField(json, "f")).value();
  EXPECT_EQ(stall, (Stall{"s", {{Fruit::kPear, 4}}, 2.5, Seconds{7}, true, UINT64_MAX}));
  EXPECT_EQ(WriteStruct(stall).dump(), kText);
}

TEST(JsonStructTest, WhatMayBeMissing) {
  const Json json =
      ParseJson(R"({"schema":"test.stall/1","name":"s","baskets":[],"open_seconds":0})", "f")
          .value();
  EXPECT_EQ(ReadStruct<Stall>(JsonField(json, "f")).value(), (Stall{"s", {}, {}, Seconds{0}}));
  EXPECT_FALSE(WriteStruct(Stall{}).contains("price"));
}

TEST(JsonStructTest, ErrorsNameThePlace) {
  EXPECT_THAT(With("\"count\":4", "\"count\":11"), HasSubstr("f: baskets[0].count: 11 is out of"));
  EXPECT_THAT(With("pear", "appel"),
              HasSubstr("f: baskets[0].fruit: \"appel\" is unknown\n  hint: did you mean "
                        "\"apple\"? apple or birne"));
  EXPECT_THAT(With("2.5", "0"), HasSubstr("f: price: 0 is out of range\n  hint: expected more"));
  EXPECT_THAT(With("7.0", "-1"), HasSubstr("f: open_seconds: -1 is out of range"));
  EXPECT_THAT(With("true", "1"), HasSubstr("f: covered: found number, expected true or false"));
  EXPECT_THAT(With("18446744073709551615", "-1"), HasSubstr("f: hash: found -1"));
  EXPECT_THAT(With("\"name\"", "\"nmae\""), HasSubstr("unknown field \"nmae\"\n  hint: did you"));
  EXPECT_THAT(With("\"name\":\"s\",", ""), HasSubstr("f: name: missing"));
  EXPECT_THAT(With("stall/1", "stall/2"), HasSubstr("schema: found \"test.stall/2\", expected"));
  EXPECT_THAT(With("[{\"fruit\":\"pear\",\"count\":4}]", "7"), HasSubstr("expected a list"));
}

TEST(ChoicesTest, NamesAreWrittenOnceAndReadInBothSpellings) {
  EXPECT_EQ(NameOf(Fruit::kPear), "pear");
  EXPECT_EQ(ParseChoice<Fruit>("pear"), Fruit::kPear);
  EXPECT_EQ(ParseChoice<Fruit>("birne"), Fruit::kPear);
  EXPECT_EQ(ParseChoice<Fruit>("stone"), Fruit::kStone) << "a file may say it";
  EXPECT_EQ(ParseChoice<Fruit>(""), std::nullopt);
  EXPECT_EQ(ChoiceText<Fruit>(), "apple or birne") << "people are not offered the last";
  EXPECT_EQ(Alternatives({"a", "b", "c"}), "a, b or c");
  EXPECT_EQ(Alternatives({"a"}), "a");
}

}  // namespace
}  // namespace heddle
