// Schedules: whatever parses gives rates between zero and the base, and is the same once printed.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "run/learning_rate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto rate = heddle::ParseLearningRate(text);
  if (!rate.ok()) return 0;
  for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{99}, INT64_MAX / 2}) {
    const double now = rate.value().At(step, 100, 1);
    HEDDLE_CHECK(now >= 0 && now <= 1);
  }
  const std::string printed = rate.value().ToString();
  const auto again = heddle::ParseLearningRate(printed);
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(again.value().ToString() == printed);
  return 0;
}
