#include "run/share/seat.h"

#include "base/json_struct.h"

namespace heddle {

template <>
struct JsonFields<RankNotes> {
  static constexpr auto kTable = std::tuple(
      JsonMember("hashes", &RankNotes::hashes),
      JsonMember("step_ends", &RankNotes::step_ends).AtLeast(0),
      JsonMember("turns", &RankNotes::turns).AtLeast(0),
      JsonMember("held", &RankNotes::held).AtLeast(0),
      JsonMember("deadlines", &RankNotes::deadlines).AtLeast(0),
      JsonMember("missed", &RankNotes::missed).AtLeast(0),
      JsonMember("longest_ratio", &RankNotes::longest_ratio), JsonMember("work", &RankNotes::work),
      JsonMember("work_took", &RankNotes::work_took));
};

Json RankNotesToJson(const RankNotes& notes) { return WriteStruct(notes); }
Result<RankNotes> RankNotesFromJson(const JsonField& json) { return ReadStruct<RankNotes>(json); }

}  // namespace heddle
