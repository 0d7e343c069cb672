// A launcher's environment, a variable a line: whoever is found is one of those there are.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "run/launched_rank.h"
#include "run/meet/meeting_place.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::map<std::string, std::string> variables;
  for (const std::string_view line : heddle::SplitAt(text, '\n')) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    variables[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  const auto found = heddle::FindLaunchedRank(
      [&](const char* name) {
        const auto variable = variables.find(name);
        return variable == variables.end() ? nullptr : variable->second.c_str();
      },
      0);
  if (!found.ok() || !found.value()) return 0;
  const heddle::LaunchedRank& rank = *found.value();
  HEDDLE_CHECK(rank.rank >= 0 && rank.rank < rank.ranks);
  HEDDLE_CHECK(rank.port > 0);
  (void)heddle::IsLoopback(rank.address);
  return 0;
}
