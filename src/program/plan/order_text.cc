#include "program/plan/order_text.h"

#include <fmt/format.h>

#include <cctype>
#include <map>

#include "base/text.h"

namespace heddle {
namespace {

constexpr int32_t kNext = -1;      // the microbatch after the last of its kind
constexpr int32_t kPrevious = -2;  // the one before the last

// Counts on from the last microbatch of each kind and chunk.
class Counter {
 public:
  int32_t Next(const WorkItem& item) const {
    const auto found = last_.find({item.kind, item.chunk});
    return found == last_.end() ? 0 : found->second + 1;
  }
  void Saw(const WorkItem& item) { last_[{item.kind, item.chunk}] = item.microbatch; }

 private:
  std::map<std::pair<WorkKind, int32_t>, int32_t> last_;
};

class OrderParser {
 public:
  OrderParser(std::string_view text, std::string where, size_t most)
      : text_(text), where_(std::move(where)), most_(most) {}

  Result<WorkOrder> Parse() {
    HEDDLE_ASSIGN(WorkOrder order, List(0));
    if (at_ < text_.size()) return Bad("unexpected ')'");
    Counter counter;
    for (WorkItem& item : order) {
      if (item.microbatch == kNext) item.microbatch = counter.Next(item);
      if (item.microbatch == kPrevious) item.microbatch = counter.Next(item) - 2;
      if (item.microbatch < 0) return Bad("'-' counts below microbatch 0");
      counter.Saw(item);
    }
    return order;
  }

 private:
  Error Bad(const std::string& what) const {
    return BadInput(where_, fmt::format("{} at character {} of the order", what, at_ + 1),
                    "e.g. \"F*3 (F B)*5 B*3\", see docs/plan.md");
  }

  void SkipSpaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  Result<int32_t> Number() {
    const size_t begin = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    const auto value = ParseInteger(text_.substr(begin, at_ - begin));
    if (!value || *value > (1 << 24)) return Bad("expected a number");
    return static_cast<int32_t>(*value);
  }

  bool DigitNext() const {
    return at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0;
  }

  // Items until the end or an unmatched ')'.
  Result<WorkOrder> List(int depth) {
    WorkOrder order;
    if (depth > 8) return Bad("brackets nested too deeply");
    for (SkipSpaces(); at_ < text_.size() && text_[at_] != ')'; SkipSpaces()) {
      WorkOrder piece;
      if (text_[at_] == '(') {
        ++at_;
        HEDDLE_ASSIGN(piece, List(depth + 1));
        if (at_ >= text_.size()) return Bad("missing ')'");
        ++at_;
      } else {
        HEDDLE_ASSIGN(const WorkItem item, Item());
        piece.push_back(item);
      }
      int32_t times = 1;
      if (at_ < text_.size() && text_[at_] == '*') {
        ++at_;
        HEDDLE_ASSIGN(times, Number());
        if (times == 0) return Bad("nothing is done 0 times");
        if (piece.empty()) return Bad("nothing to repeat");
      }
      if (order.size() + piece.size() * static_cast<size_t>(times) > most_) {
        return Bad("the order is too long");
      }
      for (int32_t k = 0; k < times; ++k) order.insert(order.end(), piece.begin(), piece.end());
    }
    return order;
  }

  Result<WorkItem> Item() {
    static constexpr std::string_view kKinds = "FBIW";
    if (kKinds.find(text_[at_]) == std::string_view::npos) return Bad("expected F, B, I or W");
    WorkItem item;
    item.kind = static_cast<WorkKind>(text_[at_++]);
    item.microbatch = kNext;
    if (DigitNext()) {
      HEDDLE_ASSIGN(item.microbatch, Number());
    } else if (at_ < text_.size() && text_[at_] == '-') {
      ++at_;
      item.microbatch = kPrevious;
    }
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      HEDDLE_ASSIGN(item.chunk, Number());
    }
    return item;
  }

  std::string_view text_;
  std::string where_;
  size_t most_;
  size_t at_ = 0;
};

// Tokens with a repetition count: the units that brackets group.
struct Token {
  std::string text;
  int times = 1;

  bool operator==(const Token&) const = default;
  std::string ToString() const { return times == 1 ? text : fmt::format("{}*{}", text, times); }
};

std::vector<Token> Tokens(const WorkOrder& order) {
  std::vector<Token> tokens;
  Counter counter;
  for (const WorkItem& item : order) {
    std::string text(1, static_cast<char>(item.kind));
    const int32_t next = counter.Next(item);
    if (item.microbatch == next - 2) {
      text += '-';
    } else if (item.microbatch != next) {
      text += std::to_string(item.microbatch);
    }
    if (item.chunk != 0) text += fmt::format(".{}", item.chunk);
    counter.Saw(item);
    if (!tokens.empty() && tokens.back().text == text) {
      ++tokens.back().times;
    } else {
      tokens.push_back({text});
    }
  }
  return tokens;
}

}  // namespace

Result<WorkOrder> ParseOrder(std::string_view text, const std::string& where, size_t most) {
  return OrderParser(text, where, most).Parse();
}

std::string PrintOrder(const WorkOrder& order) {
  constexpr size_t kLongestGroup = 32;
  std::vector<Token> tokens = Tokens(order);
  std::string out;
  const auto put = [&](const std::string& text) { out += (out.empty() ? "" : " ") + text; };
  for (size_t at = 0; at < tokens.size();) {
    size_t best_length = 0, best_times = 1;
    for (size_t length = 2; length <= kLongestGroup && at + 2 * length <= tokens.size(); ++length) {
      size_t times = 1;
      while (at + (times + 1) * length <= tokens.size() &&
             std::equal(tokens.begin() + static_cast<ptrdiff_t>(at),
                        tokens.begin() + static_cast<ptrdiff_t>(at + length),
                        tokens.begin() + static_cast<ptrdiff_t>(at + times * length))) {
        ++times;
      }
      if (times > 1 && (times - 1) * length > (best_times - 1) * best_length) {
        best_length = length;
        best_times = times;
      }
    }
    if (best_times == 1) {
      put(tokens[at++].ToString());
      continue;
    }
    std::string group;
    for (size_t k = 0; k < best_length; ++k) {
      group += (k == 0 ? "" : " ") + tokens[at + k].ToString();
    }
    put(fmt::format("({})*{}", group, best_times));
    at += best_length * best_times;
  }
  return out;
}

}  // namespace heddle
