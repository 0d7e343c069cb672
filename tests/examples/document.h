// Document: a Markdown file as its fenced blocks, which can be replaced, and the text between them.
//
//   Document document(ReadText("README.md"));
//   for (FencedBlock& block : document.blocks()) if (block.tag == "console") …
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct FencedBlock {
  std::string tag;                 // what stands behind ```
  int line = 0;                    // of the file, where it starts
  std::vector<std::string> lines;  // between the fences
};

class Document {
 public:
  explicit Document(const std::string& markdown);

  std::vector<FencedBlock>& blocks() { return blocks_; }
  std::string Print() const;

 private:
  std::vector<std::string> between_;  // before each block, and after the last; ends with its fence
  std::vector<FencedBlock> blocks_;
};

std::vector<std::string> LinesOf(const std::string& text);
std::string TextOf(const std::vector<std::string>& lines);

// A command of a ```console block and what it prints: "$ command", continued where a line ends in
// a backslash, then lines up to the next command.
struct ShownCommand {
  std::string text;
  std::vector<std::string> shown;   // the command as it stands in the block
  std::vector<std::string> output;  // expected
};
std::vector<ShownCommand> CommandsOf(const FencedBlock& block);

// Whether the output is what the page shows. A line "…" stands for any lines, a line that ends in
// " …" for any line that starts so. How long planning and simulating took is not compared.
bool Shows(const std::vector<std::string>& expected, const std::vector<std::string>& output);

// Whether it leaves lines out, and so cannot be rewritten by a machine.
bool LeavesOut(const std::vector<std::string>& expected);

}  // namespace heddle
