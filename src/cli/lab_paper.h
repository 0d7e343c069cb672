// The settings that the authors of Randomized PipeDream raced under, as options of `lab race`.
//
//   heddle lab race --paper logistic --stages 32 --noise 0.2     all of theirs but these two
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_line.h"

namespace heddle {

// "logistic", …, and what each stands for, one line each.
std::vector<std::string> PaperNames();
std::string PaperListing();

// Gives every option that is not given what the setting has. Bad usage: no such setting.
Status ApplyPaper(const std::string& name, const Command& command);

}  // namespace heddle
