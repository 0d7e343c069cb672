// The comparison of pipeline planners, as one table: models x clusters x numbers of microbatches,
// every planner under the same cost model, memory and simulator; and once more by SimGrid.
//
//   heddle_spp_table [--quick] [--only MODEL] [--devices N] [--keep FILE] [--run | --no-run]
//                    [--simgrid | --no-simgrid] [--simgrid-devices N]
//
// prints the tables of docs/results-pipeline.md to standard output. --quick leaves out most cells,
// --only all models but one, --devices all clusters of another size. Cells are appended to the kept
// file as they are made and not made again; with --no-run there are only those. SimGrid is asked
// where it was built in, with
// --simgrid-devices up to so many devices.

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "spp/cell.h"
#include "spp/print.h"
#include "spp/simgrid_run.h"

namespace heddle {
namespace {

struct Arguments {
  bool quick = false;
  bool run = true;
  std::string only, keep;
  bool simgrid = kHasSimGrid;
  int simgrid_devices = std::numeric_limits<int>::max();
  int devices = 0;  // 0: any number
};

Result<Arguments> ParseArguments(const std::vector<std::string>& words) {
  Arguments arguments;
  for (size_t k = 0; k < words.size(); ++k) {
    const bool last = k + 1 == words.size();
    if (words[k] == "--quick") {
      arguments.quick = true;
    } else if (words[k] == "--run" || words[k] == "--no-run") {
      arguments.run = words[k] == "--run";
    } else if (words[k] == "--simgrid" && kHasSimGrid) {
      arguments.simgrid = true;
    } else if (words[k] == "--no-simgrid") {
      arguments.simgrid = false;
    } else if (words[k] == "--only" && !last) {
      arguments.only = words[++k];
    } else if (words[k] == "--keep" && !last) {
      arguments.keep = words[++k];
    } else if (words[k] == "--devices" && !last) {
      arguments.devices = std::atoi(words[++k].c_str());
    } else if (words[k] == "--simgrid-devices" && !last) {
      arguments.simgrid_devices = std::atoi(words[++k].c_str());
    } else {
      return Usage(words[k] + " is unknown, wants a value or was not built in");
    }
  }
  return arguments;
}

// Cells made before, by name.
Result<std::map<std::string, SppCell>> ReadKept(const std::string& path) {
  std::map<std::string, SppCell> cells;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    HEDDLE_ASSIGN(const Json json, ParseJson(line, path));
    HEDDLE_ASSIGN(SppCell cell, CellFromJson(JsonField(json, path)));
    cells[cell.name] = std::move(cell);
  }
  return cells;
}

Status MakeTable(const Arguments& arguments) {
  HEDDLE_ASSIGN(const auto kept, ReadKept(arguments.keep));
  std::vector<SppCell> cells;
  for (const SppCase& one : SppCases(arguments.quick)) {
    if (!arguments.only.empty() && one.model.name != arguments.only) continue;
    if (arguments.devices > 0 && one.devices != arguments.devices) continue;
    if (const auto found = kept.find(one.Name()); found != kept.end()) {
      cells.push_back(found->second);
      continue;
    }
    if (!arguments.run) continue;
    HEDDLE_ASSIGN(SppCell cell,
                  RunCase(one, arguments.simgrid && one.devices <= arguments.simgrid_devices));
    fmt::print(stderr, "{}\n", CellToJson(cell).dump());
    if (!arguments.keep.empty()) {
      std::ofstream(arguments.keep, std::ios::app) << CellToJson(cell).dump() << "\n";
    }
    cells.push_back(std::move(cell));
  }
  PrintSppTable(cells);
  return Ok();
}

Status Run(const std::vector<std::string>& words) {
  HEDDLE_ASSIGN(const Arguments arguments, ParseArguments(words));
  return MakeTable(arguments);
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  const heddle::Status status = heddle::Run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.error().ToString());
  return static_cast<int>(status.error().kind);
}
