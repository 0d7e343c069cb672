#include "worker/share_rank.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/json_text.h"
#include "program/unroll.h"
#include "run/meet/store_server.h"
#include "run/processes.h"
#include "run/share/shared_device.h"
#include "run/torch/c10d_communicator.h"
#include "worker/share_rehearsal.h"

namespace heddle {
namespace {

Seat SeatOf(const ShareRun& run, int32_t rank) {
  Seat seat{run.board,         run.number,        rank, run.phase.manner,
            run.phase.ordered, run.repetitions(), {},   {}};
  const ShareJob& job = run.job;
  if (run.config.emulate) {
    seat.pace.dilation = run.phase.dilation;
    for (size_t s = 0; s < job.training.program.segments.size(); ++s) {
      seat.pace.segment_seconds.push_back(job.segment_seconds.Of(rank, static_cast<int32_t>(s)));
    }
  }
  if (!run.desk) return seat;
  seat.desk.emplace(DeskPlace{*run.desk, run.phase.PacesNetwork(run.config), {}, {}, 1, 0});
  for (const DeviceId id : job.cluster_devices) seat.desk->device.push_back(id.value);
  for (const Group& group : job.training.program.groups) {
    seat.desk->groups.push_back(group.devices);
  }
  seat.desk->byte_scale = job.byte_scale;
  const DeviceId mine = job.cluster_devices[static_cast<size_t>(rank)];
  seat.desk->own_seconds = job.both.loaded.cluster->type_of(mine).MessageSeconds(1).value;
  return seat;
}

// Where a rank of the job is.
int32_t HostOf(const ShareRun& run, int32_t rank) {
  const int32_t device = run.job.devices[static_cast<size_t>(rank)];
  return run.hosts->host_of[static_cast<size_t>(device)];
}

void PinTo(int32_t device) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  CPU_SET(static_cast<size_t>(device % online), &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

// The life of one rank.
Status RunRank(const ShareRun& run, int32_t rank, const Seats& seats, ProcessSlot& slot) {
  const Program& program = run.job.training.program;
  C10dOptions options;
  if (run.hosts != nullptr) {
    HEDDLE_RETURN_IF_ERROR(run.hosts->links.Enter(HostOf(run, rank)));
    options.interface_address = ShapedLinks::AddressOf(HostOf(run, rank));
  }
  if (run.config.pin) PinTo(run.job.devices[static_cast<size_t>(rank)]);
  HEDDLE_ASSIGN(options.store, seats.Take(rank, std::chrono::minutes(1)));
  seats.CloseRest();
  options.device = rank;
  options.devices = static_cast<int32_t>(program.devices.size());
  for (const Group& group : program.groups) options.groups.push_back(group.devices);
  HEDDLE_ASSIGN(const std::unique_ptr<Communicator> communicator, ConnectC10d(options));
  HEDDLE_ASSIGN(std::optional<ShareFault> fault, RehearsedFault());
  if (run.phase.manner == ShareManner::kAlone) fault.reset();
  Rehearsal rehearsal(std::move(fault), run.board, run.number, rank, *communicator);
  SharedDevice shared(SeatOf(run, rank), rehearsal.communicator());
  const RankHooks hooks{&rehearsal.Wrap(shared.turns()),
                        [&](Executor& executor) { return shared.Wrap(rehearsal.Wrap(executor)); }};
  Training training = run.job.training;
  training.config.directory = run.directory();
  training.config.steps = (run.repetitions() + StepsOutsideBody(program)) * StepsPerBody(program);
  RunListener listener;
  listener.interrupted = [&run] { return run.board.asked_to_stop(run.number); };
  const Result<RunResult> trained = TrainRank(training, rank, shared.communicator(), listener,
                                              "a process each", &slot.progress, hooks);
  if (!trained.ok()) return trained.error();
  // Asked to stop before its first turn: it has left as well as one that had some.
  if (trained.value().interrupted && trained.value().steps() == 0) {
    Board(run.board).Leave(run.number, rank);
  }
  return WriteFile(run.NotesPath(rank), JsonText(RankNotesToJson(shared.notes())) + "\n");
}

}  // namespace

int64_t ShareRun::repetitions() const {
  return phase.repetitions > 0 ? std::min(phase.repetitions, job.repetitions) : job.repetitions;
}

std::string ShareRun::directory() const {
  return fmt::format("{}/{}/{}", config.directory, phase.name, job.config.name);
}

std::string ShareRun::NotesPath(int32_t rank) const {
  return fmt::format("{}/rank{}.json", directory(), rank);
}

Status LeadShareJob(const ShareRun& run) {
  const Program& program = run.job.training.program;
  HEDDLE_ASSIGN(const Seats seats, Seats::Make(static_cast<int>(program.devices.size())));
  std::unique_ptr<StoreServer> store;
  ProcessWatch watch;
  watch.silence = run.config.Silence();
  watch.after_fork = [&]() -> Status {
    HEDDLE_ASSIGN(store, StoreServer::Start(seats));
    seats.CloseRest();
    return Ok();
  };
  watch.name = [&](int32_t rank) {
    return fmt::format("device {} ({})", rank, program.devices[static_cast<size_t>(rank)].name);
  };
  watch.place = [](const WorkerProgress& progress, int32_t) {
    const std::optional<WorkerPlace> place = progress.Load();
    return place ? fmt::format("in step {}", place->step + 1)
                 : std::string("before its first step");
  };
  watch.asked_to_stop = [board = run.board, number = run.number]() mutable {
    board.AskToStop(number);
  };
  // Nobody is called stuck: whoever has a device too long loses it by its lease.
  ProcessesEnd end;
  HEDDLE_RETURN_IF_ERROR(RunProcesses(
      static_cast<int>(program.devices.size()),
      [&](int32_t rank, ProcessSlot& slot) -> Status { return RunRank(run, rank, seats, slot); },
      watch, &end));
  if (!end.at_once) return Ok();
  return Error{ErrorKind::kRunFailed, "job " + run.job.config.name, "was ended by a signal", ""};
}

Result<std::vector<RankNotes>> ReadNotes(const ShareRun& run) {
  std::vector<RankNotes> notes;
  for (size_t rank = 0; rank < run.job.training.program.devices.size(); ++rank) {
    const std::string path = run.NotesPath(static_cast<int32_t>(rank));
    HEDDLE_ASSIGN(const std::string text, ReadFile(path, kMostTextBytes));
    HEDDLE_ASSIGN(const Json json, ParseJson(text, path));
    HEDDLE_ASSIGN(RankNotes note, RankNotesFromJson(JsonField(json, path)));
    notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace heddle
