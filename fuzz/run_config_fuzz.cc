// The options of a run as JSON, as config.json has them: whatever is read is written back and read
// again as the same, and checking it ends.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json_field.h"
#include "run/run_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto json = heddle::ParseJson(text, "fuzz");
  if (!json.ok()) return 0;
  const auto config = heddle::RunConfigFromJson(heddle::JsonField(json.value(), "fuzz"));
  if (!config.ok()) return 0;
  (void)heddle::CheckRunConfig(config.value()).ok();
  const heddle::Json written = heddle::RunConfigToJson(config.value());
  const auto again = heddle::RunConfigFromJson(heddle::JsonField(written, "written"));
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(heddle::RunConfigToJson(again.value()) == written);
  return 0;
}
