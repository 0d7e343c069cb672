// heddle as a function of its arguments, without a process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "base/json_text.h"
#include "cli/heddle.h"

namespace heddle {
namespace {

using testing::HasSubstr;

struct Said {
  int code = -1;
  std::string out;
  std::string err;
};

std::string Rewound(std::FILE* file) {
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

Said Called(const std::vector<std::string>& arguments) {
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  Said said;
  said.code = RunHeddle(arguments, out, err);
  said.out = Rewound(out);
  said.err = Rewound(err);
  return said;
}

TEST(InProcess, PrintsWhereItIsTold) {
  const Said said = Called({"models"});
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, HasSubstr("gpt"));
  EXPECT_EQ(said.err, "");
}

TEST(InProcess, JsonIsOneObject) {
  const Said said = Called({"--json", "help", "lab", "race"});
  const Json json = ParseJsonOrDiscard(said.out);
  ASSERT_FALSE(json.is_discarded()) << said.out;
  EXPECT_EQ(json["schema"], "heddle.help/1");
  EXPECT_EQ(json["commands"][0]["name"], "lab race");
}

TEST(InProcess, AnErrorIsItsKindAndGoesToTheErrorStream) {
  const Said said = Called({"plan", "--modle", "gpt"});
  EXPECT_EQ(said.code, 2);
  EXPECT_EQ(said.out, "");
  EXPECT_THAT(said.err, HasSubstr("--model"));
}

TEST(InProcess, NothingIsKeptFromOneCallToTheNext) {
  const std::vector<std::string> arguments = {"lab", "delay", "--stages", "1..4"};
  const Said first = Called(arguments);
  EXPECT_EQ(Called({"--json", "lab", "delay", "--stages", "2", "--forward", "3"}).code, 0);
  EXPECT_EQ(Called({"lab", "delay", "--nonsense"}).code, 2);
  const Said second = Called(arguments);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, second.out);
}

}  // namespace
}  // namespace heddle
