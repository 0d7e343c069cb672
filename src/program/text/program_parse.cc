#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "program/text/program_parser.h"

namespace heddle {

bool NameTable::Add(std::string_view name) {
  return ids_.emplace(std::string(name), static_cast<int32_t>(ids_.size())).second;
}

std::optional<int32_t> NameTable::Find(std::string_view name) const {
  const auto found = ids_.find(std::string(name));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::string NameTable::Suggest(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& item : ids_) names.push_back(item.first);
  std::sort(names.begin(), names.end());
  return SuggestName(name, names);
}

Result<Program> ProgramParser::Parse() {
  size_t begin = 0;
  while (begin <= text_.size()) {
    const size_t end = std::min(text_.find('\n', begin), text_.size());
    ++line_;
    LineWords words(text_.substr(begin, end - begin), fmt::format("{}:{}", file_, line_));
    if (!words.done()) {
      HEDDLE_RETURN_IF_ERROR(ParseLine(words));
      HEDDLE_RETURN_IF_ERROR(words.End());
    }
    begin = end + 1;
  }
  if (!started_) return BadInput(file_, "empty", "a Program starts with \"heddle-program 1\"");
  HEDDLE_RETURN_IF_ERROR(ResolveHolds());
  if (p_.devices.empty()) return BadInput(file_, "has no device", "the file may be truncated");
  if (!p_.has_section(Section::kBody)) {
    return BadInput(file_, "has no body", "the file may be truncated");
  }
  return std::move(p_);
}

Status ProgramParser::ParseLine(LineWords& w) {
  if (!started_) {
    if (!w.Accept("heddle-program")) {
      return w.Bad("not a Program", "the first line is \"heddle-program 1\"");
    }
    HEDDLE_ASSIGN(const int64_t version, w.Integer("the format's version", 0, kMostIndex));
    if (version != 1) return w.Bad(fmt::format("format {} is unknown", version), "expected 1");
    started_ = true;
    return Ok();
  }
  const std::string_view word = w.Take();
  if (section_ >= 0) return ParseInstruction(word, w);
  using Handler = Status (ProgramParser::*)(LineWords&);
  static const std::map<std::string_view, Handler> kLines = {
      {"strategy", &ProgramParser::Strategy},    {"model", &ProgramParser::Model},
      {"profiled", &ProgramParser::Profiled},    {"cluster", &ProgramParser::ClusterHash},
      {"samples", &ProgramParser::Samples},      {"updates", &ProgramParser::Updates},
      {"update", &ProgramParser::Rule},          {"layers", &ProgramParser::Layers},
      {"device", &ProgramParser::Device},        {"group", &ProgramParser::ParseGroup},
      {"channel", &ProgramParser::ParseChannel}, {"tensor", &ProgramParser::ParseTensor},
      {"segment", &ProgramParser::ParseSegment}, {"ops", &ProgramParser::Ops},
  };
  if (const auto found = kLines.find(word); found != kLines.end()) {
    return (this->*found->second)(w);
  }
  if (const auto use = FindByName<PortUse>(word, kPortUseCount)) return Ports(*use, w);
  if (const auto section = FindByName<Section>(word, kSectionCount)) return Begin(*section, w);
  return w.Bad(fmt::format("unknown line \"{}\"", word),
               "expected a header line, tensor, segment, or a section: prologue, body, epilogue");
}

Status ProgramParser::Strategy(LineWords& w) {
  HEDDLE_ASSIGN(p_.strategy, w.Word("a strategy's name"));
  return Ok();
}

Status ProgramParser::Model(LineWords& w) {
  HEDDLE_ASSIGN(p_.model, w.Word("a model"));
  HEDDLE_ASSIGN(p_.model_hash, w.Word("the model's hash"));
  return Ok();
}

Status ProgramParser::Profiled(LineWords& w) {
  HEDDLE_ASSIGN(p_.profile_batch, w.Integer("a number of samples", 1, kMostIndex));
  HEDDLE_ASSIGN(p_.profile_device, w.Word("a type of device"));
  return Ok();
}

Status ProgramParser::ClusterHash(LineWords& w) {
  HEDDLE_ASSIGN(p_.cluster_hash, w.Word("the cluster's hash"));
  return Ok();
}

Status ProgramParser::Samples(LineWords& w) {
  HEDDLE_ASSIGN(const int64_t samples, w.Integer("a number of samples", 0, kMostIndex));
  HEDDLE_RETURN_IF_ERROR(w.Expect("as"));
  p_.microbatch_rows.clear();
  while (!w.done()) {
    const std::vector<std::string_view> parts = SplitAt(w.Take(), '*');
    const auto rows = ParseInteger(parts[0]);
    const auto count = parts.size() > 1 ? ParseInteger(parts[1]) : 1;
    if (parts.size() > 2 || !rows || !count || *rows < 0 || *rows > kMostIndex || *count < 1 ||
        *count > kMostMicrobatches ||
        static_cast<int64_t>(p_.microbatch_rows.size()) + *count > kMostMicrobatches) {
      return w.Bad("bad list of microbatches", "write rows or rows*count, e.g. \"2*4\"");
    }
    p_.microbatch_rows.insert(p_.microbatch_rows.end(), static_cast<size_t>(*count), *rows);
  }
  if (p_.samples() != samples) {
    return w.Bad(fmt::format("the microbatches add up to {}, not {}", p_.samples(), samples));
  }
  return Ok();
}

Status ProgramParser::Updates(LineWords& w) {
  HEDDLE_ASSIGN(const int64_t updates, w.Integer("a number of updates", 0, kMostIndex));
  p_.updates = static_cast<int32_t>(updates);
  return Ok();
}

Status ProgramParser::Rule(LineWords& w) {
  HEDDLE_ASSIGN(const std::string_view first, w.Word("a rule"));
  std::string name(first);
  if (first == "async" && !w.done()) name += " " + std::string(w.Take());
  const auto rule = FindByName<UpdateRule>(name, kUpdateRuleCount);
  if (!rule || name.empty()) {
    return w.Bad(fmt::format("unknown rule \"{}\"", name),
                 "flush, async stash, async vertical, async none, async 2bw, or local and the "
                 "updates of each replica");
  }
  p_.rule = *rule;
  p_.local_steps.clear();
  while (p_.rule == UpdateRule::kLocal && !w.done()) {
    HEDDLE_ASSIGN(const int64_t steps, w.Integer("updates of a replica", 1, kMostIndex));
    p_.local_steps.push_back(steps);
  }
  if (p_.rule == UpdateRule::kLocal && p_.local_steps.empty()) {
    return w.Bad("local without the updates of each replica", "e.g. \"update local 2 2\"");
  }
  return Ok();
}

Status ProgramParser::Layers(LineWords& w) {
  HEDDLE_ASSIGN(const int64_t layers, w.Integer("a number of layers", 0, kMostMicrobatches));
  if (!p_.segments.empty()) return w.Bad("\"layers\" must come before the segments");
  p_.layers = static_cast<int32_t>(layers);
  return Ok();
}

Status ProgramParser::Device(LineWords& w) {
  HEDDLE_ASSIGN(const int64_t id, w.Integer("a device number", 0, kMostDevices - 1));
  if (id != static_cast<int64_t>(p_.devices.size())) {
    return w.Bad(fmt::format("device {} is out of order", id),
                 fmt::format("expected {}", p_.devices.size()));
  }
  DeviceProgram device;
  HEDDLE_ASSIGN(device.name, w.Word("the device's name"));
  p_.devices.push_back(std::move(device));
  if (!w.done()) HEDDLE_RETURN_IF_ERROR(w.Expect("holds"));
  while (!w.done()) {
    held_.push_back({id, std::string(w.Take()), fmt::format("{}:{}", file_, line_)});
  }
  return Ok();
}

Status ProgramParser::ResolveHolds() {
  for (const Held& held : held_) {
    LineWords words("", held.where);
    HEDDLE_ASSIGN(const BufferRef ref, Buffer(held.word, words));
    p_.devices[static_cast<size_t>(held.device)].holds.push_back(ref);
  }
  return Ok();
}

Status ProgramParser::ParseGroup(LineWords& w) {
  Group group;
  HEDDLE_ASSIGN(group.name, w.Word("a group's name"));
  HEDDLE_RETURN_IF_ERROR(NewName(groups_, group.name, "group", w));
  while (!w.done()) {
    HEDDLE_ASSIGN(group.devices.emplace_back(), DeviceNumber(w));
  }
  std::vector<int32_t> sorted = group.devices;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return w.Bad(fmt::format("group {} is empty or lists a device twice", group.name));
  }
  p_.groups.push_back(std::move(group));
  return Ok();
}

Status ProgramParser::ParseChannel(LineWords& w) {
  Channel channel;
  while (!w.NextIs("|")) {
    HEDDLE_ASSIGN(channel.ends[0].emplace_back(), DeviceNumber(w));
  }
  HEDDLE_RETURN_IF_ERROR(w.Expect("|"));
  while (!w.NextIs("half") && !w.NextIs("full")) {
    HEDDLE_ASSIGN(channel.ends[1].emplace_back(), DeviceNumber(w));
  }
  channel.half_duplex = w.Take() == "half";
  p_.channels.push_back(std::move(channel));
  return Ok();
}

Status ProgramParser::ParseTensor(LineWords& w) {
  ProgramTensor tensor;
  HEDDLE_ASSIGN(tensor.name, w.Word("a tensor's name"));
  if (tensor.name == "over") return w.Bad("a tensor cannot be called \"over\"");
  HEDDLE_RETURN_IF_ERROR(NewName(tensors_, tensor.name, "tensor", w));
  HEDDLE_ASSIGN(const std::string_view type, w.Word("a type, e.g. f32[4,256]"));
  const size_t open = type.find('[');
  const auto dtype = ParseChoice<DType>(type.substr(0, open));
  if (!dtype || open == std::string_view::npos || type.back() != ']') {
    return w.Bad(fmt::format("\"{}\" is not a type", type), "e.g. f32[4,256]");
  }
  tensor.dtype = *dtype;
  const std::string_view inside = type.substr(open + 1, type.size() - open - 2);
  double elements = 1;
  for (const std::string_view part : SplitAt(inside, ',')) {
    if (inside.empty()) break;
    const auto extent = ParseInteger(part);
    if (!extent || *extent < 0 || *extent > kMostExtent) {
      return w.Bad(fmt::format("\"{}\" is not an extent", part));
    }
    elements *= static_cast<double>(std::max<int64_t>(1, *extent));  // whatever the order of axes
    tensor.shape.push_back(*extent);
  }
  if (elements > static_cast<double>(kMostElements))
    return w.Bad(fmt::format("{} is too large", tensor.name));
  HEDDLE_ASSIGN(const std::string_view role_name, w.Word("a role"));
  const auto role = ParseChoice<Role>(role_name);
  if (!role) return w.Bad(fmt::format("\"{}\" is not a role", role_name));
  tensor.role = *role;
  p_.tensors.push_back(std::move(tensor));
  return Ok();
}

namespace {

// A finite number of 0 or more.
Result<double> NotNegative(LineWords& w, const char* what, const char* example) {
  HEDDLE_ASSIGN(const std::string_view text, w.Word(what));
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  if (whole && std::isfinite(value) && value >= 0) return value;
  return w.Bad(fmt::format("\"{}\" is not {}", text, what), example);
}

}  // namespace

Status ProgramParser::ParseSegment(LineWords& w) {
  Segment segment;
  HEDDLE_ASSIGN(segment.name, w.Word("a segment's name"));
  HEDDLE_RETURN_IF_ERROR(NewName(segments_, segment.name, "segment", w));
  HEDDLE_ASSIGN(const std::string_view phase_name, w.Word("a phase"));
  const auto phase = FindByName<SegmentPhase>(phase_name, kSegmentPhaseCount);
  if (!phase) return w.Bad(fmt::format("\"{}\" is not a phase", phase_name));
  segment.phase = *phase;
  if (w.Accept("layers")) {
    HEDDLE_ASSIGN(const std::string_view range, w.Word("a range of layers"));
    const size_t dots = range.find("..");
    const auto first = ParseInteger(range.substr(0, dots));
    const auto last =
        dots == std::string_view::npos ? std::nullopt : ParseInteger(range.substr(dots + 2));
    if (!first || !last || *first < 0 || *last < *first || *last >= p_.layers) {
      return w.Bad(fmt::format("\"{}\" is not a range of the {} layers", range, p_.layers),
                   "e.g. layers 0..3; the header's \"layers\" line must come first");
    }
    segment.first_layer = static_cast<int32_t>(*first);
    segment.last_layer = static_cast<int32_t>(*last);
  }
  if (w.Accept("rows")) {
    HEDDLE_ASSIGN(const std::string_view text, w.Word("a range of rows"));
    HEDDLE_ASSIGN(segment.rows, ParseRange(text, kMostIndex, w));
  }
  segment.recompute = w.Accept("recompute");
  segment.joint = w.Accept("joint");
  if (w.Accept("scale")) {
    HEDDLE_ASSIGN(segment.scale, NotNegative(w, "a factor", "e.g. scale 0.5"));
  }
  if (w.Accept("time")) {
    HEDDLE_ASSIGN(const double seconds, NotNegative(w, "a time", "e.g. time 0.001 s"));
    HEDDLE_RETURN_IF_ERROR(w.Expect("s"));
    segment.time = Seconds{seconds};
  }
  constexpr int64_t kMostBytes = int64_t{1} << 60;
  if (w.Accept("scratch")) {
    HEDDLE_ASSIGN(segment.scratch.value, w.Integer("bytes", 0, kMostBytes));
  }
  if (w.Accept("first")) {
    HEDDLE_ASSIGN(segment.first_scratch.value, w.Integer("bytes", 0, kMostBytes));
  }
  p_.segments.push_back(std::move(segment));
  return Ok();
}

Status ProgramParser::Ops(LineWords& w) {
  if (p_.segments.empty()) return w.Bad("\"ops\" outside a segment");
  while (!w.done()) {
    const std::string_view word = w.Take();
    SegmentOp op;
    const size_t open = word.find('[');
    const std::string_view name = word.substr(0, open);
    if (!IsProgramName(name)) return w.Bad(fmt::format("\"{}\" is not an op", word));
    if (op_names_.Add(name)) p_.op_names.emplace_back(name);
    op.op = *op_names_.Find(name);
    if (open != std::string_view::npos) {
      if (word.back() != ']') return w.Bad(fmt::format("\"{}\" lacks its ']'", word));
      Shards shards;
      for (const std::string_view part :
           SplitAt(word.substr(open + 1, word.size() - open - 2), ',')) {
        if (part.size() < 2 || part[1] != '=' ||
            std::isalpha(static_cast<unsigned char>(part[0])) == 0) {
          return w.Bad(fmt::format("\"{}\" is not a shard", part), "e.g. fc0[n=0:5]");
        }
        HEDDLE_ASSIGN(const Range range, ParseRange(part.substr(2), kMostExtent, w));
        shards.emplace_back(part[0], range);
      }
      const auto [found, added] =
          op_shards_.emplace(shards, static_cast<int32_t>(p_.op_shards.size()));
      if (added) p_.op_shards.push_back(std::move(shards));
      op.shards = found->second;
    }
    p_.segments.back().ops.push_back(op);
  }
  return Ok();
}

Status ProgramParser::Ports(PortUse use, LineWords& w) {
  if (p_.segments.empty()) return w.Bad(fmt::format("\"{}\" outside a segment", NameOf(use)));
  while (!w.done()) {
    std::string_view word = w.Take();
    Port port;
    port.use = use;
    const size_t open = std::min(word.find('['), word.size());
    const std::string_view brackets = word.substr(open);
    word = word.substr(0, open);
    HEDDLE_RETURN_IF_ERROR(TakeName(word, port.tensor, port.form, w));
    const auto accept = [&](char mark) {
      if (word.empty() || word[0] != mark) return false;
      word.remove_prefix(1);
      return true;
    };
    port.per_microbatch = accept('#');
    port.per_replica = accept('^');
    port.versioned = accept('@');
    if (port.versioned && accept('+')) {
      const auto offset = ParseInteger(word);
      if (!offset || *offset < 0 || *offset > 100) return w.Bad("bad version offset", "e.g. w@+1");
      port.version_offset = static_cast<int8_t>(*offset);
      word = {};
    }
    if (!word.empty()) return w.Bad(fmt::format("unexpected \"{}\" after a port", word));
    HEDDLE_ASSIGN(port.slice, ParseSlice(brackets, port.tensor, w));
    p_.segments.back().ports.push_back(port);
  }
  return Ok();
}

Result<Program> ParseProgram(std::string_view text, const std::string& file) {
  return ProgramParser(text, file).Parse();
}

}  // namespace heddle
