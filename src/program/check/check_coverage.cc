#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "program/check/check_parts.h"

namespace heddle {
namespace {

// What is computed once per sample: forward, and both parts of backward.
constexpr size_t kPartCount = 3;
constexpr unsigned kForwardPart = 1;
constexpr std::array<std::string_view, kPartCount> kPartNames = {"forward", "backward (input)",
                                                                 "backward (weight)"};

// Bit p: the segment computes part p.
unsigned PartsOf(const Segment& segment) {
  static constexpr std::array<unsigned, kSegmentPhaseCount> kParts = {0b001, 0b110, 0b010,
                                                                      0b100, 0,     0};
  return segment.recompute ? 0 : kParts[static_cast<size_t>(segment.phase)];
}

struct Piece {
  Range rows;
  bool joint;
};

enum class Tiling : uint8_t { kExact, kMissing, kTwice };

// Do the pieces tile [0, rows)? Devices that compute the same rows jointly count once.
Tiling Tile(std::vector<Piece> pieces, int64_t rows) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tuple(a.rows.begin, a.rows.end) < std::tuple(b.rows.begin, b.rows.end);
  });
  int64_t at = 0;
  for (size_t k = 0; k < pieces.size(); ++k) {
    if (k > 0 && pieces[k].joint && pieces[k - 1].joint && pieces[k].rows == pieces[k - 1].rows) {
      continue;
    }
    if (pieces[k].rows.begin > at) return Tiling::kMissing;
    if (pieces[k].rows.begin < at) return Tiling::kTwice;
    at = pieces[k].rows.end;
  }
  return at == rows ? Tiling::kExact : at < rows ? Tiling::kMissing : Tiling::kTwice;
}

// One microbatch: the segments that worked on it.
class MicrobatchCoverage {
 public:
  MicrobatchCoverage(const Program& program, const Graph* graph, bool trains, Verdict& verdict)
      : p_(program), graph_(graph), trains_(trains), verdict_(verdict) {}

  void Check(int64_t microbatch, const std::vector<int32_t>& segments) {
    const auto count = static_cast<int64_t>(p_.microbatch_rows.size());
    const int64_t rows = p_.microbatch_rows[static_cast<size_t>(microbatch % count)];
    if (!seen_.emplace(rows, segments).second) return;  // the same as one checked before
    if (graph_ != nullptr && HasOps(segments)) {
      CheckOps(microbatch, rows, segments);
    } else {
      CheckLayers(microbatch, rows, segments);
    }
  }

 private:
  bool HasOps(const std::vector<int32_t>& segments) const {
    return std::any_of(segments.begin(), segments.end(),
                       [&](int32_t s) { return !p_.segment(s).ops.empty(); });
  }

  template <class What>
  void Report(Tiling tiling, const What& what, int64_t microbatch) {
    if (tiling == Tiling::kExact) return;
    const bool missing = tiling == Tiling::kMissing;
    verdict_.Add({missing ? FindingKind::kLayerMissing : FindingKind::kLayerTwice, -1,
                  fmt::format("{} of microbatch {} is {}", what(), microbatch,
                              missing ? "not computed for all samples"
                                      : "computed twice for some samples")});
  }

  void CheckLayers(int64_t microbatch, int64_t rows, const std::vector<int32_t>& segments) {
    // Runs of layers that all segments treat alike: run k is layers starts[k] .. starts[k+1]-1.
    std::vector<int32_t> starts = {0, p_.layers};
    for (const int32_t s : segments) {
      starts.push_back(std::max(0, p_.segment(s).first_layer));
      starts.push_back(p_.segment(s).last_layer + 1);
    }
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    const auto run_of = [&](int32_t layer) {
      return static_cast<size_t>(std::lower_bound(starts.begin(), starts.end(), layer) -
                                 starts.begin());
    };
    std::array<std::vector<std::vector<Piece>>, kPartCount> pieces;
    for (auto& part : pieces) part.resize(starts.size() - 1);
    for (const int32_t s : segments) {
      const Segment& segment = p_.segment(s);
      for (size_t part = 0; part < kPartCount; ++part) {
        if ((PartsOf(segment) >> part & 1) == 0) continue;
        const size_t last = run_of(segment.last_layer + 1);
        for (size_t k = run_of(std::max(0, segment.first_layer)); k < last; ++k) {
          pieces[part][k].push_back({segment.rows, segment.joint});
        }
      }
    }
    for (size_t part = 0; part < (trains_ ? kPartCount : 1); ++part) {
      for (size_t k = 0; k < pieces[part].size(); ++k) {
        // A layer may have only one of the two parts of backward: the first needs no gradient of
        // its input, one without weights none of those.
        const bool other_part = part > 0 && !pieces[3 - part][k].empty();
        if (pieces[part][k].empty() && other_part) continue;
        const auto what = [&] {
          return fmt::format("{}, {},", LayersText(starts[k], starts[k + 1]), kPartNames[part]);
        };
        Report(Tile(pieces[part][k], rows), what, microbatch);
      }
    }
  }

  static std::string LayersText(int32_t begin, int32_t end) {
    return end - begin == 1 ? fmt::format("layer {}", begin)
                            : fmt::format("layers {}..{}", begin, end - 1);
  }

  // What a segment computes of an op.
  struct Work {
    int32_t segment;
    int32_t shards;  // as SegmentOp
  };

  // With the model at hand: every op, not only every layer.
  void CheckOps(int64_t microbatch, int64_t rows, const std::vector<int32_t>& segments) {
    std::vector<std::vector<Work>> work(graph_->ops().size());
    for (size_t k = 0; k < segments.size(); ++k) {
      const Segment& segment = p_.segment(segments[k]);
      const bool again = k > 0 && segments[k] == segments[k - 1];
      if (segment.recompute || (again && segment.joint)) continue;
      for (const SegmentOp& op : segment.ops) {
        if (const auto id = IdOf(op)) {
          work[static_cast<size_t>(id->value)].push_back({segments[k], op.shards});
        }
      }
    }
    for (size_t k = 0; k < work.size(); ++k) {
      const Op& op = graph_->ops()[k];
      if (op.phase == Phase::kUpdate) continue;
      const auto what = [&] {
        const std::string& layer = graph_->layers()[static_cast<size_t>(op.layer.value)];
        return fmt::format("layer {} (op {})", layer, op.name);
      };
      std::vector<Piece> pieces;
      bool sharded = false;
      for (const Work& one : work[k]) {
        pieces.push_back({p_.segment(one.segment).rows, p_.segment(one.segment).joint});
        sharded = sharded || one.shards >= 0;
      }
      Report(Tile(std::move(pieces), rows), what, microbatch);
      if (sharded) Report(TileShards(op, rows, work[k]), what, microbatch);
    }
  }

  std::optional<OpId> IdOf(const SegmentOp& op) {
    const auto [found, is_new] = ids_.try_emplace(op.op);
    if (is_new) found->second = graph_->FindOp(p_.NameOf(op));
    return found->second;
  }

  // Do the shards of a jointly computed op tile its index space? It is cut wherever a shard begins
  // or ends, and each cell must be in one of the different boxes: numbers of points would be too
  // large to add up exactly.
  Tiling TileShards(const Op& op, int64_t rows, const std::vector<Work>& work) const {
    const std::string letters = DividedLetters(op, work);
    std::set<std::vector<Range>> boxes;
    for (const Work& one : work) boxes.insert(BoxOf(op, letters, one));
    std::vector<std::vector<int64_t>> cuts(letters.size());
    std::vector<int64_t> whole;
    size_t cells = 1;
    for (size_t k = 0; k < letters.size(); ++k) {
      whole.push_back(letters[k] == 'b' ? rows : op.extents[op.IndexOf(letters[k])]);
      cuts[k] = {0, whole[k]};
      for (const auto& box : boxes) {
        cuts[k].push_back(box[k].begin);
        cuts[k].push_back(box[k].end);
      }
      std::sort(cuts[k].begin(), cuts[k].end());
      cuts[k].erase(std::unique(cuts[k].begin(), cuts[k].end()), cuts[k].end());
      cells *= cuts[k].size() - 1;
    }
    std::vector<int> count(cells, 0);
    for (const auto& box : boxes) CountCells(box, cuts, 0, 0, count);
    bool missing = false;
    for (size_t cell = 0; cell < cells; ++cell) {
      bool inside = true;
      for (size_t k = letters.size(), rest = cell; k-- > 0;) {
        inside = inside && cuts[k][rest % (cuts[k].size() - 1)] < whole[k];
        rest /= cuts[k].size() - 1;
      }
      if (count[cell] > (inside ? 1 : 0)) return Tiling::kTwice;
      missing = missing || (inside && count[cell] == 0);
    }
    return missing ? Tiling::kMissing : Tiling::kExact;
  }

  // Rows, and what some shard divides.
  std::string DividedLetters(const Op& op, const std::vector<Work>& work) const {
    std::string letters = op.IndexOf('b') == std::string::npos ? "" : "b";
    for (const Work& one : work) {
      for (const auto& [letter, range] : p_.ShardsOf({-1, one.shards})) {
        if (letters.find(letter) == std::string::npos) letters += letter;
      }
    }
    return letters;
  }

  std::vector<Range> BoxOf(const Op& op, const std::string& letters, const Work& work) const {
    std::vector<Range> box;
    for (const char letter : letters) {
      Range range{0, op.extents[op.IndexOf(letter)]};
      if (letter == 'b') range = p_.segment(work.segment).rows;
      for (const auto& [divided, part] : p_.ShardsOf({-1, work.shards})) {
        if (divided == letter) range = part;
      }
      box.push_back(range);
    }
    return box;
  }

  // One more for every cell of the box; `cell` is its number along the letters before the k-th.
  static void CountCells(const std::vector<Range>& box,
                         const std::vector<std::vector<int64_t>>& cuts, size_t k, size_t cell,
                         std::vector<int>& count) {
    if (k == box.size()) {
      ++count[cell];
      return;
    }
    const auto at = [&](int64_t cut) {
      return static_cast<size_t>(std::lower_bound(cuts[k].begin(), cuts[k].end(), cut) -
                                 cuts[k].begin());
    };
    for (size_t c = at(box[k].begin); c < at(box[k].end); ++c) {
      CountCells(box, cuts, k + 1, cell * (cuts[k].size() - 1) + c, count);
    }
  }

  const Program& p_;
  const Graph* graph_;
  bool trains_;  // some microbatch has a backward: then all must
  Verdict& verdict_;
  std::set<std::pair<int64_t, std::vector<int32_t>>> seen_;
  std::unordered_map<int32_t, std::optional<OpId>> ids_;  // by number of the op's name
};

// How often a device updates each weight in the body, or gets it from who does; by (tensor,
// replica).
std::map<std::pair<int32_t, int32_t>, int> UpdatesOf(const Program& program,
                                                     const DeviceProgram& device) {
  std::map<std::pair<int32_t, int32_t>, int> updates;
  for (const Instruction& in : device.list(Section::kBody)) {
    if (in.code == OpCode::kRecv) {
      const BufferRef& ref = device.operands[static_cast<size_t>(in.first_operand)];
      if (program.tensor(ref.tensor).role == Role::kParameter) ++updates[{ref.tensor, ref.replica}];
    }
    if (in.code != OpCode::kCompute) continue;
    const Segment& segment = program.segment(in.target);
    if (segment.phase != SegmentPhase::kUpdate) continue;
    for (const Port& port : segment.ports) {
      if (program.tensor(port.tensor).role != Role::kParameter) continue;
      if (port.use != PortUse::kChange && port.use != PortUse::kWrite) continue;
      ++updates[{port.tensor, port.per_replica ? in.replica : -1}];
    }
  }
  return updates;
}

// Every weight a device holds is updated in the body; on average over all that hold it, as often as
// the header says: faster replicas may take more local steps than slower ones.
void CheckUpdates(const Program& program, Verdict& verdict) {
  struct Held {
    size_t device;
    int updates;
  };
  std::map<int32_t, std::vector<Held>> held;  // by tensor
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const auto updates = UpdatesOf(program, program.devices[d]);
    for (const BufferRef& ref : program.devices[d].holds) {
      if (program.tensor(ref.tensor).role != Role::kParameter) continue;
      const auto found = updates.find({ref.tensor, ref.replica});
      held[ref.tensor].push_back({d, found == updates.end() ? 0 : found->second});
    }
  }
  for (const auto& [tensor, holders] : held) {
    int64_t total = 0;
    for (const Held& one : holders) total += one.updates;
    const bool enough = total == int64_t{program.updates} * std::ssize(holders);
    for (const Held& one : holders) {
      const bool left_out = one.updates == 0 && program.updates > 0;
      if (one.updates == program.updates || (enough && !left_out)) continue;
      verdict.Add({FindingKind::kUpdateMissing, static_cast<int32_t>(one.device),
                   fmt::format("device {} ({}) updates {} {} times in the body, not {}", one.device,
                               program.devices[one.device].name, program.tensor(tensor).name,
                               one.updates, program.updates)});
    }
  }
}

}  // namespace

void CheckCoverage(const Program& program, const std::vector<Step>& steps,
                   const CheckOptions& options, Verdict& verdict) {
  CheckUpdates(program, verdict);
  if (program.layers == 0 || program.microbatch_rows.empty()) return;
  const bool relative = IsRelative(program);
  bool trains = false;
  std::map<int64_t, std::vector<int32_t>> work;  // by microbatch
  for (const DeviceProgram& device : program.devices) {
    for (const Step& step : steps) {
      // Without relative operands every repetition is the same: one is enough.
      if (!relative && step.section == Section::kBody && step.i > 0) continue;
      for (const Instruction& in : device.list(step.section)) {
        if (in.code != OpCode::kCompute || !in.microbatch.present()) continue;
        const unsigned parts = PartsOf(program.segment(in.target));
        if (parts == 0) continue;
        trains = trains || (parts & ~kForwardPart) != 0;
        work[in.microbatch.value(step.i)].push_back(in.target);
      }
    }
  }
  const auto count = static_cast<int64_t>(program.microbatch_rows.size());
  MicrobatchCoverage coverage(program, options.graph, trains, verdict);
  int64_t expected = 0;  // microbatches are numbered without gaps
  for (auto& [m, segments] : work) {
    if (m != expected) break;
    std::sort(segments.begin(), segments.end());
    coverage.Check(m, segments);
    ++expected;
  }
  const bool gap = expected < static_cast<int64_t>(work.size());
  if (gap || expected < count) {
    verdict.Add({FindingKind::kLayerMissing, -1,
                 fmt::format("microbatch {} is not computed at all", expected)});
  }
}

}  // namespace heddle
