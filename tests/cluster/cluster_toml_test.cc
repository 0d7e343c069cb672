// TOML to JSON: positions of errors, what JSON cannot say, hostile files.
#include "cluster/cluster_toml.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json_field.h"
#include "cluster_text.h"

namespace heddle {
namespace {

std::string WhereOf(const std::string& text) {
  const Result<Json> json = ParseToml(text, "f.toml");
  return json.ok() ? "good" : json.error().where;
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(ClusterTomlTest, TurnsEveryKindOfValueIntoJson) {
  const Result<Json> json = ParseToml(R"(
text = "a\tb"
whole = -3
real = 1.5
flag = true
list = [1, "two", [3]]
inline = { x = 1 }
[table.inner]
y = 2
[[many]]
z = 1
[[many]]
z = 2
)",
                                      "f.toml");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json.value().dump(),
            R"({"flag":true,"inline":{"x":1},"list":[1,"two",[3]],"many":[{"z":1},{"z":2}],)"
            R"("real":1.5,"table":{"inner":{"y":2}},"text":"a\tb","whole":-3})");
}

TEST(ClusterTomlTest, SyntaxErrorsNameLineAndColumn) {
  EXPECT_EQ(WhereOf("a = 1\nb = = 2\n"), "f.toml:2:5");
  EXPECT_EQ(WhereOf("a = 1\na = 2\n").substr(0, 9), "f.toml:2:");
  EXPECT_EQ(WhereOf("a = \"open").substr(0, 9), "f.toml:1:");
}

// toml++ has assertions about these.
TEST(ClusterTomlTest, BrokenHeadersAreErrors) {
  for (const char* text :
       {"[.]", "[=]", "[[[a]]]", "[[=", "[a.]", "[", "[[", "[a", "[#", "[.a]\n"}) {
    EXPECT_NE(WhereOf(text), "good") << text;
  }
}

TEST(ClusterTomlTest, BeyondAsciiOnlyInComments) {
  EXPECT_EQ(WhereOf("\xef\xbb\xbf# \xc3\xa9\na = \"\\u00e9\" # \xff\n"), "good");
  EXPECT_EQ(ParseToml("a = \"\\u00e9\"", "f.toml").value().dump(), "{\"a\":\"\xc3\xa9\"}");
  EXPECT_EQ(WhereOf("a = 1\n\xc3\xa9 = 1\n"), "f.toml:2");
  EXPECT_EQ(WhereOf("a = \"\"\"\\\n  \xc3\xa9\"\"\"\n"), "f.toml:2");
  EXPECT_EQ(WhereOf("a = 0'\xd1\x8a' # \xc3\xa9"), "f.toml:1");
}

TEST(ClusterTomlTest, RefusesWhatJsonCannotSay) {
  EXPECT_EQ(WhereOf("a = 1\nb = nan\n"), "f.toml:2:5");
  EXPECT_EQ(WhereOf("b = [1.0, inf]\n"), "f.toml:1:11");
  EXPECT_EQ(WhereOf("b = -inf\n"), "f.toml:1:5");
  EXPECT_EQ(WhereOf("b = 2020-01-01\n"), "f.toml:1:5");
}

TEST(ClusterTomlTest, DeepNestingIsAnError) {
  EXPECT_NE(WhereOf("a = " + Repeated("[", 200'000)), "good");
  EXPECT_NE(WhereOf("a = " + Repeated("{ a = ", 200'000)), "good");
  EXPECT_NE(WhereOf("a = " + Repeated("[", 100) + Repeated("]", 100)), "good");
  EXPECT_NE(WhereOf(Repeated("a.", 200'000) + "a = 1"), "good");
  EXPECT_NE(WhereOf("[" + Repeated("a.", 200'000) + "a]\n"), "good");
  EXPECT_NE(WhereOf("[[" + Repeated("\"a\" . ", 200'000) + "a]]\n"), "good");
}

// Ways to hide the dots of a key from a scanner that does not know TOML's strings.
TEST(ClusterTomlTest, DeepKeysCannotHideBehindStrings) {
  const std::string deep = Repeated("a.", 100'000) + "a = 1";
  for (const char* before :
       {"x = \"\"\n", "x = \"\\\"\"\n", "x = '\\'\n", "x = '\"'\n", "x = \"\"\"a\"\"\"\"\n",
        "x = \"\"\"a\n\"\"\"\"\"\n", "x = '''a''''\n", "# \"\n", "\"=\" = 1\n", "x = \"#\"\n"}) {
    EXPECT_NE(WhereOf(before + deep), "good") << before;
  }
  EXPECT_NE(WhereOf("x = { y = \"\"\"a\"\"\"\", " + deep + " }"), "good");
  EXPECT_NE(WhereOf(Repeated("\"=\".", 100'000) + "a = 1"), "good");
}

TEST(ClusterTomlTest, DotsElsewhereAreNoKeys) {
  const std::string dots = Repeated(".", 100);
  EXPECT_EQ(WhereOf("# " + dots + "\na = \"" + dots + "\"\n"), "good");
  EXPECT_EQ(WhereOf("a = '''" + dots + "\n" + dots + "'''\n"), "good");
  EXPECT_EQ(WhereOf("a = [" + Repeated("1.5, ", 100) + "]\n"), "good");
  EXPECT_EQ(WhereOf("a.b.c.d = 1\n"), "good");
}

TEST(ClusterTomlTest, LargeFilesAreErrors) {
  EXPECT_EQ(WhereOf(std::string((1 << 20) + 1, '\n')), "f.toml");
  std::string keys;
  for (int i = 0; i < 2000; ++i) keys += "k" + std::to_string(i) + " = 1\n";
  EXPECT_NE(WhereOf(keys), "good");
}

RC_GTEST_PROP(ClusterTomlTest, AnyTextIsReadOrRefused, (const std::string& text)) {
  const Result<Json> json = ParseToml(text, "f.toml");
  if (!json.ok()) RC_ASSERT(json.error().kind == ErrorKind::kBadInput);
}

// A valid file with a piece cut out or doubled must load or give an error, never crash.
RC_GTEST_PROP(ClusterTomlTest, DamagedFilesAreReadOrRefused, ()) {
  const std::string good = kPreamble + NodeText("a", 2, "count = 3") + SwitchText("s") +
                           LinkText("a*", "s") + LinkText("a0:1", "a1:0");
  const auto begin = *rc::gen::inRange<size_t>(0, good.size());
  const auto length = *rc::gen::inRange<size_t>(0, 40);
  const bool doubled = *rc::gen::arbitrary<bool>();
  const std::string piece = good.substr(begin, length);
  const std::string text =
      good.substr(0, begin) + (doubled ? piece + piece : "") + good.substr(begin + piece.size());
  const Result<Cluster> cluster = ParseClusterToml(text, "f.toml");
  if (!cluster.ok()) RC_ASSERT(cluster.error().kind == ErrorKind::kBadInput);
}

TEST(ClusterTomlTest, LoadsTomlAndJsonFiles) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "cluster_toml";
  std::filesystem::create_directories(folder);
  const std::string toml = (folder / "c.toml").string();
  const std::string json = (folder / "c.json").string();
  std::ofstream(toml) << kPreamble << NodeText("a", 2);
  const Result<Cluster> from_toml = LoadCluster(toml);
  ASSERT_TRUE(from_toml.ok());
  std::ofstream(json) << ClusterSpecToJson(from_toml.value().spec()).dump(2);
  const Result<Cluster> from_json = LoadCluster(json);
  ASSERT_TRUE(from_json.ok());
  EXPECT_EQ(from_json.value().ContentHash(), from_toml.value().ContentHash());
  const Result<Cluster> missing = LoadCluster((folder / "none.toml").string());
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().where.find("none.toml"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace heddle
