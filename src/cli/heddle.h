// heddle as a function: what the executable does, for it and for tests that want no process of
// their own.
//
//   std::FILE* out = std::tmpfile();
//   const int code = RunHeddle({"models", "--json"}, out, stderr);
//
// The exit code is 0, or the kind of the error (base/result.h). Commands that train turn the
// process into heddle-worker and do not return; all others leave it as it was.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace heddle {

// `arguments`: without the name of the executable.
int RunHeddle(const std::vector<std::string>& arguments, std::FILE* out, std::FILE* err);

}  // namespace heddle
