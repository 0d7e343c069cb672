// Clusters in one line: whatever is read is a cluster, with routes, and its spec is the same after
// a trip to JSON.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json_field.h"
#include "cluster/cluster.h"
#include "cluster/cluster_line.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto spec = heddle::ParseClusterLine(text);
  if (!spec.ok()) return 0;
  const heddle::Json json = heddle::ClusterSpecToJson(spec.value());
  const auto cluster = heddle::Cluster::Make(std::move(spec).value(), "line");
  if (!cluster.ok()) return 0;  // too many wires
  const int last = cluster.value().device_count() - 1;
  (void)cluster.value().RouteBetween(heddle::DeviceId{0}, heddle::DeviceId{last});
  auto again = heddle::ClusterSpecFromJson(heddle::JsonField(json, "json"));
  HEDDLE_CHECK(again.ok());
  const auto same = heddle::Cluster::Make(std::move(again).value(), "json");
  HEDDLE_CHECK(same.ok());
  HEDDLE_CHECK(same.value().ContentHash() == cluster.value().ContentHash());
  return 0;
}
