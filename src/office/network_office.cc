#include "office/network_office.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
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

void NetworkOffice::Posted(const FlowPost& post) {
  const Key key = KeyOf(post);
  Lane& lane = lanes_[key];
  lane.is_group = post.kind >= 0;
  lane.posts[post.rank].push_back(post);
  ++waiting_[{post.job, post.rank}];
  StartNext(key, lane);
}

// Once all ends of the lane's next one are there.
void NetworkOffice::StartNext(const Key& key, Lane& lane) {
  if (lane.running >= 0) return;
  std::vector<FlowPost> posts;
  for (const auto& end : lane.posts) {
    if (!end.second.empty()) posts.push_back(end.second.front());
  }
  if (posts.empty() || std::ssize(posts) < posts[0].ends) return;
  if (const char* discord = FindDiscord(posts, cost_)) return Strike(posts[0].job, discord);
  const int32_t id = next_flow_++;
  Flow& flow = flows_[id];
  flow.lane = key;
  for (const FlowPost& post : posts) {
    flow.ends.push_back({post.rank, post.number});
    lane.posts[post.rank].pop_front();
    --waiting_[{post.job, post.rank}];
  }
  Specify(posts, flow);
  if (lane.is_group) lane.running = id;
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
  const pid_t pid = fork();
  if (pid < 0) {
    return Error{ErrorKind::kRunFailed, "share",
                 std::string("the network's process cannot be started: ") + std::strerror(errno),
                 "are more processes allowed (ulimit -u)?"};
  }
  if (pid > 0) return OfficeProcess(pid);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK, 1);
  NetworkOffice office(desk, board, cluster, options);
  while (getppid() == parent) {
    desk.Beat();
    office.Work(BoardNow() + kLookAround);
  }
  _exit(static_cast<int>(ErrorKind::kRunFailed));
}

OfficeProcess::~OfficeProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool OfficeProcess::Lives() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
  return pid_ > 0;
}

}  // namespace heddle
