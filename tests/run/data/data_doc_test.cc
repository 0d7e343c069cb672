// docs/data.md: its files open for the models beside them, and what it says of them is true.
//
// A block "```kind model" is a file, for the source `kind`. The ```describe or ```error block
// behind it says what must come of it, with FILE for the path.
#include <gtest/gtest.h>

#include <sstream>

#include "run/data/data_fixture.h"
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
  return blocks;
}

std::string Replaced(std::string text, const std::string& part, const std::string& by) {
  const size_t at = text.find(part);
  return at == std::string::npos ? text : text.replace(at, part.size(), by);
}

TEST(DataDocTest, WhatItSays) {
  const auto document = ReadFile(SourceDir() + "/docs/data.md");
  ASSERT_TRUE(document.ok());
  const std::vector<Block> blocks = BlocksOf(document.value());
  ASSERT_GE(blocks.size(), 10U);
  ASSERT_EQ(blocks.size() % 2, 0U);
  for (size_t k = 0; k < blocks.size(); k += 2) {
    const size_t space = blocks[k].tag.find(' ');
    ASSERT_NE(space, std::string::npos) << blocks[k].tag;
    const std::string kind = blocks[k].tag.substr(0, space);
    const Graph graph = ModelOf(blocks[k].tag.substr(space + 1));
    const TemporaryFile file(blocks[k].text);
    const std::string spec = kind == "synthetic" ? kind : kind + ":" + file.path();
    const std::string said = Replaced(blocks[k + 1].text, "FILE", file.path());
    if (blocks[k + 1].tag == "error") {
      EXPECT_EQ(Refusal(spec, graph) + "\n", said);
    } else {
      ASSERT_EQ(blocks[k + 1].tag, "describe");
      const auto data = Opened(spec, graph);
      ASSERT_NE(data, nullptr);
      EXPECT_EQ(data->Describe() + "\n", said);
    }
  }
}

}  // namespace
}  // namespace heddle
