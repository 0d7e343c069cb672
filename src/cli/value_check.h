// What a value on the command line may be, in words that people read.
//
//   command.AddOption("--rows", rows, "Most devices to draw").Check(Within(1, 100000));
//
// An error reads "--rows: 0 is out of range: 1 to 100000".
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace heddle {

ValueCheck AtLeast(double least);              // finite
ValueCheck Above(double bound);                // finite
ValueCheck Within(double least, double most);  // both included
ValueCheck OneOf(std::vector<std::string> names);

// Gives every option of the command and of those below it that takes a number a check that its text
// is one: whole where it must be, and finite.
void CheckNumbers(const Command& command);

}  // namespace heddle
