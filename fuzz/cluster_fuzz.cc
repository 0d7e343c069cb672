// Cluster files: whatever is a cluster has routes, and its spec is the same after a trip to JSON.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json_field.h"
#include "cluster/cluster.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto cluster = heddle::ParseClusterToml(text, "fuzz");
  if (!cluster.ok()) return 0;
  const int last = cluster.value().device_count() - 1;
  (void)cluster.value().RouteBetween(heddle::DeviceId{0}, heddle::DeviceId{last});
  const heddle::Json json = heddle::ClusterSpecToJson(cluster.value().spec());
  auto spec = heddle::ClusterSpecFromJson(heddle::JsonField(json, "json"));
  HEDDLE_CHECK(spec.ok());
  const auto again = heddle::Cluster::Make(std::move(spec).value(), "json");
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(again.value().ContentHash() == cluster.value().ContentHash());
  return 0;
}
