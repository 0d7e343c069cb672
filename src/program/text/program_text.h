// The text form of a Program: parse ∘ print = identity. docs/program.md explains it by example.
//
//   HEDDLE_ASSIGN(Program program, ParseProgram(text, "p.heddle"));
//   HEDDLE_CHECK(PrintProgram(program) == text);      // but for comments and spacing
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "program/program.h"

namespace heddle {

// Errors name file and line, and what was expected there.
Result<Program> ParseProgram(std::string_view text, const std::string& file);

std::string PrintProgram(const Program& program);

// One instruction, or one buffer, as it stands in the text: for messages and tables.
std::string PrintInstruction(const Program& program, const DeviceProgram& device,
                             const Instruction& instruction);
std::string PrintBuffer(const Program& program, const BufferRef& buffer);

// Shared by parser and printer: names in the order of the enums.
std::string_view NameOf(PortUse use);         // "reads", "consumes", …
std::string_view NameOf(SegmentPhase phase);  // "forward", …
std::string_view NameOf(UpdateRule rule);     // "flush", "async stash", …; "" unless stated
std::string_view NameOf(Section section);     // "prologue", …

}  // namespace heddle
