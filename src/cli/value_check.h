// What a value on the command line may be, in words that people read.
//
//   command->add_option("--rows", rows, "Most devices to draw")->check(Within(1, 100000));
//
// An error reads "--rows: 0 is out of range: 1 to 100000".
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace heddle {

CLI::Validator AtLeast(double least);              // finite
CLI::Validator Above(double bound);                // finite
CLI::Validator Within(double least, double most);  // both included
CLI::Validator OneOf(std::vector<std::string> names);

// Gives every option of the command and of those below it that takes a number a check that its text
// is one: whole where it must be, and finite.
void CheckNumbers(CLI::App& command);

}  // namespace heddle
