// Mutant: the text of a good Program with a fault planted, and what the checker says of it.
//
//   Mutant m("1-1f1b");
//   m.On(1, "recv x1#0 from 0", "");                  // drops the line from device 1's body
//   m.Findings()  ->  "unmatched send: device 0 (a:0), body 0, instruction 1: send x1#0 …\n"
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "golden_programs.h"
#include "program/check/check.h"

namespace heddle {

inline std::string FindingsOf(const Verdict& verdict) {
  std::string text;
  for (const Finding& finding : verdict.findings) {
    text += std::string(NameOf(finding.kind)) + ": " + finding.message + "\n";
  }
  if (!verdict.not_proven.empty()) text += "not proven: " + verdict.not_proven + "\n";
  return text;
}

class Mutant {
 public:
  explicit Mutant(const std::string& golden) : text_(GoldenText(golden)) {}
  static Mutant OfText(std::string text) { return Mutant(std::move(text), 0); }

  // The first occurrence after `start` of the text.
  Mutant& Replace(const std::string& from, const std::string& to, const std::string& start = "") {
    const size_t begin = text_.find(start);
    const size_t at = begin == std::string::npos ? begin : text_.find(from, begin);
    EXPECT_NE(at, std::string::npos) << "nothing to replace: " << from;
    if (at != std::string::npos) text_.replace(at, from.size(), to);
    return *this;
  }

  // A whole line of a device's list; `to` may be several lines, or empty to drop it.
  Mutant& On(int device, const std::string& line, const std::string& to,
             const std::string& section = "body") {
    const size_t in_section = text_.find("\n" + section + "\n");
    const size_t list = text_.find("\non " + std::to_string(device) + "\n", in_section);
    const std::string whole = "\n  " + line + "\n";
    const size_t at = text_.find(whole, list);
    EXPECT_NE(at, std::string::npos) << "no such line on " << device << ": " << line;
    if (at != std::string::npos) text_.replace(at, whole.size(), "\n" + Indented(to));
    return *this;
  }

  const std::string& text() const { return text_; }

  Verdict Check(const CheckOptions& options = {}) const {
    const Result<Program> program = ParseProgram(text_, "mutant");
    EXPECT_TRUE(program.ok()) << program.error().ToString();
    return program.ok() ? CheckProgram(program.value(), options) : Verdict{};
  }

  std::string Findings(const CheckOptions& options = {}) const {
    return FindingsOf(Check(options));
  }

  std::string ParseError() const {
    const Result<Program> program = ParseProgram(text_, "mutant");
    return program.ok() ? "" : program.error().ToString();
  }

 private:
  Mutant(std::string text, int) : text_(std::move(text)) {}

  static std::string Indented(const std::string& lines) {
    std::string out;
    for (size_t at = 0; at < lines.size();) {
      const size_t end = std::min(lines.find('\n', at), lines.size());
      out += "  " + lines.substr(at, end - at) + "\n";
      at = end + 1;
    }
    return out;
  }

  std::string text_;
};

}  // namespace heddle
