// docs/cluster.md: its snippets load, and what it says below them is true.
//
// A ```toml block is a cluster file; without a schema it gets a preamble, without a node one
// node. The ```wires, ```routes and ```error blocks behind it say what must come of it.
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "base/text.h"
#include "cluster_text.h"
#include "support/places.h"

namespace heddle {
namespace {

struct Block {
  std::string tag;
  std::string text;
};

std::vector<Block> BlocksOf(const std::string& markdown) {
  std::vector<Block> blocks;
  bool inside = false;
  std::istringstream lines(markdown);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({line.substr(3), ""});
    } else if (inside) {
      blocks.back().text += line + "\n";
    }
  }
  EXPECT_FALSE(inside);
  return blocks;
}

std::string WholeFile(const std::string& snippet) {
  const bool whole = snippet.find("schema =") != std::string::npos;
  const bool nodes = snippet.find("[[node]]") != std::string::npos;
  return (whole ? "" : kPreamble) + snippet + (nodes ? "" : BareNodeText("a", 1));
}

std::string WireLine(const Cluster& cluster) {
  std::string text;
  for (const Wire& wire : cluster.wires()) text += (text.empty() ? "" : " ") + wire.name;
  return text + "\n";
}

// Each line is "from to: wires".
void CheckRoutes(const Cluster& cluster, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    ASSERT_NE(colon, std::string::npos) << line;
    const auto ends = SplitWords(std::string_view(line).substr(0, colon));
    ASSERT_EQ(ends.size(), 2u) << line;
    EXPECT_EQ(RouteText(cluster, std::string(ends[0]), std::string(ends[1])),
              line.substr(colon + 2));
  }
}

TEST(ClusterDocTest, SnippetsAreTrue) {
  const Result<std::string> markdown = ReadFile(SourceDir() + "/docs/cluster.md");
  ASSERT_TRUE(markdown.ok());
  const std::vector<Block> blocks = BlocksOf(markdown.value());
  EXPECT_GT(blocks.size(), 20u);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].tag != "toml") continue;
    const Result<Cluster> cluster = ParseClusterToml(WholeFile(blocks[i].text), "lab.toml");
    if (i + 1 < blocks.size() && blocks[i + 1].tag == "error") {
      ASSERT_FALSE(cluster.ok()) << blocks[i].text;
      EXPECT_EQ(cluster.error().ToString() + "\n", blocks[i + 1].text);
      continue;
    }
    ASSERT_TRUE(cluster.ok()) << cluster.error().ToString() << "\nin\n" << blocks[i].text;
    for (size_t j = i + 1; j < blocks.size() && blocks[j].tag != "toml"; ++j) {
      if (blocks[j].tag == "wires") {
        EXPECT_EQ(WireLine(cluster.value()), blocks[j].text);
      } else {
        ASSERT_EQ(blocks[j].tag, "routes");
        CheckRoutes(cluster.value(), blocks[j].text);
      }
    }
  }
}

}  // namespace
}  // namespace heddle
