#include "office/network_office.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "office/post_check.h"
#include "run/collective_sizes.h"

namespace heddle {
namespace {

constexpr int64_t kLookAround = 20'000'000;  // nanoseconds

}  // namespace

NetworkOffice::NetworkOffice(const FlowDesk& desk, const Board& board, const Cluster& cluster,
                             const OfficeOptions& options)
    : desk_(desk),
      board_(board),
      cluster_(cluster),
      options_(options),
      cost_(cluster),
      network_(MakeNetwork(LinkModel::kShared, WireBandwidths(cluster), 0)),
      tickets_(cluster.nodes().size()),
      epoch_(BoardNow()) {}

void NetworkOffice::Work(int64_t until) {
  for (const FlowPost& post : desk_.Read(std::min(Clock(network_->NextTime()), until))) {
    Hear(post);
  }
  CatchUp(BoardNow());
  LookAfterJobs();
  Serve();
}

void NetworkOffice::Hear(const FlowPost& post) {
  if (!Believes(post)) return;
  CatchUp(post.time);
  if (post.performed != 0) {
    Performed(post);
  } else {
    Posted(post);
  }
  Serve();
}

// Emulated seconds since the beginning, and the time of the board's clock at which they are over.
double NetworkOffice::Modelled(int64_t time) const {
  if (options_.dilation <= 0) return 0;
  return static_cast<double>(time - epoch_) * 1e-9 / options_.dilation;
}
int64_t NetworkOffice::Clock(double modelled) const {
  if (std::isinf(modelled)) return INT64_MAX;
  return epoch_ + std::llround(modelled * options_.dilation * 1e9);
}

// Lets everything happen that was due before `time`.
void NetworkOffice::CatchUp(int64_t time) {
  for (double next = network_->NextTime(); Clock(next) <= time; next = network_->NextTime()) {
    std::vector<int32_t> done;
    now_ = next;
    network_->Advance(next, done);
    for (const int32_t id : done) Finish(id);
    if (!done.empty()) Serve();
  }
  now_ = std::max(now_, Modelled(time));
}

// Bytes from a pipe: those of a job that says what cannot be are not acted on, and it is struck.
bool NetworkOffice::Believes(const FlowPost& post) {
  if (post.job < 0 || post.job >= kMostJobs) return false;  // nobody's
  int32_t& ranks = ranks_[static_cast<size_t>(post.job)];
  if (ranks == 0) ranks = board_.ranks(post.job);
  if (ranks == 0) return false;  // of a job that never came
  const auto devices = static_cast<int32_t>(cluster_.devices().size());
  const char* nonsense = FindNonsense(post, {ranks, devices, BoardNow()});
  if (nonsense == nullptr && post.performed == 0 &&
      waiting_[{post.job, post.rank}] >= FlowDesk::kInFlight) {
    nonsense = "more than it may have under way";
  }
  if (nonsense != nullptr) Strike(post.job, nonsense);
  return nonsense == nullptr;
}

void NetworkOffice::Strike(int32_t job, const char* what) {
  board_.MarkDead(job, std::string("asked the network for nonsense: ") + what);
}

NetworkOffice::Key NetworkOffice::KeyOf(const FlowPost& post) {
  if (post.kind >= 0) return {post.job, -1, -1, post.channel};
  return {post.job, post.device[0], post.device[1], post.channel};
}

NetworkOffice::Lane::Lane(const FlowPost& first)
    : ends(static_cast<size_t>(first.ends)), collectives(ends) {}

std::optional<size_t> NetworkOffice::Lane::PlaceOf(int32_t rank) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  const auto place = static_cast<size_t>(found - ranks.begin());
  if (place == ends) return std::nullopt;
  if (found == ranks.end()) ranks.push_back(rank);
  return place;
}

// A rank is always at the same end of a lane of messages, whichever that is.
void NetworkOffice::Posted(const FlowPost& post) {
  const Key key = KeyOf(post);
  Lane& lane = lanes_.try_emplace(key, post).first->second;
  const std::optional<size_t> place = lane.PlaceOf(post.rank);
  if (!place || static_cast<size_t>(post.ends) != lane.ends) {
    return Strike(post.job, "ends that differ");
  }
  ++waiting_[{post.job, post.rank}];
  if (post.kind >= 0) {
    lane.collectives.Post(*place, post);
    return StartNext(key, lane);
  }
  const std::optional<FlowPost> other = lane.messages.Post(*place == 0, post);
  if (other) Admit(key, {*other, post});
}

// Once all ends of the group's next one are there.
void NetworkOffice::StartNext(const Key& key, Lane& lane) {
  if (lane.running >= 0 || !lane.collectives.complete()) return;
  const std::vector<FlowPost> posts = lane.collectives.front();
  lane.collectives.Pop();
  lane.running = Admit(key, posts).value_or(-1);
}

// A flow of these ends, unless they do not fit each other.
std::optional<int32_t> NetworkOffice::Admit(const Key& key, std::vector<FlowPost> posts) {
  std::sort(posts.begin(), posts.end(),
            [](const FlowPost& one, const FlowPost& other) { return one.rank < other.rank; });
  if (const char* discord = FindDiscord(posts, cost_)) {
    Strike(posts[0].job, discord);
    return std::nullopt;
  }
  const int32_t id = next_flow_++;
  Flow& flow = flows_[id];
  flow.lane = key;
  for (const FlowPost& post : posts) {
    flow.ends.push_back({post.rank, post.number});
    --waiting_[{post.job, post.rank}];
  }
  Specify(posts, flow);
  std::set<int32_t> nodes;
  for (int32_t k = 0; k < posts[0].ends; ++k) {
    nodes.insert(cluster_.device(DeviceId{posts[0].device[static_cast<size_t>(k)]}).node);
  }
  flow.request = {id, posts[0].job, static_cast<double>(requests_++), {nodes.begin(), nodes.end()}};
  if (options_.tickets) {
    tickets_.Request(flow.request);
  } else {
    Start(id);
  }
  return id;
}

void NetworkOffice::Specify(const std::vector<FlowPost>& posts, Flow& flow) {
  std::vector<DeviceId> devices;
  for (int32_t k = 0; k < posts[0].ends; ++k) {
    devices.push_back(DeviceId{posts[0].device[static_cast<size_t>(k)]});
  }
  if (posts[0].kind < 0) {
    int64_t bytes = 0;  // the sender says
    for (const FlowPost& post : posts) bytes += post.bytes[0];
    flow.spec = FlowOf(cost_.Transfer(devices[0], devices[1], Bytes{bytes}), flow.loads);
    // Jobs have connections of their own.
    const std::tuple<int32_t, int32_t, int32_t> connection{posts[0].job, devices[0].value,
                                                           devices[1].value};
    flow.spec.stream =
        streams_.try_emplace(connection, static_cast<int32_t>(streams_.size())).first->second;
    return;
  }
  std::vector<std::vector<Bytes>> blocks(posts.size());
  for (size_t k = 0; k < posts.size(); ++k) {
    for (int32_t b = 0; b < posts[k].blocks; ++b) {
      blocks[k].push_back(Bytes{posts[k].bytes[static_cast<size_t>(b)]});
    }
  }
  const auto kind = static_cast<CollectiveKind>(posts[0].kind);
  const auto algorithm = static_cast<CollectiveAlgorithm>(posts[0].algorithm);
  flow.spec = FlowOf(cost_.Collective({kind, devices, CollectiveSizes(kind, blocks), algorithm, 0}),
                     flow.loads);
}

void NetworkOffice::Serve() {
  if (!options_.tickets) return;
  for (const TicketRequest& request : tickets_.Serve()) Start(request.id);
}

void NetworkOffice::Start(int32_t id) {
  Flow& flow = flows_.at(id);
  flow.moves = true;
  flow.lease = board_.NetworkLease(flow.request.job);
  for (const End& end : flow.ends) desk_.Grant(flow.request.job, end.rank, end.number);
  if (options_.dilation > 0) network_->Start(id, flow.spec, now_);
}

// A rank has really moved its end of it. An emulated network knows by itself when it is done.
void NetworkOffice::Performed(const FlowPost& post) {
  if (options_.dilation > 0) return;
  for (auto& [id, flow] : flows_) {
    if (flow.request.job != post.job || !flow.moves) continue;
    const auto end = std::find_if(flow.ends.begin(), flow.ends.end(), [&](const End& one) {
      return one.rank == post.rank && one.number == post.number;
    });
    if (end == flow.ends.end()) continue;
    end->performed = true;
    const auto is_done = [](const End& one) { return one.performed; };
    if (std::all_of(flow.ends.begin(), flow.ends.end(), is_done)) Finish(id);
    return;
  }
  // Else of a job that was struck.
}

void NetworkOffice::Finish(int32_t id) {
  const auto found = flows_.find(id);
  const Flow flow = std::move(found->second);
  flows_.erase(found);
  if (options_.tickets) tickets_.Return(flow.request);
  const int64_t time = Clock(now_);
  for (const End& end : flow.ends) desk_.End(flow.request.job, end.rank, end.number, time);
  const auto lane = lanes_.find(flow.lane);
  if (lane == lanes_.end() || lane->second.running != id) return;
  lane->second.running = -1;
  StartNext(lane->first, lane->second);
}

void NetworkOffice::LookAfterJobs() {
  std::set<int32_t> jobs;
  for (const auto& item : lanes_) jobs.insert(std::get<0>(item.first));
  for (const auto& item : flows_) {
    const Flow& flow = item.second;
    const bool real = flow.moves && options_.dilation <= 0;
    if (real && board_.HasOutstayed(flow.request.job, flow.lease)) {
      board_.MarkDead(flow.request.job, "hangs: it kept the network beyond its lease");
    }
  }
  for (const int32_t job : jobs) {
    if (board_.state(job) != JobState::kRunning) Forget(job);
  }
}

// What a dead job has on an emulated wire arrives nevertheless.
void NetworkOffice::Forget(int32_t job) {
  std::erase_if(lanes_, [&](const auto& item) { return std::get<0>(item.first) == job; });
  std::erase_if(waiting_, [&](const auto& item) { return item.first.first == job; });
  ranks_[static_cast<size_t>(job)] = 0;  // its number may be another's next
  tickets_.Drop(job);
  std::erase_if(flows_, [&](const auto& item) {
    const Flow& flow = item.second;
    if (flow.request.job != job) return false;
    const bool real = flow.moves && options_.dilation <= 0;
    if (real && options_.tickets) tickets_.Return(flow.request);
    return real || !flow.moves;
  });
}

Result<OfficeProcess> OfficeProcess::Start(const FlowDesk& desk, const Board& board,
                                           const Cluster& cluster, const OfficeOptions& options) {
  const pid_t parent = getpid();
  const auto life = [&] {
    prctl(PR_SET_TIMERSLACK, 1);
    NetworkOffice office(desk, board, cluster, options);
    while (getppid() == parent) {
      desk.Beat();
      office.Work(BoardNow() + kLookAround);
    }
    return static_cast<int>(ErrorKind::kRunFailed);
  };
  HEDDLE_ASSIGN(ChildProcess child, ChildProcess::Fork(life, "the network's process"));
  return OfficeProcess(std::move(child));
}

}  // namespace heddle
