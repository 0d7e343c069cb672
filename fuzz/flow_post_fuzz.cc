// What ranks of a share post to the office, as bytes that it reads from a pipe: whatever they are,
// the office goes on, and a job that says nonsense is struck.
//
// An input is some posts one after the other, shortened: small numbers where a post has arrays.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "cluster/cluster.h"
#include "office/network_office.h"

namespace {

using heddle::FlowPost;

constexpr char kCluster[] = R"(schema = "heddle.cluster/1"
[device_type.d]
flops = "1 TFLOP/s"
memory = "1 GiB"
memory_bandwidth = "1 TB/s"
[[node]]
name = "a"
devices = [{ type = "d", count = 2 }]
link = { bandwidth = "20 GB/s", latency = "2 us" }
[[node]]
name = "b"
devices = [{ type = "d", count = 2 }]
link = { bandwidth = "20 GB/s", latency = "2 us" }
[[link]]
between = ["a", "b"]
bandwidth = "1 GB/s"
latency = "5 us"
)";

// The parts of a post that decide most, and where they lie in it.
struct Part {
  size_t at, size;
};
constexpr Part kParts[] = {
    {offsetof(FlowPost, job), 4},       {offsetof(FlowPost, rank), 4},
    {offsetof(FlowPost, number), 8},    {offsetof(FlowPost, time), 8},
    {offsetof(FlowPost, performed), 1}, {offsetof(FlowPost, kind), 4},
    {offsetof(FlowPost, algorithm), 4}, {offsetof(FlowPost, channel), 4},
    {offsetof(FlowPost, ends), 4},      {offsetof(FlowPost, device), 16},
    {offsetof(FlowPost, blocks), 4},    {offsetof(FlowPost, bytes), 32},
};

// A byte says which part changes, the next by how many bytes; those follow. 255 ends the post.
FlowPost NextPost(std::span<const uint8_t>& rest) {
  FlowPost post;
  post.ends = 2;
  post.device = {0, 2};
  while (!rest.empty()) {
    const uint8_t which = rest[0];
    rest = rest.subspan(1);
    if (which == 255 || rest.empty()) break;
    const Part part = kParts[which % std::size(kParts)];
    const size_t size = std::min({size_t{rest[0]} % (part.size + 1), part.size, rest.size() - 1});
    std::memcpy(reinterpret_cast<unsigned char*>(&post) + part.at, rest.data() + 1, size);
    rest = rest.subspan(1 + size);
  }
  return post;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const heddle::Cluster cluster = heddle::ParseClusterToml(kCluster, "cluster.toml").value();
  if (size == 0) return 0;
  heddle::Board board = heddle::Board::Create({heddle::TurnOrder::kArrival, {0, 0, 1, 1}}).value();
  std::vector<int32_t> jobs;
  for (const char* name : {"a", "b"}) {
    jobs.push_back(board.AddJob({.name = name, .devices = {0, 1, 2, 3}}).value());
  }
  board.Activate(jobs);
  const heddle::FlowDesk desk = heddle::FlowDesk::Create().value();
  heddle::NetworkOffice office(desk, board, cluster, {data[0] % 2 == 0, data[0] % 4 < 2 ? 0. : 1.});
  std::span<const uint8_t> rest(data + 1, size - 1);
  for (int posts = 0; !rest.empty() && posts < 64; ++posts) {
    office.Hear(NextPost(rest));
    if (posts % 8 == 7) office.Work(0);
  }
  office.Work(0);
  HEDDLE_CHECK(board.CountRunning() <= 2);
  return 0;
}
