// StageCosts: what stages, channels and all-reduces cost for one order of devices and one number of
// microbatches. A stage is a run of layers first..end-1 on `count` devices of the order from `at`.
//
// Replicas divide each microbatch in proportion to their speed in these layers, in whole samples:
// what is left over goes to whoever has it done first. A channel takes, for one microbatch, the
// larger of its two directions (their sum where a wire serves both): the most loaded wire decides,
// for a sender and a receiver exchange what their shares overlap.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "plan/pipeline/device_line.h"
#include "plan/pipeline/layer_table.h"

namespace heddle {

class StageCosts {
 public:
  // `memory_factor`: of the estimate of memory; above 1 after the checker found more. `all`: the
  // microbatches of the batch, where there are more than those of the line's files.
  StageCosts(const LayerTable& table, std::shared_ptr<const DeviceLine> line, int64_t microbatches,
             double memory_factor = 1, int64_t all = 0);

  struct Stage {
    double seconds;  // forward and backward of a microbatch; infinite: does not fit
    bool recompute;
  };
  // `depth`: the stage is the depth-th from the end, the last being 1; so many microbatches are in
  // flight, as under 1F1B.
  Stage StageOf(int first, int end, const DeviceRange& range, int depth) const;
  // When its WorkOf is known.
  Stage StageOf(int first, int end, const DeviceRange& range, int depth,
                const LayerTable::Work& work) const;

  using Channel = LineChannel;
  Channel ChannelBetween(const DeviceRange& from, const DeviceRange& to) const {
    return line_->ChannelBetween(from, to);
  }
  // Of one microbatch across the cut before layer `end`.
  double ForwardSeconds(const Channel& channel, int end) const;
  double BackwardSeconds(const Channel& channel, int end) const;
  double ChannelSeconds(const Channel& channel, int end) const;

  // Of the gradients of layers first..end-1 over the range, by the cheapest algorithm.
  using Line = LineAllReduce;
  Line AllReduceOver(const DeviceRange& range) const { return line_->AllReduceOver({range}); }
  Line AllReduceOver(const std::vector<DeviceRange>& ranges) const {
    return line_->AllReduceOver(ranges);
  }
  double AllReduceSeconds(const Line& line, int first, int end) const {
    return line.per_byte > 0 ? line.fixed + line.per_byte * table_.ParameterBytes(first, end) : 0;
  }

  // Samples of a microbatch, the largest, in the order of the range.
  std::vector<int64_t> RowsOf(int first, int end, const DeviceRange& range) const;
  // Of the stage's slowest member, for a microbatch.
  LayerTable::Work WholeRowsWork(int first, int end, const DeviceRange& range) const;
  // The same without a look at how the samples of these layers are divided, for a search: what
  // whole samples cost is what they cost with the shares of the whole model.
  LayerTable::Work WorkOf(int first, int end, const DeviceRange& range) const;

  // Devices of one type.
  bool AllAlike(const DeviceRange& range) const {
    return alike_until_[static_cast<size_t>(range.at)] >= range.end();
  }

  const LayerTable& table() const { return table_; }
  const DeviceLine& line() const { return *line_; }
  const std::shared_ptr<const DeviceLine>& line_pointer() const { return line_; }
  const std::vector<int>& order() const { return line_->order(); }
  int pipelines() const { return static_cast<int>(line_->files().size()); }
  int layers() const { return table_.layers(); }
  int devices() const { return line_->size(); }
  int64_t microbatches() const { return microbatches_; }  // of each pipeline
  int64_t rows() const { return rows_; }                  // of the largest microbatch
  double memory_factor() const { return memory_factor_; }
  double speed_before(int at) const { return line_->speed_before(at); }

 private:
  struct Members {  // of one type, in a range
    int type;
    int count;
  };
  struct Mixed {  // a range of unlike devices
    std::vector<Members> members;
    double uneven = 1;  // whole samples, over parts of them that would be done at the same time
  };
  const Mixed& MembersOf(const DeviceRange& range) const;
  std::vector<int64_t> WholeRows(const DeviceRange& range,
                                 const std::vector<double>& seconds_by_type) const;
  double MemberRows(const std::vector<Members>& members, const Members& member, int first,
                    int end) const;
  int TypeAt(int place) const { return line_->types()[static_cast<size_t>(place)]; }
  bool Fits(const LayerTable::Memory& memory, int type, double rows, int depth,
            bool recompute) const;

  const LayerTable& table_;
  std::shared_ptr<const DeviceLine> line_;
  int64_t microbatches_;
  int64_t rows_;
  double memory_factor_;
  std::vector<int> alike_until_;                 // by place: where the next of another type is
  std::vector<const LayerTable::Times*> times_;  // by number of equal replicas
  mutable std::unordered_map<int64_t, Mixed> members_;
};

}  // namespace heddle
