#include "report/device_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"

namespace heddle {
namespace {

constexpr size_t kFewDevices = 8;  // have a row each
constexpr size_t kMostRows = 12;
constexpr size_t kLastRows = 3;  // of them, after what is left out

// "36.1 ms", "36.1-36.4 ms", "980 us-1.20 ms"
std::string Between(const std::string& least, const std::string& most) {
  if (least == most) return most;
  const size_t unit = least.find_first_not_of("0123456789.");
  const bool same =
      unit != std::string::npos && most.ends_with(least.substr(unit)) &&
      most.find_first_not_of("0123456789.") == most.size() - least.substr(unit).size();
  return (same ? least.substr(0, unit) : least) + "-" + most;
}

// One or several devices.
struct DeviceRow {
  std::vector<std::string> devices;
  std::vector<std::string> place, last_place;  // of the first device and of the last
  std::vector<std::string> kind;               // those of one kind may share a row
  std::vector<double> least, most;  // busy, idle share, sent, received, peak; negative: unknown
  int64_t capacity = -1;

  std::string QuantityText(size_t k, double value) const {
    if (value < 0) return "-";
    if (k == 0) return ToText(Seconds{value});
    if (k == 1) return fmt::format("{:.0f}%", 100 * value);
    return ToText(Bytes{static_cast<int64_t>(value)});
  }

  std::vector<std::string> Cells() const {
    std::vector<std::string> cells = {FoldedNames(devices)};
    for (size_t k = 0; k < place.size(); ++k) {
      const bool same = place[k] == last_place[k];
      cells.push_back(same ? place[k] : place[k] + " … " + last_place[k]);
    }
    for (size_t k = 0; k < least.size(); ++k) {
      cells.push_back(Between(QuantityText(k, least[k]), QuantityText(k, most[k])));
    }
    cells.push_back(capacity < 0 ? "-" : ToText(Bytes{capacity}));
    return cells;
  }

  bool TooFull() const { return capacity >= 0 && most.back() > static_cast<double>(capacity); }
};

// Differences that people do not care to know.
bool Alike(const DeviceRow& a, const DeviceRow& b) {
  constexpr double kClose = 0.02;
  for (size_t k = 0; k < a.least.size(); ++k) {
    const double least = std::min(a.least[k], b.least[k]), most = std::max(a.most[k], b.most[k]);
    if (most - least > kClose * std::abs(most)) return false;
  }
  return true;
}

void Merge(const DeviceRow& from, DeviceRow& into) {
  into.devices.insert(into.devices.end(), from.devices.begin(), from.devices.end());
  into.last_place = from.last_place;
  for (size_t k = 0; k < from.least.size(); ++k) {
    into.least[k] = std::min(into.least[k], from.least[k]);
    into.most[k] = std::max(into.most[k], from.most[k]);
  }
}

// Rows of one kind become one, where the first of them was; with `close` only those alike.
std::vector<DeviceRow> Folded(const std::vector<DeviceRow>& rows, bool close) {
  std::vector<DeviceRow> folded;
  for (const DeviceRow& row : rows) {
    const auto known = std::find_if(folded.begin(), folded.end(), [&](const DeviceRow& other) {
      return other.kind == row.kind && other.capacity == row.capacity &&
             (!close || Alike(other, row));
    });
    if (known == folded.end()) {
      folded.push_back(row);
    } else {
      Merge(row, *known);
    }
  }
  return folded;
}

// What all rows of a kind of plan have besides how devices are used.
struct Places {
  std::vector<Column> columns;
  std::map<std::string, std::vector<std::string>> cells, kinds;  // by device
};

std::string LayersText(const StagePlan& stage) {
  constexpr size_t kMostRuns = 3;
  std::string text;
  for (size_t k = 0; k < std::min(kMostRuns, stage.chunks.size()); ++k) {
    const LayerRun& run = stage.chunks[k];
    text += fmt::format("{}{}", k == 0 ? "" : ",", run.first);
    if (run.first != run.last) text += fmt::format("-{}", run.last);
  }
  return text + (stage.chunks.size() > kMostRuns ? ",…" : "");
}

Places PipelinePlaces(const Plan& plan) {
  Places places{{{"stage", Align::kRight}, {"layers", Align::kRight}}, {}, {}};
  for (size_t p = 0; p < plan.pipelines.size(); ++p) {
    const auto& stages = plan.pipelines[p].stages;
    for (size_t s = 0; s < stages.size(); ++s) {
      const std::string name =
          plan.pipelines.size() == 1 ? fmt::format("{}", s) : fmt::format("{}.{}", p, s);
      for (const std::string& device : stages[s].devices) {
        places.cells[device] = {name, LayersText(stages[s])};
        places.kinds[device] = {fmt::format("{}", s), LayersText(stages[s])};
      }
    }
  }
  return places;
}

// The part of what an SPMD plan divides, by ratio vector.
std::vector<double> SharesOf(const SpmdPlan& spmd, size_t node, size_t place) {
  const size_t vectors = std::max(spmd.ratios[0].size(), spmd.ratios[1].size());
  std::vector<double> shares(vectors, 1);
  for (size_t k = 0; k < vectors; ++k) {
    if (k < spmd.ratios[0].size()) shares[k] *= spmd.ratios[0][k][node];
    if (k < spmd.ratios[1].size()) shares[k] *= spmd.ratios[1][k][place];
  }
  return shares;
}

// Under SPMD the columns stage and layers say instead which part a device has.
Places SpmdPlaces(const SpmdPlan& spmd) {
  Places places;
  for (size_t node = 0; node < spmd.mesh.size(); ++node) {
    for (size_t place = 0; place < spmd.mesh[node].size(); ++place) {
      for (const double share : SharesOf(spmd, node, place)) {
        places.cells[spmd.mesh[node][place]].push_back(fmt::format("{:.3f}", share));
      }
    }
  }
  places.kinds = places.cells;
  for (size_t k = 0; k < places.cells.begin()->second.size(); ++k) {
    constexpr int kFirstToGo = 9;
    places.columns.push_back(
        {k == 0 ? "share" : fmt::format("share '{}", k), Align::kRight, k == 0 ? 0 : kFirstToGo});
  }
  return places;
}

std::vector<DeviceRow> RowsOf(const Plan& plan, const Simulation& simulation,
                              const Places& places) {
  std::map<std::string, const Estimate::Memory*> memory;
  for (const Estimate::Memory& entry : plan.estimate.memory) memory[entry.device] = &entry;
  const double period = simulation.iteration.value;
  std::vector<DeviceRow> rows;
  for (const DeviceUse& use : simulation.devices) {
    DeviceRow row;
    row.devices = {use.device};
    const auto place = places.cells.find(use.device);
    row.place = place == places.cells.end() ? std::vector<std::string>(places.columns.size(), "-")
                                            : place->second;
    row.last_place = row.place;
    if (place != places.cells.end()) row.kind = places.kinds.at(use.device);
    row.least = {use.busy.value, period > 0 ? use.idle.value / period : 0,
                 static_cast<double>(use.sent.value), static_cast<double>(use.received.value), -1};
    if (const auto entry = memory.find(use.device); entry != memory.end()) {
      row.least.back() = static_cast<double>(entry->second->peak_bytes);
      row.capacity = entry->second->capacity_bytes;
    }
    row.most = row.least;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<DeviceRow> Shortened(const std::vector<DeviceRow>& rows) {
  if (rows.size() <= kFewDevices) return rows;
  std::vector<DeviceRow> shorter = Folded(rows, /*close=*/true);
  return shorter.size() <= kMostRows ? shorter : Folded(rows, /*close=*/false);
}

}  // namespace

std::string FoldedNames(const std::vector<std::string>& names) {
  constexpr size_t kMostListed = 2;
  if (names.size() <= kMostListed) return Join(names, " ");
  return fmt::format("{} … {} ({})", names.front(), names.back(),
                     GroupDigits(static_cast<int64_t>(names.size())));
}

std::string DeviceTableText(const Plan& plan, const Simulation& simulation, const TableStyle& style,
                            bool all) {
  const Places places = plan.spmd ? SpmdPlaces(*plan.spmd) : PipelinePlaces(plan);
  std::vector<Column> columns = {{"device"}};
  columns.insert(columns.end(), places.columns.begin(), places.columns.end());
  columns.insert(columns.end(), {{"busy", Align::kRight},
                                 {"idle", Align::kRight, 1},
                                 {"sent", Align::kRight, 3},
                                 {"received", Align::kRight, 4},
                                 {"peak memory", Align::kRight},
                                 {"capacity", Align::kRight, 2}});
  TextTable table(std::move(columns));
  std::vector<DeviceRow> rows = RowsOf(plan, simulation, places);
  if (!all) rows = Shortened(rows);
  const size_t hidden = all || rows.size() <= kMostRows ? 0 : rows.size() - kMostRows + 1;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (hidden > 0 && r == kMostRows - 1 - kLastRows) {
      table.AddRow({fmt::format("… {} more rows", hidden)}, Tone::kFaint);
      r += hidden;
    }
    table.AddRow(rows[r].Cells(), rows[r].TooFull() ? Tone::kBad : Tone::kPlain);
  }
  return table.Print(style);
}

}  // namespace heddle
