#include "cli/program_source.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/json_field.h"
#include "cli/profile_fit.h"
#include "program/lower/lower.h"
#include "program/program_file.h"
#include "program/text/program_text.h"

namespace heddle {

void ProgramFlags::AddTo(const Command& command, bool with_links) {
  command.AddOption("file", file, "plan.json, or a Program as text").Required();
  command.AddOption("--cluster", cluster,
                    "Another cluster than the plan's own, a file or a line: devices by name, else "
                    "by type; of a Program as text, its cluster");
  command.AddOption("--profile", profile, "The profile the plan was made with");
  if (with_links) {
    command.AddOption("--links", links,
                      "How transfers share links: shared, exclusive, channels; the plan's "
                      "unless given");
  }
}

namespace {

// The model of a lowered Program, when it names one.
Status FindGraph(const std::string& file, ProgramSource& source) {
  if (source.program.model.empty()) return Ok();
  const auto rate_of = [&](DType dtype) -> Result<FlopRate> {
    HEDDLE_ASSIGN(const DeviceTypeSpec type,
                  ProfiledType(source.cluster->spec(), source.program.profile_device, dtype));
    return type.rate(dtype);
  };
  HEDDLE_ASSIGN(Graph graph, ModelOf(source.program, file, rate_of));
  source.graph = std::make_unique<Graph>(std::move(graph));
  return Ok();
}

}  // namespace

Result<LinkModel> LinksOf(const ProgramFlags& flags, const ProgramSource& source) {
  if (flags.links.empty()) {
    return source.is_plan ? source.loaded.plan.request.links : LinkModel::kShared;
  }
  return ReadChoice<LinkModel>("--links", flags.links);
}

Result<ProgramSource> LoadProgramSource(const ProgramFlags& flags) {
  ProgramSource source;
  source.file = flags.file;
  HEDDLE_ASSIGN(source.profile, LoadOptionalProfile(flags.profile));
  HEDDLE_ASSIGN(const std::string text, ReadFile(flags.file));
  source.is_plan = !IsProgramText(text);
  if (source.is_plan) {
    HEDDLE_ASSIGN(source.loaded, LoadForUse(flags.file, source.profile.get()));
    if (!flags.cluster.empty()) {
      HEDDLE_ASSIGN(source.match, MoveToCluster(flags.cluster, source.loaded));
    }
    HEDDLE_RETURN_IF_ERROR(
        CheckProfileIsOf(*source.loaded.cluster, source.profile.get(), flags.profile));
    HEDDLE_ASSIGN(source.program, LowerPlan(source.loaded.plan, source.loaded.planning->graph));
    return source;
  }
  HEDDLE_ASSIGN(source.program, ParseProgram(text, flags.file));
  if (flags.cluster.empty()) {
    return Usage("a Program as text needs its cluster", "add --cluster cluster.toml");
  }
  HEDDLE_ASSIGN(Cluster cluster, LoadCluster(flags.cluster));
  if (!source.program.cluster_hash.empty() &&
      cluster.ContentHash() != source.program.cluster_hash) {
    return BadInput(flags.cluster, "is not the cluster that the Program was made for",
                    "its hash differs: was it edited?");
  }
  source.cluster = std::make_unique<Cluster>(std::move(cluster));
  HEDDLE_RETURN_IF_ERROR(FindGraph(flags.file, source));
  if (source.profile != nullptr && source.graph == nullptr) {
    return Usage("--profile has no effect with a Program that names no model", "leave it out");
  }
  HEDDLE_RETURN_IF_ERROR(CheckProfileIsOf(*source.cluster, source.profile.get(), flags.profile));
  return source;
}

Status RefuseUnreadProfile(const std::string& profile, const Plan& plan) {
  if (profile.empty() || !plan.profile_hash.empty()) return Ok();
  return Usage("--profile has no effect: nothing is timed, and this was not made with a profile",
               "leave it out");
}

namespace {

// Whether every collective's algorithm exists for its kind and group on this cluster.
Status CheckCollectives(const ProgramSource& source, const std::vector<DeviceId>& ids) {
  const NetworkCost network(source.GetCluster());
  const std::vector<Bytes> sizes = {Bytes{1}};
  for (const DeviceProgram& device : source.program.devices) {
    for (const auto& list : device.sections) {
      for (const Instruction& in : list) {
        if (in.code != OpCode::kCollective) continue;
        std::vector<DeviceId> group;
        for (const int32_t member : source.program.group(in.target).devices) {
          group.push_back(ids[static_cast<size_t>(member)]);
        }
        if (network.Supports({in.kind, group, sizes, in.algorithm, in.tag})) continue;
        return BadInput(
            source.file,
            fmt::format("there is no {} {} over the devices of group {}", NameOf(in.algorithm),
                        NameOf(in.kind), source.program.group(in.target).name),
            "ring always exists");
      }
    }
  }
  return Ok();
}

}  // namespace

Result<Verdict> CheckSource(const ProgramSource& source) {
  HEDDLE_ASSIGN(const std::vector<DeviceId> ids, FindDevices(source.program, source.GetCluster()));
  HEDDLE_RETURN_IF_ERROR(CheckCollectives(source, ids));
  CheckOptions options;
  options.graph = source.GetGraph();
  for (const DeviceId id : ids) options.capacity.push_back(source.GetCluster().type_of(id).memory);
  return CheckProgram(source.program, options);
}

Error ErrorOf(const Verdict& verdict, const std::string& file, const std::string& hint) {
  const Finding& first = verdict.findings[0];
  const bool memory = first.kind == FindingKind::kMemory;
  return {memory ? ErrorKind::kInfeasible : ErrorKind::kBadInput, file,
          fmt::format("{}: {}", NameOf(first.kind), first.message), hint};
}

Json MemoryJson(const ProgramSource& source, const Verdict& verdict) {
  Json rows = Json::array();
  const Cluster& cluster = source.GetCluster();
  for (size_t d = 0; d < source.program.devices.size(); ++d) {
    const std::string& name = source.program.devices[d].name;
    rows.push_back({{"device", name},
                    {"peak_bytes", verdict.memory[d].peak.value},
                    {"capacity_bytes", cluster.type_of(*cluster.FindDevice(name)).memory.value}});
  }
  return rows;
}

Json DevicesJson(const Simulation& simulation) {
  Json rows = Json::array();
  for (const DeviceUse& use : simulation.devices) {
    rows.push_back({{"device", use.device},
                    {"busy_seconds", use.busy.value},
                    {"idle_seconds", use.idle.value},
                    {"sent_bytes", use.sent.value},
                    {"received_bytes", use.received.value}});
  }
  return rows;
}

}  // namespace heddle
