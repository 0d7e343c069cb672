// What the subcommands of `heddle lab` share. Each is one file that adds itself to `lab`, as the
// commands add themselves to `heddle`.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace heddle {

// "2,4,8" or "2..32", which doubles: 2, 4, 8, 16, 32.
Result<std::vector<int>> ParseStages(const std::string& text);

// "0,0.05"
Result<std::vector<double>> ParseReals(const std::string& flag, const std::string& text);

// JSON has no infinity.
Json NumberOrNull(double value);

void AddLabDelayCommand(Commands& commands);
void AddLabMapCommand(Commands& commands);
void AddLabRaceCommand(Commands& commands);
void AddLabTheoryCommand(Commands& commands);

}  // namespace heddle
