// Layer profiles: whatever parses is a DAG with finite numbers of at least 0.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/layer_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = heddle::ParseLayerProfile(text, "fuzz");
  if (!parsed.ok()) return 0;
  const heddle::LayerProfile& profile = parsed.value();
  HEDDLE_CHECK(!profile.layers.empty());
  for (const heddle::ProfiledLayer& layer : profile.layers) {
    for (const double number : {layer.forward.value, layer.backward.value, layer.activation_bytes,
                                layer.parameter_bytes}) {
      HEDDLE_CHECK(std::isfinite(number) && number >= 0);
    }
  }
  const std::vector<int> order = profile.TopologicalOrder();
  HEDDLE_CHECK(order.size() == profile.layers.size());
  std::vector<size_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[static_cast<size_t>(order[i])] = i;
  for (const auto& [from, to] : profile.edges) {
    HEDDLE_CHECK(place[static_cast<size_t>(from)] < place[static_cast<size_t>(to)]);
  }
  return 0;
}
