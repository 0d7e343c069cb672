// An option either does something or is refused. One that means something only beside others has a
// line in the table of option_rules.cc, which is looked at once, after parsing, for all commands:
//
//   {"share", "--dilate", "--run --emulate"}
//
// tests/cli/options_test.cc demands of every option of every command a case that shows its effect.
#pragma once

#include "base/result.h"
#include "cli/command_line.h"

namespace heddle {

// What was given to a command that would have no effect there is a usage error.
Status CheckOptionRules(const Command& command);

}  // namespace heddle
