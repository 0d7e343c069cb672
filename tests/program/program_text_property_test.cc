// parse ∘ print = identity, over random Programs.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "program/check/check.h"
#include "program/text/program_text.h"
#include "random_program.h"

namespace heddle {
namespace {

Program AnyProgram() {
  return RandomProgram(*rc::gen::arbitrary<uint32_t>(), *rc::gen::inRange(1, 9)).Make();
}

RC_GTEST_PROP(ProgramTextProperty, ParseAfterPrintIsIdentity, ()) {
  const Program program = AnyProgram();
  const std::string text = PrintProgram(program);
  RC_LOG() << text;
  const Result<Program> parsed = ParseProgram(text, "p");
  if (!parsed.ok()) RC_FAIL(parsed.error().ToString());
  RC_ASSERT(PrintProgram(parsed.value()) == text);
  RC_ASSERT(parsed.value().samples() == program.samples());
  RC_ASSERT(parsed.value().instruction_count() == program.instruction_count());
}

// Comments, blank lines and spaces say nothing.
RC_GTEST_PROP(ProgramTextProperty, LayoutDoesNotMatter, ()) {
  const std::string text = PrintProgram(AnyProgram());
  std::string spread;
  for (const char c : text) spread += c == '\n' ? "\t // comment \"\n\n  " : std::string(1, c);
  const Result<Program> parsed = ParseProgram(spread, "p");
  if (!parsed.ok()) RC_FAIL(parsed.error().ToString());
  RC_ASSERT(PrintProgram(parsed.value()) == text);
}

// A part of a text is refused or read, and either way the reader and the checker survive.
RC_GTEST_PROP(ProgramTextProperty, BrokenTextIsNoDisaster, ()) {
  std::string text = PrintProgram(AnyProgram());
  for (int k = *rc::gen::inRange(1, 4); k > 0 && !text.empty(); --k) {
    const auto at = *rc::gen::inRange<size_t>(0, text.size());
    const auto end = std::min(text.size(), at + *rc::gen::inRange<size_t>(0, 20));
    const auto from = *rc::gen::inRange<size_t>(0, text.size());
    text.replace(at, end - at, text.substr(from, *rc::gen::inRange<size_t>(0, 20)));
  }
  const Result<Program> parsed = ParseProgram(text, "p");
  if (!parsed.ok()) {
    RC_ASSERT(parsed.error().kind == ErrorKind::kBadInput);
    RC_ASSERT(parsed.error().where.starts_with("p"));
    return;
  }
  RC_ASSERT(CheckProgram(parsed.value()).memory.size() == parsed.value().devices.size());
  const std::string printed = PrintProgram(parsed.value());
  RC_ASSERT(PrintProgram(ParseProgram(printed, "p").value()) == printed);
}

// Whatever a Program says, the checker has an answer.
RC_GTEST_PROP(ProgramTextProperty, AnyProgramCanBeChecked, ()) {
  const Program program = AnyProgram();
  const Verdict verdict = CheckProgram(program);
  RC_ASSERT(verdict.memory.size() == program.devices.size());
  for (const Finding& finding : verdict.findings) RC_ASSERT(!finding.message.empty());
}

}  // namespace
}  // namespace heddle
