// README.md and docs/*.md say what is true:
//   ```console   commands behind "$ " print what stands below them, run in the order of the page;
//   ```jsonc     is build/plan.json as the commands before left it; comments, hashes, how
//                long planning took and digits after the sixth do not count;
//   ```heddle    is a Program that `heddle check` accepts on examples/clusters/mixed4.toml or, with
//                a ```finding block behind it, refuses with these words. A first line and the four
//                devices are added where they are left out.
// HEDDLE_UPDATE_GOLDEN=1 rewrites what commands print, where no lines are left out, and the seconds
// of a plan.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "examples/document.h"
#include "examples/sandbox.h"
#include "support/places.h"

namespace heddle {
namespace {

using Json = nlohmann::json;

void CheckConsole(const std::string& page, FencedBlock& block, const Sandbox& sandbox) {
  std::vector<std::string> lines;
  for (const ShownCommand& command : CommandsOf(block)) {
    const std::vector<std::string> output = LinesOf(sandbox.Run(command.text).output);
    const bool shows = Shows(command.output, output);
    const bool rewrites = !shows && UpdatesGolden() && !LeavesOut(command.output);
    EXPECT_TRUE(shows || rewrites)
        << page << ":" << block.line << ": " << command.text << "prints\n"
        << TextOf(output);
    const std::vector<std::string>& kept = rewrites ? output : command.output;
    lines.insert(lines.end(), command.shown.begin(), command.shown.end());
    lines.insert(lines.end(), kept.begin(), kept.end());
  }
  block.lines = std::move(lines);
}

// Without what differs from machine to machine, or with every new op.
Json Steady(const Json& json) {
  if (json.is_array()) {
    Json list = Json::array();
    for (const Json& element : json) list.push_back(Steady(element));
    return list;
  }
  if (!json.is_object()) return json;
  Json object = Json::object();
  for (const auto& [key, value] : json.items()) {
    const bool varies = key == "planning_seconds" || key.ends_with("hash");
    object[key] = varies ? Json(value.type_name()) : Steady(value);
    if (!varies && value.is_number_float()) object[key] = fmt::format("{:.6g}", double{value});
  }
  return object;
}

// Seconds of the plan in the place of those that the page shows; comments stay.
void RewriteSeconds(const Json& written, FencedBlock& block) {
  const std::regex seconds(R"re(^(  "([a-z_]+_seconds)": )[0-9.e-]+)re");
  for (std::string& line : block.lines) {
    std::smatch found;
    if (!std::regex_search(line, found, seconds) || found[2] == "planning_seconds") continue;
    line = found[1].str() + written[found[2].str()].dump() + found.suffix().str();
  }
}

void CheckPlan(const std::string& page, FencedBlock& block, const Sandbox& sandbox) {
  const Json written = Json::parse(sandbox.Read("build/plan.json"), nullptr, false);
  if (UpdatesGolden()) RewriteSeconds(written, block);
  const Json shown = Json::parse(TextOf(block.lines), nullptr, /*allow_exceptions=*/false,
                                 /*ignore_comments=*/true);
  ASSERT_FALSE(shown.is_discarded()) << page << ":" << block.line << ": not JSON";
  EXPECT_EQ(Steady(shown).dump(1), Steady(written).dump(1)) << page << ":" << block.line;
}

std::string WholeProgram(const FencedBlock& block) {
  const auto has = [&](const std::string& word) {
    return std::any_of(block.lines.begin(), block.lines.end(),
                       [&](const std::string& line) { return line.starts_with(word + " "); });
  };
  std::string text = has("heddle-program") ? "" : "heddle-program 1\n";
  if (!has("device")) {
    text += "device 0 \"a:0\"\ndevice 1 \"a:1\"\ndevice 2 \"b:0\"\ndevice 3 \"b:1\"\n";
  }
  return text + TextOf(block.lines);
}

void CheckSnippet(const std::string& page, const FencedBlock& block, FencedBlock* finding,
                  const Sandbox& sandbox) {
  sandbox.Write("snippet.heddle", WholeProgram(block));
  const Session session =
      sandbox.Run("heddle check snippet.heddle --cluster examples/clusters/mixed4.toml");
  if (finding == nullptr) {
    EXPECT_EQ(session.exit_code, 0) << page << ":" << block.line << ": " << session.output;
    return;
  }
  EXPECT_NE(session.exit_code, 0) << page << ":" << block.line << ": nothing is found";
  const std::vector<std::string> output = LinesOf(session.output);
  if (UpdatesGolden()) finding->lines = output;
  EXPECT_EQ(TextOf(finding->lines), session.output) << page << ":" << block.line;
}

class DocsTest : public testing::TestWithParam<std::string> {};

TEST_P(DocsTest, IsTrue) {
  const std::string& page = GetParam();
  const std::string path = SourceDir() + "/" + page;
  const std::string text = ReadText(path);
  Document document(text);
  ASSERT_EQ(document.Print(), text) << page << ": a block is not closed";
  const Sandbox sandbox;
  std::vector<FencedBlock>& blocks = document.blocks();
  for (size_t k = 0; k < blocks.size(); ++k) {
    FencedBlock* next = k + 1 < blocks.size() ? &blocks[k + 1] : nullptr;
    if (blocks[k].tag == "console") CheckConsole(page, blocks[k], sandbox);
    if (blocks[k].tag == "jsonc") CheckPlan(page, blocks[k], sandbox);
    if (blocks[k].tag == "heddle") {
      const bool broken = next != nullptr && next->tag == "finding";
      CheckSnippet(page, blocks[k], broken ? next : nullptr, sandbox);
    }
  }
  if (UpdatesGolden() && document.Print() != text) WriteText(path, document.Print());
}

std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.find('.'));
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, DocsTest,
                         testing::Values("README.md", "docs/architecture.md", "docs/plan.md",
                                         "docs/program.md", "docs/models.md", "docs/async.md",
                                         "docs/share.md", "docs/training.md", "examples/README.md"),
                         &TestName);

TEST(DocumentTest, EllipsesStandForWhatIsLeftOut) {
  EXPECT_TRUE(Shows({"a", "…", "d"}, {"a", "b", "c", "d"}));
  EXPECT_TRUE(Shows({"a", "…", "d"}, {"a", "d"}));
  EXPECT_TRUE(Shows({"a b …"}, {"a b c d"}));
  EXPECT_FALSE(Shows({"a", "…", "d"}, {"a", "b", "c"}));
  EXPECT_FALSE(Shows({"a"}, {"a", "b"}));
  EXPECT_FALSE(Shows({"a b …"}, {"a c"}));
}

TEST(DocumentTest, WallClockTimesAreNotCompared) {
  EXPECT_TRUE(Shows({"planned in  1.2 ms, 3 candidates"}, {"planned in  44 us, 3 candidates"}));
  EXPECT_FALSE(Shows({"planned in  1.2 ms, 3 candidates"}, {"planned in  44 us, 4 candidates"}));
  EXPECT_TRUE(Shows({"strategy  planned in", "dp  1 s"}, {"strategy  planned in", "dp    2 ms"}));
  EXPECT_FALSE(Shows({"iteration  1 s"}, {"iteration  2 s"}));
  EXPECT_TRUE(Shows({"\"planning_seconds\": 0.5,"}, {"\"planning_seconds\": 1e-3,"}));
  EXPECT_FALSE(Shows({"\"iteration_seconds\": 0.5,"}, {"\"iteration_seconds\": 0.6,"}));
  EXPECT_TRUE(Shows({"\"iteration_seconds\": 0.5,"}, {"\"iteration_seconds\": 0.50000000001,"}));
}

}  // namespace
}  // namespace heddle
