// Every examples/NN-name.sh prints what examples/NN-name.expected says, to the letter.
// HEDDLE_UPDATE_GOLDEN=1 rewrites the expected texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/sandbox.h"
#include "support/places.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = SourceDir() + "/examples/";

// "01-first-plan", … in order.
std::vector<std::string> Examples() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    const std::string stem = entry.path().stem().string();
    const bool numbered = std::isdigit(static_cast<unsigned char>(stem[0])) != 0;
    if (numbered && entry.path().extension() == ".sh") names.push_back(stem);
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ExampleTest : public testing::TestWithParam<std::string> {};

TEST_P(ExampleTest, PrintsWhatIsExpected) {
  const Session session = Sandbox().Run("bash " + kFolder + GetParam() + ".sh");
  EXPECT_EQ(session.exit_code, 0) << session.output;
  const std::string path = kFolder + GetParam() + ".expected";
  if (UpdatesGolden()) WriteText(path, session.output);
  EXPECT_EQ(session.output, ReadText(path)) << "HEDDLE_UPDATE_GOLDEN=1 rewrites " << path;
}

TEST_P(ExampleTest, IsInTheIndex) {
  EXPECT_NE(ReadText(kFolder + "README.md").find(GetParam() + ".sh"), std::string::npos);
}

std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ExampleTest, testing::ValuesIn(Examples()), &TestName);

}  // namespace
}  // namespace heddle
