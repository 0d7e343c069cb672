// Standard output of heddle-worker: what is printed arrives, or it is an error.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/json_fwd.h"
#include "base/result.h"

namespace heddle {

// Before anything else. A standard stream that is closed must not become a file of ours; a closed
// output is refused at once, and a reader that goes away is an error when we write, not our end.
Status PrepareOutput();

// Prints for people, to fit the terminal, and flushes.
Status Print(const std::string& text);
Status PrintJson(const Json& json);

// The same on standard error. Nobody may be listening any more: that is no reason to end.
void SayText(const std::string& text);
void ClearLine();  // of a terminal
template <class... Arguments>
void Say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  SayText(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Whether anything was printed, here or in a process of ours that said so: a failure then adds no
// second object.
bool HasPrinted();
void NotePrinted();

}  // namespace heddle
